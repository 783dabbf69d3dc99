"""Quaternions (x, y, z, w), w the real part; rotations are unit quaternions, angles in radians."""

from __future__ import annotations

import math

from sim.core.lang.frontend.builtins import abs, atan2, cos, sin, sqrt, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.export import export
from sim.core.lang.library.matrix import matrix_from_cols
from sim.core.lang.library.scalar import asin
from sim.core.lang.library.static import quaternion_type, scalar_type, vector_type
from sim.core.lang.library.vector import cross, dot, length, normalize


@func
def imaginary(q):
    """The vector (x, y, z) of a quaternion."""
    return vector_type(q, 3)(q[0], q[1], q[2])


@func
def quat_multiply(a, b):
    """The Hamilton product a b: rotates by b first, then by a (operator *)."""
    return type(a)(
        a[3] * b[0] + b[3] * a[0] + a[1] * b[2] - b[1] * a[2],
        a[3] * b[1] + b[3] * a[1] + a[2] * b[0] - b[2] * a[0],
        a[3] * b[2] + b[3] * a[2] + a[0] * b[1] - b[0] * a[1],
        a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2],
    )


@export
def quat_inverse(q):
    """(-x, -y, -z, w): the inverse of a unit quaternion."""
    return type(q)(-q[0], -q[1], -q[2], q[3])


@export
def quat_rotate(q, x):
    """The vector x rotated by the unit quaternion q = (u, w): (2 w^2 - 1) x + 2 u (u . x) + 2 w u x x."""
    u = imaginary(q)
    return x * (2.0 * q[3] * q[3] - 1.0) + u * (2.0 * dot(u, x)) + cross(u, x) * (2.0 * q[3])


@export
def quat_rotate_inv(q, x):
    """The vector x rotated by the inverse of the unit quaternion q."""
    u = imaginary(q)
    return x * (2.0 * q[3] * q[3] - 1.0) + u * (2.0 * dot(u, x)) - cross(u, x) * (2.0 * q[3])


@export
def quat_from_axis_angle(axis, angle):
    """(axis sin(angle / 2), cos(angle / 2)); axis a unit vector.
    For angle times axis see `quat_from_rotation_vector`."""
    half = angle * 0.5
    s = sin(half)
    return quaternion_type(axis)(axis[0] * s, axis[1] * s, axis[2] * s, cos(half))


@export
def quat_between_vectors(a, b):
    """The shortest rotation that turns the direction of a into that of b: (a x b, 1 + a . b), normalised.
    Where they are opposite, half a turn about an axis across; the identity where a vector is zero."""
    a, b = normalize(a), normalize(b)
    w = 1.0 + dot(a, b)
    opposite = w < 1.0e-6
    c = where(opposite, _across(a), cross(a, b))
    return normalize(quaternion_type(a)(c[0], c[1], c[2], where(opposite, 0.0, w)))


@func
def _across(a):
    """A vector across a unit vector: its cross product with the axis that is farthest from it."""
    x, y, z = abs(a[0]), abs(a[1]), abs(a[2])
    along_x, along_y = x <= y and x <= z, y < x and y <= z
    zero = 0.0 * x
    one = 1.0 + zero
    return cross(a, type(a)(where(along_x, one, zero), where(along_y, one, zero), where(along_x or along_y, zero, one)))


@export
def quat_to_axis_angle(q):
    """(axis, angle) with angle = 2 atan2(|u|, |w|) in [0, pi] and axis = +-u / |u|.

    At the identity the axis is the zero vector, and the derivative 0 (it has a kink there): for their product, which
    has none, there is `quat_to_rotation_vector`.
    """
    u = imaginary(q)
    axis = normalize(u)
    return where(q[3] < 0.0, -axis, axis), 2.0 * atan2(length(u), abs(q[3]))


