"""What rests on a face that turns: it passes no corner, however little it comes into the face by how that turns."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import G, coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
IDENTITY = (0.0, 0.0, 0.0, 1.0)
R = 0.1


def jelly(mu: float, young: float, side: float) -> sim.Model:
    """A soft cube dropped on a box that moves and turns."""
    made = sim.ModelBuilder(gravity=(0, -G, 0))
    soft = {"neo_hookean": {"young": young, "poisson": 0.3, "damping": 1e-3}}
    made.add_soft_grid((-0.05, 0.006, -0.05), dim_x=2, dim_y=2, dim_z=2, cell_x=0.05, cell_y=0.05, cell_z=0.05,
                       density=500.0, vel=(side, -0.6, 0), label="jelly", material=soft)  # fmt: skip
    goes = [{"move": (0.1, 0.02, 0.03), "start": 0, "end": 0.2}, {"turn": (0.1, 0.3, 0.2), "start": 0, "end": 0.2}]
    tray = made.add_body((0, -0.05, 0), held=True, motion=goes, label="tray")
    made.add_shape_box(tray, None, 0.15, 0.05, 0.15, cfg=Config(mu=mu), label="top")
    return made.finalize(dtype=sim.float64, requires_grad=True)


@pytest.mark.filterwarnings("error::sim.rollout.ChaoticGradientWarning")
def test_a_soft_cube_on_a_tray_that_turns() -> None:
    """What its corners that slide were taken to pass grew sixfold in every step, and the gradient to 1e10."""
    at = {"mu": 0.5, "young": 3e4, "side": 0.1}
    end, by = gradients(jelly(**at), 80, 1 / 960, coordinate("particle_q", 26, 0))
    found = {"mu": by["tray.top.mu"][0], "young": by["jelly.neo_hookean.young"][0]}
    found["side"] = by["jelly.velocity"][:, 0].sum()
    assert end.particle_q.numpy()[:, 1].min() > -0.03
    for name, derivative in found.items():
        d, places = 1e-6 * at[name], []
        for s in (1, -1):
            model = jelly(**{**at, name: at[name] + s * d})
            last = sim.rollout(sim.SolverXPBD(model), model.state(), 80, 1 / 960).final
            places.append(last.particle_q.numpy()[26, 0])
        assert derivative == pytest.approx((places[0] - places[1]) / (2 * d), rel=1e-5), name


@pytest.mark.parametrize("place", [0, 2])
def test_a_ball_rolls_on_a_turntable(place: int) -> None:
    """Round in a circle, at 2/7 of its angular velocity (E. J. Routh)."""
    seconds, rate, at = 1.0, 240, {"v": 0.3, "spin": 4.0}

    def exact(v: float, spin: float) -> float:
        turns = 2 / 7 * spin
        return v / turns * (np.sin(turns * seconds) if place == 0 else np.cos(turns * seconds) - 1)

    made = sim.ModelBuilder(gravity=(0, -G, 0))
    turns = [{"turn": (0, 2 * at["spin"], 0), "start": 0, "end": 2.0, "ease": "linear"}]
    table = made.add_body((0, -0.1, 0), held=True, motion=turns, label="table")
    made.add_shape_box(table, None, 1, 0.1, 1, cfg=Config(mu=0.8), label="top")
    rolls = made.add_body(sim.transformd((0, R, 0), IDENTITY), label="b", velocity=(at["v"], 0, 0),
                          spin=(0, 0, -at["v"] / R))  # fmt: skip
    made.add_shape_sphere(rolls, None, R, cfg=Config(mass=1.0, mu=0.8), label="s")
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    end, by = gradients(model, round(seconds * rate), 1 / rate, coordinate("body_q", 1, place))
    assert end.body_q.numpy()[1, place] == pytest.approx(exact(**at), rel=1e-2)
    found = {"v": by["b.velocity"][0, 0] - by["b.spin"][0, 2] / R, "spin": 2 * by["table.motion.0.turn"][0, 1]}
    for name, derivative in found.items():
        more, less = (exact(**{**at, name: at[name] + s * 1e-6}) for s in (1, -1))
        assert derivative == pytest.approx((more - less) / 2e-6, rel=2e-2), name
