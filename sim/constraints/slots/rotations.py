"""Rotations and their vectors as polynomials: smooth without branches, and as quick in eight lanes as in one.

The exponential map takes no square root, sine or cosine, the logarithm no arc tangent: these are calls of a library,
one lane after the other, and near zero they need a series besides, of which kernels in lanes compute both.
"""

from __future__ import annotations

import math

from sim.core.lang.constants import nan
from sim.core.lang.frontend.builtins import floor, static, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import imaginary
from sim.core.lang.library.static import quaternion_type, scalar_type
from sim.core.lang.library.vector import dot

TERMS = 14
COSINE = tuple((-1) ** k / math.factorial(2 * k) for k in range(TERMS))
"""cos(h) in powers of h^2."""
HALF_SINE = tuple((-1) ** k / (2.0 * math.factorial(2 * k + 1)) for k in range(TERMS))
"""sin(h) / (2 h) in powers of h^2.  The terms alternate and fall: what is left out is below the next, 3e-16 of the
cosine and 4e-18 here at h = pi, and far below rounding for half of that."""

ANGLE_OVER_SINE = (
    2.0, 0.6666666666666189, 0.2666666666736505, 0.11428571388085568, 0.050793663193303897, 0.023087791209553992,
    0.01065889656610338, 0.004947521422339475, 0.002502167739741652, 0.0003284209582695303, 0.003402226781397109,
    -0.007952854446449574, 0.018390659369666898, -0.03172341088255942, 0.04306800687173906, -0.04490851290021751,
    0.03547663193832672, -0.02051854928124302, 0.008229881033701113, -0.002051279321627658, 0.00024234611662233074,
)  # fmt: skip
"""2 acos(w) / sqrt(1 - w^2) in powers of 1 - w, for w in [0, 1]: interpolated at Chebyshev nodes, within 1e-15."""


@func
def nearest_angle(angle, near):
    """An angle plus or minus whole turns, within half a turn of `near` [rad]."""
    return angle - 2.0 * math.pi * floor((angle - near) / (2.0 * math.pi) + 0.5)


@func
def polynomial(coefficients, x):
    """The sum of coefficients[k] x^k, by Horner's rule."""
    total = coefficients[-1] + 0.0 * x
    for k in static(range(len(coefficients) - 2, -1, -1)):
        total = total * x + coefficients[k]
    return total


@func
def exponential(theta):
    """The rotation by the angle |theta| about theta, as `quat_from_rotation_vector`; NaN from a full turn on."""
    z = 0.25 * dot(theta, theta)
    s = where(z < math.pi * math.pi, polynomial(HALF_SINE, z), scalar_type(theta)(nan))
    return quaternion_type(theta)(theta[0] * s, theta[1] * s, theta[2] * s, polynomial(COSINE, z))


@func
def logarithm(q):
    """The rotation vector of a unit quaternion [rad], its angle up to pi, as `quat_to_rotation_vector`.

    angle / sin(angle / 2) is a smooth function of w = cos(angle / 2) on its own: as a polynomial it has neither the
    branches near zero, which every row of a gradient would repeat, nor a derivative that cancels.
    """
    one = scalar_type(q)(1)
    sign = where(q[3] < 0.0, -one, one)
    return (sign * polynomial(ANGLE_OVER_SINE, one - sign * q[3])) * imaginary(q)
