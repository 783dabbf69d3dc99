"""Models, and gradients of rollouts, that tests of physics share."""

from __future__ import annotations

import numpy as np

import sim
from sim.model import ModelBuilder
from tools.constraints.samples import SEED

G = 9.81


def hanging_chain(
    n: int = 20, mass: float = 0.1, alpha: float = 1e-3, damping: float = 0.0, requires_grad: bool = False
) -> sim.Model:
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    chain = builder.add_chain(
        (0, 0, 0),
        (0, -n * 0.05, 0),
        n + 1,
        mass=mass * (n + 1),
        label="chain",
        material={"distance": {"compliance": alpha, "damping": damping}},
    )
    builder.add_attachment(chain.points[:1])
    return builder.finalize(dtype=sim.float64, requires_grad=requires_grad)


def relaxed(solver: sim.SolverXPBD, state: sim.State, h: float, span: float, stretches: int) -> sim.State:
    """The resting shape: velocities are taken away after every `span` seconds."""
    for _ in range(stretches):
        state.particle_qd.zero_()
        state = sim.rollout(solver, state, max(1, round(span / h)), h).final
    return state


def swung_sheet(order: str = "colored", iterations: int = 1) -> sim.SolverXPBD:
    """A sheet, held by a soft and by a hard attachment that move, that is swung against a ball, with a rope and a
    floor."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    material = {
        "distance": {"compliance": 0.02, "damping": 2e-3},
        "shear": {"compliance": 0.1},
        "bend": {"compliance": 50.0, "damping": 1e-3},
    }
    sheet = builder.add_cloth_grid(
        (0, 0, 0),
        dim_x=5,
        dim_y=5,
        cell_x=0.1,
        cell_y=0.1,
        density=0.2,
        label="sheet",
        material=material,
        thickness=0.01,
        vel=(0, 0, 0.1),
        spin=(0.1, 0.2, 0.3),
    )
    builder.add_chain((1, 0, 0), (1.3, 0, 0), 4, mass=0.1, label="rope", material={"distance": {"compliance": 1e-3}})
    builder.add_attachment(
        sheet.points[30:33],
        motion=[{"move": (0, 0, -0.2), "end": 0.3}, {"swing": (0.05, 0, 0), "frequency": 2.0}],
        compliance=1e-3,
        label="soft",
    )
    builder.add_attachment(
        sheet.points[35:36], motion={"move": (0, 0, -0.2), "start": 0.1, "end": 0.4, "ease": "linear"}, label="hard"
    )
    builder.add_attachment([36], label="hook")
    builder.add_shape_sphere((0.25, 0.1, -0.15), 0.1, compliance=1e-4, touches=[sheet], label="ball")
    builder.add_ground_plane(-0.1, normal=(0.1, 1, 0.05), compliance=1e-4, touches=["rope"], label="floor")
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    return sim.SolverXPBD(model, iterations, order)


STEPS, DT = 30, 1 / 300


def gradients(
    solver: sim.SolverXPBD, strategy, steps: int = STEPS, frame_every: int | None = 4
) -> dict[str, np.ndarray]:
    """Positions, and gradients by everything, of a rollout whose frames and end are weighted at random."""
    model, rng = solver.model, np.random.default_rng(SEED)
    state = model.state()
    state.particle_f.assign(0.01 * rng.normal(size=(model.particle_count, 3)))
    if state.particle_f.grad is not None:
        state.particle_f.grad.zero_()
    with sim.Tape() as tape:
        trajectory = sim.rollout(solver, state, steps, DT, frame_every=frame_every, strategy=strategy)
    final = trajectory.final
    out = {"frames": trajectory.particle_q, "q": final.particle_q, "qd": final.particle_qd}
    result = {n: a.numpy().copy() for n, a in out.items()}
    tape.backward(grads={a: sim.array(rng.normal(size=a.numpy().shape), dtype=a.dtype) for a in out.values()})
    for name, a in out.items():  # backward leaves every value as it was
        np.testing.assert_array_equal(a.numpy(), result[name])
    grads = {path: a.grad for path, a in model.materials.items()} | {name: a.grad for name, a in state.arrays.items()}
    grads |= {
        f"rest of {name}": s.parameters["rest"].grad
        for name, s in model.constraint_sets.items()
        if "rest" in s.parameters
    }
    result |= {f"d {name}": grad.numpy().copy() for name, grad in grads.items() if grad is not None}
    tape.zero()
    return result


def builder() -> ModelBuilder:
    """A cloth with a load, held by a moving pinned corner and a soft one; a solid with a drag; springs between the two;
    a ball."""
    b = ModelBuilder()
    sheet = b.add_cloth_grid(
        dim_x=4,
        dim_y=3,
        cell_x=0.1,
        cell_y=0.1,
        density=0.2,
        label="sheet",
        rot=(0.7071068, 0, 0, 0.7071068),
        material={
            "distance": {"compliance": 0.02, "damping": 1e-3},
            "shear": {"compliance": 0.5},
            "bend": {"compliance": 50.0},
        },
    )
    block = b.add_soft_grid(
        dim_x=1,
        dim_y=1,
        dim_z=2,
        cell_x=0.1,
        cell_y=0.1,
        cell_z=0.1,
        density=300.0,
        pos=(0, 0.5, 0),
        label="block",
        material={"stvk": {"young": 2e4, "poisson": 0.3, "damping": 1e-3}},
    )
    b.set_drag(block, 0.5)
    for k in range(3):
        b.add_spring(sheet.start + k, block.start + 2 * k, compliance=0.01 * (k + 1), rest_length=0.4 if k else None)
    b.add_attachment(
        [0], motion=[{"move": (0.1, 0, 0), "end": 0.05}, {"swing": (0, 0.1, 0), "frequency": 4.0}], label="grip"
    )
    b.add_attachment([4], compliance=0.1, label="soft", motion={"move": (0, 0, 0.1), "end": 0.05})
    b.add_load(sheet.points[-5:], 0.05, label="bag")
    b.add_shape_sphere((0.2, -0.3, 0.1), 0.2, label="ball")
    b.add_particle((0, 2, 0), mass=0.0)
    return b
