"""Rollouts and steps inside of `sim.capture()`: a replay does what running the code again would do."""

from contextlib import nullcontext

import numpy as np
import pytest
from tools.physics.rollouts import STEPS, STRATEGIES, SYSTEMS, Case, outputs, reference, same
from tools.workflow import models as workflow_models

import sim
from sim.core.lang.errors import GradientError
from sim.solvers import SolverError


def other_values(case: Case) -> None:
    """Other values of all materials, of the start, its time, the forces and the control."""
    rng = np.random.default_rng(11)
    for a in case.model.materials.values():
        a.assign(a.numpy() * 1.1 + 1e-3)
    for a in (*case.state.moving, case.state.particle_f):
        a.assign(a.numpy() + 1e-3 * rng.normal(size=a.numpy().shape))
    case.state.time = 0.013
    if case.control is not None:
        case.control.motion_vector.fill_(0.02)


def gradients(case: Case) -> dict[str, np.ndarray]:
    return {name: a.grad.numpy().copy() for name, a in case.sources.items() if a.grad is not None}


def positions(made: sim.Trajectory) -> dict[str, np.ndarray]:
    return {
        "frames": made.particle_q.numpy().copy(),
        **{name: a.numpy().copy() for name, a in outputs(made).items()},
        "time": np.array(made.final.time),
    }


def whole_program(case: Case, strategy) -> sim.Trajectory:
    """A rollout and its gradient; the gradients of before are cleared."""
    recorded = case.record(strategy)
    recorded.tape.zero()
    recorded.tape.backward(grads=recorded.weights())
    return recorded.made


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_replayed_rollout_is_a_rollout(system, known):
    """Also where the solver has run such rollouts before, and after other rollouts."""
    case, fresh = Case(SYSTEMS[system]()), Case(SYSTEMS[system]())
    if known:
        case.rollout()
    with sim.capture() as graph:
        made = case.rollout()
    same(positions(made), positions(fresh.rollout()))
    sim.rollout(case.solver, case.model.state(), 5, case.dt)
    for one in (case, fresh):
        other_values(one)
    made.particle_q.fill_(0.0)
    graph.replay()
    same(positions(made), positions(fresh.rollout()))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("system", ["cloth", "jacobi", "elastic", "semi-implicit"])
def test_a_replayed_gradient_is_a_gradient(system, strategy):
    case, fresh = Case(SYSTEMS[system]()), Case(SYSTEMS[system]())
    with sim.capture() as graph:
        made = whole_program(case, STRATEGIES[strategy])
    for change in (None, other_values, other_values):
        if change is not None:
            change(case)
            change(fresh)
            graph.replay()
        wanted = positions(whole_program(fresh, STRATEGIES[strategy])) | gradients(fresh)
        same(positions(made) | gradients(case), wanted)
        case.solver.step(case.model.state(), case.model.state(), None, None, case.dt)


def test_inputs_that_are_overwritten_inside_of_the_graph():
    """Between the rollout and its gradient: the way back sees what the rollout saw, in each replay."""
    case, fresh = Case(SYSTEMS["iterated"]()), Case(SYSTEMS["iterated"]())

    def program(case):
        recorded = case.record(sim.Checkpointed(every=2))
        recorded.tape.zero()
        with recorded.tape:
            case.state.particle_f.fill_(0.5)
            case.model["sheet.distance.compliance"].fill_(0.5)
            case.model.refresh()
        recorded.tape.backward(grads=recorded.weights())

    with sim.capture() as graph:
        program(case)
    for _ in range(2):
        for one in (case, fresh):
            one.state.particle_f.fill_(0.01)
            one.model["sheet.distance.compliance"].fill_(0.03)
        graph.replay()
        program(fresh)
        same(gradients(case), gradients(fresh))


@pytest.mark.parametrize("taped", [False, True])
@pytest.mark.parametrize("system", ["cloth", "jacobi", "elastic", "semi-implicit"])
def test_captured_steps_follow_the_materials(system, taped):
    case, fresh = Case(SYSTEMS[system]()), Case(SYSTEMS[system]())

    def program(case):
        states = [case.state, case.model.state(), case.model.state()]
        with sim.Tape() as tape:
            for before, after in zip(states, states[1:], strict=False):
                case.solver.step(before, after, case.control, None, case.dt)
        if taped:
            tape.zero()
            tape.backward(grads={states[-1].particle_q: sim.ones_like(states[-1].particle_q)})
        return states[-1]

    def plain(case):
        a, b = case.state.clone(), case.model.state()
        for _ in range(3):
            case.solver.step(a, b, case.control, None, case.dt)
            a, b = b, a
        return a

    run = program if taped else plain
    with sim.capture() as graph:
        end = run(case)
    for _ in range(2):
        for one in (case, fresh):
            other_values(one)
        graph.replay()
        wanted = run(fresh)
        same(
            {name: a.numpy() for name, a in end.arrays.items()}, {name: a.numpy() for name, a in wanted.arrays.items()}
        )
        if taped:
            same(gradients(case), gradients(fresh))
    case.model["gravity"].fill_((0.0, 0.0, 1.0))
    np.testing.assert_array_equal(
        case.result()["q"].shape, reference(system)["q"].shape
    )  # the solver goes on as before


