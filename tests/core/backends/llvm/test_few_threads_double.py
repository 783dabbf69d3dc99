"""Kernels for few threads, whose scalars LLVM gathers into vectors: where that fails, it ends the whole process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

PROGRAM = """
import numpy as np
import sim

f64 = sim.float64

@sim.struct
class Part:
    a: f64
    v: sim.vec3d
    m: sim.mat22d
    k: sim.int32

@sim.struct
class Pair:
    left: Part
    w: sim.vec2d
    t: f64
    right: Part

@sim.func
def turned(x: f64, v: sim.vec3d):
    s = sim.sin(x)
    if s > f64(0.3):
        return s, v * x
    return s * x, sim.cross(v, sim.vec3d(x, s, f64(1.0)))

@sim.func
def first_above(v: sim.vec3d, limit: f64):
    for k in range(3):
        if v[k] > limit:
            return v[k] * v[k]
    return limit * f64(2.0)

@sim.func
def weighed(x: sim.array2d(dtype=f64), left_out: int):
    s = f64(0.0)
    for i in range(x.shape[0]):
        if i == left_out:
            continue
        for j in range(x.shape[1]):
            s += x[i, j] * f64(j + 1)
    return s

@sim.func
def inverse_near(m: sim.mat22d):
    return sim.inverse(m * f64(0.1) + sim.mat22d(f64(3.0), f64(0.2), f64(0.1), f64(2.5)))

@sim.kernel
def work(x: sim.array(dtype=f64), table: sim.array2d(dtype=f64), pairs: sim.array(dtype=Pair), y: sim.array(dtype=f64)):
    i = sim.tid()
    half = x[i] * f64(0.5)
    v = pairs[i].left.v
    s, w = turned(half, sim.cw_mul(pairs[i].right.v, v))
    m = inverse_near(pairs[i].right.m) + inverse_near(pairs[i].left.m)
    if m[0, 0] * half > sim.sin(s) or i < 1:
        return
    y[i] += first_above(sim.cross(pairs[i].right.v, w), weighed(table, i) * f64(0.2))
    y[i] += sim.trace(m * sim.mat22d(f64(0.3), f64(0.7), f64(-0.4), f64(0.9)))

x = sim.ones(4, dtype=f64, requires_grad=True)
table = sim.ones((3, 4), dtype=f64, requires_grad=True)
pairs = sim.zeros(4, dtype=Pair, requires_grad=True)
y = sim.zeros(4, dtype=f64, requires_grad=True)
with sim.Tape() as tape:
    sim.launch(work, 3, [x, table, pairs, y])
tape.backward(grads={y: sim.ones(4, dtype=f64)})
print(*y.numpy(), *table.grad.numpy().ravel())
"""


def test_the_process_lives(tmp_path: Path) -> None:
    """Two inverses of 2 x 2 in double precision, their sum and a product, behind a return under a condition."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "SIM_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
    found = np.array(done.stdout.split(), float)
    m = 2 * np.linalg.inv([[3.0, 0.2], [0.1, 2.5]])
    expected = 8.0 + np.trace(m @ [[0.3, 0.7], [-0.4, 0.9]])
    np.testing.assert_allclose(found[:4], [0.0, expected, expected, 0.0], rtol=1e-12)
    np.testing.assert_allclose(found[4:], 0.4 * np.outer([2, 1, 1], [1, 2, 3, 4]).ravel(), rtol=1e-12)
