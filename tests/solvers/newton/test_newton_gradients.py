"""The implicit gradient of SolverNewton: against differences, whatever the iteration took; or refused."""

import numpy as np
import pytest
from tools.physics.newton_models import chain, gradient_errors, sheet

import sim

SWING = {"swing": (0.05, 0.02, 0.1), "frequency": 3.0}
MODELS = {
    "chain": lambda: chain(),
    "rigid chain": lambda: chain(compliance=0.0),
    "damped chain, moved": lambda: chain(damping=0.02, motion=SWING),
    "held softly": lambda: chain(damping=0.02, motion=SWING, held=1e-3),
    "sheet in air": lambda: sheet(motion=[SWING]),
    "on a floor": lambda: sheet("plane"),
    "on a soft floor": lambda: sheet("plane", 1e-4),
    "on a ball": lambda: sheet("sphere"),
}


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_differences(name):
    errors = gradient_errors(MODELS[name](), 5, 0.01)
    assert len(errors) > 3
    assert max(errors.values()) < 1e-7, errors


@pytest.mark.parametrize("name", ["damped chain, moved", "on a soft floor"])
def test_gradients_of_second_order_too(name):
    errors = gradient_errors(MODELS[name](), 5, 0.01, integrator="bdf2")
    assert max(errors.values()) < 1e-7, errors


@pytest.mark.parametrize("tolerance", [1e-3, 1e-12])
def test_a_gradient_is_that_of_the_solution_not_of_the_iterations(tolerance):
    errors = gradient_errors(chain(damping=0.02), 5, 0.02, tolerance=tolerance)
    assert max(errors.values()) < (1e-7 if tolerance < 1e-6 else 1e-4), errors


def gradients(run):
    model = chain(damping=0.02, motion=SWING).finalize(dtype=sim.float64, requires_grad=True)
    solver = sim.SolverNewton(model)
    with sim.Tape() as tape:
        state = model.state()
        state.particle_f.fill_((0.1, 0.2, 0.3))
        final = run(solver, state)
    tape.backward(grads={final.particle_q: np.ones((5, 3)), final.particle_qd: np.ones((5, 3))})
    found = {path: a.grad.numpy().copy() for path, a in model.materials.items()}
    return {**found, "forces": state.particle_f.grad.numpy().copy()}, tape


def stepped(solver, state):
    a, b = state, solver.model.state()
    for _ in range(8):
        b.particle_f = state.particle_f
        solver.step(a, b, None, None, 0.01)
        a, b = b, (solver.model.state() if a is state else a)
    return a


def test_all_ways_to_record_give_the_same_gradient():
    want, _ = gradients(stepped)
    for strategy in (sim.StoreAll(), sim.Checkpointed(every=3)):
        found, _ = gradients(lambda solver, s: sim.rollout(solver, s, 8, 0.01, strategy=strategy).final)  # noqa: B023
        for path in want:
            np.testing.assert_allclose(found[path], want[path], rtol=1e-9, atol=1e-14, err_msg=path)


def test_a_captured_gradient_is_replayed_for_other_values():
    model = chain().finalize(dtype=sim.float64, requires_grad=True)
    solver, compliance = sim.SolverNewton(model), model["chain.distance.compliance"]

    def run():
        with sim.Tape() as tape:
            final = sim.rollout(solver, model.state(), 6, 0.01).final
        tape.backward(grads={final.particle_q: np.ones((5, 3))})

    with sim.capture() as graph:
        run()
    compliance.fill_(3e-4)
    compliance.grad.zero_()
    graph.replay()
    replayed = compliance.grad.numpy().copy()
    compliance.grad.zero_()
    run()
    np.testing.assert_allclose(replayed, compliance.grad.numpy(), rtol=1e-12)


def test_multipliers_are_forces_and_have_a_gradient():
    """A point at rest on a spring: lambda / dt^2 is its weight, whatever the compliance; its derivative by gravity."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_particle((0, 0, 0), mass=0.0)
    builder.add_particle((0, -1, 0), mass=0.5)
    builder.add_spring(0, 1, 1e-3, 0.1, rest_length=1.0)
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    solver, dt = sim.SolverNewton(model), 0.05
    with sim.Tape() as tape:
        sim.rollout(solver, model.state(), 200, dt)
    force = solver.multipliers("distance")
    assert abs(force.numpy()[0]) / dt**2 == pytest.approx(0.5 * 9.81, rel=1e-9)
    tape.backward(grads={force: np.ones(1)})
    assert abs(model.gravity.grad.numpy()[0, 1]) / dt**2 == pytest.approx(0.5, rel=1e-9)


def test_memory_of_a_gradient_is_states_whatever_the_iterations():
    model = sheet().finalize(dtype=sim.float64, requires_grad=True)
    kept, iterations = [], []
    for steps, tolerance in ((10, 1e-3), (20, 1e-3), (20, 1e-12)):
        solver = sim.SolverNewton(model, tolerance=tolerance)
        with sim.Tape() as tape:
            sim.rollout(solver, model.state(), steps, 0.01)
        kept.append(tape.memory().nbytes)
        iterations.append(solver.convergence.iterations)
    state = 2 * 3 * 8 * model.particle_count
    assert iterations[2] > iterations[1] + 20
    assert kept[2] == kept[1]
    assert (kept[1] - kept[0]) / 10 < 4 * state


def test_an_unconverged_step_refuses_its_gradient():
    model = sheet().finalize(dtype=sim.float64, requires_grad=True)
    solver = sim.SolverNewton(model, iterations=1)
    with pytest.warns(UserWarning, match="has not converged"), sim.Tape() as tape:
        final = sim.rollout(solver, model.state(), 3, 0.01).final
    words = r"from t = 0.02 s to 0.03 s has not converged: after 1 iterations .* tolerance is 1e-08"
    with pytest.raises(sim.GradientError, match=words):
        tape.backward(grads={final.particle_q: np.ones((16, 3))})


def test_forward_mode_is_refused():
    model = chain().finalize(dtype=sim.float64, requires_grad=True)
    solver = sim.SolverNewton(model)
    a = model["chain.distance.compliance"]
    with pytest.raises(sim.GradientError, match="forward mode does not go through SolverNewton"):
        sim.autograd.jvp(
            lambda _: sim.rollout(solver, model.state(), 2, 0.01).final.particle_q, [a], [np.ones(a.shape)]
        )
