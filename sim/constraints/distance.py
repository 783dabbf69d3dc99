"""Distance of two points: membranes, springs, chains; on the diagonals of a grid it is called shear."""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.constraints.stencils import Cloth, Elements, Stencil, edges_of_cloth
from sim.core.lang.library.vector import length
from sim.geometry import GeometryError

WARP_AND_WEFT = Stencil("edges along the axes of a grid; all edges without one", elsewhere=True)
DIAGONALS = Stencil("diagonals of the cells of a grid")


@WARP_AND_WEFT.on(Cloth)
def warp_and_weft(cloth: Cloth) -> Elements:
    if cloth.grid is None:
        return edges_of_cloth(cloth)
    return cloth.edges(cloth.topology.find_edges(cloth.grid.structural))


@DIAGONALS.on(Cloth)
def diagonals(cloth: Cloth) -> Elements:
    if cloth.grid is None:
        raise GeometryError(
            "acts on the diagonals of a grid; a mesh has none", "Leave it out: `distance` acts on all edges of a mesh"
        )
    return cloth.edges(cloth.topology.find_edges(cloth.grid.diagonals))


@constraint(points=2, units={"rest": "m", "compliance": "m/N"}, stencil=WARP_AND_WEFT, unit=True)
def distance(x, rest: float):
    """Distance of two points minus its rest value.  C [m]; compliance of one constraint [m/N]."""
    return length(x[0] - x[1]) - rest


@constraint(points=2, units={"rest": "m", "compliance": "m/N"}, stencil=DIAGONALS, unit=True)
def shear(x, rest: float):
    """Distance across a cell of a grid minus its rest value.  C [m]; compliance of one constraint [m/N]."""
    return length(x[0] - x[1]) - rest


@distance.factor("cloth")
@shear.factor("cloth")
def of_membrane(length, area):
    """An edge of length l that stands for area A of a membrane of compliance c [m/N]: alpha = c l^2 / A."""
    return length**2 / area
