"""The kernels of the search for near shapes, which give integers."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass

from sim.constraints.slots.bodies import body_struct
from sim.core.lang.frontend.builtins import abs, atomic_max, max, min, static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import quat_rotate, quat_to_matrix
from sim.core.lang.library.vector import length
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, quaternion, transformation, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.model.collision.near.extents import extent

NO_KEY = 2**31 - 1
"""Behind the last key."""


@dataclass(frozen=True)
class SearchKernels:
    """For one precision."""

    bound: Kernel
    count: Kernel
    list_pairs: Kernel
    take_total: Kernel
    assign: Kernel
    check: Kernel


@memoize
def search_kernels(real: Scalar) -> SearchKernels:
    """The kernels for float32 or float64."""
    vec3, frame, Quat = vector(3, real), transformation(real), quaternion(real)
    Bodies = body_struct(real)

    # -------------------------------------------------------------------------------------- where shapes are
    @func
    def box_of(place, q, transform, com, half):
        """Middle and half lengths along the axes of the world of a shape of a body with its centre of mass there."""
        r = quat_to_matrix(q * transform.q)
        middle = place + quat_rotate(q, transform.p - com)
        out = 0.0 * middle
        for i in static(range(3)):
            out[i] = abs(r[i, 0]) * half[0] + abs(r[i, 1]) * half[1] + abs(r[i, 2]) * half[2]
        return middle, out

    @kernel
    def bound(
        solids: array[int],
        shape_body: array[int],
        shape_type: array[int],
        transform: array[frame],
        scale: array[vec3],
        com: array[vec3],
        bodies: Bodies,
        dx: array[vec3],
        turn: array[Quat],
        margin: real,
        low: array[vec3],
        high: array[vec3],
    ):
        """The box that solid `tid()` is in during a step: around both ends, and half of its way, and the margin."""
        t = tid()
        i = solids[t]
        b, half = shape_body[i], extent(shape_type[i], scale[i])
        first, last = vec3(), vec3()
        if b >= 0:
            x, q = bodies.x[b], bodies.q[b]
            middle_0, half_0 = box_of(x, q, transform[i], com[b], half)
            middle_1, half_1 = box_of(x + dx[b], turn[b] * q, transform[i], com[b], half)
            around = 0.5 * length(middle_1 - middle_0) + margin
            for k in static(range(3)):
                first[k] = min(middle_0[k] - half_0[k], middle_1[k] - half_1[k]) - around
                last[k] = max(middle_0[k] + half_0[k], middle_1[k] + half_1[k]) + around
        else:
            middle, reach = box_of(vec3(), Quat(0.0, 0.0, 0.0, 1.0), transform[i], vec3(), half)
            first, last = middle - reach, middle + reach
        low[t], high[t] = first, last

    @kernel
    def check(
        solids: array[int],
        shape_body: array[int],
        shape_type: array[int],
        transform: array[frame],
        scale: array[vec3],
        com: array[vec3],
        bodies: Bodies,
        dx: array[vec3],
        turn: array[Quat],
        low: array[vec3],
        high: array[vec3],
        each: int,
        margin: real,
        margins: array[real],
        beyond: array[real],
    ):
        """How far a shape is out of its box as a step ends, were that as wide as the margin of its world."""
        t = tid()
        narrower = margin - margins[t // each]
        i = solids[t]
        b = shape_body[i]
        if b >= 0:
            half = extent(shape_type[i], scale[i])
            middle, reach = box_of(bodies.x[b] + dx[b], turn[b] * bodies.q[b], transform[i], com[b], half)
            for k in static(range(3)):
                out = max(low[t][k] - (middle[k] - reach[k]), middle[k] + reach[k] - high[t][k])
                out += narrower
                if not out <= 0.0:
                    atomic_max(beyond, 0, out)

    # -------------------------------------------------------------------------------------- pairs
    @func
    def overlap(low, high, t: int, u: int):
        a, b, c, d = low[t], high[t], low[u], high[u]
        return a[0] <= d[0] and c[0] <= b[0] and a[1] <= d[1] and c[1] <= b[1] and a[2] <= d[2] and c[2] <= b[2]

    @kernel
    def count(each: int, may: array2d[int], low: array[vec3], high: array[vec3], offset: array[int]):
        t = tid()
        begin = (t // each) * each
        n = 0
        for u in range(t + 1, begin + each):
            if overlap(low, high, t, u):
                n += may[t - begin, u - begin]
        offset[t] = n

    @kernel
    def list_pairs(
        each: int, may: array2d[int], low: array[vec3], high: array[vec3], offset: array[int], pairs: array2d[int]
    ):
        t = tid()
        begin = (t // each) * each
        at = offset[t]
        for u in range(t + 1, begin + each):
            if overlap(low, high, t, u):
                if may[t - begin, u - begin] > 0:
                    if at < pairs.shape[0]:
                        pairs[at, 0], pairs[at, 1] = t, u
                    at += 1

    list_pairs.race_free = True  # the pairs of a solid are its own

    @kernel
    def take_total(offset: array[int], total: array[int], needed: array[int]):
        n = offset[offset.shape[0] - 1]
        total[0] = n
        needed[0] = max(needed[0], n)

    @kernel
    def assign(
        each: int,
        total: array[int],
        pairs: array2d[int],
        solids: array[int],
        classes: array[int],
        roles: array2d[int],
        shape_body: array[int],
        inv_mass: array[real],
        gaps: array[real],
        margins: array[real],
        lanes: array[int],
        first: array[int],
        second: array[int],
        keys: array[int],
    ):
        """The lanes of a set: those of the pairs that are for it, of which something is free, and which margins leave,
        in their order."""
        n = 0
        for e in range(min(total[0], pairs.shape[0])):
            t, u = pairs[e, 0], pairs[e, 1]
            role = roles[classes[t % each], classes[u % each]]
            if role > 0 and gaps[e] < 2.0 * margins[t // each]:
                one, other = solids[t], solids[u]
                a, b = shape_body[one], shape_body[other]
                free = False
                if a >= 0:
                    free = inv_mass[a] > 0.0
                if b >= 0:
                    free = free or inv_mass[b] > 0.0
                if free:
                    if role == 2:
                        one, other = other, one
                    first[n], second[n], keys[n] = one, other, t * each + u % each
                    n += 1
        lanes[0] = n
        for k in range(n, keys.shape[0]):
            keys[k] = NO_KEY

    assign.race_free = True  # one thread
    return SearchKernels(bound, count, list_pairs, take_total, assign, check)
