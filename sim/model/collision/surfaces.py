"""What of a model collides with itself: surfaces, thickness and friction, and how its pairs are to be found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.core.runtime.arrays.array import array


@dataclass(frozen=True, eq=False)
class SelfContact:
    """The surfaces of some objects, which collide with themselves and with each other.

    labels: of the objects; margin [m]: how far points may go between two detections, beside what their velocities say;
    every: steps between detections; capacity: room for pairs, of each kind.
    points: (worlds, m) int32, particles of the surfaces; triangles (t, 3), edges (e, 2) int32 particles; world, owner:
    (n,) int32 of every particle, -1 for those of no surface; rest: (n,) vec3 [m]; half_thickness [m], friction: (n,),
    from `contact.thickness` or the thickness of the objects, and `contact.friction`.
    """

    labels: Sequence[str]
    margin: float
    every: int
    capacity: int
    cell: float
    points: array
    triangles: array
    edges: array
    world: array
    owner: array
    rest: array
    half_thickness: array
    friction: array

    @property
    def worlds(self) -> int:
        """How many copies there are, which do not touch."""
        return int(self.points.shape[0])

    @property
    def arrays(self) -> list[array]:
        """All that detection and projection read."""
        return [
            self.points,
            self.triangles,
            self.edges,
            self.world,
            self.owner,
            self.rest,
            self.half_thickness,
            self.friction,
        ]


def edges_of(triangles: np.ndarray) -> np.ndarray:
    """The edges (e, 2) of triangles (m, 3), each once, lower point first."""
    edges = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    return np.asarray(np.unique(edges, axis=0), np.int32)
