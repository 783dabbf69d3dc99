"""Types of the kernel language, and values of them on the host."""

from typing import Any

from sim.core.lang.types.base import FLOATS as FLOATS
from sim.core.lang.types.base import INTEGERS as INTEGERS
from sim.core.lang.types.base import SCALARS as SCALARS
from sim.core.lang.types.base import ArrayType as ArrayType
from sim.core.lang.types.base import CompositeType as CompositeType
from sim.core.lang.types.base import Homogeneous as Homogeneous
from sim.core.lang.types.base import Leaf as Leaf
from sim.core.lang.types.base import Matrix as Matrix
from sim.core.lang.types.base import Quaternion as Quaternion
from sim.core.lang.types.base import Scalar as Scalar
from sim.core.lang.types.base import Transformation as Transformation
from sim.core.lang.types.base import Type as Type
from sim.core.lang.types.base import TypePattern as TypePattern
from sim.core.lang.types.base import Vector as Vector
from sim.core.lang.types.base import alignment as alignment
from sim.core.lang.types.base import array_type as array_type
from sim.core.lang.types.base import as_scalar as as_scalar
from sim.core.lang.types.base import as_type as as_type
from sim.core.lang.types.base import bool_ as bool_
from sim.core.lang.types.base import common as common
from sim.core.lang.types.base import extent as extent
from sim.core.lang.types.base import float16 as float16
from sim.core.lang.types.base import float32 as float32
from sim.core.lang.types.base import float64 as float64
from sim.core.lang.types.base import from_numpy as from_numpy
from sim.core.lang.types.base import has_float as has_float
from sim.core.lang.types.base import int8 as int8
from sim.core.lang.types.base import int16 as int16
from sim.core.lang.types.base import int32 as int32
from sim.core.lang.types.base import int64 as int64
from sim.core.lang.types.base import is_open as is_open
from sim.core.lang.types.base import leaves_of as leaves_of
from sim.core.lang.types.base import matrix as matrix
from sim.core.lang.types.base import numpy_dtype as numpy_dtype
from sim.core.lang.types.base import quaternion as quaternion
from sim.core.lang.types.base import scalar_of as scalar_of
from sim.core.lang.types.base import size_of as size_of
from sim.core.lang.types.base import transformation as transformation
from sim.core.lang.types.base import type_of_value as type_of_value
from sim.core.lang.types.base import uint8 as uint8
from sim.core.lang.types.base import uint16 as uint16
from sim.core.lang.types.base import uint32 as uint32
from sim.core.lang.types.base import uint64 as uint64
from sim.core.lang.types.base import vector as vector
from sim.core.lang.types.evaluation import HostEvaluator as HostEvaluator
from sim.core.lang.types.evaluation import host as host
from sim.core.lang.types.evaluation import operation as operation
from sim.core.lang.types.evaluation import provide_host as provide_host
from sim.core.lang.types.names import NAMED as NAMED
from sim.core.lang.types.names import REFUSED_ANNOTATIONS as REFUSED_ANNOTATIONS
from sim.core.lang.types.names import AnyScalar as AnyScalar
from sim.core.lang.types.names import Float as Float
from sim.core.lang.types.names import Int as Int
from sim.core.lang.types.names import bfloat16 as bfloat16
from sim.core.lang.types.names import float_types as float_types
from sim.core.lang.types.names import int_types as int_types
from sim.core.lang.types.names import is_array as is_array
from sim.core.lang.types.names import is_composite as is_composite
from sim.core.lang.types.names import is_float as is_float
from sim.core.lang.types.names import is_int as is_int
from sim.core.lang.types.names import is_matrix as is_matrix
from sim.core.lang.types.names import is_quaternion as is_quaternion
from sim.core.lang.types.names import is_scalar as is_scalar
from sim.core.lang.types.names import is_struct as is_struct
from sim.core.lang.types.names import is_tile as is_tile
from sim.core.lang.types.names import is_transformation as is_transformation
from sim.core.lang.types.names import is_value as is_value
from sim.core.lang.types.names import is_vector as is_vector
from sim.core.lang.types.names import named_types as named_types
from sim.core.lang.types.names import np_dtype_to_warp_type as np_dtype_to_warp_type
from sim.core.lang.types.names import public_name as public_name
from sim.core.lang.types.names import scalar_and_bool_types as scalar_and_bool_types
from sim.core.lang.types.names import scalar_types as scalar_types
from sim.core.lang.types.names import transform_expand as transform_expand
from sim.core.lang.types.names import type_ctype as type_ctype
from sim.core.lang.types.names import type_is_array as type_is_array
from sim.core.lang.types.names import type_is_composite as type_is_composite
from sim.core.lang.types.names import type_is_float as type_is_float
from sim.core.lang.types.names import type_is_int as type_is_int
from sim.core.lang.types.names import type_is_matrix as type_is_matrix
from sim.core.lang.types.names import type_is_quaternion as type_is_quaternion
from sim.core.lang.types.names import type_is_scalar as type_is_scalar
from sim.core.lang.types.names import type_is_struct as type_is_struct
from sim.core.lang.types.names import type_is_tile as type_is_tile
from sim.core.lang.types.names import type_is_transformation as type_is_transformation
from sim.core.lang.types.names import type_is_value as type_is_value
from sim.core.lang.types.names import type_is_vector as type_is_vector
from sim.core.lang.types.names import type_repr as type_repr
from sim.core.lang.types.names import type_scalar_type as type_scalar_type
from sim.core.lang.types.names import type_size as type_size
from sim.core.lang.types.names import type_size_in_bytes as type_size_in_bytes
from sim.core.lang.types.names import types_equal as types_equal
from sim.core.lang.types.names import vec3 as vec3
from sim.core.lang.types.structs import HostStruct as HostStruct
from sim.core.lang.types.structs import Struct as Struct
from sim.core.lang.types.structs import array_place as array_place
from sim.core.lang.types.structs import in_memory as in_memory
from sim.core.lang.types.structs import place_of as place_of
from sim.core.lang.types.structs import struct as struct
from sim.core.lang.types.structs import unset_value as unset_value
from sim.core.lang.types.values import Composite as Composite
from sim.core.lang.types.values import HostNumber as HostNumber
from sim.core.lang.types.values import python_number as python_number


def __getattr__(name: str) -> Any:
    """`from sim.core.lang.types import vec4d`: the named types."""
    try:
        return NAMED[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
