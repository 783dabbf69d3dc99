"""Small systems of rigid bodies: pendulums, random trees of joints; their momenta and energies by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import sim
from tools.constraints.slots import exp, product, turned

G = 9.81
JOINTS = ("ball", "revolute", "fixed", "prismatic", "distance")


def pendulum(
    length: float = 1.0, joint: str = "ball", angle: float = np.pi / 2, inertia: float = 1e-9, **options: Any
) -> sim.ModelBuilder:
    """A rod without mass to the origin with a point mass of 1 kg, nearly, at its end, at rest at an angle from below.
    The joint turns about z."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    place, turn = length * np.array([np.sin(angle), -np.cos(angle), 0]), exp(np.array([0, 0, angle]))
    bob = builder.add_body([*place, *turn], mass=1.0, inertia=inertia, label="bob", **options)
    axis = exp(np.array([0, -np.pi / 2, 0]))  # the first axis of a joint's frame is that of the hinge
    ends = [builder.point_of(-1, (0, 0, 0), axis), builder.point_of(bob, (0, length, 0), axis)]
    builder.add_constraints(joint, [ends], compliance=0.0, label="hinge")
    return builder


def random_tree(
    seed: int,
    bodies: int = 3,
    kinds: tuple[str, ...] = JOINTS,
    rooted: bool = True,
    gravity: bool = True,
    particles: bool = True,
    soft: bool = True,
) -> sim.ModelBuilder:
    """Bodies of random inertia in random places that move at random, joined as a tree by random joints that hold as it
    starts.  rooted: the first is joined to the world; particles: one is tied to each body, the first with the next;
    soft: half of the joints have a compliance."""
    rng = np.random.default_rng([20261123, seed])
    builder = sim.ModelBuilder(gravity=rng.normal(size=3) * 5 * gravity)
    places, turns = [], []
    for k in range(bodies):
        places.append(0.4 * rng.normal(size=3))
        turns.append(exp(rng.normal(size=3)))
        root = rng.normal(size=(3, 3))
        inertia = 0.01 * (root @ root.T + 2 * np.eye(3))
        inertia = np.trace(inertia) * np.eye(3) - inertia  # of a distribution of mass
        builder.add_body(
            [*places[-1], *turns[-1]],
            mass=rng.uniform(0.5, 2.0),
            inertia=inertia,
            com=0.1 * rng.normal(size=3),
            label=f"body{k}",
            velocity=0.3 * rng.normal(size=3),
            spin=rng.normal(size=3),
        )

    def frame(body: int, at: np.ndarray, turn: np.ndarray) -> Any:
        if body < 0:
            return builder.point_of(-1, at, turn)
        q = turns[body]
        back = np.array([*-q[:3], q[3]])
        return builder.point_of(body, turned(q).T @ (at - places[body]), product(back, turn))

    for k in range(0 if rooted else 1, bodies):
        parent = int(rng.integers(0, k)) if k else -1
        kind, at, turn = str(rng.choice(kinds)), places[k] + 0.2 * rng.normal(size=3), exp(rng.normal(size=3))
        ends = [frame(parent, at, turn), frame(k, at, turn)]
        values: dict[str, Any] = {}
        if kind == "distance":
            ends[0] = frame(parent, at + 0.3 * rng.normal(size=3), turn)
        if kind == "ball" and soft:
            values["damping"] = 0.02
        compliance = float(rng.uniform(1e-4, 1e-3)) * (rng.random() < 0.5) * soft
        builder.add_constraints(kind, [ends], compliance=compliance, label=f"joint{k}", **values)
    if particles:
        first = builder.add_particles(
            places + 0.3 * rng.normal(size=(bodies, 3)), mass=0.2, vel=tuple(0.3 * rng.normal(size=3)), label="beads"
        ).start
        tied = [[first + k, builder.point_of(k, 0.1 * rng.normal(size=3))] for k in range(bodies)]
        builder.add_constraints("distance", tied, compliance=1e-3 * soft, damping=0.01 * soft, label="ties")
        if bodies > 1:
            builder.add_constraints("distance", [[first, first + 1]], compliance=1e-3, label="thread")
    return builder


# ------------------------------------------------------------------------------------------ what is conserved
def centers(state: sim.State) -> tuple[np.ndarray, np.ndarray]:
    """Places of the centres of mass (n, 3), and rotation matrices."""
    pose, com = state.body_q.numpy(), state.model.body_com.numpy()
    R = np.array([turned(q) for q in pose[:, 3:].astype(np.float64)])
    return pose[:, :3] + np.einsum("kij,kj->ki", R, com), R


def momenta(state: sim.State) -> tuple[np.ndarray, np.ndarray]:
    """Linear and angular momentum about the origin, of bodies and particles."""
    model, (x, R) = state.model, centers(state)
    v, omega = state.body_qd.numpy()[:, :3], state.body_qd.numpy()[:, 3:]
    p = model.body_mass.numpy()[:, None] * v
    spin = np.einsum("kij,kjl,kml,km->ki", R, model.body_inertia.numpy(), R, omega)
    bead = model.particle_mass.numpy()[:, None] * state.particle_qd.numpy()
    linear = p.sum(axis=0) + bead.sum(axis=0)
    return linear, (np.cross(x, p) + spin).sum(axis=0) + np.cross(state.particle_q.numpy(), bead).sum(axis=0)


def energy(state: sim.State) -> float:
    """Kinetic and potential energy of the bodies."""
    model, (x, R) = state.model, centers(state)
    v, omega = state.body_qd.numpy()[:, :3], np.einsum("kij,ki->kj", R, state.body_qd.numpy()[:, 3:])
    m = model.body_mass.numpy()
    kinetic = 0.5 * (m @ (v * v).sum(axis=1) + np.einsum("ki,kij,kj->", omega, model.body_inertia.numpy(), omega))
    return float(kinetic - (m[:, None] * x @ model["gravity"].numpy()[0]).sum())
