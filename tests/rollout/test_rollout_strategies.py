"""Rollouts: every strategy gives the same bits, a rollout by hand is the same too, and what breaks down is located."""

import numpy as np
import pytest
from tools.physics.models import DT, STEPS, gradients, swung_sheet
from tools.physics.steps import positions, take_steps

import sim
from sim.model.errors import UnknownPathError
from sim.rollout.budget import gradient_bytes
from sim.rollout.rollout import RolloutError
from sim.rollout.trajectory import Plan


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert np.array_equal(one[name], other[name]), name


@pytest.mark.parametrize(("order", "iterations"), [("colored", 1), ("colored", 3), ("jacobi", 2)])
def test_checkpointed_equals_store_all_bit_for_bit(order, iterations):
    """Also where `every` divides neither the steps nor the frames, and again on the same and on a new model."""
    solver = swung_sheet(order, iterations)
    want = gradients(solver, sim.StoreAll())
    for name in (
        "d sheet.distance.compliance",
        "d soft.motion.0.move",
        "d rest of bend",
        "d particle_q",
        "d particle_f",
    ):
        assert np.abs(want[name]).max() > 0, name
    for every in (1, 4, 7, STEPS, 10 * STEPS):
        same(gradients(solver, sim.Checkpointed(every=every)), want)
    same(gradients(solver, sim.StoreAll()), want)
    same(gradients(swung_sheet(order, iterations), sim.Checkpointed(every=9)), want)


@pytest.mark.parametrize("strategy", [sim.StoreAll(), sim.Checkpointed(every=7)])
def test_gradients_of_some_values_alone_have_the_same_bits(strategy):
    solver = swung_sheet()
    model, want = solver.model, gradients(solver, strategy)
    with model.gradients_of(["sheet.distance.compliance", "sheet.velocity"]):
        found = gradients(solver, strategy)
        assert (
            model["sheet.distance.compliance"].requires_grad
            and not model["sheet.density"].requires_grad
            and not model.particle_inv_mass.requires_grad
        )
    assert {"d sheet.distance.compliance", "d sheet.velocity", "d particle_q"} <= found.keys()
    assert not {"d sheet.density", "d particle_f", "d rest of bend", "d gravity"} & found.keys()
    same(found, {name: want[name] for name in found})
    same(gradients(solver, strategy), want)
    with pytest.raises(UnknownPathError), model.gradients_of(["sheet.distance.complience"]):
        pass


def test_clearing_gradients_of_some_values_leaves_the_others():
    solver = swung_sheet()
    model = solver.model

    def backward() -> sim.Tape:
        with sim.Tape() as tape:
            end = sim.rollout(solver, model.state(), 3, DT).final
        tape.backward(grads={end.particle_q: np.ones((model.particle_count, 3))})
        return tape

    backward()
    before = {path: a.grad.numpy().copy() for path, a in model.materials.items()}
    with model.gradients_of(["sheet.distance.compliance"]):
        backward().zero()
    assert not model["sheet.distance.compliance"].grad.numpy().any()
    assert np.abs(before["gravity"]).max() > 0
    for path in before.keys() - {"sheet.distance.compliance"}:
        np.testing.assert_array_equal(model[path].grad.numpy(), before[path], path)


@pytest.mark.parametrize("strategy", [sim.StoreAll(), sim.Checkpointed(every=7)])
def test_gradient_arrays_may_be_replaced_between_rollouts(strategy):
    """What was captured adds to the old ones: it is captured again."""
    solver = swung_sheet()
    model, want = solver.model, gradients(solver, strategy)
    compliance = model.constraint_sets["distance"].compliance
    for forget in (None, sim.zeros_like(compliance, requires_grad=False)):
        compliance.grad = model["sheet.distance.compliance"].grad = model.particle_inv_mass.grad = None
        compliance.grad = forget
        same(gradients(solver, strategy), want)


def test_budgets_and_single_steps():
    solver = swung_sheet()
    for budget in (1, 20e3, "40 kB", "1 GB"):
        same(gradients(solver, sim.Checkpointed(budget=budget)), gradients(solver, sim.StoreAll()))
    same(
        gradients(solver, sim.Checkpointed(every=3), steps=1, frame_every=1),
        gradients(solver, sim.StoreAll(), steps=1, frame_every=1),
    )
    same(
        gradients(solver, sim.Checkpointed(every=3), frame_every=None),
        gradients(solver, sim.StoreAll(), frame_every=None),
    )


