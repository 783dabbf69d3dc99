"""Between host data and array elements: which type data has, how it fits an element type, and back to Python values."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from sim.core.lang.errors import ArrayError
from sim.core.lang.types import (
    ArrayType,
    Composite,
    Homogeneous,
    HostNumber,
    HostStruct,
    Scalar,
    Struct,
    Type,
    as_scalar,
    as_type,
    bool_,
    float32,
    from_numpy,
    has_float,
    int32,
    matrix,
    place_of,
    vector,
)

ArrayAt = Callable[[Any, ArrayType], Any]
"""Makes the array that lies where a record of an `array_place` says."""
HostData = Any
"""What users give: numbers, nested lists of them, NumPy data, host vectors and structs."""


@functools.cache
def element(kind: Type) -> tuple[np.dtype, tuple[int, ...], tuple[int, ...]]:
    """NumPy dtype, component shape and component strides [bytes] of one element of type `kind`."""
    if isinstance(kind, Scalar):
        return kind.np, (), ()
    if isinstance(kind, Homogeneous):
        strides = tuple(kind.dtype.size * math.prod(kind.shape[k + 1 :]) for k in range(len(kind.shape)))
        return kind.dtype.np, kind.shape, strides
    if isinstance(kind, Struct):
        return kind.np, (), ()
    raise ArrayError(
        f"{kind} cannot be an array element; use a scalar, vector, matrix, quaternion, transform or struct"
    )


@functools.cache
def differentiable(kind: Type) -> bool:
    """Whether elements of this type have a floating-point part."""
    return has_float(kind)


def infer_type(data: HostData) -> Type:
    """The element type of data given without one.

    NumPy data keep their type; Python numbers become int32, float32 or bool, as literals in a kernel do.
    """
    if isinstance(data, HostStruct):
        return data._sim_struct_
    if isinstance(data, (Composite, HostNumber)):
        kind: Type = data.type
        return kind
    if isinstance(data, (list, tuple, range)):
        first = data
        while isinstance(first, (list, tuple)) and first:
            first = first[0]
        if isinstance(first, (Composite, HostNumber, HostStruct)):
            return infer_type(first)
        if isinstance(first, (np.ndarray, np.generic)):
            return from_numpy(_plain(data).dtype)
    elif isinstance(data, np.generic) or not isinstance(data, (int, float)):
        dtype = _plain(data).dtype
        if dtype.names:
            raise ArrayError("structured data need dtype=, the struct type of the elements")
        return from_numpy(dtype)
    letter = _plain(data).dtype.kind
    if letter not in "biuf":
        raise ArrayError(f"cannot make an array of {_describe(data)}; give numbers, vectors or structs")
    return bool_ if letter == "b" else float32 if letter == "f" else int32


def to_host(data: HostData, dtype: Any = None) -> tuple[Type, np.ndarray]:
    """Element type and data of shape (..., component shape); a view of `data` where nothing has to be converted."""
    kind = infer_type(data) if dtype is None or dtype is Any else as_type(dtype)
    scalar, inner, _ = element(kind)
    if isinstance(kind, Struct):
        return kind, np.atleast_1d(_records(data, kind))
    host = _fit(_convert(_plain(data, scalar), scalar), kind, inner)
    return kind, host if host.ndim > len(inner) else host.reshape((1, *inner))


def element_value(value: HostData, kind: Type) -> np.ndarray:
    """One element of type `kind` from a host value; a scalar fills all components.

    Of bools, what is not zero is true.
    """
    scalar, inner, _ = element(kind)
    if isinstance(kind, Struct):
        record = _records([value] if isinstance(value, HostStruct) else value, kind) if not _is_zero(value) else None
        if record is not None and record.size != 1:
            raise ArrayError(f"expected one {kind.name}, got {record.size}")
        return np.zeros((), kind.np) if record is None else record.reshape(()).copy()
    given = _plain(value, scalar)
    host = given.astype(bool) if scalar.kind == "b" and given.dtype.kind in "iuf" else _convert(given, scalar)
    if host.ndim == 0:
        return np.full(inner, host, scalar)
    if host.size == math.prod(inner) and (host.ndim == 1 or host.shape == inner):
        return host.reshape(inner).copy()
    raise ArrayError(f"one {kind} has {math.prod(inner)} components, got data of shape {host.shape}")


def type_of_element(value: HostData, scalar: Type | None = None) -> Type:
    """The type of the element that a value is: that of a number, or a vector or matrix for a list or NumPy data.

    scalar: of its numbers, where that is known.
    """
    host = np.asarray(value) if not isinstance(value, (HostStruct, Composite)) else None
    if host is None or host.ndim == 0 or host.ndim > 2:
        return infer_type(value) if scalar is None else scalar
    kind = as_scalar(infer_type(value) if scalar is None else scalar)
    return vector(host.size, kind) if host.ndim == 1 else matrix((host.shape[0], host.shape[1]), kind)


def python_values(host: np.ndarray, kind: Type, array_at: ArrayAt | None = None) -> list[Any]:
    """The elements of `host` (shape (..., component shape)) as a flat list of Python numbers or host values.

    array_at: makes the array that a field of a struct says the place of.
    """
    if isinstance(kind, Homogeneous):
        return [Composite(kind, row) for row in host.reshape((-1, *kind.shape))]
    if isinstance(kind, Struct):
        return [_struct_value(record, kind, array_at) for record in host.reshape(-1)]
    return host.reshape(-1).tolist()


def add_into(total: np.ndarray, values: np.ndarray) -> None:
    """total += values, over the floating-point fields where the elements are structs (others have no gradient)."""
    if total.dtype.names:
        for name in total.dtype.names:
            add_into(total[name], values[name])
    elif total.dtype.kind == "f":
        total += values


def add_at(total: np.ndarray, where: tuple[Any, ...], values: np.ndarray) -> None:
    """total[where] += values, over the floating-point fields, as often as an element is chosen."""
    if total.dtype.names:
        for name in total.dtype.names:
            add_at(total[name], where, values[name])
    elif total.dtype.kind == "f":
        np.add.at(total, where, values)


def clear(host: np.ndarray) -> None:
    """host = 0, field by field where the elements are structs."""
    host[...] = np.zeros((), host.dtype)


def _plain(data: HostData, target: np.dtype | None = None) -> np.ndarray:
    try:
        host = np.asarray(data)
    except ValueError as error:
        raise ArrayError(f"data does not form a rectangular array: {error}") from None
    if target is not None and target.kind in "iu" and host.dtype == np.float64 and isinstance(data, Sequence):
        whole = np.asarray(data, object)  # NumPy makes float64 of integers on both sides of 2^63, which rounds them
        if all(isinstance(x, int) for x in whole.flat):
            with suppress(OverflowError):
                return whole.astype(target)
    return host


def _convert(host: np.ndarray, target: np.dtype) -> np.ndarray:
    """`host` as `target`.  Rounding to float is fine; anything that an integer or a bool cannot hold is an error."""
    if host.dtype == target:
        return host
    if host.dtype.kind not in "biuf":
        what = "structured data" if host.dtype.names else f"data of NumPy type {host.dtype}"
        raise ArrayError(f"cannot make {target} elements of {what}; give numbers")
    with np.errstate(all="ignore"):
        out = host.astype(target)
    if target.kind != "f":
        lost = np.asarray(out != host)
        if lost.any():
            where = tuple(int(k) for k in np.unravel_index(int(np.argmax(lost)), lost.shape))
            place = f" at index {where[0] if len(where) == 1 else where}" if where else ""
            raise ArrayError(f"{host[where]}{place} does not fit {target}; convert the data with .astype first")
    return out


def _fit(host: np.ndarray, kind: Type, inner: tuple[int, ...]) -> np.ndarray:
    """Reads the last axes of `host` as the components of `kind`; flat components are accepted."""
    if not inner or host.shape[-len(inner) :] == inner:
        return host
    while host.ndim > 1 and host.shape[-1] == 1:  # a matrix of one column is a vector
        host = host[..., 0]
    if host.shape[-len(inner) :] == inner:
        return host
    count = math.prod(inner)
    if len(inner) > 1 and host.ndim and host.shape[-1] == count:
        return host.reshape(host.shape[:-1] + inner)
    if host.ndim and host.shape[-1] % count == 0:
        return host.reshape((*host.shape[:-1], host.shape[-1] // count, *inner))
    wanted = ", ".join(["...", *map(str, inner)])
    raise ArrayError(f"data of shape {host.shape} does not fit {kind} elements; expected shape ({wanted})")


def _records(data: HostData, kind: Struct) -> np.ndarray:
    """Structured data of type `kind` from structured NumPy data (fields matched by name) or host structs."""
    if isinstance(data, HostStruct):
        data = [data]
    if isinstance(data, (list, tuple)):
        out = np.zeros(len(data), kind.np)
        for k, value in enumerate(data):
            _store_struct(out[k : k + 1], value, kind)
        return out
    host = _plain(data)
    if host.dtype == kind.np:
        return host
    out = np.zeros(host.shape, kind.np)
    _match_fields(out, host, kind)
    return out


def _match_fields(out: np.ndarray, host: np.ndarray, kind: Struct) -> None:
    if set(host.dtype.names or ()) != set(kind.fields):
        given = f"fields {', '.join(host.dtype.names)}" if host.dtype.names else f"NumPy type {host.dtype}"
        raise ArrayError(f"struct {kind.name} has fields {', '.join(kind.fields)}, the data has {given}")
    for name, field in kind.fields.items():
        if isinstance(field, Struct):
            _match_fields(out[name], host[name], field)
        elif isinstance(field, ArrayType):
            out[name] = host[name]
        else:
            out[name] = _convert(host[name], element(field)[0])


def _store_struct(record: np.ndarray, value: HostData, kind: Struct) -> None:
    if not isinstance(value, HostStruct) or value._sim_struct_ is not kind:
        raise ArrayError(f"expected a {kind.name}, got {_describe(value)}")
    for name, field in kind.fields.items():
        part = getattr(value, name)
        if isinstance(field, Struct):
            _store_struct(record[name], part, field)
        elif isinstance(field, ArrayType):
            try:
                record[name] = place_of(part, field)
            except TypeError as problem:
                raise ArrayError(f"field '{name}' of {kind.name}: {problem}") from None
        else:
            record[name] = element_value(part, field)


def arrays_in(data: HostData) -> Iterator[Any]:
    """The arrays that the fields of host structs are, also of structs in lists and in structs."""
    if isinstance(data, (list, tuple)):
        for part in data:
            yield from arrays_in(part)
    elif isinstance(data, HostStruct):
        for name, field in data._sim_struct_.fields.items():
            part = getattr(data, name)
            if isinstance(field, Struct):
                yield from arrays_in(part)
            elif isinstance(field, ArrayType) and part is not None:
                yield part


def _struct_value(record: HostData, kind: Struct, array_at: ArrayAt | None) -> HostStruct:
    fields: dict[str, Any] = {}
    for name, field in kind.fields.items():
        part = record[name]
        if isinstance(field, Struct):
            fields[name] = _struct_value(part, field, array_at)
        elif isinstance(field, ArrayType):
            fields[name] = array_at(part, field) if array_at is not None and part["address"] else None
        else:
            fields[name] = python_values(part[None], field)[0]
    made: HostStruct = kind(**fields)
    return made


def _is_zero(value: HostData) -> bool:
    return isinstance(value, (int, float, np.number)) and value == 0


def _describe(data: HostData) -> str:
    return f"a {type(data).__name__}"
