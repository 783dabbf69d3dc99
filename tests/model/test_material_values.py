"""Material values that a program writes: what means nothing is an error, before anything is simulated with it."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.model import ModelError


def model() -> sim.Model:
    b = sim.ModelBuilder()
    strong = {"distance": {"compliance": 1e-3}, "membrane_stvk": {"young": 1e4, "poisson": 0.3, "thickness": 1e-3}}
    b.add_cloth_grid(dim_x=2, dim_y=2, cell_x=0.1, cell_y=0.1, density=0.2, label="sheet", material=strong)
    ball = b.add_body((1.0, 0.0, 0.0), label="ball")
    b.add_shape_sphere(ball, radius=0.1, label="hull")
    b.add_ground_plane(-1.0, cfg=type(b.default_shape_cfg)(mu=0.3), label="floor")
    return b.finalize(dtype=sim.float64, requires_grad=True)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("sheet.distance.compliance", np.nan, "nan is outside of"),
        ("sheet.membrane_stvk.poisson", 1.0, r"1 is outside of \(-1, 1\)"),
        ("sheet.membrane_stvk.young", -1.0, r"-1 is outside of \(0, inf\)"),
        ("sheet.density", 0.0, r"0 is outside of \(0, inf\)"),
        ("sheet.density", -1.0, r"-1 is outside of \(0, inf\)"),
        ("ball.hull.density", -1.0, r"-1 is outside of \(0, inf\)"),
        ("floor.mu", np.nan, "nan is outside of"),
    ],
)
def test_values_that_would_go_unseen(path: str, value: float, said: str) -> None:
    """A constraint without a number is left out, and a point without a mass is held: their gradients were 0."""
    made = model()
    solver, before = sim.SolverXPBD(made), made[path].numpy().copy()
    made[path].fill_(value)
    for _ in range(2):  # it is not known after the first look
        with pytest.raises(ModelError, match=f"^{path.replace('.', '[.]')} = {said}.*give an optimiser bounds"):
            sim.rollout(solver, made.state(), 2, 0.01)
    made[path].assign(before)
    sim.rollout(solver, made.state(), 2, 0.01)


def test_values_written_through_numpy() -> None:
    made = model()
    solver, shown = sim.SolverXPBD(made), made["sheet.density"].numpy()
    sim.rollout(solver, made.state(), 2, 0.01)
    shown[0] = -1.0
    with pytest.raises(ModelError, match=r"sheet.density = -1"):
        sim.rollout(solver, made.state(), 2, 0.01)
