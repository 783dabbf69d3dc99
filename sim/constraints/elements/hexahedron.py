"""Hexahedra that are boxes at rest: the mean strain, and twelve modes of bending and twisting.

With xi, eta, zeta from -1 to 1 along the edges, of lengths a, b, c, the displacement of a hexahedron is linear, or one
of q1 eta zeta, q2 zeta xi, q3 xi eta, q4 xi eta zeta.  Of the strain of these modes the parts that a bent box has are
kept and the parasitic shear is left out; strain across a bent layer is as large as makes its stress vanish.  So boxes
bend as beams and plates do, whatever Poisson's ratio (D. P. Flanagan, T. Belytschko, "A Uniform Strain Hexahedron and
Quadrilateral with Orthogonal Hourglass Control", 1981; T. Belytschko, L. P. Bindeman, "Assumed Strain Stabilization of
the Eight Node Hexahedral Element", 1993; M. A. Puso, "A Highly Efficient Enhanced Assumed Strain Physically Stabilized
Hexahedral Element", 2000).  Strains turn with the columns of the mean F, in the box's own axes.
"""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.constraints.neo_hookean import neo_hookean, neo_hookean_rows
from sim.constraints.stencils import ELEMENTS
from sim.constraints.stvk import stvk
from sim.constraints.tetrahedron import DEVIATORIC, HALF, POISSON, YOUNG, green_strain, lame
from sim.core.lang.frontend.builtins import static
from sim.core.lang.frontend.constructors import vector
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import dot, length
from sim.core.lang.types import vec3

BOX = {"size": "m"}
HEXAHEDRA = "element: hexahedra"
# xi, eta, zeta at the corners, numbered 4 k + 2 j + i, and their products
XI, ETA, ZETA = (-1, 1) * 4, (-1, -1, 1, 1) * 2, (-1, -1, -1, -1, 1, 1, 1, 1)
ETA_ZETA, ZETA_XI = (1, 1, -1, -1, -1, -1, 1, 1), (1, -1, 1, -1, -1, 1, -1, 1)
XI_ETA, XI_ETA_ZETA = (1, -1, -1, 1) * 2, (-1, 1, 1, -1, 1, -1, -1, 1)


@func
def mode(x, signs):
    """How much of a mode, which is 1 or -1 at each corner, is in the positions of the corners."""
    total = x[0] * (0.125 * signs[0])
    for i in static(range(1, 8)):
        total = total + x[i] * (0.125 * signs[i])
    return total


@func
def mean_deformation(x, size):
    """The columns of the mean F, in the axes of the box."""
    return mode(x, XI) * (2.0 / size[0]), mode(x, ETA) * (2.0 / size[1]), mode(x, ZETA) * (2.0 / size[2])


@func
def box_size(x):
    """The lengths of the edges."""
    return vector(length(mode(x, XI)), length(mode(x, ETA)), length(mode(x, ZETA))) * 2.0


@constraint(
    points=8, rows=6, units=BOX, damped=(False, *DEVIATORIC), stencil=ELEMENTS, added_by=f"`stvk` with `{HEXAHEDRA}`"
)
def stvk_hexahedron(x, size: vec3):
    """The mean strain of a hexahedron, as `stvk`."""
    f0, f1, f2 = mean_deformation(x, size)
    return green_strain(f0, f1, f2)


@constraint(
    points=8,
    rows=7,
    units=BOX,
    elastic=neo_hookean.elastic,
    damped=neo_hookean.damped,
    stencil=ELEMENTS,
    added_by=f"`neo_hookean` with `{HEXAHEDRA}`",
)
def neo_hookean_hexahedron(x, size: vec3, softness: float):
    """The mean strain of a hexahedron, as `neo_hookean`."""
    f0, f1, f2 = mean_deformation(x, size)
    return neo_hookean_rows(f0, f1, f2, softness)


@constraint(points=8, rows=6, units=BOX, stencil=ELEMENTS, added_by=f"`stvk` or `neo_hookean` with `{HEXAHEDRA}`")
def hexahedron_bending(x, size: vec3):
    """Bending of a hexahedron: stretch along two axes that grows along the third, their sum and difference over sqrt 2.

    The stress along the third axis vanishes: alpha = 3 (1 - nu) / (E V) of the sum, 3 (1 + nu) / (E V) of the
    difference.
    """
    f0, f1, f2 = mean_deformation(x, size)
    q1, q2, q3 = mode(x, ETA_ZETA), mode(x, ZETA_XI), mode(x, XI_ETA)
    a, b, c = 2.0 * HALF / size[0], 2.0 * HALF / size[1], 2.0 * HALF / size[2]
    x_eta, z_eta = a * dot(f0, q3), c * dot(f2, q1)
    x_zeta, y_zeta = a * dot(f0, q2), b * dot(f1, q1)
    y_xi, z_xi = b * dot(f1, q3), c * dot(f2, q2)
    return x_eta + z_eta, x_eta - z_eta, x_zeta + y_zeta, x_zeta - y_zeta, y_xi + z_xi, y_xi - z_xi


@hexahedron_bending.material(YOUNG, POISSON)
def hexahedron_bending_material(young: float, poisson: float, volume: float):
    """alpha of the rows."""
    unit = 3.0 / (young * volume)
    both, apart = unit * (1.0 - poisson), unit * (1.0 + poisson)
    return both, apart, both, apart, both, apart


@constraint(points=8, rows=6, units=BOX, stencil=ELEMENTS, added_by=f"`stvk` or `neo_hookean` with `{HEXAHEDRA}`")
def hexahedron_twist(x, size: vec3):
    """Twist of a hexahedron: shear in the plane of two axes that grows along the third, times sqrt 2; then stretch
    along an axis that grows with the product of the others.

    alpha = 3 / (2 mu V) of the shear, 9 / (E V) of the stretch.
    """
    f0, f1, f2 = mean_deformation(x, size)
    q1, q2, q3, q4 = mode(x, ETA_ZETA), mode(x, ZETA_XI), mode(x, XI_ETA), mode(x, XI_ETA_ZETA)
    a, b, c = 2.0 / size[0], 2.0 / size[1], 2.0 / size[2]
    xq, yq, zq = HALF * dot(f0, q1), HALF * dot(f1, q2), HALF * dot(f2, q3)
    return b * xq + a * yq, c * yq + b * zq, a * zq + c * xq, a * dot(f0, q4), b * dot(f1, q4), c * dot(f2, q4)


@hexahedron_twist.material(YOUNG, POISSON)
def hexahedron_twist_material(young: float, poisson: float, volume: float):
    """alpha of the rows."""
    mu, _ = lame(young, poisson)
    shear, stretch = 3.0 / (2.0 * mu * volume), 9.0 / (young * volume)
    return shear, shear, shear, stretch, stretch, stretch


for _made, _law in ((stvk_hexahedron, stvk), (neo_hookean_hexahedron, neo_hookean)):
    _made.law = _law.law
    _law.on_element["hexahedra"] = _made, hexahedron_bending, hexahedron_twist
for _made in (stvk_hexahedron, neo_hookean_hexahedron, hexahedron_bending, hexahedron_twist):
    _made.rest(box_size)
