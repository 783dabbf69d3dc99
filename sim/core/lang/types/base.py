"""Types: scalars, vectors, matrices, quaternions, transforms and arrays of them.

A type is an interned object: two spellings of the same type are the same object.  Types are callable, as in Warp:
`vec3(1, 2, 3)` and `float32(1)` make host values (`values.py`), and `isinstance(v, vec3)` tells them.  A composite type
is a row of *leaves*, scalars at byte offsets (C layout); the compiler works on leaves only.
"""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, Union, get_args

import numpy as np

from sim.core.lang.errors import RefusedName, ValueMismatch
from sim.core.lang.memoize import compiling
from sim.core.lang.types.values import Composite, HostInteger, HostNumber, components


class Type:
    """Base of all types, compared by identity.  `name` is what error messages and the IR print."""

    name: str

    def __repr__(self) -> str:
        return self.name

    @property
    def __name__(self) -> str:
        return self.name

    def __instancecheck__(self, value: object) -> bool:
        """`isinstance(value, vec3)`: whether a host value has this type."""
        return type_of_value(value, float32) is self if not isinstance(value, (int, float)) else False

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """`class Point(vec3)`: another name for the type."""
        return (type(self()),)  # type: ignore[operator]

    def __or__(self, other: Any) -> Any:
        """`array[float] | None` in annotations of Python's functions."""
        return Union[self, other]  # noqa: UP007

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007

    def __reduce__(self) -> Any:
        return (_restore, (self.name,)) if self.name in _NAMED else object.__reduce__(self)


_NAMED: dict[str, Type] = {}


def _restore(name: str) -> Type:
    return _NAMED[name]


class Scalar(Type):
    """`kind` is one of b (bool), i, u, f; `bits` the width in memory (bool: 8)."""

    def __init__(self, name: str, kind: str, bits: int, short: str) -> None:
        self.name, self.kind, self.bits, self.short = name, kind, bits, short
        self.np = np.dtype(np.bool_ if kind == "b" else getattr(np, name))
        self.size = self.np.itemsize
        self._type_ = getattr(ctypes, f"c_{name}", None) or _C_TYPES[name]
        _NAMED[name] = self

    @property
    def __numpy_dtype__(self) -> np.dtype:
        """What NumPy, from 2.4 on, takes a dtype from."""
        return self.np

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        return self.kind in "iu"

    def __call__(self, value: Any = 0) -> Any:
        """A number of this type: floats are rounded to it, integers wrap."""
        if self.kind == "b":
            return HostNumber(self, bool(value))
        if self.is_int:
            half = 1 << self.bits - 1 if self.kind == "i" else 0
            return HostInteger(self, (int(value) + half) % (1 << self.bits) - half)
        if value is None:  # of which NumPy makes a NaN
            raise TypeError(f"{self}(None): expected a number")
        with np.errstate(over="ignore"):
            return HostNumber(self, self.np.type(value).item())


