"""Loads on arms: the four points that carry one, the frame that they make at rest, the particle at its end."""

from __future__ import annotations

import numpy as np

from sim.constraints.lever import rest_frame
from sim.geometry import farthest_points
from sim.model.build.blocks import PointBlock
from sim.model.errors import ModelError
from sim.model.groups import Group

OWN_MASS = 1e-6
"""Mass of an arm without a load, as a part of that of its carriers: a point without mass could not be moved."""

LEAST_SINE = 0.1
"""Of the angle between the diagonals of the carriers, which their frame is made of."""

PAIRINGS = ((0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2))


def rest_of(position: np.ndarray, points: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Constants of a `lever` that points (n,) of all positions (particles, 3) carry, and its four carriers.

    They are far apart, with diagonals as close to a right angle as they have.  Raises ModelError where the points lie
    on one line.
    """
    if len(points) < 4:
        raise ModelError(f"points: {len(points)} carry no arm", "Give at least four that do not lie on one line")
    far = points[farthest_points(position[points], 4)]
    carriers = max((far[list(p)] for p in PAIRINGS), key=lambda four: round(_sine(position[four]), 6))
    if _sine(position[carriers]) < LEAST_SINE:
        raise ModelError(
            "points: they lie on one line, which does not say how an arm turns about it",
            "Give points that span a face, or a part of the body",
        )
    frame, shift = rest_frame(position[carriers]), position[points].mean(axis=0) - position[carriers].mean(axis=0)
    return {"shift": shift[None], **{f"axis_{k + 1}": frame[k][None] for k in range(3)}}, carriers.astype(np.int32)


def point_on_arm(label: str, number: int, place: np.ndarray, carrier_mass: np.ndarray) -> PointBlock:
    """The particle at the end of an arm, at `place` (3,); it follows its carriers."""
    mass = OWN_MASS * float(carrier_mass.mean())
    if mass == 0.0:
        raise ModelError("points: they have no mass that could carry an arm", "Give points that are not held")
    none = np.zeros((1, 3))
    group = Group(label, "load", number, 1, place[None])
    return PointBlock(group, place[None], none, none, none, "mass", np.array([mass]), np.ones(1), carried=True)


def _sine(four: np.ndarray) -> float:
    """Of the angle between the diagonals of four points."""
    u, v = four[1] - four[0], four[3] - four[2]
    lengths = float(np.linalg.norm(u) * np.linalg.norm(v))
    return float(np.linalg.norm(np.cross(u, v))) / lengths if lengths else 0.0
