"""The kernels of the search for pairs of surfaces that may touch; all of them give integers, or bounds without a
gradient."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass

from sim.constraints.contact.primitives.pairs import place_in_triangle, places_on_edges
from sim.constraints.particles import particle_layout
from sim.core.lang.frontend.builtins import abs, atomic_add, atomic_max, static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import dot, length
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.spatial.hash_grid_queries import cell_of

BEYOND = 2**31 - 1
"""So many pairs, or more."""


@dataclass(frozen=True)
class PlacingKernels:
    """For one precision: where everything is as pairs are looked for."""

    place: Kernel
    middle: Kernel
    take: Kernel
    take_boxes: Kernel
    mean: Kernel
    mean_moved: Kernel
    reach: Kernel


@dataclass(frozen=True)
class CandidateKernels:
    """For one precision.  near: of points and triangles, and of edges, what counts and what lists them."""

    near: tuple[tuple[Kernel, Kernel], tuple[Kernel, Kernel]]
    take_total: Kernel


@func
def lower(a, b):
    return type(a)(min(a[0], b[0]), min(a[1], b[1]), min(a[2], b[2]))


@func
def upper(a, b):
    return type(a)(max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2]))


@memoize
def placing_kernels(real: Scalar) -> PlacingKernels:
    """In grids worlds lie `apart` [m] from each other, so that they do not fill the same cells."""
    vec3, layout = vector(3, real), particle_layout(real)
    particle_type, position = layout.type(real), layout.position

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
        for j in static(range(3)):
            atomic_max(longest, j, 0.5 * abs(b[j] - a[j]))

    @kernel
    def take(order: array[int], at: array[vec3], sorted_at: array[vec3]):
        e = tid()
        sorted_at[e] = at[order[e]]

    @kernel
    def take_boxes(
        order: array[int],
        edges: array2d[int],
        world: array[int],
        apart: vec3,
        x: array[vec3],
        low: array[vec3],
        high: array[vec3],
    ):
        e = tid()
        a, b = edges[order[e], 0], edges[order[e], 1]
        shift = apart * real(world[a])
        low[e], high[e] = lower(x[a], x[b]) + shift, upper(x[a], x[b]) + shift

    @kernel
    def mean(points: array2d[int], values: array[vec3], out: array[vec3]):
        world = tid()
        total = vec3()
        for k in range(points.shape[1]):
            total += values[points[world, k]]
        out[world] = total / real(points.shape[1])

    @kernel
    def mean_moved(points: array2d[int], particle: array[particle_type], detected: array[vec3], out: array[vec3]):
        world = tid()
        total = vec3()
        for k in range(points.shape[1]):
            i = points[world, k]
            total += position(particle[i]) - detected[i]
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

    return PlacingKernels(place, middle, take, take_boxes, mean, mean_moved, reach)


@memoize
def candidate_kernels(real: Scalar) -> CandidateKernels:
    """The kernels for float32 or float64."""
    vec3 = vector(3, real)

    @func
    def cells_between(low, high, inverse, dim: int):
        """First cell along an axis, as one of the grid, and how many."""
        first, last = cell_of(low * inverse), cell_of(high * inverse)
        return first & (dim - 1), min(last - first + 1, dim)  # a power of two

    @func
    def run_of(row: int, x: int, across: int, part: int, dim: int, starts):
        """Where a row of cells begins and ends among the sorted parts; what is wrapped around the end comes second."""
        first, last = row * dim + x, row * dim + min(x + across, dim)
        if part == 1:
            first, last = row * dim, row * dim + x + across - dim
        begin = starts[first]
        return begin, max(starts[max(last, first)], begin)

    @func
    def overlap(low, high, other_low, other_high):
        """Do two boxes have a point in common?"""
        return (
            other_high[0] >= low[0]
            and other_high[1] >= low[1]
            and other_high[2] >= low[2]
            and other_low[0] <= high[0]
            and other_low[1] <= high[1]
            and other_low[2] <= high[2]
        )

    @func
    def point_meets(p, y, within, other: int, parts, world, x, half, allowed):
        """Is a point that is no corner of a triangle, with its corners p at y, nearer to it than `within` and its own
        part of that?"""
        meets = False
        if other != p[0] and other != p[1] and other != p[2] and world[other] == world[p[0]]:
            within += allowed[other] + half[other]
            u, v, w, _ = place_in_triangle(x[other], y[0], y[1], y[2])
            apart = x[other] - (u * y[0] + v * y[1] + w * y[2])
            meets = dot(apart, apart) < within * within
        return meets

    @func
    def edge_meets(p, y, within, other: int, parts, world, x, half, allowed):
        """The same of an edge without a common point."""
        c, d, meets = parts[other, 0], parts[other, 1], False
        if p[0] != c and p[0] != d and p[1] != c and p[1] != d and world[c] == world[p[0]]:
            within += max(allowed[c], allowed[d]) + 0.5 * (half[c] + half[d])
            s, t, _ = places_on_edges(y[0], y[1], x[c], x[d])
            apart = (1.0 - s) * y[0] + s * y[1] - ((1.0 - t) * x[c] + t * x[d])
            meets = dot(apart, apart) < within * within
        return meets

    def near(edges: bool, fill: bool) -> Kernel:
        """Points near triangles `tid()`, or edges near edges: how many, and which.

        Cells hold the middles of `others`, in the order of the grid; of these what box each is in, and half of the
        `longest` sides (3,).  Edges go in that order too, and look at those behind them alone, so that no two meet
        twice; the pair belongs to the one with the lower number, which does not depend on where they are.  seen: how
        many a thread has found; at: where those of a triangle or edge come next.
        """
        corners, meets = (2, edge_meets) if edges else (3, point_meets)

        @kernel(name=f"near_{'edges' if edges else 'triangles'}_{fill}")
        def walk(
            starts: array[int],
            order: array[int],
            others_low: array[vec3],
            others_high: array[vec3],
            inverse: real,
            dim: int,
            apart: vec3,
            parts: array2d[int],
            others: array[int],
            world: array[int],
            x: array[vec3],
            half: array[real],
            allowed: array[real],
            furthest: array[real],
            longest: array[real],
            capacity: int,
            seen: array[int],
            at: array[int],
            found: array[int],
        ):
            rank = tid()
            if not fill or seen[rank] > 0:
                k, behind = rank, 0
                if static(edges):
                    k, behind = order[rank], rank + 1
                p = [parts[k, j] for j in static(range(corners))]
                y = [x[p[j]] for j in static(range(corners))]
                low, high, own, mean_half = y[0], y[0], allowed[p[0]], half[p[0]]
                for j in static(range(1, corners)):
                    low, high, own = lower(low, y[j]), upper(high, y[j]), max(own, allowed[p[j]])
                    mean_half += half[p[j]]
                mean_half = mean_half / real(corners)
                by, shift = own + mean_half + furthest[0], apart * real(world[p[0]])
                around = vec3(by, by, by)
                low, high = low - around + shift, high + around + shift
                x_0, across = cells_between(low[0] - longest[0], high[0] + longest[0], inverse, dim)
                y_0, rows = cells_between(low[1] - longest[1], high[1] + longest[1], inverse, dim)
                z_0, layers = cells_between(low[2] - longest[2], high[2] + longest[2], inverse, dim)
                pieces, n = 2 if x_0 + across > dim else 1, 0
                for z in range(z_0, z_0 + layers):
                    for y_row in range(y_0, y_0 + rows):
                        row = (z if z < dim else z - dim) * dim + (y_row if y_row < dim else y_row - dim)
                        for piece in range(pieces):
                            begin, end = run_of(row, x_0, across, piece, dim, starts)
                            for e in range(max(begin, behind), end):
                                if overlap(low, high, others_low[e], others_high[e]):
                                    other = others[order[e]]
                                    if meets(p, y, own + mean_half, other, parts, world, x, half, allowed):
                                        n += 1
                                        owner, member = k, other
                                        if static(edges):
                                            owner, member = min(k, other), max(k, other)
                                        place_at = atomic_add(at, owner, 1)
                                        if fill:
                                            if place_at < capacity:
                                                found[place_at] = member
                if not fill:
                    seen[rank] = n

        return walk

    @kernel
    def take_total(offset: array[int], kind: int, capacity: int, count: array[int], needed: array[int]):
        k = tid()
        if offset[k + 1] < offset[k]:  # sums that do not rise are beyond 32 bits
            atomic_max(needed, kind, BEYOND)
        if k == 0:
            total = offset[offset.shape[0] - 1]
            count[kind] = max(min(total, capacity), 0)
            atomic_max(needed, kind, total)

    return CandidateKernels(
        ((near(False, False), near(False, True)), (near(True, False), near(True, True))), take_total
    )
