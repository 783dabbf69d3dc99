"""Arrays: strided views of buffers, of one to four dimensions; elements are scalars, vectors, ..., transforms, structs.

`array` has Warp's name, constructor and methods.  Memory is plain and packed (a vec3 takes 12 bytes), so NumPy and
DLPack see it without a copy.  Slices, `reshape`, `transpose`, `view` share memory *and* gradient with their base.

A tape cannot take part in writes made through a NumPy view (`x.numpy()[:] = ...`): while one is recording, use
`assign`, `fill_` or an indexed assignment (`x[2:5] = values`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias

import numpy as np

from sim.core.lang.errors import ArrayError, GradientError
from sim.core.lang.frontend.constructors import array as array_by_its_address
from sim.core.lang.frontend.tracing.registry import in_kernels
from sim.core.lang.references import indexed_array_type
from sim.core.lang.types import ArrayType, Type, array_type, as_type, int32, scalar_of, size_of
from sim.core.runtime.ambient import recording
from sim.core.runtime.ambient.stacks import anywhere
from sim.core.runtime.arrays.arithmetic import ArrayOperators
from sim.core.runtime.arrays.gradient_side import GradientSide, ask_for_gradient
from sim.core.runtime.arrays.host_side import HostSide
from sim.core.runtime.arrays.operations import (
    Copy,
    Fill,
    Gather,
    HostWrite,
    Scatter,
    copy_detached,
    describe,
    perform,
    refill_fresh,
)
from sim.core.runtime.arrays.placement import (
    DType,
    ShapeLike,
    annotated,
    at_pointer,
    host_layout,
    in_fresh_memory,
    in_host_memory,
)
from sim.core.runtime.arrays.struct_fields import hold, hold_same
from sim.core.runtime.arrays.subclasses import become, not_yet_filled
from sim.core.runtime.arrays.views import indexed, normal_keys, reshaped, transposed, viewed_as, with_elements
from sim.core.runtime.compiled.argument_packing import layout_flags_of, slots_of
from sim.core.runtime.devices.device import Device, DeviceLike, get_device
from sim.core.runtime.memory.buffer import Buffer
from sim.core.runtime.memory.elements import HostData, element, element_value, python_values, to_host
from sim.core.runtime.memory.spans import is_packed

if TYPE_CHECKING:  # which takes a default: `array` alone is an array of anything
    from typing_extensions import TypeVar

    Element = TypeVar("Element", default=Any)
else:
    from typing import TypeVar

    Element = TypeVar("Element")

_object_new = object.__new__


class array(GradientSide, HostSide, ArrayOperators, Generic[Element]):  # noqa: N801  Warp's name
    """An array on a device, or, without data, shape and pointer, an annotation (`array(dtype=vec3)`, `array[vec3]`).

    data: numbers, nested lists, host vectors or structs, NumPy or DLPack arrays, another array.
    dtype: element type; taken from the data if not given (Python floats become float32, NumPy data keep their type).
        Vector types take their components from the last axes: shape (n, 3) gives n elements of vec3.
    shape: reshapes the data; without data, the shape of fresh memory (zero).
    strides, ptr: bytes per step of each dimension, and the address of memory that is not ours.
    capacity, deleter: bytes that are there at ptr; what is called with ptr and capacity when that is used no more.
    pinned: memory of the CPU that GPUs read and write on their own (see `zeros`).
    copy: False shares memory with NumPy data, or raises if that cannot be done.
    grad: the array to hold the gradient; requires_grad: whether there is one (None: as `data`, an array, has it).
    retain_grad: see the property.

    Subclasses are arrays wherever one is expected; what is computed of them, or a part of them, is an `array`.
    """

    # fmt: off
    __slots__ = (
        "buffer", "offset", "shape", "strides", "dtype", "ndim", "size", "ptr", "is_contiguous", "slots",
        "layout_flags", "_grad", "__weakref__",
    )
    # fmt: on
    __array_ufunc__ = None  # NumPy operators on arrays raise instead of looping over elements
    _dimensions: ClassVar[int | None] = None

    buffer: Buffer
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Type
    ndim: int
    size: int
    ptr: int | None  # None: no elements
    is_contiguous: bool
    slots: bytes  # address, shape and strides, as in the argument block of a launch
    layout_flags: int  # see `layout_flags_of`
    _grad: array | None

    def __new__(
        cls,
        data: HostData = None,
        dtype: DType = None,
        shape: ShapeLike | None = None,
        strides: Sequence[int] | None = None,
        ptr: int | None = None,
        capacity: int | None = None,
        device: DeviceLike = None,
        pinned: bool = False,
        copy: bool = True,
        deleter: Callable[[int, int], object] | None = None,
        ndim: int | None = None,
        grad: array | None = None,
        requires_grad: bool | None = None,
        retain_grad: bool = False,
    ) -> Any:
        ndim = cls._dimensions if ndim is None else ndim
        dtype = None if dtype is Any else dtype
        if data is None and shape is None and ptr is None:
            return array_type(dtype, 1 if ndim is None else ndim)
        if data is not None and ptr is not None:
            raise ArrayError("give either data or ptr, not both")
        if ptr is not None:
            made = make_array(*at_pointer(ptr, dtype, shape, strides, device, capacity, deleter))
        elif data is None and shape is not None:
            made = fresh(shape, float if dtype is None else dtype, device, False, True, pinned, strides)
        elif isinstance(data, (array, indexedarray)):
            made = _from_array(data, dtype, device, copy, requires_grad)
        elif copy:
            made = _from_data(data, dtype, device, pinned)
        else:
            made = make_array(*in_host_memory(data, dtype, device))
        if data is not None and shape is not None:
            made = made.reshape(shape)
        if ndim is not None and not made.size and made.ndim == 1:  # an empty list has no more dimensions
            made = made.reshape((0,) * ndim)
        if ndim is not None and made.ndim != ndim:
            raise ArrayError(f"data of shape {made.shape} of {made.dtype} has {made.ndim} dimensions, not {ndim}")
        if requires_grad:
            ask_for_gradient(made)
        if grad is not None:
            made.grad = grad
        if retain_grad:
            made.retain_grad = True
        return made

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "_dimensions" not in vars(cls):  # of a user: its arguments are its own until it calls `super().__init__`
            cls.__new__ = not_yet_filled  # type: ignore[method-assign]

    def __init__(self, *args: Any, **options: Any) -> None:
        if type(self) is not array:
            become(self, array(*args, **options), array)

    def __class_getitem__(cls, dtype: DType) -> Type:
        return array_type(*annotated(dtype, cls._dimensions or 1))

    # ------------------------------------------------------------------------------------------ what it is
    @property
    def pinned(self) -> bool:
        """Whether this is memory of the CPU that GPUs copy from and to on their own."""
        return self.buffer.pinned

    @property
    def capacity(self) -> int:
        """Bytes from the first element to the end of the memory that it lies in."""
        return self.buffer.nbytes - self.offset

    def _gradient_in(self, buffer: Buffer, offset: int) -> array:
        return make_array(buffer, offset, self.shape, self.strides, self.dtype)

    # ------------------------------------------------------------------------------------------ views
    def __getitem__(self, key: Any) -> Any:
        """A view: an integer drops its dimension, a slice keeps it (any step); an array of indices: an indexedarray."""
        keys = normal_keys(self.shape, key)
        if not any(isinstance(k, array) for k in keys):
            return make_array(*indexed(self, keys))
        sliced = make_array(*indexed(self, [slice(None) if isinstance(k, array) else k for k in keys]))
        return indexedarray(sliced, [k if isinstance(k, array) else None for k in keys if not isinstance(k, int)])

    def __setitem__(self, key: Any, value: HostData) -> None:
        """x[2:5] = array, host data of that shape, or one element for all.  Recorded, as `assign` and `fill_` are."""
        keys = normal_keys(self.shape, key)
        indices = [k for k in keys if isinstance(k, int)]
        if len(indices) == self.ndim:  # one element: a view of length one
            keys = [*indices[:-1], slice(indices[-1], indices[-1] + 1)]
        view = self[tuple(keys)]
        if not isinstance(value, (array, indexedarray)) and np.shape(value) in ((), element(self.dtype)[1]):
            view.fill_(value)
        else:
            view.assign(value)

    def reshape(self, shape: ShapeLike) -> array:
        """The same elements in another shape (one extent may be -1); a view of contiguous memory."""
        return make_array(*reshaped(self, shape))

    def flatten(self) -> array:
        """All elements in one dimension; a view of contiguous memory."""
        return self.reshape((self.size,))

    def transpose(self, axes: Sequence[int] | None = None) -> array:
        """A view with the dimensions in another order (default: reversed)."""
        return make_array(*transposed(self, axes))

    def view(self, dtype: DType) -> array:
        """The same memory as elements of another type: of the same size, or vectors <-> their components."""
        return make_array(*viewed_as(self, dtype))

    def contiguous(self) -> array:
        """Itself if its elements are packed in order, else a clone that is."""
        return self if self.is_contiguous else clone(self)

    # ------------------------------------------------------------------------------------------ writing
    def assign(self, src: Any) -> None:
        """Copies an array (differentiable) or host data (a constant) of the same shape into this one."""
        if isinstance(src, (array, indexedarray)):
            transfer(self, src)
        else:
            hold(self, src)
            perform(HostWrite(self, _matching(self, src)))

    def fill_(self, value: HostData) -> None:
        """Sets every element to `value`: a scalar (for all components), a host vector or struct, or its components."""
        hold(self, value)
        perform(Fill(self, element_value(value, self.dtype)))

    def zero_(self) -> None:
        """Sets every element to zero."""
        perform(Fill(self, element_value(0, self.dtype)))

    def _array_at(self, record: Any, field: ArrayType) -> AnyArray:
        """The array that a struct of this array says the place of."""
        shape, strides = tuple(map(int, record["shape"])), tuple(map(int, record["strides"]))
        made = make_array(*at_pointer(int(record["address"]), field.dtype, shape, strides, self.device))
        if not field.indexed:
            return made
        chosen = zip(map(int, record["indices"]), map(int, record["extents"]), strict=True)
        indices: indexedarray = indexedarray(
            made, [make_array(*at_pointer(at, int32, (n,), None, self.device)) for at, n in chosen]
        )
        return indices

    def to(self, device: DeviceLike, requires_grad: bool | None = None) -> array:
        """Itself if it lies on `device`, else a copy there."""
        return self if get_device(device) is self.device else clone(self, device, requires_grad)

    def __copy__(self) -> array:
        return clone(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> array:
        copied: array = memo.setdefault(id(self), clone(self))
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (np.array(self.numpy()), self.dtype, self.device.name, self.requires_grad)

    def __repr__(self) -> str:
        values = np.array2string(self.numpy(), separator=", ", prefix="array(", threshold=100)
        grad = ", requires_grad=True" if self.requires_grad else ""
        return f"array({values}, shape={self.shape}, dtype={self.dtype}, device={self.device}{grad})"


in_kernels(array_by_its_address)(array)


class indexedarray(ArrayOperators):  # noqa: N801  Warp's name
    """Chosen elements of an array: where there are indices for a dimension, element k of it is `indices[k]` of `data`.

    Of no data, an annotation (`indexedarray(dtype=vec3, ndim=2)`, `indexedarray[vec3]`).
    data: the array whose memory, and gradient, this shows.
    indices: an int32 array of one dimension, or None for all, for each dimension; later dimensions are whole.
    Kernels take one as they take an array.  On the host, `numpy`, `list`, `contiguous` copy what was chosen.
    """

    __slots__ = ("data", "indices", "shape", "ndim", "size", "_all", "__weakref__")
    __array_ufunc__ = None
    _dimensions: ClassVar[int | None] = None
    is_contiguous = False

    data: array
    indices: list[array | None]
    shape: tuple[int, ...]
    ndim: int
    size: int
    _all: list[array] | None

    def __new__(
        cls,
        data: array | None = None,
        indices: array | Sequence[array | None] | None = None,
        dtype: DType = None,
        ndim: int | None = None,
    ) -> Any:
        ndim = cls._dimensions if ndim is None else ndim
        if data is None:
            return indexed_array_type(dtype, ndim or 1)
        if not isinstance(data, array):
            raise ArrayError(f"an indexedarray shows a part of an array, not of a {type(data).__name__}")
        if dtype not in (None, Any) and as_type(dtype) is not data.dtype:
            raise ArrayError(f"the elements of an indexedarray are those of its data, {data.dtype}, not {dtype}")
        if ndim not in (None, data.ndim):
            raise ArrayError(f"data of {data.ndim} dimensions cannot be seen as an indexedarray of {ndim}")
        given = [indices] if isinstance(indices, array) else list(indices or ())
        if len(given) > data.ndim:
            raise ArrayError(f"indices for {len(given)} dimensions of an array that has {data.ndim}")
        made: indexedarray = _object_new(indexedarray)
        made.data, made.indices = data, [_checked_indices(a, data) for a in given] + [None] * (4 - len(given))
        made.shape = tuple(n if a is None else a.size for n, a in zip(data.shape, made.indices, strict=False))
        made.ndim, made.size, made._all = data.ndim, math.prod(made.shape), None
        return made

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "_dimensions" not in vars(cls):
            cls.__new__ = not_yet_filled  # type: ignore[method-assign]

    def __init__(self, *args: Any, **options: Any) -> None:
        if type(self) is not indexedarray:
            become(self, indexedarray(*args, **options), indexedarray)

    def __class_getitem__(cls, dtype: DType) -> Type:
        return indexed_array_type(*annotated(dtype, cls._dimensions or 1))

    @property
    def dtype(self) -> Type:
        return self.data.dtype

    @property
    def device(self) -> Device:
        return self.data.device

    @property
    def pinned(self) -> bool:
        return self.data.pinned

    @property
    def requires_grad(self) -> bool:
        """That of its data."""
        return self.data.requires_grad

    @property
    def grad(self) -> indexedarray | None:
        """The gradient of the elements: those of the gradient of its data."""
        gradient = self.data.grad
        return None if gradient is None else indexedarray(gradient, self.indices[: self.ndim])

    @property
    def where(self) -> tuple[array | None, ...]:
        """Indices, or None, for each dimension."""
        return tuple(self.indices[: self.ndim])

    def all_indices(self) -> list[array]:
        """Indices for each dimension, also those that are whole; they live as long as this.  Raises ArrayError."""
        if self._all is None:
            for a in self.where:
                if a is not None and not a.is_contiguous:
                    raise ArrayError(f"indices in an element of an array lie side by side, not as those of {self!r}")
            counted = (np.arange(n, dtype=np.int32) for n in self.shape)
            self._all = [
                array(n, device=self.device) if a is None else a for a, n in zip(self.where, counted, strict=True)
            ]
        return self._all

    def contiguous(self) -> array:
        """A packed copy, differentiable."""
        return clone(self)

    def to(self, device: DeviceLike, requires_grad: bool | None = None) -> Any:
        """Itself if it lies on `device`, else a packed copy there."""
        return self if get_device(device) is self.device else clone(self, device, requires_grad)

    def assign(self, src: Any) -> None:
        """Copies an array (differentiable) or host data (a constant) of the same shape to the chosen elements."""
        if isinstance(src, (array, indexedarray)):
            transfer(self, src)
        else:
            hold(self.data, src)
            perform(Scatter(self.data, self.where, _matching(self, src)))

    def fill_(self, value: HostData) -> None:
        """Sets every chosen element to `value`."""
        hold(self.data, value)
        perform(Scatter(self.data, self.where, element_value(value, self.dtype)))

    def zero_(self) -> None:
        """Sets every chosen element to zero."""
        self.fill_(0)

    def numpy(self) -> np.ndarray:
        """A copy of the chosen elements."""
        return Gather.values(self.data, self.where)

    def list(self) -> list[Any]:
        """The chosen elements in order, as Python numbers or host vectors and structs."""
        return python_values(self.numpy(), self.dtype, self.data._array_at)

    def __array__(self, dtype: DType = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ArrayError("the elements of an indexedarray do not lie in order; NumPy gets a copy")
        return np.asarray(self.numpy(), dtype=dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __str__(self) -> str:
        return str(self.numpy())

    def __repr__(self) -> str:
        return f"indexed{describe(self)}"


AnyArray: TypeAlias = array | indexedarray


def _checked_indices(indices: array | None, data: array) -> array | None:
    if indices is None:
        return None
    if not isinstance(indices, array) or indices.ndim != 1 or indices.dtype is not int32:
        found = describe(indices) if isinstance(indices, array) else f"a {type(indices).__name__}"
        raise ArrayError(f"indices are arrays of int32 of one dimension, not {found}")
    if indices.device is not data.device:
        raise ArrayError(f"the indices lie on {indices.device}, the data on {data.device}")
    return indices


# ------------------------------------------------------------------------------------------ copying
def transfer(dest: AnyArray, src: AnyArray) -> None:
    """dest = src, of the same shape and type, as the operation, or the two, that this takes."""
    hold_same(*(a.data if isinstance(a, indexedarray) else a for a in (dest, src)))
    if isinstance(src, indexedarray):
        if isinstance(dest, indexedarray):
            src = clone(src, dest.device)
        else:
            perform(Gather(dest, src.data, src.where))
            return
    if isinstance(dest, indexedarray):
        perform(Scatter(dest.data, dest.where, src))
    elif not Copy.at_once(dest, src):
        perform(Copy(dest, src))


def _matching(dest: AnyArray, src: HostData) -> np.ndarray:
    """Host data in the type and shape of an array."""
    host = to_host(src, dest.dtype)[1]
    inner = element(dest.dtype)[1]
    if host.shape != dest.shape + inner:
        given = host.shape[: host.ndim - len(inner)]
        hint = "; fill_ sets all elements to one value" if given == (1,) else ""
        raise ArrayError(f"cannot assign data of shape {given} to {describe(dest)}{hint}")
    return host


# ------------------------------------------------------------------------------------------ making arrays
def make_array(buffer: Buffer, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Type) -> array:
    """The one place where array objects come from."""
    made: array = _object_new(array)
    made.buffer, made.offset, made.shape, made.strides, made.dtype = buffer, offset, shape, strides, dtype
    size, address = math.prod(shape), buffer.address + offset
    made.ndim, made.size, made.ptr, made._grad = len(shape), size, address if size else None, None
    made.is_contiguous = is_packed(shape, strides, size_of(dtype))
    made.slots = slots_of(address, shape, strides)
    made.layout_flags = layout_flags_of(made.is_contiguous, buffer.foreign, shape)
    return made


def fresh(
    shape: ShapeLike,
    dtype: DType,
    device: DeviceLike,
    requires_grad: bool,
    zero: bool,
    pinned: bool = False,
    strides: Sequence[int] | None = None,
) -> array:
    """An array in new memory, packed where no `strides` are given; undefined content unless `zero`."""
    made = make_array(*in_fresh_memory(shape, dtype, device, zero, pinned, strides))
    if zero and anywhere:
        refill_fresh(made)
    if requires_grad:
        ask_for_gradient(made)
    return made


def like(src: AnyArray, device: Any, requires_grad: bool | None, zero: bool, pinned: bool | None = None) -> array:
    """An array in new memory with shape, type and, unless told, device, `requires_grad` and `pinned` of `src`."""
    wanted = src.requires_grad if requires_grad is None else requires_grad
    at_hand = device is None and getattr(src, "pinned", False) if pinned is None else pinned
    return fresh(src.shape, src.dtype, src.device if device is None else device, wanted, zero, at_hand)


def clone(
    src: AnyArray, device: Any = None, requires_grad: bool | None = None, pinned: Any = None, retain_grad: bool = False
) -> array:
    """A packed copy, differentiable: it inherits `requires_grad` and `pinned` unless told; its gradient is its own.

    `requires_grad=False` makes a detached copy, through which no gradient flows.
    """
    made = like(src, device, requires_grad, False, pinned)
    if retain_grad:
        made.retain_grad = True
    if requires_grad is False or (src.requires_grad and not made.requires_grad):
        copy_detached(made, clone(src) if isinstance(src, indexedarray) else src)
    else:
        transfer(made, src)
    return made


def _from_array(src: AnyArray, dtype: DType, device: DeviceLike, copy: bool, requires_grad: bool | None) -> array:
    kind = src.dtype if dtype is None else as_type(dtype)
    if scalar_of(kind) is not scalar_of(src.dtype):
        return _converted(src, kind, device, copy)
    if isinstance(src, indexedarray):
        if not copy:
            raise ArrayError("the elements of an indexedarray do not lie in order; use copy=True")
        src = clone(src, device, requires_grad)
    elif copy:
        whole = src if kind is src.dtype else make_array(*with_elements(src.contiguous(), kind))
        return clone(whole, device, requires_grad)
    elif get_device(device) is not src.device:
        raise ArrayError(f"an array on {src.device} cannot be shared with {get_device(device)}; use copy=True")
    elif kind is src.dtype:
        return make_array(src.buffer, src.offset, src.shape, src.strides, src.dtype)
    return src if kind is src.dtype else make_array(*with_elements(src, kind))


def _converted(src: AnyArray, kind: Type, device: DeviceLike, copy: bool) -> array:
    """The values of an array as those of another scalar type: data, without gradient."""
    if not copy:
        raise ArrayError(f"{src.dtype} elements are not elements of {kind}; use copy=True, or x.view(dtype)")
    if recording.current() is not None and src.requires_grad:
        raise GradientError(
            f"array(x, dtype={kind}) of an array of {src.dtype} with a gradient converts values: the gradient would be"
            " lost",
            hint="convert in a kernel, or before the tape records",
        )
    return _from_data(src.numpy(), kind, device, False)


def _from_data(data: HostData, dtype: DType, device: DeviceLike, pinned: bool) -> array:
    host, kind, shape = host_layout(data, dtype)
    made = fresh(shape, kind, device, False, zero=False, pinned=pinned)
    hold(made, data)
    made.device.write(made, host)
    return made


def _restore(host: np.ndarray, dtype: Type, device: str, requires_grad: bool) -> array:
    made: array = array(host, dtype=dtype, device=device, requires_grad=requires_grad)
    return made
