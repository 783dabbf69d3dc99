"""Frames of long rollouts, kept by native tables of several: those that steps give one by one, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.steps import take_steps

import sim
from sim.core.runtime.devices.graph import Graph
from sim.rollout.segments import LONGEST


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
    monkeypatch.setattr(Graph, "rerun", lambda self: (replays.append(1), rerun(self))[1])
    solver, steps = sim.SolverXPBD(model), 4 * LONGEST
    for _ in range(2):
        del replays[:]
        sim.rollout(solver, model.state(), steps, 1e-3, frame_every=LONGEST // 16)
    assert len(replays) == 4


@pytest.mark.parametrize("blown_up", [40, LONGEST + 9, 2 * LONGEST + 30])
@pytest.mark.parametrize("every", [1, 5])
def test_the_step_that_is_not_finite_is_named(blown_up, every):
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    speed = np.finfo(np.float32).max / (blown_up - 0.5)
    builder.add_particles([[0, 0, 0]], mass=1.0, vel=[[speed, 0, 0]])
    solver = sim.SolverXPBD(builder.finalize())
    with pytest.raises(sim.NonFiniteState, match=f"non-finite in step {blown_up} of {3 * LONGEST}"):
        sim.rollout(solver, solver.model.state(), 3 * LONGEST, 1.0, frame_every=every)
