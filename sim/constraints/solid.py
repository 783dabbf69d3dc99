"""Solids: what a tetrahedron resists.

The deformation gradient of a tetrahedron is F = sum_a (x_a - x_0) g_a^T, a = 1, 2, 3; the g_a, gradients of its shape
functions at rest, are measured.  Materials are given by Young's modulus E and Poisson's ratio nu: mu = E / (2 (1 + nu)),
lambda = E nu / ((1 + nu)(1 - 2 nu)).  V is the volume at rest.  For small strains all of them are linear elasticity.

Damping acts on the change of shape alone, as in rubber: with the damping time tau the viscous stress is 2 mu tau times
the rate of the deviatoric strain.  A mode of angular frequency omega has the damping ratio omega tau / 2, up to the part
of its energy that changes the volume (a bar that is bent or pulled: (1 - 2 nu) / 3 of it).
"""

from __future__ import annotations

from math import sqrt as root

from sim.constraints.base import ConstraintParameter, constraint
from sim.core.lang.builtins import exp, sqrt
from sim.core.lang.function import func
from sim.core.lang.library.vector import cross, dot
from sim.core.lang.types import vec3

YOUNG = ConstraintParameter("young", "float", "Pa", "Young's modulus", bounds="(0, inf)")
POISSON = ConstraintParameter("poisson", "float", "", "Poisson's ratio", bounds="(-1, 0.5)")
RELAXING = ConstraintParameter("relaxing", "float", "", "stiffness that relaxes, over the lasting one", bounds="[0, inf)")
TIME = ConstraintParameter("time", "float", "s", "relaxation time", bounds="(0, inf)")
REST = {"g1": "1/m", "g2": "1/m", "g3": "1/m"}
SIXTH, THIRD, HALF = root(1.0 / 6.0), root(1.0 / 3.0), root(0.5)
DEVIATORIC = (True,) * 5


@func
def deformation(x, g1, g2, g3):
    """The columns of F."""
    a, b, c = x[1] - x[0], x[2] - x[0], x[3] - x[0]
    return a * g1[0] + b * g2[0] + c * g3[0], a * g1[1] + b * g2[1] + c * g3[1], a * g1[2] + b * g2[2] + c * g3[2]


@func
def shape_change(f0, f1, f2):
    """The deviator of the Green strain (F^T F - 1) / 2 in an orthonormal basis: five numbers whose squares add up to its own."""
    xx, yy, zz = 0.5 * dot(f0, f0), 0.5 * dot(f1, f1), 0.5 * dot(f2, f2)
    return ((xx - yy) * HALF, (xx + yy - 2.0 * zz) * SIXTH, dot(f0, f1) * HALF, dot(f1, f2) * HALF, dot(f2, f0) * HALF)


@func
def gradients(x):
    """The g_a at rest: rows of the inverse of the matrix with the edges x_a - x_0 as columns."""
    a, b, c = x[1] - x[0], x[2] - x[0], x[3] - x[0]
    scale = 1.0 / dot(a, cross(b, c))
    return cross(b, c) * scale, cross(c, a) * scale, cross(a, b) * scale


@func
def lame(young, poisson):
    """mu and lambda [Pa]."""
    return young / (2.0 * (1.0 + poisson)), young * poisson / ((1.0 + poisson) * (1.0 - 2.0 * poisson))


@constraint(points=4, units={"rest": "m^3", "compliance": "1/Pa"})
def volume(x, rest: float):
    """Volume of a tetrahedron over its rest value, minus 1.  C [-]; compliance 1 / (bulk modulus) [1/Pa] of the material."""
    return dot(x[1] - x[0], cross(x[2] - x[0], x[3] - x[0])) / (6.0 * rest) - 1.0


@volume.rest
def rest_volume(x):
    """V."""
    return dot(x[1] - x[0], cross(x[2] - x[0], x[3] - x[0])) / 6.0


@volume.factor("soft")
def of_volume(length, volume):
    """Compliance c [1/Pa] of a material, volume V of a tetrahedron: alpha = c / V, with the energy V C^2 / (2 c)."""
    return 1.0 / volume


@constraint(points=4, rows=7, units=REST, elastic=(True, True, *(False,) * 5), damped=(False, False, *DEVIATORIC))
def neo_hookean(x, g1: vec3, g2: vec3, g3: vec3, softness: float):
    """Neo-Hookean solid: C_D = sqrt(tr F^T F), C_H = det F - 1 - mu / lambda', solved as one block; lambda' = lambda + mu.

    M. Macklin, M. Mueller, "A Constraint-based Formulation of Stable Neo-Hookean Materials", MIG 2021, with alpha = 1 /
    (mu V) and 1 / (lambda' V); the shift of lambda lets small strains see the user's E and nu.  At rest both rows push
    against each other and cancel.  Their gradients there do not see shear: five more rows, without elasticity, give
    `damping` something to act on.
    """
    f0, f1, f2 = deformation(x, g1, g2, g3)
    stretch = sqrt(dot(f0, f0) + dot(f1, f1) + dot(f2, f2))
    change = dot(f0, cross(f1, f2)) - 1.0 - softness
    s = shape_change(f0, f1, f2)
    return stretch, change, s[0], s[1], s[2], s[3], s[4]


