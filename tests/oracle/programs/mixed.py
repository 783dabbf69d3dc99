"""Programs that mix structs, closures, generics, atomics, views; each returns the numbers that are compared."""

from typing import Any

import numpy as np
from oracle_helpers import values_and_gradients, values_only

import sim as wp


def launches_of_other_dimensions():
    @wp.kernel
    def first(n: wp.array(dtype=int)):
        wp.atomic_add(n, wp.tid(), 1)

    @wp.kernel
    def both(n: wp.array2d(dtype=int)):
        i, j = wp.tid()
        wp.atomic_add(n, i, j, 1 + j)

    rows, grid = wp.zeros(4, dtype=int), wp.zeros((3, 2), dtype=int)
    wp.launch(first, dim=(4, 3), inputs=[rows])
    for dim in (3, (2, 2, 4), (1, 2, 2, 2)):
        wp.launch(both, dim=dim, inputs=[grid])
    command = wp.launch(both, dim=(1, 1), inputs=[grid], record_cmd=True)
    for dim in (2, (2, 2), (2, 1, 3)):
        command.set_dim(dim)
        command.launch()
    return [rows.numpy(), grid.numpy()]


def kernels_made_of_functions():
    @wp.func
    def square(x: float):
        return x * x

    @wp.func
    def cube(x: float):
        return x * x * x

    def composed(f: Any, g: Any):
        def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            out[i] = f(x[i]) + g(f(x[i]))

        return wp.Kernel(work, key=f"{f.key}_{g.key}", module=wp.get_module("composed"))

    found = []
    for f, g in ((square, cube), (cube, square), (square, wp.sin), (wp.exp, cube)):
        x = wp.array([0.3, -0.7, 1.1], dtype=float, requires_grad=True)
        out = wp.zeros(3, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(composed(f, g), dim=3, inputs=[x, out])
        tape.backward(grads={out: wp.ones_like(out)})
        found += [out.numpy(), x.grad.numpy()]
    return found


def a_struct_of_arrays_through_time():
    @wp.struct
    class State:
        x: wp.array(dtype=wp.vec3)
        v: wp.array(dtype=wp.vec3)
        f: wp.array2d(dtype=float)
        dt: float
        n: int

    @wp.func
    def force(s: State, i: int):
        return wp.vec3(0.0, -9.81, 0.0) * s.f[i, 0] - s.v[i] * s.f[i, 1]

    @wp.kernel
    def step(s: State, out: State):
        i = wp.tid()
        if i >= s.n:
            return
        v = s.v[i] + force(s, i) * s.dt
        out.v[i] = v
        out.x[i] = s.x[i] + v * s.dt

    @wp.kernel
    def measure(s: State, total: wp.array(dtype=float)):
        i = wp.tid()
        wp.atomic_add(total, 0, wp.length_sq(s.x[i]) + wp.dot(s.v[i], s.x[i]))

    r = np.random.default_rng(3)
    forces = wp.array(r.random((4, 2)), dtype=float, requires_grad=True)
    states = []
    for _ in range(4):
        s = State()
        s.x = wp.array(r.random((4, 3)), dtype=wp.vec3, requires_grad=True)
        s.v = wp.array(r.random((4, 3)), dtype=wp.vec3, requires_grad=True)
        s.f, s.dt, s.n = forces, 0.05, 3
        states.append(s)
    total = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        for now, then in zip(states, states[1:], strict=False):
            wp.launch(step, dim=4, inputs=[now], outputs=[then])
        wp.launch(measure, dim=4, inputs=[states[-1], total])
    tape.backward(total)
    return [total.numpy(), forces.grad.numpy(), states[0].x.grad.numpy(), states[0].v.grad.numpy()]


def a_closure_with_structs_in_an_array():
    def made(scale: float):
        @wp.func
        def scaled(x: Any, p: Any):
            return x * p.gain * type(x)(scale) + p.bias

        @wp.struct
        class Parameters:
            gain: float
            bias: float

        @wp.kernel
        def work(x: wp.array(dtype=float), p: wp.array(dtype=Parameters), out: wp.array(dtype=float)):
            i = wp.tid()
            out[i] = scaled(x[i], p[i % 2])

        return work, Parameters

    found = []
    for scale in (1.5, -2.0):
        work, kind = made(scale)
        a, b = kind(), kind()
        a.gain, a.bias, b.gain, b.bias = 2.0, 0.5, 3.0, -1.0
        p = wp.array([a, b], dtype=kind, requires_grad=True)
        x = wp.array([1.0, 2.0, 3.0, 4.0], dtype=float, requires_grad=True)
        out = wp.zeros(4, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(work, dim=4, inputs=[x, p, out])
        tape.backward(grads={out: wp.array([1.0, 2.0, 3.0, 4.0], dtype=float)})
        gradient = p.grad.numpy()
        found += [out.numpy(), x.grad.numpy(), gradient["gain"], gradient["bias"]]
    return found


def lists_in_one_array():
    @wp.struct
    class Node:
        key: int
        next: int

    @wp.kernel
    def push(nodes: wp.array(dtype=Node), head: wp.array(dtype=int), count: wp.array(dtype=int)):
        i = wp.tid()
        n = wp.atomic_add(count, 0, 1)
        nodes[n].key = i * i
        nodes[n].next = wp.atomic_exch(head, i % 2, n)

    @wp.kernel
    def walk(nodes: wp.array(dtype=Node), head: wp.array(dtype=int), total: wp.array(dtype=int)):
        i = wp.tid()
        at = head[i]
        while at >= 0:
            total[i] += nodes[at].key
            at = nodes[at].next

    nodes, head = wp.zeros(10, dtype=Node), wp.full(2, -1, dtype=int)
    count, total = wp.zeros(1, dtype=int), wp.zeros(2, dtype=int)
    wp.launch(push, dim=10, inputs=[nodes, head, count])
    wp.launch(walk, dim=2, inputs=[nodes, head, total])
    return [count.numpy(), total.numpy()]


def indexed_arrays_in_elements():
    @wp.struct
    class Chosen:
        values: wp.indexedarray(dtype=float)
        count: int

    @wp.kernel
    def work(chosen: wp.array(dtype=Chosen), out: wp.array2d(dtype=float)):
        i, j = wp.tid()
        if j < chosen[i].count:
            out[i, j] = chosen[i].values[j] * 2.0
            chosen[i].values[j] = -1.0

    values = wp.array(np.arange(8), dtype=float)
    made = []
    for indices in ([1, 3, 5], [6, 0]):
        c = Chosen()
        c.values = wp.indexedarray1d(values, [wp.array(indices, dtype=int)])
        c.count = len(indices)
        made.append(c)
    out = wp.zeros((2, 3), dtype=float)
    wp.launch(work, dim=(2, 3), inputs=[wp.array(made, dtype=Chosen), out])
    return [out.numpy(), values.numpy()]


def atomics_on_arrays_in_elements():
    @wp.struct
    class Counters:
        total: wp.array(dtype=float)
        marks: wp.array(dtype=int)

    @wp.kernel
    def work(counters: wp.array(dtype=Counters)):
        i = wp.tid()
        wp.atomic_add(counters[i % 2].total, 0, float(i))
        wp.atomic_or(counters[i % 2].marks, 0, 1 << i)
        wp.atomic_max(counters[i % 2].marks, 1, i * i)

    made, held = [], []
    for _ in range(2):
        c = Counters()
        c.total, c.marks = wp.zeros(1, dtype=float), wp.zeros(2, dtype=int)
        made.append(c)
        held += [c.total, c.marks]
    wp.launch(work, dim=7, inputs=[wp.array(made, dtype=Counters)])
    return [a.numpy() for a in held]


def arrays_that_were_not_set():
    @wp.struct
    class Pair:
        a: wp.array(dtype=float)
        b: wp.array2d(dtype=wp.vec3)

    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=int)):
        p = Pair()
        out[0] = p.a.shape[0] + p.b.shape[1]
        p.a = x
        out[1] = p.a.shape[0]

    out = wp.full(2, 7, dtype=int)
    wp.launch(work, dim=1, inputs=[wp.zeros(5, dtype=float), out])
    return [out.numpy()]


