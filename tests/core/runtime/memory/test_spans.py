"""Where views lie in a buffer, against NumPy's own idea of it, and sets of bytes against sets of integers."""

from __future__ import annotations

import random

import numpy as np
import pytest

import sim
from sim.core.runtime.memory.spans import NOTHING, Spans, extent_of, is_packed, packed_strides, reach

VIEWS = {
    "all": lambda a: a,
    "row": lambda a: a[1],
    "columns": lambda a: a[:, 1:3],
    "every second": lambda a: a[::2, ::3],
    "backwards": lambda a: a[::-1, ::-2],
    "transposed": lambda a: a.transpose(),
    "none": lambda a: a[2:2],
}


@pytest.mark.parametrize("name", VIEWS)
def test_extents_and_spans_are_those_of_numpy(name):
    host = np.zeros((4, 7), np.float32)
    a = sim.array(host, copy=False)
    view, expected = VIEWS[name](a), VIEWS[name](host)
    start = host.__array_interface__["data"][0]
    low, high = (k - start for k in np.lib.array_utils.byte_bounds(expected)) if expected.size else (view.offset,) * 2
    assert extent_of(view) == (low, high)
    spans = Spans.of(view)
    assert sum(last - first for first, last in spans.runs) == expected.nbytes
    assert all(low <= first < last <= high for first, last in spans.runs)
    assert view.is_contiguous == is_packed(view.shape, view.strides, 4)
    assert view.is_contiguous == expected.flags.c_contiguous


def test_packed_memory():
    assert packed_strides((2, 3, 4), 8) == (96, 32, 8) and packed_strides((), 8) == ()
    assert is_packed((2, 3), (12, 4), 4) and not is_packed((2, 3), (16, 4), 4)
    assert is_packed((1, 3), (999, 4), 4), "a dimension of one element is never stepped over"
    assert is_packed((0, 3), (1, 1), 4), "and where there is nothing, nothing is apart"
    assert reach((3, 2), (-10, 4)) == (-20, 4)


def as_set(spans: Spans) -> set[int]:
    return {k for low, high in spans.runs for k in range(low, high)}


def test_the_algebra_is_that_of_sets():
    rng = random.Random(7)

    def drawn() -> Spans:
        return Spans.union((low, low + rng.randrange(5)) for low in rng.sample(range(40), rng.randrange(6)))

    for _ in range(300):
        a, b = drawn(), drawn()
        assert as_set(a | b) == as_set(a) | as_set(b)
        assert as_set(a & b) == as_set(a) & as_set(b)
        assert as_set(a - b) == as_set(a) - as_set(b)
        assert as_set(a.shifted(3)) == {k + 3 for k in as_set(a)}
        assert (a == b) == (as_set(a) == as_set(b)) and bool(a) == bool(as_set(a))
        for made in (a | b, a & b, a - b):
            assert all(high < low for (_, high), (low, _) in zip(made.runs, made.runs[1:], strict=False)), "runs touch"
    assert not NOTHING and NOTHING | NOTHING == NOTHING
