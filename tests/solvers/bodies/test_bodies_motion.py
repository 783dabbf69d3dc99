"""Rigid bodies: what free ones keep, and how pendulums keep their energy.  Their motions beside closed forms:
`test_closed_forms.py`."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from tools.bodies.models import energy, momenta, pendulum, random_tree
from tools.constraints.slots import log, product, turned
from tools.physics.steps import take_steps

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
    """1,000 steps of rigid joints: linear and angular momentum to rounding, quaternions of length 1, the energy."""
    model = random_tree(seed, 4, kinds, rooted=False, gravity=False, particles=False, soft=False).finalize(
        dtype=sim.float64
    )
    state, solver = model.state(), sim.SolverXPBD(model, iterations=2)
    held = sim.rollout(solver, state, 100, 1 / 240).final  # the start's velocities are none of the joints'
    final = sim.rollout(solver, held, 900, 1 / 240).final
    assert energy(final) == pytest.approx(energy(held), rel=2e-3)
    for found, began in zip(momenta(final), momenta(state), strict=True):
        np.testing.assert_allclose(found, began, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(final.body_q.numpy()[:, 3:], axis=1), 1, rtol=1e-15)


# ------------------------------------------------------------------------------------------ pendulums
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
