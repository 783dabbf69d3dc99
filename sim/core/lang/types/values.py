"""Values on the host, as kernels have them: typed numbers, and vectors, matrices, quaternions and transforms.

Both are what NumPy can take; operators between them follow the rules of the language (`evaluation.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from sim.core import config
from sim.core.lang.errors import ValueMismatch
from sim.core.lang.types.evaluation import operation

ScalarType: TypeAlias = Any
CompositeKind: TypeAlias = Any
"""A `Scalar` and a `Homogeneous` of `base.py`, which makes values of these classes."""
_XYZW = "xyzw"
_NATIVE = ("float32", "int32", "bool")
"""Scalar types whose values are Python's own numbers where they come out of something: as literals in a kernel are."""


def python_number(kind: ScalarType, value: Any) -> Any:
    """A number as it leaves a vector or a function: one of Python, or one that keeps its type."""
    return value.item() if kind.name in _NATIVE or config.legacy_scalar_return_types else kind(value)


def components(value: Any, dtype: np.dtype, what: str) -> np.ndarray:
    """The numbers in a value, as components of this dtype: floats are rounded, integers wrap.

    Raises ValueMismatch where there is something else, or where an integer gets a fraction (of no host value: those
    are converted, as in a kernel).
    """
    given = (value.data if isinstance(value, Composite) else np.asarray(value)).reshape(-1)
    if given.dtype == object:  # numbers of different kinds, or of no kind that NumPy knows
        given = np.array([x.item() if isinstance(x, np.generic) else x for x in given], ndmin=1)
    if given.dtype.kind not in "biufO" or not all(isinstance(x, int) for x in given if given.dtype == object):
        raise ValueMismatch(
            f"a component of {what}: Expected to assign a `{dtype}` value but got `{type(value).__name__}` instead:"
            f" {value!r}"
        )
    with np.errstate(all="ignore"):
        if dtype.kind not in "iu":
            return given.astype(dtype)
        whole = np.isfinite(given) & (given == np.trunc(given)) if given.dtype.kind == "f" else None
        if whole is not None and not isinstance(value, Composite) and not np.all(whole):
            raise ValueMismatch(f"a component of {what} is a whole number, got {value!r}")
        if given.dtype.kind == "f":
            given = np.trunc(given).astype(np.int64)
        return (given % 2**64).astype(np.uint64).astype(dtype) if given.dtype == object else given.astype(dtype)


def _is_operand(x: Any) -> bool:
    """Whether operators of host values take x; arrays and other libraries' objects have operators of their own."""
    return isinstance(x, (bool, int, float, np.generic, HostNumber, Composite))


