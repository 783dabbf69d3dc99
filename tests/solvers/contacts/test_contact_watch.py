"""Steps that are looked at where surfaces collide with themselves."""

from __future__ import annotations

import numpy as np
from test_self_contact import DT, THICKNESS, sheets, sliding

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


def switches(gap: float, velocity: tuple[float, ...], friction: float) -> tuple[int, dict[str, int]]:
    """Of one step of a sheet above one that is held, without weight."""
    model = sheets(gap, 0.2, (0.012, 0.007), velocity, friction=friction, held=True)
    model.gravity.assign([[0.0, 0.0, 0.0]])
    watch = ContactWatch(sim.SolverXPBD(model))
    watch.step(model.state(), model.state(), DT)
    return watch.count.pushing, watch.count.kinds


def test_surfaces_about_to_do_otherwise_are_counted() -> None:
    """At the thickness itself pairs are about to close; what comes at mu = v_t / v_n is about to slip."""
    pushing, kinds = switches(THICKNESS, (0.0, 0.0, 0.0), 0.5)
    assert pushing == kinds["opens or closes"] > 5 and kinds["sticks or slips"] == 0
    assert switches(1.01 * THICKNESS, (0.0, 0.0, 0.0), 0.5)[0] == 0
    pushing, kinds = switches(THICKNESS, (1.0, -2.0, 0.0), 0.5)
    assert pushing >= kinds["sticks or slips"] > 5 and kinds["opens or closes"] == 0
    for other in (0.499, 0.501):
        pushing, kinds = switches(THICKNESS, (1.0, -2.0, 0.0), other)
        assert pushing > 5 and not any(kinds.values())