@pytest.mark.parametrize(("order", "iterations"), [("colored", 1), ("colored", 3), ("jacobi", 2)])
def test_the_memory_that_a_budget_is_compared_with(order, iterations):
    """What a tape really keeps of all steps is not above the estimate by more than a tenth."""
    solver = swung_sheet(order, iterations)
    with sim.Tape() as tape:
        sim.rollout(solver, solver.model.state(), STEPS, DT, strategy=sim.StoreAll())
    plan = Plan(solver, solver.model.state(), STEPS, DT, None, STEPS)
    estimate = gradient_bytes(plan, STEPS)
    print(f"{tape.bytes_kept} bytes kept, {estimate:.0f} estimated")
    assert 0.1 * estimate < tape.bytes_kept < 1.1 * estimate
    assert gradient_bytes(plan, 5) < 0.5 * estimate


def test_without_a_tape_by_hand_and_with_one_give_the_same_positions():
    solver = swung_sheet()
    state = solver.model.state()
    before = positions(state)
    plain = sim.rollout(solver, state, STEPS, DT, frame_every=5)
    assert plain.particle_q.shape == (6, solver.model.particle_count)
    with sim.Tape():
        taped = sim.rollout(solver, state, STEPS, DT, frame_every=5)
    np.testing.assert_array_equal(taped.particle_q.numpy(), plain.particle_q.numpy())
    seen = []
    final = take_steps(solver, state, STEPS, DT, each=lambda s: seen.append(positions(s)))
    np.testing.assert_array_equal(seen[4::5], plain.particle_q.numpy())
    for name in ("particle_q", "particle_qd"):
        np.testing.assert_array_equal(getattr(final, name).numpy(), getattr(plain.final, name).numpy())
    assert final.time == plain.final.time == pytest.approx(STEPS * DT)
    np.testing.assert_array_equal(positions(state), before)


def test_two_rollouts_in_a_row_are_one():
    """Time goes on, and a gradient goes through both; on one tape, with different strategies."""
    solver = swung_sheet()
    model = solver.model
    weights = sim.array(np.random.default_rng(1).normal(size=(model.particle_count, 3)), dtype=sim.vec3d)
    found = []
    for parts in ([STEPS], [11, STEPS - 11]):
        with sim.Tape() as tape:
            state = model.state()
            for steps, strategy in zip(parts, (sim.Checkpointed(every=4), sim.StoreAll()), strict=False):
                state = sim.rollout(solver, state, steps, DT, strategy=strategy).final
        q = positions(state)
        tape.backward(grads={state.particle_q: weights})
        found.append({"q": q} | {path: a.grad.numpy().copy() for path, a in model.materials.items()})
        tape.zero()
    for name, want in found[0].items():  # the sums over the steps are formed in another order
        np.testing.assert_allclose(
            found[1][name], want, rtol=1e-11, atol=1e-13 * max(1.0, np.abs(want).max()), err_msg=name
        )


def test_a_rollout_by_hand_with_snapshots():
    """api-sketch, section 2."""
    model = swung_sheet().model
    solver = sim.SolverXPBD(model)
    start, control = model.state(), model.control()
    untouched = positions(start)
    with sim.Tape() as tape:
        state, following = start.clone(), model.state()
        for step in range(STEPS):
            contacts = model.collide(state)
            solver.step(state, following, control, contacts, dt=DT)
            state, following = following, state
            if step == 14:
                middle = state.clone()
    after = positions(state)
    ones = sim.ones_like(state.particle_q)
    tape.backward(grads={state.particle_q: ones, middle.particle_q: ones})
    np.testing.assert_array_equal(positions(state), after)
    np.testing.assert_array_equal(positions(start), untouched)
    assert (ones.numpy() == 1).all()
    by_hand = start.particle_q.grad.numpy().copy()
    assert np.abs(by_hand).max() > 0.1

    start = model.state()
    with sim.Tape() as tape:  # the same by rollouts: half way, and to the end
        middle = sim.rollout(solver, start, 15, DT, strategy=sim.StoreAll()).final
        end = sim.rollout(solver, middle, STEPS - 15, DT, strategy=sim.StoreAll()).final
    np.testing.assert_array_equal(positions(end), after)
    tape.backward(grads={end.particle_q: ones, middle.particle_q: ones})
    np.testing.assert_allclose(start.particle_q.grad.numpy(), by_hand, rtol=1e-11, atol=1e-13)


