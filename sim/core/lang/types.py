"""Types of the kernel language: scalars, vectors, matrices, quaternions, transforms, structs and arrays of them.

A type is an interned object: two spellings of the same type are the same object.  Types are callable, as in Warp:
`vec3(1, 2, 3)` makes a host value (`Composite`), `float32(1)` a NumPy scalar.  A composite type is a row of *leaves*,
scalars at byte offsets (C layout); the compiler works on leaves only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from sim.core.lang.memoize import compiling


class Type:
    """Base of all types, compared by identity.  `name` is what error messages and the IR print."""

    name: str

    def __repr__(self) -> str:
        return self.name

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
        _NAMED[name] = self

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        return self.kind in "iu"

    def __call__(self, value: Any = 0) -> Any:
        return self.np.type(value)


bool_ = Scalar("bool", "b", 8, "b")
int8, int16, int32, int64 = (Scalar(f"int{n}", "i", n, f"i{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (Scalar(f"uint{n}", "u", n, f"u{n}") for n in (8, 16, 32, 64))
float32, float64 = Scalar("float32", "f", 32, "f32"), Scalar("float64", "f", 64, "f64")
SCALARS: tuple[Scalar, ...] = (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64)


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

    def __call__(self, *values: Any, **named: Any) -> Any:
        return make_value(self, *values, **named)


class Homogeneous(CompositeType):
    """All leaves of one scalar type (`dtype`), laid out in `shape`."""

    dtype: Scalar
    shape: tuple[int, ...]

    def _layout(self, name: str, dtype: Scalar, shape: tuple[int, ...]) -> None:
        self.name, self.dtype, self.shape = name, dtype, shape
        count = int(np.prod(shape))
        self.size, self.np = count * dtype.size, np.dtype((dtype.np, shape))
        self.leaves = tuple(Leaf(str(k), dtype, k * dtype.size) for k in range(count))
        _NAMED[name] = self

    def __len__(self) -> int:
        return self.shape[0]


class Vector(Homogeneous):
    def __init__(self, length: int, dtype: Scalar) -> None:
        self.length = length
        self._layout(f"vec{length}<{dtype.name}>", dtype, (length,))


class Matrix(Homogeneous):
    """Row major."""

    def __init__(self, rows: int, cols: int, dtype: Scalar) -> None:
        self.rows, self.cols = rows, cols
        self._layout(f"mat{rows}{'x' if max(rows, cols) > 9 else ''}{cols}<{dtype.name}>", dtype, (rows, cols))


class Quaternion(Homogeneous):
    """(x, y, z, w), w the real part."""

    def __init__(self, dtype: Scalar) -> None:
        self.length = 4
        self._layout(f"quat<{dtype.name}>", dtype, (4,))


class Transformation(Homogeneous):
    """(p.x, p.y, p.z, q.x, q.y, q.z, q.w): a translation and a rotation."""

    def __init__(self, dtype: Scalar) -> None:
        self.length = 7
        self._layout(f"transform<{dtype.name}>", dtype, (7,))


class Struct(CompositeType):
    """Named fields of any type, in C layout.  Array fields are allowed in arguments, not in array elements."""

    def __init__(self, name: str, fields: dict[str, Type]) -> None:
        self.name, self.fields, self.has_arrays = name, fields, False
        leaves: list[Leaf] = []
        offsets: dict[str, int] = {}
        end, widest = 0, 1
        for key, field in fields.items():
            if isinstance(field, ArrayType) or (isinstance(field, Struct) and field.has_arrays):
                self.has_arrays = True
                continue
            align = alignment(field)
            widest, end = max(widest, align), -(-end // align) * align
            offsets[key] = end
            for leaf in leaves_of(field):
                path = f"{key}.{leaf.path}" if leaf.path else key
                leaves.append(Leaf(path, leaf.scalar, end + leaf.offset))
            end += size_of(field)
        self.leaves, self.size = tuple(leaves), max(-(-end // widest) * widest, 1)
        if not self.has_arrays:
            formats = [numpy_dtype(fields[k]) for k in offsets]
            self.np = np.dtype(
                {"names": list(offsets), "formats": formats, "offsets": list(offsets.values()), "itemsize": self.size}
            )

    def field_leaves(self, key: str) -> tuple[int, int]:
        """Range of leaf numbers that field `key` occupies (array fields occupy none)."""
        start = 0
        for name, field in self.fields.items():
            count = len(leaves_of(field)) if not isinstance(field, ArrayType) else 0
            if name == key:
                return start, start + count
            start += count
        raise KeyError(key)


class ArrayType(Type):
    """An array of `ndim` dimensions whose elements are `dtype` (None: taken from the argument, a generic kernel)."""

    def __init__(self, dtype: Type | None, ndim: int) -> None:
        self.dtype, self.ndim = dtype, ndim
        self.name = f"array{'' if ndim == 1 else f'{ndim}d'}[{dtype.name if dtype else 'Any'}]"


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


def vector(length: int, dtype: Any = float) -> Vector:
    """The vector type of any length: `vector(length=6, dtype=sim.float64)`."""
    return _intern(Vector, int(length), as_scalar(dtype))


def matrix(shape: tuple[int, int], dtype: Any = float) -> Matrix:
    """The matrix type of any shape: `matrix(shape=(2, 3), dtype=float)`."""
    return _intern(Matrix, int(shape[0]), int(shape[1]), as_scalar(dtype))


def quaternion(dtype: Any = float) -> Quaternion:
    return _intern(Quaternion, as_scalar(dtype))


def transformation(dtype: Any = float) -> Transformation:
    return _intern(Transformation, as_scalar(dtype))


def array_type(dtype: Any, ndim: int = 1) -> ArrayType:
    if not 1 <= ndim <= 4:
        raise ValueError(f"an array has 1 to 4 dimensions, not {ndim}")
    return _intern(ArrayType, None if dtype is Any or dtype is None else as_type(dtype), ndim)


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
    except TypeError:
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


# ------------------------------------------------------------------------------------------------ host values
_XYZW = {"x": 0, "y": 1, "z": 2, "w": 3}


class Composite:
    """A vector, matrix, quaternion or transform on the host: `type` and NumPy `data` of the type's shape."""

    type: Homogeneous
    data: np.ndarray
    __slots__ = ("type", "data")
    __array_priority__ = 100.0

    def __init__(self, kind: Homogeneous, data: Any) -> None:
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "data", np.array(data, dtype=kind.dtype.np).reshape(kind.shape))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.data, dtype=dtype, copy=True if copy is None else copy)

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.data)

    def __getitem__(self, key: Any) -> Any:
        return self.data[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[key] = value

    def __getattr__(self, name: str) -> Any:
        if name in _XYZW and self.data.ndim == 1 and _XYZW[name] < len(self.data):
            return self.data[_XYZW[name]]
        raise AttributeError(f"{self.type} has no component '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _XYZW:
            raise AttributeError(f"{self.type} has no component '{name}'")
        self.data[_XYZW[name]] = value

    def _combine(self, other: Any, how: Callable[[Any, Any], Any], swap: bool = False) -> Composite:
        b = other.data if isinstance(other, Composite) else other
        return Composite(self.type, how(b, self.data) if swap else how(self.data, b))

    def __add__(self, other: Any) -> Composite:
        return self._combine(other, operator.add)

    def __sub__(self, other: Any) -> Composite:
        return self._combine(other, operator.sub)

    def __mul__(self, other: Any) -> Composite:
        return self._combine(other, operator.mul)

    def __rmul__(self, other: Any) -> Composite:
        return self._combine(other, operator.mul, swap=True)

    def __truediv__(self, other: Any) -> Composite:
        return self._combine(other, operator.truediv)

    def __neg__(self) -> Composite:
        return Composite(self.type, -self.data)

    def __eq__(self, other: object) -> bool:
        return bool(np.array_equal(self.data, np.asarray(other)))

    def __hash__(self) -> int:
        return hash((id(self.type), self.data.tobytes()))

    def __repr__(self) -> str:
        return f"{self.type.name}({', '.join(str(x) for x in self.data.ravel())})"


def make_value(kind: CompositeType, *values: Any, **named: Any) -> Any:
    """A host value: no arguments zeros, one scalar fills (a quaternion: identity), else components or parts."""
    if isinstance(kind, Struct):
        return HostStruct(kind, **named)
    assert isinstance(kind, Homogeneous)
    if isinstance(kind, Transformation) and not values:
        values = (named.pop("p", (0, 0, 0)), named.pop("q", (0, 0, 0, 1)))
    if named:
        raise TypeError(f"{kind} takes no argument '{next(iter(named))}'")
    count = len(kind.leaves)
    flat = [x for v in values for x in np.ravel(np.asarray(v))]
    if not flat:
        flat = [0.0] * count
    elif len(flat) == 1 and count > 1 and not isinstance(kind, (Quaternion, Transformation)):
        flat = flat * count
    if len(flat) != count:
        raise TypeError(f"{kind} has {count} components, got {len(flat)}")
    return Composite(kind, flat)


class HostStruct:
    """A struct on the host: fields start at zero (arrays at None) and are set by attribute."""

    _sim_struct_: Struct

    def __init__(self, kind: Struct, **fields: Any) -> None:
        object.__setattr__(self, "_sim_struct_", kind)
        for key, field in kind.fields.items():
            object.__setattr__(self, key, None if isinstance(field, ArrayType) else field())  # type: ignore[operator]
        for key, value in fields.items():
            setattr(self, key, value)

    def __setattr__(self, name: str, value: Any) -> None:
        kind: Struct = self._sim_struct_
        if name not in kind.fields:
            raise AttributeError(f"struct {kind.name} has no field '{name}'; it has {', '.join(kind.fields)}")
        field = kind.fields[name]
        in_memory = isinstance(getattr(value, "dtype", None), Type)  # an array of one element: see references.py
        if isinstance(field, Homogeneous) and not isinstance(value, Composite) and not in_memory:
            value = field(*np.ravel(np.asarray(value)))
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        kind: Struct = self._sim_struct_
        return f"{kind.name}({', '.join(f'{k}={getattr(self, k)!r}' for k in kind.fields)})"


def struct(cls: type) -> Struct:
    """`@struct class Particle: x: sim.vec3; mass: float`: a struct type from the annotations of a class."""
    annotations: dict[str, Any] = {}
    for key, spec in _annotations(cls).items():
        annotations[key] = as_type(spec)
    kind = Struct(cls.__name__, annotations)
    kind.__doc__ = cls.__doc__
    return kind


def _annotations(cls: type) -> dict[str, Any]:
    raw = cls.__dict__.get("__annotations__", {})
    scope: dict[str, Any] = dict(vars(__import__("sys").modules[cls.__module__]))
    return {k: eval(v, scope) if isinstance(v, str) else v for k, v in raw.items()}  # noqa: S307 postponed annotations


def common(values: Sequence[Type]) -> Type | None:
    """The one type that all of `values` are, or None."""
    return values[0] if values and all(v is values[0] for v in values) else None


# ------------------------------------------------------------------------------------------------ Warp's names
_SUFFIX: dict[str, Scalar] = {
    "b": int8,
    "ub": uint8,
    "s": int16,
    "us": uint16,
    "i": int32,
    "ui": uint32,
    "l": int64,
    "ul": uint64,
    "f": float32,
    "d": float64,
}


def named_types() -> dict[str, Type]:
    """`vec3`, `vec3d`, `mat33`, `quatf`, ...: the public names of the composite types."""
    out: dict[str, Type] = {}
    for n in (2, 3, 4):
        out[f"vec{n}"], out[f"mat{n}{n}"] = vector(n, float32), matrix((n, n), float32)
        out.update({f"vec{n}{s}": vector(n, t) for s, t in _SUFFIX.items()})
        out.update({f"mat{n}{n}{s}": matrix((n, n), _SUFFIX[s]) for s in "fd"})
    out["quat"], out["transform"] = quaternion(float32), transformation(float32)
    out.update({f"quat{s}": quaternion(_SUFFIX[s]) for s in "fd"})
    out.update({f"transform{s}": transformation(_SUFFIX[s]) for s in "fd"})
    return out


vec3 = vector(3, float32)

_named = named_types()


def public_name(kind: Type) -> str:
    """How a user writes a composite type: `sim.vec3`; one without a name of its own: `sim.vector`."""
    return next(
        (f"sim.{name}" for name, named in _named.items() if named is kind),
        "sim.matrix" if isinstance(kind, Matrix) else "sim.vector",
    )


def __getattr__(name: str) -> Any:
    """`from sim.core.lang.types import vec4d`: the named types."""
    try:
        return _named[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def type_of_value(value: Any, real: Scalar) -> Type | None:
    """The type of a vector, matrix or number of Python or NumPy as an argument; `real`: of Python's floats."""
    if isinstance(value, Composite):
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
