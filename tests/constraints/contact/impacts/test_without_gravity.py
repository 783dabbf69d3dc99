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


@pytest.mark.parametrize("steps", [2, 60])
def test_a_rope_without_gravity_has_a_gradient(steps: int) -> None:
    """Round a post, pulled at one end: in the second step a point that comes nearer rests on nothing, of which it may
    pass 0 m, and by that its derivative was divided."""
    radius, link, points = 0.1, 0.03, 17
    builder, half = sim.ModelBuilder(gravity=(0, 0, 0)), points // 2
    for k in range(points):
        s = (k - half) * link
        beyond = max(abs(s) - np.pi / 2 * radius, 0.0)
        angle = (s - np.sign(s) * beyond) / radius
        place, last = (radius * np.sin(angle), radius * np.cos(angle) - beyond, 0), k == points - 1
        builder.add_particle(place, (0, -1.0 if last else 0.0, 0), mass=0.3 if last else 0.002)
        if k:
            builder.add_spring(k - 1, k, compliance=0.0)
    anchor = builder.add_particle((-radius, -0.6, 0), mass=0.0)
    builder.add_spring(0, anchor, compliance=1e-2, rest_length=0.3, label="pull")
    builder.add_shape_capsule(-1, None, radius, 0.3, cfg=Config(mu=0.15, restitution=0.5), label="post")
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    solver, mu = sim.SolverXPBD(model, iterations=16), model["post.mu"]
    with sim.Tape() as tape:
        end = sim.rollout(solver, model.state(), steps, 1 / 480).final
    seed = np.zeros((points + 1, 3))
    seed[points - 1, 1] = 1.0
    tape.backward(grads={end.particle_q: sim.array(seed, dtype=end.particle_q.dtype)})

    def moved(by: float) -> float:
        mu.assign(np.array([0.15 + by]))
        return float(sim.rollout(solver, model.state(), steps, 1 / 480).final.particle_q.numpy()[points - 1, 1])

    assert mu.grad.numpy()[0] == pytest.approx((moved(1e-6) - moved(-1e-6)) / 2e-6, rel=1e-5)


def met(kinds: tuple[str, str], seed: int) -> sim.Model:
    """Two bodies that fly into each other, neither rough nor elastic."""
    rng, made = np.random.default_rng([seed, 42]), sim.ModelBuilder(gravity=(0, 0, 0))
    for k, kind in enumerate(kinds):
        side = 2 * k - 1
        place = np.array([0.26 * side, 0, 0]) + rng.uniform(-0.04, 0.04, 3)
        velocity, q = np.array([-side, 0, 0]) + rng.uniform(-0.2, 0.2, 3), rng.normal(size=4)
        body = made.add_body([*place, *(q / np.linalg.norm(q))], label=f"b{k}", velocity=tuple(velocity),
                             spin=tuple(rng.uniform(-3, 3, 3)))  # fmt: skip
        if kind == "ball":
            made.add_shape_sphere(body, None, 0.1, cfg=Config(density=500), label="s")
        else:
            made.add_shape_box(body, None, 0.1, 0.08, 0.06, cfg=Config(density=700), label="s")
    return made.finalize(dtype=sim.float64, requires_grad=True)


@pytest.mark.parametrize(("kinds", "seed"), [(("ball", "box"), 0), (("box", "box"), 0)])
def test_what_stays_together_after_it_has_met_has_neighbours(kinds: tuple[str, str], seed: int) -> None:
    """Its velocity along the normal is that of a rounding error then, whose sign said that it had come into the other
    in this step, or eight steps before, and what touched by one that it rested: places 1e-8 m beside each other were
    1e-5 to 1e-3 apart, and derivatives by differences anything."""
    model = met(kinds, seed)
    solver, place = sim.SolverXPBD(model, iterations=2), model["b0.s.at"]
    weight = np.random.default_rng(5).normal(size=(2, 6))
    start = place.numpy().copy()
    with sim.Tape() as tape:
        end = sim.rollout(solver, model.state(), STEPS, 1 / 240).final
    tape.backward(grads={end.body_qd: sim.array(weight, dtype=end.body_qd.dtype)})
    slope = place.grad.numpy()[0, 1]

    def seen(by: float) -> float:
        place.assign(start + [[0, by, 0]])
        return float((weight * sim.rollout(solver, model.state(), STEPS, 1 / 240).final.body_qd.numpy()).sum())

    by = np.linspace(-1.0, 1.0, 20)
    values = np.array([seen(1e-6 * x) for x in by])
    fit = np.polynomial.Polynomial.fit(by, values, 3, domain=[-1, 1])
    np.testing.assert_allclose(fit(by), values, atol=1e-7)
    assert slope == pytest.approx(fit.deriv()(0.0) / 1e-6, rel=1e-3)
