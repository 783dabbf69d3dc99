"""Hand-built kernels for the tests of the back ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import sim.core.lang.ir.ops  # noqa: F401 fills the table
from sim.core.backends.base import Backend, argument_block
from sim.core.backends.interp import InterpBackend
from sim.core.backends.llvm.backend import LlvmBackend
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Block, Func, Value
from sim.core.lang.ir.verifier import verify
from sim.core.lang.types import ArrayType, Type, array_type, float32

BACKENDS = [InterpBackend(), LlvmBackend()]


def kernel(types: Sequence[Type], fill: Callable[..., Any], dims: int = 1, packed: bool = False) -> Func:
    """A kernel whose parameters are p0, p1, ... of these types; `fill(builder, *params)` emits its body."""
    block = Block([Value(t, f"p{k}") for k, t in enumerate(types)])
    with Builder(block) as b:
        fill(b, *block.params)
    func = verify(Func("test", block, dims=dims))
    if packed:
        func.attrs["packed"] = tuple(k for k, t in enumerate(types) if isinstance(t, ArrayType))
    return func


def launch(
    backend: Backend, func: Func, dims: Sequence[int], args: Sequence[Any], check: bool = False,
    splits: Sequence[int] | None = None,
) -> tuple[np.ndarray, list[Any]]:  # fmt: skip
    """Runs all threads (in ranges between `splits`); the error record and the sites."""
    error = np.zeros(8, np.int64)
    block = argument_block(func, dims, args, error)
    executable = backend.compile(func, check)
    cuts = splits if splits is not None else [0, int(np.prod(dims))]
    for begin, end in zip(cuts, cuts[1:], strict=False):
        executable.run(block.ctypes.data, begin, end)
    return error, executable.sites


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit for bit, except that any NaN equals any other."""
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    nan = np.isnan(a)
    bits = f"u{a.dtype.itemsize}"
    return bool(np.array_equal(nan, np.isnan(b)) and np.array_equal(a.view(bits)[~nan], b.view(bits)[~nan]))


def scale(factor: float):
    def fill(b, x):
        b.store(x, [b.tid(0)], [0], [b.load(x, [b.tid(0)], [0])[0] * factor])

    return kernel([array_type(float32)], fill)


def result(factor: float) -> float:
    x = np.ones(3, np.float32)
    launch(LlvmBackend(), scale(factor), [3], [x])
    return float(x[2])
