"""The kernels that fill the rows of near pairs that were found.

What rows know of shapes, sizes and places, is gathered from the arrays of the model in each step, so that gradients
reach these.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass

from sim.core.lang.frontend.builtins import max, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.transform import transform_point
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, quaternion, transformation, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@dataclass(frozen=True)
class FillingKernels:
    """For one precision."""

    shapes: Kernel
    offsets: Kernel
    frames: Kernel
    halves: Kernel
    sizes: Kernel
    coefficients: Kernel


@memoize
def filling_kernels(real: Scalar) -> FillingKernels:
    """The kernels for float32 or float64."""
    vec3, frame, Quat = vector(3, real), transformation(real), quaternion(real)

    @func
    def live(lanes, e: int):
        return e < lanes[0]

    @kernel
    def fill_shapes(
        lane: int,
        both: int,
        lanes: array[int],
        first: array[int],
        second: array[int],
        shape_body: array[int],
        shapes: array2d[int],
        points: array2d[int],
    ):
        e = tid()
        if live(lanes, e):
            for r in range(lane):
                a, b = first[e], second[e]
                if both > 0 and r >= lane // 2:
                    a, b = second[e], first[e]
                k = e * lane + r
                shapes[k, 0], shapes[k, 1] = a, b
                points[k, 0], points[k, 1] = max(shape_body[a], 0), max(shape_body[b], 0)

    @kernel
    def fill_offsets(
        lane: int,
        lanes: array[int],
        shapes: array2d[int],
        side: int,
        unit: array[vec3],
        along_z: int,
        shape_body: array[int],
        transform: array[frame],
        scale: array[vec3],
        com: array[vec3],
        out: array[vec3],
    ):
        e = tid()
        if live(lanes, e):
            for r in range(lane):
                k = e * lane + r
                i = shapes[k, side]
                u, size = unit[r], scale[i]
                across = size[1]
                if along_z == 1:  # round about z
                    across = size[0]
                place = transform_point(transform[i], vec3(u[0] * size[0], u[1] * across, u[2] * size[along_z]))
                b = shape_body[i]
                if b >= 0:
                    place -= com[b]
                out[k] = place

    @kernel
    def fill_frames(
        lane: int, lanes: array[int], shapes: array2d[int], side: int, transform: array[frame], out: array[Quat]
    ):
        e = tid()
        if live(lanes, e):
            for r in range(lane):
                out[e * lane + r] = transform[shapes[e * lane + r, side]].q

    @kernel
    def fill_halves(
        lane: int,
        lanes: array[int],
        shapes: array2d[int],
        side: int,
        spine: int,
        scale: array[vec3],
        out: array[vec3],
    ):
        e = tid()
        if live(lanes, e):
            for r in range(lane):
                s = scale[shapes[e * lane + r, side]]
                if spine > 0:
                    s = vec3(0.0, 0.0, s[1])
                out[e * lane + r] = s

    @kernel
    def fill_sizes(
        lane: int,
        lanes: array[int],
        shapes: array2d[int],
        side: int,
        column: int,
        scale: array[vec3],
        out: array[real],
    ):
        e = tid()
        if live(lanes, e):
            for r in range(lane):
                s = scale[shapes[e * lane + r, side]]
                value = s[0]
                if column == 1:
                    value = s[1]
                out[e * lane + r] = value

    @kernel
    def fill_coefficients(
        lane: int,
        lanes: array[int],
        shapes: array2d[int],
        side: int,
        has: array[int],
        values: array[real],
        out: array[real],
    ):
        """Who has none takes those of the other; 0 where neither has any."""
        e = tid()
        if live(lanes, e):
            for r in range(lane):
                k = e * lane + r
                i, other, value = shapes[k, side], shapes[k, 1 - side], real(0.0)
                if has[i] > 0:
                    value = values[i]
                elif has[other] > 0:
                    value = values[other]
                out[k] = value

    for made in (fill_shapes, fill_offsets, fill_frames, fill_halves, fill_sizes, fill_coefficients):
        made.race_free = True  # the rows of a lane are its own
    return FillingKernels(fill_shapes, fill_offsets, fill_frames, fill_halves, fill_sizes, fill_coefficients)
