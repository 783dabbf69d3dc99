"""Structs: types with named fields, from the annotations of a class, and their values on the host."""

from __future__ import annotations

import functools
import sys
import typing
from collections.abc import Callable
from typing import Any

import numpy as np

from sim.core.lang.errors import KernelError, RefusedName, UnknownAttribute
from sim.core.lang.types.base import (
    ArrayType,
    CompositeType,
    Homogeneous,
    Leaf,
    Scalar,
    Type,
    alignment,
    as_type,
    int32,
    int64,
    leaves_of,
    numpy_dtype,
    size_of,
    uint64,
    vector,
)
from sim.core.lang.types.values import Composite


class Struct(CompositeType):
    """Named fields of any type, in C layout.

    In memory an array field says where the array lies (`array_place`); as an argument it is the array.
    """

    def __init__(self, name: str, fields: dict[str, Type]) -> None:
        self.name, self.fields, self.has_arrays = name, fields, False
        leaves: list[Leaf] = []
        offsets: dict[str, int] = {}
        end, widest = 0, 1
        for key, field in fields.items():
            if isinstance(field, ArrayType) or (isinstance(field, Struct) and field.has_arrays):
                self.has_arrays = True
            field = in_memory(field)
            align = alignment(field)
            widest, end = max(widest, align), -(-end // align) * align
            offsets[key] = end
            for leaf in leaves_of(field):
                path = f"{key}.{leaf.path}" if leaf.path else key
                leaves.append(Leaf(path, leaf.scalar, end + leaf.offset))
            end += size_of(field)
        self.leaves, self.size = tuple(leaves), max(-(-end // widest) * widest, 1)
        formats = [numpy_dtype(in_memory(fields[k])) for k in offsets]
        self.np = np.dtype(
            {"names": list(offsets), "formats": formats, "offsets": list(offsets.values()), "itemsize": self.size}
        )

    def __call__(self, /, *values: Any, **fields: Any) -> Any:
        """A value on the host, from fields in order or by name; those that are not given are zero, arrays None."""
        if len(values) > len(self.fields):
            raise TypeError(f"struct {self.name} has {len(self.fields)} fields, got {len(values)} values")
        given = dict(zip(self.fields, values, strict=False))
        twice = next((key for key in fields if key in given), None)
        if twice is not None:
            raise TypeError(f"struct {self.name} got '{twice}' twice")
        return HostStruct(self, **given, **fields)

    @property
    def cls(self) -> Struct:
        """What `isinstance(value, Particle.cls)` asks, in Warp's programs."""
        return self

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, HostStruct) and value._sim_struct_ is self

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        raise KernelError(
            f"a class derives from struct {self.name}, and structs have no bases", hint="name all fields in the class"
        )

    def numpy_dtype(self) -> np.dtype:
        """The NumPy dtype of one element of an array of it."""
        return self.np

    def field_leaves(self, key: str) -> tuple[int, int]:
        """Range of leaf numbers that field `key` occupies."""
        start = 0
        for name, field in self.fields.items():
            count = len(leaves_of(in_memory(field)))
            if name == key:
                return start, start + count
            start += count
        raise KeyError(key)


@functools.cache
def array_place(ndim: int, indexed: bool) -> Struct:
    """What a struct in memory holds for an array of so many dimensions; strides in bytes.  None: zeros.

    indexed: of one that is seen through indices, also where these lie, packed, and how many each dimension has.
    """
    fields: dict[str, Type] = {"address": uint64, "shape": vector(ndim, int32), "strides": vector(ndim, int64)}
    if indexed:
        fields |= {"indices": vector(ndim, uint64), "extents": vector(ndim, int32)}
    return Struct(f"{'indexed' if indexed else ''}array{ndim}d_place", fields)


def in_memory(field: Type) -> Type:
    """The type of what a field takes in memory."""
    return array_place(field.ndim, field.indexed) if isinstance(field, ArrayType) else field


def unset_value(field: Type) -> Any:
    """What a field, or an argument of a recorded launch, holds that is not set: zero, or no array."""
    if isinstance(field, ArrayType):
        return None
    return field.np.type(0).item() if isinstance(field, Scalar) else field()  # type: ignore[operator]


class HostStruct:
    """A struct on the host: fields start at zero (arrays at None) and are set by attribute.

    Vectors, matrices and structs are copied when they are set, as they are in memory; what a field holds can be
    changed in place, `s.inner.x = 1.0`.
    """

    _sim_struct_: Struct

    def __init__(self, kind: Struct, /, **fields: Any) -> None:
        object.__setattr__(self, "_sim_struct_", kind)
        for key, field in kind.fields.items():
            typed = isinstance(field, Scalar) and field.kind != "b"
            object.__setattr__(self, key, field(0) if typed else unset_value(field))  # type: ignore[operator]
        for key, value in fields.items():
            setattr(self, key, value)

    def __ctype__(self) -> HostStruct:
        """What `Launch.set_param_at_index_from_ctype` takes: itself."""
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        kind: Struct = self._sim_struct_
        if name not in kind.fields:
            raise UnknownAttribute(f"struct {kind.name} has no field '{name}'; it has {', '.join(kind.fields)}")
        field = kind.fields[name]
        if isinstance(field, Scalar) and isinstance(value, (str, float, np.floating)[: 3 if field.is_int else 1]):
            raise TypeError(f"Struct field '{name}' expects {field}, got {value!r}")
        in_memory = isinstance(getattr(value, "dtype", None), Type)  # an array of one element: see references.py
        if isinstance(field, Homogeneous) and not isinstance(value, Composite) and not in_memory:
            value = field() if value is None else field(*np.ravel(_of_components(value, name, field)))
        if isinstance(field, ArrayType) and value is not None:
            _check_array(value, name, field)
        object.__setattr__(self, name, _own(value))

    def to(self, device: Any) -> HostStruct:
        """The same with its arrays, those of structs in it too, on a device."""
        kind: Struct = self._sim_struct_
        own = {key: getattr(self, key) for key in kind.fields}
        return HostStruct(kind, **{k: v.to(device) if hasattr(v, "to") else v for k, v in own.items()})

    def numpy_value(self) -> tuple[Any, ...]:
        """The fields as an element of `Struct.numpy_dtype()` has them; of arrays, where they lie."""
        kind: Struct = self._sim_struct_
        return tuple(_numpy_value(getattr(self, key), field) for key, field in kind.fields.items())

    def __repr__(self) -> str:
        kind: Struct = self._sim_struct_
        return f"{kind.name}({', '.join(f'{k}={getattr(self, k)!r}' for k in kind.fields)})"


def _own(value: Any) -> Any:
    """What a field holds of a value that could be changed elsewhere: a copy; of arrays themselves."""
    if isinstance(value, Composite):
        return Composite(value.type, value.data)
    if isinstance(value, HostStruct):
        kind: Struct = value._sim_struct_
        return HostStruct(kind, **{key: getattr(value, key) for key in kind.fields})
    return value


def _of_components(value: Any, name: str, field: Homogeneous) -> np.ndarray:
    given = np.asarray(value)
    if given.ndim == 0:
        raise TypeError(
            f"Struct field '{name}' expects {field.__name__} but got a single value, {value!r}; to fill it write"
            f" {field.__name__}({value})"
        )
    if given.size == len(field.leaves) and given.ndim > 1 and given.squeeze().shape not in (field.shape, (given.size,)):
        raise TypeError(f"Struct field '{name}' expects {field.__name__}, got numbers of shape {given.shape}")
    return given


def _check_array(value: Any, name: str, field: ArrayType) -> None:
    """Raises TypeError for what is no array of the elements and dimensions that a field names.

    What another library made is looked at when it is launched.
    """
    dtype, ndim = getattr(value, "dtype", None), getattr(value, "ndim", None)
    if isinstance(value, (list, tuple, int, float)):
        how = "sim.indexedarray(x, indices)" if field.indexed else "sim.array(...)"
        raise TypeError(f"Struct field '{name}' expects {field}, got {type(value).__name__}; write {how}")
    if isinstance(dtype, Type) and field.dtype not in (Any, dtype):
        raise TypeError(f"Struct field '{name}' expects dtype {field.dtype}, got {dtype}")
    if isinstance(dtype, Type) and ndim != field.ndim:
        raise TypeError(
            f"Struct field '{name}' expects an array with {field.ndim} dimension(s), got {ndim} dimension(s)"
        )


class RefusedStruct(RefusedName):
    """A struct with a field that is not supported.  A file may define it, and make one, beside what it does use."""

    def __call__(self, *values: Any, **fields: Any) -> RefusedStruct:  # type: ignore[override]
        return self


def _numpy_value(value: Any, field: Type) -> Any:
    if isinstance(field, ArrayType):
        return place_of(value, field)
    if isinstance(field, Struct):
        return value.numpy_value()
    return np.asarray(getattr(value, "data", value)) if isinstance(field, Homogeneous) else value


def place_of(value: Any, field: ArrayType) -> tuple[Any, ...]:
    """What `array_place` holds for an array, or None.  Raises TypeError for what does not fit the field."""
    if value is None:
        return 0, *(np.zeros(field.ndim) for _ in range(4 if field.indexed else 2))
    given = f"{value.dtype} of {value.ndim} dimensions" if hasattr(value, "ndim") else f"a {type(value).__name__}"
    if not hasattr(value, "where" if field.indexed else "ptr"):
        how = "sim.indexedarray(x, indices)" if field.indexed else "x.contiguous() of an indexedarray"
        raise TypeError(f"expected {field} in an element of an array, got {given}; write {how}")
    if value.dtype is not field.dtype or value.ndim != field.ndim:
        raise TypeError(f"expected {field}, got an array of {given}")
    if not field.indexed:
        return value.ptr or 0, np.array(value.shape), np.array(value.strides)
    indices = [a.ptr or 0 for a in value.all_indices()]
    return value.data.ptr or 0, value.data.shape, value.data.strides, np.array(indices, np.uint64), value.shape


@typing.overload
def struct(cls: type) -> Struct | RefusedStruct: ...
@typing.overload
def struct(cls: None = None, *, module: Any = None) -> Callable[[type], Struct | RefusedStruct]: ...
def struct(cls: type | None = None, *, module: Any = None) -> Any:
    """`@struct class Particle: x: sim.vec3; mass: float`: a struct type from the annotations of a class.

    `module` is accepted as in Warp: a struct is compiled with the kernels that use it.
    """
    return _struct if cls is None else _struct(cls, 2)


def _struct(cls: type, depth: int = 1) -> Struct | RefusedStruct:
    fields: dict[str, Type] = {}
    for key, spec in cls.__dict__.get("__annotations__", {}).items():
        if isinstance(spec, str):  # postponed: what Python would evaluate, where the class is defined
            frame = sys._getframe(depth)
            spec = eval(spec, {**frame.f_globals, **frame.f_locals})  # noqa: S307
        if isinstance(spec, RefusedName):
            return RefusedStruct(f"struct {cls.__name__}", f"its field '{key}' is {spec!r}")
        try:
            fields[key] = as_type(spec)
        except TypeError as problem:
            raise TypeError(f"field '{key}' of struct {cls.__name__}: {problem}") from None
    kind = Struct(cls.__name__, fields)
    kind.__doc__ = cls.__doc__
    return kind
