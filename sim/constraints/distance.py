"""Distance of two points: membranes, springs, chains; on the diagonals of a grid it is called shear."""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.core.lang.library.vector import length


@constraint(points=2, units={"rest": "m", "compliance": "m/N"})
def distance(x, rest: float):
    """Distance of two points minus its rest value.  C [m]; compliance of one constraint [m/N]."""
    return length(x[0] - x[1]) - rest


@constraint(points=2, units={"rest": "m", "compliance": "m/N"})
def shear(x, rest: float):
    """Distance across a cell of a grid minus its rest value.  C [m]; compliance of one constraint [m/N]."""
    return length(x[0] - x[1]) - rest


@distance.factor("cloth")
@shear.factor("cloth")
def of_membrane(length, area):
    """An edge of length l that stands for area A of a membrane of compliance c [m/N]: alpha = c l^2 / A."""
    return length**2 / area
