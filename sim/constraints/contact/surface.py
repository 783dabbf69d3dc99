"""What contacts know beside C: coefficients of friction and restitution, and of an impact its time and rebound."""

from __future__ import annotations

from functools import cache

from sim.core.lang.types import Scalar, Struct, Type, array_type, vector

OF_SURFACES = {"friction": "[0, inf)", "restitution": "[0, 1]"}
"""What a contact may know of a surface beside C, and the intervals."""
SURFACE = tuple(name for key in OF_SURFACES for name in (key, f"other_{key}"))
"""Of both sides of a contact, whose means count."""


@cache
def surface_struct(real: Scalar) -> Struct:
    """`SURFACE`, an array each."""
    return Struct("surface", {name: array_type(real) for name in SURFACE})


@cache
def impact_kinds(real: Scalar) -> dict[str, Type]:
    """What a step finds of each contact, from its prediction (`make_impact`):

    target:  [m] what C is to be at the end of the step where the contact pushes
    rebound: [m/s] what dC/dt is to be then
    rests:   1 for what rests, 0 for an impact
    before:  (3,) [m] the slip before the impact, which friction does not act on
    after:   (3,) [m/s] and what forces add to the velocity between its places after it, where it rebounds
    hits:    1 for what acts along its rows as it hits, see `hitting`, 0 for what does so as the step ends
    time:    [s] of the impact, from the beginning of the step
    share:   1 for an impact, 0 for what rests
    """
    numbers = {name: real for name in ("target", "rebound", "rests", "hits", "time", "share")}
    return {**numbers, "before": vector(3, real), "after": vector(3, real)}


@cache
def impact_struct(real: Scalar) -> Struct:
    """`impact_kinds`, an array each."""
    return Struct("impacts", {name: array_type(kind) for name, kind in impact_kinds(real).items()})
