"""Shapes that come through each other within one step, or so far that contacts did not look at them: found as it ends.

Contacts are chosen and projected where a step is predicted to end.  A shape that has passed another by then is pushed
out on the far side, or met by nothing, and neither would be noticed.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.contact.primitives.box_choice import LOOKED
from sim.constraints.slots.bodies import body_struct, seen_from
from sim.core.lang.frontend.builtins import abs, atomic_max, static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import quat_to_matrix
from sim.core.lang.library.vector import dot, length
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, quaternion, transformation, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.model.collision.near.extents import extent, placed
from sim.model.fields import BOX, CAPSULE

AWAY = 0.25
"""So far apart, in parts of what would be touching, centres have been along the axis that they have come through."""


@memoize
def make_passing(real: Scalar, near: bool) -> Kernel:
    """Of pairs `tid()` of shapes: how far one has come in a step, as the other sees it, if it has come through, and its
    number, from 1 on.

    That is so where the centres have changed sides along the axis that kept the boxes around both apart best as the
    step began, and no axis kept them apart on one side as it began and as it ends.
    near: pairs that the step has found; if not, also where boxes and capsules meet that have come too far for their
    contacts to have been looked at (`LOOKED`).
    """
    vec3, frame, Quat = vector(3, real), transformation(real), quaternion(real)
    Bodies = body_struct(real)

    @func
    def at(i, b, transform, com, bodies):
        """The frame of a shape as a step begins."""
        own = transform[i]
        if b >= 0:
            own = placed(own, bodies.x[b], bodies.q[b], com[b])
        return own

    @func
    def later(i, b, transform, com, bodies, dx, turn):
        """The same as it ends."""
        own = transform[i]
        if b >= 0:
            own = placed(own, bodies.x[b] + dx[b], turn[b] * bodies.q[b], com[b])
        return own

    @func
    def along(j, seen, half, other_half):
        """Along axis j of both, 0 to 5: where the second is, and how far apart they are where they touch."""
        r = quat_to_matrix(seen.q)
        if j < 3:
            return seen.p[j], half[j] + sum([other_half[k] * abs(r[j, k]) for k in static(range(3))])
        axis = vec3(r[0, j - 3], r[1, j - 3], r[2, j - 3])
        return dot(axis, seen.p), other_half[j - 3] + sum([half[k] * abs(axis[k]) for k in static(range(3))])

    @func
    def core(kind: int, half):
        """Half lengths of what is inside of a thickness, and that: a box, or the line of centres of a capsule."""
        inner, around = half, 0.0 * half[0]
        if kind == CAPSULE:
            around = half[0]
            inner = vec3(0.0, 0.0, half[2] - around)
        return length(inner), around

    @func
    def overlooked(kind: int, other_kind: int, come, seen, half, other_half):
        size, around = core(kind, half)
        other_size, other_around = core(other_kind, other_half)
        sizes, edged = size + other_size, kind == BOX or kind == CAPSULE
        edged = edged and (other_kind == BOX or other_kind == CAPSULE)
        return edged and come > static(LOOKED) * sizes and length(seen.p) < sizes + around + other_around

    @func
    def passed(begun, ended, half, other_half):
        best, through, apart = real(-1e30), False, False
        for j in static(range(6)):
            s_0, reach_0 = along(static(j), begun, half, other_half)
            s_1, reach_1 = along(static(j), ended, half, other_half)
            turned = s_0 * s_1 < 0.0
            if abs(s_0) - reach_0 > best:
                best = abs(s_0) - reach_0
                through = turned and abs(s_0) > static(AWAY) * reach_0
            if abs(s_0) > reach_0 and abs(s_1) > reach_1 and not turned:
                apart = True
        return through and not apart

    @kernel
    def find_passing(
        total: array[int],
        pairs: array2d[int],
        solids: array[int],
        shape_body: array[int],
        shape_type: array[int],
        transform: array[frame],
        scale: array[vec3],
        com: array[vec3],
        bodies: Bodies,
        dx: array[vec3],
        turn: array[Quat],
        furthest: array[real],
        last: array[int],
    ):
        e = tid()
        if e < total[0]:
            i, k = solids[pairs[e, 0]], solids[pairs[e, 1]]
            a, b = shape_body[i], shape_body[k]
            half, other_half = extent(shape_type[i], scale[i]), extent(shape_type[k], scale[k])
            begun = seen_from(at(i, a, transform, com, bodies), at(k, b, transform, com, bodies))
            ended = seen_from(
                later(i, a, transform, com, bodies, dx, turn), later(k, b, transform, com, bodies, dx, turn)
            )
            come = length(ended.p - begun.p)
            least = min(min(half[0], half[1]), half[2]) + min(min(other_half[0], other_half[1]), other_half[2])
            if come > static(AWAY) * least and length(begun.p) < come + length(half) + length(other_half):
                missed = passed(begun, ended, half, other_half)
                if not near:
                    missed = missed or overlooked(shape_type[i], shape_type[k], come, ended, half, other_half)
                if missed:
                    atomic_max(furthest, 0, come)
                    atomic_max(last, 0, i + 1)

    return find_passing
