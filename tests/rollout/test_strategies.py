"""Strategies of rollouts on a chain of three points: one solver used in many ways gives what a fresh one gives;
schedules and frames."""

from __future__ import annotations

import gc
import weakref
from itertools import product

import numpy as np
import pytest
from tools.physics.steps import positions, take_steps

import sim
from sim.rollout.budget import (
    CheckpointSchedule,
    bytes_per_state,
    bytes_per_step,
    gradient_bytes,
    parse_bytes,
    schedule_within,
)
from sim.rollout.trajectory import Plan


def chain() -> sim.Model:
    builder = sim.ModelBuilder(gravity=(0, 0, -9.81))
    builder.add_particles(np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]]), mass=[0.0, 1.0, 2.0], label="chain")
    builder.add_constraints("distance", [[0, 1], [1, 2]], compliance=1e-3, label="links")
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def solver_of(model: sim.Model, **settings) -> sim.SolverXPBD:
    return sim.SolverXPBD(model, **settings)


def gradient(solver, dt=0.01, steps=7, frame_every=None, strategy=None, push=0.3) -> dict[str, np.ndarray]:
    """Frames, and gradients by the start, the forces and the compliance, of weighted frames and the last velocity."""
    model, rng = solver.model, np.random.default_rng(2)
    state = model.state()
    state.particle_q.assign(np.array([[0.0, 0, 0], [1.1, 0, 0], [1.9, 0.3, 0]]))
    state.particle_f.assign(np.array([[0.0, 0, 0], [0, push, 0], [push, 0, 0]]))
    compliance = model["links.compliance"]
    for a in (*state.moving, state.particle_f, *model.materials.values()):
        if a.grad is not None:
            a.grad.zero_()
    with sim.Tape() as tape:
        result = sim.rollout(solver, state, steps, dt, frame_every=frame_every, strategy=strategy)
    seeds = {
        a: sim.array(rng.normal(size=a.numpy().shape), dtype=a.dtype)
        for a in (result.particle_q, result.final.particle_qd)
    }
    tape.backward(grads=seeds)
    found = {
        "frames": result.particle_q,
        "q": state.particle_q.grad,
        "qd": state.particle_qd.grad,
        "f": state.particle_f.grad,
        "compliance": compliance.grad,
    }
    return {name: a.numpy().copy() for name, a in found.items()}


def same(one, other):
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], name)


STRATEGIES = [None, sim.StoreAll(), sim.Checkpointed(every=1), sim.Checkpointed(every=2), sim.Checkpointed(every=3),
              sim.Checkpointed(every=7), sim.Checkpointed(every=99),
              sim.Checkpointed(budget=1), sim.Checkpointed(budget="1 GB")]  # fmt: skip


@pytest.mark.parametrize("frame_every", [None, 1, 3])
def test_strategies_give_the_same_bits(frame_every):
    solver = solver_of(chain())
    wanted = gradient(solver, frame_every=frame_every, strategy=sim.StoreAll())
    assert all(np.abs(a).max() > 1e-6 for a in wanted.values())
    for strategy in STRATEGIES:
        same(gradient(solver, frame_every=frame_every, strategy=strategy), wanted)


WAYS = [{}, {"dt": 0.02}, {"steps": 4}, {"frame_every": 2}, {"push": -0.1}, {"dt": 0.02, "steps": 4},
        {"strategy": sim.Checkpointed(every=3)}, {"dt": 0.02, "strategy": sim.Checkpointed(every=3)},
        {"steps": 6, "strategy": sim.Checkpointed(every=3)}]  # fmt: skip


def test_a_solver_that_remembers_other_rollouts_is_as_a_fresh_one():
    """Whatever it has captured before: time steps, lengths, frames, forces, strategies, in any order."""
    wanted = [gradient(solver_of(chain()), **way) for way in WAYS]
    for a, b in product(range(len(WAYS)), repeat=2):
        assert (
            a == b
            or any(not np.array_equal(wanted[a][name], wanted[b][name]) for name in wanted[a])
            or {a, b} in ({0, 6}, {1, 7})
        )
    solver = solver_of(chain())
    for k in np.random.default_rng(3).permutation(np.repeat(np.arange(len(WAYS)), 3)):
        same(gradient(solver, **WAYS[k]), wanted[k])


