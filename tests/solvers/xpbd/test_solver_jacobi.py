"""One Jacobi projection against its closed form: mass splitting, compliance, pinned points, momentum."""

import numpy as np
import pytest
from tools.physics.steps import positions

import sim

DT = 0.01


def chain(stretched, masses, compliance, pinned=()):
    """Points on a line, constraints of length 1 between neighbours, no gravity."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    start = np.zeros((len(masses), 3))
    start[:, 0] = np.arange(len(masses))
    builder.add_particles(start, mass=masses)
    builder.add_constraints(
        "distance", np.stack([np.arange(len(masses) - 1), np.arange(1, len(masses))], 1), compliance=compliance
    )
    model = builder.finalize(dtype=sim.float64)
    state = model.state()
    moved = start.copy()
    moved[:, 0] = stretched
    state.particle_q.assign(moved)
    return model, state


def projected(x, masses, compliance):
    """Every constraint looks at the same positions; a point of n constraints is n points of an nth of its mass."""
    w, shares = 1.0 / masses, np.full(len(masses), 2.0)
    shares[[0, -1]] = 1.0
    moved = x.copy()
    for k in range(len(x) - 1):
        c = x[k + 1] - x[k] - 1.0
        change = -c / (w[k] * shares[k] + w[k + 1] * shares[k + 1] + compliance / DT**2)
        moved[k] -= w[k] * change
        moved[k + 1] += w[k + 1] * change
    return moved


@pytest.mark.parametrize("compliance", [0.0, 1e-4])
@pytest.mark.parametrize("masses", [[1.0, 1.0, 1.0], [0.5, 2.0, 3.0, 1.0]])
def test_one_projection(masses, compliance):
    masses = np.array(masses)
    x = np.cumsum([0.0, 1.3, 0.9, 1.2])[: len(masses)]
    model, state = chain(x, masses, compliance)
    after = model.state()
    sim.SolverXPBD(model, 1, "jacobi").step(state, after, None, None, DT)
    found = positions(after)[:, 0]
    np.testing.assert_allclose(found, projected(x, masses, compliance), rtol=1e-14)
    assert masses @ found == pytest.approx(masses @ x, rel=1e-14), "the centre of mass stays"


def test_a_second_iteration_goes_on_from_the_multipliers_of_the_first():
    """alpha (lambda) is in the residual: without it compliant constraints would be projected as if nothing had been
    done."""
    masses, compliance, x = np.array([1.0, 1.0, 2.0]), 1e-4, np.array([0.0, 1.3, 2.2])
    model, state = chain(x, masses, compliance)
    after = model.state()
    sim.SolverXPBD(model, 2, "jacobi").step(state, after, None, None, DT)
    w, shares, alpha = 1 / masses, np.array([1.0, 2.0, 1.0]), compliance / DT**2
    now, multiplier = x.copy(), np.zeros(2)
    for _ in range(2):
        change = np.array(
            [
                -(now[k + 1] - now[k] - 1.0 + alpha * multiplier[k])
                / (w[k] * shares[k] + w[k + 1] * shares[k + 1] + alpha)
                for k in range(2)
            ]
        )
        now = now + w * np.array([-change[0], change[0] - change[1], change[1]])
        multiplier += change
    np.testing.assert_allclose(positions(after)[:, 0], now, rtol=1e-14)


def test_shares_are_numbers_of_constraints_and_one_where_there_is_none():
    model, _ = chain(np.array([0.0, 1.0, 2.0]), np.ones(3), 0.0)
    builder = sim.ModelBuilder()
    builder.add_particles(np.eye(3), mass=1.0)
    builder.add_constraints("distance", np.array([[0, 1]]), compliance=0.0)
    for made, shares in ((model, [1.0, 2.0, 1.0]), (builder.finalize(), [1.0, 1.0, 1.0])):
        solver = sim.SolverXPBD(made, 1, "jacobi")
        assert solver._constraints_per_point(solver.batches).list() == shares
