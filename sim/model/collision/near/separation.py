"""How far apart shapes that may touch are predicted, and with it how far contacts may push them in a step.

What nothing comes into is pushed by next to nothing.  So contacts are looked for within a margin that is larger the
deeper shapes are predicted in each other: in a pile at rest it is a tenth of what a collision may take.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass

from sim.constraints.slots.bodies import body_struct
from sim.core.lang.frontend.builtins import abs, atomic_max, max, min, static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import imaginary, quat_rotate, quat_rotate_inv
from sim.core.lang.library.vector import dot, length
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, quaternion, transformation, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.model.collision.near.extents import extent, placed, reach_along

PUSHED = 10.0
"""So many times as far as shapes are predicted in each other contacts may push them, beside the least margin: a wedge
goes further than what it is pressed by, and so does what is light and hit by something heavy."""


@dataclass(frozen=True)
class SeparationKernels:
    """For one precision; both raise `margins` (worlds,) [m], of `least` at first, to `most` at most."""

    of_pairs: Kernel
    of_planes: Kernel


@memoize
def separation_kernels(real: Scalar) -> SeparationKernels:
    """The kernels for float32 or float64."""
    vec3, frame, Quat = vector(3, real), transformation(real), quaternion(real)
    Bodies = body_struct(real)

    @func
    def predicted(i, b, kind, size, transform, com, bodies, dx, turn):
        """The pose of a shape as a step is predicted to end, and how far a point of it comes at most."""
        own, way = transform[i], real(0.0)
        if b >= 0:
            begun = placed(own, bodies.x[b], bodies.q[b], com[b])
            own = placed(own, bodies.x[b] + dx[b], turn[b] * bodies.q[b], com[b])
            way = length(own.p - begun.p) + 2.0 * length(imaginary(turn[b])) * length(extent(kind, size))
        return own, way

    @func
    def gap_along(d, between, kind, size, q, other_kind, other_size, other_q):
        """How far a direction keeps two shapes apart; less than 0 where it does not."""
        reach = reach_along(kind, size, quat_rotate_inv(q, d))
        return abs(dot(d, between)) - reach - reach_along(other_kind, other_size, quat_rotate_inv(other_q, d))

    @func
    def most_apart(a, b, kind, size, other_kind, other_size):
        """The best of the axes of both and the direction between their middles: never more than the distance."""
        between = b.p - a.p
        apart = length(between)
        best = real(-1e30)
        if apart > 0.0:
            best = gap_along(between / apart, between, kind, size, a.q, other_kind, other_size, b.q)
        for j in static(range(3)):
            unit = vec3()
            unit[j] = 1.0
            for d in (quat_rotate(a.q, unit), quat_rotate(b.q, unit)):
                best = max(best, gap_along(d, between, kind, size, a.q, other_kind, other_size, b.q))
        return best

    @kernel
    def of_pairs(
        total: array[int],
        pairs: array2d[int],
        each: int,
        solids: array[int],
        shape_body: array[int],
        shape_type: array[int],
        transform: array[frame],
        scale: array[vec3],
        com: array[vec3],
        bodies: Bodies,
        dx: array[vec3],
        turn: array[Quat],
        least: real,
        most: real,
        gaps: array[real],
        margins: array[real],
    ):
        """gaps: how far pairs `tid()` are apart at least, wherever they are on their ways."""
        e = tid()
        if e < min(total[0], pairs.shape[0]):
            i, k = solids[pairs[e, 0]], solids[pairs[e, 1]]
            kind, size, other_kind, other_size = shape_type[i], scale[i], shape_type[k], scale[k]
            a, way = predicted(i, shape_body[i], kind, size, transform, com, bodies, dx, turn)
            b, other_way = predicted(k, shape_body[k], other_kind, other_size, transform, com, bodies, dx, turn)
            gap = most_apart(a, b, kind, size, other_kind, other_size)
            gaps[e] = gap - 1.5 * (way + other_way)  # back to where they began, and half as far beyond
            if gap < 0.0:
                atomic_max(margins, pairs[e, 0] // each, min(least - static(PUSHED) * gap, most))

    @kernel
    def of_planes(
        planes: array2d[int],
        each: int,
        solids: array[int],
        shape_body: array[int],
        shape_type: array[int],
        transform: array[frame],
        scale: array[vec3],
        com: array[vec3],
        bodies: Bodies,
        dx: array[vec3],
        turn: array[Quat],
        least: real,
        most: real,
        margins: array[real],
    ):
        """The same of solids `tid()` and the planes of their world."""
        t = tid()
        i, world = solids[t], t // each
        if shape_body[i] >= 0:
            own, _ = predicted(i, shape_body[i], shape_type[i], scale[i], transform, com, bodies, dx, turn)
            for j in range(planes.shape[1]):
                plane = transform[planes[world, j]]
                n = quat_rotate(plane.q, vec3(0.0, 0.0, 1.0))
                gap = dot(n, own.p - plane.p) - reach_along(shape_type[i], scale[i], quat_rotate_inv(own.q, n))
                if gap < 0.0:
                    atomic_max(margins, world, min(least - static(PUSHED) * gap, most))

    return SeparationKernels(of_pairs, of_planes)
