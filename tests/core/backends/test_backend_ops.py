"""Every row of the op table: LLVM and interpreter agree with its NumPy meaning, on its domain and at the edges."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tools.backends.kernels import BACKENDS, kernel, launch, same_bits
from tools.backends.operands import CASES, INEXACT, edges, samples

from sim.core.backends.interp import convert
from sim.core.lang.ir.core import emit
from sim.core.lang.ir.table import OPS
from sim.core.lang.types import SCALARS, Scalar, array_type, bool_


@functools.cache
def outcome(name: str, kind: Scalar) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What NumPy, the interpreter and LLVM make of the samples."""
    columns = samples(name, kind)
    out = bool_ if OPS[name].result == "bool" else kind
    types = [array_type(bool_ if name == "select" and k == 0 else kind) for k in range(len(columns))]

    def fill(b, y, *operands):
        i = b.tid(0)
        b.store(y, [i], [0], [emit(name, *[b.load(x, [i], [0])[0] for x in operands])])

    func = kernel([array_type(out), *types], fill)
    results = [np.zeros(len(columns[0]), out.np) for _ in BACKENDS]
    for backend, y in zip(BACKENDS, results, strict=True):
        launch(backend, func, [len(y)], [y, *columns])
    with np.errstate(all="ignore"):
        meaning = np.asarray(OPS[name].numpy(*columns)).astype(out.np)
    return meaning, *results


@pytest.mark.parametrize(("name", "kind"), CASES, ids=[f"{n}-{s.name}" for n, s in CASES])
def test_row(name: str, kind: Scalar) -> None:
    meaning, interp, llvm = outcome(name, kind)
    if name in ("min", "max") and kind.is_float:  # of two zeros either may come out
        interp, llvm, meaning = interp + 0.0, llvm + 0.0, meaning + 0.0
    if name in INEXACT:
        np.testing.assert_array_max_ulp(llvm, interp, 2)
        np.testing.assert_array_max_ulp(interp, meaning, 4)  # NumPy's own vector code differs from its scalar code
    else:
        assert same_bits(interp, meaning)
        assert same_bits(llvm, meaning)


@pytest.mark.parametrize("source", SCALARS, ids=str)
def test_casts(source: Scalar) -> None:
    """To every type: truncation, saturation, NaN to 0, wrapping, rounding."""
    x = edges(source)
    if source.is_float:
        limits = [127.5, 128, 255.9, 256, -129, -0.9, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 2.0**64]
        with np.errstate(over="ignore"):
            x = np.concatenate([x, np.array(limits, source.np)])

    def fill(b, x, *outs):
        i = b.tid(0)
        value = b.load(x, [i], [0])[0]
        for y in outs:
            b.store(y, [i], [0], [emit("cast", value, type=y.type.dtype)])

    func = kernel([array_type(source), *map(array_type, SCALARS)], fill)
    results = [[np.zeros(len(x), s.np) for s in SCALARS] for _ in BACKENDS]
    for backend, ys in zip(BACKENDS, results, strict=True):
        launch(backend, func, [len(x)], [x, *ys])
    for kind, a, b in zip(SCALARS, *results, strict=True):
        assert same_bits(a, b), f"{source} to {kind}: {x} gave {a} and {b}"
        if source.is_float and kind.is_int:
            info = np.iinfo(kind.np)
            expected = [0 if np.isnan(v) else int(min(max(np.trunc(float(v)), info.min), info.max)) if np.isfinite(v)
                        else (info.max if v > 0 else info.min) for v in x]  # fmt: skip
            expected = [min(max(e, info.min), info.max) for e in expected]
            assert [int(v) for v in b] == expected


@pytest.mark.parametrize("source", [s for s in SCALARS if s is not bool_], ids=str)
def test_reinterpreted_bits(source: Scalar) -> None:
    x = edges(source)
    targets = [s for s in SCALARS if s.size == source.size and s is not bool_]

    def fill(b, x, *outs):
        i = b.tid(0)
        value = b.load(x, [i], [0])[0]
        for y in outs:
            b.store(y, [i], [0], [emit("reinterpret", value, type=y.type.dtype)])

    func = kernel([array_type(source), *map(array_type, targets)], fill)
    for backend in BACKENDS:
        ys = [np.zeros(len(x), s.np) for s in targets]
        launch(backend, func, [len(x)], [x, *ys])
        assert all(y.tobytes() == x.tobytes() for y in ys)


def test_convert_saturates() -> None:
    assert convert(np.float32(1e30), SCALARS[3]) == 2**31 - 1
    assert convert(np.float32(-1e30), SCALARS[3]) == -(2**31)
    assert convert(np.float64("nan"), SCALARS[3]) == 0


def test_integer_division_by_zero_is_zero() -> None:
    for name in ("div", "mod"):
        for kind in SCALARS:
            if kind.is_int:
                columns = samples(name, kind)
                for result in outcome(name, kind):
                    assert not result[columns[1] == 0].any()
