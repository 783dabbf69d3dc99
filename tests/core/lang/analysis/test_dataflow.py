"""The data-flow solver: the least solution, through branches and loops, whichever way values go around."""

from __future__ import annotations

import sim.core.lang.ir.ops  # noqa: F401 fills the table
from sim.core.lang.analysis.dataflow import least_fixpoint, reached_results, solve_forward
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Block, Func, Value, walk
from sim.core.lang.types import bool_, float32, int32


def swapping_loop() -> tuple[Func, dict[str, Value]]:
    """A loop that moves `a` through three carried values, one place a trip, and a branch on `c`."""
    block = Block([Value(t, n) for t, n in ((float32, "a"), (float32, "b"), (bool_, "c"), (int32, "n"))])
    a, b_, c, n = block.params
    with Builder(block) as b:
        named = dict(zip(("x", "y", "z"), b.for_(n, [b_, b_, a], lambda k, x, y, z: (y, z, z)), strict=True))
        named["apart"] = b_ * 2.0
        named["chosen"] = b.if_(c, lambda: [b_ * 3.0], lambda: [b_ * 4.0])[0]
        named["sum"] = named["x"] + named["apart"]
    return Func("f", block), named | {p.name: p for p in block.params}


def names(found: set[Value], named: dict[str, Value]) -> set[str]:
    return {name for name, v in named.items() if v in found}


def test_what_goes_around_a_loop_is_found_in_as_many_sweeps_as_it_takes():
    func, named = swapping_loop()
    found = solve_forward(walk(func.body), [named["a"]], reached_results)
    assert names(found, named) == {"a", "x", "y", "z", "sum"}


def test_control_dependence_is_asked_for():
    func, named = swapping_loop()
    start = [named["c"]]
    assert names(solve_forward(walk(func.body), start, reached_results), named) == {"c"}
    found = solve_forward(walk(func.body), start, lambda op, found: reached_results(op, found, controlled=True))
    assert names(found, named) == {"c", "chosen"}


def test_least_fixpoint_stops_at_the_least_set():
    assert least_fixpoint([1], lambda found: found.update([2 * k for k in found if k < 20])) == {1, 2, 4, 8, 16, 32}
