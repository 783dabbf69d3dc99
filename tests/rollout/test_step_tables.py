"""Frames and checkpoints of long rollouts, kept by native tables of several: those of single steps, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.steps import take_steps

import sim
from sim.core.runtime.devices.graph import Graph
from sim.rollout.step_tables import LONGEST


def falling() -> sim.Model:
    """Two points on a spring, and a body beside them."""
    builder = sim.ModelBuilder(gravity=(0, 0, -9.81))
    builder.add_particles(np.array([[0.0, 0, 0], [1.1, 0, 0]]), mass=[0.0, 1.0])
    builder.add_constraints("distance", [[0, 1]], rest=1.0, compliance=1e-3, label="spring")
    builder.add_body((0, 2, 0), mass=1.0, inertia=0.1, spin=(0.3, 2.0, 0.1))
    return builder.finalize(dtype=sim.float64, requires_grad=True)


@pytest.mark.parametrize("strategy", [None, sim.StoreAll(), sim.Checkpointed(every=LONGEST + 3)])
@pytest.mark.parametrize("every", [1, 2, 7, LONGEST // 2, LONGEST])
def test_frames_are_those_of_single_steps(every, strategy):
    model, steps, seen = falling(), 3 * LONGEST + 5, []
    take_steps(
        sim.SolverXPBD(model),
        model.state(),
        steps,
        1e-3,
        each=lambda s: seen.append((s.particle_q.numpy().copy(), s.body_q.numpy().copy())),
    )
    solver = sim.SolverXPBD(model)
    for _ in range(2):  # a second one finds the tables of the first
        if strategy is None:
            found = sim.rollout(solver, model.state(), steps, 1e-3, frame_every=every)
        else:
            with sim.Tape():
                found = sim.rollout(solver, model.state(), steps, 1e-3, frame_every=every, strategy=strategy)
        for frames, number in ((found.particle_q, 0), (found.body_q, 1)):
            np.testing.assert_array_equal(frames.numpy(), [s[number] for s in seen[every - 1 :: every]])
        np.testing.assert_array_equal(found.final.particle_q.numpy(), seen[-1][0])


def test_no_python_runs_between_frames(monkeypatch):
    model, replays, rerun = falling(), [], Graph.rerun
    monkeypatch.setattr(Graph, "rerun", lambda *args: (replays.append(1), rerun(*args))[1])
    solver, steps = sim.SolverXPBD(model), 4 * LONGEST
    for _ in range(2):
        del replays[:]
        sim.rollout(solver, model.state(), steps, 1e-3, frame_every=LONGEST // 16)
    assert len(replays) == 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("every, frame_every", [(11, 10**6), (20, 25), (5, 5), (LONGEST + 1, 7), (7, LONGEST), (3, 2)])
def test_gradients_from_checkpoints_are_those_of_everything_stored(every, frame_every, threads):
    model, steps, found = falling(), 5 * LONGEST + 9, []
    solver, state = sim.SolverXPBD(model), model.state()
    before = sim.get_num_threads()
    sim.set_num_threads(threads)
    try:
        for strategy in (sim.StoreAll(), *3 * [sim.Checkpointed(every=every)]):  # tables are there from the second on
            with sim.Tape() as tape:
                made = sim.rollout(solver, state, steps, 1e-3, frame_every=min(frame_every, steps), strategy=strategy)
            grads = {
                a: sim.array(np.ones((*a.shape, 3)), dtype=a.dtype) for a in (made.particle_q, made.final.particle_qd)
            }
            tape.backward(grads=grads)
            found.append([made.particle_q.numpy().copy(), *(a.grad.numpy().copy() for a in state.differentiable)])
            tape.zero()
    finally:
        sim.set_num_threads(before)
    assert np.abs(found[0][1]).max() > 0
    for other in found[1:]:
        for wanted, got in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_checkpoints_take_no_python_between_steps(monkeypatch):
    """Of 4 stretches' length of steps with a checkpoint every 16 all but the last are one walk."""
    model, replays, rerun = falling(), [], Graph.rerun
    monkeypatch.setattr(Graph, "rerun", lambda *args: (replays.append(1), rerun(*args))[1])
    solver, steps = sim.SolverXPBD(model), 4 * LONGEST + 16
    for _ in range(3):
        del replays[:]
        with sim.Tape():
            sim.rollout(solver, model.state(), steps, 1e-3, strategy=sim.Checkpointed(every=16))
    assert len(replays) == 2  # and the segment that is recorded


@pytest.mark.parametrize("blown_up", [40, LONGEST + 9, 2 * LONGEST + 30])
@pytest.mark.parametrize("every", [1, 5])
def test_the_step_that_is_not_finite_is_named(blown_up, every):
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    speed = np.finfo(np.float32).max / (blown_up - 0.5)
    builder.add_particles([[0, 0, 0]], mass=1.0, vel=[[speed, 0, 0]])
    solver = sim.SolverXPBD(builder.finalize())
    with pytest.raises(sim.NonFiniteState, match=f"non-finite in step {blown_up} of {3 * LONGEST}"):
        sim.rollout(solver, solver.model.state(), 3 * LONGEST, 1.0, frame_every=every)
