"""When derived data is brought up to date, with tapes and without."""

import gc
from contextlib import nullcontext

import numpy as np
import pytest
from tools.physics.rich_model import rich_builder

from sim.core.lang.types import float64
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import ones_like, zeros
from sim.core.runtime.tape.tape import Tape
from sim.model import ModelBuilder


# ------------------------------------------------------------------------------------------ when
class Counter:
    """Counts the derivations that `refresh` runs, or records on a tape; inside: of these, is one at work?"""

    def __init__(self, model, monkeypatch):
        self.count, self.inside = 0, False
        for derivation in model._derivations:
            monkeypatch.setattr(derivation, "run", self.counting(derivation.run))
            monkeypatch.setattr(derivation, "record", self.counting(derivation.record))

    def counting(self, run):
        def counted():
            outer, self.inside = self.inside, True
            self.count += not outer
            run()
            self.inside = outer

        return counted

    def of(self, action) -> int:
        before = self.count
        action()
        return self.count - before


@pytest.fixture
def counted(monkeypatch):
    model = rich_builder().finalize(requires_grad=True)
    return model, Counter(model, monkeypatch)


def test_refresh_runs_what_is_due(counted):
    model, counter = counted
    everything = len(model._derivations)
    assert counter.of(model.refresh) == 0
    assert counter.of(lambda: model.refresh(force=True)) == everything
    assert counter.of(model.state) == 0
    model["ball.radius"].fill_(0.5)
    assert counter.of(model.refresh) == 2  # that of its contact, and that of the shape
    np.testing.assert_allclose(model.constraint_sets["contact_sphere"].parameters["radius"].numpy(), 0.5)
    model["sheet.density"].assign([0.8])
    weighed = sum(s.weights is not None for s in model.constraint_sets.values())
    # together with what else has a mass, and the inverse masses, of the points and beside constraints
    assert counter.of(model.refresh) == 3 + weighed
    model["rope.position"].fill_((1.0, 0.0, 0.0))
    assert counter.of(model.refresh) == 2  # and the anchors
    np.testing.assert_allclose(model.attachment_anchor.numpy()[-1], [3, 0.5, 0])
    values = model["sheet.distance.compliance"].numpy()
    assert counter.of(model.refresh) == 2  # from now on the values themselves are compared
    assert counter.of(model.refresh) == 0
    made = model.constraint_sets["distance"]
    row = made.index_of["sheet"][3]
    before, old = float(made.compliance.numpy()[row]), float(values[3])
    values[3] = 9.0  # through NumPy: no tape sees it, but a refresh does
    assert counter.of(model.refresh) == 2
    assert made.compliance.numpy()[row] == pytest.approx(before * 9.0 / old)
    bound = model.bound()
    model["ball.radius"].fill_(0.6)
    assert counter.of(bound.refresh) == 0
    assert counter.of(model.refresh) == 2


def test_renewing_on_a_tape_runs_what_a_gradient_flows_through(counted):
    model, counter = counted
    everything = len(model._derivations)
    model.renew()
    for path, expected in ((None, everything), ("ball.radius", 2), (None, everything)):
        with model.gradients_of([path]) if path else nullcontext(), Tape() as tape:
            assert counter.of(model.renew) == expected
            assert len(tape.records) == expected
            assert counter.of(model.renew) == expected  # the steps that follow begin with these
    model["sheet.density"].assign([0.8])
    weighed = sum(s.weights is not None for s in model.constraint_sets.values())
    with model.gradients_of(["ball.radius"]), Tape() as tape:
        assert counter.of(model.renew) == 2 + 3 + weighed  # and what is due
        assert len(tape.records) == 2
    model.particle_inv_mass.zero_()
    with model.gradients_of(["ball.radius"]), Tape():
        assert counter.of(model.renew) == everything  # somebody has written there
    assert model.particle_inv_mass.numpy().any()


def test_renewing_runs_all_where_others_have_written_to_derived_data(counted):
    model, counter = counted
    everything, kept = len(model._derivations), model.particle_inv_mass.numpy().copy()
    assert counter.of(model.renew) == everything  # through NumPy somebody may have written there
    assert counter.of(model.renew) == 0
    model.particle_inv_mass.fill_(7.0)
    assert 0 < counter.of(model.refresh) < everything  # what follows from the masses, not these
    assert counter.of(model.renew) == everything
    np.testing.assert_array_equal(model.particle_inv_mass.numpy(), kept)
    assert counter.of(model.renew) == everything
    view = model.particle_inv_mass.numpy()
    for _ in range(2):  # for as long as there is a way to write unseen
        view[:] = 7.0
        assert counter.of(model.renew) == everything
        np.testing.assert_array_equal(view, kept)
    view[:] = 7.0
    del view
    assert counter.of(model.renew) == everything
    assert counter.of(model.renew) == 0
    model.particle_inv_mass.fill_(7.0)
    model["ball.radius"].fill_(0.5)
    assert 2 < counter.of(model.refresh) < everything
    assert counter.of(model.renew) == everything
    model["ball.radius"].fill_(0.6)
    assert counter.of(model.renew) == 2
    assert counter.of(model.renew) == 0
    with Tape():
        assert counter.of(model.renew) == everything
        assert counter.of(model.renew) == everything


def test_refresh_records_once_on_each_tape(counted):
    model, counter = counted
    everything = len(model._derivations)
    with Tape() as tape:
        assert counter.of(model.refresh) == everything
        assert counter.of(model.refresh) == 0
        model["ball.radius"].fill_(0.4)
        assert counter.of(model.refresh) == 2
    assert counter.of(model.refresh) == 0  # up to date without a tape
    with tape:
        assert counter.of(model.refresh) == 0
    tape.reset()
    with tape:
        assert counter.of(model.refresh) == everything  # the tape has forgotten
    with Tape():
        assert counter.of(model.refresh) == everything
    del tape
    gc.collect()
    with Tape():
        assert counter.of(model.refresh) == everything


def test_a_change_outside_of_the_tape_is_recorded_when_it_is_open_again(counted):
    model, counter = counted
    with Tape() as tape:
        model.refresh()
    model["ball.radius"].fill_(0.4)
    model.refresh()
    with tape:
        assert counter.of(model.refresh) == len(model._derivations)


def test_without_gradients_tapes_do_not_matter(monkeypatch):
    model = rich_builder().finalize()
    counter = Counter(model, monkeypatch)
    with Tape():
        assert counter.of(model.refresh) == 0


def test_two_refreshes_on_one_tape_give_both_gradients():
    """A value that changes in the middle: what was derived before the change keeps its own gradient."""
    builder = ModelBuilder()
    builder.add_particles([[0, 0, 0]], mass=2.0, label="p")
    model = builder.finalize(dtype=float64, requires_grad=True)
    first, second = (array([m], dtype=float64, requires_grad=True) for m in (2.0, 4.0))
    kept = zeros(2, dtype=float64, requires_grad=True)
    with Tape() as tape:
        for k, value in enumerate((first, second)):
            model["p.mass"].assign(value)
            model.refresh()
            kept[k : k + 1].assign(model.particle_inv_mass)
    tape.backward(grads={kept: ones_like(kept)})
    np.testing.assert_allclose(kept.numpy(), [0.5, 0.25])
    np.testing.assert_allclose(first.grad.numpy(), [-0.25])
    np.testing.assert_allclose(second.grad.numpy(), [-1 / 16])


def test_finalize_under_a_tape_leaves_nothing_on_it():
    with Tape() as tape:
        model = rich_builder().finalize(requires_grad=True)
    assert not tape.records
    assert model.particle_mass.numpy().sum() > 0
