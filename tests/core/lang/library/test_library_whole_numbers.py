"""Functions of the library whose results are integers: bits, searching, triangles that meet, Poisson numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tools.library.traced import Traced

from sim.core.backends.interp import evaluate
from sim.core.lang import types as t
from sim.core.lang.frontend.function import func
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.ir.inline import inline
from sim.core.lang.library import LIBRARY
from sim.core.lang.library.rand import poisson, rand_init
from sim.core.lang.library.search import lower_bound

INTEGERS = [t.int8, t.uint8, t.int16, t.uint16, t.int32, t.uint32, t.int64, t.uint64]


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_bits_are_counted_in_twos_complement(kind: Any) -> None:
    info = np.iinfo(kind.np)
    count = Traced(LIBRARY["bit_count"], [kind])
    for x in (0, 1, 45, info.max, info.min, -1 if info.min else 7):
        assert count.call([kind.np.type(x)]) == [bin(x & (2**kind.bits - 1)).count("1")]


@func
def found(a, value):
    return lower_bound(a, value), lower_bound(a, 2, 5, value), lower_bound(a, value=value)


def test_bits_of_a_constant_are_those_of_an_int32_if_it_is_one() -> None:
    bit_count = LIBRARY["bit_count"]
    assert (bit_count(-1), bit_count(45), bit_count(2**40), bit_count(t.int64(-1))) == (32, 4, 1, 64)


@pytest.mark.parametrize("kind", [t.float32, t.int64], ids=str)
def test_lower_bound(kind: Any) -> None:
    a = np.array([-3, 0, 0, 2, 2, 7, 9], kind.np)
    search = inline(trace_function(found, [t.array_type(kind), kind]))
    for value in range(-5, 12):
        expected = min(np.searchsorted(a, value), len(a) - 1)
        inside = 2 + min(np.searchsorted(a[2:5], value), 2)
        assert evaluate(search, a, kind.np.type(value)) == (expected, inside, expected)


def meet(*corners: Any) -> bool:
    traced = Traced(LIBRARY["intersect_tri_tri"], [t.vector(3, t.float64)] * 6, t.float64)
    return bool(traced.call([np.array(c, np.float64) for c in corners])[0])


FLAT = ((0, 0, 0), (2, 0, 0), (0, 2, 0))
PAIRS = [
    (True, ((0.5, 0.5, -1), (0.5, 0.5, 1), (3, 3, 1))),  # an edge goes through
    (False, ((2.5, 0.5, -1), (2.5, 0.5, 1), (3, 3, 1))),  # it passes beside
    (False, ((0, 0, 1), (2, 0, 1), (0, 2, 1))),  # parallel planes
    (False, ((0, 0, 0.5), (1, 0, 2), (0, 1, 1))),  # on one side
    (True, ((0, 0, 0), (0, 0, 1), (-1, 0, 1))),  # a corner in common
    (True, ((1, -1, 0), (1, 1, 0), (3, 0, 0))),  # in the plane, edges cross
    (True, ((0.2, 0.2, 0), (0.4, 0.2, 0), (0.2, 0.4, 0))),  # in the plane, one within the other
    (True, ((-9, -9, 0), (9, -9, 0), (0, 19, 0))),  # the other within the one
    (False, ((3, 3, 0), (4, 3, 0), (3, 4, 0))),  # in the plane, apart
]


@pytest.mark.parametrize(("met", "other"), PAIRS)
def test_triangles_that_meet(met: bool, other: Any) -> None:
    """In every direction of space, and for every order of corners."""
    turns = [np.eye(3)[[a, b, c]] for a, b, c in ((0, 1, 2), (1, 2, 0), (2, 0, 1))]
    for k, turn in enumerate(turns):
        one, two = np.roll(np.array(FLAT, float), k, axis=0) @ turn, np.roll(np.array(other, float), -k, axis=0) @ turn
        assert meet(*one, *two) == meet(*two, *one) == met


def test_triangles_at_random_meet_where_an_edge_of_one_goes_through_the_other() -> None:
    rng = np.random.default_rng(3)

    def pierced(tri: np.ndarray, p: np.ndarray, q: np.ndarray) -> bool:
        m = np.stack([tri[1] - tri[0], tri[2] - tri[0], p - q], axis=1)
        u, v, s = np.linalg.solve(m, p - tri[0])
        return bool(u >= 0 and v >= 0 and u + v <= 1 and 0 <= s <= 1)

    for _ in range(60):
        a, b = rng.uniform(-1, 1, (2, 3, 3))
        expected = any(pierced(x, y[k], y[(k + 1) % 3]) for x, y in ((a, b), (b, a)) for k in range(3))
        assert meet(*a, *b) == expected


@func
def drawn(seed: int, mean: float):
    state = rand_init(seed)
    first = poisson(state, mean)
    return first, poisson(state, mean), state


@pytest.mark.parametrize("mean", [0.0, 0.7, 9.5, 10.0, 40.0])
def test_poisson_numbers_have_their_mean_and_variance(mean: float) -> None:
    draw = inline(trace_function(drawn, [t.int32, t.float32]))
    numbers = np.array([evaluate(draw, seed, mean)[:2] for seed in range(60)], float).ravel()
    assert abs(numbers.mean() - mean) <= 4 * np.sqrt(mean / numbers.size)
    assert abs(numbers.var() - mean) <= 5 * mean * np.sqrt(2.5 / numbers.size)


def test_the_sequence_of_poisson_numbers_is_that_of_the_documented_algorithms() -> None:
    """As Warp 1.19 draws them from the same states."""
    draw = inline(trace_function(drawn, [t.int32, t.float32]))
    found = [tuple(int(v) for v in evaluate(draw, 12, mean)) for mean in (0.5, 3.0, 25.0, 1000.0)]
    assert found == [(0, 1, 2502185783), (4, 2, 24227914), (22, 26, 3386282859), (984, 1007, 3386282859)]