@export
def quat_from_rotation_vector(v):
    """The rotation by the angle |v| about v: (v sin(|v| / 2) / |v|, cos(|v| / 2)).  Smooth, also at zero."""
    z = 0.25 * dot(v, v)  # the square of half the angle
    s, c = scalar_type(v)(0), scalar_type(v)(0)
    if z < 0.01:  # the series are exact to 1e-17 there, with all derivatives that anyone takes
        s = 0.5 * (1.0 - z / 6.0 * (1.0 - z / 20.0 * (1.0 - z / 42.0 * (1.0 - z / 72.0))))
        c = 1.0 - z / 2.0 * (1.0 - z / 12.0 * (1.0 - z / 30.0 * (1.0 - z / 56.0 * (1.0 - z / 90.0))))
    else:
        half = sqrt(z)
        s, c = 0.5 * sin(half) / half, cos(half)
    return quaternion_type(v)(v[0] * s, v[1] * s, v[2] * s, c)


@export
def quat_to_rotation_vector(q):
    """angle times axis of a rotation, the angle in [0, pi]: the inverse of `quat_from_rotation_vector`.
    Smooth, also at the identity."""
    u = imaginary(q)
    square, w = dot(u, u), q[3]
    if square < 0.001 * w * w:  # 2 / w times the series of atan(x) / x
        t = square / (w * w)
        return u * (2.0 / w * (1.0 - t * (1.0 / 3.0 - t * (1.0 / 5.0 - t * (1.0 / 7.0 - t * (1.0 / 9.0 - t / 11.0))))))
    n = sqrt(square)
    factor = where(n > 0.0, 2.0 * atan2(n, abs(w)) / where(n > 0.0, n, 1.0), 0.0)
    return u * where(w < 0.0, -factor, factor)


@export
def quat_to_matrix(q):
    """The 3x3 rotation matrix whose columns are the rotated unit vectors."""
    v = vector_type(q, 3)
    return matrix_from_cols(
        quat_rotate(q, v(1.0, 0.0, 0.0)), quat_rotate(q, v(0.0, 1.0, 0.0)), quat_rotate(q, v(0.0, 0.0, 1.0))
    )


@export
def quat_from_matrix(m):
    """The unit quaternion of a rotation matrix (3x3, or the upper left of 4x4), by its largest component."""
    q = quaternion_type(m)(m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], 1.0 + m[0, 0] + m[1, 1] + m[2, 2])
    if m[0, 0] + m[1, 1] + m[2, 2] < 0.0:
        if m[0, 0] >= m[1, 1] and m[0, 0] >= m[2, 2]:
            q = type(q)(1.0 + m[0, 0] - m[1, 1] - m[2, 2], m[0, 1] + m[1, 0], m[2, 0] + m[0, 2], m[2, 1] - m[1, 2])
        elif m[1, 1] >= m[2, 2]:
            q = type(q)(m[0, 1] + m[1, 0], 1.0 + m[1, 1] - m[2, 2] - m[0, 0], m[1, 2] + m[2, 1], m[0, 2] - m[2, 0])
        else:
            q = type(q)(m[2, 0] + m[0, 2], m[1, 2] + m[2, 1], 1.0 + m[2, 2] - m[0, 0] - m[1, 1], m[1, 0] - m[0, 1])
    return normalize(q)


@export
def quat_rpy(roll, pitch, yaw):
    """Roll about x, then pitch about y, then yaw about z (fixed axes)."""
    cr, sr = cos(roll * 0.5), sin(roll * 0.5)
    cp, sp = cos(pitch * 0.5), sin(pitch * 0.5)
    cy, sy = cos(yaw * 0.5), sin(yaw * 0.5)
    return quaternion_type(roll)(
        cy * sr * cp - sy * cr * sp,
        cy * cr * sp + sy * sr * cp,
        sy * cr * cp - cy * sr * sp,
        cy * cr * cp + sy * sr * sp,
    )


@export
def quat_to_rpy(q):
    """(roll, pitch, yaw) of a unit quaternion: the inverse of `quat_rpy` for |pitch| < pi / 2."""
    x, y, z, w = q[0], q[1], q[2], q[3]
    return vector_type(q, 3)(
        atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y)),
        asin(2.0 * (w * y - z * x)),
        atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)),
    )


@func
def _about(q, axis, angle):
    """The quaternion (of the type of q) of a rotation by `angle` about the coordinate axis number `axis`."""
    s, zero = sin(angle * 0.5), scalar_type(q)(0)
    return quaternion_type(q)(
        where(axis == 0, s, zero), where(axis == 1, s, zero), where(axis == 2, s, zero), cos(angle * 0.5)
    )


