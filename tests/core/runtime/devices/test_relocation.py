"""Rows of one part of a program, run for others that are alike."""

import numpy as np
import pytest

import sim
from sim.core.runtime.devices.graph import Graph, capture, joined
from sim.core.runtime.devices.relocation import Relocatable, Strip, moved_between

PARTS, SIZE = 6, 32
STRIDE = 8 * SIZE


@sim.kernel
def fold(of: sim.array[sim.float64], factor: sim.float64, into: sim.array[sim.float64]):
    i = sim.tid()
    into[i] = into[i] + factor * of[i]


def memory() -> tuple[sim.array, sim.array]:
    rng = np.random.default_rng(5)
    return sim.array(rng.normal(size=PARTS * SIZE), dtype=sim.float64), sim.zeros(SIZE, dtype=sim.float64)


def part(x: sim.array, k: int, total: sim.array, factor: float = 2.0, count: int = SIZE, more: bool = False) -> Graph:
    """Adds a part of x to a total, and copies the total there."""
    own = x[k * SIZE : (k + 1) * SIZE]
    with capture() as graph:
        sim.launch(fold, count, [own, factor], [total])
        sim.copy(own, total)
        if more:
            sim.launch(fold, count, [own, factor], [total])
    return graph


def strip(x: sim.array) -> Strip:
    return Strip(x.ptr, STRIDE, PARTS)


def test_any_part_from_two_in_any_order():
    x, total = memory()
    first, second = part(x, 1, total), part(x, 2, total)
    moved = moved_between(first, second, strip(x))
    assert moved is not None and moved.sum() == 2, "the address in the launch, and that in the copy"
    made = Relocatable(first, moved, STRIDE)
    graphs = {k: made.moved_by(k - 1) for k in range(PARTS)}
    x, want, now = x.numpy(), x.numpy().copy(), total.numpy().copy()
    order = [3, 1, 0, 5, 5, 1, 4, 2]
    for k in order:
        now += 2.0 * want[k * SIZE : (k + 1) * SIZE]
        want[k * SIZE : (k + 1) * SIZE] = now
    for k in order[:4]:
        graphs[k].replay()
    joined([graphs[k] for k in order[4:]]).replay()
    np.testing.assert_array_equal(total.numpy(), now)
    np.testing.assert_array_equal(x, want)


@pytest.mark.parametrize("other", [{"factor": 3.0}, {"count": SIZE - 1}, {"more": True}])
def test_parts_that_differ_are_told(other):
    x, total = memory()
    assert moved_between(part(x, 1, total), part(x, 2, total, **other), strip(x)) is None


def test_so_are_those_at_other_distances():
    x, total = memory()
    assert moved_between(part(x, 1, total), part(x, 3, total), strip(x)) is None
    assert moved_between(part(x, 1, total), part(x, 1, total), strip(x)) is None
    assert moved_between(part(x, 1, total), part(x, 2, total), Strip(x.ptr + 3 * STRIDE, STRIDE, 2)) is None


def test_what_has_no_rows_is_not_alike():
    x, total = memory()
    with capture() as graph:
        graph.call(lambda: None)
    assert graph.rows is None
    assert moved_between(graph, part(x, 1, total), strip(x)) is None
