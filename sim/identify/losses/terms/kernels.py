"""Where markers are, in kernels: what the terms of a loss are computed from.

No atomics: sums have one order, so that a resumed run meets the same bits; they are float64, whatever the rollout is.
"""

# Annotations of kernels are types made per precision: they are evaluated here, not postponed.
from functools import cache
from typing import NamedTuple

from sim.core.lang.frontend.function import Function, func
from sim.core.lang.types import Scalar, float64, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.identify.data.experiments import Markers
from sim.model import Model

vec3d = vector(3, float64)


class MarkerTable(NamedTuple):
    """Which points of the rollout carry each marker, and with which weights, on the device."""

    points: array
    weights: array


def marker_table(model: Model, markers: Markers) -> MarkerTable:
    """The table that `place` and `mean_place` read."""
    points, weights = markers.table
    return MarkerTable(
        array(points, dtype=int, device=model.device), array(weights, dtype=float64, device=model.device)
    )


@cache
def place_functions(real: Scalar) -> tuple[Function, Function]:
    """The place of one marker and the mean place of all, in a frame of a rollout in float32 or float64."""
    vec3 = vector(3, real)

    @func
    def place(q: array2d[vec3], frame: int, points: array2d[int], weights: array2d[float64], m: int):
        at = vec3d()
        for j in range(points.shape[1]):
            p = q[frame, points[m, j]]
            at = at + weights[m, j] * vec3d(float64(p[0]), float64(p[1]), float64(p[2]))
        return at

    @func
    def mean_place(q: array2d[vec3], frame: int, points: array2d[int], weights: array2d[float64]):
        at = vec3d()
        for m in range(points.shape[0]):
            at = at + place(q, frame, points, weights, m)
        return at / float64(points.shape[0])

    return place, mean_place
