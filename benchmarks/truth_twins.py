"""The bodies of truth.py: each with one value that is sought, and markers that tell it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import sim


@dataclass(frozen=True)
class Twin:
    """A body, the path of the value that is sought and what it is in truth, and what is seen of it.

    markers: (frames, points, 3) to (frames, markers, 3); reference: substeps of a frame in which it is stepped for the
    target; sweeps, solves: where ladders end, in sweeps of XPBD and steps of Newton of a frame.
    """

    about: str
    model: sim.Model
    value: str
    true: float
    markers: Callable[[np.ndarray], np.ndarray]
    frames: int
    fps: int = 30
    reference: int = 64
    sweeps: int = 2**14
    solves: int = 64


def chain() -> Twin:
    """Ten links, a hundred times heavier at the end, which swings."""
    links, compliance, light, heavy = 10, 1e-4, 0.01, 1.0
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    points = np.linspace([0.0, 0.0, 0.0], [0.0, -1.0, 0.0], links + 1)
    mass = [0.0, *[light] * (links - 1), heavy]
    builder.add_particles(points, mass=mass, vel=-points[:, [1, 0, 2]])
    pairs = np.stack([np.arange(links), np.arange(1, links + 1)], 1)
    builder.add_constraints("distance", pairs, compliance=compliance, damping=0.02, label="links")
    return Twin(
        "A chain of 1 m, ten links, 10 g at each point and 1 kg at the end, swings with 1 m/s. Sought: the compliance"
        " of the links, 1e-4 m/N (a sag of 10 mm, damping 20 ms), from all points at 30 frames in a second.",
        builder.finalize(dtype=sim.float64, requires_grad=True),
        "links.compliance",
        compliance,
        lambda path: path[:, 1:],
        30,
    )


TWINS = {"chain": chain}