def test_materials_that_change_inside_of_the_graph():
    """Derived data is in the graph wherever the code brings it up to date."""
    case, fresh = Case(SYSTEMS["cloth"]()), Case(SYSTEMS["cloth"]())

    def program(case, out):
        value, state = case.model["sheet.distance.compliance"], case.model.state()
        for k, factor in enumerate((1.0, 3.0, 0.5)):
            sim.launch(scale, value.size, [factor], [value])
            case.solver.step(case.state, state, case.control, None, case.dt)
            sim.copy(out[k], state.particle_q)

    outs = [sim.zeros((3, 9), sim.vec3d) for _ in range(2)]
    with sim.capture() as graph:
        program(case, outs[0])
    for one in (case, fresh):
        one.model["sheet.distance.compliance"].fill_(0.05)
    graph.replay()
    program(fresh, outs[1])
    np.testing.assert_array_equal(outs[0].numpy(), outs[1].numpy())


@sim.kernel
def scale(factor: sim.float64, value: sim.array[sim.float64]):
    i = sim.tid()
    value[i] = value[i] * factor


def test_a_replay_between_recording_and_backward():
    """A graph of the user's, of steps or of rollouts of the same solver, spoils nothing of what a tape has kept."""
    for captured in (
        lambda case: case.rollout(),
        lambda case: case.solver.step(case.model.state(), case.model.state(), None, None, case.dt),
        lambda case: whole_program(case, sim.StoreAll()),
    ):
        for strategy in STRATEGIES.values():
            case = Case(SYSTEMS["iterated"]())
            other = Case(case.solver)
            with sim.capture() as graph:
                captured(other)
            recorded = case.record(strategy)
            other.state.particle_q.fill_(0.1)
            graph.replay()
            same(recorded.result(), reference("iterated"))


def test_what_a_replay_cannot_know_is_an_error():
    for change in (
        lambda case: case.state.particle_q.fill_(0.0),
        lambda case: case.model["sheet.distance.compliance"].fill_(0.1),
        lambda case: None,
    ):
        case = Case(SYSTEMS["cloth"]())
        with sim.capture() as graph:
            recorded = case.record()
        change(case)
        graph.replay()
        with pytest.raises(
            GradientError, match="has replayed the forward pass"
        ):  # what was kept is that of the first run
            recorded.tape.backward(grads=recorded.weights())
    with pytest.raises(GradientError, match="a captured graph is replayed under an open tape"), sim.Tape():
        graph.replay()


def test_a_replay_that_breaks_down():
    """The checks of a rollout, and of a solver, are in the graph."""
    case = Case(SYSTEMS["cloth"]())
    with sim.capture() as graph:
        made = case.rollout()
    case.state.particle_q.fill_(float("inf"))
    with pytest.raises(sim.NonFiniteState, match="non-finite in step 1 of 7"):
        graph.replay()
    case.renew()
    same(case.result(), reference("cloth"))
    assert made.particle_q.shape == (STEPS // 3, 9)

    for program in (lambda c: c.rollout(), lambda c: c.solver.step(c.state, c.model.state(), None, None, c.dt)):
        case = Case(SYSTEMS["semi-implicit"]())
        with sim.capture() as graph:
            program(case)
        graph.replay()
        case.model["sheet.distance.compliance"].fill_(0.0)
        with pytest.raises(SolverError, match="compliance 0"):
            graph.replay()


def test_a_rollout_that_is_looked_at_in_a_graph():
    """Forward mode, and the detector of numbers that are not finite, run launch by launch, in graphs too."""
    with sim.autograd.detect_nonfinite():
        case = Case(SYSTEMS["cloth"]())
        with sim.capture() as graph:
            made = case.rollout()
        other_values(case)
        graph.replay()
    fresh = Case(SYSTEMS["cloth"]())
    other_values(fresh)
    same(positions(made), positions(fresh.rollout()))


def test_forces_on_a_state_that_is_made_in_a_graph_have_the_same_gradient():
    """Found by `tools.workflow.fuzz`: the fill with zeros that a replay needs was on the tape, where it ended the
    gradient."""
    found = []
    for within in (nullcontext, sim.capture):
        model = workflow_models.model("chain")
        solver, tape = sim.SolverXPBD(model), sim.Tape()
        with within():
            with tape:
                start = model.state()
                end = sim.rollout(solver, start, 3, 0.01).final
            tape.backward(grads={end.particle_q: np.ones((model.particle_count, 3))})
        found.append(start.particle_f.grad.numpy())
    assert np.abs(found[0]).max() > 0
    np.testing.assert_array_equal(found[0], found[1])
