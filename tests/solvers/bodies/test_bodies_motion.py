"""Rigid bodies against closed forms and the equations of motion by an independent integrator: values and gradients."""

import numpy as np
import pytest
from body_models import G, energy, momenta, pendulum, random_tree
from physics_tools import take_steps
from scipy.integrate import solve_ivp
from slot_samples import log, product, turned

import sim

TUMBLING = np.array([1.0, 2.0, 3.0])


def free_body(spin, inertia=TUMBLING):
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_body((0, 0, 0), mass=2.0, inertia=inertia, spin=spin, label="body")
    return builder.finalize(dtype=sim.float64)


def euler_equations(spin, T, inertia=TUMBLING):
    """Attitude of a free body after T, (4,)."""

    def rates(_, y):
        q, w = y[:4], y[4:]  # w in the body
        return np.concatenate([0.5 * product(q, np.array([*w, 0])), np.cross(inertia * w, w) / inertia])

    solved = solve_ivp(rates, (0, T), [0, 0, 0, 1, *spin], method="DOP853", rtol=1e-12, atol=1e-13)
    return solved.y[:4, -1] / np.linalg.norm(solved.y[:4, -1])


# ------------------------------------------------------------------------------------------ free bodies
def test_free_tumbling_keeps_what_it_should_and_is_of_second_order():
    """R1: |L| to rounding, the energy to second order, the attitude within 0.016 degrees after 5 s at 240 Hz."""
    exact, errors = euler_equations((1, 2, 3), 5.0), []
    for rate in (240, 480):
        model = free_body((1, 2, 3))
        final = sim.rollout(sim.SolverXPBD(model), model.state(), 5 * rate, 1 / rate).final
        q = final.body_q.numpy()[0, 3:]
        back = np.array([*-exact[:3], exact[3]])
        errors.append(np.degrees(np.linalg.norm(log(product(back, q)))))
        np.testing.assert_allclose(momenta(final)[1], TUMBLING * (1, 2, 3), atol=1e-11)
        assert abs(energy(final) / energy(model.state()) - 1) < 3e-4
        assert abs(np.linalg.norm(q) - 1) < 1e-15
    assert errors[0] < 0.017 and 3.8 < errors[0] / errors[1] < 4.2


def test_the_intermediate_axis_turns_over():
    """R1, 20 s, seen every 0.05 s: the Dzhanibekov effect, with |L| and the energy that it began with."""
    model, spin = free_body((1e-3, 5, 1e-3)), np.array([1e-3, 5, 1e-3])
    solver, state, seen = sim.SolverXPBD(model), model.state(), []
    for _ in range(400):
        state = sim.rollout(solver, state, 12, 1 / 240).final
        q, w = state.body_q.numpy()[0, 3:], state.body_qd.numpy()[0, 3:]
        seen.append([(turned(q).T @ w)[1], energy(state), np.linalg.norm(momenta(state)[1])])
    about, energies, L = np.array(seen).T
    assert about.min() < -4.99 and about.max() > 4.99
    np.testing.assert_allclose(L, np.linalg.norm(TUMBLING * spin), rtol=1e-11)
    assert np.abs(energies / energies[0] - 1).max() < 3e-4


def test_a_spin_is_kept():
    model = free_body((0, 0, 50.0))
    final = sim.rollout(sim.SolverXPBD(model), model.state(), 60, 1 / 60).final
    np.testing.assert_allclose(final.body_qd.numpy()[0, 3:], [0, 0, 50], rtol=1e-13)