@pytest.mark.parametrize("strategy", [sim.StoreAll(), sim.Checkpointed(every=3)])
def test_settings_that_are_changed_between_rollouts_count(strategy):
    settings = [{}, {"iterations": 3}, {"start": "elastic"}]
    wanted = [gradient(solver_of(chain(), **s), strategy=strategy) for s in settings]
    assert not any(np.array_equal(wanted[0]["q"], other["q"]) for other in wanted[1:])
    solver = solver_of(chain(), iterations=3)
    same(gradient(solver, strategy=strategy), wanted[1])
    solver.iterations = 1
    same(gradient(solver, strategy=strategy), wanted[0])
    solver.iterations = 3
    same(gradient(solver, strategy=strategy), wanted[1])


def test_gradients_are_those_of_differences():
    def loss(compliance):
        builder_model = chain()
        builder_model["links.compliance"].assign(np.full(builder_model["links.compliance"].shape, compliance))
        solver = solver_of(builder_model)
        state = builder_model.state()
        result = sim.rollout(solver, state, 7, 0.01, frame_every=3)
        return float((result.particle_q.numpy() * weights).sum())

    weights = np.random.default_rng(4).normal(size=(2, 3, 3))
    model = chain()
    value = model["links.compliance"]
    with sim.Tape() as tape:
        result = sim.rollout(
            solver_of(model), model.state(), 7, 0.01, frame_every=3, strategy=sim.Checkpointed(every=2)
        )
    tape.backward(grads={result.particle_q: sim.array(weights, dtype=sim.vec3d)})
    h = 1e-8
    assert value.grad.numpy().sum() == pytest.approx((loss(1e-3 + h) - loss(1e-3 - h)) / (2 * h), rel=1e-4)


# ------------------------------------------------------------------------------------------------ frames
@pytest.mark.parametrize(("steps", "frame_every"), [(7, 1), (7, 2), (7, 7), (6, 3), (5, 4)])
def test_frames_are_the_positions_after_every_so_many_steps(steps, frame_every):
    model = chain()
    seen = []
    final = take_steps(solver_of(model), model.state(), steps, 0.01, each=lambda s: seen.append(positions(s)))
    found = sim.rollout(solver_of(model), model.state(), steps, 0.01, frame_every=frame_every)
    np.testing.assert_array_equal(found.particle_q.numpy(), seen[frame_every - 1 :: frame_every])
    np.testing.assert_array_equal(positions(found.final), positions(final))
    assert found.final.time == pytest.approx(steps * 0.01)


