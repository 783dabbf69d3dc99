"""Starts half a step back: what flies, slides and bounces is where the formula says at any step, and what hangs on
something elastic begins as published."""

import math

import numpy as np
import pytest

import sim

G = 9.81
DT = 1.0 / 120.0
COARSE = sim.ModelBuilder.ShapeConfig(density=500.0, mu=0.3, restitution=0.8)


def builder(**gravity):
    return sim.ModelBuilder(gravity=(0, -G, 0), **gravity)


def rolled(model, steps=60, dt=DT, **settings):
    """Positions and frames (steps, bodies, 7) of a rollout from a start half a step back."""
    solver, state = sim.SolverXPBD(model, **settings), model.state()
    sim.LeapfrogStart(solver).apply(state, dt)
    return sim.rollout(solver, state, steps, dt, frame_every=1)


def times(steps=60):
    return DT * np.arange(1, steps + 1)


def bounced(t, height, radius, e):
    """Height of a ball that falls from rest, after a time t [s]."""
    x, v = height, 0.0
    while True:
        until = (v + math.sqrt(v * v + 2.0 * G * (x - radius))) / G
        if until > t:
            return x + v * t - 0.5 * G * t * t
        t, v, x = t - until, e * (G * until - v), radius


def test_bodies_and_particles_fly_along_the_parabola():
    b = builder()
    b.add_particle((0, 0, 0), (1.0, 2.0, 0.0))
    b.add_shape_box(b.add_body(sim.transform([3.0, 0, 0], [0, 0, 0, 1]), velocity=(1, 2, 0)), None, 0.1, 0.2, 0.3)
    made, t = rolled(b.finalize(dtype=sim.float64)), times()
    height = 2.0 * t - 0.5 * G * t**2
    np.testing.assert_allclose(made.particle_q.numpy()[:, 0, 1], height, atol=1e-12)
    np.testing.assert_allclose(made.body_q.numpy()[:, 0, 1], height, atol=1e-12)
    np.testing.assert_allclose(made.body_q.numpy()[:, 0, 0], 3.0 + t, atol=1e-12)


def test_as_published_a_fall_ends_too_low():
    """What the start is for: without it the error is g h t / 2."""
    b = builder()
    b.add_particle((0, 0, 0))
    model = b.finalize(dtype=sim.float64)
    end = sim.rollout(sim.SolverXPBD(model), model.state(), 60, DT).final
    t = 60 * DT
    assert end.particle_q.numpy()[0, 1] == pytest.approx(-0.5 * G * t**2 - 0.5 * G * DT * t, abs=1e-12)


@pytest.mark.parametrize("height", [0.4, 0.437, 0.5])
def test_a_ball_bounces_where_it_should(height):
    b = builder()
    b.add_shape_plane((0, 1, 0, 0), cfg=COARSE)
    b.add_shape_sphere(b.add_body(sim.transform([0, height, 0], [0, 0, 0, 1])), None, 0.05, cfg=COARSE)
    made = rolled(b.finalize(dtype=sim.float64), 100)
    expected = [bounced(t, height, 0.05, 0.8) for t in times(100)]
    np.testing.assert_allclose(made.body_q.numpy()[:, 0, 1], expected, atol=1e-6)


def test_a_box_slides_where_it_should():
    """x = v t - mu g t^2 / 2: contacts answer half the weight in the first step, and rub by that."""
    b = builder()
    b.add_shape_plane((0, 1, 0, 0), cfg=COARSE)
    b.add_shape_box(
        b.add_body(sim.transform([0, 0.05, 0], [0, 0, 0, 1]), velocity=(2, 0, 0)), None, 0.3, 0.05, 0.3, cfg=COARSE
    )
    made, t = rolled(b.finalize(dtype=sim.float64), iterations=20), times()
    np.testing.assert_allclose(made.body_q.numpy()[:, 0, 0], 2.0 * t - 0.5 * 0.3 * G * t**2, atol=2e-5)