def test_a_slow_body_far_away_moves_in_single_precision():
    """Its place has no room for the displacement of a step."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_body((100.0, 0, 0), mass=1.0, inertia=0.1, velocity=(1e-3, 0, 0))
    model = builder.finalize(dtype=sim.float32)
    final = sim.rollout(sim.SolverXPBD(model), model.state(), 2400, 1 / 2400).final
    moved = final.body_q.numpy()[0, 0] - 100.0 + final.history["body_q_low"].numpy()[0, 0]
    assert moved == pytest.approx(1e-3, rel=1e-4)


@pytest.mark.parametrize(
    ("seed", "kinds"),
    [(3, ("ball",)), pytest.param(4, ("ball", "revolute"), marks=pytest.mark.slow)]
    + [pytest.param(s, ("ball", "revolute", "fixed", "prismatic"), marks=pytest.mark.slow) for s in (5, 6)],
)
def test_free_trees_keep_their_momenta(seed, kinds):
    """1,000 steps of rigid joints: linear and angular momentum to rounding, quaternions of length 1."""
    model = random_tree(seed, 4, kinds, rooted=False, gravity=False, particles=False, soft=False).finalize(
        dtype=sim.float64
    )
    state, solver = model.state(), sim.SolverXPBD(model, iterations=2)
    first = sim.rollout(solver, state, 1, 1 / 240).final  # with it end velocities that are none of the joints'
    final = sim.rollout(solver, state, 1000, 1 / 240).final
    assert 0.75 < energy(final) / energy(first) < 1.01  # two sweeps leave some of those for later steps
    for found, began in zip(momenta(final), momenta(state), strict=True):
        np.testing.assert_allclose(found, began, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(final.body_q.numpy()[:, 3:], axis=1), 1, rtol=1e-15)


# ------------------------------------------------------------------------------------------ pendulums and tops
def swinging(length=1.0):
    """A uniform rod at 90 degrees: the body's origin is the hinge."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    rod = builder.add_body(
        [0, 0, 0, 0, 0, np.sin(np.pi / 4), np.cos(np.pi / 4)],
        mass=1.0, inertia=(length**2 / 12, 1e-3, length**2 / 12), com=(0, -length / 2, 0), label="rod",
    )  # fmt: skip
    builder.add_constraints("ball", [[builder.point_of(-1), builder.point_of(rod)]], compliance=0.0, label="hinge")
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def test_the_period_of_a_pendulum_and_its_derivatives():
    """R2: T 1.933335, dT/dL .966667, dT/dg -.098539: twice the time between the first passages below."""
    period, errors = 1.933335, {}
    for rate in (240, 480):
        model, h = swinging(), 1 / rate
        with sim.Tape() as tape:
            run = sim.rollout(sim.SolverXPBD(model), model.state(), round(0.8 * period * rate), h, frame_every=1)
        angle = 2 * np.arcsin(run.body_q.numpy()[:, 0, 5])
        of_angle, T = np.zeros(run.body_q.shape + (7,)), 0.0
        for k, sign in zip(np.flatnonzero(angle[1:] * angle[:-1] < 0), (-2, 2), strict=True):
            speed = (angle[k + 1] - angle[k]) / h
            T += sign * (k * h - angle[k] / speed)
            of_angle[k, 0, 5] = -sign / speed * 2 / np.cos(angle[k] / 2)
        tape.backward(grads={run.body_q: sim.array(of_angle, dtype=run.body_q.dtype)})
        com, inertia, g = (model[name].grad.numpy()[0] for name in ("rod.com", "rod.inertia", "gravity"))
        found = T, -com[1] / 2 + inertia[2] / 6, -g[1]
        errors[rate] = [abs(f / w - 1) for f, w in zip(found, (period, 0.966667, -0.098539), strict=True)]
    assert errors[240][0] < 1e-4 and max(errors[240][1:]) < 1e-3
    assert max(errors[480]) < 3e-4


@pytest.mark.parametrize("inertia", [1e-9, 1e-2])
def test_a_rigid_pendulum_keeps_its_energy(inertia):
    """The height that it comes back to after 4 periods at 60 Hz: along the directions of the start all of it, along
    those of the end a tenth (contact-notes 2).  Of a bob without inertia too, whose block has no positive diagonal."""
    heights: dict[str, list[float]] = {"joints": [], "end": []}
    for direction, seen in heights.items():
        model = pendulum(inertia=inertia).finalize(dtype=sim.float64)
        solver = sim.SolverXPBD(model, direction=direction)
        take_steps(
            solver, model.state(), 480, 1 / 60, each=lambda s, seen=seen: seen.append(s.body_q.numpy()[0, 1])
        )  # fmt: skip
    assert max(heights["joints"][-70:]) == pytest.approx(0, abs=2e-3)
    assert max(heights["end"][-70:]) < -0.7


