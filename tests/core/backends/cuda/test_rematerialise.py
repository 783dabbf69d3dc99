"""Barriers: kernels that compute again what they would hold for long.  The same bits come out, and fewer values are
alive."""

from __future__ import annotations

import numpy as np
import pytest
from tools.backends.kernels import BACKENDS, launch, same_bits
from tools.cuda.on_cpu import Batch, needs_gxx, renamed
from tools.cuda.project_kernels import Variant, solver_variants
from tools.fuzz.backends import THREADS, Program, arguments

from sim.core.backends import cache
from sim.core.backends.cuda import body as cuda_body
from sim.core.backends.cuda import rematerialise as remat
from sim.core.backends.cuda.rematerialise import BARRIERS, pressure, rematerialise
from sim.core.lang.ir.core import Func, walk
from sim.core.lang.types import ArrayType, float32

CHOSEN = (
    "project_bend_next_own_adjoint", "project_bend_averaged_adjoint", "warm_start_volume_adjoint",
    "project_neo_hookean_first_own_adjoint", "force_stvk",
    "force_stvk_adjoint", "project_cell_volume_next_own_adjoint", "project_deviatoric_first_own",
)  # fmt: skip


def variant(name: str) -> Variant:
    return next(v for v in solver_variants(float32) if v.func.name == name)


def most(func: Func) -> int:
    return max(pressure(func.body.ops))


def barriers(func: Func) -> int:
    return len({op.attrs["number"] for op in walk(func.body) if op.name == "opt_barrier"})


def sample(func: Func, threads: int) -> list:
    """Arguments for which threads touch elements of their own; floats near one."""
    rng = np.random.default_rng(5)
    out: list = []
    for p in func.params:
        if not isinstance(p.type, ArrayType):
            out.append(0 if p.type.is_int else 0.01)  # type: ignore[attr-defined]
            continue
        shape = {1: (8 * threads,), 2: (80, threads)}[p.type.ndim]
        if p.name == "points":
            out.append(rng.permutation(8 * threads).reshape(threads, 8).astype(np.int32))
        else:
            components = len(getattr(p.type.dtype, "leaves", ())) or None
            out.append(rng.normal(1.0, 0.5, shape + ((components,) if components else ())).astype(np.float32))
    return out


@needs_gxx
def test_the_same_bits() -> None:
    """Constraints and their adjoints, with and without barriers."""
    plain = [variant(name).func for name in CHOSEN]
    batch = Batch([renamed(f, f.name) for f in plain])
    reference = Batch([Func(f.name, f.body, f.span, f.dims, {**f.attrs, "serial": True}) for f in plain])
    for func in plain:
        assert barriers(batch.writers[func.name].rematerialised), func.name
        args = [sample(func, 5) for _ in range(2)]
        batch.launch(func.name, [5], args[0])
        reference.launch(func.name, [5], args[1])
        changed = 0
        for p, a, b, before in zip(func.params, *args, sample(func, 5), strict=True):
            assert not isinstance(a, np.ndarray) or same_bits(a, b), f"{p.name} of {func.name}"
            changed += isinstance(a, np.ndarray) and not same_bits(a, before)
        assert changed, func.name


@needs_gxx
@pytest.mark.parametrize("budget", [2, 6])
def test_random_programs(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops, branches, atomics, memory that is overwritten: barriers wherever they spare anything, and the bits of the
    interpreter."""
    monkeypatch.setattr(cuda_body, "BUDGET", {False: budget, True: budget})
    monkeypatch.setattr(remat, "_GROWTH", 4.0)
    seeds = range(100, 125)
    batch = Batch([renamed(Program(seed).kernel(), f"program_{seed}") for seed in seeds])
    assert sum(barriers(w.rematerialised) for w in batch.writers.values()) >= 10
    for seed in seeds:
        func = Program(seed).kernel()
        dims = [THREADS] if func.dims == 1 else [1, THREADS]
        expected, got = arguments(seed), arguments(seed)
        first, _ = launch(BACKENDS[0], func, dims, expected)
        assert first.tolist() == batch.launch(f"program_{seed}", dims, got).tolist()
        for k, (a, b) in enumerate(zip(expected[:5], got[:5], strict=True)):
            assert same_bits(np.ascontiguousarray(a), np.ascontiguousarray(b)), f"seed {seed}, argument {k}\n{func}"


def test_fewer_values_are_alive() -> None:
    for name, before, after in (
        ("project_bend_next_own_adjoint", 149, 101),
        ("warm_start_volume_adjoint", 115, 101),
        ("force_stvk", 90, 52),
    ):
        v = variant(name)
        budget = remat.BUDGET[v.role == "adjoint"]
        assert most(v.func) >= before and most(rematerialise(v.func, budget)) <= after
        assert rematerialise(v.func, 1000) is v.func, "what fits stays as it is"


def test_memory_that_is_written_is_not_read_opaque() -> None:
    """A reload may only see what the first load has seen: never behind a write to the same place, or to what may
    overlap."""
    func = variant("project_bend_next_own_adjoint").func
    rematerialised = rematerialise(func, 60)
    written: set = set()
    names = func.attrs["exclusive"]
    loads: dict[str, int] = {}
    for op in rematerialised.body.ops:
        if op.name == "load":
            array = op.operands[0]
            loads[array.name] = loads.get(array.name, 0) + 1
            assert array.name not in written or array.name in names
        written |= {
            o.operands[0].name for o in walk(type(func.body)(ops=[op])) if o.name in ("store", "accum", "atomic")
        }
    assert loads["record_float32"] > sum(
        op.name == "load" and op.operands[0].name == "record_float32" for op in func.body.ops
    )
    unsure = Func(func.name, func.body, func.span, func.dims, {"adjoint": True})
    before = sum(op.name == "load" for op in func.body.ops)
    assert sum(op.name == "load" for op in rematerialise(unsure, 60).body.ops) <= before, (
        "without promises arrays may overlap: nothing is loaded twice"
    )


def test_places_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    func = variant("warm_start_bend_adjoint").func
    first = rematerialise(func, 77)
    assert 1 <= barriers(first) <= BARRIERS
    monkeypatch.setattr(remat, "_search", lambda *args: pytest.fail("the places are known"))
    again = rematerialise(func, 77)
    assert [op.name for op in again.body.ops] == [op.name for op in first.body.ops]
    monkeypatch.setattr(cache, "load", lambda key: None)
    with pytest.raises(pytest.fail.Exception, match="known"):
        rematerialise(func, 77)