@neo_hookean.rest
def neo_hookean_rest(x):
    """g1, g2, g3."""
    return gradients(x)


@neo_hookean.material(YOUNG, POISSON, derived=("softness",))
def neo_hookean_material(young: float, poisson: float, volume: float):
    """alpha of the rows, and mu / lambda'."""
    mu, la = lame(young, poisson)
    total, viscous = la + mu, 1.0 / (2.0 * mu * volume)
    return 1.0 / (mu * volume), 1.0 / (total * volume), viscous, viscous, viscous, viscous, viscous, mu / total


@constraint(points=4, rows=6, units=REST, damped=(False, *DEVIATORIC))
def stvk(x, g1: vec3, g2: vec3, g3: vec3):
    """St. Venant-Kirchhoff solid: the Green strain E = (F^T F - 1) / 2 in six rows: tr E / sqrt 3, and its deviator.

    The basis is orthonormal, so that compliances are diagonal: 1 / ((2 mu + 3 lambda) V) for the first row, 1 / (2 mu V)
    for the others.  Every row sees its own stiffness, shear too, so that the projection can be implicit in all of them.
    It resists compression less and less: not for solids that are crushed to less than 60 % of their length.
    """
    f0, f1, f2 = deformation(x, g1, g2, g3)
    s = shape_change(f0, f1, f2)
    trace = 0.5 * (dot(f0, f0) + dot(f1, f1) + dot(f2, f2) - 3.0)
    return trace * THIRD, s[0], s[1], s[2], s[3], s[4]


@stvk.rest
def stvk_rest(x):
    """g1, g2, g3."""
    return gradients(x)


@stvk.material(YOUNG, POISSON)
def stvk_material(young: float, poisson: float, volume: float):
    """alpha of the rows."""
    mu, la = lame(young, poisson)
    shear = 1.0 / (2.0 * mu * volume)
    return 1.0 / ((2.0 * mu + 3.0 * la) * volume), shear, shear, shear, shear, shear


@constraint(points=4, rows=6, units={**REST, "time": "s"}, damped=(False, *DEVIATORIC))
def viscoelastic(x, g1: vec3, g2: vec3, g3: vec3, normal: vec3, shear: vec3, share: float, time: float):
    """Standard linear solid: as `stvk`, and beside it a spring in series with a dashpot that resists changes of shape.

    With the viscous strain q (its deviator in the basis of the rows: `normal`, the third component unused, and `shear`)
    and mu' = relaxing mu the energy is V (mu E:E + lambda/2 (tr E)^2 + mu' |dev E - q|^2); up to a constant that is the
    energy of the rows dev E - share q, share = relaxing / (1 + relaxing).  The material is stiffer by 1 + relaxing when
    it is loaded faster than `time`, creeps when it is loaded longer, and damps most at omega = 1 / time, by tan delta =
    2 zeta of about relaxing / 2.  Rubber needs this: its damping ratio hardly changes with frequency.
    """
    f0, f1, f2 = deformation(x, g1, g2, g3)
    s = shape_change(f0, f1, f2)
    trace = 0.5 * (dot(f0, f0) + dot(f1, f1) + dot(f2, f2) - 3.0)
    return (trace * THIRD, s[0] - share * normal[0], s[1] - share * normal[1],
            s[2] - share * shear[0], s[3] - share * shear[1], s[4] - share * shear[2])


@viscoelastic.rest
def viscoelastic_rest(x):
    """g1, g2, g3."""
    return gradients(x)


@viscoelastic.material(YOUNG, POISSON, RELAXING, TIME, derived=("share", "time"))
def viscoelastic_material(young: float, poisson: float, relaxing: float, time: float, volume: float):
    """alpha of the rows, share and time; E and nu are those of slow loading."""
    mu, la = lame(young, poisson)
    shape = 1.0 / (2.0 * mu * (1.0 + relaxing) * volume)
    return 1.0 / ((2.0 * mu + 3.0 * la) * volume), shape, shape, shape, shape, shape, relaxing / (1.0 + relaxing), time


@viscoelastic.remember("normal", "shear")
def viscoelastic_flow(x, g1: vec3, g2: vec3, g3: vec3, normal: vec3, shear: vec3, share: float, time: float, dt: float):
    """dq/dt = (dev E - q) / time, exactly for a strain that stays."""
    f0, f1, f2 = deformation(x, g1, g2, g3)
    s = shape_change(f0, f1, f2)
    gain = 1.0 - exp(-dt / time)
    return (normal[0] + gain * (s[0] - normal[0]), normal[1] + gain * (s[1] - normal[1]), normal[2],
            shear[0] + gain * (s[2] - shear[0]), shear[1] + gain * (s[3] - shear[1]), shear[2] + gain * (s[4] - shear[2]))
