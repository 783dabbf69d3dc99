"""Impacts of what turns fast, without friction and with it: next to no energy is gained."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import sim

G, RATE, HALF = 9.81, 480, 0.05


def tumbling(friction: float, restitution: float, spin: tuple[float, float, float]) -> sim.Model:
    """A cube that turns by a tenth of a radian in a step, above a floor."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    cfg = sim.ModelBuilder.ShapeConfig(density=700.0, mu=friction, restitution=restitution)
    builder.add_shape_box(builder.add_body([0, 0.1, 0], spin=spin), None, HALF, HALF, HALF, cfg=cfg)
    builder.add_ground_plane(0.0)
    return builder.finalize(dtype=sim.float64)


def gained(model: sim.Model) -> float:
    """The most energy that a step adds to the least before, as a part of that.  A cube has one inertia about all axes,
    and the velocity of a step is that of its middle."""
    m, inertia = model.body_mass.numpy()[0], model.body_inertia.numpy()[0, 0, 0]
    solver, a, b = sim.SolverXPBD(model, iterations=4), model.state(), model.state()
    least, most = np.inf, 0.0
    for _ in range(RATE // 2):
        solver.step(a, b, None, None, 1 / RATE)
        a, b = b, a
        v = a.body_qd.numpy()[0] - [0, 0.5 * G / RATE, 0, 0, 0, 0]
        now = 0.5 * (m * v[:3] @ v[:3] + inertia * v[3:] @ v[3:]) + m * G * a.body_q.numpy()[0, 1]
        most, least = max(most, now / least - 1), min(least, now)
    return most


@pytest.mark.parametrize("spin", [(40.0, 5.0, 10.0), (-20.0, 8.0, 35.0), (3.0, -45.0, 15.0)])
def test_no_energy_is_gained(spin):
    """Rebounds along the curve of C gained up to 11 % here, and Newton's law with friction 5 %.  What is left is that
    of a corner that rests on the floor and spins, 1.5e-4 in a step."""
    assert gained(tumbling(0.0, 1.0, spin)) < 5e-6
    assert gained(tumbling(0.6, 0.98, spin)) < 2e-3


def test_derivatives_of_impacts_that_give_back_less():
    """Through five of them, by where a cube falls from, its spin and coefficients, against differences."""
    start = {"height": 0.1, "mu": 0.6, "restitution": 0.98}

    def end(model):
        return sim.rollout(sim.SolverXPBD(model, iterations=4), model.state(), 60, 1 / RATE).final

    def cube(height, mu, restitution, gradient=False):
        builder = sim.ModelBuilder(gravity=(0, -G, 0))
        cfg = sim.ModelBuilder.ShapeConfig(density=700.0, mu=mu, restitution=restitution)
        body = builder.add_body([0, height, 0], spin=(40.0, 5.0, 10.0), label="cube")
        builder.add_shape_box(body, None, HALF, HALF, HALF, cfg=cfg, label="hull")
        builder.add_ground_plane(0.0)
        return builder.finalize(dtype=sim.float64, requires_grad=gradient)

    model = cube(**start, gradient=True)
    with sim.Tape() as tape:
        found = end(model)
    weight = np.zeros((1, 7))
    weight[0, 0] = 1.0
    tape.backward(grads={found.body_q: sim.array(weight, dtype=found.body_q.dtype)})
    of = {
        "height": model.materials["cube.position"].grad.numpy()[0, 1],
        "mu": model.materials["cube.hull.mu"].grad.numpy()[0],
        "restitution": model.materials["cube.hull.restitution"].grad.numpy()[0],
    }
    for name, value in start.items():
        sides = [end(cube(**{**start, name: value + h})).body_q.numpy()[0, 0] for h in (1e-7, -1e-7)]
        assert of[name] == pytest.approx((sides[0] - sides[1]) / 2e-7, rel=1e-6), name


def after_one(e: float, way: Callable[[float], float], start: float, speed: float, pushed: float, end: float) -> float:
    """Where something of `pushed` m/s^2 that hits a wall, which is at `way`, once is at the time `end`."""

    def place(t: float) -> float:
        return start + speed * t + 0.5 * pushed * t * t

    low, high = 0.0, end
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if place(middle) < way(middle) else (low, middle)
    rate = (way(low + 1e-6) - way(low - 1e-6)) / 2e-6
    left, came = end - low, speed + pushed * low
    return place(low) + (rate - e * (came - rate)) * left + 0.5 * pushed * left**2


@pytest.mark.parametrize("kind", ["wall", "body", "particle"])
def test_an_elastic_impact_knows_its_restitution_whatever_speeds_up(kind: str) -> None:
    """A wall that swings, or what a constant force pushes: energy was counted as if gravity alone did so.  It held back
    what is elastic in every second phase of the step, and d x / d e was 0 there."""
    d, frequency, start, speed, force, end = 0.05, 1.5, 0.05, 0.5, 3.0, 0.5
    moved, pushed = (d, 0.0) if kind == "wall" else (0.0, force)

    def way(t: float) -> float:
        return 0.27 + 0.5 * moved * (1.0 - np.cos(2.0 * np.pi * frequency * t))

    for rate in range(480, 500, 3):
        builder = sim.ModelBuilder(gravity=(0, 0, 0))
        cfg = sim.ModelBuilder.ShapeConfig(mass=1.0, restitution=1.0)
        wall = builder.add_body(
            (0.37, 0, 0), held=True, label="wall", motion=[{"swing": (moved, 0, 0), "frequency": 1.5}]
        )
        builder.add_shape_box(wall, None, 0.1, 0.2, 0.2, cfg=cfg, label="s")
        if kind == "particle":
            builder.add_particles([[start, 0, 0]], 1.0, vel=(speed, 0, 0))
        else:
            ball = builder.add_body((start - 0.05, 0, 0), label="ball", velocity=(speed, 0, 0))
            builder.add_shape_sphere(ball, radius=0.05, cfg=sim.ModelBuilder.ShapeConfig(mass=1.0), label="s")
        model = builder.finalize(dtype=sim.float64, requires_grad=True)
        steps = round(end * rate)
        with sim.Tape() as tape:
            state = model.state()
            if kind == "particle":
                state.particle_f.assign([[pushed, 0, 0]])
            elif kind == "body":
                state.body_f.assign([[0] * 6, [pushed, 0, 0, 0, 0, 0]])
            found = sim.rollout(sim.SolverXPBD(model), state, steps, 1 / rate).final
        seen = found.particle_q if kind == "particle" else found.body_q
        weight = np.zeros(seen.numpy().shape)
        weight[-1, 0] = 1.0
        tape.backward(grads={seen: sim.array(weight, dtype=seen.dtype)})
        place = seen.numpy()[-1, 0] + (0.0 if kind == "particle" else 0.05)
        most, least = (after_one(1 + s * 1e-5, way, start, speed, pushed, steps / rate) for s in (1, -1))
        assert place == pytest.approx(0.5 * (most + least), abs=3e-3 if pushed else 1e-4), rate
        assert model["wall.s.restitution"].grad.numpy()[0] == pytest.approx((most - least) / 2e-5, rel=1e-2), rate
