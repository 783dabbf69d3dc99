"""The smallest kernels that programs on tapes are made of."""

import sim

f64 = sim.float64


@sim.kernel
def square(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = x[i] * x[i]


@sim.kernel
def square_in_place(x: sim.array[f64]):
    i = sim.tid()
    x[i] = x[i] * x[i]


@sim.kernel
def total(x: sim.array[f64], out: sim.array[f64]):
    sim.atomic_add(out, 0, x[sim.tid()])


def zeros(n: int) -> sim.array:
    return sim.zeros(n, dtype=f64, requires_grad=True)
