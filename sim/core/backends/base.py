"""The seam between the runtime and the back ends, and the argument block that both sides agree on.

A compiled kernel is `void NAME(ptr block, i64 begin, i64 end)`.  The block is a row of int64 slots:

    0 .. 3   launch dimensions d0 .. d3 (1 where unused)
    4        address of an error record (int64[8]), or 0
    5 ..     per parameter, in order: a scalar takes one slot (its bits, little endian, in the low bytes); an array
             takes 1 + 2 ndim: data address, shape, byte strides

The error record: [0] flag, [1] kind, [2] site number, [3] linear thread, [4] index, [5] bound.  The first failure wins.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sim.core.lang.errors import SimError, Span
from sim.core.lang.ir.core import Func, Op, split_memory, walk
from sim.core.lang.types import ArrayType, Scalar, Type

ERROR_SLOT, FIRST_PARAM = 4, 5
ASSERT_FAILED, OUT_OF_BOUNDS = 1, 2
LANES = 8
"""Threads that code for the CPU takes at a time, where that pays.  A launch of fewer gets code that is compiled in a
fraction of the time, with the same results to the bit: loops over threads as they are."""


@dataclass(frozen=True)
class Site:
    """A place that an error record can name: an assertion or a checked access."""

    kind: int
    span: Span | None
    text: str
    """The message of an assertion, or the parameter that is indexed ("": a value of the thread)."""
    derivative: bool = False
    """Whether it is an assertion about a derivative, and no part of the user's kernel."""


Record = tuple[str, list[Site]]
"""What an executable is found again by: the key of its code on disk, and the sites."""


class Executable(Protocol):
    """A compiled kernel.  `run(block address, begin, end)` executes the threads of linear index begin .. end - 1."""

    sites: list[Site]

    @property
    def record(self) -> Record | None: ...

    def run(self, block: int, begin: int, end: int) -> None: ...


class Backend(Protocol):
    """Compiles kernels.  `check`: compare indices with the shape; outside, arrays read 0 and nothing is written.

    few_apart: whether it has other code for launches of less than `LANES` threads, which `func.attrs["few"]` asks for.
    kept_as: what its code depends on beside the function, where it is kept on disk; else "".
    """

    name: str
    few_apart: bool

    @property
    def kept_as(self) -> str: ...

    def begin(self, func: Func, check: bool = False, soon: bool = False) -> Callable[[], Executable] | None:
        """Begins to compile beside other work; what is returned waits for the end.  None where there is no such way.

        soon: before what is not.
        """

    def compile(self, func: Func, check: bool = False) -> Executable: ...

    def again(self, record: Record) -> Executable | None:
        """The executable with this record, from the disk; None where its code is there no more."""


def error_sites(func: Func, check: bool) -> tuple[list[Site], dict[Op, int]]:
    """The sites of a kernel in program order, and the site number of each operation ."""
    sites: list[Site] = []
    numbers: dict[Op, int] = {}
    for op in walk(func.body):
        if op.name == "assert":
            site = Site(ASSERT_FAILED, op.span, op.attrs.get("message") or "", bool(op.attrs.get("derivative")))
        elif check and op.row.memory:
            site = Site(OUT_OF_BOUNDS, op.span, op.operands[0].name)
        elif check and op.name == "in_bounds":
            site = Site(OUT_OF_BOUNDS, op.span, "")
        else:
            continue
        numbers[op] = len(sites)
        sites.append(site)
    return sites, numbers


def slots_of(kind: Type) -> int:
    """Slots of the argument block that a parameter of this type takes."""
    return 1 + 2 * kind.ndim if isinstance(kind, ArrayType) else 1


def param_slots(func: Func) -> list[int]:
    """The first slot of every parameter."""
    at, out = FIRST_PARAM, []
    for p in func.params:
        if not isinstance(p.type, (ArrayType, Scalar)):
            raise SimError(f"kernel {func.name}: parameter '{p.name}' of type {p.type} cannot be passed from the host")
        out.append(at)
        at += slots_of(p.type)
    return out


def scalar_bits(kind: Scalar, value: Any) -> int:
    """The slot of a scalar argument: its bits in the low bytes."""
    return int.from_bytes(kind.np.type(value).tobytes(), "little", signed=False) & 0xFFFFFFFFFFFFFFFF


def argument_block(func: Func, dims: Sequence[int], args: Sequence[Any], error: np.ndarray | None = None) -> np.ndarray:
    """The argument block of one launch, from NumPy arrays (None: a null array) and Python or NumPy scalars.

    Array arguments have the shape of the kernel's array followed by the shape of one element (a struct: none).
    The caller keeps the arrays alive.
    """
    slots: list[Any] = []
    for p, value in zip(func.params, args, strict=True):
        if isinstance(p.type, ArrayType):
            ndim = p.type.ndim
            if value is None:
                slots += [0] * slots_of(p.type)
            else:
                slots += [value.ctypes.data, *value.shape[:ndim], *value.strides[:ndim]]
        else:
            assert isinstance(p.type, Scalar)
            slots.append(scalar_bits(p.type, value))
    head = [*dims, *[1] * (4 - len(dims)), 0 if error is None else error.ctypes.data]
    return np.array([s - (1 << 64) if s >= 1 << 63 else s for s in [*head, *slots]], dtype=np.int64)


def argument_slots(dims: Sequence[int], arrays: Sequence[tuple[int, Sequence[int], Sequence[int]]]) -> np.ndarray:
    """The argument block of a kernel that takes arrays only: (data address, shape, byte strides) of each."""
    slots = [*dims, *[1] * (4 - len(dims)), 0]
    for address, shape, strides in arrays:
        slots += [address, *shape, *strides]
    return np.array(slots, dtype=np.int64)


def int64_view(address: int, count: int) -> np.ndarray:
    """The `count` int64 at an address, without a copy."""
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(address))


def leaf_offsets(op: Op) -> tuple[int, ...]:
    """Byte offsets, from the start of an element, of the leaves that a memory operation may touch."""
    element = split_memory(op)[0].type.dtype  # type: ignore[attr-defined]
    leaves = getattr(element, "leaves", None)
    return tuple(leaves[k].offset for k in op.leaves) if leaves is not None else (0,)


def print_text(template: str, values: Sequence[Any]) -> str:
    """What `print` shows: the template is one of `str.format`, its fields are the scalars in order."""
    return template.format(*values)


def symbol_name(func: Func) -> str:
    """The entry point: the prefix keeps a kernel called `sin` apart from the C library's."""
    return "kernel_" + re.sub(r"\W", "_", func.name, flags=re.ASCII)
