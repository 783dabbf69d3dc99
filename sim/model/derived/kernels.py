"""The kernels that derive a model's data from material values, one set per precision.

All of them store each element at most once per launch; a value of shape (1,) is read by all threads, and its gradient
is their sum.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from dataclasses import dataclass
from functools import cache

from sim.constraints.lever import carried_velocity, frame_of
from sim.core.lang.frontend.builtins import static, tid, where
from sim.core.lang.library.quaternion import quat_from_rotation_vector, quat_rotate
from sim.core.lang.library.vector import cross, dot, normalize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@dataclass(frozen=True)
class Kernels:
    """The kernels for one precision."""

    broadcast: Kernel
    broadcast_vec3: Kernel
    broadcast_direction: Kernel
    add_load: Kernel
    invert: Kernel
    place: Kernel
    gather: Kernel
    carry: Kernel
    middle: Kernel
    displace: Kernel


@cache
def kernels(real: Scalar) -> Kernels:
    """The kernels for float32 or float64."""
    vec3 = vector(3, real)

    @kernel
    def broadcast(value: array[real], source: array[int], factor: array[real], target: array[int], out: array[real]):
        """out[target[k]] = value[source[k]] factor[k]."""
        k = tid()
        out[target[k]] = value[source[k]] * factor[k]

    @kernel
    def broadcast_vec3(value: array[vec3], source: array[int], target: array[int], out: array[vec3]):
        """out[target[k]] = value[source[k]]."""
        k = tid()
        out[target[k]] = value[source[k]]

    @kernel
    def broadcast_direction(value: array[vec3], source: array[int], target: array[int], out: array[vec3]):
        """out[target[k]] = value[source[k]] / |value[source[k]]|."""
        k = tid()
        out[target[k]] = normalize(value[source[k]])

    @kernel
    def add_load(before: array[real], value: array[real], source: array[int], part: array[real], after: array[real]):
        """after[i] = before[i] + value[source[i]] part[i]."""
        i = tid()
        after[i] = before[i] + value[source[i]] * part[i]

    @kernel
    def invert(mass: array[real], free: array[real], inv_mass: array[real]):
        """inv_mass[i] = free[i] / mass[i], 0 where the mass is not positive."""
        i = tid()
        inv_mass[i] = where(mass[i] > 0.0, free[i] / mass[i], 0.0)

    @kernel
    def place(
        base: array[vec3],
        position: array[vec3],
        placed: array[int],
        rotation: array[vec3],
        rotated: array[int],
        velocity: array[vec3],
        moved: array[int],
        spin: array[vec3],
        turned: array[int],
        center: vec3,
        free: array[real],
        q: array[vec3],
        qd: array[vec3],
    ):
        """q = R base + position; qd = free (velocity + spin x R (base - center)), R = exp(rotation); placed, rotated,
        moved, turned: which it has."""
        k = tid()
        turn = quat_from_rotation_vector(rotation[rotated[k]])
        q[k] = quat_rotate(turn, base[k]) + position[placed[k]]
        arm = quat_rotate(turn, base[k] - center)
        qd[k] = (velocity[moved[k]] + cross(spin[turned[k]], arm)) * free[k]

    @kernel
    def gather(q: array[vec3], point: array[int], anchor: array[vec3]):
        """anchor[k] = q[point[k]]."""
        k = tid()
        anchor[k] = q[point[k]]

    @kernel
    def carry(
        q: array[vec3],
        qd: array[vec3],
        carriers: array2d[int],
        arm: array[vec3],
        source: array[int],
        shift: array[vec3],
        axis_1: array[vec3],
        axis_2: array[vec3],
        axis_3: array[vec3],
        q_out: array[vec3],
        qd_out: array[vec3],
    ):
        """Where a lever (`sim.constraints.lever`) holds its point, and how fast it moves it."""
        k = tid()
        x = [q[carriers[k, j]] for j in static(range(4))]
        v = [qd[carriers[k, j]] for j in static(range(4))]
        e1, e2, e3 = frame_of(x[0], x[1], x[2], x[3])
        at_rest = arm[source[k]] + shift[k]
        offset = dot(axis_1[k], at_rest) * e1 + dot(axis_2[k], at_rest) * e2 + dot(axis_3[k], at_rest) * e3
        q_out[k] = 0.25 * (x[0] + x[1] + x[2] + x[3]) + offset
        qd_out[k] = carried_velocity(x, v, offset)

    @kernel
    def middle(q: array[vec3], points: array2d[int], out: array[vec3]):
        """out[w] = mean of q over the points of row w."""
        w = tid()
        total = vec3()
        for j in range(points.shape[1]):
            total += q[points[w, j]]
        out[w] = total / real(points.shape[1])

    @kernel
    def displace(
        before: array[vec3],
        world: array[int],
        center: array[vec3],
        offset: array[vec3],
        turn: array[vec3],
        after: array[vec3],
    ):
        """after = before; the points of a world, -1 for none, turned about its center and moved."""
        i = tid()
        w = world[i]
        if w < 0:
            after[i] = before[i]
        else:
            turned = quat_rotate(quat_from_rotation_vector(turn[w]), before[i] - center[w])
            after[i] = center[w] + turned + offset[w]

    plain = (broadcast, broadcast_vec3, broadcast_direction, add_load, invert, place, gather)
    return Kernels(*plain, carry, middle, displace)


@cache
def broadcast_rows(real: Scalar, rows: int, entries: range) -> Kernel:
    """As `broadcast`, into some entries of a vector of `rows`: the compliance of a constraint of several rows."""
    row, whole = vector(rows, real), len(entries) == rows

    @kernel
    def broadcast_to_rows(
        value: array[real], source: array[int], factor: array[real], target: array[int], out: array[row]
    ):
        k = tid()
        if static(whole):
            out[target[k]] = row(value[source[k]] * factor[k])
        else:
            for r in static(entries):
                out[target[k]][r] = value[source[k]] * factor[k]

    return broadcast_to_rows
