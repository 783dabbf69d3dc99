"""The standard library of the kernel language, written in the language, with Warp's names and argument orders.

`LIBRARY` has every public function by name, `RANDOM` the builtins that draw random numbers.  The primitives of the op
table (sin, sqrt, floor, ...) need no entry here.
"""

from __future__ import annotations

from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.tracing.operators import OPERATORS
from sim.core.lang.frontend.tracing.registry import Builtin, register
from sim.core.lang.library import decompose, matrix, noise, quaternion, rand, scalar, transform, vector

_NAMES = {
    scalar: "sign step nonzero frac round clamp degrees radians lerp smoothstep acos asin isfinite isnan isinf",
    vector: (
        """dot cross length length_sq normalize signed_angle outer skew diag cw_mul cw_div argmin argmax
        norm_l1 norm_l2 norm_huber norm_pseudo_huber smooth_normalize
        spatial_dot spatial_top spatial_bottom spatial_vector spatial_cross spatial_cross_dual velocity_at_point"""
    ),
    matrix: (
        """transpose matrix_from_cols matrix_from_rows trace get_diag ddot determinant inverse inverse_approx
        spatial_adjoint"""
    ),
    decompose: "svd3 svd2 qr3 eig3 polar3",
    quaternion: (
        """quat_inverse quat_rotate quat_rotate_inv quat_from_axis_angle quat_to_axis_angle quat_from_rotation_vector
        quat_to_rotation_vector quat_to_matrix
        quat_from_matrix quat_rpy quat_to_rpy quat_from_euler quat_to_euler quat_slerp
        quat_twist quat_twist_angle quat_twist_angle_signed"""
    ),
    transform: (
        """transform_identity transform_get_translation transform_get_rotation transform_set_translation
        transform_set_rotation transform_multiply transform_inverse transform_point transform_vector
        transform_from_matrix transform_to_matrix transform_compose transform_decompose
        transform_twist transform_wrench"""
    ),
    noise: "noise pnoise",
}
_RANDOM = """rand_init randi randu randf randn sample_triangle sample_unit_ring sample_unit_disk
    sample_unit_sphere_surface sample_unit_sphere sample_unit_hemisphere_surface sample_unit_hemisphere
    sample_unit_square sample_unit_cube sample_unit_hypercube sample_cdf"""

LIBRARY: dict[str, Function | Builtin] = {
    name: getattr(module, name) for module, names in _NAMES.items() for name in names.split()
}
RANDOM: dict[str, Function | Builtin] = {name: getattr(rand, name) for name in _RANDOM.split()}
register(LIBRARY | RANDOM)
OPERATORS.update(
    {
        ("mul", "matrix", "matrix"): matrix.mat_mat,
        ("mul", "matrix", "vector"): matrix.mat_vec,
        ("mul", "vector", "matrix"): matrix.vec_mat,
        ("mul", "quat", "quat"): quaternion.quat_multiply,
        ("mul", "transform", "transform"): transform.transform_multiply,
    }
)
