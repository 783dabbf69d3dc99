"""Small worlds with contacts, for tests of contacts and of what joints hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import sim
from sim.geometry import rotation_from_quaternion

G = 9.81
CORNERS = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
FACES = [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1],
         [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]]  # fmt: skip
"""A cube from -1 to 1, its triangles looking outward."""


def mass_point(
    place: Any, velocity: Any, friction: float, restitution: float, gravity: float = G, dtype: type = sim.float64
) -> sim.Model:
    """A particle above the plane y = 0."""
    made = sim.ModelBuilder(gravity=(0.0, -gravity, 0.0))
    p = made.add_particle(place, velocity, 1.0)
    floor = {"point": [0, 0, 0], "normal": [0, 1, 0], "thickness": 0.0}
    made.add_constraints(
        "contact_plane", [[p]], 0.0, label="floor", friction=friction, restitution=restitution, **floor
    )
    return made.finalize(dtype=dtype, requires_grad=True)


def ball(friction: float, tilt: float, velocity: float, radius: float = 0.1) -> sim.Model:
    """A solid ball on a plane that is tilted by so many degrees, with a velocity downhill."""
    angle = np.radians(tilt)
    made = sim.ModelBuilder(gravity=(G * np.sin(angle), -G * np.cos(angle), 0.0))
    made.add_body(sim.transform([0, radius, 0], [0, 0, 0, 1]), mass=1.0, inertia=0.4 * radius**2, label="ball",
                  velocity=(velocity, 0.0, 0.0))  # fmt: skip
    floor = {"point": [0, 0, 0], "normal": [0, 1, 0], "thickness": radius}
    made.add_constraints(
        "contact_plane", [[made.point_of(0, [0, 0, 0])]], 0.0, label="floor", friction=friction, **floor
    )
    return made.finalize(dtype=sim.float64, requires_grad=True)


def gradients(
    model: sim.Model, steps: int, dt: float, seed: Callable[[sim.State], tuple[sim.array, np.ndarray]], **options: Any
) -> tuple[sim.State, Mapping[str, np.ndarray]]:
    """The end of a rollout, and the derivatives of `sum(seed * array)` there by all material values."""
    solver = sim.SolverXPBD(model, **options)
    with sim.Tape() as tape:
        found = sim.rollout(solver, model.state(), steps=steps, dt=dt).final
    array, weight = seed(found)
    tape.backward(grads={array: sim.array(weight, dtype=array.dtype)})
    return found, {path: a.grad.numpy().copy() for path, a in model.materials.items() if a.grad is not None}


def coordinate(name: str, row: int, column: int) -> Callable[[sim.State], tuple[sim.array, np.ndarray]]:
    """Seeds a gradient: one number of an array of the state."""

    def seed(state: sim.State) -> tuple[sim.array, np.ndarray]:
        array = getattr(state, name)
        weight = np.zeros(array.numpy().shape)
        weight[row, column] = 1.0
        return array, weight

    return seed


def integrals(state: sim.State, model: sim.Model) -> tuple[np.ndarray, float]:
    """Momenta (6,) and kinetic energy."""
    momenta, energy = np.zeros(6), 0.0
    q, qd, com = state.body_q.numpy(), state.body_qd.numpy(), model.body_com.numpy()
    for k, (m, inertia) in enumerate(zip(model.body_mass.numpy(), model.body_inertia.numpy(), strict=True)):
        R, v, omega = rotation_from_quaternion(q[k, 3:]), qd[k, :3], qd[k, 3:]
        spin = R @ inertia @ R.T @ omega
        momenta += np.concatenate([m * v, np.cross(q[k, :3] + R @ com[k], m * v) + spin])
        energy += 0.5 * (m * v @ v + omega @ spin)
    return momenta, energy
