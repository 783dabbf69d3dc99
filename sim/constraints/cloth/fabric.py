"""Woven fabric in its plane: stiffnesses along warp and weft, and against shear, as they are measured."""

from __future__ import annotations

from sim.constraints.base import ConstraintParameter, constraint
from sim.constraints.cloth.triangle import ANGLE, WOVEN, deformation, inverse_edges
from sim.core.lang.frontend.builtins import cos, sin, sqrt
from sim.core.lang.library.vector import dot, length
from sim.core.lang.types import vec3

WARP = ConstraintParameter("warp", "float", "N/m", "force per width over stretch along the warp", bounds="(0, inf)")
WEFT = ConstraintParameter("weft", "float", "N/m", "force per width over stretch along the weft", bounds="(0, inf)")
SHEAR = ConstraintParameter("shear", "float", "N/m", "shear force per width over shear angle", bounds="(0, inf)")
COUPLING = ConstraintParameter(
    "poisson", "float", "", "geometric mean of the two ratios of contraction", default=0.0, bounds="(-1, 1)"
)


@constraint(points=3, rows=3, units={"inverse": "1/m", "along": "rad", "angle": "rad"}, stencil=WOVEN)
def fabric(x, inverse: vec3, along: float, angle: float, coupling: float):
    """Woven fabric in its plane: warp, weft and shear stiffness [N/m], coupled by a Poisson's ratio.

    With the warp direction u and the weft direction v of the rest shape the strains are the stretches e_u = |F u| - 1,
    e_v = |F v| - 1 and the shear s = F u . F v, the sine of the shear angle of unstretched threads.  Pulled along u
    alone, the force per width is `warp` e_u and e_v = -nu_uv e_u, nu_uv = poisson sqrt(warp / weft); likewise along v.
    The rows e_u + poisson sqrt(weft / warp) e_v, e_v and s make the energy of an area A diagonal:
    alpha = (1 - poisson^2) / (warp A), 1 / (weft A), 1 / (shear A).

    The warp makes `angle` with the level direction of the surface, about its normal: on a grid with its width (its x
    axis); around a tube about the y axis of the object; on what lies flatter than 30 degrees with the x axis of the
    object, seen from above.
    """
    f0, f1 = deformation(x, inverse)
    turn = along + angle
    u, v = f0 * cos(turn) + f1 * sin(turn), f1 * cos(turn) - f0 * sin(turn)
    across = length(v) - 1.0
    return length(u) - 1.0 + coupling * across, across, dot(u, v)


fabric.rest(inverse_edges)


@fabric.material(WARP, WEFT, SHEAR, COUPLING, ANGLE, derived=("angle", "coupling"), kind="cloth")
def fabric_material(warp: float, weft: float, shear: float, poisson: float, angle: float, area: float):
    """alpha of the rows, the angle and poisson sqrt(weft / warp)."""
    pull = (1.0 - poisson * poisson) / (warp * area)
    return pull, 1.0 / (weft * area), 1.0 / (shear * area), angle, poisson * sqrt(weft / warp)
