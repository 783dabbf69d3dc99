"""Signs of eight numbers as the bits of one, where threads go alone and where eight go together."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.core.lang.frontend.builtins import sign_bits


@sim.kernel
def signs(
    order: sim.array(dtype=int),
    x: sim.array(dtype=sim.vec3),
    y: sim.array(dtype=sim.vec3),
    out: sim.array(dtype=sim.vec3),
):
    i = sim.tid()
    a, b = x[order[i]], y[order[i]]
    c = -a - b
    bits = sign_bits(int(a[0]), int(a[1]), int(a[2]), int(b[0]), int(b[1]), int(b[2]), int(c[0]), int(c[1]))
    out[order[i]] = sim.vec3(float(bits), a[0], b[0])


@pytest.mark.parametrize("count", [1, 7, 64, 67])
def test_signs_of_eight_numbers(count: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 3, (2, count, 3)).astype(np.float32)
    order, out = sim.array(rng.permutation(count).astype(np.int32)), sim.zeros(count, dtype=sim.vec3)
    sim.launch(signs, count, [order, sim.array(a, dtype=sim.vec3), sim.array(b, dtype=sim.vec3)], [out])
    eight = np.concatenate([a, b, (-a - b)[:, :2]], 1)
    assert (out.numpy()[:, 0] == ((eight < 0) << np.arange(8)).sum(1)).all()
