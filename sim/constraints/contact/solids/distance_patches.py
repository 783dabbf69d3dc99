"""Contact of lines, faces and rims of a shape with what a function of the user says the distance from: C >= 0 apart.

A shape is met at places that are its own, as corners are, and between these at a place of one of its patches: a part of
a line or a flat face, or a rim.  Each step looks for the place of every patch that is deepest where it is predicted, if
that is inside of the patch and the distance curves there; else ends and corners are as deep.  Where that place has come
in every projection is found by steps of Newton's method with the second derivatives that were found with it: they lead
to where the slope along the patch is zero, so that derivatives are those of a place that moves.  See `patch_choice`.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint, constraint
from sim.constraints.contact.primitives.boxes import OPEN, middle
from sim.constraints.contact.solids.distances import FUNCTIONS, passes_of
from sim.constraints.contact.solids.row_kernels import make_passing
from sim.constraints.slots.bodies import seen_from
from sim.constraints.slots.linearization import points_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import grad
from sim.core.lang.frontend.builtins import abs, cos, sin
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.quaternion import quat_rotate
from sim.core.lang.library.vector import dot, length
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vec3
from sim.core.runtime.launch.kernel import Kernel

FLAT, RIM, DISC = 0.0, 1.0, 2.0
"""Kinds of patches: middle + s u + t v with s, t from -1 to 1, or a place without u and v; middle + cos s u + sin s v;
and what of the first is inside of the circle about the z axis."""
STEPS = 6
"""Of Newton's method in a projection: an error of a twentieth, by what a shape comes in a step, is 1e-8 then."""
PATCHES: dict[Constraint, Constraint] = {}
"""The constraint of patches for every one of `DISTANCES` that has met some."""
CHOOSES = ("at", "inverse", "sharp")
"""Parameters that every step chooses."""


def patches_with(of_points: Constraint) -> Constraint:
    """The constraint of patches of shapes and a distance, one of `DISTANCES`."""
    if of_points not in PATCHES:
        PATCHES[of_points] = _declared(FUNCTIONS[of_points], f"{of_points.name}_patch")
        FUNCTIONS[PATCHES[of_points]] = FUNCTIONS[of_points]
    return PATCHES[of_points]


@func
def patch_place(origin, u, v, s, t, round):
    """A place of a patch, and its derivatives by both coordinates."""
    p, by_s, by_t = origin + s * u + t * v, u, v
    if abs(round - RIM) < 0.5:
        p, by_s, by_t = origin + cos(s) * u + sin(s) * v, cos(s) * v - sin(s) * u, 0.0 * v
    return p, by_s, by_t


def slope_of(distance: Function) -> Function:
    """`slope(p, scale)` in a kernel: the gradient of a signed distance by the place."""

    @func
    def slope(p, scale):
        out, _ = grad(distance)(p, scale)
        return out

    return slope


def _declared(distance: Function, name: str) -> Constraint:
    slope = slope_of(distance)

    @func
    def settled(origin, u, v, scale, round, s, t, inverse):
        """The place of a patch that is deepest, from one near it and the inverse of the second derivatives there."""
        for _ in range(STEPS):
            p, by_s, by_t = patch_place(origin, u, v, s, t, round)
            g = slope(p, scale)
            f, h = dot(g, by_s), dot(g, by_t)
            s, t = s - (inverse[0] * f + inverse[1] * h), t - (inverse[1] * f + inverse[2] * h)
        p, _, _ = patch_place(origin, u, v, s, t, round)
        return p

    @func
    def seen(x, size, origin, u, v):
        """A patch as the first sees it."""
        turned = [quat_rotate(x.q, middle(part, size)) for part in (origin, u, v)]
        return x.p + turned[0], turned[1], turned[2]

    @constraint(
        points=2,
        unilateral=True,
        name=name,
        units={"scale": "", "size": "m", "thickness": "m", "origin": "", "u": "", "v": "", "out": "", "round": "",
               "both": "", "at": "", "inverse": "", "sharp": ""},
        added_by="add_shape_sdf",
        frames=(0, 1),
    )  # fmt: skip
    def contact_sdf_patch(
        x,
        scale: vec3,
        size: vec3,
        thickness: float,
        origin: vec3,
        u: vec3,
        v: vec3,
        out: vec3,
        round: float,
        both: float,
        at: vec3,
        inverse: vec3,
        sharp: float,
    ):
        """What a function says the deepest place of a patch of the second shape is away from the first, minus the
        thickness.  C [m].

        size: lengths that origin, u and v are in units of; out: along which axes, and how far from the middle of the
        shape in these units, the patch is at its border; round: kind of the patch; both: 1 where the row is
        about the one across from it, too, whichever is deeper.  at: coordinates of a place near it,
        and which of both, 1 or -1, 0: open; inverse: of the matrix of second derivatives by them, its entries 00,
        01, 11; sharp: 1 where it would come onto an edge or a corner of the distance.  A step chooses these.
        """
        if abs(at[2]) > 0.5:
            o, a, b = seen(x, size, at[2] * origin, u, v)
            return distance(settled(o, a, b, scale, round, at[0], at[1], inverse), scale) - thickness
        return 0.0 * x.p[0] + OPEN

    @contact_sdf_patch.touched_at
    def _at_place(
        x,
        scale: vec3,
        size: vec3,
        thickness: float,
        origin: vec3,
        u: vec3,
        v: vec3,
        out: vec3,
        round: float,
        both: float,
        at: vec3,
        inverse: vec3,
        sharp: float,
    ):
        """On the surface of the second."""
        place = 0.0 * x.p
        if abs(at[2]) > 0.5:
            o, a, b = seen(x, size, at[2] * origin, u, v)
            place = settled(o, a, b, scale, round, at[0], at[1], inverse)
            g = slope(place, scale)
            place -= (thickness / length(g)) * g
        return place

    return contact_sdf_patch


@memoize
def make_patch_passing(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """Of the patches `tid()` of one of `PATCHES`: those whose middle has come through within a step, by the greatest
    number, from 1 on; or, behind the numbers of all, those that have met what is sharp."""
    distance = FUNCTIONS[c]

    @func
    def gap(p, parameters):
        return (distance(p, parameters[0]) - parameters[1],)

    passes = passes_of(gap, real)

    @func
    def passed(a, b, k, data, meshes):
        x, y, at = seen_from(a[0], a[1]), seen_from(b[0], b[1]), middle(data.origin[k], data.size[k])
        return passes(x.p + quat_rotate(x.q, at), y.p + quat_rotate(y.q, at), (data.scale[k], data.thickness[k]))

    return make_passing(c, slots, real, points_of(c, slots, real), passed)
