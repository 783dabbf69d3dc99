"""Argument packing: how the arguments of a launch lie in memory for a compiled function.

The launch dimensions and the address of the error record come first, then the parameters in order: an array is its
address, shape and strides; a number has eight bytes.  A launch has a few microseconds: so arrays keep their part ready
(`array.slots`), a block is a concatenation, and blocks are used again.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sim.core.lang.errors import SimError
from sim.core.lang.ir.core import Func
from sim.core.lang.types import ArrayType, Scalar

FlatArguments = Sequence[Any]
"""The values of the parameters of a compiled function: an `array`, a `Memory` or None for an array, else a number."""
LayoutFlags = tuple[int, ...]
"""What is known of each array parameter in order, as bits: see `layout_flags_of`."""

_HEADER = struct.Struct("<5q")
NARROW = 8
"""Columns of an array of two dimensions, as of the points of constraints, up to which code is made for their number."""


def layout_flags_of(is_contiguous: bool, tight: bool, shape: tuple[int, ...]) -> int:
    """What code may rely on of an array, as bits: packed; no room behind for wide loads; its columns if few, else 0."""
    columns = shape[1] if is_contiguous and len(shape) == 2 and shape[1] <= NARROW else 0
    return is_contiguous | tight << 1 | columns << 2


_SLOTS = [struct.Struct(f"<{1 + 2 * ndim}q") for ndim in range(8)]


def slots_of(ptr: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    """Address, shape and strides of an array, as they stand in the argument block of a launch."""
    return _SLOTS[len(shape)].pack(ptr, *shape, *strides)


class LaunchError(SimError, TypeError, RuntimeError):
    """A launch whose arguments do not fit the kernel: names the argument and the cure."""


AnyOwner = Any
"""What keeps memory alive: a buffer, a snapshot of a tape, a NumPy array."""


class Memory:
    """Memory in the form of an array argument that is no `array`: a snapshot, or the caches of a launch."""

    __slots__ = ("ptr", "shape", "strides", "is_contiguous", "owner", "slots", "layout_flags")

    def __init__(
        self, ptr: int, shape: tuple[int, ...], strides: tuple[int, ...], is_contiguous: bool, owner: AnyOwner
    ) -> None:
        self.ptr, self.shape, self.strides, self.is_contiguous, self.owner = ptr, shape, strides, is_contiguous, owner
        self.slots = slots_of(ptr, shape, strides)
        self.layout_flags = layout_flags_of(is_contiguous, False, shape)  # snapshots end with spare bytes


class ArgumentBlock:
    """Memory for the arguments of one launch."""

    __slots__ = ("address", "_view")

    def __init__(self, size: int) -> None:
        memory = ctypes.create_string_buffer(size)
        self.address, self._view = ctypes.addressof(memory), memoryview(memory).cast("B")

    def __len__(self) -> int:
        return len(self._view)

    def fill(self, dims: tuple[int, ...], fault: int, parts: list[bytes]) -> None:
        """Write the dimensions, the address of the error record (0: none) and what `ArgumentPacking.parts` made."""
        self._view[:] = _header(dims, fault) + b"".join(parts)


def _nothing(ndim: int) -> bytes:
    """The part of an array argument that is None."""
    return slots_of(0, (0,) * ndim, (0,) * ndim)


@lru_cache(4096)
def _header(dims: tuple[int, ...], fault: int) -> bytes:
    return _HEADER.pack(*dims, *(1,) * (4 - len(dims)), fault)


class ArgumentPacking:
    """How the arguments of one function become its block."""

    def __init__(self, func: Func) -> None:
        self._name = func.name
        self._forms = [
            (
                k,
                struct.Struct("<" + scalar_format(p.type)).pack if isinstance(p.type, Scalar) else None,
                _nothing(p.type.ndim) if isinstance(p.type, ArrayType) else b"",
            )
            for k, p in enumerate(func.params)
        ]
        """By parameter: its number, what packs it if it is a number, and the part of an array that is None."""
        self._size = _HEADER.size + sum(len(number(0) if number else none) for _, number, none in self._forms)
        self._blocks: list[ArgumentBlock] = []

    def parts(self, args: FlatArguments) -> tuple[list[bytes], LayoutFlags]:
        """Bytes by argument, what code may rely on of arrays.  Raises LaunchError where a number does not fit."""
        parts = []
        layout_flags = []
        for i, number, none in self._forms:
            arg = args[i]
            if number is not None:
                try:
                    parts.append(number(arg))
                except (struct.error, OverflowError) as error:
                    raise LaunchError(f"kernel '{self._name}': an argument does not fit its type: {error}") from None
            elif arg is None:
                parts.append(none)
                layout_flags.append(1)
            else:
                parts.append(arg.slots)
                layout_flags.append(arg.layout_flags)
        return parts, tuple(layout_flags)

    def take(self) -> ArgumentBlock:
        """A block to use and to `give` back."""
        try:
            return self._blocks.pop()  # another thread may have taken the last one since a question
        except IndexError:
            return ArgumentBlock(self._size)

    def fresh(self) -> ArgumentBlock:
        """A block to keep."""
        return ArgumentBlock(self._size)

    def give(self, block: ArgumentBlock) -> None:
        self._blocks.append(block)


def scalar_format(kind: Scalar) -> str:
    """struct format of one 8-byte slot that holds this scalar in its low bytes."""
    codes = {("f", 16): "e6x", ("f", 32): "f4x", ("f", 64): "d", ("b", 8): "?7x"}
    widths = {8: "b7x", 16: "h6x", 32: "i4x", 64: "q"}
    if (kind.kind, kind.bits) in codes:
        return codes[kind.kind, kind.bits]
    code = widths[kind.bits]
    return code.upper()[0] + code[1:] if kind.kind == "u" else code
