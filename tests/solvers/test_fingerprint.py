"""Whether what a rollout was looked up by is what it was: at little cost where nothing changed, never wrongly."""

import numpy as np
import pytest

import sim
from sim.rollout import workspace
from sim.solvers.fingerprint import Likeness


class Made:
    """Attributes of every kind."""

    def __init__(self):
        self.number, self.text = 3, "as it is"
        self.rows, self.names, self.chosen = [1, [2, 3]], {"a": [4]}, {5}
        self.array = sim.zeros(3, requires_grad=False)
        self.nested = (self.rows, sim.zeros(2))


def toggle(made):
    made.nested[1].requires_grad = True


CHANGES = {
    "another number": lambda m: setattr(m, "number", 4),
    "another attribute": lambda m: setattr(m, "further", 1),
    "one less": lambda m: delattr(m, "text"),
    "one for another": lambda m: (delattr(m, "text"), setattr(m, "other", "as it is")),
    "in a list": lambda m: m.rows[1].append(4),
    "another in a list": lambda m: m.rows.__setitem__(0, 2),
    "in a dict": lambda m: m.names["a"].append(5),
    "another key": lambda m: m.names.update(b=m.names.pop("a")),
    "in a set": lambda m: m.chosen.add(6),
    "another array": lambda m: setattr(m, "array", sim.zeros(3)),
    "a gradient": toggle,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_any_kind_is_noticed(change):
    made, used = Made(), [sim.zeros(4), sim.zeros(5)]
    alike = Likeness.of(vars(made), used)
    assert alike.holds(vars(made), used) and alike.holds(vars(made), list(used))
    CHANGES[change](made)
    assert not alike.holds(vars(made), used)


def test_other_arrays_are_noticed():
    made, used = Made(), [sim.zeros(4), sim.zeros(5)]
    alike = Likeness.of(vars(made), used)
    assert not alike.holds(vars(made), used[:1]) and not alike.holds(vars(made), [used[0], sim.zeros(5)])
    used[1].requires_grad = True
    assert not alike.holds(vars(made), used)


def test_arrays_of_numpy_may_change_and_stay_the_same_object():
    made = Made()
    made.names["b"] = np.zeros(3)
    assert Likeness.of(vars(made), []) is None


def test_a_rollout_like_the_last_one_asks_for_no_fingerprint(monkeypatch):
    builder = sim.ModelBuilder()
    builder.add_particles([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0]], mass=[0.0, 1.0])
    builder.add_constraints("distance", [[0, 1]], compliance=1e-6)
    model = builder.finalize()
    solver, state, asked = sim.SolverXPBD(model), model.state(), []
    kept = workspace.fingerprint
    monkeypatch.setattr(workspace, "fingerprint", lambda value: asked.append(value) or kept(value))
    first = sim.rollout(solver, state, 3, 0.01)
    assert asked
    asked.clear()
    again = sim.rollout(solver, state, 3, 0.01)
    assert not asked
    np.testing.assert_array_equal(first.final.particle_q.numpy(), again.final.particle_q.numpy())
    solver.iterations = 2
    other = sim.rollout(solver, state, 3, 0.01)
    assert asked and not np.array_equal(other.final.particle_q.numpy(), again.final.particle_q.numpy())
