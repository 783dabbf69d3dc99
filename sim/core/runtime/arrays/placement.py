"""Where the elements of a new array lie: in fresh memory, in memory shared with host data, or at a given address."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sim.core.lang.types import Struct, Type, alignment, as_type, size_of
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


class Placement(NamedTuple):
    """Elements of `dtype` in `buffer`; `offset` and `strides` in bytes."""

    buffer: Buffer
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Type


def as_shape(shape: ShapeLike) -> tuple[int, ...]:
    """A shape of one to four extents from an integer or a sequence."""
    if isinstance(shape, int):
        shape = (shape,)
    try:
        extents = tuple(map(operator.index, shape if hasattr(shape, "__len__") else (shape,)))
    except TypeError:
        raise TypeError(f"a shape is an integer or a sequence of integers, not {shape!r}") from None
    if not 1 <= len(extents) <= MAX_DIM:
        raise ValueError(f"an array has 1 to {MAX_DIM} dimensions, not {len(extents)} (shape {extents})")
    if min(extents) < 0 or max(extents) > _EXTENT:
        raise ValueError(f"shape {extents}: extents go from 0 to {_EXTENT}")
    return extents


def in_fresh_memory(shape: ShapeLike, dtype: DType, device: DeviceLike, zero: bool, pinned: bool = False) -> Placement:
    """Packed elements in new memory; its content is undefined unless `zero`.  pinned: at hand for GPUs."""
    kind, extents = as_type(dtype), as_shape(shape)
    element(kind)  # refuses types that memory cannot hold
    on, nbytes = get_device(device), math.prod(extents) * size_of(kind)
    buffer = on.allocate_pinned(nbytes) if pinned else on.allocate(nbytes, zero)
    return Placement(buffer, 0, extents, packed_strides(extents, size_of(kind)), kind)


def host_layout(data: HostData, dtype: DType) -> tuple[np.ndarray, Type, tuple[int, ...]]:
    """Host data as NumPy of the element type, the type, and the shape without the component axes."""
    kind, host = to_host(data, dtype)
    return host, kind, as_shape(host.shape[: host.ndim - len(element(kind)[1])])


def in_host_memory(data: HostData, dtype: DType, device: DeviceLike) -> Placement:
    """The memory of NumPy data itself; raises where that cannot be."""
    host, kind, shape = host_layout(data, dtype)
    why = _unshareable(data, host, kind, len(shape))
    if why:
        raise ValueError(f"the data cannot be shared: {why}; use copy=True")
    target = get_device(device)
    if not target.is_cpu:
        raise ValueError(f"NumPy data cannot be shared with {target}; use copy=True")
    buffer = buffer_of(host, target)
    return Placement(buffer, address_of(host) - buffer.address, shape, host.strides[: len(shape)], kind)


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
    ptr: int, dtype: DType, shape: ShapeLike | None, strides: Sequence[int] | None, device: DeviceLike
) -> Placement:
    """Memory by its address [bytes]: that of another array, or of somebody else, who keeps it alive."""
    if dtype is None or shape is None:
        raise TypeError("memory given by ptr needs dtype and shape")
    kind, extents = as_type(dtype), as_shape(shape)
    element(kind)
    steps = packed_strides(extents, size_of(kind)) if strides is None else tuple(int(s) for s in strides)
    if len(steps) != len(extents):
        raise ValueError(f"{len(steps)} strides for {len(extents)} dimensions")
    low = high = 0
    if min(extents):
        low, last = reach(extents, steps)
        high = last + size_of(kind)
    target = get_device(device)
    buffer = find(ptr + low, high - low, target) or target.foreign(ptr + low, high - low)
    return Placement(buffer, ptr - buffer.address, extents, steps, kind)