def test_a_ball_rolls_where_it_should():
    """5/7 of g sin(a) without slipping: an error of second order, where a start as published has 2.4 mm of 300."""
    slope = math.radians(20.0)
    errors = []
    for rate in (240, 480):
        b = sim.ModelBuilder(gravity=(G * math.sin(slope), -G * math.cos(slope), 0))
        rough = b.ShapeConfig(density=500.0, mu=0.5, restitution=0.0)
        b.add_shape_plane((0, 1, 0, 0), cfg=rough)
        b.add_shape_sphere(b.add_body(sim.transform([0, 0.05, 0], [0, 0, 0, 1])), None, 0.05, cfg=rough)
        end = rolled(b.finalize(dtype=sim.float64), rate // 2, 1.0 / rate).final
        errors.append(abs(end.body_q.numpy()[0, 0] - 0.5 * (5.0 / 7.0) * G * math.sin(slope) * 0.5**2))
    assert errors[0] < 1e-4 and 3.5 < errors[0] / errors[1] < 4.5


def test_outer_forces_and_torques_count():
    b = sim.ModelBuilder(gravity=(0, 0, 0))
    body = b.add_body(mass=2.0, inertia=(0.1, 0.1, 0.1))
    b.add_body_force(body, force=([0.0], [(4.0, 0, 0)]), torque=([0.0], [(0, 0, 0.05)]))
    made, t = rolled(b.finalize(dtype=sim.float64)), times()
    q = made.body_q.numpy()[:, 0]
    np.testing.assert_allclose(q[:, 0], t**2, atol=1e-12)
    np.testing.assert_allclose(2.0 * np.arctan2(q[:, 5], q[:, 6]), 0.25 * t**2, atol=1e-12)


def test_gradients_know_the_start():
    """Of where a fall from rest ends, t^2 / 2 by gravity: v_0, half a step back, is a function of it too."""
    b = builder()
    b.add_shape_sphere(b.add_body(), None, 0.1)
    model = b.finalize(dtype=sim.float64, requires_grad=True)
    model.gravity.requires_grad = True
    with sim.Tape() as tape:
        end = rolled(model).final
    tape.backward(grads={end.body_q: sim.array([[0.0, 1, 0, 0, 0, 0, 0]], dtype=end.body_q.dtype)})
    np.testing.assert_allclose(model.gravity.grad.numpy(), [[0.0, 0.5 * (60 * DT) ** 2, 0.0]], atol=1e-14)


def pendulum(b, **more):
    """A body that a joint holds to the world."""
    body = b.add_body(sim.transform([1, 0, 0], [0, 0, 0, 1]), mass=1.0, inertia=(0.1, 0.1, 0.1))
    b.add_joint_revolute(-1, body, parent_xform=sim.transform([0, 0, 0], [0, 0, 0, 1]),
                         child_xform=sim.transform([-1, 0, 0], [0, 0, 0, 1]), axis=(0, 0, 1), **more)  # fmt: skip
    return body


def hung(b, compliance, held=True):
    """A particle on another one, which is held."""
    b.add_particle((0, 0, 0), mass=0.0 if held else 1.0)
    b.add_particle((0, -1, 0), mass=1.0)
    b.add_spring(0, 1, compliance=compliance)


def cloth(b, **more):
    b.add_cloth_grid(
        dim_x=1, dim_y=1, cell_x=0.1, cell_y=0.1, mass=0.01, material={"distance": {"compliance": 1e-3}}, **more
    )


def rod(b, **more):
    line = [(0.1 * k, 0.0, 0.0) for k in range(4)]
    b.add_rod(line, radius=0.005, density=1000, young=1e6, poisson=0.3, cfg=b.default_shape_cfg, **more)


CASES = {
    "free": (lambda b: b.add_particle((0, 0, 0)), [1], []),
    "pendulum": (lambda b: pendulum(b), [], [1]),
    "damped": (lambda b: pendulum(b, target_kd=0.1), [], [1]),
    "driven": (lambda b: pendulum(b, target_ke=10.0), [], [0]),
    "spring": (lambda b: hung(b, 1e-3), [0, 0], []),
    "link": (lambda b: hung(b, 0.0), [0, 1], []),
    "spring that flies": (lambda b: hung(b, 1e-3, held=False), [1, 1], []),
    "cloth": (lambda b: cloth(b, fix_left=True), [0, 0, 0, 0], []),
    "cloth that flies": (lambda b: cloth(b), [1, 1, 1, 1], []),
    "cloth on soft attachments": (lambda b: (cloth(b), b.add_attachment([0], compliance=1e-3)), [0] * 4, []),
    "rod": (lambda b: rod(b, clamp_start=-1), [], [0, 0, 0]),
    "rod that flies": (lambda b: rod(b), [], [1, 1, 1]),
}


def test_long_chains_are_one_mechanism():
    """A spring at the far end of a hundred links keeps all of them as they are."""
    b = builder()
    places = np.random.default_rng(5).permutation(102)
    for _ in places:
        b.add_particle((0, 0, 0), mass=1.0)
    b.add_attachment([int(places[0])])
    for k, (i, j) in enumerate(zip(places, places[1:], strict=False)):
        b.add_spring(int(i), int(j), compliance=1e-3 if k == 100 else 0.0, rest_length=1.0)
    b.add_particle((0, 0, 0), mass=1.0)
    particles, _ = sim.LeapfrogStart(sim.SolverXPBD(b.finalize(dtype=sim.float64))).loose
    assert particles.numpy().tolist() == [0.0] * 102 + [1.0]


@pytest.mark.parametrize("case", CASES)
def test_what_is_taken_back(case):
    add, particles, bodies = CASES[case]
    b = builder()
    add(b)
    found = sim.LeapfrogStart(sim.SolverXPBD(b.finalize(dtype=sim.float64))).loose
    assert [of.numpy().tolist() for of in found] == [particles, bodies]
