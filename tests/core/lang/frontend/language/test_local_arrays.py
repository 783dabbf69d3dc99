"""Small arrays that a kernel makes for a thread: shapes, elements, functions that work on them, gradients."""

from typing import Any

import numpy as np
import pytest

import sim
from sim.core.runtime.derivatives.gradcheck import gradcheck


@sim.struct
class Item:
    number: int
    values: sim.vec2


@sim.func
def count_up(a: sim.array2d(dtype=int), start: int):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i][j] = start + i * a.shape[1] + j


@sim.func
def made(n: int) -> sim.fixedarray(shape=(2, 3), dtype=Item):
    items = sim.zeros(shape=(2, 3), dtype=Item)
    for i in range(n):
        items[i, 1].number = i + 7
        items[i][1].values[1] = float(i) + 0.5
    return items


@sim.func
def last_of(a: sim.array(dtype=Any)):
    return a[a.shape[0] - 1]


@sim.kernel
def uses(n: int, out: sim.array(dtype=float)):
    a = sim.zeros(shape=(2, 3), dtype=int)
    count_up(a, 0)
    out[0] = float(a[1, 2])
    part = a[:2, 1:]
    out[1] = float(part[1, 0] + part.shape[0] + part.shape[1] + part.shape[2])
    count_up(a[::-1], 10)
    out[2] = float(a[1][0] * 100 + a[0][0])
    items = made(n)
    out[3] = float(items[1][1].number) + items[n - 1, 1].values[1]
    deep = sim.zeros(shape=(2, 2, 2, 2), dtype=float)
    deep[1, 0, n - 1, 1] = 3.0
    out[4] = deep[1][0][1][1] + deep[0, 0, n - 1, 1]
    points = sim.zeros(shape=3, dtype=sim.vec3)
    points[n] = sim.vec3(1.0, 2.0, 3.0)
    points[n][0] += 4.0
    out[5] = last_of(points)[0] + last_of(deep[1, 0, 1])
    copied = points
    copied[n] = sim.vec3(0.0)
    row = a[1]
    row[0] = n
    out[6] = points[n][1] + float(a[1, 0])


def test_values():
    out = sim.zeros(7)
    sim.launch(uses, 1, [2, out])
    assert out.list() == [5.0, 8.0, 1013.0, 9.5, 3.0, 8.0, 4.0]


@sim.kernel
def smoothed(x: sim.array(dtype=sim.float64), n: int, y: sim.array(dtype=sim.float64)):
    window = sim.zeros(shape=20, dtype=sim.float64)
    for i in range(n):
        window[i] = x[i] * x[i]
        if i > 0:
            window[i] += window[i - 1] * x[i]
    for i in range(20):
        y[i % n] += window[i] * window[n - 1]


def test_gradients():
    x, y = sim.array(np.linspace(0.3, 0.9, 5), requires_grad=True), sim.zeros(5, dtype=sim.float64, requires_grad=True)
    assert gradcheck(smoothed, inputs=[x, 5], outputs=[y], dim=1)


@sim.kernel
def of_a_shape_of_the_run(n: int):
    a = sim.zeros(shape=n, dtype=float)
    a[0] = 1.0


@sim.kernel
def large(out: sim.array(dtype=float)):
    a = sim.zeros(shape=(20, 20), dtype=float)
    out[0] = a[0, 0]


@sim.kernel
def beyond(out: sim.array(dtype=float)):
    a = sim.zeros(shape=3, dtype=float)
    out[0] = a[3]


@sim.kernel
def shared(out: sim.array(dtype=float)):
    a = sim.zeros(shape=3, dtype=float)
    sim.atomic_add(a, 0, out[0])


@pytest.mark.parametrize(
    ("kernel", "argument", "what"),
    [
        (of_a_shape_of_the_run, lambda: 3, "takes one to four constant extents"),
        (large, lambda: sim.zeros(1), "at most 256 numbers"),
        (beyond, lambda: sim.zeros(1), r"index 3 is outside of 0 \.\. 2"),
        (shared, lambda: sim.zeros(1), "no other thread sees it"),
    ],
)
def test_refused(kernel, argument, what):
    with pytest.raises(sim.KernelError, match=what):
        sim.launch(kernel, 1, [argument()])


@sim.struct
class Mixed:
    a: sim.float64
    v: sim.vec3d
    m: sim.mat22d
    n: int


@sim.kernel
def components_of_the_run(x: sim.array(dtype=sim.float64), i: int, k: int, out: sim.array(dtype=sim.float64)):
    rows = sim.zeros(shape=2, dtype=sim.mat22d)
    rows[i][k] = sim.vec2d(x[0], x[1])
    row = rows[i][k]
    out[0] = 10.0 * row[0] + rows[1][1, 1]
    items = sim.zeros(shape=3, dtype=Mixed)
    items[i].m[k] = sim.vec2d(x[0], x[1])
    items[i].m[k][k] += x[2]
    items[i].m[k, 0] *= x[2]
    out[1] = items[1].m[1, 0] + items[i].m[1, k]
    items[i].v[k] = x[1] * x[1]
    items[i].v[k + 1] = items[1].v[k] * x[0]
    out[2] = items[i].v[2 * k]
    items[i].v[7 * k] = x[0]
    out[3] = sim.float64(items[i].n) + items[i].a + items[i].m[0, 0]


def test_components_of_its_elements_chosen_at_run_time():
    x, out = (sim.array(v, dtype=sim.float64, requires_grad=True) for v in ([2.0, 3.0, 5.0], np.zeros(4)))
    sim.launch(components_of_the_run, 1, [x, 1, 1, out])
    assert out.list() == [23.0, 18.0, 18.0, 0.0]
    assert gradcheck(components_of_the_run, inputs=[x, 1, 1], outputs=[out], dim=1)