def test_a_double_pendulum_swings_in_its_modes():
    """R3: two uniform rods, m = L = 1."""
    for omega in (2.680114, 7.188671):
        M, K = np.array([[4 / 3, 0.5], [0.5, 1 / 3]]), G * np.diag([1.5, 0.5])
        values, modes = np.linalg.eig(np.linalg.solve(M, K))
        k = int(np.argmin(np.abs(np.sqrt(values) - omega)))
        assert np.sqrt(values[k]) == pytest.approx(omega, rel=1e-6)
        angles = 1e-3 * modes[:, k] / np.abs(modes[:, k]).max()
        builder, at = sim.ModelBuilder(gravity=(0, -G, 0)), np.zeros(3)
        last = -1
        for j, angle in enumerate(angles):
            down = np.array([np.sin(angle), -np.cos(angle), 0])
            body = builder.add_body(
                [*(at + 0.5 * down), 0, 0, np.sin(angle / 2), np.cos(angle / 2)],
                mass=1.0, inertia=(1 / 12, 1e-3, 1 / 12), label=f"rod{j}",
            )  # fmt: skip
            upper = builder.point_of(last, (0, 0, 0) if last < 0 else (0, -0.5, 0))
            builder.add_constraints("ball", [[upper, builder.point_of(body, (0, 0.5, 0))]], compliance=0.0)
            at, last = at + down, body
        model = builder.finalize(dtype=sim.float64)
        steps = round(2 * np.pi / omega / 4 * 960)
        h = 2 * np.pi / omega / 4 / steps
        final = sim.rollout(sim.SolverXPBD(model, iterations=20), model.state(), steps, h).final
        angle, rate = 2 * final.body_q.numpy()[0, 5], final.body_qd.numpy()[0, 5]
        T = 4 * ((steps + 0.5) * h - angle / rate)  # from rest: velocities are those of the middle of a step
        assert 2 * np.pi / T == pytest.approx(omega, rel=5e-4)


def test_a_top_precesses():
    """R4: m .5, l .05, I1 8e-4 about the centre of mass, I3 6e-4, 30 degrees, 200 rad/s."""
    m, length, I1, I3, tilt, spin, slow = 0.5, 0.05, 8e-4, 6e-4, np.radians(30), 200.0, 2.109592
    assert (I1 + m * length**2) * slow**2 * np.cos(tilt) - I3 * spin * slow + m * G * length == pytest.approx(
        0, abs=1e-6
    )
    axis = np.array([np.sin(tilt), 0, np.cos(tilt)])
    omega = np.array([0, 0, slow]) + (spin - slow * np.cos(tilt)) * axis
    builder = sim.ModelBuilder(gravity=(0, 0, -G))
    top = builder.add_body(
        [*(length * axis), 0, np.sin(tilt / 2), 0, np.cos(tilt / 2)], mass=m, inertia=(I1, I1, I3), spin=omega,
        velocity=np.cross((0, 0, slow), length * axis), label="top",
    )  # fmt: skip
    builder.add_constraints(
        "ball", [[builder.point_of(-1), builder.point_of(top, (0, 0, -length))]], compliance=0.0, label="tip"
    )
    model = builder.finalize(dtype=sim.float64)
    T = 0.5
    final = sim.rollout(sim.SolverXPBD(model), model.state(), round(T * 960), 1 / 960).final
    up = turned(final.body_q.numpy()[0, 3:])[:, 2]
    assert np.arctan2(up[1], up[0]) / T == pytest.approx(slow, rel=0.01)
    assert up[2] == pytest.approx(np.cos(tilt), abs=1e-3)
