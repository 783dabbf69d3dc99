"""Kinds of values: what they take, what they refuse, and what they tell editors."""

from pathlib import Path

import pytest

from sim.schema.containers import Deferred, List, Map, Table, Union
from sim.schema.errors import Mark, SourceText, word_hint
from sim.schema.kinds import NOT_NEGATIVE, POSITIVE, Axes, Bool, Choice, Int, NameOf, Number, Text, Tuple
from sim.schema.reading import BROKEN, Default, Reading, SchemaLine, yaml_text
from sim.schema.yaml_marks import node_of

MARK = Mark(SourceText("x.yaml", "x", Path(".")), 1, 1)
LINE = SchemaLine("a", Number("m", POSITIVE), "a length", Default.REQUIRED)


def read(kind, value):
    """The data of a plain value, and what is wrong with it."""
    reading = Reading(Path("."))
    data = kind.read(node_of(value, MARK), ("a",), reading)
    return data, [problem.what for problem in reading.problems]


@pytest.mark.parametrize(("kind", "value", "data"), [
    (Int(1), 3, 3), (Bool(), True, True), (Number("m"), "5 mm", 0.005), (Tuple(2, "m"), [1, "2 cm"], [1.0, 0.02]),
    (Tuple(2, "m", none=True), [None, 1], [None, 1.0]), (Choice(("last", 3)), 3, 3), (Text(), "x", "x"),
    (List(Int()), [1, 2], [1, 2]), (List(Int()), None, []), (Map(Number()), {"k": 1}, {"k": 1.0}),
    (Union((Choice(("all",)), Number("s"))), "200 ms", 0.2), (Union((Choice(("all",)), Number("s"))), "all", "all"),
    (Table((LINE,)), {"a": "1 km"}, {"a": 1000.0}), (Deferred("anything"), {"b": [1]}, {"b": [1]}),
    (Axes(), ["z", "-y", "+x"], ["z", "-y", "x"]), (NameOf("objects"), "rope", "rope"),
])  # fmt: skip
def test_taken(kind, value, data):
    assert read(kind, value) == (data, [])


@pytest.mark.parametrize(("kind", "value", "what"), [
    (Int(1), 0, "0 is below 1"), (Int(1), 1.5, "expected a whole number from 1, got `1.5`"),
    (Int(), True, "expected a whole number from 0, got `true`"), (Number("m", NOT_NEGATIVE), -1, "zero or positive"),
    (Tuple(2), [1], "expected a list of 2 numbers"), (Tuple(3, nonzero=True), [0, 0, 0], "length zero"),
    (Tuple(2, none=True), [2, 1], "above the high end"), (Bool(), "yes", "expected `true` or `false`"),
    (Choice(("square",)), "sqare", "expected `square`"), (List(Int(), 1), [], "at least 1"),
    (Map(Int()), {"a b": 1}, "`a b` is not a name"), (Table((LINE,)), {"b": 1}, "unknown key `b`"),
    (Table((LINE,)), {}, "missing key `a`: a length"), (Table((LINE,), needs_one=True), None, "at least one of `a`"),
])  # fmt: skip
def test_refused(kind, value, what):
    _, problems = read(kind, value)
    assert any(what in problem for problem in problems), problems


def test_a_list_with_a_broken_item_is_broken():
    assert read(List(Int()), [1, "x"])[0] is BROKEN


def test_a_deferred_value_is_read_when_its_kind_is_known():
    reading, entry = Reading(Path(".")), {"start": "5 mm", "scale": "5 kg"}
    for key, value in entry.items():
        Deferred("later").read(node_of(value, MARK), ("p", key), reading)
    assert reading.read_deferred(("p",), entry, "start", Number("m")) == 0.005 == entry["start"]
    assert reading.read_deferred(("p",), entry, "scale", Number("m")) is None and "scale" not in entry
    assert reading.read_deferred(("p",), entry, "bounds", Number("m")) is None and len(reading.problems) == 1


@pytest.mark.parametrize(("kind", "schema"), [
    (Int(1, 5), {"type": "integer", "minimum": 1, "maximum": 5}), (Bool(), {"type": "boolean"}),
    (Choice(("a", 1)), {"enum": ["a", 1]}), (Deferred("x"), {}), (NameOf("objects"), {"type": "string"}),
    (List(Bool(), 1, 2), {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2}),
    (Union((Bool(), Text(pattern="x+"))), {"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": "^(?:x+)$"}]}),
    (Map(Bool(), keys="path"), {"type": ["object", "null"], "additionalProperties": {"type": "boolean"}}),
])  # fmt: skip
def test_what_editors_are_told(kind, schema):
    assert kind.json_schema() == schema


def test_cells_of_the_reference_page():
    assert Map(List(Union((Bool(), Table(()))))).cell() == "name -> list, each `true` or `false`, or mapping"
    assert Number("m", POSITIVE).cell() == "a length [m], positive" and Table((), short="a value").cell() == "a value"
    assert yaml_text({"a": [1.0, True, ""]}) == '{a: [1, true, ""]}'


def test_hints_for_words():
    assert word_hint("densty", ["density", "mass"]) == "did you mean `density`?"
    assert word_hint("ball", ["box", "sphere"]) == "did you mean `sphere`?"  # what others call it
    assert word_hint("ball", ["box"]) == "known here: `box`"
    assert word_hint("x", ["b", "a"]) == "known here: `a`, `b`" and word_hint("x", ["b", "a"], list_up_to=1) == ""
