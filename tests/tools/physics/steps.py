"""Steps by hand, what of a state they keep, and central differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import sim
from sim.model import Control


def central(f: Callable[[np.ndarray], float], at: np.ndarray, direction: np.ndarray, step: float = 1e-5) -> float:
    """Directional derivative by central differences with two steps, extrapolated: its error falls with step^4."""
    once, twice = ((f(at + h * direction) - f(at - h * direction)) / (2 * h) for h in (step, 2 * step))
    return (4 * once - twice) / 3


def random_rotation(rng: np.random.Generator) -> np.ndarray:
    """A rotation (3, 3)."""
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    return q if np.linalg.det(q) > 0 else q[:, [1, 0, 2]]


def positions(state: sim.State) -> np.ndarray:
    """(n, 3) copy."""
    return state.particle_q.numpy().copy()


def take_steps(
    solver: sim.SolverXPBD,
    state: sim.State,
    steps: int,
    dt: float,
    control: Control | None = None,
    each: Callable[[sim.State], None] | None = None,
) -> sim.State:
    """Steps by hand; `each` sees the state after every step.  The given state is not changed."""
    a, b = state.clone(), state.clone()
    for _ in range(steps):
        solver.step(a, b, control, None, dt)
        a, b = b, a
        if each is not None:
            each(a)
    return a


def momentum(state: sim.State) -> tuple[np.ndarray, np.ndarray]:
    """Linear and angular momentum (about the origin)."""
    m = state.model.particle_mass.numpy()[:, None]
    q, v = state.particle_q.numpy(), state.particle_qd.numpy()
    return (m * v).sum(axis=0), np.cross(q, m * v).sum(axis=0)
