"""Motions that follow recordings: the spline, its place in replicated worlds, the gradient by what it carries."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

import sim
from sim.model import ModelError
from sim.model.build.motions import read_motions, spline_slopes


@pytest.mark.parametrize("count", [2, 3, 4, 5, 40])
def test_slopes_are_those_of_the_spline_without_knots_at_its_ends(count):
    rng = np.random.default_rng(count)
    t = np.cumsum(rng.uniform(0.01, 0.1, count))
    y = rng.normal(size=(count, 3))
    np.testing.assert_allclose(spline_slopes(t, y), CubicSpline(t, y, axis=0)(t, 1), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(spline_slopes(t[:1], y[:1]), np.zeros((1, 3)))


def turned(theta):
    """The matrix of a rotation vector along z."""
    c, s = np.cos(theta), np.sin(theta)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def follow(t):
    """A recording of a place at (1, 0, 0) that rises, and of a turn about z."""
    up = np.stack([0 * t, 0 * t, t**3], axis=1)
    return {"time": t, "move": up, "turn": np.stack([0 * t, 0 * t, t - t**2], axis=1), "about": (1.0, 0.0, 0.0)}


def held(worlds=1, requires_grad=False, dtype=sim.float64, motion=None, **more):
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    points = builder.add_particles([(0.0, 0.0, 0.0), (0.5, 0.2, 0.0), (1.0, 1.0, 0.0)], 1.0)
    builder.add_attachment(points, motion, label="hand", **more)
    builder.add_particle((9.0, 0.0, 0.0))  # something has to be free
    model = builder.replicate(worlds).finalize(requires_grad=requires_grad, dtype=dtype)
    return model, sim.SolverXPBD(model)


@pytest.mark.parametrize("dtype, close", [(sim.float64, 1e-12), (sim.float32, 1e-6)])
def test_held_points_and_their_gradient_by_what_holds_them(dtype, close):
    """Cubic polynomials are followed exactly; behind the samples the last of them holds."""
    motion = {"follow": follow(np.linspace(0, 0.5, 6))}
    model, solver = held(motion=motion, requires_grad=True, dtype=dtype, offset=(0, 0, 0.1))
    about, weights = np.array([1.0, 0, 0]), np.tile([1.0, 2.0, 3.0], (4, 1))
    for dt in (0.11, 0.2, 0.7):
        with sim.Tape() as tape:
            before, after = model.state(), model.state()
            solver.step(before, after, model.control(), None, dt)
        time = min(dt, 0.5)
        R = turned(time - time**2)
        x0 = before.particle_q.numpy()[:3]
        np.testing.assert_allclose(
            after.particle_q.numpy()[:3], (x0 - about) @ R.T + about + [0, 0, time**3], atol=close
        )
        tape.backward(grads={after.particle_q: sim.array(weights, dtype=after.particle_q.dtype)})
        np.testing.assert_allclose(model["hand.offset"].grad.numpy()[0], 3 * R.T @ [1, 2, 3], rtol=1e-5)
        tape.zero()


def test_every_world_follows():
    motion = [{"move": (0, 1, 0), "end": 1.0}, {"follow": follow(np.array([0.0, 0.1, 0.2, 0.3]))}]
    model, solver = held(worlds=2, motion=motion)
    before, after = model.state(), model.state()
    solver.step(before, after, model.control(), None, 0.2)
    x, R = after.particle_q.numpy(), turned(0.16)
    np.testing.assert_allclose(x[3:6], x[:3], atol=1e-15)
    place = R @ [-1.0, 0, 0] + [1.0, 0.2**2 * (3 - 0.4), 0.2**3]
    np.testing.assert_allclose(x[0], place, atol=1e-12)
    assert "hand.motion.0.move" in model.materials and "hand.motion.1.follow" not in model.materials


@pytest.mark.parametrize("change, what", [
    ({"time": None}, "needs 'time' and 'move'"),
    ({"time": [0.0, 0.2, 0.1]}, "increasing times"),
    ({"move": np.zeros((2, 3))}, "3 times, 2 displacements, 3 turns"),
    ({"pace": 1}, "pace"),
])  # fmt: skip
def test_what_is_no_recording(change, what):
    with pytest.raises(ModelError, match=what):
        read_motions({"follow": {**follow(np.array([0.0, 0.1, 0.2])), **change}})
    with pytest.raises(ModelError, match="two recordings"):
        read_motions([{"follow": follow(np.arange(3.0))}] * 2)


def falling(dt, steps, solver=sim.SolverXPBD, worlds=1):
    """Heights of a point that is carried up at 1 m/s, and let go after 0.1 s, in steps of dt."""
    builder = sim.ModelBuilder(gravity=(0, -10, 0))
    points = builder.add_particles([(0.0, 0.0, 0.0), (1.0, 0.0, 0.0)], 0.1)
    motion = [{"move": (0, 0.5, 0), "end": 0.5, "ease": "linear"}, {"release": 0.1}]
    builder.add_attachment([points.start], motion, 1e-7, "hand")
    model = builder.replicate(worlds).finalize(dtype=sim.float64, requires_grad=True)
    q = sim.rollout(solver(model), model.state(), steps, dt, frame_every=1).particle_q.numpy()
    return q[:, 0, 1], q[:, -2, 1]


@pytest.mark.parametrize("solver", [sim.SolverXPBD, sim.SolverNewton])
def test_points_that_are_let_go_fly_on(solver):
    dt = 1e-3
    first, last = falling(dt, 200, solver, worlds=2)
    np.testing.assert_array_equal(first, last)
    t = dt * np.arange(1, 201)
    np.testing.assert_allclose(first[:100], t[:100], atol=2e-5)  # 100 N pull it along in the first step
    late = t[100:] - 0.1
    np.testing.assert_allclose(first[100:], 0.1 + late - 5 * late * (late + dt), atol=1e-5)  # as Euler's method falls


def test_pinned_points_are_not_let_go():
    with pytest.raises(ModelError, match="pinned, which is for ever, and released"):
        held(motion={"release": 0.1})
    with pytest.raises(ModelError, match="needs one of"):
        read_motions({"release": 0.1}, of_body=True)


@pytest.mark.parametrize(
    "solver, order", [(sim.SolverXPBD, 1), (sim.SolverNewton, 1), (lambda m: sim.SolverXPBD(m, integrator="bdf2"), 2)]
)
def test_points_share_a_force_over_time(solver, order):
    """A force that grows, shared by two points of a mass: x = F t^3 / (6 T m), to the order of the integrator."""

    def end(dt):
        builder = sim.ModelBuilder(gravity=(0, 0, 0))
        points = builder.add_particles([(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (2.0, 0.0, 0.0)], 0.5)
        builder.add_load(points.points[:2], 0.0, "pull", force=([0.0, 0.2, 0.4], [(0, 0, 0), (0, 1.0, 0), (0, 2.0, 0)]))
        model = builder.replicate(2).finalize(dtype=sim.float64, requires_grad=True)
        with sim.Tape() as tape:
            q = sim.rollout(solver(model), model.state(), round(0.3 / dt), dt, frame_every=round(0.3 / dt)).particle_q
        tape.backward(grads={q: sim.array(np.tile([0.0, 1.0, 0.0], (1, 6, 1)), dtype=sim.vec3d)})
        y = q.numpy()[0, :, 1].reshape(2, 3)
        np.testing.assert_array_equal(y[0], y[1])
        assert y[0, 2] == 0.0 and y[0, 0] == y[0, 1]
        np.testing.assert_allclose(model["pull.mass"].grad.numpy(), -2.0 * y[:, 0], rtol=1e-9)  # y ~ 1 / (m + M / 2)
        return y[0, 0]

    exact = 0.5 * 5.0 * 0.3**3 / (6 * 0.5)
    errors = [abs(end(dt) - exact) / exact for dt in (0.01, 0.005)]
    assert errors[0] < (0.11 if order == 1 else 0.01) and errors[1] < errors[0] / (1.8 if order == 1 else 3.3), errors


def test_forces_that_cannot_be():
    builder = sim.ModelBuilder()
    points = builder.add_particles([(0.0, 0.0, 0.0), (1.0, 0.0, 0.0)], 0.5)
    with pytest.raises(ModelError, match="times that do not increase"):
        builder.add_load(points, 0.0, "a", force=([0.0, 0.0], [(0, 0, 0), (0, 1.0, 0)]))
    builder.add_load(points, 0.0, "b", force=([0.0], [(0, 0, 1.0)]))
    builder.add_load(points, 0.0, "c", force=([0.0], [(0, 0, 1.0)]))
    with pytest.raises(ModelError, match="two forces over time"):
        builder.finalize()
