"""Warp's names of types: `vec3`, `mat33d`, `spatial_vectorh`; what kind of type something is, or has."""

from __future__ import annotations

from typing import Any, TypeVar

from sim.core.lang.errors import RefusedName
from sim.core.lang.types.base import (
    FLOATS,
    INTEGERS,
    WARP_NAMES,
    ArrayType,
    Homogeneous,
    Matrix,
    Quaternion,
    Scalar,
    Transformation,
    Type,
    Vector,
    as_type,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    leaves_of,
    matrix,
    quaternion,
    size_of,
    transformation,
    type_of_value,
    uint8,
    uint16,
    uint32,
    uint64,
    vector,
)
from sim.core.lang.types.structs import HostStruct, Struct
from sim.core.lang.types.values import HostClass

_INTEGERS = {
    "b": int8, "ub": uint8, "s": int16, "us": uint16, "i": int32, "ui": uint32, "l": int64, "ul": uint64,
}  # fmt: skip
_FLOATS = {"h": float16, "f": float32, "d": float64}


def named_types() -> dict[str, Homogeneous]:
    """`vec3`, `vec3d`, `mat33`, `quatf`, ...: the public names of the composite types; without a suffix: float32."""
    out: dict[str, Homogeneous] = {}
    for n in (2, 3, 4):
        out.update({f"vec{n}{s}": vector(n, t) for s, t in {**_INTEGERS, **_FLOATS}.items()})
    for s, t in _FLOATS.items():
        out.update({f"mat{n}{n}{s}": matrix((n, n), t) for n in (2, 3, 4)})
        out.update({f"quat{s}": quaternion(t), f"transform{s}": transformation(t)})
        out.update({f"spatial_vector{s}": vector(6, t), f"spatial_matrix{s}": matrix((6, 6), t)})
    WARP_NAMES.update({kind: name for name, kind in out.items()})
    return {**out, **{name[:-1]: kind for name, kind in out.items() if name[-1] == "f"}}


NAMED = named_types()
bfloat16 = RefusedName("sim.bfloat16", "bfloat16; use sim.float16 or float32")
REFUSED_ANNOTATIONS = {
    "tile": RefusedName("sim.tile", "tiles; write a kernel per element, sums with sim.atomic_add"),
    "fabricarray": RefusedName("sim.fabricarray", "arrays of Fabric; use sim.indexedarray"),
    "indexedfabricarray": RefusedName("sim.indexedfabricarray", "arrays of Fabric; use sim.indexedarray"),
}
"""Types of Warp that are not supported, which a file may name in annotations beside what it does use."""
vec3 = vector(3, float32)


def public_name(kind: Type) -> str:
    """How a user writes a composite type: `sim.vec3`; one without a name of its own: `sim.vector`."""
    name = WARP_NAMES.get(kind)
    if name is None:
        return "sim.matrix" if isinstance(kind, Matrix) else "sim.vector"
    return f"sim.{name.removesuffix('f')}"


# ------------------------------------------------------------------------------------------------ Warp's questions
Int = TypeVar("Int")
"""In annotations: any integer type, as `Any` for what follows from it."""
Float = TypeVar("Float")
"""In annotations: any floating-point type."""
AnyScalar = TypeVar("AnyScalar")
"""In annotations: any integer or floating-point type (Warp: Scalar)."""
int_types = INTEGERS
float_types = FLOATS
scalar_types = (*INTEGERS, *FLOATS)
scalar_and_bool_types = (*scalar_types, bool_)
np_dtype_to_warp_type: dict[Any, Scalar] = {key: s for s in scalar_and_bool_types for key in (s.np, s.np.type)}


def _type(spec: Any) -> Type | None:
    """The type that something names; None for anything else, values among it."""
    if isinstance(spec, Type):
        return spec
    if isinstance(spec, HostClass):
        return getattr(spec, "_sim_type_", None)
    return as_type(spec) if any(spec is kind for kind in (int, float, bool)) else None


def _of(value: Any) -> Type | None:
    """The type of a value of the host."""
    return value._sim_struct_ if isinstance(value, HostStruct) else type_of_value(value, float32)


def type_is_int(x: Any) -> bool:
    """Whether x is an integer type."""
    kind = _type(x)
    return isinstance(kind, Scalar) and kind.is_int


def type_is_float(x: Any) -> bool:
    """Whether x is a floating-point type."""
    kind = _type(x)
    return isinstance(kind, Scalar) and kind.is_float


def type_is_scalar(x: Any) -> bool:
    """Whether x is an integer or floating-point type."""
    return type_is_int(x) or type_is_float(x)


def type_is_vector(x: Any) -> bool:
    """Whether x is a vector type."""
    return isinstance(_type(x), Vector)


def type_is_matrix(x: Any) -> bool:
    """Whether x is a matrix type."""
    return isinstance(_type(x), Matrix)


