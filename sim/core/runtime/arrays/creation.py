"""Functions that make arrays, and `copy` between them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.core.lang.errors import ArrayError
from sim.core.lang.frontend.constructors import zeros as zeros_of_a_thread
from sim.core.lang.frontend.tracing.registry import Refusal, in_kernels
from sim.core.lang.types import Scalar, as_type
from sim.core.lang.types import from_numpy as scalar_from_numpy
from sim.core.runtime.arrays.array import AnyArray, array, fresh, indexedarray, like, make_array, transfer
from sim.core.runtime.arrays.operations import refill_fresh
from sim.core.runtime.arrays.placement import DType, ShapeLike, as_shape
from sim.core.runtime.arrays.struct_fields import hold
from sim.core.runtime.devices.device import DeviceLike, get_device
from sim.core.runtime.devices.streams import ScopedStream, Stream
from sim.core.runtime.memory import dlpack
from sim.core.runtime.memory.elements import HostData, element_value, type_of_element

_MAKES_AN_ARRAY = Refusal(
    "makes an array",
    "for a few numbers write sim.zeros(shape=3, dtype=float), and fill it; pass a larger array as an argument",
)


@in_kernels(zeros_of_a_thread)
def zeros(
    shape: ShapeLike | None = None,
    dtype: DType = float,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    n: int | None = None,
    strides: Sequence[int] | None = None,
) -> array:
    """Zeros.

    pinned: memory of the CPU from which and to which `copy` works on the stream of a GPU, while the host goes on: what
    a copy reads must stay as it is, and what it writes is there, when the stream has been waited for.  Plain memory
    where there is no GPU.
    retain_grad: see `array.retain_grad`.  n: an older name for a shape of one dimension.  strides [bytes]: from one
    element to the next along each dimension, where it is not packed.
    """
    return _retaining(
        fresh(_given(shape, n), dtype, device, requires_grad, zero=True, pinned=pinned, strides=strides), retain_grad
    )


@in_kernels(_MAKES_AN_ARRAY)
def empty(
    shape: ShapeLike | None = None,
    dtype: DType = float,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    n: int | None = None,
    strides: Sequence[int] | None = None,
) -> array:
    """Memory whose content is undefined.  Arguments: see `zeros`."""
    return _retaining(
        fresh(_given(shape, n), dtype, device, requires_grad, zero=False, pinned=pinned, strides=strides), retain_grad
    )


@in_kernels(_MAKES_AN_ARRAY)
def full(
    shape: ShapeLike,
    value: HostData,
    dtype: DType = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    strides: Sequence[int] | None = None,
) -> array:
    """Every element `value`, which also gives the type if `dtype` does not: lists and NumPy data that of a vector or
    matrix, of numbers of `dtype` if that is a scalar.  The others: see `zeros`."""
    named = None if dtype in (None, Any) else as_type(dtype)
    kind = type_of_element(value, named) if named is None or isinstance(named, Scalar) else named
    made = fresh(shape, kind, device, requires_grad, zero=False, pinned=pinned, strides=strides)
    hold(made, value)
    content = element_value(value, kind)
    made.device.write(made, content)
    refill_fresh(made, content)
    return _retaining(made, retain_grad)


def _given(shape: ShapeLike | None, n: int | None) -> ShapeLike:
    if shape is None and n is None:
        raise ArrayError("a new array needs a shape")
    return n if shape is None and n is not None else shape  # type: ignore[return-value]


def _retaining(made: array, wanted: bool) -> array:
    if wanted:
        made.retain_grad = True
    return made


@in_kernels(_MAKES_AN_ARRAY)
def ones(
    shape: ShapeLike | None = None,
    dtype: DType = float,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    n: int | None = None,
    strides: Sequence[int] | None = None,
) -> array:
    """Ones, in every component.  The others: see `zeros`."""
    return full(_given(shape, n), 1, dtype, device, requires_grad, pinned, retain_grad, strides)


def zeros_like(
    src: AnyArray,
    device: DeviceLike = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """Zeros of the shape, type and (unless told) device and `requires_grad` of `src`."""
    return _retaining(like(src, device, requires_grad, True, pinned), retain_grad)


def empty_like(
    src: AnyArray,
    device: DeviceLike = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """As `zeros_like`, with undefined content."""
    return _retaining(like(src, device, requires_grad, False, pinned), retain_grad)


def sibling(src: array) -> array:
    """`empty_like` of an array that is packed, which it takes as it is, in a third of the time.  One without elements
    is its own sibling."""
    if not src.size:
        return src
    buffer = src.buffer.device.allocate(src.nbytes)
    buffer.requires_grad = src.buffer.requires_grad
    return make_array(buffer, 0, src.shape, src.strides, src.dtype)


def full_like(
    src: AnyArray,
    value: HostData,
    device: DeviceLike = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """As `zeros_like`, with every element `value`."""
    made = _retaining(like(src, device, requires_grad, False, pinned), retain_grad)
    hold(made, value)
    content = element_value(value, made.dtype)
    made.device.write(made, content)
    refill_fresh(made, content)
    return made


def ones_like(
    src: AnyArray,
    device: DeviceLike = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """As `zeros_like`, with ones in every component."""
    return full_like(src, 1, device, requires_grad, pinned, retain_grad)


def copy(
    dest: AnyArray,
    src: AnyArray,
    dest_offset: int = 0,
    src_offset: int = 0,
    count: int = 0,
    stream: Stream | None = None,
) -> None:
    """Copies `src` into `dest`, differentiable.  Either may be an indexedarray.

    stream: the one of a GPU that does it (None: the present one).

    With offsets or a count [elements]: `count` elements (0: all from `src_offset` on) of the flattened arrays; they
    must be contiguous or one-dimensional.  One-dimensional arrays of different length copy all of `src`, contiguous
    arrays of another shape as many elements in their order.
    """
    if stream is not None:
        with ScopedStream(stream, sync_enter=False):
            copy(dest, src, dest_offset, src_offset, count)
        return
    for name, value in (("dest", dest), ("src", src)):
        if not isinstance(value, (array, indexedarray)):
            given = type(value).__name__
            raise ArrayError(f"{name} of copy is not an array but {given}; use dest.assign(data) for host data")
    for name, number in (("Destination offset", dest_offset), ("Source offset", src_offset), ("count", count)):
        if not hasattr(number, "__index__"):
            raise ArrayError(f"copy: offsets and count must be integers, got {number!r}")
        if operator.index(number) < 0:
            raise ArrayError(f"copy: {name} must be non-negative, got {number}")
    dest_offset, src_offset, count = (operator.index(k) for k in (dest_offset, src_offset, count))
    whole = not (dest_offset or src_offset or count)
    reshaped = dest.size == src.size and isinstance(dest, array) and dest.is_contiguous and src.is_contiguous
    if whole and (dest.shape == src.shape or not (reshaped or dest.ndim == src.ndim == 1)):
        transfer(dest, src)
        return
    number = count or max(src.size - src_offset, 0)
    for name, word, value, start in (("dest", "destination", dest, dest_offset), ("src", "source", src, src_offset)):
        if start + number > value.size:
            end = f"{number} elements from {name}_offset={start} on exceeds the {word} size"
            raise ArrayError(f"copy: {end}, {value.size}")
    transfer(_run(dest, dest_offset, number), _run(src, src_offset, number))


def _run(view: AnyArray, start: int, number: int) -> AnyArray:
    """So many elements of the flattened array."""
    if isinstance(view, indexedarray):
        if view.ndim > 1:
            raise ArrayError("offsets and counts are for indexedarrays of one dimension; copy all, or x.contiguous()")
        chosen = view.indices[0]
        part: AnyArray = view.data[slice(start, start + number) if chosen is None else chosen[start : start + number]]
    elif view.ndim > 1 and not view.is_contiguous:
        raise ArrayError("offsets and counts of strided arrays are only supported for 1-D; copy all, or x.contiguous()")
    else:
        part = (view if view.ndim == 1 else view.flatten())[start : start + number]
    return part


def from_numpy(
    arr: np.ndarray,
    dtype: DType = None,
    shape: ShapeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    retain_grad: bool = False,
    copy: bool = True,
) -> array:
    """An array of NumPy data; `copy=False` shares the memory."""
    made: array = array(
        arr, dtype=dtype, shape=shape, device=device, requires_grad=requires_grad, retain_grad=retain_grad, copy=copy
    )
    return made


def dtype_from_numpy(numpy_dtype: Any) -> Scalar:
    """The scalar type that is this type of NumPy.  Raises TypeError where there is none."""
    return scalar_from_numpy(np.dtype(numpy_dtype))


def dtype_to_numpy(dtype: DType) -> type[np.generic]:
    """The type of NumPy that is this scalar type.  Raises TypeError for vectors, structs, ..."""
    kind = as_type(dtype)
    if not isinstance(kind, Scalar):
        raise ArrayError(f"{kind} is no scalar type; NumPy has its numbers in further dimensions")
    numpy_type: type[np.generic] = kind.np.type
    return numpy_type


def from_dlpack(source: Any, dtype: DType = None) -> array:
    """An array on the memory of an object with `__dlpack__`, or of its capsule (CPU, GPU).

    dtype: `vec3` reads the last axis as components.
    On a GPU what the other library has enqueued comes before what is enqueued on the array's device next.
    """
    if dlpack.is_capsule(source):
        source = dlpack.Capsule(source)
    where, number = source.__dlpack_device__()
    if where == dlpack.CUDA or (where in dlpack.HOST and isinstance(source, dlpack.Capsule)):
        device = get_device(f"cuda:{number}" if where == dlpack.CUDA else "cpu")
        buffer, offset, shape, strides, kind = device.from_dlpack(source)
        made = make_array(buffer, offset, as_shape(shape or (1,)), strides or (kind.itemsize,), scalar_from_numpy(kind))
        return made if dtype is None else made.view(dtype)
    if where not in dlpack.HOST:
        raise ArrayError(f"Unsupported source device for DLPack: device_type={where}, device_id={number}")
    try:
        host = np.from_dlpack(source)
    except ValueError as problem:
        raise ArrayError(f"{type(source).__name__} gives no valid DLPack capsule: {problem}") from None
    shared: array = array(host, dtype=dtype, copy=False)
    return shared


def to_dlpack(a: array) -> Any:
    """A DLPack capsule of the array's memory, which one consumer may take; `a` itself goes to many: it has
    `__dlpack__`.
    """
    return a.__dlpack__()
