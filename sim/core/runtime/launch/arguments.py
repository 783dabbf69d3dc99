"""Arguments of launches: their types in a specialisation, and the flat values that a compiled function takes."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from sim.core.lang.references import (
    IndexedArrayType,
    IndexedReference,
    Reference,
    StructOfReferences,
    indexed_reference,
    reference,
    struct_of_references,
)
from sim.core.lang.types import (
    ArrayType,
    Composite,
    Homogeneous,
    HostStruct,
    Scalar,
    Struct,
    Type,
    array_type,
    type_of_value,
)
from sim.core.runtime.arrays.array import AnyArray, array, indexedarray
from sim.core.runtime.arrays.creation import from_dlpack
from sim.core.runtime.compiled.argument_packing import LaunchError
from sim.core.runtime.launch.kernel import Kernel

Argument = Any
"""What users launch a kernel with: an array, a number, a host vector or struct, None."""


def argument_type(kernel: Kernel, position: int, value: Argument, label: str) -> Type:
    """The type that an argument has in the specialisation; raises LaunchError where it does not fit the annotation."""
    parameter = kernel.parameters[position]
    wanted = parameter.type
    where = f"{label} ('{parameter.name}') of kernel '{kernel.name}'"
    if isinstance(value, (array, indexedarray)):
        have = _array_form(value)
        if wanted is None:
            return have
        if not isinstance(wanted, ArrayType):
            return _referenced(wanted, value, where)
        if wanted.ndim != value.ndim:
            raise LaunchError(f"{where} has {value.ndim} dimensions; expected {wanted.ndim} ({wanted})")
        if wanted.dtype is not Any and wanted.dtype is not value.dtype:
            raise LaunchError(f"{where} has dtype {value.dtype}; expected {wanted.dtype}")
        return have
    if isinstance(wanted, ArrayType):
        if value is None:
            if wanted.dtype is Any:
                raise LaunchError(
                    f"{where} is None, and its element type cannot be guessed; annotate the kernel's parameter"
                )
            return array_type(wanted.dtype, wanted.ndim)
        raise LaunchError(f"{where} is a {type(value).__name__}; expected {wanted}")
    if isinstance(value, np.ndarray) and value.ndim and not isinstance(wanted, Homogeneous):
        raise LaunchError(f"{where} is a NumPy array; pass sim.array(a), or a scalar")
    if wanted is not None:
        if isinstance(wanted, Struct) and not (isinstance(value, HostStruct) and value._sim_struct_ is wanted):
            given = "None" if value is None else f"a {type(value).__name__}"
            raise LaunchError(f"{where} is {given}; expected struct {wanted}: make one with {wanted.name}()")
        return _struct_type(wanted, value, where) if isinstance(wanted, Struct) else wanted
    return _type_of_value(value, kernel, where)


def shared_argument(kernel: Kernel, position: int, value: Argument, label: str) -> Argument:
    """The memory of an array of another library as an array, where the kernel declares one; an empty list with the
    dimensions that it declares; anything else as it is.

    Raises LaunchError where it cannot be shared, and for a tensor that asks for a gradient: none would come back.
    """
    parameter = kernel.parameters[position]
    wanted, kind = parameter.type, type(value)
    if kind is array and not value.size and isinstance(wanted, ArrayType) and value.ndim == 1 != wanted.ndim:
        return value.reshape((0,) * wanted.ndim)
    of_others = hasattr(kind, "__array_interface__") or hasattr(kind, "__dlpack__")
    if not of_others or not isinstance(wanted, ArrayType) or isinstance(value, (array, indexedarray, Composite)):
        return value
    where = f"{label} ('{parameter.name}') of kernel '{kernel.name}'"
    if getattr(value, "requires_grad", False):
        raise LaunchError(
            f"{where} is a tensor that requires a gradient, and none would reach it; pass sim.from_torch(t), whose"
            " gradient is t.grad, wrap the launch by sim.torch_function, or pass t.detach()"
        )
    try:
        if hasattr(kind, "__array_interface__"):
            return array(value, dtype=wanted.dtype, copy=False, device="cpu")
        return from_dlpack(value, wanted.dtype)
    except (TypeError, ValueError, BufferError, RuntimeError) as problem:
        what = "NumPy array" if isinstance(value, np.ndarray) else kind.__name__
        element = "float32" if wanted.dtype is Any else wanted.dtype.name.split("<")[0]
        raise LaunchError(f"{where} is a {what}; pass sim.array(a, dtype=sim.{element}): {problem}") from None


def _array_form(value: AnyArray) -> Type:
    """The type of an array as an argument."""
    plain = array_type(value.dtype, value.ndim)
    if isinstance(value, array):
        return plain
    return indexed_reference(plain, tuple(a is not None for a in value.where))


def _referenced(wanted: Type, value: AnyArray, where: str) -> Type:
    """The type of an array that is given where a value is declared: its one element is that value."""
    if not isinstance(value, array) or value.size != 1 or value.dtype is not wanted:
        raise LaunchError(
            f"{where} is an array of shape {value.shape} of {value.dtype}; expected a value of type {wanted}, "
            "or an array of one such element, which can carry a gradient"
        )
    return reference(wanted)


def _struct_type(kind: Struct, value: HostStruct, where: str) -> Type:
    """The type of a struct argument: the struct, or the struct with fields that are given as arrays of one element."""
    fields: dict[str, Type] = {}
    for key, field_type in kind.fields.items():
        part = getattr(value, key)
        fields[key] = field_type
        if isinstance(field_type, Struct) and isinstance(part, HostStruct):
            fields[key] = _struct_type(field_type, part, f"field '{key}' of {where}")
        elif isinstance(field_type, ArrayType):
            _check_field(field_type, part, f"field '{key}' of {where}")
            if isinstance(part, indexedarray):
                fields[key] = _array_form(part)
            elif isinstance(field_type, IndexedArrayType):
                fields[key] = array_type(field_type.dtype, field_type.ndim)
        elif isinstance(part, (array, indexedarray)):
            fields[key] = _referenced(field_type, part, f"field '{key}' of {where}")
    return kind if all(fields[key] is kind.fields[key] for key in fields) else struct_of_references(kind, fields)


def _type_of_value(value: Argument, kernel: Kernel, where: str) -> Type:
    if isinstance(value, HostStruct):
        return _struct_type(value._sim_struct_, value, where)
    kind = type_of_value(value, kernel.real)
    if kind is not None:
        return kind
    raise LaunchError(f"{where} is a {type(value).__name__}, which a kernel cannot take{_how_to_share(value)}")


def _how_to_share(value: Argument) -> str:
    """What to do with an array of another library."""
    if not hasattr(value, "__dlpack__"):
        return ""
    return "; annotate the parameter as an array, or pass " + (
        "sim.from_torch(t)" if type(value).__module__.startswith("torch") else "sim.from_dlpack(a)"
    )


def flatten_argument(kind: Type, value: Argument, where: str) -> list[Any]:
    """The values of the flat parameters that one argument becomes: arrays (or None) and Python numbers."""
    if isinstance(kind, ArrayType):
        return [value]
    if isinstance(kind, Reference):
        return [value.flatten()]
    if isinstance(kind, IndexedReference):
        return [value.data, *(a for a in value.where if a is not None)]
    if isinstance(kind, Scalar):
        try:
            if value is None or isinstance(value, (str, bytes)) or (kind.is_int and not hasattr(value, "__index__")):
                raise TypeError  # NumPy would make a NaN of None, and read the text
            if isinstance(value, kind.np.type):
                return [value]
            if kind.is_int:  # of Python, since NumPy's would wrap
                return [kind.np.type(operator.index(value))]
            with np.errstate(over="ignore"):
                made = kind.np.type(value)
            if kind.is_float and np.isinf(made) and not np.isinf(value):
                raise OverflowError
            return [made]
        except (TypeError, ValueError, OverflowError):
            raise LaunchError(f"{where} is {value!r}; expected {kind}") from None
    if isinstance(kind, Homogeneous):
        data = value.data if isinstance(value, Composite) else np.asarray(value)
        if data.dtype.kind not in "biuf":
            raise LaunchError(f"{where} is {value!r}; expected {kind}")
        if data.size != len(kind.leaves):
            if data.ndim == 0:
                raise LaunchError(
                    f"{where} is a single value, {value!r}; expected {kind}: to fill it write"
                    f" {kind.__name__}({value!r})"
                )
            raise LaunchError(f"{where} has {data.size} components; expected {kind}")
        if data.shape != kind.shape and _extents(data.shape) not in (_extents((data.size,)), _extents(kind.shape)):
            raise LaunchError(f"{where} has shape {data.shape}; expected {kind}")
        if data.dtype == kind.dtype.np:
            return list(data.ravel())
        with np.errstate(over="ignore", invalid="ignore"):
            made = data.astype(kind.dtype.np)
        # As of numbers: none is cut, wraps around or gets lost beyond the largest.
        if not np.array_equal(made, data) if kind.dtype.is_int else (np.isinf(made) & ~np.isinf(data)).any():
            raise LaunchError(f"{where} is {value!r}; expected {kind}")
        return list(made.ravel())
    assert isinstance(kind, (Struct, StructOfReferences))
    flat: list[Any] = []
    for key, field_type in kind.fields.items():
        part = getattr(value, key)
        flat += flatten_argument(field_type, part, f"field '{key}' of {where}")
    return flat


def _extents(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without what has no extent: of a row, a column or the numbers of a matrix in order the number."""
    return tuple(n for n in shape if n > 1)


def _check_field(wanted: ArrayType, value: Argument, where: str) -> None:
    if value is None:
        return
    if not isinstance(value, (array, indexedarray)):
        raise LaunchError(f"{where} is a {type(value).__name__}; expected {wanted}")
    if value.dtype is not wanted.dtype or value.ndim != wanted.ndim:
        raise LaunchError(f"{where} is {array_type(value.dtype, value.ndim)}; expected {wanted}")
