"""Programs about rules of derivatives that users give; each returns the numbers that are compared.

`import sim as wp` is what the oracle replaces.  There each function is a module of its own, with this file's imports.
"""

import numpy as np
from oracle_helpers import values_and_gradients, values_only

import sim as wp


def custom_gradient():
    @wp.func
    def clipped(x: float):
        return wp.min(x, 1.0)

    @wp.func_grad(clipped)
    def adj_clipped(x: float, adj_ret: float):
        wp.adjoint[x] += 10.0 * adj_ret

    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = clipped(x[i]) * 2.0

    return values_and_gradients(wp, work, [np.float32([0.5, -1.5, 2.0])])


def custom_gradient_of_a_writer():
    @wp.func
    def squash(i: int, x: wp.array(dtype=float), y: wp.array(dtype=float)):
        y[i] = 1.0 / (1.0 + wp.exp(-x[i]))

    @wp.func_grad(squash)
    def adj_squash(i: int, x: wp.array(dtype=float), y: wp.array(dtype=float)):
        wp.adjoint[x][i] += 10.0 * wp.adjoint[y][i] * y[i] * (1.0 - y[i])

    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        squash(wp.tid(), x, out)

    return values_and_gradients(wp, work, [np.float32([0.5, -1.5, 2.0])])


def recorded_function():
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y = wp.zeros(3, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.copy(y, x)

    def backward():
        x.grad.assign(y.grad.numpy() * 5.0)

    other = wp.Tape()
    other.record_func(backward, [x, y])
    y.grad.assign(np.float32([1, 2, 3]))
    other.backward()
    return [y.numpy(), x.grad.numpy()]


def without_backward():
    @wp.kernel(enable_backward=False)
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = x[i] * 3.0

    return values_only(wp, work, [np.float32([0.5, -1.5, 2.0])], wp.float32)


def func_grad_with_scratch_memory():
    @wp.func
    def twice_normalized(x: wp.array(dtype=float), y: wp.array(dtype=float), scratch: wp.array(dtype=float), at: int):
        square = float(0.0)
        for k in range(3):
            square += x[at + k] * x[at + k]
        for k in range(3):
            y[at + k] = 2.0 * x[at + k] / wp.sqrt(square)

    @wp.func_grad(twice_normalized)
    def backward(x: wp.array(dtype=float), y: wp.array(dtype=float), scratch: wp.array(dtype=float), at: int):
        if not scratch or not wp.adjoint[x]:
            return
        square = float(0.0)
        along = float(0.0)
        for k in range(3):
            scratch[at + k] = 2.0 * wp.adjoint[y][at + k]
            square += x[at + k] * x[at + k]
        for k in range(3):
            along += scratch[at + k] * x[at + k] / square
        for k in range(3):
            wp.adjoint[x][at + k] += (scratch[at + k] - along * x[at + k]) / wp.sqrt(square)

    @wp.kernel
    def work(
        x: wp.array(dtype=float), starts: wp.array(dtype=int), scratch: wp.array(dtype=float), y: wp.array(dtype=float)
    ):
        twice_normalized(x, y, scratch, starts[wp.tid()])

    x = wp.array(np.float32([1, 2, -2, 0.5, 0.1, 3]), dtype=float, requires_grad=True)
    y, scratch = wp.zeros(6, dtype=float, requires_grad=True), wp.zeros(6, dtype=float)
    with wp.Tape() as tape:
        wp.launch(work, dim=2, inputs=[x, wp.array([3, 0], dtype=int), scratch, y])
    tape.backward(grads={y: wp.array(np.float32([1, 2, 3, 4, 5, 6]), dtype=float)})
    return [y.numpy(), x.grad.numpy(), scratch.numpy()]


def func_grad_of_what_returns_and_writes():
    @wp.func
    def grow(x: float, kept: wp.array(dtype=float), i: int) -> float:
        e = wp.exp(0.5 * x)
        kept[i] = e
        return e * e

    @wp.func_grad(grow)
    def backward(x: float, kept: wp.array(dtype=float), i: int, ct: float):
        wp.adjoint[x] += ct * kept[i] * kept[i]

    @wp.kernel
    def work(x: wp.array(dtype=float), kept: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = 3.0 * grow(x[i] * x[i], kept, i)

    x = wp.array(np.float32([0.5, -1, 1.5]), dtype=float, requires_grad=True)
    y, kept = wp.zeros(3, dtype=float, requires_grad=True), wp.zeros(3, dtype=float)
    with wp.Tape() as tape:
        wp.launch(work, dim=3, inputs=[x, kept, y])
    tape.backward(grads={y: wp.ones(3, dtype=float)})
    return [y.numpy(), x.grad.numpy(), kept.numpy()]


def func_grad_of_rows_and_structs():
    @wp.struct
    class Weights:
        scale: float
        values: wp.array(dtype=float)

    @wp.func
    def weigh(w: Weights, row: wp.array(dtype=float)) -> float:
        s = float(0.0)
        for k in range(3):
            s += w.values[k] * row[k]
        return s * w.scale

    @wp.func_grad(weigh)
    def backward(w: Weights, row: wp.array(dtype=float), ct: float):
        for k in range(3):
            wp.adjoint[row][k] += ct * w.values[k] * w.scale
            wp.adjoint[w].scale += ct * w.values[k] * row[k]

    @wp.kernel
    def work(w: Weights, x: wp.array2d(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        own = Weights()
        own.values = w.values
        own.scale = x[i, 0] + w.scale
        y[i] = weigh(own, x[i])

    w = Weights()
    w.scale, w.values = 2.0, wp.array(np.float32([1, -2, 0.5]), dtype=float)
    x = wp.array(np.float32([[1, 2, 3], [-1, 0.5, 2]]), dtype=float, requires_grad=True)
    y = wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(work, dim=2, inputs=[w, x, y])
    tape.backward(grads={y: wp.array(np.float32([1, 3]), dtype=float)})
    return [y.numpy(), x.grad.numpy()]