@export
def quat_from_euler(e, i, j, k):
    """Rotations about the fixed axes number i, then j, then k, by the angles e[i], e[j], e[k]: q = q_k q_j q_i."""
    return quat_multiply(_about(e, k, e[k]), quat_multiply(_about(e, j, e[j]), _about(e, i, e[i])))


@export
def quat_to_euler(q, i, j, k):
    """Angles about the fixed axes i, j, k, indexed by axis: the inverse of `quat_from_euler` for distinct axes.

    For i = k (proper Euler angles) the third angle stands at the axis left over.  At the gimbal lock the first is 0.
    (Bernardes and Viollet, PLoS ONE 17(11), 2022.)
    """
    proper = i == k
    third = 3 - i - j if proper else k
    parity = scalar_type(q)((i - j) * (j - third) * (third - i) // 2)
    a, b, c, d = q[3], q[i], q[j], q[third] * parity
    if not proper:
        a, b, c, d = a - q[j], b + q[third] * parity, c + q[3], d - q[i]
    v2 = vector_type(q, 2)
    middle = 2.0 * atan2(length(v2(c, d)), length(v2(a, b)))
    first, last = scalar_type(q)(0), scalar_type(q)(0)
    if middle < 1e-6:
        last = 2.0 * atan2(b, a)
    elif middle > math.pi - 1e-6:
        last = 2.0 * atan2(d, c)
    else:
        half_sum, half_difference = atan2(b, a), atan2(d, c)
        first, last = half_sum - half_difference, half_sum + half_difference
    if not proper:
        middle, last = middle - 0.5 * math.pi, last * parity
    e = vector_type(q, 3)()
    e[i] = first
    e[j] = middle
    e[third] = last
    return e


@export
def quat_slerp(a, b, t):
    """a (a^-1 b)^t: from a (t = 0) to b (t = 1) along the shorter arc; smooth for a near b.

    With r = a^-1 b = (u, w), w >= 0: r^t = (u sin(t h) / |u|, cos(t h)), h = atan2(|u|, w).  Near u = 0 by the series
    in |u / w|^2, so that all derivatives are right there.
    """
    r = quat_multiply(quat_inverse(a), b)
    if r[3] < 0.0:
        r = -r
    u = imaginary(r)
    uu, ww = dot(u, u), r[3] * r[3]
    scale, real = scalar_type(r)(0), scalar_type(r)(1)
    if uu < 1e-3 * ww:
        x = uu / ww
        ratio = 1.0 - x * (
            1.0 / 3.0 - x * (0.2 - x * (1.0 / 7.0 - x * (1.0 / 9.0 - x / 11.0)))
        )  # atan(sqrt x) / sqrt x
        y = t * t * ratio * ratio * x  # the square of the angle t h
        scale = t * ratio / r[3] * (1.0 - y / 6.0 * (1.0 - y / 20.0 * (1.0 - y / 42.0)))
        real = 1.0 - y / 2.0 * (1.0 - y / 12.0 * (1.0 - y / 30.0 * (1.0 - y / 56.0)))
    else:
        size = sqrt(uu)
        angle = t * atan2(size, r[3])
        scale, real = sin(angle) / size, cos(angle)
    return quat_multiply(a, type(r)(u[0] * scale, u[1] * scale, u[2] * scale, real))


@export
def quat_twist(axis, q):
    """The part of q that turns about `axis` (a unit vector): normalize((axis (axis . u), w))."""
    u = axis * dot(imaginary(q), axis)
    return normalize(type(q)(u[0], u[1], u[2], q[3]))


@export
def quat_twist_angle(axis, q):
    """The unsigned angle of the twist about `axis`: 2 atan2(|axis . u|, w)."""
    return 2.0 * atan2(abs(dot(axis, imaginary(q))), q[3])


@export
def quat_twist_angle_signed(axis, q):
    """The signed angle of the twist about `axis`: 2 atan2(axis . u, w)."""
    return 2.0 * atan2(dot(axis, imaginary(q)), q[3])
