"""Programs about values and types in Python (form: `functions`)."""

import numpy as np
from oracle_helpers import text_numbers

import sim as wp


def vector_arithmetic():
    a, b = wp.vec3(1.0, 2.0, 3.0), wp.vec3(-1.0, 0.5, 2.0)
    return [list(v) for v in (a + b, a - b, 2.0 * a, a * 2.0, a / 2.0, -a, wp.vec3(), wp.vec3(4.0))]


def vector_functions():
    a, b = wp.vec3(1.0, 2.0, 3.0), wp.vec3(-1.0, 0.5, 2.0)
    numbers = [wp.dot(a, b), wp.length(a), wp.length_sq(b), wp.min(a), wp.max(b)]
    return [
        numbers,
        list(wp.cross(a, b)),
        list(wp.normalize(a)),
        list(wp.cw_mul(a, b)),
        list(wp.abs(b)),
        list(wp.min(a, b)),
    ]


def scalar_functions():
    return [
        [
            wp.sin(1.0),
            wp.cos(1.0),
            wp.pow(2.0, 3.0),
            wp.clamp(3.0, 0.0, 1.0),
            wp.min(2, 3),
            wp.max(2.0, 3.0),
            wp.sqrt(2.0),
            wp.lerp(1.0, 3.0, 0.25),
        ]
    ]


def vector_items():
    a = wp.vec4(1.0, 2.0, 3.0, 4.0)
    a[1] = 7.0
    a.w = 9.0
    return [
        [a[0], a[-1], a.x, a.y, len(a)],
        list(a[1:3]),
        list(a),
        np.array(a),
        [int(a == wp.vec4(1.0, 7.0, 3.0, 9.0)), int(a != a)],
    ]


def matrix_arithmetic():
    m, n = wp.mat22(1.0, 2.0, 3.0, 4.0), wp.mat22(0.5, -1.0, 2.0, 1.0)
    return [
        np.array(x).ravel()
        for x in (m + n, m - n, m @ n, 2.0 * m, m * wp.vec2(1.0, 2.0), wp.transpose(m), wp.inverse(m), m[1])
    ] + [[wp.determinant(m), wp.trace(m), m[0, 1]]]


def matrix_constructors():
    made = [
        wp.mat33(),
        wp.mat22(5.0),
        wp.mat22([[1.0, 2.0], [3.0, 4.0]]),
        wp.matrix_from_rows(wp.vec2(1.0, 2.0), wp.vec2(3.0, 4.0)),
        wp.matrix_from_cols(wp.vec2(1.0, 2.0), wp.vec2(3.0, 4.0)),
        wp.diag(wp.vec2(2.0, 3.0)),
        wp.mat33d(np.arange(9).reshape(3, 3)),
    ]
    return [np.array(m).ravel() for m in made]


def quaternion_arithmetic():
    q = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.5)
    p = wp.quat(0.1, 0.2, 0.3, 0.9)
    return [
        list(x)
        for x in (
            q,
            p * q,
            wp.quat_inverse(p),
            wp.quat_rotate(q, wp.vec3(1.0, 2.0, 3.0)),
            wp.normalize(p),
            wp.quat_identity(),
        )
    ] + [np.array(wp.quat_to_matrix(q)).ravel()]


def transform_arithmetic():
    t = wp.transform(wp.vec3(1.0, 2.0, 3.0), wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), 0.3))
    s = wp.transform_inverse(t)
    return [
        list(t),
        list(s),
        list(t * t),
        list(wp.transform_point(t, wp.vec3(1.0, 1.0, 1.0))),
        list(t.p),
        list(t.q),
        list(wp.transform_identity()),
    ]


def transform_forms():
    return [
        list(wp.transform((1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0))),
        list(wp.transform(p=wp.vec3(1.0), q=wp.quat(0.0, 1.0, 0.0, 0.0))),
        list(wp.transform(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)),
        list(wp.transformd()),
    ]


def spatial_values():
    a = wp.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    b = wp.spatial_vector(1.0, 1.0, 1.0, 2.0, 2.0, 2.0)
    return [
        list(a + b),
        list(wp.spatial_top(a)),
        list(wp.spatial_bottom(b)),
        [wp.spatial_dot(a, b)],
        np.array(wp.spatial_matrix()).ravel(),
    ]


def integer_vectors():
    a = wp.vec3i(7, -8, 9)
    return [list(a * 2), list(a + wp.vec3i(1)), list(wp.vec2ub(1, 255)), [int(wp.vec3i(1, 2, 3) == wp.vec3i(1, 2, 3))]]


def precisions():
    return [
        list(wp.vec3d(1.0, 2.0, 1.0 / 3.0)),
        list(wp.vec3(1.0, 2.0, 1.0 / 3.0)),
        list(wp.vec3h(1.0, 2.0, 1.0 / 3.0)),
    ]


def scalar_types():
    values = [wp.float32(1.5), wp.int32(3), wp.uint8(200), wp.float64(0.1), wp.int64(2**40), wp.float16(0.5)]
    return [[float(v.value) if hasattr(v, "value") else float(v) for v in values]]


def sets_of_types():
    b = {wp.float32, wp.float32, wp.int32, wp.vec3, wp.vec3f, wp.vec3d}
    return [[len(b)]]


def type_properties():
    v = wp.types.vector(length=5, dtype=wp.float64)
    m = wp.types.matrix(shape=(2, 3), dtype=wp.float32)
    same = wp.types.vector(length=5, dtype=wp.float64) == v
    return [
        [int(same), int(wp.vec3 == wp.vec3f), int(wp.types.vector(length=3, dtype=wp.float32) == wp.vec3)],
        list(v(1.0, 2.0, 3.0, 4.0, 5.0)),
        np.array(m(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)).ravel(),
        [wp.types.type_size_in_bytes(t) for t in (wp.float32, wp.vec3, wp.mat33d, wp.int8)],
    ]


def numpy_conversions():
    kinds = [
        wp.float16,
        wp.float32,
        wp.float64,
        wp.int8,
        wp.uint8,
        wp.int16,
        wp.uint16,
        wp.int32,
        wp.uint32,
        wp.int64,
        wp.uint64,
    ]
    back = [int(wp.dtype_from_numpy(wp.dtype_to_numpy(k)) == k) for k in kinds]
    return [back, [np.dtype(wp.dtype_to_numpy(k)).itemsize for k in kinds]]


def text_of_values():
    return [
        text_numbers(str(v))
        for v in (wp.vec3(1.0, 2.0, 3.0), wp.mat22(1.0, 2.0, 3.0, 4.0), wp.quat(1.0, 2.0, 3.0, 4.0))
    ]


def function_on_host():
    @wp.func
    def square(x: float):
        return x * x + 1.0

    @wp.func
    def pair(a: wp.vec3, s: float):
        return a * s, wp.length(a)

    scaled, length = pair(wp.vec3(3.0, 0.0, 4.0), 2.0)
    return [[square(3.0), length], list(scaled)]


def random_on_host():
    state = wp.rand_init(42)
    other = wp.rand_init(42, 7)
    return [[int(state), int(other)]]


def maximum_precision_constants():
    return [[wp.pi, wp.e, wp.tau, wp.PHI, wp.ln2, wp.ln10, wp.log2e, wp.log10e, wp.half_pi, wp.inf]]


def sorting_by_components():
    rows = sorted([wp.vec2(3.0, 1.0), wp.vec2(1.0, 2.0), wp.vec2(2.0, 0.0)], key=lambda v: v[0])
    total = sum((r for r in rows), wp.vec2())
    return [[r[0] for r in rows], list(total)]
