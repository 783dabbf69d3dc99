"""Vectors of any length, over float32 and float64 (and integers where that makes sense)."""

from __future__ import annotations

from sim.core.lang.frontend.builtins import abs, atan2, sqrt, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.export import export
from sim.core.lang.library.static import is_quaternion, is_scalar, matrix_type, scalar_type, vector_type
from sim.core.lang.types import uint32


@export
def dot(a, b):
    """sum_i a_i b_i, of vectors or quaternions."""
    total = a[0] * b[0]
    for i in range(1, len(a)):
        total += a[i] * b[i]
    return total


@export
def cross(a, b):
    """a x b of two vectors of length 3."""
    return type(a)(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@export
def length_sq(a):
    """a . a, of a vector or quaternion."""
    return dot(a, a)


@export
def length(a):
    """|a| = sqrt(a . a), of a vector or quaternion.  Derivative a / |a|, and 0 at the zero vector."""
    return sqrt(dot(a, a))


@length.vjp
def _length_vjp(a, size, ct):
    return a * (ct * (1.0 / where(size > 0.0, size, 1.0)))


@export
def normalize(a):
    """a / |a|.  The zero vector stays zero, the zero quaternion becomes the identity; derivative 0 there."""
    size = sqrt(dot(a, a))
    unit = a * (1.0 / where(size > 0.0, size, 1.0))
    if is_quaternion(a):
        unit[3] = where(size > 0.0, unit[3], 1.0)
    return unit


@normalize.vjp
def _normalize_vjp(a, unit, ct):
    size = length(a)
    inverse_size = 1.0 / where(size > 0.0, size, 1.0)
    return (ct - unit * dot(unit, ct)) * where(size > 0.0, inverse_size, 0.0)


@export
def signed_angle(a, b, axis):
    """Angle from a to b about `axis`: atan2((a x b) . axis / |axis|, a . b), in [-pi, pi].  Zero vectors give 0."""
    return atan2(dot(cross(a, b), normalize(axis)), dot(a, b))


@func
def hinge_angle(a, b, axis):
    """`signed_angle` for an axis perpendicular to a and b, as an edge is to the normals of the triangles beside it.

    Its derivative is that of any such a, b and axis: -(axis x a) / (|axis| a.a) by a, (axis x b) / (|axis| b.b) by b,
    none by the axis; also for a parallel to b.
    """
    size = sqrt(dot(axis, axis))
    return atan2(dot(cross(a, b), axis) / where(size > 0.0, size, 1.0), dot(a, b))


@hinge_angle.vjp
def _hinge_angle_vjp(a, b, axis, angle, ct):
    size, aa, bb = length(axis), dot(a, a), dot(b, b)
    proper = size > 0.0 and aa > 0.0 and bb > 0.0
    turn = ct / where(proper, size, 1.0)
    ct = where(proper, turn, 0.0)
    ga = cross(axis, a) * (-ct / where(proper, aa, 1.0))
    gb = cross(axis, b) * (ct / where(proper, bb, 1.0))
    return ga, gb, type(axis)()


@export
def outer(a, b):
    """The matrix a b^T: m_ij = a_i b_j."""
    m = matrix_type(a, len(a), len(b))()
    for i in range(len(a)):
        m[i] = b * a[i]
    return m


@export
def skew(a):
    """The matrix of the cross product, skew(a) b = a x b, for length 3."""
    zero = scalar_type(a)(0)
    return matrix_type(a, 3, 3)(zero, -a[2], a[1], a[2], zero, -a[0], -a[1], a[0], zero)


@export
def diag(d):
    """The square matrix with d on its diagonal."""
    m = matrix_type(d, len(d), len(d))()
    for i in range(len(d)):
        m[i, i] = d[i]
    return m


@export
def cw_mul(a, b):
    """Component by component a_i b_i, of vectors or matrices."""
    out = a
    for i in range(len(a)):
        if is_scalar(a[i]):
            out[i] = a[i] * b[i]
        else:
            out[i] = cw_mul(a[i], b[i])
    return out


@export
def cw_div(a, b):
    """Component by component a_i / b_i, of vectors or matrices."""
    out = a
    for i in range(len(a)):
        if is_scalar(a[i]):
            out[i] = a[i] / b[i]
        else:
            out[i] = cw_div(a[i], b[i])
    return out


@export
def argmin(a):
    """Number (uint32) of the smallest component, of equal ones the first."""
    best = a[0]
    at = uint32(0)
    for i in range(1, len(a)):
        if a[i] < best:
            best = a[i]
            at = uint32(i)
    return at


@export
def argmax(a):
    """Number (uint32) of the largest component, of equal ones the first."""
    best = a[0]
    at = uint32(0)
    for i in range(1, len(a)):
        if a[i] > best:
            best = a[i]
            at = uint32(i)
    return at


@export
def norm_l1(v):
    """sum_i |v_i|."""
    total = abs(v[0])
    for i in range(1, len(v)):
        total += abs(v[i])
    return total


@export
def norm_l2(v):
    """|v|, as `length`."""
    return length(v)


@export
def norm_huber(v, delta=1.0):
    """v.v / 2 where |v| <= delta, else delta (|v| - delta / 2)."""
    a = dot(v, v)
    if a <= delta * delta:
        return 0.5 * a
    return delta * (sqrt(a) - 0.5 * delta)


@export
def norm_pseudo_huber(v, delta=1.0):
    """delta sqrt(1 + v.v / delta^2)."""
    return delta * sqrt(1.0 + dot(v, v) / (delta * delta))


@export
def smooth_normalize(v, delta=1.0):
    """v / norm_pseudo_huber(v, delta): smooth at the zero vector."""
    return v / norm_pseudo_huber(v, delta)


@export
def spatial_dot(a, b):
    """a . b of two spatial vectors (w, v) of length 6."""
    return dot(a, b)


@export
def spatial_top(a):
    """The first three components: the angular part."""
    return vector_type(a, 3)(a[0], a[1], a[2])


@export
def spatial_bottom(a):
    """The last three components: the linear part."""
    return vector_type(a, 3)(a[3], a[4], a[5])


@func
def spatial_vector(w, v):
    """The spatial vector (w, v) of an angular and a linear part."""
    return vector_type(w, 6)(w[0], w[1], w[2], v[0], v[1], v[2])


@export
def spatial_cross(a, b):
    """Motion cross product: (wa x wb, va x wb + wa x vb)."""
    w = spatial_top(a)
    return spatial_vector(
        cross(w, spatial_top(b)), cross(spatial_bottom(a), spatial_top(b)) + cross(w, spatial_bottom(b))
    )


@export
def spatial_cross_dual(a, b):
    """Force cross product: (wa x wb + va x vb, wa x vb)."""
    w = spatial_top(a)
    return spatial_vector(
        cross(w, spatial_top(b)) + cross(spatial_bottom(a), spatial_bottom(b)), cross(w, spatial_bottom(b))
    )


@export
def velocity_at_point(qd, r):
    """Velocity v + w x r of the point at offset r of a body that moves with the twist qd = (w, v)."""
    return spatial_bottom(qd) + cross(spatial_top(qd), r)
