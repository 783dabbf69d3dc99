"""Where the elements of a view of an array lie: indexed, reshaped, transposed, or read as another type."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.core.lang.errors import ArrayError, ArrayIndexError
from sim.core.lang.types import Homogeneous, Scalar, Type, as_type, scalar_of, size_of
from sim.core.runtime.arrays.placement import DType, Placement, ShapeLike, as_shape
from sim.core.runtime.memory.buffer import Operand, Strided
from sim.core.runtime.memory.elements import element
from sim.core.runtime.memory.spans import packed_strides

Keys = list[Any]
"""Slices, integers, and arrays of indices."""


def normal_keys(shape: tuple[int, ...], key: Any) -> Keys:
    """A key as slices, non-negative integers and arrays, ... expanded.  Raises IndexError and TypeError as NumPy."""
    keys = list(key) if isinstance(key, tuple) else [key]
    dots = [k for k, item in enumerate(keys) if item is Ellipsis]
    if dots:
        keys[dots[0] : dots[0] + 1] = [slice(None)] * (len(shape) - len(keys) + 1)
    if len(keys) > len(shape):
        raise ArrayIndexError(f"{len(keys)} indices for an array of {len(shape)} dimensions")
    for axis, item in enumerate(keys):
        if isinstance(item, slice) or hasattr(item, "buffer"):
            continue
        if isinstance(item, bool) or not hasattr(item, "__index__"):
            raise ArrayError(f"an index is an integer or a slice, not {type(item).__name__}; use x.numpy()[...]")
        index, n = operator.index(item), shape[axis]
        if not -n <= index < n:
            raise ArrayIndexError(f"index {index} is out of range for dimension {axis} of length {n}")
        keys[axis] = index % n
    return keys


def indexed(a: Strided, keys: Keys) -> Placement:
    """An integer drops its dimension, a slice keeps it (any step).  Raises IndexError where no dimension is left."""
    shape, strides, offset = [], [], a.offset
    for axis, (n, stride) in enumerate(zip(a.shape, a.strides, strict=True)):
        item = keys[axis] if axis < len(keys) else slice(None)
        if isinstance(item, slice):
            start, stop, step = item.indices(n)
            length = len(range(start, stop, step))
            offset += start * stride if length else 0
            shape.append(length)
            strides.append(stride * step)
        else:
            offset += item * stride
    if not shape:
        at = ", ".join(map(str, keys))
        raise ArrayIndexError(f"[{at}] is one element, not an array; read x.numpy()[{at}], or set x[{at}] = value")
    return a.buffer, offset, tuple(shape), tuple(strides), a.dtype


def reshaped(a: Strided, shape: ShapeLike) -> Placement:
    """The same elements of contiguous memory in another shape; one extent may be -1."""
    if not a.is_contiguous:
        raise ArrayError("only contiguous arrays can be reshaped; use x.contiguous().reshape(...)")
    size = math.prod(a.shape)
    extents = [int(n) for n in (shape if isinstance(shape, Sequence | np.ndarray) else (shape,))]
    if extents.count(-1) == 1:
        rest = math.prod(n for n in extents if n != -1)
        extents[extents.index(-1)] = size // rest if rest else 0
    wanted = as_shape(extents)
    if math.prod(wanted) != size:
        sizes = f"of shape {a.shape} (size {size}) into shape {tuple(extents)} (size {math.prod(wanted)})"
        raise ArrayError(f"cannot reshape array {sizes}")
    return a.buffer, a.offset, wanted, packed_strides(wanted, size_of(a.dtype)), a.dtype


def transposed(a: Strided, axes: Sequence[int] | None) -> Placement:
    """The dimensions in another order (None: reversed)."""
    ndim = len(a.shape)
    order = tuple(range(ndim))[::-1] if axes is None else tuple(int(k) for k in axes)
    if sorted(order) != list(range(ndim)):
        raise ArrayError(f"axes {order} are not an order of {ndim} dimensions")
    shape, strides = tuple(a.shape[k] for k in order), tuple(a.strides[k] for k in order)
    return a.buffer, a.offset, shape, strides, a.dtype


def viewed_as(a: Operand, dtype: DType) -> Placement:
    """The same memory as elements of another type: of the same size, or vectors <-> their components.

    Raises ArrayError for other sizes, and for other numbers where there is a gradient: it would be lost.
    """
    kind = as_type(dtype)
    placed = _viewed(a, kind)
    if placed is None:
        types = f"dtype {kind.__name__} from source dtype {a.dtype.__name__}"
        raise ArrayError(f"cannot create an array view with {types}: {_why_no_view(a, kind)}")
    if a.requires_grad and scalar_of(kind) is not scalar_of(a.dtype):
        what = f"{a.dtype} elements with a gradient cannot be viewed as {kind}"
        raise ArrayError(f"{what}; view sim.clone(x, requires_grad=False)")
    return placed


def _viewed(a: Operand, kind: Type) -> Placement | None:
    """Where elements of another type lie in the memory of an array; None where they do not."""
    inner, inner_strides = element(a.dtype)[1:]
    mine = scalar_of(a.dtype)
    if inner and isinstance(kind, Scalar) and mine is not None and kind.size == mine.size:  # vectors as components
        return a.buffer, a.offset, as_shape(a.shape + inner), a.strides + inner_strides, kind
    joins = isinstance(kind, Homogeneous) and isinstance(a.dtype, Scalar) and kind.dtype.size == a.dtype.size
    if isinstance(kind, Homogeneous) and joins and len(a.shape) >= len(kind.shape):  # and back
        cut = len(a.shape) - len(kind.shape)
        if a.shape[cut:] == kind.shape and a.strides[cut:] == element(kind)[2]:  # all of it: one element
            return a.buffer, a.offset, a.shape[:cut] or (1,), a.strides[:cut] or (size_of(kind),), kind
    return (a.buffer, a.offset, a.shape, a.strides, kind) if size_of(kind) == size_of(a.dtype) else None


def _why_no_view(a: Operand, kind: Type) -> str:
    """Why elements of one type are not those of another: their bytes, or how they lie."""
    if isinstance(kind, Homogeneous) and isinstance(a.dtype, Scalar):
        if kind.dtype.size == a.dtype.size:
            return f"the last axes of shape {a.shape}, strides {a.strides} are not the packed components of one"
        wanted = f"target scalar dtype {kind.dtype} has size {kind.dtype.size} bytes"
    else:
        wanted = f"target dtype has size {size_of(kind)} bytes"
    if isinstance(a.dtype, Homogeneous) and isinstance(kind, Scalar):
        return f"source scalar dtype {a.dtype.dtype} has size {a.dtype.dtype.size} bytes, but {wanted}"
    return f"source dtype has size {size_of(a.dtype)} bytes, but {wanted}"


def with_elements(a: Operand, dtype: DType) -> Placement:
    """The same memory of scalars as vectors or matrices of them, also where the last axis has those of several."""
    kind = as_type(dtype)
    if not (isinstance(kind, Homogeneous) and kind.dtype is a.dtype):
        return viewed_as(a, dtype)
    if a.shape[-len(kind.shape) :] == kind.shape:
        return viewed_as(a, dtype)
    count = len(kind.leaves)
    if a.shape[-1] % count or not a.is_contiguous:
        raise ArrayError(f"elements of {a.dtype} in shape {a.shape} do not make {kind} elements")
    outer = a.shape[:-1] if a.shape[-1] == count and len(a.shape) > 1 else (*a.shape[:-1], a.shape[-1] // count)
    return a.buffer, a.offset, outer, packed_strides(outer, size_of(kind)), kind
