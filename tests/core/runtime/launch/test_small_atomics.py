"""Atomics on numbers narrower than 32 bits, which Warp refuses: the value, neighbours in the same word, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sim
from sim.core.lang.types import float16, int8, int16, uint8, uint16, vector

THREADS = 20011
MEANINGS = {"add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum}


@pytest.fixture(params=[1, 2], ids="{} threads".format)
def threads(request):
    before = sim.get_num_threads()
    sim.set_num_threads(request.param)
    yield
    sim.set_num_threads(before)


@pytest.mark.parametrize("name", MEANINGS)
@pytest.mark.parametrize("kind", [int8, uint8, int16, uint16, float16, vector(3, int8), vector(3, uint16)], ids=str)
def test_values(threads, kind: Any, name: str) -> None:
    atomic, dtype = getattr(sim, f"atomic_{name}"), kind.np.base
    if dtype.kind == "f" and name in ("add", "sub"):
        pytest.skip("Warp has these, and their sums are rounded in the order of threads")

    @sim.kernel
    def k(x: sim.array(dtype=kind), v: sim.array(dtype=kind)):
        i = sim.tid()
        atomic(x, i % 7, v[i])

    rng = np.random.default_rng(3)
    values = rng.integers(0 if dtype.kind == "u" else -99, 100, (THREADS, *kind.np.shape)).astype(dtype)
    expected = rng.integers(0, 50, (7, *kind.np.shape)).astype(dtype)
    x = sim.array(expected, dtype=kind)
    sim.launch(k, THREADS, [x, sim.array(values, dtype=kind)])
    MEANINGS[name].at(expected, np.arange(THREADS) % 7, values)
    np.testing.assert_array_equal(x.numpy(), expected)


def test_the_gradient_of_a_float16_extreme_goes_to_what_has_set_it() -> None:
    @sim.kernel
    def k(v: sim.array(dtype=float16), least: sim.array(dtype=float16), most: sim.array(dtype=float16)):
        i = sim.tid()
        sim.atomic_min(least, 0, v[i] * v[i])
        sim.atomic_max(most, 0, float16(2.0) * v[i])

    v = sim.array([1.5, -0.5, 3.0, 2.0], dtype=float16, requires_grad=True)
    least, most = (sim.full(1, value, dtype=float16, requires_grad=True) for value in (9.0, 0.0))
    with sim.Tape() as tape:
        sim.launch(k, 4, [v, least, most])
    assert least.numpy()[0] == 0.25 and most.numpy()[0] == 6.0
    tape.backward(grads={least: [1.0], most: [1.0]})
    assert v.grad.numpy().tolist() == [0.0, -1.0, 2.0, 0.0] and least.grad.numpy()[0] == most.grad.numpy()[0] == 0.0
