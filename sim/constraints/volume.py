"""Volume of a tetrahedron, and of a lattice cell: what keeps solids from being squeezed."""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.constraints.tetrahedron import POISSON, YOUNG, lame
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import cross, dot


@constraint(points=4, units={"rest": "m^3", "compliance": "1/Pa"})
def volume(x, rest: float):
    """Volume of a tetrahedron over its rest value, minus 1.
    C [-]; compliance 1 / (bulk modulus) [1/Pa] of the material."""
    return dot(x[1] - x[0], cross(x[2] - x[0], x[3] - x[0])) / (6.0 * rest) - 1.0


@volume.rest
def rest_volume(x):
    """V."""
    return dot(x[1] - x[0], cross(x[2] - x[0], x[3] - x[0])) / 6.0


@volume.factor("soft")
def of_volume(length, volume):
    """Compliance c [1/Pa] of a material, volume V of a tetrahedron: alpha = c / V, with the energy V C^2 / (2 c)."""
    return 1.0 / volume


@constraint(points=8, units={"rest": "m^3"})
def cell_volume(x, rest: float):
    """Volume of a lattice cell over its rest value, minus 1: one dilatation for the five tetrahedra of a cell.

    A row for each tetrahedron leaves hardly any motion without a change of volume: linear tetrahedra lock as nu nears
    0.5.  One for each cell does not (mean dilatation; J. C. Nagtegaal, D. M. Parks, J. R. Rice, "On Numerically
    Accurate Finite Element Solutions in the Fully Plastic Range", 1974).  With the bulk modulus K = lambda + 2 mu / 3,
    alpha = 1 / (K V).
    """
    return six_volumes(x) / (6.0 * rest) - 1.0


@func
def six_volumes(x):
    """6 V of a cell, the sum over its tetrahedra (the order of corners is that of `sim.geometry.lattice_cells`)."""
    p, q, r, s, a, b, c, d = x
    inner = dot(b - a, cross(c - a, d - a))
    outer = (
        dot(a - p, cross(b - p, c - p))
        + dot(b - q, cross(a - q, d - q))
        + dot(c - r, cross(d - r, a - r))
        + dot(d - s, cross(c - s, b - s))
    )
    return inner + outer


@cell_volume.rest
def cell_volume_rest(x):
    """V."""
    return six_volumes(x) / 6.0


@cell_volume.material(YOUNG, POISSON)
def cell_volume_material(young: float, poisson: float, volume: float):
    """alpha."""
    mu, la = lame(young, poisson)
    return 1.0 / ((la + 2.0 / 3.0 * mu) * volume)
