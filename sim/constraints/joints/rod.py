"""The elastic joints between the segments of a rod: stretch, shear, twist and bending between two middles.

Segments are rigid bodies (C. Deul, T. Kugelstadt, M. Weiler, J. Bender, "Direct Position-Based Solver for Stiff Rods",
CGF 2018); the six rows are the strains of a Cosserat rod times the length that the joint stands for.
"""

from __future__ import annotations

import math

from sim.constraints.base import ConstraintParameter, constraint
from sim.constraints.joints.frames import apart, turn_vector
from sim.constraints.tetrahedron import POISSON, YOUNG
from sim.core.lang.frontend.function import func
from sim.core.lang.types import vec3

RADIUS = ConstraintParameter("radius", "float", "m", "radius of the round section", bounds="(0, inf)")
TWIST_RATE = ConstraintParameter("twist_rate", "float", "1/m", "twist at rest beyond the given shape's", default=0.0)
CURVATURE_2 = ConstraintParameter("curvature_2", "float", "1/m", "the same of the bending about axis 2", default=0.0)
CURVATURE_3 = ConstraintParameter("curvature_3", "float", "1/m", "the same of the bending about axis 3", default=0.0)
REST_SHAPE = (TWIST_RATE, CURVATURE_2, CURVATURE_3)
DERIVED = ("rest_twist", "rest_bend_2", "rest_bend_3")

STRETCH = ConstraintParameter("stretch", "float", "N", "E A; .inf: inextensible", bounds="(0, inf]")
SHEAR = ConstraintParameter("shear", "float", "N", "kappa G A; .inf: no shear", default=math.inf, bounds="(0, inf]")
BEND_2 = ConstraintParameter("bend_2", "float", "N m^2", "E I about axis 2", bounds="(0, inf]")
BEND_3 = ConstraintParameter("bend_3", "float", "N m^2", "E I about axis 3", bounds="(0, inf]")
TWIST = ConstraintParameter("torsion", "float", "N m^2", "G J", bounds="(0, inf]")

UNITS = {"rest": "rad", **dict.fromkeys(DERIVED, "rad")}


@func
def rod_strains(x, rest, twist, bend_2, bend_3):
    """The six strains, times the length that they are over."""
    d, turn = apart(x), turn_vector(x) - rest
    return d[0], d[1], d[2], turn[0] - twist, turn[1] - bend_2, turn[2] - bend_3


@constraint(points=2, rows=6, frames=(0, 1), units=UNITS, added_by="add_rod", from_start=True)
def rod(x, rest: vec3, rest_twist: float, rest_bend_2: float, rest_bend_3: float):
    """The end of a segment and the start of the next: stretch and shear [m], twist and bending [rad], beyond those at
    rest, all seen from the first.  Axis 1 is along the rod.

    A joint that stands for the length l of a round section of radius r, E and nu has the compliances l / (E A) and
    l / (k G A), l / (G J) and l / (E I): A = pi r^2, I = pi r^4 / 4 = J / 2, G = E / (2 (1 + nu)), and k = 6 (1 + nu) /
    (7 + 6 nu) (G. R. Cowper, "The Shear Coefficient in Timoshenko's Beam Theory", 1966).
    """
    return rod_strains(x, rest, rest_twist, rest_bend_2, rest_bend_3)


@constraint(points=2, rows=6, frames=(0, 1), units=UNITS, added_by="add_rod", from_start=True)
def cable(x, rest: vec3, rest_twist: float, rest_bend_2: float, rest_bend_3: float):
    """As `rod`, of any section, by its stiffness: E A and k G A [N], E I about two axes and G J [N m^2]."""
    return rod_strains(x, rest, rest_twist, rest_bend_2, rest_bend_3)


@rod.rest
def turn_of(x):
    """The rotation vector from a segment to the next."""
    turn = turn_vector(x)
    return turn[0], turn[1], turn[2]


cable.rest(turn_of)


@rod.material(YOUNG, POISSON, RADIUS, *REST_SHAPE, derived=DERIVED, kind="rod")
def rod_material(
    young: float, poisson: float, radius: float, twist_rate: float, curvature_2: float, curvature_3: float, size: float
):
    """alpha of the rows, and the turns at rest."""
    area, modulus = math.pi * radius * radius, young / (2.0 * (1.0 + poisson))
    moment = 0.25 * area * radius * radius
    sheared = size * (7.0 + 6.0 * poisson) / (6.0 * (1.0 + poisson) * modulus * area)
    bent, turns = size / (young * moment), (size * twist_rate, size * curvature_2, size * curvature_3)
    return size / (young * area), sheared, sheared, 0.5 * size / (modulus * moment), bent, bent, *turns


@cable.material(STRETCH, SHEAR, TWIST, BEND_2, BEND_3, *REST_SHAPE, derived=DERIVED, kind="rod")
def cable_material(
    stretch: float,
    shear: float,
    torsion: float,
    bend_2: float,
    bend_3: float,
    twist_rate: float,
    curvature_2: float,
    curvature_3: float,
    size: float,
):
    """alpha of the rows, and the turns at rest."""
    turns = size * twist_rate, size * curvature_2, size * curvature_3
    return size / stretch, size / shear, size / shear, size / torsion, size / bend_2, size / bend_3, *turns
