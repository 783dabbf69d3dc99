"""The mutants that mutation testing makes: which there are, what is left alone, and that every one is a program."""

from __future__ import annotations

import ast

import pytest
from mutants import mutants
from tools.places import ROOT


def changes(source: str) -> list[str]:
    """`before -> after` of every mutant, without the function's name."""
    return [m.name.partition(": ")[2] for m in mutants(source)]


@pytest.mark.parametrize(("source", "wanted"), [
    ("y = a < b", ["a < b -> a <= b", "a < b -> a >= b"]),
    ("y = a == b", ["a == b -> a != b"]),
    ("y = a in (b, c)", ["a in (b, c) -> a not in (b, c)", "a in (b, c) -> a in (c,)", "a in (b, c) -> a in (b,)"]),
    ("y = a and b and c",
     ["a and b and c -> a or b or c", "a and b and c -> b and c", "a and b and c -> a and c",
      "a and b and c -> a and b"]),
    ("y = not a", ["not a -> a"]),
    ("y = a + b * c", ["a + b * c -> a - b * c", "a + b * c -> a + (b / c)"]),
    ("y = 1", ["1 -> 2", "1 -> 0"]),
    ("y = 0.5", ["0.5 -> 1.5"]),
    ("y = True", ["True -> False"]),
    ("y = min(a, b)", ["min(a, b) -> max(a, b)"]),
    ("y = f(a, b, k=c)", ["f(a, b, k=c) -> f(b, a, k=c)", "f(a, b, k=c) -> f(a, b)"]),
    ("y = g(a)", ["g(a) -> a"]),
    ("y = a if b else c", ["a if b else c -> c if b else a"]),
    ("y = [k for k in a if k]", ["[k for k in a if k] -> [k for k in a]"]),
    ("a.b = c", ["a.b = c -> pass"]),
    ("a += b", ["a += b -> a -= b", "a += b -> pass"]),
    ("f(a, a)", ["f(a, a) -> pass"]),
    ("while f():\n    break", ["f() -> not (f())", "break -> pass"]),
    ("def f(a: 'x | 1' = 2) -> int:\n    'doc 1'\n    return a", ["2 -> 3", "return a -> return None"]),
    ("assert a < 1, 'text'", []),
    ("if a < b:\n    raise ValueError(1 + 1)",
     ["a < b -> a <= b", "a < b -> a >= b", "raise ValueError(1 + 1) -> pass"]),
    ("y = f'{a + 1}' + b", []),
    ("y = zip(a, b, strict=True)", []),
    ("class A:\n    def __repr__(self):\n        return 1", []),
    ("@cached(1)\ndef f():\n    pass", []),
])  # fmt: skip
def test_what_becomes_of_a_line(source, wanted):
    assert sorted(change.replace("y = ", "") for change in changes(source)) == sorted(wanted)


def test_a_mutant_says_where_it_is_and_changes_only_that():
    source = "def outer():\n    def inner(a):\n        return (a +\n                1)\n    return inner\n"
    assert sorted((m.line, m.last) for m in mutants(source)) == [(3, 4), (3, 4), (4, 4), (4, 4), (5, 5)]
    assert {m.name.partition(":")[0] for m in mutants(source)} == {"outer.inner", "outer"}


def test_names_are_unique():
    names = [m.name for m in mutants("y = first_of_both + 1\ny = first_of_both + 1")]
    assert len(names) == len(set(names)) and any(name.endswith(" (2)") for name in names)


@pytest.mark.parametrize(
    "name", ["sim/core/lang/instrument/races.py", "sim/core/lang/ir/ops.py", "sim/identify/search/loop.py"]
)
def test_every_mutant_is_another_program(name):
    raw = (ROOT / name).read_bytes()
    before, found = ast.dump(ast.parse(raw)), mutants(raw.decode())
    assert len(found) > 100
    for mutant in found[:: len(found) // 25]:
        assert ast.dump(ast.parse(mutant.apply(raw))) != before, mutant.name
