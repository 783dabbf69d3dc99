"""Forces and torques on bodies over time, as they were measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sim.model.build import checks
from sim.model.build.motions import read_force
from sim.model.build.worlds import Numbering
from sim.model.errors import ModelError

Series = tuple[np.ndarray, np.ndarray]
"""Times (k,) [s], increasing, and vectors (k, 3)."""


@dataclass(frozen=True, eq=False)
class BodyForce:
    """What acts on a body, or on that of each world: bodies (worlds,), at (3,) [m] in the frame of the body, None: the
    centre of mass; forces [N] and torques [N m] over time along the axes of the world."""

    label: str
    bodies: np.ndarray
    at: np.ndarray | None
    force: Series | None
    torque: Series | None

    def copied(self, number_bodies: Numbering) -> BodyForce:
        """That of all worlds."""
        return replace(self, bodies=number_bodies(self.bodies))

    @property
    def parts(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Times, forces and torques (k, 3), once for each of the two that is given."""
        out = []
        if self.force is not None:
            out.append((*self.force, np.zeros_like(self.force[1])))
        if self.torque is not None:
            out.append((self.torque[0], np.zeros_like(self.torque[1]), self.torque[1]))
        return out


def read_body_force(
    label: str, body: int, force: tuple[Any, Any] | None, torque: tuple[Any, Any] | None, at: Any
) -> BodyForce:
    """Of what the user wrote.  Raises ModelError."""
    if force is None and torque is None:
        raise ModelError("neither force nor torque", "Give force=(times, forces), torque=(times, torques), or both")
    if force is None and at is not None:
        raise ModelError("at is where a force acts, and there is none", "A torque acts on the body as a whole")
    place = None if at is None else checks.vec3("at", at)
    return BodyForce(label, np.array([body], np.int32), place, read_force(force), read_force(torque))


def body_force_arrays(forces: Sequence[BodyForce], bodies: int) -> tuple[dict[str, int], dict[str, Any]]:
    """Counts and constant content of the arrays `thrust_...`, by body."""
    rows = [(int(body), f.at, *part) for f in forces for part in f.parts for body in f.bodies]
    rows.sort(key=lambda row: row[0])
    none = np.zeros((0, 3))
    values = {
        "thrust_begin": np.searchsorted([row[0] for row in rows], np.arange(bodies + 1)),
        "thrust_placed": np.array([row[1] is not None for row in rows], np.int32),
        "thrust_at": np.array([none.sum(axis=0) if row[1] is None else row[1] for row in rows]).reshape(-1, 3),
        "thrust_offset": np.cumsum([0, *(len(row[2]) for row in rows)]),
        "thrust_time": np.concatenate([none[:, 0], *(row[2] for row in rows)]),
        "thrust_force": np.concatenate([none, *(row[3] for row in rows)]),
        "thrust_torque": np.concatenate([none, *(row[4] for row in rows)]),
    }
    counts = {"bodies + 1": bodies + 1, "thrusts": len(rows), "thrusts + 1": len(rows) + 1,
              "thrust samples": sum(len(row[2]) for row in rows)}  # fmt: skip
    return counts, values