_C_TYPES = {"float16": ctypes.c_uint16, "float32": ctypes.c_float, "float64": ctypes.c_double}
bool_ = Scalar("bool", "b", 8, "b")
int8, int16, int32, int64 = (Scalar(f"int{n}", "i", n, f"i{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (Scalar(f"uint{n}", "u", n, f"u{n}") for n in (8, 16, 32, 64))
float16, float32, float64 = (Scalar(f"float{n}", "f", n, f"f{n}") for n in (16, 32, 64))
INTEGERS: tuple[Scalar, ...] = (int8, uint8, int16, uint16, int32, uint32, int64, uint64)
FLOATS: tuple[Scalar, ...] = (float16, float32, float64)
SCALARS: tuple[Scalar, ...] = (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, *FLOATS)


@dataclass(frozen=True)
class Leaf:
    """One scalar of a composite: its path (for names in messages), type and byte offset."""

    path: str
    scalar: Scalar
    offset: int


class CompositeType(Type):
    """A type made of leaves: vector, matrix, quaternion, transform, struct.  size: in bytes; np: its NumPy dtype."""

    leaves: tuple[Leaf, ...]
    size: int
    np: np.dtype


class Homogeneous(CompositeType):
    """All leaves of one scalar type (`dtype`), laid out in `shape`.  family: what such types are called."""

    family: str

    dtype: Scalar
    shape: tuple[int, ...]

    def _layout(self, name: str, dtype: Scalar, shape: tuple[int, ...]) -> None:
        self.name, self.dtype, self.shape = name, dtype, shape
        count = math.prod(shape)
        self.size, self.np = count * dtype.size, np.dtype((dtype.np, shape))
        self.leaves = tuple(Leaf(str(k), dtype, k * dtype.size) for k in range(count))
        _NAMED[name] = self

    def __call__(self, *values: Any, **named: Any) -> Composite:
        """A host value: without arguments zeros, one number fills, else components, or parts that have them.

        Raises ValueMismatch for what is no number, or for another number of components.
        """
        if named:
            raise TypeError(f"{self} takes no argument '{next(iter(named))}'")
        return Composite(self, self._components(values) if values else np.zeros(self.shape, self.dtype.np))

    def _components(self, values: tuple[Any, ...]) -> np.ndarray:
        if (
            len(values) == 1 and not isinstance(values[0], (int, float)) and np.ndim(values[0]) > 1
        ):  # not a matrix for its transpose, or for a quaternion
            shape = np.squeeze(values[0]).shape
            if math.prod(shape) == len(self.leaves) and shape not in (self.shape, (len(self.leaves),)):
                raise ValueMismatch(f"{self}: got numbers of shape {shape}, expected {self.shape}")
        flat = np.concatenate([components(v, self.dtype.np, self.name) for v in values])
        if len(flat) == 1 and not isinstance(self, Quaternion):
            flat = flat.repeat(len(self.leaves))
        if len(flat) != len(self.leaves):
            counts = f"expected {len(self.leaves)} elements, got {len(flat)}"
            raise ValueMismatch(f"{self}: Invalid number of arguments in {self.family} constructor, {counts}")
        return flat

    def from_ptr(self, address: int) -> Composite:
        """The value whose components lie at an address of the host, copied."""
        if not address:
            raise RuntimeError(f"{self}.from_ptr({address}): NULL pointer exception")
        return Composite(self, np.frombuffer(ctypes.string_at(address, self.size), self.dtype.np))

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def __name__(self) -> str:
        """Warp's name, `vec3f`; that of the type where there is none."""
        return WARP_NAMES.get(self, self.name)

    @property
    def _wp_scalar_type_(self) -> Scalar:
        return self.dtype

    @property
    def _shape_(self) -> tuple[int, ...]:
        return self.shape

    @property
    def _length_(self) -> int:
        return len(self.leaves)

    @property
    def _type_(self) -> Any:
        return self.dtype._type_

    def part(self, shape: tuple[int, ...]) -> Homogeneous:
        """The type of a row or of a block of this shape."""
        return vector(shape[0], self.dtype) if len(shape) == 1 else matrix((shape[0], shape[1]), self.dtype)

    def named_part(self, name: str) -> tuple[Type, int] | None:
        """Type and first leaf of what `.name` means: a component, or a part of a transform."""
        return None


def _component(kind: Homogeneous, name: str) -> tuple[Type, int] | None:
    """`.x`, `.y`, `.z`, `.w`."""
    return (kind.dtype, _XYZW.index(name)) if len(name) == 1 and name in _XYZW[: len(kind)] else None


_XYZW = "xyzw"


def extent(item: Any) -> Any:
    """An extent in an annotation: a number as such or as `Literal[3]`; `Any` and TypeVars leave it open."""
    if not get_args(item):
        return item
    if len(get_args(item)) != 1:
        raise TypeError(f"Expected a single Literal value, got {item}")
    return get_args(item)[0]


def _subscripts(kind: str, items: Any, names: str) -> tuple[Any, ...]:
    """Scalar type and extents of `Matrix[float, Literal[2], Literal[3]]`.  Raises TypeError."""
    given, wanted = items if isinstance(items, tuple) else (items,), names.count(",") + 1
    if len(given) != wanted:
        raise TypeError(f"{kind}[{names}] requires {wanted} parameters, got {len(given)}")
    extents = tuple(map(extent, given[1:]))
    wrong = [n for n in extents if not is_open(n) and not (isinstance(n, int) and n > 0)]
    if wrong:
        raise TypeError(f"{kind}[{names}]: an extent is a positive integer, not {wrong[0]!r}")
    return given[0], *extents


class Vector(Homogeneous):
    named_part = _component
    family, _wp_generic_type_str_ = "vector", "vec_t"

    def __class_getitem__(cls, items: Any) -> Vector:
        """`Vector[float, Literal[3]]`, as annotations of Warp spell it."""
        dtype, length = _subscripts("Vector", items, "dtype, length")
        return vector(length, dtype)

    def __init__(self, length: int, dtype: Scalar) -> None:
        self.length = length
        self._layout(f"vec{length}<{dtype.name}>", dtype, (length,))


class Matrix(Homogeneous):
    """Row major."""

    family, _wp_generic_type_str_ = "matrix", "mat_t"

    def __class_getitem__(cls, items: Any) -> Matrix:
        """`Matrix[float, Literal[2], Literal[3]]`: rows, then columns."""
        dtype, *shape = _subscripts("Matrix", items, "dtype, rows, columns")
        return matrix((shape[0], shape[1]), dtype)

    def _components(self, values: tuple[Any, ...]) -> np.ndarray:
        if any(isinstance(v, Composite) and isinstance(v.type, Vector) for v in values):
            raise TypeError(
                f"{self}(...) takes numbers row by row, or rows as lists: write sim.matrix_from_rows(...) or"
                " sim.matrix_from_cols(...) for vectors"
            )
        if len(values) == self.rows and any(np.shape(v) not in ((), (self.cols,)) for v in values):
            row = next(v for v in values if np.shape(v) not in ((), (self.cols,)))
            rows = f"expected row of length {self.cols}, got {row}"
            raise ValueMismatch(f"{self}: Invalid argument in matrix constructor, {rows}")
        return super()._components(values)

    def __init__(self, rows: int, cols: int, dtype: Scalar) -> None:
        self.rows, self.cols = rows, cols
        self._layout(f"mat{rows}{'x' if max(rows, cols) > 9 else ''}{cols}<{dtype.name}>", dtype, (rows, cols))


class Quaternion(Homogeneous):
    """(x, y, z, w), w the real part."""

    named_part = _component
    family, _wp_generic_type_str_ = "quaternion", "quat_t"

    def __class_getitem__(cls, dtype: Any) -> Quaternion:
        return quaternion(dtype)

    def __init__(self, dtype: Scalar) -> None:
        self.length = 4
        self._layout(f"quat<{dtype.name}>", dtype, (4,))


class Transformation(Homogeneous):
    """(p.x, p.y, p.z, q.x, q.y, q.z, q.w): a translation and a rotation."""

    family, _wp_generic_type_str_ = "transform", "transform_t"

    def __class_getitem__(cls, dtype: Any) -> Transformation:
        return transformation(dtype)

    def __init__(self, dtype: Scalar) -> None:
        self.length = 7
        self._layout(f"transform<{dtype.name}>", dtype, (7,))

    def __call__(self, *values: Any, **named: Any) -> Composite:
        """As of vectors; without arguments the identity; `p` and `q` by position or name, each may be left out."""
        if set(named) - {"p", "q"} or (named and len(values) > 1):
            wrong = next((n for n in named if n not in ("p", "q")), next(iter(named)))
            raise TypeError(f"{self} takes p= and q=: got an unexpected keyword argument '{wrong}'")
        if not values or named or len(values) == 2 or (np.ndim(values[0]) and np.size(values[0]) == 3):
            p = values[0] if values else named.get("p", (0, 0, 0))
            q = values[1] if len(values) == 2 else named.get("q", (0, 0, 0, 1))
            if np.size(p) != 3 or np.size(q) != 4:
                raise TypeError(f"{self}(p, q) takes three and four numbers, got {p!r} and {q!r}")
            values = (p, q)
        return super().__call__(*values)

    def named_part(self, name: str) -> tuple[Type, int] | None:
        return {"p": (vector(3, self.dtype), 0), "q": (quaternion(self.dtype), 3)}.get(name)


class ArrayType(Type):
    """An array of `ndim` dimensions whose elements are `dtype` (`Any`: taken from the argument, a generic kernel).

    indexed: whether it is declared as one that is seen through indices.
    """

    indexed = False

    def __init__(self, dtype: Any, ndim: int) -> None:
        self.dtype, self.ndim = dtype, ndim
        self.name = f"array{'' if ndim == 1 else f'{ndim}d'}[{'Any' if dtype is Any else dtype.name}]"


WARP_NAMES: dict[Type, str] = {}
"""What Warp calls the types that have a name of their own: see `names.py`."""
_interned: dict[tuple[Any, ...], Any] = {}
T = TypeVar("T", bound=Type)


def _intern(cls: Callable[..., T], *key: Any) -> T:
    full = (cls, *key)
    found: T | None = _interned.get(full)
    if found is None:
        with compiling:
            found = _interned.get(full)
            if found is None:
                found = _interned[full] = cls(*key)
    return found


class TypePattern(Type):
    """A type with something left open, for annotations: `vector(length=Any, dtype=Any)`."""

    def __init__(self, kind: str, *given: Any) -> None:
        self.name = f"{kind}<{', '.join(getattr(x, '__name__', str(x)) for x in given)}>"


class ArrayPattern(TypePattern):
    """`array[float, Any]`: an array of any number of dimensions."""

    ndim = Any

    def __init__(self, dtype: Any) -> None:
        super().__init__("array", dtype, Any)
        self.dtype = dtype if is_open(dtype) else as_type(dtype)


class UnknownElements:
    """`array[Widget]` in an annotation, where Widget is a class of Python: refused by whoever takes its type."""

    def __init__(self, dtype: Any, ndim: int) -> None:
        self.dtype, self.ndim = dtype, ndim

    @property
    def _sim_type_(self) -> Type:
        return as_type(self.dtype)

    def __repr__(self) -> str:
        return f"array[{getattr(self.dtype, '__name__', self.dtype)}]"


def is_open(spec: Any) -> bool:
    """Whether a type, length or extent is left open: `Any` or a TypeVar."""
    return spec is Any or isinstance(spec, (TypeVar, TypePattern))


def vector(length: int, dtype: Any = float) -> Vector:
    """The vector type of any length: `vector(length=6, dtype=sim.float64)`; `Any` leaves open."""
    if isinstance(dtype, RefusedName):
        return dtype[length]  # type: ignore[return-value]
    if is_open(length) or is_open(dtype):
        return _intern(TypePattern, "vector", length, dtype)  # type: ignore[return-value]
    return _intern(Vector, operator.index(length), as_scalar(dtype))


def matrix(shape: tuple[int, int], dtype: Any = float) -> Matrix:
    """The matrix type of any shape: `matrix(shape=(2, 3), dtype=float)`; `Any` leaves open."""
    if len(shape) != 2:
        count = f"{len(shape)} dimension{'s' if len(shape) != 1 else ''}"
        raise ValueError(f"Matrix shape must have exactly two dimensions, got {count} in shape {tuple(shape)}")
    if isinstance(dtype, RefusedName):
        return dtype[shape]  # type: ignore[return-value]
    if any(map(is_open, (*shape, dtype))):
        return _intern(TypePattern, "matrix", *shape, dtype)  # type: ignore[return-value]
    return _intern(Matrix, operator.index(shape[0]), operator.index(shape[1]), as_scalar(dtype))


def quaternion(dtype: Any = float) -> Quaternion:
    if is_open(dtype):
        return _intern(TypePattern, "quaternion", dtype)  # type: ignore[return-value]
    return _intern(Quaternion, as_scalar(dtype))


def transformation(dtype: Any = float) -> Transformation:
    if is_open(dtype):
        return _intern(TypePattern, "transformation", dtype)  # type: ignore[return-value]
    return _intern(Transformation, as_scalar(dtype))


def array_type(dtype: Any, ndim: int = 1) -> ArrayType:
    if isinstance(dtype, RefusedName):
        return dtype[ndim]  # type: ignore[return-value]
    if is_open(ndim):
        return _intern(ArrayPattern, dtype)  # type: ignore[return-value]
    if not 1 <= ndim <= 4:
        raise ValueError(f"an array has 1 to 4 dimensions (ndim must be between 1 and 4), not {ndim}")
    try:
        return _intern(ArrayType, Any if dtype is None or is_open(dtype) else as_type(dtype), ndim)
    except TypeError:
        if not isinstance(dtype, type):
            raise
        return UnknownElements(dtype, ndim)  # type: ignore[return-value]


_PYTHON: dict[Any, Type] = {float: float32, int: int32, bool: bool_}


def as_type(spec: Any) -> Type:
    """The type that an annotation or a dtype names (a type, `float`, `int`, `bool`, a NumPy dtype, a struct)."""
    if isinstance(spec, Type):
        return spec
    if spec in _PYTHON:
        return _PYTHON[spec]
    described = getattr(spec, "_sim_type_", None)
    if isinstance(described, Type):
        return described
    try:
        return from_numpy(np.dtype(spec))
    except (TypeError, ValueError):  # NumPy finds a dtype in an array, and no type in that
        raise TypeError(
            f"{spec!r} is not a type of the kernel language; use sim.float32, sim.vec3, sim.array[...], ..."
        ) from None


def as_scalar(spec: Any) -> Scalar:
    kind = as_type(spec)
    if not isinstance(kind, Scalar):
        raise TypeError(f"expected a scalar type, got {kind}")
    return kind


_FROM_NUMPY = {s.np: s for s in SCALARS}


def from_numpy(dtype: np.dtype) -> Scalar:
    try:
        return _FROM_NUMPY[np.dtype(dtype).newbyteorder("=")]
    except KeyError:
        raise TypeError(
            f"NumPy dtype {dtype} has no counterpart; use one of {', '.join(s.name for s in SCALARS)}"
        ) from None


def leaves_of(kind: Type) -> tuple[Leaf, ...]:
    """Scalars that a value of this type consists of."""
    if isinstance(kind, Scalar):
        return (Leaf("", kind, 0),)
    if isinstance(kind, CompositeType):
        return kind.leaves
    raise TypeError(f"{kind} has no scalar leaves")


def size_of(kind: Type) -> int:
    return kind.size  # type: ignore[attr-defined, no-any-return]


def alignment(kind: Type) -> int:
    return max((leaf.scalar.size for leaf in leaves_of(kind)), default=1)


def numpy_dtype(kind: Type) -> np.dtype:
    """NumPy dtype of one element: scalars as such, vectors and matrices as sub-arrays, structs as records."""
    return kind.np  # type: ignore[attr-defined, no-any-return]


def scalar_of(kind: Type) -> Scalar | None:
    """The scalar type of a scalar or homogeneous type, else None."""
    if isinstance(kind, Scalar):
        return kind
    return kind.dtype if isinstance(kind, Homogeneous) else None


def has_float(kind: Type) -> bool:
    return any(leaf.scalar.is_float for leaf in leaves_of(kind))


def common(values: Sequence[Type]) -> Type | None:
    """The one type that all of `values` are, or None."""
    return values[0] if values and all(v is values[0] for v in values) else None


def type_of_value(value: Any, real: Scalar) -> Type | None:
    """The type of a vector, matrix or number of Python or NumPy as an argument; `real`: of Python's floats."""
    if isinstance(value, (Composite, HostNumber)):
        kind: Type = value.type
        return kind
    if isinstance(value, np.generic):  # before the numbers of Python: np.float64 is a float too
        return from_numpy(value.dtype)
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return int32
    if isinstance(value, float):
        return real
    return None
