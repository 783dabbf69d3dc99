"""Where nothing falls something rests all the same: what other forces press on what gives way."""

from __future__ import annotations

import numpy as np
import pytest

import sim

Config = sim.ModelBuilder.ShapeConfig
STEPS, DT = 60, 1 / 960


def thrown(mu: float | None, restitution: float | None) -> sim.Model:
    """A ball that flies into a free sheet, and takes it along."""
    made = sim.ModelBuilder(gravity=(0, 0, 0))
    material = {"distance": {"compliance": 3e-3}, "bend": {"compliance": 1e2}}
    flat = sim.quat_from_axis_angle(sim.vec3(1, 0, 0), -np.pi / 2)
    made.add_cloth_grid((-0.1, 0, 0.1), dim_x=5, dim_y=5, cell_x=0.04, cell_y=0.04, rot=flat, density=0.5,
                        label="sheet", thickness=0.004, material=material)  # fmt: skip
    ball = made.add_body((0.012, 0.045, 0.007), label="ball", velocity=(0.3, -1.0, 0.1), spin=(2, 1, -3))
    cfg = Config(mu=mu, restitution=restitution, density=300)
    made.add_shape_sphere(ball, radius=0.03, cfg=cfg, label="s")
    return made.finalize(dtype=sim.float64, requires_grad=True)


@pytest.mark.parametrize(("mu", "restitution"), [(0.4, None), (None, 0.5)])
def test_what_is_pressed_against_a_free_sheet_has_neighbours(mu: float | None, restitution: float | None) -> None:
    """What approached at all had an impact, and what went away by a rounding error rested: of balls that began 1e-9 m
    beside each other sheets were 1e-4 m apart after some steps, and derivatives were of no use."""
    model = thrown(mu, restitution)
    solver, place = sim.SolverXPBD(model, iterations=2), model["ball.position"]
    weight = np.random.default_rng(5).normal(size=(model.particle_count, 3))
    start = place.numpy().copy()
    with sim.Tape() as tape:
        end = sim.rollout(solver, model.state(), STEPS, DT).final
    tape.backward(grads={end.particle_q: sim.array(weight, dtype=sim.vec3d)})
    found = place.grad.numpy()[0, 1]

    def moved(by: float) -> np.ndarray:
        place.assign(start + [[0, by, 0]])
        return sim.rollout(solver, model.state(), STEPS, DT).final.particle_q.numpy().copy()

    here = moved(0.0)
    for k in (-3, -2, -1, 1, 2, 3):
        assert np.abs(moved(k * 1e-9) - here).max() < 1e-7
    more, less = (float(np.sum(weight * moved(s * 1e-8))) for s in (1, -1))
    assert found == pytest.approx((more - less) / 2e-8, rel=1e-4)
