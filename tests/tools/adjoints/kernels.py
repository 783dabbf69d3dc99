"""Small kernels that the tests of adjoints share."""

import sim
from sim.core.lang.frontend.custom import func_grad

f64, vec3 = sim.float64, sim.vec3d


@sim.kernel
def in_place(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = sim.sin(x[i]) * x[i] * y[i]
    x[i] = y[i]


@sim.kernel
def mixed_records(count: sim.array[int], p: sim.array[vec3], s: sim.array[sim.float32], y: sim.array[f64]):
    i = sim.tid()
    slot = sim.atomic_add(count, 0, 1)
    d = p[i]
    s[i] = s[i] * s[i]
    p[i] = d * d[0]
    y[slot] = d[1] * f64(s[i]) * d[2]


@sim.kernel
def linear(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = y[i] * 2.0 + x[i]
    x[i] = 3.0 * y[i]


@sim.kernel
def overwrites_in_a_loop(x: sim.array2d[f64], z: sim.array[f64], n: int):
    i = sim.tid()
    for j in range(n):
        x[i, (j + 1) % 3] = x[i, j % 3] * x[i, j % 3] * z[i]


@sim.kernel
def lists_in_a_loop(x: sim.array[f64], count: sim.array[int], total: sim.array[sim.int64], y: sim.array[f64], n: int):
    i = sim.tid()
    for j in range(n):
        slot = sim.atomic_add(count, 0, 1)
        old = sim.atomic_add(total, i, sim.int64(2))
        y[slot] = x[i] * x[i] * f64(j) + f64(old) * x[i]


@sim.func
def weighted(x: f64, table: sim.array[f64]):
    return x * table[0]


@func_grad(weighted)
def weighted_gradient(x: f64, table: sim.array[f64], ct: f64):
    sim.adjoint[x] += ct * table[0]


@sim.kernel
def calls_with_an_array(x: sim.array[f64], table: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = weighted(x[i], table)
