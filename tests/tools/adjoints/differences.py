"""Adjoints of kernels run by the interpreter on NumPy arrays, without launches and tapes, against central
differences."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from sim.core.backends.interp import InterpBackend
from sim.core.lang.autodiff.kernel_adjoint import KernelAdjoint, kernel_adjoint
from sim.core.lang.autodiff.to_be_recorded import ToBeRecorded, to_be_recorded
from sim.core.lang.ir.core import Func
from sim.core.runtime.launch.kernel import Kernel
from tools.backends.kernels import launch

ENTRIES = 200
"""Room in every log, per thread."""


def traced(kernel: Kernel, source: bool = False) -> Func:
    """The kernel for the types of its annotations.  source: with calls of functions that have a gradient function."""
    found = kernel.specialise(tuple(p.type for p in kernel.parameters))
    return found.source if source else found.func


def numbers(*shape: int) -> np.ndarray:
    """Some numbers, the same for the same shape, in a range where all programs are smooth."""
    return np.random.default_rng(sum(shape)).uniform(0.4, 1.2, shape)


def numbers_of(func: Func, names: Collection[str]) -> list[int]:
    return [k for k, p in enumerate(func.params) if p.name in names]


def tbr_of(func: Func, active: Collection[str], aliases: Sequence[Collection[int]] = ()) -> ToBeRecorded:
    return to_be_recorded(func, numbers_of(func, active), aliases)


class Fault(Exception):
    """An assertion of the kernel failed, or an index was outside of its array."""


def run(func: Func, dims: Sequence[int], args: Sequence[Any]) -> None:
    error, _ = launch(InterpBackend(), func, dims, args, check=True)
    if error.any():
        raise Fault


def _copied(args: Sequence[Any]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def gradients(
    func: Func,
    dims: Sequence[int],
    args: Sequence[Any],
    seeds: dict[str, np.ndarray],
    record: Collection[str] = (),
) -> tuple[dict[str, np.ndarray], KernelAdjoint]:
    """Gradients by the arrays named in `seeds` before the launch, for cotangents `seeds` of what they hold after it."""
    names = [p.name for p in func.params]
    tbr = tbr_of(func, seeds)
    made = kernel_adjoint(tbr, numbers_of(func, record))
    threads = int(np.prod(dims))
    records = [np.zeros((slots, threads), kind.np) for kind, slots in made.caches]
    returns = [np.zeros((ENTRIES, threads), kind.np) for kind in made.returned]
    after = _copied(args)
    if made.recording is None:
        run(func, dims, after)
    else:
        counts = [np.zeros(16, np.int32)] if made.returned or made.logs else []
        run(made.recording, dims, [*after, *records, *returns, *counts])
    replayed = {k for k, p in enumerate(func.params) if k in tbr.replayed}
    before = _copied(args)
    values = [
        a if not isinstance(a, np.ndarray) or k in made.live_in or k in replayed else None for k, a in enumerate(before)
    ]
    adjoints = {name: np.array(seeds[name]) for name in names if name in seeds}
    logs = [np.zeros((threads, ENTRIES * width), kind.np) for log in made.logs for kind, width in log.arrays]
    run(made.func, dims, [*values, *adjoints.values(), *records, *returns, *logs, *(after[k] for k in made.finals)])
    for a, b in zip(before, args, strict=True):
        assert np.array_equal(a, b), "the adjoint leaves values as they were"
    return adjoints, made


def differences(
    func: Func, dims: Sequence[int], args: Sequence[Any], seeds: dict[str, np.ndarray], h: float = 1e-6
) -> dict[str, np.ndarray]:
    """The same by central differences."""
    names = [p.name for p in func.params]

    def loss(changed: list[Any]) -> float:
        run(func, dims, changed)
        return sum(float(np.sum(seeds[name] * changed[names.index(name)])) for name in seeds)

    found = {}
    for name in seeds:
        k = names.index(name)
        found[name] = np.zeros(args[k].shape)
        for at in np.ndindex(*args[k].shape):
            ends = []
            for side in (1, -1):
                moved = _copied(args)
                moved[k][at] += side * h
                ends.append(loss(moved))
            found[name][at] = (ends[0] - ends[1]) / (2 * h)
    return found


def check(
    kernel: Kernel,
    dims: Sequence[int],
    args: Sequence[Any],
    active: Collection[str],
    record: Collection[str] = (),
    tolerance: float = 1e-7,
) -> KernelAdjoint:
    """The adjoint gives what differences give, for random cotangents of the arrays named in `active`; returns it."""
    func = traced(kernel)
    rng = np.random.default_rng(5)
    seeds = {p.name: rng.uniform(0.5, 1.5, a.shape) for p, a in zip(func.params, args, strict=True) if p.name in active}
    found, made = gradients(func, dims, args, seeds, record)
    wanted = differences(func, dims, args, seeds)
    for name in seeds:
        np.testing.assert_allclose(found[name], wanted[name], rtol=tolerance, atol=tolerance, err_msg=name)
    return made
