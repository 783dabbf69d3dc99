"""Quadratic tetrahedra, with nodes in the middles of their edges: the mean strain, and three modes of its variation.

F varies linearly: with L_a the shares of the corners (barycentric coordinates) it is the mean plus a sum over the modes
s.L, s one of (1, 1, -1, -1), (1, -1, 1, -1), (1, -1, -1, 1), which are orthogonal, times gradients H_s.  The strain of
a mode is sym(F^T H_s), with the mean F.  Where mu is concerned the strain is integrated fully, by its values at the
four Gauss points; lambda acts on the mean alone, so that solids that hardly change their volume do not lock (selective
integration: T. J. R. Hughes, "Generalization of Selective Integration Procedures to Anisotropic and Nonlinear Media",
1980).  Nodes 4 to 9 belong to edges 01, 02, 03, 12, 13, 23, straight at rest; g1, g2, g3 are those of the corners.
"""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.constraints.neo_hookean import neo_hookean, neo_hookean_rows
from sim.constraints.stencils import ELEMENTS, TURNS
from sim.constraints.stvk import stvk
from sim.constraints.tetrahedron import (
    DEVIATORIC,
    POISSON,
    REST,
    YOUNG,
    gradients,
    green_strain,
    lame,
    strain_change,
)
from sim.core.lang.frontend.function import func
from sim.core.lang.types import vec3

QUADRATIC = "element: quadratic"
GAUSS = 5.0**-0.5
"""The share of the nearest corner at a Gauss point, (5 + 3 sqrt 5) / 20, minus that of the others."""


@func
def columns(a, b, c, g1, g2, g3):
    """The columns of a g1^T + b g2^T + c g3^T."""
    return a * g1[0] + b * g2[0] + c * g3[0], a * g1[1] + b * g2[1] + c * g3[1], a * g1[2] + b * g2[2] + c * g3[2]


@func
def mean_deformation(x, g1, g2, g3):
    """The columns of the mean F: it sees the middles of the edges alone."""
    at0 = x[4] + x[5] + x[6]
    return columns(x[4] + x[7] + x[8] - at0, x[5] + x[7] + x[9] - at0, x[6] + x[8] + x[9] - at0, g1, g2, g3)


@func
def varying_deformation(x, g1, g2, g3):
    """The columns of H for s = (1, 1, -1, -1), as large as at the Gauss points."""
    at0 = x[0] + x[4] - x[5] - x[6]
    at1 = x[1] + x[4] - x[7] - x[8]
    at2 = x[5] + x[7] - x[2] - x[9]
    at3 = x[6] + x[8] - x[3] - x[9]
    return columns((at1 - at0) * GAUSS, (at2 - at0) * GAUSS, (at3 - at0) * GAUSS, g1, g2, g3)


@constraint(
    points=10, rows=6, units=REST, damped=(False, *DEVIATORIC), stencil=ELEMENTS, added_by=f"`stvk` with `{QUADRATIC}`"
)
def stvk_quadratic(x, g1: vec3, g2: vec3, g3: vec3):
    """The mean strain of a quadratic tetrahedron, as `stvk`."""
    f0, f1, f2 = mean_deformation(x, g1, g2, g3)
    return green_strain(f0, f1, f2)


@constraint(
    points=10,
    rows=7,
    units=REST,
    elastic=neo_hookean.elastic,
    damped=neo_hookean.damped,
    stencil=ELEMENTS,
    added_by=f"`neo_hookean` with `{QUADRATIC}`",
)
def neo_hookean_quadratic(x, g1: vec3, g2: vec3, g3: vec3, softness: float):
    """The mean strain of a quadratic tetrahedron, as `neo_hookean`."""
    f0, f1, f2 = mean_deformation(x, g1, g2, g3)
    return neo_hookean_rows(f0, f1, f2, softness)


@constraint(
    points=10,
    rows=6,
    units=REST,
    damped=(False, *DEVIATORIC),
    stencil=TURNS,
    added_by=f"`stvk` or `neo_hookean` with `{QUADRATIC}`",
)
def quadratic_modes(x, g1: vec3, g2: vec3, g3: vec3):
    """One mode of the strain of a quadratic tetrahedron, in the rows of `stvk`; the others with corners 1, 2, 3 turned.

    alpha = 1 / (2 mu V).
    """
    f0, f1, f2 = mean_deformation(x, g1, g2, g3)
    h0, h1, h2 = varying_deformation(x, g1, g2, g3)
    return strain_change(f0, f1, f2, h0, h1, h2)


@quadratic_modes.material(YOUNG, POISSON)
def quadratic_modes_material(young: float, poisson: float, volume: float):
    """alpha of the rows."""
    mu, _ = lame(young, poisson)
    alpha = 1.0 / (2.0 * mu * volume)
    return alpha, alpha, alpha, alpha, alpha, alpha


for _made, _law in ((stvk_quadratic, stvk), (neo_hookean_quadratic, neo_hookean)):
    _made.law = _law.law
    _law.on_element["quadratic"] = _made, quadratic_modes
for _made in (stvk_quadratic, neo_hookean_quadratic, quadratic_modes):
    _made.rest(gradients)
