"""What acts on a model from outside during a step, and where its points may touch shapes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.core.runtime.arrays.array import array
from sim.model.collision.detection import PairLists
from sim.model.state import OwnerModel


@dataclass(eq=False)
class Control:
    """The inputs of a step.

    motion_vector: (motions,) vec3 [m], displacements and turns of attachments and held bodies:
    `Model.motion_vector`, which follows from the material values, unless replaced by another array of its shape.
    joint_target_pos (coordinates,), joint_target_vel (velocities,): targets of the drives of joints, likewise; None:
    those of the model.
    joint_f: (velocities,) [N m] or [N], torques and forces along what a joint leaves free, on both of its bodies; of a
    ball joint along the axes of the parent's frame, of a free one force and torque in the world, at the centre of mass.
    None: none.
    """

    model: OwnerModel
    motion_vector: array
    joint_target_pos: array | None = None
    joint_target_vel: array | None = None
    joint_f: array | None = None


@dataclass(frozen=True, eq=False)
class Contacts:
    """Pairs that may touch; the solver tests each of them at each step.

    points: label of the shape -> (n,) particle numbers of free points; pairs: of surfaces that collide with themselves
    and with each other, None where none do.
    """

    model: OwnerModel
    points: dict[str, np.ndarray]
    pairs: PairLists | None = None

    @property
    def count(self) -> int:
        """Number of pairs."""
        own = 0 if self.pairs is None else int(self.pairs.count.numpy().sum())
        return sum(len(p) for p in self.points.values()) + own

    @property
    def worst(self) -> float:
        """The deepest penetration [m] of surfaces in each other at the end of a step so far."""
        return 0.0 if self.pairs is None else self.pairs.worst
