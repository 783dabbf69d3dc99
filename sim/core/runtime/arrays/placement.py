"""Where the elements of a new array lie: in fresh memory, in memory shared with host data, or at a given address."""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sim.core.lang.errors import ArrayError, NotSupportedError
from sim.core.lang.types import Struct, Type, alignment, as_type, extent, is_open, size_of
from sim.core.runtime.devices.device import DeviceLike, get_device
from sim.core.runtime.memory.buffer import Buffer
from sim.core.runtime.memory.elements import HostData, element, to_host
from sim.core.runtime.memory.host_memory import address_of, buffer_of, find
from sim.core.runtime.memory.spans import packed_strides, reach

MAX_DIM = 4
_EXTENT = 2**31 - 1  # shapes are int32 in kernels

ShapeLike = int | Sequence[int] | np.ndarray
"""An extent, or one to four of them."""
DType = Any
"""What stands for an element type: one of ours, a type of NumPy, `float`, `int`, `bool`; None where data tell."""
Placement = tuple[Buffer, int, tuple[int, ...], tuple[int, ...], Type]
"""Where elements lie: buffer, offset [bytes], shape, strides [bytes], type.  A plain tuple: views are made often."""


def as_shape(shape: ShapeLike) -> tuple[int, ...]:
    """A shape of one to four extents from an integer or a sequence."""
    if isinstance(shape, int):
        shape = (shape,)
    try:
        extents = tuple(map(operator.index, shape if hasattr(shape, "__len__") else (shape,)))
    except TypeError:
        raise ArrayError(f"a shape is an integer or a sequence of integers, not {shape!r}") from None
    if not 1 <= len(extents) <= MAX_DIM:
        raise ArrayError(f"an array has 1 to {MAX_DIM} dimensions, not {len(extents)} (shape {extents})")
    if min(extents) < 0:
        raise ArrayError(f"shape {extents}: Array shapes must be non-negative")
    if max(extents) > _EXTENT:
        most = f"the maximum representable value of a signed 32-bit integer, {_EXTENT}"
        raise ArrayError(f"shape {extents}: Array shapes must not exceed {most}")
    return extents


def annotated(item: Any, ndim: int) -> tuple[DType, int]:
    """Element type and dimensions of `array[dtype]` and `array[dtype, Literal[2]]`.  ndim: where none are named."""
    if not isinstance(item, tuple):
        return item, ndim
    if len(item) != 2:
        raise ArrayError(f"array[dtype] or array[dtype, Literal[2]] is an annotation; {len(item)} items are not")
    if ndim != 1:
        raise ArrayError(f"array{ndim}d[dtype] takes a single type parameter, got {item}")
    named = extent(item[1])
    return item[0], named if is_open(named) else operator.index(named)


def in_fresh_memory(
    shape: ShapeLike,
    dtype: DType,
    device: DeviceLike,
    zero: bool,
    pinned: bool = False,
    strides: Sequence[int] | None = None,
) -> Placement:
    """Elements in new memory, packed where no `strides` are given; its content is undefined unless `zero`.

    pinned: at hand for GPUs.
    """
    kind, extents = as_type(dtype), as_shape(shape)
    element(kind)  # refuses types that memory cannot hold
    size = size_of(kind)
    if strides is None:
        steps, nbytes = packed_strides(extents, size), math.prod(extents) * size
    else:
        steps = _as_strides(strides, extents, kind)
        if min(steps) < 0:
            raise NotSupportedError(
                f"Negative strides {steps} of new memory are not supported; make it, and take x[::-1]"
            )
        nbytes = 0 if 0 in extents else reach(extents, steps)[1] + size
    on = get_device(device)
    buffer = on.allocate_pinned(nbytes) if pinned else on.allocate(nbytes, zero)
    return buffer, 0, extents, steps, kind


def _as_strides(strides: Sequence[int] | None, extents: tuple[int, ...], kind: Type) -> tuple[int, ...]:
    if strides is None:
        return packed_strides(extents, size_of(kind))
    if len(strides) != len(extents):
        raise ArrayError(f"Invalid number of strides, expected {len(extents)} strides, got {len(strides)}")
    return tuple(operator.index(s) for s in strides)


def host_layout(data: HostData, dtype: DType) -> tuple[np.ndarray, Type, tuple[int, ...]]:
    """Host data as NumPy of the element type, the type, and the shape without the component axes."""
    kind, host = to_host(data, dtype)
    return host, kind, as_shape(host.shape[: host.ndim - len(element(kind)[1])])


def in_host_memory(data: HostData, dtype: DType, device: DeviceLike) -> Placement:
    """The memory of NumPy data itself; raises where that cannot be."""
    host, kind, shape = host_layout(data, dtype)
    why = _unshareable(data, host, kind, len(shape))
    if why:
        raise ArrayError(f"the data cannot be shared: {why}; use copy=True")
    target = get_device(device)
    if not target.is_cpu:
        raise ArrayError(f"NumPy data cannot be shared with {target}; use copy=True")
    buffer = buffer_of(host, target)
    return buffer, address_of(host) - buffer.address, shape, host.strides[: len(shape)], kind


def _unshareable(data: HostData, host: np.ndarray, kind: Type, outer: int) -> str:
    """Why `host`, made from `data`, cannot become an array without a copy; empty if it can."""
    if isinstance(data, list | tuple | int | float) or not np.may_share_memory(host, np.asarray(data)):
        given = getattr(data, "dtype", type(data).__name__)
        return f"{given} data are not elements of {kind}"
    if not host.flags.writeable:
        return "it is read-only"
    if host.size and host.strides[outer:] != element(kind)[2] and not isinstance(kind, Struct):
        return f"the components of a {kind} are not packed"
    if any(stride == 0 and n > 1 for n, stride in zip(host.shape, host.strides, strict=True)):
        return "several elements lie at one address"
    if any(step % alignment(kind) for step in (address_of(host), *host.strides[:outer])):
        return f"it is not aligned to {alignment(kind)} bytes"
    return ""


def at_pointer(
    ptr: int,
    dtype: DType,
    shape: ShapeLike | None,
    strides: Sequence[int] | None,
    device: DeviceLike,
    capacity: int | None = None,
    deleter: Callable[[int, int], object] | None = None,
) -> Placement:
    """Memory by its address [bytes]: that of another array, or of somebody else, who keeps it alive, or whose `deleter`
    is called with address and bytes when no array uses it any more.

    capacity: bytes that are there, if there are more than the elements take.
    """
    if dtype is None or shape is None:
        raise ArrayError("memory given by ptr needs dtype and shape")
    kind, extents = as_type(dtype), as_shape(shape)
    element(kind)
    if not ptr and min(extents):
        raise ArrayError(f"memory for {math.prod(extents)} elements at address 0: there is none; use zeros(...)")
    steps = _as_strides(strides, extents, kind)
    low = high = 0
    if min(extents):
        low, last = reach(extents, steps)
        high = last + size_of(kind)
    target = get_device(device)
    buffer = find(ptr + low, high - low, target)
    if buffer is None:
        buffer = target.foreign(ptr + low, max(high, capacity or 0) - low)
    if deleter is not None:
        weakref.finalize(buffer, deleter, ptr, high if capacity is None else capacity)
    return buffer, ptr - buffer.address, extents, steps, kind
