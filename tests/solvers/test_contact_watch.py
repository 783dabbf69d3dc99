"""Steps that are looked at where surfaces collide with themselves."""

from __future__ import annotations

import numpy as np
from test_self_contact import DT, sliding

import sim
from sim.solvers import ContactWatch


def test_surfaces_that_collide_are_watched() -> None:
    """The same bits as a rollout; its worst penetration at least, and pairs that push beside contacts of the ground."""
    model = sliding()
    solver = sim.SolverXPBD(model)
    run = sim.rollout(solver, model.state(), 40, DT)
    watch, a, b = ContactWatch(solver), model.state(), model.state()
    does = []
    for _ in range(40):
        does.append(watch.step(a, b, DT))
        a, b = b, a
    np.testing.assert_array_equal(a.particle_q.numpy(), run.final.particle_q.numpy())
    assert watch.count.worst.depth >= run.penetration.worst > 0.0
    assert watch.count.pushing > np.count_nonzero(does)
