"""Small worlds whose rollouts are compared bit for bit, and the gradient of one by everything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import sim
from tools.physics.contact_worlds import ball
from tools.physics.models import swung_sheet


def colliding() -> sim.SolverXPBD:
    """A sheet that falls onto another and a floor, with friction; pairs are looked for every other step."""
    builder, lying = sim.ModelBuilder(), (-np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))
    for k, name in enumerate(("low", "high")):
        builder.add_cloth_grid((0.002 * k, 0.003 + 0.006 * k, 0), dim_x=2, dim_y=2, cell_x=0.03, cell_y=0.03, rot=lying,
                               density=0.2, label=name, vel=(0.1 * k, -0.3 * k, 0))  # fmt: skip
    builder.add_self_contact(["low", "high"], friction=0.3, thickness=4e-3, margin=0.01, every=2, capacity=2000)
    builder.add_ground_plane(0.0, cfg=sim.ModelBuilder.ShapeConfig(mu=0.4), label="floor")
    return sim.SolverXPBD(builder.finalize(dtype=sim.float64, requires_grad=True), 2)


def linkage() -> sim.SolverXPBD:
    """Two bars on hinges, one of which hits the floor."""
    builder, at = sim.ModelBuilder(), (0.0, 0.0, 0.0, 1.0)
    kind, parent = sim.ModelBuilder.ShapeConfig(mu=0.4, restitution=0.5, mass=0.3), -1
    for k in range(2):
        bar = builder.add_body(sim.transformd((0.1 + 0.2 * k, 0.12, 0), at), label=f"bar {k}")
        builder.add_shape_sphere(bar, None, 0.03, cfg=kind)
        ends = sim.transformd((0.1 if k else 0.0, 0 if k else 0.12, 0), at), sim.transformd((-0.1, 0, 0), at)
        builder.add_joint_revolute(parent, bar, *ends, axis=(0, 0, 1), label=f"hinge {k}")
        parent = bar
    builder.add_ground_plane(0.0, cfg=kind, label="floor")
    return sim.SolverXPBD(builder.finalize(dtype=sim.float64, requires_grad=True))


WORLDS = {
    "sheet": swung_sheet,
    "jacobi": lambda: swung_sheet("jacobi", 2),
    "ball": lambda: sim.SolverXPBD(ball(0.3, 20.0, 0.5)),
    "colliding": colliding,
    "linkage": linkage,
}


@dataclass
class Found:
    """Of one gradient: the results, and what the tape kept for it."""

    values: dict[str, bytes]
    memory: int


def found(solver: sim.SolverXPBD, steps: int, frame_every: int | None, strategy=None) -> Found:
    """The gradient of sums of frames and end with random weights, by everything."""
    model, rng = solver.model, np.random.default_rng(7)
    state = model.state()
    with sim.Tape() as tape:
        made = sim.rollout(solver, state, steps, 1 / 480, frame_every=frame_every, strategy=strategy or sim.StoreAll())
    names = [n for n in ("particle_q", "particle_qd", "body_q", "body_qd") if getattr(made.final, n).size]
    ends = {n: getattr(made.final, n) for n in names} | {f"frames of {n}": getattr(made, n) for n in names[:1]}
    ends = {n: a for n, a in ends.items() if a.size}
    kept = tape.bytes_kept
    tape.backward(grads={a: sim.array(rng.normal(size=a.numpy().shape), dtype=a.dtype) for a in ends.values()})
    values = {n: a.numpy().tobytes() for n, a in ends.items()}
    grads = {path: a.grad for path, a in model.materials.items()} | {n: a.grad for n, a in state.arrays.items()}
    values |= {f"d {n}": g.numpy().tobytes() for n, g in grads.items() if g is not None}
    tape.zero()
    return Found(values, kept)
