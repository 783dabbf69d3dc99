"""The kernels of pairs of surfaces that were found: described, listed by particle, measured; and how long they hold."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass

from sim.constraints.contact.primitives.pairs import edge_edge, point_triangle
from sim.constraints.particles import particle_layout
from sim.core.lang.frontend.builtins import atomic_add, static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import dot, length
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel

FAR = 1e30
"""The rest distance of parts of different objects."""


@dataclass(frozen=True)
class PairKernels:
    """For one precision; describe and depth: of points and triangles, and of edges."""

    describe: tuple[Kernel, Kernel]
    fill_slots: Kernel
    sort_slots: Kernel
    check: Kernel
    depth: tuple[Kernel, Kernel]


@func
def ascending(values, begin: int, end: int):
    """Sorts a short piece of an array."""
    for k in range(begin + 1, end):
        value = values[k]
        at = k
        while at > begin and values[max(at - 1, begin)] > value:
            values[at] = values[at - 1]
            at -= 1
        values[at] = value


@func
def distance(touch, x):
    n, b, _ = touch(x, 0.0 * x[0][0])
    return dot(n, b[0] * x[0] + b[1] * x[1] + b[2] * x[2] + b[3] * x[3])


@memoize
def pair_kernels(real: Scalar) -> PairKernels:
    """The kernels for float32 or float64."""
    vec3, layout = vector(3, real), particle_layout(real)
    particle_type, position = layout.type(real), layout.position

    def describe(edges: bool) -> Kernel:
        touch = edge_edge if edges else point_triangle

        @kernel(name=f"describe_pairs_{edges}")
        def write(
            begin: int,
            parts: array2d[int],
            offset: array[int],
            found: array[int],
            capacity: int,
            owner: array[int],
            rest: array[vec3],
            rows: array2d[int],
            limit: array[real],
            slots_of: array[int],
        ):
            """slots_of: how often particles are in pairs."""
            k = tid()
            first, last = max(offset[k], 0), min(offset[k + 1], capacity)
            ascending(found, first, last)
            for e in range(first, last):
                row, other = begin + e, found[e]
                if edges:
                    rows[row, 0], rows[row, 1] = parts[k, 0], parts[k, 1]
                    rows[row, 2], rows[row, 3] = parts[other, 0], parts[other, 1]
                else:
                    rows[row, 0], rows[row, 1] = other, parts[k, 0]
                    rows[row, 2], rows[row, 3] = parts[k, 1], parts[k, 2]
                p = [rows[row, j] for j in static(range(4))]
                for j in static(range(4)):
                    atomic_add(slots_of, p[j], 1)
                limit[row] = FAR
                if owner[p[0]] == owner[p[2]]:
                    x = (rest[p[0]], rest[p[1]], rest[p[2]], rest[p[3]])
                    limit[row] = 0.5 * distance(touch, x)

        write.race_free = True  # the pairs of a triangle or edge are its own
        return write

    @kernel
    def fill_slots(
        begin: int, offset: array[int], capacity: int, rows: array2d[int], at: array[int], slots: array[int]
    ):
        k = tid()
        for e in range(max(offset[k], 0), min(offset[k + 1], capacity)):
            for j in static(range(4)):
                place_at = atomic_add(at, rows[begin + e, j], 1)
                slots[place_at] = 4 * (begin + e) + j

    @kernel
    def sort_slots(offset: array[int], slots: array[int]):
        i = tid()
        ascending(slots, offset[i], offset[i + 1])

    @kernel
    def check(
        points: array[int],
        world: array[int],
        particle: array[particle_type],
        detected: array[vec3],
        drift: array[vec3],
        allowed: array[real],
        moved: array[real],
    ):
        i = points[tid()]
        gone = position(particle[i]) - detected[i] - drift[world[i]]
        if not dot(gone, gone) <= allowed[i] * allowed[i]:
            moved[i] = max(moved[i], length(gone) - allowed[i])

    check.race_free = True  # a point is named once

    def depth(edges: bool) -> Kernel:
        touch = edge_edge if edges else point_triangle

        @kernel(name=f"depth_of_pairs_{edges}")
        def measure(
            begin: int,
            kind: int,
            count: array[int],
            rows: array2d[int],
            limit: array[real],
            half: array[real],
            x: array[vec3],
            deep: array[real],
            apart: array[real],
        ):
            k = tid()
            if k < count[kind]:
                row = begin + k
                p = [rows[row, j] for j in static(range(4))]
                thickness = half[p[0]] + (half[p[1]] + half[p[2]] + half[p[3]]) / 3.0
                if edges:
                    thickness = 0.5 * (half[p[0]] + half[p[1]] + half[p[2]] + half[p[3]])
                apart[row] = distance(touch, (x[p[0]], x[p[1]], x[p[2]], x[p[3]]))
                deep[row] = min(thickness, limit[row]) - apart[row]

        return measure

    return PairKernels((describe(False), describe(True)), fill_slots, sort_slots, check, (depth(False), depth(True)))
