"""What the functions of the library take, by name and parameter: see `frontend/tracing/argument_forms`."""

from __future__ import annotations

from collections.abc import Mapping

_PAIR = {"a": "vector matrix", "b": "=a"}
_ROTATED = {"q": "quaternion", "x": "vector3"}
_MOVED = {"t": "transform matrix44", "x": "vector3"}
_SPATIAL = {"a": "vector6", "b": "=a"}

FORMS: Mapping[str, Mapping[str, str]] = {
    "dot": {"a": "vector quaternion", "b": "=a"},
    "cross": {"a": "vector3", "b": "=a"},
    "cw_mul cw_div": _PAIR,
    "outer": {"a": "vector", "b": "vector"},
    "skew": {"a": "vector3"},
    "length length_sq": {"a": "vector quaternion"},
    "normalize": {"a": "vector quaternion"},
    "signed_angle": {"a": "vector3", "b": "=a", "axis": "=a"},
    "diag": {"d": "vector"},
    "trace determinant inverse get_diag": {"m": "square"},
    "transpose": {"m": "matrix"},
    "ddot": {"a": "matrix", "b": "=a"},
    "quat_rotate quat_rotate_inv": _ROTATED,
    "quat_inverse quat_to_axis_angle quat_to_matrix quat_to_rotation_vector quat_to_rpy quat_to_euler": {
        "q": "quaternion"
    },
    "quat_from_axis_angle": {"axis": "vector3"},
    "quat_from_rotation_vector": {"v": "vector3"},
    "quat_between_vectors": {"a": "vector3", "b": "=a"},
    "quat_slerp": {"a": "quaternion", "b": "=a"},
    "quat_twist quat_twist_angle quat_twist_angle_signed": {"axis": "vector3", "q": "quaternion"},
    "transform_get_translation transform_get_rotation transform_inverse transform_to_matrix": {"t": "transform"},
    "transform_multiply": {"a": "transform", "b": "=a"},
    "transform_point transform_vector": _MOVED,
    "transform_from_matrix transform_decompose": {"m": "matrix44"},
    "transform_compose": {"position": "vector3", "rotation": "quaternion", "scale": "vector3"},
    "transform_twist transform_wrench": {"t": "transform", "x": "vector6"},
    "spatial_dot spatial_cross spatial_cross_dual": _SPATIAL,
    "spatial_top spatial_bottom": {"a": "vector6"},
    "velocity_at_point": {"qd": "vector6", "r": "vector3"},
    "svd2": {"a": "matrix22"},
    "svd3 qr3 eig3": {"a": "matrix33"},
    "quat_from_matrix": {"m": "matrix33 matrix44"},
    "bit_count": {"x": "integer"},
    "rand_init": {"seed": "integer", "offset": "integer"},
    "_randi _randu": {"low": "integer", "high": "integer"},
    "mat_mat": {"b": "<a"},
    "mat_vec": {"x": "<a"},
    "vec_mat": {"a": "<x"},
}
