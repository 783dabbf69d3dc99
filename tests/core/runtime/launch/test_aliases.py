"""Which arguments overlap: groups of arrays of one buffer, one of them written."""

from __future__ import annotations

import pytest

import sim
from sim.core.runtime.launch.aliases import overlaps


def found(views, writes):
    return overlaps(views, range(len(views)), writes)


@pytest.mark.parametrize(
    ("cut", "writes", "expected"),
    [
        (lambda a: [a[:4], a[4:]], {0, 1}, ()),
        (lambda a: [a[:5], a[4:]], {1}, ({0, 1},)),
        (lambda a: [a[:5], a[4:]], set(), ()),
        (lambda a: [a[:4], a[6:], a[3:7]], {0}, ({0, 1, 2},)),
        (lambda a: [a[:2], a[8:], a[1:3], a[7:9]], {0, 1}, ({0, 2}, {1, 3})),
        (lambda a: [a[:2], a[8:], a[1:3], a[7:9]], {3}, ({1, 3},)),
        (lambda a: [a[:0], a], {1}, ()),
    ],
    ids=["apart", "overlap", "only read", "through a third", "two groups", "one of them read only", "empty"],
)
def test_groups(cut, writes, expected):
    assert found(cut(sim.zeros(10)), writes) == tuple(map(frozenset, expected))


def test_buffers_are_apart():
    a, b = sim.zeros(4), sim.zeros(4)
    assert found([a, b, a, b], {0, 3}) == (frozenset((0, 2)), frozenset((1, 3)))
