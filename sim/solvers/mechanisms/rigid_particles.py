"""Particles that rigid constraints make one body: they push along directions of the start of a step, as joints do.

An impact within a step gives (1 - s) of its impulse to positions and s to velocities.  With directions at the start for
the one and at the end for the other that is the impulse along the direction at the impact; with those at the end for
both it depends on s, and velocities have derivatives that are a fifth off, at any step.  What can bend, chains and
cloths, keeps directions at the end by default: along those at the start it swings across a pull explicitly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.model.model import Model
from sim.solvers.batch import ConstraintBatch

BODY = 6
"""Freedoms of a body: what is left of three of each particle by the rows that hold them."""
LARGEST = 8
"""Particles of what counts as one body: of more, rows that say the same twice hide what can bend."""


def make_bodies(model: Model, batch: ConstraintBatch, rigid: Sequence[ConstraintBatch]) -> bool:
    """Whether constraints of `batch` hold particles of bodies alone.  rigid: all that are without compliance, and on
    what contacts with friction or restitution may touch."""
    if batch not in rigid or not _of_particles(batch):
        return False
    free = model.particle_inv_mass.numpy() > 0.0
    held = [(b.set.points.numpy(), sum(b.set.constraint.elastic)) for b in rigid if _of_particles(b)]
    body = _bodies(free, [points for points, _ in held])
    if body is None:
        return False
    count = np.bincount(body[free], minlength=len(free))
    freedoms = 3 * count
    for points, rows in held:
        np.subtract.at(freedoms, _body_of_rows(body, free, points), rows)
    mine = _body_of_rows(body, free, batch.set.points.numpy())
    return bool((freedoms[mine] <= BODY).all() and (count[mine] <= LARGEST).all())


def _bodies(free: np.ndarray, rows: Sequence[np.ndarray]) -> np.ndarray | None:
    """Of each particle the lowest number of what is held with it; None where that is more than one body may have."""
    body = np.arange(len(free))
    for _ in range(LARGEST + 1):
        before = body.copy()
        for points in rows:
            moving = free[points]
            lowest = np.where(moving, body[points], len(free)).min(axis=1, keepdims=True)
            np.minimum.at(body, points[moving], np.broadcast_to(lowest, points.shape)[moving])
        if (body == before).all():
            return body
    return None


def _body_of_rows(body: np.ndarray, free: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The bodies that rows hold; not of those between particles that are held."""
    moving = free[points]
    return body[points[np.arange(len(points)), moving.argmax(axis=1)][moving.any(axis=1)]]


def _of_particles(batch: ConstraintBatch) -> bool:
    return batch.set.slots.only_particles and not batch.set.constraint.unilateral
