"""The search for garbage is put off where what is made stays, and comes back."""

import gc

import pytest

import sim
from sim.core.lang.collector import uncollected
from sim.rollout.recorded import RecordedRun


def test_it_is_put_off_inside_and_as_before_behind():
    with uncollected(), uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), uncollected():
        _ = 1 / 0
    assert gc.isenabled()


def test_it_stays_off_where_it_was():
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_gradients_of_rollouts_search_for_nothing(monkeypatch):
    builder, on = sim.ModelBuilder(), []
    builder.add_particle([0, 0, 0], [0, 0, 0], 1.0)
    model, execute = builder.finalize(requires_grad=True), RecordedRun.execute
    monkeypatch.setattr(RecordedRun, "execute", lambda *args: (on.append(gc.isenabled()), execute(*args))[1])
    with sim.Tape() as tape:
        found = sim.rollout(sim.SolverXPBD(model), model.state(), 3, 0.01).final.particle_q
        on.append(gc.isenabled())
        tape.record_func(lambda: on.append(gc.isenabled()), [found])
    tape.backward(grads={found: sim.ones_like(found)})
    assert on == [False, True, False] and gc.isenabled()
