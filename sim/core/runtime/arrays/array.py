"""Arrays: strided views of buffers, of one to four dimensions; elements are scalars, vectors, ..., transforms, structs.

`array` has Warp's name, constructor and methods.  Memory is plain and packed (a vec3 takes 12 bytes), so NumPy and
DLPack see it without a copy.  Slices, `reshape`, `transpose`, `view` share memory *and* gradient with their base.

A tape cannot take part in writes made through a NumPy view (`x.numpy()[:] = ...`): while one is recording, use
`assign`, `fill_` or an indexed assignment (`x[2:5] = values`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from sim.core.lang.errors import GradientError
from sim.core.lang.types import Type, array_type, as_type, size_of
from sim.core.runtime.ambient import recording
from sim.core.runtime.ambient.stacks import anywhere
from sim.core.runtime.arrays.operations import Copy, Fill, HostWrite, copy_detached, perform, refill_fresh
from sim.core.runtime.arrays.placement import (
    DType,
    ShapeLike,
    at_pointer,
    host_layout,
    in_fresh_memory,
    in_host_memory,
)
from sim.core.runtime.arrays.views import indexed, normal_keys, reshaped, transposed, viewed_as
from sim.core.runtime.compiled.argument_packing import layout_flags_of, slots_of
from sim.core.runtime.devices.device import Device, DeviceLike, get_device
from sim.core.runtime.memory import dlpack
from sim.core.runtime.memory.buffer import Buffer, before_write
from sim.core.runtime.memory.elements import HostData, differentiable, element, element_value, python_values, to_host
from sim.core.runtime.memory.spans import is_packed

_object_new = object.__new__


class array:  # noqa: N801  Warp's name
    """An array on a device, or, without data, shape and pointer, an annotation (`array(dtype=vec3)`, `array[vec3]`).

    data: numbers, nested lists, host vectors or structs, NumPy or DLPack arrays, another array.
    dtype: element type; taken from the data if not given (Python floats become float32, NumPy data keep their type).
        Vector types take their components from the last axes: shape (n, 3) gives n elements of vec3.
    shape: reshapes the data; without data, the shape of fresh memory (zero).
    strides, ptr: bytes per step of each dimension, and the address of memory that is not ours.
    copy: False shares memory with NumPy data, or raises if that cannot be done.
    grad: the array to hold the gradient; requires_grad: whether there is one (None: as `data`, an array, has it).
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
    ptr: int
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
        device: DeviceLike = None,
        copy: bool = True,
        ndim: int | None = None,
        grad: array | None = None,
        requires_grad: bool | None = None,
    ) -> Any:
        ndim = cls._dimensions if ndim is None else ndim
        if data is None and shape is None and ptr is None:
            return array_type(dtype, 1 if ndim is None else ndim)
        if data is not None and ptr is not None:
            raise TypeError("give either data or ptr, not both")
        if ptr is not None:
            made = make_array(*at_pointer(ptr, dtype, shape, strides, device))
        elif data is None and shape is not None:
            made = fresh(shape, float if dtype is None else dtype, device, False, zero=True)
        elif isinstance(data, array):
            made = _from_array(data, dtype, device, copy, requires_grad)
        elif copy:
            made = _from_data(data, dtype, device)
        else:
            made = make_array(*in_host_memory(data, dtype, device))
        if data is not None and shape is not None:
            made = made.reshape(shape)
        if ndim is not None and made.ndim != ndim:
            raise ValueError(f"data of shape {made.shape} of {made.dtype} has {made.ndim} dimensions, not {ndim}")
        if requires_grad:
            made.requires_grad = True
        if grad is not None:
            made.grad = grad
        return made

    def __class_getitem__(cls, dtype: DType) -> Type:
        return array_type(dtype, cls._dimensions or 1)

    # ------------------------------------------------------------------------------------------ what it is
    @property
    def device(self) -> Device:
        device: Device = self.buffer.device
        return device

    @property
    def pinned(self) -> bool:
        """Whether this is memory of the CPU that GPUs copy from and to on their own."""
        return self.buffer.pinned

    @property
    def nbytes(self) -> int:
        """Bytes of all elements (a strided view spans more)."""
        return self.size * size_of(self.dtype)

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are kept for this memory; shared by all views of it.  Setting False drops the gradient."""
        return self.buffer.requires_grad and differentiable(self.dtype)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value and not differentiable(self.dtype):
            raise TypeError(f"an array of {self.dtype} cannot require a gradient; use a floating-point type")
        self.buffer.requires_grad = bool(value)
        if not value:
            self.buffer.drop_gradient()

    @property
    def grad(self) -> array | None:
        """The gradient, of the same type and shape (None without `requires_grad`); zero until a backward adds to it.

        Setting an array makes it hold the gradient from now on, what it holds is as if written to the gradient; setting
        None forgets the values.
        """
        if not self.requires_grad:
            return None
        buffer = self.buffer
        gradient = buffer.gradient or buffer.make_gradient()
        cached, offset = self._grad, self.offset + buffer.gradient_shift
        if cached is None or cached.buffer is not gradient or cached.offset != offset:
            cached = self._grad = make_array(gradient, offset, self.shape, self.strides, self.dtype)
        return cached

    @grad.setter
    def grad(self, value: array | None) -> None:
        if value is None:
            for link in self.buffer.links:
                link.drop()
            self.buffer.drop_gradient()
            return
        if not isinstance(value, array):
            raise TypeError(f"a gradient is an array, not {type(value).__name__}; host data: x.grad.assign(values)")
        if value.dtype is not self.dtype or value.shape != self.shape:
            raise ValueError(f"the gradient of {self._brief()} must have its shape and dtype, got {value._brief()}")
        if self.nbytes != self.buffer.nbytes or not (self.is_contiguous and value.is_contiguous):
            raise ValueError("a view has no gradient of its own; set it on the whole array, or use x.grad.assign(...)")
        if value.buffer is self.buffer:
            raise ValueError("an array cannot hold its own gradient")
        self.requires_grad = True
        self.buffer.hold_gradient_in(value.buffer, value.offset - self.offset)

    # ------------------------------------------------------------------------------------------ views
    def __getitem__(self, key: Any) -> array:
        """A view: an integer drops its dimension, a slice keeps it (any step)."""
        return make_array(*indexed(self, normal_keys(self.shape, key)))

    def __setitem__(self, key: Any, value: HostData) -> None:
        """x[2:5] = array, host data of that shape, or one element for all.  Recorded, as `assign` and `fill_` are."""
        keys = normal_keys(self.shape, key)
        indices = [k for k in keys if not isinstance(k, slice)]
        if len(indices) == self.ndim:  # one element: a view of length one
            keys = [*indices[:-1], slice(indices[-1], indices[-1] + 1)]
        view = make_array(*indexed(self, keys))
        if not isinstance(value, array) and np.shape(value) in ((), element(self.dtype)[1]):
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
        if isinstance(src, array):
            perform(Copy(self, src))
            return
        host = to_host(src, self.dtype)[1]
        inner = element(self.dtype)[1]
        if host.shape != self.shape + inner:
            given = host.shape[: host.ndim - len(inner)]
            hint = "; fill_ sets all elements to one value" if given == (1,) else ""
            raise ValueError(f"cannot assign data of shape {given} to {self._brief()}{hint}")
        perform(HostWrite(self, host))

    def fill_(self, value: HostData) -> None:
        """Sets every element to `value`: a scalar (for all components), a host vector or struct, or its components."""
        perform(Fill(self, element_value(value, self.dtype)))

    def zero_(self) -> None:
        """Sets every element to zero."""
        perform(Fill(self, element_value(0, self.dtype)))

    # ------------------------------------------------------------------------------------------ to the host
    def numpy(self) -> np.ndarray:
        """A NumPy view of shape `shape` + component shape; structs as structured arrays.  No copy on the CPU.

        A tape cannot see what is written through it.  While one is recording the view is read-only; after that, what
        the tape still needs of this array is saved before (a tape that refuses overwrites: the view is read-only).
        While a view from before lives, a tape compares: writes that would spoil a gradient are errors.
        """
        view = self.device.numpy(self)
        writable = self.may_be_written()
        memory = self.buffer.export(writable)
        if not writable or memory is None:
            view.flags.writeable = False
            return view
        return np.ndarray(view.shape, view.dtype, memory, self.offset, view.strides) if self.size else view

    def may_be_written(self) -> bool:
        """Whether no tape minds if others write here from now on; what tapes still need is saved first."""
        if recording.current() is not None:
            return False
        if self.buffer.watchers:
            try:
                before_write(self, "write through a view of another library")
            except GradientError:
                return False
        return True

    def list(self) -> list[Any]:
        """All elements in order, as Python numbers or host vectors and structs."""
        return python_values(self.buffer.device.numpy(self), self.dtype)

    def item(self) -> Any:
        """The one element of an array of size 1."""
        if self.size != 1:
            raise ValueError(f"item() needs one element, {self._brief()} has {self.size}")
        return self.list()[0]

    def to(self, device: DeviceLike) -> array:
        """Itself if it lies on `device`, else a copy there."""
        return self if get_device(device) is self.device else clone(self, device)

    def __array__(self, dtype: DType = None, copy: bool | None = None) -> np.ndarray:
        host = self.numpy()
        if copy is False and dtype is not None and np.dtype(dtype) != host.dtype:
            raise ValueError(f"a {np.dtype(dtype)} view of {host.dtype} elements needs a copy")
        return np.array(host, dtype=dtype, copy=copy)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if not self.device.is_cpu:
            raise AttributeError("__array_interface__ is for arrays on the CPU")
        self.buffer.share()  # whoever takes the address keeps no view whose end could be seen
        return self.numpy().__array_interface__

    def __dlpack__(self, **options: Any) -> Any:
        """A DLPack capsule of shape `shape` + component shape, sharing memory.

        Raises GradientError while a tape is recording, or refuses that others write here.
        """
        if not self.may_be_written():
            raise GradientError(
                "a tape that is recording, or refuses overwrites, cannot see what another library does with this"
                " memory",
                hint="leave its `with` block first, or share a copy: sim.clone(a)",
            )
        capsule = self.device.dlpack(self, options.get("stream"))
        return self.numpy().__dlpack__(**options) if capsule is None else capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (dlpack.CUDA, int(self.device.name.partition(":")[2] or 0)) if self.device.is_cuda else (1, 0)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        shown = self.device.cuda_interface(self)
        self.buffer.share()  # whoever takes the address keeps no view whose end could be seen
        return shown

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        """Over the rows, as NumPy has them."""
        return iter(self.numpy())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"the truth of {self._brief()} is ambiguous; compare x.numpy(), or test `x is not None`")
        return bool(np.any(self.numpy()))

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __copy__(self) -> array:
        return clone(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> array:
        copied: array = memo.setdefault(id(self), clone(self))
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (np.array(self.numpy()), self.dtype, self.device.name, self.requires_grad)

    def _brief(self) -> str:
        return f"array(shape={self.shape}, dtype={self.dtype})"

    def __str__(self) -> str:
        return str(self.numpy())

    def __repr__(self) -> str:
        values = np.array2string(self.numpy(), separator=", ", prefix="array(", threshold=100)
        grad = ", requires_grad=True" if self.requires_grad else ""
        return f"array({values}, shape={self.shape}, dtype={self.dtype}, device={self.device}{grad})"


class array1d(array):  # noqa: N801
    """`array` of one dimension: `array1d[float]`, `array1d(dtype=float)`."""

    _dimensions = 1


class array2d(array):  # noqa: N801
    """`array` of two dimensions."""

    _dimensions = 2


class array3d(array):  # noqa: N801
    """`array` of three dimensions."""

    _dimensions = 3


class array4d(array):  # noqa: N801
    """`array` of four dimensions."""

    _dimensions = 4


# ------------------------------------------------------------------------------------------ making arrays
def make_array(buffer: Buffer, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Type) -> array:
    """The one place where array objects come from."""
    made: array = _object_new(array)
    made.buffer, made.offset, made.shape, made.strides, made.dtype = buffer, offset, shape, strides, dtype
    made.ndim, made.size, made.ptr, made._grad = len(shape), math.prod(shape), buffer.address + offset, None
    made.is_contiguous = is_packed(shape, strides, size_of(dtype))
    made.slots = slots_of(made.ptr, shape, strides)
    made.layout_flags = layout_flags_of(made.is_contiguous, buffer.foreign, shape)
    return made


def fresh(
    shape: ShapeLike, dtype: DType, device: DeviceLike, requires_grad: bool, zero: bool, pinned: bool = False
) -> array:
    """An array in new packed memory; undefined content unless `zero`."""
    made = make_array(*in_fresh_memory(shape, dtype, device, zero, pinned))
    if zero and anywhere:
        refill_fresh(made)
    if requires_grad:
        made.requires_grad = True
    return made


def like(src: array, device: DeviceLike, requires_grad: bool | None, zero: bool) -> array:
    """An array in new memory with shape, type and, unless told, device and `requires_grad` of `src`."""
    wanted = src.requires_grad if requires_grad is None else requires_grad
    return fresh(src.shape, src.dtype, src.device if device is None else device, wanted, zero)


def clone(src: array, device: DeviceLike = None, requires_grad: bool | None = None) -> array:
    """A packed copy, differentiable: it inherits `requires_grad` unless told, and has a gradient of its own.

    `requires_grad=False` makes a detached copy, through which no gradient flows.
    """
    made = like(src, device, requires_grad, zero=False)
    if requires_grad is False or (src.requires_grad and not made.requires_grad):
        copy_detached(made, src)
    else:
        perform(Copy(made, src))
    return made


def _from_array(src: array, dtype: DType, device: DeviceLike, share: bool, requires_grad: bool | None) -> array:
    if dtype is not None and as_type(dtype) is not src.dtype:
        src = src.view(dtype)
    if share:
        return clone(src, device, requires_grad)
    if get_device(device) is not src.device:
        raise ValueError(f"an array on {src.device} cannot be shared with {get_device(device)}; use copy=True")
    return make_array(src.buffer, src.offset, src.shape, src.strides, src.dtype)


def _from_data(data: HostData, dtype: DType, device: DeviceLike) -> array:
    host, kind, shape = host_layout(data, dtype)
    made = fresh(shape, kind, device, False, zero=False)
    made.device.write(made, host)
    return made


def _restore(host: np.ndarray, dtype: Type, device: str, requires_grad: bool) -> array:
    made: array = array(host, dtype=dtype, device=device, requires_grad=requires_grad)
    return made
