"""Random numbers: the documented hash, the state that advances, and the distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tools.library.rows import pcg
from tools.library.traced import Traced

from sim.core.backends.interp import evaluate
from sim.core.lang import types as t
from sim.core.lang.errors import KernelError
from sim.core.lang.frontend.function import func
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.ir.inline import inline
from sim.core.lang.library import rand
from sim.core.lang.library.rand import rand_init, randf, randi, randn, randu, sample_cdf

DRAWS = {
    name: getattr(rand, name) for name in vars(rand) if name.startswith("sample_unit") or name == "sample_triangle"
}


@func
def first_numbers(seed: int, offset: int):
    state = rand_init(seed, offset)
    a = randu(state)
    b = randi(state)
    c = randf(state)
    d = randf(state, -2.0, 3.0)
    e = randi(state, -5, 10)
    return a, b, c, d, e, state


def test_numbers_follow_the_documented_hash() -> None:
    traced = Traced(first_numbers, [t.int32, t.int32], t.float32)
    for seed, offset in ((0, 0), (42, 7), (-3, 100000)):
        state = pcg(((seed & 0xFFFFFFFF) + pcg(offset)) & 0xFFFFFFFF)
        words = []
        for _ in range(5):
            state = pcg(state)
            words.append(state)
        a, b, c, d, e, last = traced.call([seed, offset])
        assert (a, b, last) == (words[0], np.uint32(words[1]).astype(np.int32), words[4])
        assert c == np.float32((words[2] >> 8) / 2**24)
        assert np.isclose(d, 5 * ((words[3] >> 8) / 2**24) - 2, atol=1e-6)
        assert e == words[4] % 15 - 5


@func
def seed_only(seed: int):
    return rand_init(seed)


def test_one_seed_alone() -> None:
    assert Traced(seed_only, [t.int32]).call([12])[0] == pcg(12)


@func
def uniform_moments(seed: int, count: int):
    state = rand_init(seed)
    total, squares = 0.0, 0.0
    for _i in range(count):
        x = randf(state)
        total += x
        squares += x * x
    return total / float(count), squares / float(count)


@func
def normal_moments(seed: int, count: int):
    state = rand_init(seed)
    total, squares = 0.0, 0.0
    for _i in range(count):
        x = randn(state)
        total += x
        squares += x * x
    return total / float(count), squares / float(count)


def test_moments_of_uniform_and_normal_numbers() -> None:
    count = 4000  # standard errors: 0.0046 and 0.0047 (uniform), 0.016 and 0.022 (normal)
    kinds = [t.int32, t.int32]
    assert np.allclose(Traced(uniform_moments, kinds, t.float32).call([1, count]), [0.5, 1 / 3], atol=0.02)
    assert np.allclose(Traced(normal_moments, kinds, t.float32).call([1, count]), [0.0, 1.0], atol=0.09)


def _sampler(draw: Any) -> Any:
    @func
    def sample(seed: int):
        state = rand_init(seed)
        return draw(state)

    return sample


INSIDE = {
    "sample_triangle": lambda x: (x >= 0).all() and x.sum() <= 1,
    "sample_unit_ring": lambda x: abs(np.linalg.norm(x) - 1) < 1e-6,
    "sample_unit_disk": lambda x: np.linalg.norm(x) <= 1,
    "sample_unit_sphere_surface": lambda x: abs(np.linalg.norm(x) - 1) < 1e-6,
    "sample_unit_sphere": lambda x: np.linalg.norm(x) <= 1,
    "sample_unit_hemisphere_surface": lambda x: abs(np.linalg.norm(x) - 1) < 1e-6 and x[2] >= 0,
    "sample_unit_hemisphere": lambda x: np.linalg.norm(x) <= 1 and x[2] >= 0,
    "sample_unit_square": lambda x: (np.abs(x) <= 0.5).all(),
    "sample_unit_cube": lambda x: (np.abs(x) <= 0.5).all(),
    "sample_unit_hypercube": lambda x: (np.abs(x) <= 0.5).all(),
}
SECOND_MOMENTS = {
    "sample_triangle": [1 / 6, 1 / 6],
    "sample_unit_ring": [1 / 2] * 2,
    "sample_unit_disk": [1 / 4] * 2,
    "sample_unit_sphere_surface": [1 / 3] * 3,
    "sample_unit_sphere": [1 / 5] * 3,
    "sample_unit_hemisphere_surface": [1 / 3] * 3,
    "sample_unit_hemisphere": [1 / 5] * 3,
    "sample_unit_square": [1 / 12] * 2,
    "sample_unit_cube": [1 / 12] * 3,
    "sample_unit_hypercube": [1 / 12] * 4,
}


@pytest.mark.parametrize("name", DRAWS)
def test_samples_of_shapes(name: str) -> None:
    """Every sample lies in its shape, and the mean squares of the components are those of the uniform distribution."""
    traced = Traced(_sampler(DRAWS[name]), [t.int32], t.float32)
    points = np.array([traced.call([seed])[0] for seed in range(600)])
    assert all(INSIDE[name](p) for p in points)
    assert np.allclose((points**2).mean(axis=0), SECOND_MOMENTS[name], atol=0.06)


def test_a_state_has_to_be_a_variable() -> None:
    @func
    def wrong(seed: int):
        return randf(rand_init(seed))

    with pytest.raises(KernelError, match="local variable as its first argument"):
        Traced(wrong, [t.int32])


@func
def drawn_class(seed: int, cdf: t.array_type(float)):
    state = rand_init(seed)
    u = state
    return sample_cdf(state, cdf), randf(u)


def test_sampling_a_discrete_distribution() -> None:
    cdf = np.array([0.1, 0.1, 0.6, 1.0], np.float32)
    traced = trace_function(drawn_class, [t.int32, t.array_type(t.float32)])
    for seed in range(50):
        k, u = evaluate(inline(traced), seed, cdf)
        assert k == np.searchsorted(cdf, u)