def _binary(name: str, of_arrays: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: Any, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return of_arrays(np.asarray(self), other)
        return operation(name, self, other) if _is_operand(other) else NotImplemented

    def backward(self: Any, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return of_arrays(other, np.asarray(self))
        return operation(name, other, self) if _is_operand(other) else NotImplemented

    return forward, backward


class HostOperators:
    """Arithmetic between host values: that of kernels, without implicit conversions between types."""

    __slots__ = ()

    __add__, __radd__ = _binary("add", operator.add)
    __sub__, __rsub__ = _binary("sub", operator.sub)
    __mul__, __rmul__ = _binary("mul", operator.mul)
    __matmul__, __rmatmul__ = _binary("mul", operator.matmul)
    __truediv__, __rtruediv__ = _binary("div", operator.truediv)
    __floordiv__, __rfloordiv__ = _binary("floordiv", operator.floordiv)
    __mod__, __rmod__ = _binary("mod", operator.mod)
    __pow__, __rpow__ = _binary("pow", operator.pow)

    def __neg__(self) -> Any:
        return operation("neg", self)

    def __pos__(self) -> Any:
        return operation("pos", self)

    def __abs__(self) -> Any:
        return operation("abs", self)


class HostClass(type):
    """Classes of host values: each type has its own, so that `type(v)` says the type, equals it, and is called as it.

    `Composite(kind, data)` makes a value of the class of `kind`.
    """

    def __call__(cls, *args: Any, **named: Any) -> Any:
        kind = getattr(cls, "_sim_type_", None)
        if kind is not None:
            return kind(*args, **named)
        return type.__call__(class_of(args[0], cls), *args, **named)

    def __eq__(cls, other: object) -> bool:
        return other is cls or (other is not None and other is getattr(cls, "_sim_type_", None))

    def __hash__(cls) -> int:
        return hash(getattr(cls, "_sim_type_", None)) or type.__hash__(cls)

    def __getattr__(cls, name: str) -> Any:
        if name in _OF_TYPE:
            return getattr(cls._sim_type_, name)
        raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")


def class_of(kind: Any, base: HostClass) -> HostClass:
    """The class of the host values of a type."""
    found: HostClass | None = kind.__dict__.get("host_class")
    if found is None:
        own = {"_sim_type_": kind, "__slots__": ()}
        if base is HostNumber:  # what NumPy takes a dtype from, also of `class Mass(sim.float32)`
            own["__numpy_dtype__"] = kind.np
        found = kind.host_class = HostClass(kind.__name__, (base,), own)
    return found


class HostNumber(HostOperators, metaclass=HostClass):
    """A number of a scalar type, `float16(1.5)`; in arithmetic and as a constant of a kernel it keeps that type."""

    type: ScalarType
    value: Any
    """The number of Python."""
    __slots__ = ("type", "value")
    __array_priority__ = 100.0

    def __init__(self, kind: ScalarType, value: Any) -> None:
        self.type, self.value = kind, value

    @property
    def dtype(self) -> np.dtype:
        """That of NumPy."""
        found: np.dtype = np.dtype(self.type.np)
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.value, self.type.np if dtype is None else dtype)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __round__(self, digits: int | None = None) -> Any:
        return self.type(round(float(self.value), digits))

    def __eq__(self, other: object) -> Any:
        return self.value == (other.value if isinstance(other, HostNumber) else other)

    def __lt__(self, other: Any) -> Any:
        return self.value < (other.value if isinstance(other, HostNumber) else other)

    def __le__(self, other: Any) -> Any:
        return self.value <= (other.value if isinstance(other, HostNumber) else other)

    def __gt__(self, other: Any) -> Any:
        return self.value > (other.value if isinstance(other, HostNumber) else other)

    def __ge__(self, other: Any) -> Any:
        return self.value >= (other.value if isinstance(other, HostNumber) else other)

    def __hash__(self) -> int:
        return hash(self.value)

    def __format__(self, how: str) -> str:
        return format(self.value, how)

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return f"{self.type.name}({self.value})"

    def __reduce__(self) -> Any:
        return (self.type, (self.value,))


class HostInteger(HostNumber):
    """A whole number of a scalar type, `uint8(3)`."""

    __slots__ = ()

    def __index__(self) -> int:
        return int(self.value)


class Composite(HostOperators, metaclass=HostClass):
    """A vector, matrix, quaternion or transform on the host: `type` and NumPy `data` of the type's shape."""

    type: CompositeKind
    data: np.ndarray
    __array_priority__ = 100.0

    def __init__(self, kind: CompositeKind, data: Any) -> None:
        values = np.array(data, dtype=kind.dtype.np).reshape(kind.shape)
        self.__dict__.update(type=kind, data=values)

    @classmethod
    def over(cls, kind: CompositeKind, data: np.ndarray) -> Composite:
        """The value whose components are this memory."""
        made: Composite = object.__new__(class_of(kind, Composite))  # type: ignore[arg-type]
        made.__dict__.update(type=kind, data=data)
        return made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.data, dtype=dtype, copy=True if copy is None else copy)

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self.data)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self.data)))

    # -- parts
    def __getitem__(self, key: Any) -> Any:
        found = self.data[self._key(key)]
        if not isinstance(found, np.ndarray):
            return python_number(self.type.dtype, found)
        kind = self.type.part(found.shape)
        return Composite.over(kind, found) if isinstance(key, (int, np.integer)) else Composite(kind, found)

    def __setitem__(self, key: Any, value: Any) -> None:
        shape = self.data[self._key(key)].shape
        given = components(value, self.data.dtype, self.type.name)
        if np.ndim(value) and (np.shape(value) != shape or not shape):
            raise ValueMismatch(self._misfit(key, shape, value))
        self.data[key] = given.reshape(shape) if np.ndim(value) else given[0]

    def _misfit(self, key: Any, shape: tuple[int, ...], value: Any) -> str:
        wrong = [x for x in value if isinstance(x, Composite)] if isinstance(value, (list, tuple)) else []
        if wrong:
            kinds = f"a sequence of `{self.type.dtype}` values but got `{wrong[0].type.__name__}` instead"
            return f"{self.type}[{key}]: Expected to assign a slice from {kinds}"
        sizes = f"{self.type}[{key}] takes {shape or 'one number'}, got {np.shape(value)}"
        return f"Can only assign sequence of same size: {sizes}"

    def _key(self, key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) > self.data.ndim:
            most = "one index" if self.data.ndim == 1 else "one or two indices"
            raise KeyError(f"{self.type}: Invalid key, expected {most}, got {len(keys)}")
        for k in keys:
            if not isinstance(k, (slice, int, np.integer)):
                known = "int or slice" if self.data.ndim == 1 else "int or pair of ints, or slices"
                raise KeyError(f"{self.type}: Invalid key {k!r}, expected {known}")
        return key

    def __getattr__(self, name: str) -> Any:
        part = self._part(name)
        if isinstance(part, int):
            return self[part]
        if part is not None:
            return Composite.over(self.__dict__["type"].named_part(name)[0], self.data[part])
        if name in _OF_TYPE:
            return getattr(self.type, name)
        raise AttributeError(self._no_part(name))

    def __setattr__(self, name: str, value: Any) -> None:
        part = self._part(name)
        if part is not None:
            self[part] = value
        elif not name.strip(_XYZW):
            raise AttributeError(self._no_part(name))
        else:
            object.__setattr__(self, name, value)

    def _no_part(self, name: str) -> str:
        return f"a component of {self.type}: '{self.type.__name__}' object has no attribute '{name}'"

    def _part(self, name: str) -> int | slice | None:
        found = self.__dict__["type"].named_part(name) if "type" in self.__dict__ else None
        if found is None:
            return None
        kind, first = found
        return slice(first, first + len(kind)) if hasattr(kind, "shape") else first

    def get_row(self, r: int) -> Composite:
        """Row r of a matrix, a copy."""
        return self._vector(self.data[self._line(r, 0)])

    def get_col(self, c: int) -> Composite:
        """Column c of a matrix, a copy."""
        return self._vector(self.data[:, self._line(c, 1)])

    def set_row(self, r: int, values: Any) -> None:
        """Row r of a matrix = values, or one number for all."""
        self[self._line(r, 0)] = values

    def set_col(self, c: int, values: Any) -> None:
        """Column c of a matrix = values, or one number for all."""
        self[:, self._line(c, 1)] = values

    def _line(self, k: int, axis: int) -> int:
        shape = self.data.shape
        if len(shape) != 2 or not -shape[axis] <= k < shape[axis]:
            name = ("row", "column")[axis]
            raise IndexError(f"{self.type} has no {name} {k}: Invalid {name} index")
        return int(k % shape[axis])

    def _vector(self, data: np.ndarray) -> Composite:
        return Composite(self.type.part(data.shape), data)

    # -- comparison and text
    def __eq__(self, other: object) -> bool:
        try:
            given = np.asarray(other)
        except ValueError:  # ragged
            return False
        return given.shape == self.data.shape and bool(np.array_equal(self.data, given))

    def __hash__(self) -> int:
        return hash(tuple(self.data.ravel().tolist()))

    def __bytes__(self) -> bytes:
        return self.data.tobytes()

    def __str__(self) -> str:
        return "[" + (", " if self.data.ndim == 1 else ",\n ").join(str(x) for x in self) + "]"

    def __repr__(self) -> str:
        rows = [repr(x) if self.data.ndim == 1 else f"[{', '.join(map(repr, x))}]" for x in self]
        return f"{self.type.__name__}([{', '.join(rows)}])"

    def __reduce__(self) -> Any:
        return (Composite, (self.type, self.data))


_OF_TYPE = frozenset(("shape", "dtype", "_shape_", "_length_", "_wp_scalar_type_"))
"""What may be asked of a value as of its type."""
