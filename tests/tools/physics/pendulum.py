"""A pendulum of length 1, let go at an angle: its period and its energy, and the exact ones."""

from __future__ import annotations

import numpy as np

import sim


def pendulum(dtype, integrator: str, angle: float = 0.5) -> sim.SolverXPBD:
    builder = sim.ModelBuilder(gravity=(0.0, -9.81, 0.0))
    builder.add_particles([[0, 0, 0], [np.sin(angle), -np.cos(angle), 0]], mass=[0.0, 1.0])
    builder.add_constraints("distance", [[0, 1]], compliance=0.0, label="rod")
    return sim.SolverXPBD(builder.finalize(dtype=dtype), integrator=integrator)


def swings(solver: sim.SolverXPBD, substeps: int, seconds: float) -> tuple[float, float]:
    """Mean period [s], and the energy at the end over that of the start."""
    every = max(1, substeps // 5)
    dt = 1.0 / 60.0 / substeps
    steps = int(round(seconds / dt))
    x = sim.rollout(solver, solver.model.state(), steps, dt, frame_every=every).particle_q.numpy()[:, 1]
    dt *= every
    angle = np.arctan2(x[:, 0], -x[:, 1])
    down = np.flatnonzero((angle[:-1] > 0) & (angle[1:] <= 0))
    crossings = (down + angle[down] / (angle[down] - angle[down + 1])) * dt
    period = float(np.diff(crossings).mean())
    last = np.abs(angle[-int(period / dt) :]).max()
    return period, float((1 - np.cos(last)) / (1 - np.cos(0.5)))


def exact_period(angle: float = 0.5) -> float:
    """Of a pendulum of length 1: by the arithmetic-geometric mean."""
    a, g = 1.0, np.cos(angle / 2)
    for _ in range(6):
        a, g = (a + g) / 2, np.sqrt(a * g)
    return float(2 * np.pi / np.sqrt(9.81) / a)
