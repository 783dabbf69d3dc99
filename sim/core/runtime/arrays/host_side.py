"""What an array is to the host and to other libraries: NumPy, Python numbers, DLPack, array interfaces."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np

from sim.core.lang.errors import GradientError
from sim.core.lang.types import ArrayType, Type, size_of
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.operations import describe
from sim.core.runtime.arrays.placement import DType
from sim.core.runtime.devices.device import Device
from sim.core.runtime.memory import dlpack
from sim.core.runtime.memory.buffer import Buffer, before_write
from sim.core.runtime.memory.elements import element, python_values


class HostSide:
    """The part of `array` that gives its elements to others."""

    __slots__ = ()

    buffer: Buffer
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Type
    size: int
    is_contiguous: bool

    @property
    def nbytes(self) -> int:
        """Bytes of all elements (a strided view spans more)."""
        return self.size * size_of(self.dtype)

    @property
    def device(self) -> Device:
        """Where it lies."""
        device: Device = self.buffer.device
        return device

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

    def cptr(self) -> Any:
        """The address as a pointer of `ctypes`, to the numbers of vectors and to the fields of structs.

        Raises TypeError for memory of a GPU and for elements that do not lie packed.
        """
        if not (self.device.is_cpu and self.is_contiguous):
            raise TypeError(f"{describe(self)} has no pointer for the host: it must lie packed, on the CPU")
        self.buffer.share()  # whoever takes the address keeps no view whose end could be seen
        kind = np.ctypeslib.as_ctypes_type(element(self.dtype)[0])
        return ctypes.cast(self.buffer.address + self.offset, ctypes.POINTER(kind))

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
        return python_values(self.buffer.device.numpy(self), self.dtype, self._array_at)

    def _array_at(self, record: Any, field: ArrayType) -> Any:
        raise NotImplementedError

    def __ctype__(self) -> Any:
        """What `Launch.set_param_at_index_from_ctype` takes: itself."""
        return self

    def item(self) -> Any:
        """The one element of an array of size 1."""
        if self.size != 1:
            raise ValueError(f"item() needs one element, {describe(self)} has {self.size}")
        return self.list()[0]

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
        if capsule is not None:
            return capsule
        if options.pop("stream", None) not in (None, -1):
            raise TypeError("the DLPack stream must be None or -1 for CPU device: there is none to wait for")
        return self.numpy().__dlpack__(**options)

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
        """Whether there are elements, as of a list.  Raises ValueError for a single one that is zero, whose value may
        be meant."""
        if self.size == 1 and not np.any(self.numpy()):
            raise ValueError(
                f"the truth of {describe(self)} is ambiguous, its element being zero; test `x is not None`, len(x) or"
                " x.item()"
            )
        return self.size > 0

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __str__(self) -> str:
        return str(self.numpy())
