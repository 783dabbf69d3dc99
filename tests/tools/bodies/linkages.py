"""Linkages of boxes, capsules and balls that whirl, for tests of what joints do in impacts."""

from __future__ import annotations

import numpy as np

import sim
from sim.geometry import rotation_from_quaternion

G = 9.81
IDENTITY = (0.0, 0.0, 0.0, 1.0)
ALONG_X = (0.0, float(np.sqrt(0.5)), 0.0, float(np.sqrt(0.5)))
Config = sim.ModelBuilder.ShapeConfig


def thrown_linkage(seed: int) -> sim.Model:
    """Two to four links on ball joints over a floor, in half of the cases with a ball that is thrown at them; e from .8
    to 1, 1 in 40 % of them, without friction in 30 %, else up to .8."""
    rng = np.random.default_rng(seed)
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    e = 1.0 if rng.random() < 0.4 else rng.uniform(0.8, 1)
    mu = rng.uniform(0, 0.8) if rng.random() < 0.7 else 0.0
    end, speed, before = np.array([0, rng.uniform(0.6, 1.2), 0]), rng.normal(size=3), 0.0
    for k in range(rng.integers(2, 5)):
        half, turn, spin = rng.uniform(0.08, 0.2), rng.normal(size=4), 3 * rng.normal(size=3)
        turn /= np.linalg.norm(turn)
        arm = rotation_from_quaternion(turn) @ (half, 0, 0)
        link = builder.add_body(
            sim.transformd((*(end + arm),), (*turn,)), velocity=(*(speed + np.cross(spin, arm)),), spin=(*spin,),
            label=f"link{k}",
        )  # fmt: skip
        made_of = Config(density=500.0 * rng.uniform(0.5, 3), mu=mu, restitution=e)
        kind, thin = rng.integers(3), rng.uniform(0.02, 0.06, 2)
        if kind == 0:
            builder.add_shape_box(link, None, half, *thin, cfg=made_of)
        elif kind == 1:
            builder.add_shape_capsule(link, sim.transformd((0, 0, 0), ALONG_X), 0.04, half - 0.04, cfg=made_of)
        else:
            builder.add_shape_sphere(link, None, 0.8 * half, cfg=made_of)
        if k:
            ends = [sim.transformd((at, 0, 0), IDENTITY) for at in (before, -half)]
            builder.add_joint_ball(link - 1, link, *ends, label=f"joint{k}")
        end, speed, before = end + 2 * arm, speed + np.cross(spin, 2 * arm), half
    if rng.random() < 0.5:
        place = np.array([0.2, 2.0, 0.0]) + 0.1 * rng.normal(size=3)
        ball = builder.add_body((*place,), velocity=(0, -rng.uniform(3, 6), 0), label="ball")
        made_of = Config(density=1000.0 * rng.uniform(0.5, 5), mu=mu, restitution=e)
        builder.add_shape_sphere(ball, None, rng.uniform(0.05, 0.12), cfg=made_of)
    builder.add_ground_plane(0.0)
    return builder.finalize(dtype=sim.float64)


def tipped_chain(seed: int, spin: float, mu: float, e: float, higher: float) -> sim.Model:
    """Two bars on a ball joint that whirl at about `spin` [rad/s] in each direction and fall at 2 m/s from .3 m, and
    `higher` [m], on a floor: a ball at each end hits it."""
    rng, halves, ball = np.random.default_rng(seed), (0.15, 0.12), 0.03
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    end, speed, before = np.array([0, 0.3 + higher, 0]), np.array([0.3, -2.0, 0.2]), 0.0
    for k, half in enumerate(halves):
        turn = rng.normal(size=4)
        turn /= np.linalg.norm(turn)
        omega = spin * rng.normal(size=3)
        arm, mass = rotation_from_quaternion(turn) @ (half, 0, 0), half * (9.6, 19.2)[k]
        square = np.array([half, 0.03, 0.05]) ** 2
        bar = builder.add_body(
            sim.transformd((*(end + arm),), (*turn,)), mass=mass, inertia=(*(mass / 3 * (square.sum() - square)),),
            velocity=(*(speed + np.cross(omega, arm)),), spin=(*omega,), label=f"bar{k}",
        )  # fmt: skip
        tip = sim.transformd((half if k else -half, 0, 0), IDENTITY)
        builder.add_shape_sphere(bar, tip, ball, cfg=Config(density=0.0, mu=mu, restitution=e), label="tip")
        if k:
            ends = [sim.transformd((at, 0, 0), IDENTITY) for at in (before, -half)]
            builder.add_joint_ball(bar - 1, bar, *ends, label="joint")
        end, speed, before = end + 2 * arm, speed + np.cross(omega, 2 * arm), half
    builder.add_ground_plane(0.0)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def energy(model: sim.Model, state: sim.State, dt: float) -> float:
    """Of all bodies [J]; the velocity of a step is that of its middle, and gravity has half of one to go."""
    q, qd, m = state.body_q.numpy(), state.body_qd.numpy(), model.body_mass.numpy()
    v, total = qd[:, :3] - [0, 0.5 * dt * G, 0], G * float(m @ q[:, 1])
    total += float(m @ (v**2).sum(axis=1)) / 2
    for inertia, turn, spin in zip(model.body_inertia.numpy(), q[:, 3:], qd[:, 3:], strict=True):
        inside = rotation_from_quaternion(turn).T @ spin
        total += float(inside @ inertia @ inside) / 2
    return total
