"""DLPack for memory of GPUs: tensors of other libraries and arrays share it, each in the order of its stream.

The structures are those of DLPack 0.8 (`dlpack.h`).  Memory of the CPU goes through NumPy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

CUDA, HOST = 2, (1, 3, 13)
"""DLPack's numbers for memory of an NVIDIA GPU, and for what the host can read: its own, pinned, managed by CUDA."""

_NAME, _USED = b"dltensor", b"used_dltensor"
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}
_LEGACY_STREAMS = (None, 0, 1, -1)
"""Streams of a consumer that need no waiting: in order with ours by themselves, or asked not to."""

_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_raw_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]


_given: dict[int, tuple[Any, ...]] = {}
"""What consumers still use, by the address of its structure."""


def _give_back(address: int) -> None:
    _given.pop(address, None)


def _end_capsule(capsule: int) -> None:
    """A capsule that nobody took gives the memory back itself."""
    if _raw_valid(capsule, _NAME):
        _give_back(_raw_pointer(capsule, _NAME))


# What C calls: kept here, since C holds no reference to them.
_GIVE_BACK, _END_CAPSULE = _DELETER(_give_back), _DELETER(_end_capsule)


def to_capsule(
    address: int, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...], device_id: int, owner: object
) -> Any:
    """A capsule of GPU memory; strides in bytes; `owner` is kept until the consumer gives it back."""
    if any(s % dtype.itemsize for s in strides):
        raise BufferError(
            f"strides of {strides} bytes are no multiples of the {dtype.itemsize} bytes of a number; export a"
            " contiguous() copy"
        )
    n = len(shape)
    extents, steps = (ctypes.c_int64 * n)(*shape), (ctypes.c_int64 * n)(*(s // dtype.itemsize for s in strides))
    pointer = ctypes.POINTER(ctypes.c_int64)
    tensor = _Tensor(
        address,
        CUDA,
        device_id,
        n,
        _CODES[dtype.kind],
        8 * dtype.itemsize,
        1,
        ctypes.cast(extents, pointer),
        ctypes.cast(steps, pointer),
        0,
    )
    managed = _Managed(tensor, None, _GIVE_BACK)
    at = ctypes.addressof(managed)
    _given[at] = managed, extents, steps, owner
    return _new(at, _NAME, ctypes.cast(_END_CAPSULE, ctypes.c_void_p))


class Capsule:
    """A capsule that somebody made, as an object that NumPy takes one from."""

    def __init__(self, capsule: Any) -> None:
        if not is_capsule(capsule):
            raise TypeError(f"Expected a valid DLPack capsule, got {type(capsule).__name__}")
        if not _valid(capsule, _NAME):
            raise TypeError("Expected a valid DLPack capsule: this one was taken before, or holds something else")
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        tensor = _Managed.from_address(_pointer(self._capsule, _NAME)).tensor
        return int(tensor.device_type), int(tensor.device_id)


def is_capsule(x: object) -> bool:
    """Whether x is a capsule of Python's C interface."""
    return type(x).__name__ == "PyCapsule"


class Taken:
    """Memory from a capsule: `address`, `dtype`, `shape`, `strides` [bytes], `device_id`; given back when unused."""

    def __init__(self, capsule: Any) -> None:
        self._managed = _Managed.from_address(_pointer(capsule, _NAME))
        _rename(capsule, _USED)
        tensor = self._managed.tensor
        if tensor.lanes != 1 or tensor.code not in _KINDS:
            raise BufferError(
                "the numbers of this tensor have no counterpart; it must be of booleans, integers or floating-point"
                " numbers"
            )
        kind = _KINDS[tensor.code]
        self.dtype = np.dtype(bool) if kind == "b" else np.dtype(f"{kind}{tensor.bits // 8}")
        self.address, self.device_id = int(tensor.data or 0) + tensor.byte_offset, int(tensor.device_id)
        self.shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
        if tensor.strides:
            self.strides = tuple(tensor.strides[k] * self.dtype.itemsize for k in range(tensor.ndim))
        else:
            self.strides = tuple(
                int(np.prod(self.shape[k + 1 :], dtype=np.int64)) * self.dtype.itemsize for k in range(tensor.ndim)
            )

    def __del__(self) -> None:
        deleter: Callable[[int], None] | None = getattr(getattr(self, "_managed", None), "deleter", None)
        if deleter:
            deleter(ctypes.addressof(self._managed))


def waits(stream: Any) -> bool:
    """Whether a consumer on this stream has to be made to wait for ours."""
    return stream not in _LEGACY_STREAMS
