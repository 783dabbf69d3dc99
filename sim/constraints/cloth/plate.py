"""Bending of a sheet by a plate's stiffness: isotropic, and woven."""

from __future__ import annotations

from sim.constraints.base import ConstraintParameter, constraint
from sim.constraints.cloth.fabric import COUPLING
from sim.constraints.cloth.patches import PATCHES, POINTS, WEIGHTS, WOVEN_PATCHES
from sim.constraints.cloth.triangle import ANGLE
from sim.core.lang.frontend.builtins import cos, sin, sqrt
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import cross, dot, normalize
from sim.core.lang.types import vec3

STIFFNESS = ConstraintParameter(
    "stiffness", "float", "N m", "bending stiffness B = E t^3 / (12 (1 - nu^2))", bounds="(0, inf)"
)
POISSON_OF_PLATE = ConstraintParameter("poisson", "float", "", "Poisson's ratio", default=0.0, bounds="(-1, 1)")
WARP = ConstraintParameter("warp", "float", "N m", "moment per width over curvature along the warp", bounds="(0, inf)")
WEFT = ConstraintParameter("weft", "float", "N m", "moment per width over curvature along the weft", bounds="(0, inf)")
TWIST = ConstraintParameter(
    "twist", "float", "N m", "twisting moment per width over twice the twist", bounds="(0, inf)"
)
CURVATURE = ConstraintParameter(
    "curvature", "float", "", "curvature without load over that of the rest shape; 0 is a flat sheet", default=1.0
)
CURL_WARP, CURL_WEFT = (
    ConstraintParameter(
        f"curl_{way}", "float", "1/m", f"curvature without load along the {way}, to be added", default=0.0
    )
    for way in ("warp", "weft")
)
UNITS = {**dict.fromkeys(WEIGHTS, "1/m^2"), "rest": "1/m"}


@func
def curvatures(x, w3, w4, w5, w6, w7, w8, w9, w10, w11):
    """(k_xx + k_yy) / sqrt 2, (k_xx - k_yy) / sqrt 2, sqrt 2 k_xy: from heights over the plane of the triangle."""
    n = normalize(cross(x[1] - x[0], x[2] - x[0]))
    return (
        dot(x[3] - x[0], n) * w3
        + dot(x[4] - x[0], n) * w4
        + dot(x[5] - x[0], n) * w5
        + dot(x[6] - x[0], n) * w6
        + dot(x[7] - x[0], n) * w7
        + dot(x[8] - x[0], n) * w8
        + dot(x[9] - x[0], n) * w9
        + dot(x[10] - x[0], n) * w10
        + dot(x[11] - x[0], n) * w11
    )


@constraint(points=POINTS, rows=3, units=UNITS, stencil=PATCHES)
def plate(
    x,
    w3: vec3,
    w4: vec3,
    w5: vec3,
    w6: vec3,
    w7: vec3,
    w8: vec3,
    w9: vec3,
    w10: vec3,
    w11: vec3,
    rest: vec3,
    curvature: float,
):
    """Bending of a plate: the curvature of a triangle in three rows, (k_xx + k_yy) / sqrt 2 and its deviator.

    The energy of an area A is A B / 2 ((tr k)^2 - 2 (1 - nu) det k), which is diagonal in these rows:
    alpha = 1 / (B (1 + nu) A) for the first and 1 / (B (1 - nu) A) for the others.  B [N m] is that of plate theory,
    whatever the mesh; a cylinder of curvature k has the energy B k^2 / 2 per area.  Curvatures are taken from twelve
    points: exactly, where the sheet is a quadratic over its triangle.  In contrast to `bend` they converge on every
    mesh, with three times the points.  The edge of triangles whose corners are all held is clamped: two rows of held
    points hold a strip; one row is a hinge.
    """
    k = curvatures(x, w3, w4, w5, w6, w7, w8, w9, w10, w11)
    return k[0] - curvature * rest[0], k[1] - curvature * rest[1], k[2] - curvature * rest[2]


@plate.material(STIFFNESS, POISSON_OF_PLATE, CURVATURE, derived=("curvature",), kind="cloth")
def plate_material(stiffness: float, poisson: float, curvature: float, area: float):
    """alpha of the rows, and the share of the curvature at rest."""
    shape = 1.0 / (stiffness * (1.0 - poisson) * area)
    return 1.0 / (stiffness * (1.0 + poisson) * area), shape, shape, curvature


@constraint(points=POINTS, rows=3, units={**UNITS, "along": "rad", "angle": "rad"}, stencil=WOVEN_PATCHES)
def fabric_bend(
    x,
    w3: vec3,
    w4: vec3,
    w5: vec3,
    w6: vec3,
    w7: vec3,
    w8: vec3,
    w9: vec3,
    w10: vec3,
    w11: vec3,
    along: float,
    rest: vec3,
    angle: float,
    coupling: float,
    curvature: float,
    curl_warp: float,
    curl_weft: float,
):
    """Bending of woven fabric: a stiffness [N m] along the warp, along the weft and against twist.

    As `plate`, with the curvatures k_u and k_v along warp and weft and the twist k_uv.  A strip that is cut along the
    warp and bent has the moment `warp` k_u per width, and k_v = -nu_uv k_u, nu_uv = poisson sqrt(warp / weft); likewise
    along the weft.  A twist has the moment 2 `twist` k_uv.  The rows k_u + poisson sqrt(weft / warp) k_v, k_v and
    2 k_uv make the energy of an area A diagonal: alpha = (1 - poisson^2) / (warp A), 1 / (weft A), 1 / (twist A).  The
    isotropic plate has warp = weft = B (1 - nu^2) and twist = B (1 - nu) / 2.  Where the warp is, `fabric` says.
    """
    k = curvatures(x, w3, w4, w5, w6, w7, w8, w9, w10, w11) - curvature * rest
    c, s, root = cos(2.0 * (along + angle)), sin(2.0 * (along + angle)), sqrt(0.5)
    mean, difference = k[0] * root, (k[1] * c + k[2] * s) * root
    u, v = mean + difference - curl_warp, mean - difference - curl_weft
    return u + coupling * v, v, (k[2] * c - k[1] * s) * 2.0 * root


@fabric_bend.material(
    WARP, WEFT, TWIST, COUPLING, ANGLE, CURVATURE, CURL_WARP, CURL_WEFT,
    derived=("angle", "coupling", "curvature", "curl_warp", "curl_weft"), kind="cloth",
)  # fmt: skip
def fabric_bend_material(
    warp: float,
    weft: float,
    twist: float,
    poisson: float,
    angle: float,
    curvature: float,
    curl_warp: float,
    curl_weft: float,
    area: float,
):
    """alpha of the rows, the angle, poisson sqrt(weft / warp), and what the sheet is bent to without load."""
    bend = (1.0 - poisson * poisson) / (warp * area)
    coupling = poisson * sqrt(weft / warp)
    return bend, 1.0 / (weft * area), 1.0 / (twist * area), angle, coupling, curvature, curl_warp, curl_weft
