"""The steps of SolverNewton: closed forms, what XPBD converges to, values that belong to the material."""

import numpy as np
import pytest
from tools.physics.newton_models import chain

import sim


def rest(model, solver, steps, dt):
    return sim.rollout(solver, model.state(), steps, dt).final.particle_q.numpy().copy()


def test_an_oscillator_is_its_matrix_power():
    """Implicit Euler with damping: (1 + h^2 k + h k tau) y' = (1 + h k tau) y + h v."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_particle((0, 0, 0), mass=0.0)
    builder.add_particle((1.5, 0, 0), mass=1.0)
    builder.add_spring(0, 1, 1e-3, 2e-3, rest_length=1.0)
    model = builder.finalize(dtype=sim.float64)
    h, n, k, tau = 1e-2, 50, 1e3, 2e-3
    row = np.array([1 + h * k * tau, h]) / (1 + h * h * k + h * k * tau)
    want = np.linalg.matrix_power(np.array([row, (row - [1, 0]) / h]), n) @ [0.5, 0.0]
    final = sim.rollout(sim.SolverNewton(model), model.state(), n, h).final
    assert final.particle_q.numpy()[1, 0] - 1 == pytest.approx(want[0], abs=1e-12)
    assert final.particle_qd.numpy()[1, 0] == pytest.approx(want[1], abs=1e-10)


def plate(compliance=0.0):
    """Three points with springs, falling on a floor that is not level."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    places = [(0, 0.01, 0), (0.1, 0.02, 0), (0, 0.01, 0.1)]
    for k, place in enumerate(places):
        builder.add_particle(place, mass=0.1 * (k + 1))
    for i, j in ((0, 1), (1, 2), (2, 0)):
        builder.add_spring(i, j, 1e-3, 0.05, rest_length=0.1)
    builder.add_ground_plane(normal=(0, 1, 0.05), compliance=compliance)
    return builder


MODELS = {
    "damped": lambda: chain(damping=0.02),
    "rigid": lambda: chain(compliance=0.0),
    "on a floor": plate,
    "on a soft floor": lambda: plate(1e-4),
}


@pytest.mark.parametrize("name", MODELS)
def test_both_solvers_converge_to_each_other(name):
    """Many projections still apply each force along the gradient of its iteration: the rest halves with the step."""
    model = MODELS[name]().finalize(dtype=sim.float64)
    gaps = []
    for steps, dt in ((10, 1e-2), (20, 5e-3), (40, 2.5e-3)):
        ends = [rest(model, solver, steps, dt) for solver in (sim.SolverXPBD(model, 300), sim.SolverNewton(model))]
        gaps.append(np.abs(ends[0] - ends[1]).max())
    assert gaps[2] < 1e-4 and gaps[2] < 0.7 * gaps[1] < 0.5 * gaps[0], gaps


def test_the_sag_of_a_stiff_chain_is_that_of_its_springs_whatever_the_step():
    """Ten light points and one a thousand times heavier: XPBD hangs too low by far, here each link carries its load."""
    compliance, light, heavy = 1e-5, 0.01, 10.0
    sags = []
    for steps, dt in ((120, 0.05), (300, 0.02)):
        builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
        for k in range(12):
            builder.add_particle((0, -0.1 * k, 0), mass=0.0 if k == 0 else heavy if k == 11 else light)
        for k in range(11):
            builder.add_spring(k, k + 1, compliance, 0.02, rest_length=0.1)
        model = builder.finalize(dtype=sim.float64)
        sags.append(-rest(model, sim.SolverNewton(model), steps, dt)[11, 1] - 1.1)
        xpbd = -rest(model, sim.SolverXPBD(model), steps, dt)[11, 1] - 1.1
    want = 9.81 * compliance * (11 * heavy + light * sum(range(11)))
    np.testing.assert_allclose(sags, want, rtol=1e-6)
    assert abs(xpbd / want - 1) > 0.2


@pytest.mark.parametrize("compliance", [0.0, 1e-4])
def test_a_floor_carries_the_weight_that_lies_on_it(compliance):
    model = plate(compliance).finalize(dtype=sim.float64)
    solver, dt = sim.SolverNewton(model), 0.02
    state = sim.rollout(solver, model.state(), 200, dt).final
    normal = np.array([0, 1, 0.05]) / np.hypot(1, 0.05)
    forces = solver.multipliers("contact_plane").numpy() / dt**2
    assert forces.sum() == pytest.approx(0.6 * 9.81 * normal[1], rel=1e-6)
    np.testing.assert_allclose(state.particle_q.numpy() @ normal, -compliance * forces, atol=1e-12)


def held_sheet():
    """A cloth that is held along one side and bends under its weight, well damped."""
    builder = sim.ModelBuilder(gravity=(0, 0, -9.81))
    material = {"distance": {"compliance": 1e-4, "damping": 0.05}, "bend": {"compliance": 100.0, "damping": 0.1}}
    material["shear"] = {"compliance": 1e-3, "damping": 0.05}
    size = {"dim_x": 4, "dim_y": 1, "cell_x": 0.05, "cell_y": 0.05}
    group = builder.add_cloth_grid(**size, density=0.3, label="sheet", material=material)
    builder.add_attachment(group.choose({"x": [None, 0.06]}))
    return builder


def identified(model, solver, target, steps, dt, begin):
    """The bending compliance at which the sheet comes to rest like its twin: the root of the loss's gradient."""
    compliance = model["sheet.bend.compliance"]

    def slope(x):
        compliance.fill_(float(np.exp(x)))
        compliance.grad.zero_()
        with sim.Tape() as tape:
            final = sim.rollout(solver, model.state(), steps, dt).final
        tape.backward(grads={final.particle_q: final.particle_q.numpy() - target})
        return float(compliance.grad.numpy()[0]) * np.exp(x)

    last, x = np.log(begin)
    before, here = slope(last), slope(x)
    for _ in range(8):
        if x == last or abs(x - last) < 1e-6:
            break
        last, x, before = x, x - np.clip(here * (x - last) / (here - before), -1.0, 1.0), here
        here = slope(x)
    return float(np.exp(x))


def test_the_value_of_a_twin_is_found_at_steps_at_which_xpbd_is_far_off():
    model = held_sheet().finalize(dtype=sim.float64, requires_grad=True)
    truth, steps, dt = 100.0, 30, 0.1
    target = rest(model, sim.SolverNewton(model), 100, 0.02)
    xpbd = rest(model, sim.SolverXPBD(model), 100, 0.02)
    assert abs(xpbd[-1, 2] / target[-1, 2] - 1) > 0.2
    assert identified(model, sim.SolverNewton(model), target, steps, dt, (120.0, 115.0)) == pytest.approx(
        truth, rel=1e-3
    )


def test_it_refuses_single_precision():
    model = chain().finalize(dtype=sim.float32)
    with pytest.raises(sim.SolverError, match="works in float64, and the model is in float32"):
        sim.SolverNewton(model).step(model.state(), model.state(), None, None, 0.01)


def test_bdf2_is_of_second_order():
    """A pendulum on a stiff spring, against one with many short steps."""

    def end(steps, integrator):
        model = chain(points=2, compliance=1e-4).finalize(dtype=sim.float64)
        return rest(model, sim.SolverNewton(model, integrator=integrator), steps, 0.4 / steps)[1]

    want = end(3200, "bdf2")
    for integrator, least in (("euler", 0.7), ("bdf2", 1.7)):
        errors = [np.abs(end(n, integrator) - want).max() for n in (200, 400)]
        assert np.log2(errors[0] / errors[1]) > least, (integrator, errors)
