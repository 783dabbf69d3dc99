"""Layers of cloth that fall on each other and grip at once: where they come to lie, and derivatives by their height."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import G

import sim

THICK, MU, SPEED, SECONDS = 4e-3, 0.5, 0.3, 0.2
LYING = np.array([-np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)])


def sheets(drop: float, held: bool) -> sim.Model:
    """A sheet that falls so far onto an equal one, at SPEED in x; that lies on a smooth floor, or is held."""
    made = sim.ModelBuilder(gravity=(0, -G, 0))
    soft = {"distance": {"compliance": 1e-5}, "shear": {"compliance": 1e-4}, "bend": {"compliance": 0.1}}
    for k, name in enumerate(("low", "high")):
        s, c = np.sin(0.15 * k), np.cos(0.15 * k)  # turned about the vertical
        x, _, _, w = LYING
        made.add_cloth_grid(
            (0.013 * k, (drop + THICK) * k, 0.017 * k), dim_x=3, dim_y=3, cell_x=0.05, cell_y=0.05,
            rot=[c * x, s * w, -s * x, c * w], density=0.2, label=name, vel=(SPEED * k, 0, 0), material=soft,
        )  # fmt: skip
    if held:
        made.add_attachment(made.groups["low"].points, label="hold")
    else:
        made.add_ground_plane()
    made.add_self_contact(["low", "high"], friction=MU, thickness=THICK, margin=0.05, capacity=9000)
    return made.finalize(dtype=sim.float64, requires_grad=True)


def landed(model: sim.Model, rate: int, sweeps: int) -> tuple[float, dict[str, float]]:
    """Where the middle of the upper sheet is along x in the end, and derivatives of that."""
    high = model.groups["high"].points
    with sim.Tape() as tape:
        end = sim.rollout(sim.SolverXPBD(model, iterations=sweeps), model.state(), round(SECONDS * rate), 1 / rate)
    weight = np.zeros((model.particle_count, 3))
    weight[high, 0] = 1.0 / len(high)
    tape.backward(grads={end.final.particle_q: sim.array(weight, dtype=sim.vec3d)})
    come = (end.final.particle_q.numpy() - model.particle_q.numpy())[high, 0].mean()
    found = {"height": model["high.position"].grad.numpy()[..., 1].sum()}
    found |= {"thickness": model["contact.thickness"].grad.numpy().sum()}
    found |= {"v": model["high.velocity"].grad.numpy()[..., 0].sum()}
    found |= {"mu": model["contact.friction"].grad.numpy().sum()}
    return float(come), {name: float(value) for name, value in found.items()}


@pytest.mark.filterwarnings("ignore::sim.solvers.NumericsWarning")
@pytest.mark.parametrize(("held", "rate"), [(True, 480), (False, 480), (True, 1920)])
def test_what_falls_on_a_layer_and_grips(held: bool, rate: int) -> None:
    """It flies for t = sqrt(2 h / g), and stands from then on, or goes on with half of its speed with a free one:
    d x / d h = v / (g t), or half of that, at any phase of the step.  All of the slip of the step in which it hits was
    stopped, and what it slid as it hit was taken for what comes to a stop: d x / d h was off by .3, or up to 141."""
    kept = 0.0 if held else 0.5
    for phase in np.arange(4) / 4:
        drop = 0.046 + G * 0.0968 / rate * phase
        t = np.sqrt(2 * drop / G)
        x, found = landed(sheets(drop, held), rate, 4)
        assert x == pytest.approx(SPEED * (t + kept * (SECONDS - t)), abs=0.25 / rate)
        assert found["height"] == pytest.approx((1 - kept) * SPEED / (G * t), abs=0.02)
        assert found["thickness"] == pytest.approx(-(1 - kept) * SPEED / (G * t), abs=0.02)
        assert found["v"] == pytest.approx(t + kept * (SECONDS - t), rel=0.03)
        assert abs(found["mu"]) < 1e-3