def rows_of_views_in_place():
    @wp.kernel
    def add(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] += x[i] * 2.0

    @wp.kernel
    def total(y: wp.array2d(dtype=float), out: wp.array(dtype=float)):
        i, j = wp.tid()
        wp.atomic_add(out, 0, y[i, j] * float(i + 1))

    x = wp.array(np.arange(12).reshape(3, 4), dtype=float, requires_grad=True)
    y, out = wp.zeros((3, 4), dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        for row in range(3):
            wp.launch(add, dim=4, inputs=[x[row], y[2 - row]])
        wp.launch(add, dim=3, inputs=[x[:, 1], y[:, 0]])
        wp.copy(y[1], x[0])
        wp.launch(total, dim=(3, 4), inputs=[y, out])
    tape.backward(out)
    return [out.numpy(), x.grad.numpy(), y.numpy()]


def conditions_that_draw():
    @wp.func
    def accepted(state: wp.uint32, change: float):
        return change <= 0.0 or wp.randf(state) < wp.exp(-change)

    @wp.kernel
    def walk(x: wp.array(dtype=float), out: wp.array2d(dtype=wp.uint32), n: wp.array(dtype=int)):
        i = wp.tid()
        s = wp.rand_init(7, i)
        for k in range(6):
            if (x[i] > 0.5 and wp.randf(s) < 0.7) or (wp.randf(s) < 0.3 and not wp.randf(s) > 0.5):
                n[i] = n[i] + 1
            if k > 4 or (k > 2 and wp.randn(s) > 0.5):
                break
        out[i, 0] = s
        m = int(0)
        while m < 9 and wp.randf(s) < 0.8:
            m += 1
        out[i, 1] = wp.uint32(m)
        if accepted(s, x[i]):
            out[i, 2] = wp.uint32(1)
        out[i, 3] = s

    @wp.kernel
    def weigh(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        s = wp.rand_init(3, i)
        y = x[i]
        if x[i] > 0.5 or wp.randf(s) < 0.5:
            y = x[i] * wp.randf(s)
        out[i] = y * y * (1.0 if x[i] < 0.0 or wp.randf(s) > 0.6 else wp.randf(s))

    values = np.random.default_rng(1).normal(size=12).astype(np.float32)
    state, n = wp.zeros((12, 4), dtype=wp.uint32), wp.zeros(12, dtype=int)
    wp.launch(walk, dim=12, inputs=[wp.array(values, dtype=float), state, n])
    return [state.numpy(), n.numpy(), *values_and_gradients(wp, weigh, [values])]


def grad_made_outside_of_kernels():
    @wp.func
    def height(x: float, y: float):
        return x * x * wp.sin(y)

    slopes = wp.grad(height)

    @wp.kernel(enable_backward=False)
    def work(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        by_x, by_y = slopes(x[i], y[i])
        out[i] = by_x - 2.0 * by_y

    return values_only(wp, work, [np.float32([0.5, -1.5, 2.0]), np.float32([0.3, 1.0, -2.0])], wp.float32)


def sums_of_runtime_loops():
    @wp.kernel
    def work(x: wp.array(dtype=float), y: wp.array2d(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        total = x[i]
        for k in range(y.shape[1]):
            total += y[i, k]
        out[i] = total * total

    return values_and_gradients(wp, work, [np.float32([0.5, -1.5]), np.float32([[1.0, 2.0, 0.5], [0.25, -1.0, 4.0]])])
