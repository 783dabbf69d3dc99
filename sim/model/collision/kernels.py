"""The kernels of detection; all of them give integers, or bounds without a gradient."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass

from sim.constraints.contact.pairs import edge_edge, point_triangle
from sim.constraints.particles import particle_layout
from sim.core.lang.frontend.builtins import atomic_add, atomic_max, static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import dot, length
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.spatial.hash_grid_queries import cell_of, wrapped

PIECES = 16
"""Parts in which the points of a world are added up."""
BEYOND = 2**31 - 1
"""So many pairs, or more."""
FAR = 1e30
"""The rest distance of parts of different objects."""


@dataclass(frozen=True)
class DetectionKernels:
    """For one precision."""

    place: Kernel
    middle: Kernel
    take: Kernel
    sum_values: Kernel
    sum_moved: Kernel
    mean: Kernel
    reach: Kernel
    near_triangles: tuple[Kernel, Kernel]
    near_edges: tuple[Kernel, Kernel]
    take_total: Kernel
    describe: tuple[Kernel, Kernel]
    count_slots: Kernel
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


@memoize
def detection_kernels(real: Scalar) -> DetectionKernels:
    """In grids worlds lie `apart` [m] from each other, so that they do not fill the same cells."""
    vec3, layout = vector(3, real), particle_layout(real)
    particle_type, position = layout.type(real), layout.position

    # -------------------------------------------------------------------------------------- where everything is
    @kernel
    def place(
        points: array[int], world: array[int], apart: vec3, x: array[vec3], at: array[vec3], detected: array[vec3]
    ):
        k = tid()
        p = points[k]
        at[k] = x[p] + apart * real(world[p])
        detected[p] = x[p]

    @kernel
    def middle(
        edges: array2d[int], world: array[int], apart: vec3, x: array[vec3], at: array[vec3], longest: array[real]
    ):
        k = tid()
        a, b = x[edges[k, 0]], x[edges[k, 1]]
        at[k] = 0.5 * (a + b) + apart * real(world[edges[k, 0]])
        atomic_max(longest, 0, 0.5 * length(b - a))

    @kernel
    def take(order: array[int], at: array[vec3], sorted_at: array[vec3]):
        e = tid()
        sorted_at[e] = at[order[e]]

    @kernel
    def sum_values(points: array2d[int], values: array[vec3], sums: array2d[vec3]):
        world, piece = tid()
        total, size = vec3(), points.shape[1]
        for k in range(piece * size // PIECES, (piece + 1) * size // PIECES):
            total += values[points[world, k]]
        sums[world, piece] = total

    @kernel
    def sum_moved(points: array2d[int], particle: array[particle_type], detected: array[vec3], sums: array2d[vec3]):
        world, piece = tid()
        total, size = vec3(), points.shape[1]
        for k in range(piece * size // PIECES, (piece + 1) * size // PIECES):
            i = points[world, k]
            total += position(particle[i]) - detected[i]
        sums[world, piece] = total

    @kernel
    def mean(points: array2d[int], sums: array2d[vec3], out: array[vec3]):
        world = tid()
        total = vec3()
        for piece in range(PIECES):
            total += sums[world, piece]
        out[world] = total / real(points.shape[1])

    @kernel
    def reach(
        points: array[int],
        world: array[int],
        v: array[vec3],
        mean_v: array[vec3],
        half: array[real],
        margin: real,
        interval: real,
        allowed: array[real],
        furthest: array[real],
    ):
        i = points[tid()]
        allowed[i] = 0.5 * margin + interval * length(v[i] - mean_v[world[i]])
        atomic_max(furthest, 0, allowed[i] + half[i])

    # -------------------------------------------------------------------------------------- candidates
    @func
    def cells_between(low, high, inverse, dim: int):
        """First cell along an axis, as one of the grid, and how many."""
        first, last = cell_of(low * inverse), cell_of(high * inverse)
        return wrapped(first, dim), min(last - first + 1, dim)

    @func
    def run_of(row: int, x: int, across: int, part: int, dim: int, starts):
        """Where a row of cells begins and ends among the sorted parts; what is wrapped around the end comes second."""
        first, last = row * dim + x, row * dim + min(x + across, dim)
        if part == 1:
            first, last = row * dim, row * dim + x + across - dim
        begin = starts[first]
        return begin, max(starts[max(last, first)], begin)

    @func
    def outside(low, high, at, by):
        """Is a place further than `by` from a box, along an axis?"""
        return (
            at[0] < low[0] - by
            or at[1] < low[1] - by
            or at[2] < low[2] - by
            or at[0] > high[0] + by
            or at[1] > high[1] + by
            or at[2] > high[2] + by
        )

    @func
    def lower(a, b):
        return type(a)(min(a[0], b[0]), min(a[1], b[1]), min(a[2], b[2]))

    @func
    def upper(a, b):
        return type(a)(max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2]))

    @func
    def distance(touch, x):
        n, b, _ = touch(x, 0.0 * x[0][0])
        return dot(n, b[0] * x[0] + b[1] * x[1] + b[2] * x[2] + b[3] * x[3])

    def near_triangles(fill: bool) -> Kernel:
        @kernel(name=f"near_triangles_{fill}")
        def near(
            starts: array[int],
            order: array[int],
            sorted_at: array[vec3],
            inverse: real,
            dim: int,
            apart: vec3,
            triangles: array2d[int],
            points: array[int],
            world: array[int],
            x: array[vec3],
            half: array[real],
            allowed: array[real],
            furthest: array[real],
            offset: array[int],
            capacity: int,
            found: array[int],
        ):
            k = tid()
            if not fill or (offset[k] >= 0 and offset[k + 1] > offset[k]):
                a, b, c = triangles[k, 0], triangles[k, 1], triangles[k, 2]
                x_a, x_b, x_c = x[a], x[b], x[c]
                low, high = lower(lower(x_a, x_b), x_c), upper(upper(x_a, x_b), x_c)
                own = max(max(allowed[a], allowed[b]), allowed[c])
                mean_half = (half[a] + half[b] + half[c]) / 3.0
                by = own + mean_half + furthest[0]
                shift = apart * real(world[a])
                x_0, across = cells_between(low[0] - by + shift[0], high[0] + by + shift[0], inverse, dim)
                y_0, rows = cells_between(low[1] - by + shift[1], high[1] + by + shift[1], inverse, dim)
                z_0, layers = cells_between(low[2] - by + shift[2], high[2] + by + shift[2], inverse, dim)
                at = offset[k] if fill else 0
                parts = 2 if x_0 + across > dim else 1
                for r in range(parts * rows * layers):
                    y, z = y_0 + (r // parts) % rows, z_0 + (r // parts) // rows
                    row = (z if z < dim else z - dim) * dim + (y if y < dim else y - dim)
                    begin, end = run_of(row, x_0, across, r % parts, dim, starts)
                    for e in range(begin, end):
                        if not outside(low + shift, high + shift, sorted_at[e], by):
                            p = points[order[e]]
                            if p != a and p != b and p != c and world[p] == world[a]:
                                within = own + allowed[p] + half[p] + mean_half
                                if distance(point_triangle, (x[p], x_a, x_b, x_c)) < within:
                                    if fill:
                                        if at < capacity:
                                            found[at] = p
                                    at += 1
                if fill:
                    ascending(found, offset[k], min(at, capacity))
                else:
                    offset[k] = at

        return near

    def near_edges(fill: bool) -> Kernel:
        @kernel(name=f"near_edges_{fill}")
        def near(
            starts: array[int],
            order: array[int],
            sorted_at: array[vec3],
            inverse: real,
            dim: int,
            apart: vec3,
            edges: array2d[int],
            world: array[int],
            x: array[vec3],
            half: array[real],
            allowed: array[real],
            furthest: array[real],
            longest: array[real],
            offset: array[int],
            capacity: int,
            found: array[int],
        ):
            k = tid()
            if not fill or (offset[k] >= 0 and offset[k + 1] > offset[k]):
                a, b = edges[k, 0], edges[k, 1]
                x_a, x_b = x[a], x[b]
                low, high = lower(x_a, x_b), upper(x_a, x_b)
                own = max(allowed[a], allowed[b])
                mean_half = 0.5 * (half[a] + half[b])
                by = own + mean_half + furthest[0]
                shift, reached = apart * real(world[a]), by + longest[0]
                x_0, across = cells_between(low[0] - reached + shift[0], high[0] + reached + shift[0], inverse, dim)
                y_0, rows = cells_between(low[1] - reached + shift[1], high[1] + reached + shift[1], inverse, dim)
                z_0, layers = cells_between(low[2] - reached + shift[2], high[2] + reached + shift[2], inverse, dim)
                at = offset[k] if fill else 0
                parts = 2 if x_0 + across > dim else 1
                for r in range(parts * rows * layers):
                    y, z = y_0 + (r // parts) % rows, z_0 + (r // parts) // rows
                    row = (z if z < dim else z - dim) * dim + (y if y < dim else y - dim)
                    begin, end = run_of(row, x_0, across, r % parts, dim, starts)
                    for e in range(begin, end):
                        if not outside(low + shift, high + shift, sorted_at[e], reached):
                            j = order[e]
                            c, d = edges[j, 0], edges[j, 1]
                            if j > k and a != c and a != d and b != c and b != d and world[c] == world[a]:
                                x_c, x_d = x[c], x[d]
                                spread = 0.5 * upper(x_d - x_c, x_c - x_d)
                                if not outside(low - spread, high + spread, 0.5 * (x_c + x_d), by):
                                    within = own + max(allowed[c], allowed[d]) + mean_half + 0.5 * (half[c] + half[d])
                                    if distance(edge_edge, (x_a, x_b, x_c, x_d)) < within:
                                        if fill:
                                            if at < capacity:
                                                found[at] = j
                                        at += 1
                if fill:
                    ascending(found, offset[k], min(at, capacity))
                else:
                    offset[k] = at

        return near

    @kernel
    def take_total(offset: array[int], kind: int, capacity: int, count: array[int], needed: array[int]):
        k = tid()
        if offset[k + 1] < offset[k]:  # sums that do not rise are beyond 32 bits
            atomic_max(needed, kind, BEYOND)
        if k == 0:
            total = offset[offset.shape[0] - 1]
            count[kind] = max(min(total, capacity), 0)
            atomic_max(needed, kind, total)

    # -------------------------------------------------------------------------------------- pairs
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
        ):
            k = tid()
            for e in range(max(offset[k], 0), min(offset[k + 1], capacity)):
                row, other = begin + e, found[e]
                if edges:
                    rows[row, 0], rows[row, 1] = parts[k, 0], parts[k, 1]
                    rows[row, 2], rows[row, 3] = parts[other, 0], parts[other, 1]
                else:
                    rows[row, 0], rows[row, 1] = other, parts[k, 0]
                    rows[row, 2], rows[row, 3] = parts[k, 1], parts[k, 2]
                p = [rows[row, j] for j in static(range(4))]
                limit[row] = FAR
                if owner[p[0]] == owner[p[2]]:
                    x = (rest[p[0]], rest[p[1]], rest[p[2]], rest[p[3]])
                    limit[row] = 0.5 * distance(touch, x)

        write.race_free = True  # the pairs of a triangle or edge are its own
        return write

    @kernel
    def count_slots(begin: int, kind: int, count: array[int], rows: array2d[int], offset: array[int]):
        k = tid()
        if k < count[kind]:
            for j in static(range(4)):
                atomic_add(offset, rows[begin + k, j], 1)

    @kernel
    def fill_slots(begin: int, kind: int, count: array[int], rows: array2d[int], at: array[int], slots: array[int]):
        k = tid()
        if k < count[kind]:
            for j in static(range(4)):
                place_at = atomic_add(at, rows[begin + k, j], 1)
                slots[place_at] = 4 * (begin + k) + j

    @kernel
    def sort_slots(offset: array[int], slots: array[int]):
        i = tid()
        ascending(slots, offset[i], offset[i + 1])

    # -------------------------------------------------------------------------------------- how long lists hold
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
        gone = length(position(particle[i]) - detected[i] - drift[world[i]])
        if not gone <= allowed[i]:
            atomic_max(moved, 0, gone - allowed[i])

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

    return DetectionKernels(
        place,
        middle,
        take,
        sum_values,
        sum_moved,
        mean,
        reach,
        (near_triangles(False), near_triangles(True)),
        (near_edges(False), near_edges(True)),
        take_total,
        (describe(False), describe(True)),
        count_slots,
        fill_slots,
        sort_slots,
        check,
        (depth(False), depth(True)),
    )