def type_is_quaternion(x: Any) -> bool:
    """Whether x is a quaternion type."""
    return isinstance(_type(x), Quaternion)


def type_is_transformation(x: Any) -> bool:
    """Whether x is a type of transforms."""
    return isinstance(_type(x), Transformation)


def type_is_composite(x: Any) -> bool:
    """Whether x is a vector, matrix, quaternion or transform type."""
    return isinstance(_type(x), Homogeneous)


def type_is_struct(x: Any) -> bool:
    """Whether x is a struct type."""
    return isinstance(_type(x), Struct)


def type_is_value(x: Any) -> bool:
    """Whether x is a scalar or composite type."""
    return type_is_scalar(x) or _type(x) is bool_ or type_is_composite(x)


def type_is_array(x: Any) -> bool:
    """Whether x is a type of arrays: an annotation, or a class such as `sim.array2d`, which says its dimensions."""
    return isinstance(x, ArrayType) or (isinstance(x, type) and hasattr(x, "_dimensions"))


def type_is_tile(x: Any) -> bool:
    """Whether x is a type of tiles: no, there are none."""
    return False


def type_size(x: Any) -> int:
    """The number of scalars that a value of this type has; 1 of a struct."""
    kind = _known(x)
    return 1 if isinstance(kind, Struct) else len(leaves_of(kind))


def type_size_in_bytes(x: Any) -> int:
    """The bytes of a value of this type in an array."""
    return size_of(_known(x))


def type_scalar_type(x: Any) -> Any:
    """The scalar type of a vector, matrix, quaternion or transform type; anything else as it is."""
    return getattr(x, "_wp_scalar_type_", x)


def transform_expand(t: Any) -> Any:
    """The transform of float32 of seven numbers: three of the translation, four of the rotation."""
    return transformation(float32)(tuple(t[0:3]), tuple(t[3:7]))


def type_ctype(x: Any) -> Any:
    """The type of ctypes of a number of this type; of a vector or matrix that of its components, as `_type_` says."""
    return _known(x)._type_  # type: ignore[attr-defined]


def type_repr(x: Any) -> str:
    """A type as messages write it: `vec3f`, `vector(length=5, dtype=float32)`, `array(ndim=2, dtype=int32)`."""
    shown = getattr(x, "shape", None)
    if shown is not None and isinstance(getattr(x, "dtype", None), Type) and not isinstance(x, (Type, HostClass)):
        return f"{type(x).__name__}(shape={shown}, dtype={type_repr(x.dtype)})"
    kind = _type(x)
    if isinstance(kind, ArrayType):
        return f"array(ndim={kind.ndim}, dtype={type_repr(kind.dtype)})"
    if kind is None or kind in WARP_NAMES or not isinstance(kind, (Vector, Matrix)):
        return str(getattr(x if kind is None else kind, "__name__", x))
    size = f"length={kind.length}" if isinstance(kind, Vector) else f"shape={kind.shape}"
    return f"{'vector' if isinstance(kind, Vector) else 'matrix'}({size}, dtype={kind.dtype})"


def _known(x: Any) -> Type:
    return _type(x) or as_type(x)


def is_array(x: Any) -> bool:
    """Whether x is an array, or an annotation of one."""
    return isinstance(x, ArrayType) or (isinstance(getattr(x, "dtype", None), Type) and hasattr(x, "device"))


def is_int(x: Any) -> bool:
    """Whether x is an integer, of Python or of a type."""
    return type_is_int(_of(x))


def is_float(x: Any) -> bool:
    """Whether x is a floating-point number, of Python or of a type."""
    return type_is_float(_of(x))


def is_scalar(x: Any) -> bool:
    """Whether x is a number."""
    return type_is_scalar(_of(x))


def is_vector(x: Any) -> bool:
    """Whether x is a vector."""
    return isinstance(_of(x), Vector)


def is_matrix(x: Any) -> bool:
    """Whether x is a matrix."""
    return isinstance(_of(x), Matrix)


def is_quaternion(x: Any) -> bool:
    """Whether x is a quaternion."""
    return isinstance(_of(x), Quaternion)


def is_transformation(x: Any) -> bool:
    """Whether x is a transform."""
    return isinstance(_of(x), Transformation)


def is_composite(x: Any) -> bool:
    """Whether x is a vector, matrix, quaternion or transform."""
    return isinstance(_of(x), Homogeneous)


def is_struct(x: Any) -> bool:
    """Whether x is a struct."""
    return isinstance(x, HostStruct)


def is_tile(x: Any) -> bool:
    """Whether x is a tile: no, there are none."""
    return False


def is_value(x: Any) -> bool:
    """Whether x is a number, vector, matrix, quaternion or transform."""
    return type_is_value(_of(x))


def types_equal(a: Any, b: Any) -> bool:
    """Whether a and b name one type."""
    return (_type(a) or a) is (_type(b) or b)
