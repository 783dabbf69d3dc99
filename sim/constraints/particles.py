"""What a step works on: eight numbers for each point, side by side, so that a constraint finds all of it in one place.

    0 to 2   x_ref [m], the position from which displacements count
    3        w = 1 / m [1/kg]
    4 to 6   dx [m], the displacement so far, which projections add to; C is evaluated at x_ref + dx
    7        nothing
"""

from __future__ import annotations

from sim.core.lang.frontend.function import func
from sim.core.lang.library.static import vector_type

W = 3


@func
def reference(particle):
    """x_ref."""
    return vector_type(particle, 3)(particle[0], particle[1], particle[2])


@func
def displacement(particle):
    """dx."""
    return vector_type(particle, 3)(particle[4], particle[5], particle[6])


@func
def at_start(x, w, dx):
    """A particle."""
    return vector_type(x, 8)(x[0], x[1], x[2], w, dx[0], dx[1], dx[2], 0.0)


@func
def moved_by(dx):
    """What is added to a particle to displace it: literal zeros touch nothing."""
    return vector_type(dx, 8)(0.0, 0.0, 0.0, 0.0, dx[0], dx[1], dx[2], 0.0)
