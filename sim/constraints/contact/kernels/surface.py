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
    coming:  (3,) [m/s] the velocity between its places at the impact, before it, where joints answer it and it rebounds
    loses:   [m/s] and by how much slower it is to rebound than it comes
    worked:  what it adds to the energy so far, times h [J s], where it is asked for that
    carried: the part of the way of its place that is that of the first of two bodies, see `solids.carrying`
    """
    numbers = ("target", "rebound", "rests", "hits", "time", "share", "loses", "worked", "carried")
    return {**{name: real for name in numbers}, **{name: vector(3, real) for name in ("before", "after", "coming")}}


@cache
def impact_struct(real: Scalar) -> Struct:
    """`impact_kinds`, an array each."""
    return Struct("impacts", {name: array_type(kind) for name, kind in impact_kinds(real).items()})
