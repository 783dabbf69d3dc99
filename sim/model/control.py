"""What acts on a model from outside during a step, and where its points may touch shapes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.core.runtime.arrays.array import array
from sim.model.state import OwnerModel


@dataclass(eq=False)
class Control:
    """The inputs of a step.

    motion_vector: (motions,) vec3 [m], the displacements of attachments: `Model.motion_vector`, which follows from the
    material values, unless replaced by another array of its shape.
    """

    model: OwnerModel
    motion_vector: array


@dataclass(frozen=True, eq=False)
class Contacts:
    """Pairs of a point and a shape that may touch; the solver tests each of them at each step.

    points: label of the shape -> (n,) particle numbers of free points.
    """

    model: OwnerModel
    points: dict[str, np.ndarray]

    @property
    def count(self) -> int:
        """Number of pairs."""
        return sum(len(p) for p in self.points.values())
