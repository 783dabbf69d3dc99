"""Argument packing: how the arguments of a launch lie in memory for a compiled function.

The launch dimensions and the address of the error record come first, then the parameters in order: an array is its
address, shape and strides; a number has eight bytes.  A launch has a few microseconds: so arrays keep their part ready
(`array.slots`), and a block is a concatenation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
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


class LaunchError(SimError, TypeError, ValueError, RuntimeError):
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


@lru_cache
def _nothing(ndim: int) -> Memory:
    """What stands for an array argument that is None."""
    return Memory(0, (0,) * ndim, (0,) * ndim, True, None)


@lru_cache(4096)
def _header(dims: tuple[int, ...], fault: int) -> bytes:
    return _HEADER.pack(*dims, *(1,) * (4 - len(dims)), fault)


def block_of(dims: tuple[int, ...], fault: int, arguments: bytes) -> bytes:
    """The argument block of a launch: its dimensions, the address of the error record (0: none), and what
    `ArgumentPacking.packed` made."""
    return _header(dims, fault) + arguments


_CONTENT = bytes.__basicsize__ - 1
"""Where the content of a bytes object begins: it ends the object, with a zero behind it (Python's `PyBytesObject`)."""


def address_of_block(block: bytes) -> int:
    """Where a block lies, as long as it lives: `ctypes.c_char_p` finds that too, in five times the time."""
    return id(block) + _CONTENT


@lru_cache(1024)
def _packer(formats: tuple[str | None, ...]) -> Callable[[FlatArguments], tuple[bytes, LayoutFlags]]:
    """What `ArgumentPacking.packed` calls, for numbers of these formats and arrays (None): one expression without a
    loop, because that takes half the time.  It reads

        lambda args: (b"".join((args[0].slots, number_1(args[1]))), (args[0].layout_flags,))
    """
    arrays = [k for k, form in enumerate(formats) if form is None]
    parts = [f"args[{k}].slots," if form is None else f"number_{k}(args[{k}])," for k, form in enumerate(formats)]
    flags = [f"args[{k}].layout_flags," for k in arrays]
    numbers = {f"number_{k}": struct.Struct("<" + form).pack for k, form in enumerate(formats) if form is not None}
    made: Callable[[FlatArguments], tuple[bytes, LayoutFlags]]
    made = eval(f'lambda args: (b"".join(({"".join(parts)})), ({"".join(flags)}))', numbers)  # noqa: S307
    return made


def forms_of(func: Func) -> tuple[str | int, ...]:
    """Of each parameter what `ArgumentPacking` has to know: the dimensions of an array, the format of a number."""
    kinds = [p.type for p in func.params]
    return tuple(
        kind.ndim if isinstance(kind, ArrayType) else scalar_format(kind) if isinstance(kind, Scalar) else ""
        for kind in kinds
    )


class ArgumentPacking:
    """How the arguments of one function become its block."""

    def __init__(self, name: str, names: tuple[str, ...], forms: tuple[str | int, ...]) -> None:
        self._name, self._numbers = name, {k: names[k] for k, form in enumerate(forms) if isinstance(form, str)}
        self._nothing = [(k, _nothing(form)) for k, form in enumerate(forms) if isinstance(form, int)]
        """Numbers of the arrays, with what stands for None there."""
        self._packed = _packer(tuple(None if isinstance(form, int) else form for form in forms))

    def packed(self, args: FlatArguments) -> tuple[bytes, LayoutFlags]:
        """The arguments as bytes, what code may rely on of arrays.  Raises LaunchError where a number does not fit."""
        try:
            return self._packed(args)
        except (struct.error, OverflowError) as error:
            numbers = ", ".join(f"'{name}' = {args[k]!r}" for k, name in self._numbers.items())
            raise LaunchError(f"kernel '{self._name}': a number does not fit its type, {error}: {numbers}") from None
        except AttributeError:
            missing = [(k, nothing) for k, nothing in self._nothing if args[k] is None]
            if not missing:
                raise
        given = list(args)
        for k, nothing in missing:
            given[k] = nothing
        return self.packed(given)


def scalar_format(kind: Scalar) -> str:
    """struct format of one 8-byte slot that holds this scalar in its low bytes."""
    codes = {("f", 16): "e6x", ("f", 32): "f4x", ("f", 64): "d", ("b", 8): "?7x"}
    widths = {8: "b7x", 16: "h6x", 32: "i4x", 64: "q"}
    if (kind.kind, kind.bits) in codes:
        return codes[kind.kind, kind.bits]
    code = widths[kind.bits]
    return code.upper()[0] + code[1:] if kind.kind == "u" else code