@pytest.mark.parametrize("every", [1, 2, 3, 5, 9])
def test_numbers_of_frames(every):
    model = chain()
    plan = Plan(solver_of(model), model.state(), 9, 0.01, None, every)
    frames = [step for step in range(9) if (step + 1) % every == 0]
    assert [plan.frame_after(step) for step in range(9)] == [
        frames.index(step) if step in frames else None for step in range(9)
    ]
    for first, count in product(range(9), range(5)):
        if first + count <= 9:
            assert list(plan.frames_in(first, count)) == [step for step in frames if first <= step < first + count]
    assert plan.name(0) == "step 1 of 9" and plan.result().particle_q.shape == (9 // every, 3)


# ------------------------------------------------------------------------------------------------ schedules
@pytest.mark.parametrize(("arguments", "words"), [
    ({}, "either every= or budget="), ({"every": 2, "budget": 1}, "either every= or budget="),
    ({"every": 1.5}, "every=1.5; expected a whole number"),
    ({"every": "3"}, "every='3'; expected a whole number"), ({"every": 0}, "every=0; expected at least 1"),
    ({"every": -2}, "every=-2; expected at least 1"),
    ({"budget": 0}, "budget=0; expected a positive number of bytes"),
    ({"budget": "0 MB"}, "expected a positive number"),
    ({"budget": "much"}, "budget='much'"),
    ({"budget": float("nan")}, "expected a positive number"),
])  # fmt: skip
def test_checkpoints_that_make_no_sense(arguments, words):
    with pytest.raises(ValueError, match=words):
        sim.Checkpointed(**arguments)


def test_a_stretch_is_no_longer_than_the_rollout():
    model = chain()
    plan = Plan(solver_of(model), model.state(), 9, 0.01, None, 9)
    assert sim.StoreAll().schedule(plan) == CheckpointSchedule(9)
    for every, wanted in ((1, 1), (4, 4), (9, 9), (10, 9), (np.int64(3), 3)):
        assert sim.Checkpointed(every=every).schedule(plan) == CheckpointSchedule(wanted)
    assert sim.Checkpointed(budget="1 GB").schedule(plan) == CheckpointSchedule(9)
    assert sim.Checkpointed(budget=1).schedule(plan) == schedule_within(plan, 1.0) == CheckpointSchedule(1, 4)


def test_memory_of_a_step_and_of_a_state():
    """Two links of three numbers of 8 bytes each, since their forces add up to nothing, and velocities of three
    points."""
    model = chain()
    plan = Plan(solver_of(model), model.state(), 9, 0.01, None, 9)
    assert bytes_per_step(plan) == 2 * 3 * 8 + 3 * 24 and bytes_per_state(plan) == 2 * 3 * 24 + 8
    twice = Plan(solver_of(model, iterations=2), model.state(), 9, 0.01, None, 9)
    assert bytes_per_step(twice) == 2 * 2 * 2 * 3 * 8 + 3 * 24
    assert gradient_bytes(plan, 4) == 3 * bytes_per_state(plan) + 4 * bytes_per_step(plan)


def test_the_largest_gradient_within_a_budget():
    model = chain()
    plan = Plan(solver_of(model), model.state(), 400, 0.01, None, 400)
    everything = gradient_bytes(plan, 400)
    assert schedule_within(plan, everything) == CheckpointSchedule(400)
    best = schedule_within(plan, everything - 1).every
    assert gradient_bytes(plan, best) == pytest.approx(min(gradient_bytes(plan, k) for k in range(1, 401)), rel=0.1)
    small = schedule_within(plan, 0.5 * gradient_bytes(plan, best))
    assert small.states is not None and small.states >= 4
    assert small.every * bytes_per_step(plan) + small.states * bytes_per_state(plan) <= 0.5 * gradient_bytes(plan, best)


def test_gaps_between_states():
    assert CheckpointSchedule(5).gap(100, None) == 5
    for every, count, states in ((5, 100, 4), (5, 100, 8), (3, 7, 2), (10, 5, 4), (1, 1000, 10)):
        gap = CheckpointSchedule(every, states).gap(count, states)
        pieces = [-(-count // g) for g in (gap, max(gap - every, 1))]
        assert (
            gap % every == 0
            and gap >= every
            and pieces[0] <= max(2, states // 2)
            and (gap == every or pieces[1] > max(2, states // 2))
        )


@pytest.mark.parametrize(
    ("text", "wanted"), [(300, 300.0), ("300", 300.0), ("2 kB", 2e3), ("1.5MB", 1.5e6), (" 3 GiB ", 3e9), ("7B", 7.0)]
)
def test_bytes_in_words(text, wanted):
    assert parse_bytes(text) == wanted


@pytest.mark.parametrize("strategy", [sim.StoreAll(), sim.Checkpointed(every=3)])
def test_what_a_gradient_leaves_goes_with_its_tape(strategy):
    """Its memory does not wait for Python to look for garbage."""
    model = chain()
    solver, state = solver_of(model), model.state()
    compliance = model["links.compliance"]

    def take() -> list[weakref.ref]:
        with sim.Tape() as tape:
            result = sim.rollout(solver, state, 7, 0.01, frame_every=1, strategy=strategy)
            compliance.assign(compliance)  # the tape takes a snapshot of it
        assert tape.bytes_kept
        tape.backward(grads={result.particle_q: sim.ones_like(result.particle_q)})
        return [weakref.ref(thing) for thing in (tape, result, result.particle_q.buffer, result.final.clock.buffer)]

    take()
    take()  # replays what the first one has recorded, with code that a process loads once
    gc.collect()
    gc.disable()
    try:
        left = take()
        assert [thing() for thing in left] == [None] * 4
        assert gc.collect() == 0
    finally:
        gc.enable()
