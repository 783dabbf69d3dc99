"""What contacts know beside C: coefficients of friction and restitution, and of an impact its time and rebound."""

from __future__ import annotations

from functools import cache

from sim.core.lang.types import Scalar, Struct, array_type, vector

SURFACE = ("friction", "other_friction", "restitution", "other_restitution")
"""Of both sides of a contact, whose means count."""


@cache
def surface_struct(real: Scalar) -> Struct:
    """`SURFACE`, an array each."""
    return Struct("surface", {name: array_type(real) for name in SURFACE})


@cache
def impact_struct(real: Scalar) -> Struct:
    """Of the contacts of a step, from its prediction (`make_impact`):

    target:  [m] what C is to be at the end of the step where the contact pushes
    rebound: [m/s] what dC/dt is to be then
    before:  (3,) [m] the slip before the impact, which friction does not act on
    """
    kinds = {"target": real, "rebound": real, "before": vector(3, real)}
    return Struct("impacts", {name: array_type(kind) for name, kind in kinds.items()})
