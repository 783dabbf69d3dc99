"""Solvers declare what a scene may say of them: a key, a sentence, a line for each setting."""

from dataclasses import dataclass, fields

import numpy as np
import pytest

import sim
from sim.scene.schema.keys.materials import registered_materials
from sim.scene.schema.keys.scene import scene_schema
from sim.schema.kinds import Choice, Int
from sim.schema.reading import SchemaLine
from sim.solvers import SOLVERS, Solver, SolverError
from sim.solvers.fingerprint import copy_containers, fingerprint


@pytest.fixture
def free_flight():
    """A solver that is gone after the test."""

    @dataclass(eq=False, repr=False)
    class FreeFlight(Solver, key="free_flight"):
        about = "points without constraints"
        schema = (
            SchemaLine("patience", Int(1), "of no use", 3),
            SchemaLine("mood", Choice(("good", "bad")), "of no use", "good"),
        )

        patience: int = 3
        mood: str = "good"

        def __post_init__(self):
            self._check_settings()
            self._prepare(keeps=False)

        def _advance(self, s):
            self._predict(s)
            self._finish(s)

    yield FreeFlight
    del SOLVERS["free_flight"]


def model():
    builder = sim.ModelBuilder()
    builder.add_chain((0, 0, 0), (1, 0, 0), 3, 1.0, material={"distance": {"compliance": 0.0}})
    return builder.finalize(dtype=sim.float64)


def test_a_new_solver_steps_and_is_registered_by_its_class(free_flight):
    assert SOLVERS["free_flight"] is free_flight
    solver, state = free_flight(model()), None
    state, after = solver.model.state(), solver.model.state()
    solver.step(state, after, None, None, 0.1)
    np.testing.assert_allclose(after.particle_q.numpy()[:, 1], -0.0981)
    assert repr(solver).startswith("FreeFlight(patience=3, mood='good'; Model(")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"patience": 0}, "patience=0; expected at least 1"),
        ({"patience": 1.5}, "patience=1.5; expected a whole number, at least 1"),
        ({"mood": "god"}, "mood='god' .did you mean 'good'..; expected 'good' or 'bad'"),
        ({"mood": 3}, "mood=3; expected 'good' or 'bad'"),
    ],
)
def test_settings_are_checked_by_the_lines_that_declare_them(free_flight, settings, words):
    with pytest.raises(SolverError, match=words):
        free_flight(model(), **settings)


@pytest.mark.parametrize("name", SOLVERS)
def test_lines_and_fields_agree(name):
    """A scene's settings are keyword arguments, with the same defaults."""
    own = {f.name: f.default for f in fields(SOLVERS[name]) if f.init and f.name != "model"}
    assert {line.name: line.default for line in SOLVERS[name].schema} == own and SOLVERS[name].about


def test_the_keys_of_a_scene_are_those_of_the_classes():
    line = next(child for child in scene_schema(registered_materials()).kind.lines if child.name == "solver")
    assert {child.name: child.kind.lines for child in line.kind.lines} == {k: s.schema for k, s in SOLVERS.items()}
    assert line.kind.lines[0].name == "xpbd" and line.default == {"xpbd": {}}


def test_fingerprints_tell_values_and_arrays():
    x = sim.zeros(3)
    one = {"a": [1, (2.0, "b")], "c": np.arange(3), "x": x}
    other = copy_containers(one)
    assert fingerprint(one) == fingerprint(other)
    one["c"][0] = 5
    assert fingerprint(one) != fingerprint(other) and other["c"][0] == 0
    assert fingerprint(x) != fingerprint(sim.zeros(3)) and fingerprint(x) == fingerprint(x)