def test_states_are_assigned_and_gradients_follow():
    """Back to a snapshot: the end does not depend on the detour."""
    solver = swung_sheet()
    model = solver.model
    start = model.state()
    with sim.Tape() as tape:
        a, b = start.clone(), model.state()
        solver.step(a, b, None, None, DT)
        kept = b.clone()
        solver.step(b, a, None, None, DT)
        b.assign(kept)
    assert b.time == kept.time == pytest.approx(DT)
    ones = sim.ones_like(b.particle_q)
    tape.backward(grads={b.particle_q: ones})
    got = start.particle_q.grad.numpy().copy()
    start = model.state()
    with sim.Tape() as tape:
        end = model.state()
        solver.step(start, end, None, None, DT)
    tape.backward(grads={end.particle_q: ones})
    np.testing.assert_array_equal(start.particle_q.grad.numpy(), got)


# ------------------------------------------------------------------------------------------ breaking down
@sim.constraint(points=2)
def own_fragile(x, rest: float):
    """Not a number where the points are closer than .5, and no force that would keep them from it."""
    apart = sim.length(x[0] - x[1]) - 0.5
    return apart * sim.sqrt(apart) - rest


def falling_apart(order: str = "colored") -> sim.SolverXPBD:
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_particles(
        [[0, 0, 0], [1, 0, 0], [5, 0, 0], [6, 0, 0]], mass=1.0, vel=[[0, 0, 0], [0, 0, 0], [1.0, 0, 0], [0, 0, 0]]
    )
    builder.add_constraints(own_fragile, [[0, 1], [2, 3]], compliance=100.0)
    return sim.SolverXPBD(builder.finalize(dtype=sim.float64, requires_grad=True), order=order)


@pytest.mark.parametrize("order", ["colored", "jacobi"])
@pytest.mark.parametrize("strategy", [None, sim.StoreAll(), sim.Checkpointed(every=7)])
def test_a_non_finite_state_names_step_constraint_and_point(strategy, order):
    """Point 2 comes to within .5 of point 3 in step 51, at 1 m/s and .01 s per step (the soft constraint hardly brakes
    it)."""
    solver = falling_apart(order)
    message = (
        r"non-finite in step 5[1-3] of 100 \(t = 0.5[1-3] s\), first at point 2, moved by the constraint 'own_fragile'"
        r" on points \[2, 3\]"
    )
    with pytest.raises(sim.NonFiniteState, match=message):
        if strategy is None:
            sim.rollout(solver, solver.model.state(), 100, 0.01)
        else:
            with sim.Tape():
                sim.rollout(solver, solver.model.state(), 100, 0.01, strategy=strategy)


def test_a_non_finite_prediction_is_told_apart():
    builder = sim.ModelBuilder()
    builder.add_particles([[0, 0, 0], [1, 0, 0]], mass=1.0, vel=[[0, 0, 0], [3e37, 0, 0]])
    solver = sim.SolverXPBD(builder.finalize())
    with pytest.raises(sim.NonFiniteState, match="in step 12 of 20.*at point 1, as predicted"):
        sim.rollout(solver, solver.model.state(), 20, 1.0)


# ------------------------------------------------------------------------------------------ wrong use
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, "steps=0"),
        ({"dt": 0.0}, "dt=0.0"),
        ({"dt": float("nan")}, "dt=nan"),
        ({"frame_every": 0}, "frame_every=0"),
        ({"frame_every": 11}, "frame_every=11"),
        ({"frame_every": 2.5}, "frame_every=2.5; expected a whole number"),
        ({"steps": 3.5}, "steps=3.5; expected a whole number"),
        ({"dt": "fast"}, "dt='fast'"),
        ({"strategy": "all"}, "strategy='all'; expected StoreAll"),
    ],
)
def test_arguments_that_make_no_rollout(arguments, message):
    solver = falling_apart()
    with pytest.raises(RolloutError, match=message):
        sim.rollout(solver, solver.model.state(), **{"steps": 10, "dt": 0.01, **arguments})


def test_a_state_of_another_model():
    with pytest.raises(RolloutError, match="another model"):
        sim.rollout(falling_apart(), falling_apart().model.state(), 10, 0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either every= or budget="),
        ({"every": 3, "budget": 100}, "either every= or budget="),
        ({"every": 0}, "every=0"),
    ],
)
def test_checkpoints_that_are_none(arguments, message):
    with pytest.raises(ValueError, match=message):
        sim.Checkpointed(**arguments)


def test_a_budget_that_is_no_size():
    solver = falling_apart()
    with pytest.raises(ValueError, match="budget='lots'"), sim.Tape():
        sim.rollout(solver, solver.model.state(), 10, 0.01, strategy=sim.Checkpointed(budget="lots"))
