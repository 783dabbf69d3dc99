"""Worlds that begin 1e-9 m beside each other end beside each other: no decision is a rounding error's."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import G

import sim

Config = sim.ModelBuilder.ShapeConfig
MU, RATES = (0.3, 0.05, 0.8), (240, 480)


def tossed(kind: str, seed: int, block: bool, by: float) -> sim.Model:
    """Two bodies of a kind over each other, turned at random, over a plane or a block; the lower one moved by that."""
    rng = np.random.default_rng(seed)
    cfg = Config(density=500.0, mu=MU[seed % 3], restitution=(None, 0.4)[seed % 2])
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    if block:
        builder.add_shape_box(-1, (0, -0.1, 0), 0.5, 0.1, 0.5, cfg=cfg)
    else:
        builder.add_shape_plane((0, 1, 0, 0), cfg=cfg)
    for k, size in enumerate((1.0, 0.8)):
        q = rng.normal(size=4)
        place = [rng.uniform(-0.02, 0.02), 0.09 + 0.14 * k, rng.uniform(-0.02, 0.02)]
        velocity, spin = rng.uniform(-0.3, 0.3, 3), rng.uniform(-2, 2, 3)
        if k == 0:
            place = list(np.add(place, [by, 0.3 * by, -0.7 * by]))
        body = builder.add_body(
            [*place, *(q / np.linalg.norm(q))], label=f"b{k}", velocity=tuple(velocity), spin=tuple(spin)
        )
        if kind == "capsule":
            builder.add_shape_capsule(body, None, 0.03 * size, 0.05 * size, cfg=cfg)
        else:
            builder.add_shape_box(body, None, 0.06 * size, 0.04 * size, 0.05 * size, cfg=cfg)
    return builder.finalize(dtype=sim.float64)


def end_of(kind: str, seed: int, block: bool, by: float) -> np.ndarray:
    rate = RATES[seed % 2]
    solver = sim.SolverXPBD(model := tossed(kind, seed, block, by), iterations=1 + seed % 2)
    end = sim.rollout(solver, model.state(), rate // 2, 1 / rate).final
    return np.concatenate([end.body_q.numpy().ravel(), 0.01 * end.body_qd.numpy().ravel()])


@pytest.mark.parametrize(
    ("kind", "block", "seed"), [("capsule", True, 1), ("capsule", True, 5), ("box", False, 14)], ids=str
)
def test_what_begins_beside_each_other_ends_so(kind: str, block: bool, seed: int) -> None:
    """Capsules that passed a corner in part (1), and whose ends an impact released (5), and boxes whose corners were to
    share what they cannot (14), were up to 5e-4 m apart."""
    ends = [end_of(kind, seed, block, k * 1e-9) for k in range(4)]
    bent = np.abs(np.diff(ends, n=2, axis=0)).max()
    assert bent < 2e-9 + 0.02 * np.abs(np.diff(ends, axis=0)).max()
