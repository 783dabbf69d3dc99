"""A few steps are recorded and stand for all: the gradients of all recorded, bit for bit; and where steps differ, all
are recorded."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from tools.physics.models import DT, gradients, swung_sheet
from tools.physics.rollout_worlds import WORLDS, found

import sim
from sim.core.runtime.tape.tape import Tape
from sim.rollout.steady import StepRecorder, StepSeries, steady_state

segments = sys.modules["sim.rollout.segments"]  # `sim.rollout` is the function
PERIOD = 2


@pytest.fixture()
def taken(monkeypatch) -> list[tuple[int, int, bool]]:
    """Of each segment: its steps, how many were recorded for it, and whether they stand for all."""
    found = []

    def look(recorder, count, frames):
        steady = steady_state(recorder, count, frames)
        found.append((count, len(recorder.graphs), steady is not None))
        return steady

    monkeypatch.setattr(segments, "steady_state", look)
    return found


@pytest.fixture()
def all_recorded(monkeypatch):
    def switch():
        monkeypatch.setattr(segments, "steady_state", lambda recorder, count, frames: None)

    return switch


@pytest.mark.parametrize(
    ("name", "steps", "frame_every"),
    [("sheet", 24, None), ("jacobi", 17, 5), ("ball", 14, 1), ("colliding", 17, 5), ("linkage", 24, None)],
)
def test_they_stand_for_all_bit_for_bit(name, steps, frame_every, taken, all_recorded):
    """As often as one likes, also of an odd number of steps and with frames in between; the memory is that of all."""
    solver = WORLDS[name]()
    seen = [found(solver, steps, frame_every) for _ in range(3)]
    assert taken == [(steps, 5 * PERIOD + steps % PERIOD, True)], "recorded once"
    all_recorded()
    want = found(WORLDS[name](), steps, frame_every)
    assert any(np.frombuffer(v).any() for n, v in want.values.items() if n.startswith("d "))
    assert seen[0].memory == want.memory
    for one in seen:
        assert one.values == want.values


@pytest.mark.parametrize("threads", [1, 2])
def test_so_do_those_of_segments(threads, taken, all_recorded):
    before = sim.get_num_threads()
    try:
        sim.set_num_threads(threads)
        got = gradients(swung_sheet(), sim.Checkpointed(every=13))
        assert (13, 11, True) in taken and (4, 0, False) in taken
        all_recorded()
        want = gradients(swung_sheet(), sim.Checkpointed(every=13))
    finally:
        sim.set_num_threads(before)
    assert got.keys() == want.keys()
    for n in want:
        np.testing.assert_array_equal(got[n], want[n], n)


def test_few_steps_are_all_recorded(taken):
    gradients(swung_sheet(), sim.StoreAll(), steps=11)
    assert taken == [(11, 0, False)]


def test_two_rollouts_share_them(taken):
    """The records of a segment are filled again where another rollout has used it before the way back."""
    solver = swung_sheet()
    model = solver.model
    with sim.Tape() as tape:
        ends = [sim.rollout(solver, model.state(), 20, DT).final.particle_q for _ in range(2)]
    seed = sim.array(np.random.default_rng(3).normal(size=ends[0].numpy().shape), dtype=ends[0].dtype)
    tape.backward(grads=dict.fromkeys(ends, seed))
    both = {path: a.grad.numpy().copy() for path, a in model.materials.items()}
    tape.zero()
    with sim.Tape() as tape:
        end = sim.rollout(solver, model.state(), 20, DT).final.particle_q
    tape.backward(grads={end: seed})
    assert taken == [(20, 10, True)]
    for path, a in model.materials.items():
        np.testing.assert_allclose(both[path], 2 * a.grad.numpy(), rtol=1e-12, atol=0, err_msg=path)


@sim.kernel
def push(x: sim.array[sim.vec3d], factor: sim.float64, out: sim.array[sim.vec3d]):
    i = sim.tid()
    out[i] = factor * sim.cos(sim.length(x[i])) * x[i]


@sim.kernel
def twist(x: sim.array[sim.vec3d]):
    i = sim.tid()
    x[i] = sim.cross(x[i], sim.vec3d(sim.float64(1.0), sim.float64(2.0), x[i][0]))


UNLIKE = {
    "a number": lambda step: (1.0 + 0.01 * step, False),
    "a launch": lambda step: (1.0, step % 3 == 0),
    "a launch in the last period": lambda step: (1.0, step in (8, 9)),
    "nothing": lambda step: (1.0, step % 2 == 1),
}


@pytest.mark.parametrize("what", UNLIKE)
def test_steps_that_differ_are_all_recorded(what, taken):
    """By a number in their arguments, by a launch more: seen in the periods that are compared."""
    model, results = swung_sheet().model, []
    for steps in (24, 9):  # of the nine none stand for others
        count, states = [0], (model.state(), model.state())
        states[0].particle_q.assign(model.state().particle_q.numpy() + 1.0)

        def step(before, after, detect, count=count):
            factor, more = UNLIKE[what](count[0])
            sim.launch(push, before.particle_q.size, [before.particle_q, factor], [after.particle_q])
            if more:
                sim.launch(twist, after.particle_q.size, [after.particle_q])
            count[0] += 1

        segment = segments.Segment(steps, states, step)
        segment.forward(model, 0, {})
        results.append(count[0])
        end = states[steps % 2].particle_q
        end.grad.assign(np.ones_like(end.numpy()))
        states[1 - steps % 2].particle_q.grad.zero_()
        segment.back({}, str)
        got = states[0].particle_q.grad.numpy().copy()
        np.testing.assert_array_equal(got, by_hand(model, steps, UNLIKE[what]))
    assert results[0] == (10 if what == "nothing" else 24) and taken[0][2] == (what == "nothing")


def by_hand(model: sim.Model, steps: int, settings) -> np.ndarray:
    """The same gradient by a tape, each step in arrays of its own."""
    x = sim.array(model.state().particle_q.numpy() + 1.0, dtype=sim.vec3d, requires_grad=True)
    with Tape() as tape:
        q = x
        for k in range(steps):
            factor, more = settings(k)
            out = sim.zeros_like(q)
            sim.launch(push, q.size, [q, factor], [out])
            if more:
                sim.launch(twist, q.size, [out])
            q = out
    tape.backward(grads={q: sim.array(np.ones_like(q.numpy()), dtype=q.dtype)})
    return x.grad.numpy()


def test_a_series_counts_from_both_ends():
    marks = [object() for _ in range(4)]
    series = StepSeries(4, marks[:3], [], marks[3:])
    assert [series[k] for k in range(4)] == marks and series.ends() == marks[:2]
    assert StepSeries(1, marks[:1]).ends() == marks[:1]


def test_a_recorder_goes_back_without_going():
    """What is captured of the way back leaves gradients as they are until it is replayed."""
    model = swung_sheet().model
    states = model.state(), model.state()

    def step(before, after, detect):
        sim.launch(push, before.particle_q.size, [before.particle_q, 1.5], [after.particle_q])

    recorder = StepRecorder(states, step, 0)
    recorder.take(1, {})
    states[1].particle_q.grad.assign(np.ones((model.particle_count, 3)))
    graph = recorder.way_back(0)
    assert not states[0].particle_q.grad.numpy().any()
    graph.replay()
    assert np.abs(states[0].particle_q.grad.numpy()).max() > 0
