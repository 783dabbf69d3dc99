"""Whole programs of researchers, each against central differences: grids, neighbour lists, networks, tables, sorts,
local stacks."""

import numpy as np
import pytest
from tools.tapes.gradients import array, assert_gradient

import sim as wp

f64 = wp.float64
vec2, vec3, mat22, mat33, mat32 = wp.vec2d, wp.vec3d, wp.mat22d, wp.mat33d, wp.types.matrix((3, 2), f64)
rng = np.random.default_rng(11)
NOWHERE = 1 << 28
"""An index that must never be followed."""


def zeros(shape: object, dtype: object = f64) -> wp.array:
    return wp.zeros(shape, dtype=dtype, requires_grad=True)


def ints(values: object) -> wp.array:
    return wp.array(np.array(values), dtype=int)


@wp.kernel
def weighted(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    s = x[i] * f64(i % 7 + 1) * f64(0.1)
    wp.atomic_add(out, 0, s + s * s / (f64(1.0) + s * s))


def end(*arrays: wp.array) -> wp.array:
    """A number that everything in the arrays goes into."""
    out = zeros(1)
    for x in arrays:
        flat = x.view(f64).flatten() if x.dtype is not f64 else x.flatten()
        wp.launch(weighted, dim=flat.size, inputs=[flat], outputs=[out])
    return out


# ---- the material point method: particles, a grid that is reused every step, and back
@wp.func
def hat(f: vec2):
    """Weights of the three nodes along both axes, a row each."""
    a, b, c = f64(1.5), f64(1.0), f64(0.5)
    return mat32(c * (a - f[0]) ** f64(2.0), c * (a - f[1]) ** f64(2.0), f64(0.75) - (f[0] - b) ** f64(2.0),
                 f64(0.75) - (f[1] - b) ** f64(2.0),
                 c * (f[0] - c) ** f64(2.0), c * (f[1] - c) ** f64(2.0))  # fmt: skip


@wp.kernel
def to_grid(x: wp.array(dtype=vec2), v: wp.array(dtype=vec2), c: wp.array(dtype=mat22), volume: wp.array(dtype=f64),
            stiffness: wp.array(dtype=f64),
            momentum: wp.array2d(dtype=vec2), mass: wp.array2d(dtype=f64), n: int, dt: f64):  # fmt: skip
    p = wp.tid()
    at = x[p] * f64(n)
    i, j = int(at[0] - f64(0.5)), int(at[1] - f64(0.5))
    f = at - vec2(f64(i), f64(j))
    w = hat(f)
    pull = -dt * f64(0.04) * stiffness[0] * (volume[p] - f64(1.0)) * f64(n * n)
    affine = mat22(pull, f64(0.0), f64(0.0), pull) + c[p]
    for a in range(3):
        for b in range(3):
            weight = w[a, 0] * w[b, 1]
            wp.atomic_add(momentum, i + a, j + b, weight * (v[p] + affine * ((vec2(f64(a), f64(b)) - f) / f64(n))))
            wp.atomic_add(mass, i + a, j + b, weight)


@wp.kernel
def on_grid(v: wp.array2d(dtype=vec2), mass: wp.array2d(dtype=f64), dt: f64):
    i, j = wp.tid()
    if mass[i, j] > f64(0.0):
        v[i, j] = v[i, j] / mass[i, j]
    v[i, j] -= vec2(f64(0.0), dt * f64(9.8))
    if i < 5 and v[i, j][0] < f64(0.0):
        v[i, j][0] = f64(0.0)
    if j < 5 and v[i, j][1] < f64(0.0):
        v[i, j] = vec2(v[i, j][0], f64(0.0))


@wp.kernel
def from_grid(x: wp.array(dtype=vec2), v: wp.array(dtype=vec2), c: wp.array(dtype=mat22), volume: wp.array(dtype=f64),
              grid: wp.array2d(dtype=vec2),
              n: int, dt: f64):  # fmt: skip
    p = wp.tid()
    at = x[p] * f64(n)
    i, j = int(at[0] - f64(0.5)), int(at[1] - f64(0.5))
    f = at - vec2(f64(i), f64(j))
    w = hat(f)
    new, spread = vec2(), mat22()
    for a in range(3):
        for b in range(3):
            here = grid[i + a, j + b] * (w[a, 0] * w[b, 1])
            new += here
            spread += wp.outer(here, (vec2(f64(a), f64(b)) - f) / f64(n)) * f64(4 * n * n)
    v[p] = new
    c[p] = spread
    x[p] += dt * new
    volume[p] *= f64(1.0) + dt * wp.trace(spread)


def material_points(x: wp.array, v: wp.array, stiffness: wp.array) -> wp.array:
    n, dt, count = 16, f64(2e-3), x.size
    c, volume, grid, mass = zeros(count, mat22), zeros(count), zeros((n, n), vec2), zeros((n, n))
    volume.fill_(1.0)
    for _ in range(5):
        grid.zero_()
        mass.zero_()
        wp.launch(to_grid, dim=count, inputs=[x, v, c, volume, stiffness, grid, mass, n, dt])
        wp.launch(on_grid, dim=(n, n), inputs=[grid, mass, dt])
        wp.launch(from_grid, dim=count, inputs=[x, v, c, volume, grid, n, dt])
    return end(x)


# ---- neighbours: linked lists of cells by atomic_exch, rebuilt every step
@wp.kernel
def link(x: wp.array(dtype=f64), head: wp.array(dtype=int), following: wp.array(dtype=int)):
    i = wp.tid()
    following[i] = wp.atomic_exch(head, int(x[i] / f64(0.4)) % 4, i)


@wp.kernel
def repel(x: wp.array(dtype=f64), head: wp.array(dtype=int), following: wp.array(dtype=int), f: wp.array(dtype=f64)):
    i = wp.tid()
    f[i] = f64(0.0)
    for c in range(4):
        j = head[c]
        while j != -1:
            d = x[i] - x[j]
            f[i] += d * wp.exp(-d * d)
            j = following[j]


@wp.kernel
def move(x: wp.array(dtype=f64), f: wp.array(dtype=f64)):
    i = wp.tid()
    x[i] += f64(0.05) * f[i]


def linked_cells(x: wp.array) -> wp.array:
    head, following, f = wp.full(4, -1, dtype=int), wp.full(x.size, -1, dtype=int), zeros(x.size)
    for _ in range(4):
        head.fill_(-1)
        wp.launch(link, dim=x.size, inputs=[x, head, following])
        wp.launch(repel, dim=x.size, inputs=[x, head, following, f])
        wp.launch(move, dim=x.size, inputs=[x, f])
    return end(x)


# ---- indices that stand for nothing must not be followed, neither forward nor backward
@wp.kernel
def guarded(x: wp.array(dtype=f64), count: wp.array(dtype=int), at: wp.array(dtype=int), c: wp.array(dtype=f64)):
    i = wp.tid()
    for k in range(count[i]):
        x[at[i]] = x[at[i]] * c[i] + f64(0.1) * f64(k)
    j = at[i]
    if j < NOWHERE and x[j] > f64(0.8):
        c[i] *= x[j]


def sentinels(x: wp.array, c: wp.array) -> wp.array:
    count, at = ints([2, 0, 3, 0, 1]), ints([0, NOWHERE, 2, NOWHERE, 4])
    for _ in range(2):
        wp.launch(guarded, dim=5, inputs=[x, count, at, c])
    return end(x, c)


# ---- tables, sorts, stacks, systems: loops that overwrite a thread's own memory
@wp.kernel
def time_warp(a: wp.array2d(dtype=f64), b: wp.array(dtype=f64), table: wp.array3d(dtype=f64), out: wp.array(dtype=f64)):
    t = wp.tid()
    for i in range(a.shape[1]):
        for j in range(b.shape[0]):
            best = f64(1e10)
            if i == 0 and j == 0:
                best = f64(0.0)
            if i > 0:
                best = wp.min(best, table[t, i - 1, j])
            if j > 0:
                best = wp.min(best, table[t, i, j - 1])
            if i > 0 and j > 0:
                best = wp.min(best, table[t, i - 1, j - 1])
            table[t, i, j] = (a[t, i] - b[j]) * (a[t, i] - b[j]) + best
    out[t] = table[t, a.shape[1] - 1, b.shape[0] - 1]


@wp.kernel
def heap_sort(x: wp.array2d(dtype=f64)):
    t = wp.tid()
    n = x.shape[1]
    for s in range(n // 2):
        k = n // 2 - 1 - s
        while True:
            c = 2 * k + 1
            if c >= n:
                break
            if c + 1 < n and x[t, c + 1] > x[t, c]:
                c += 1
            if x[t, k] >= x[t, c]:
                break
            x[t, k], x[t, c] = x[t, c], x[t, k]
            k = c
    last = n - 1
    while last > 0:
        x[t, 0], x[t, last] = x[t, last], x[t, 0]
        k = 0
        while 2 * k + 1 < last:
            c = 2 * k + 1
            if c + 1 < last and x[t, c + 1] > x[t, c]:
                c += 1
            if x[t, k] >= x[t, c]:
                break
            x[t, k], x[t, c] = x[t, c], x[t, k]
            k = c
        last -= 1


@wp.kernel
def interpret(code: wp.array(dtype=int), x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    """0: push x; 1: multiply; 2: add; 3: sine; 4: double the top; 5 n: times n; 6: skip the next where the top is
    large."""
    t = wp.tid()
    stack = wp.zeros(shape=8, dtype=f64)
    top = 0
    at = 0
    while at < code.shape[0]:
        op = code[at]
        if op == 0:
            stack[top] = x[t]
            top += 1
        elif op == 1:
            stack[top - 2] = stack[top - 2] * stack[top - 1]
            top -= 1
        elif op == 2:
            stack[top - 2] += stack[top - 1]
            top -= 1
        elif op == 3:
            stack[top - 1] = wp.sin(stack[top - 1])
        elif op == 4:
            stack[top] = stack[top - 1]
            top += 1
        elif op == 5:
            at += 1
            stack[top - 1] *= f64(code[at])
        elif stack[top - 1] > f64(0.5):
            at += 1
        at += 1
    y[t] = stack[0]


@wp.kernel
def diffuse_rows(u: wp.array2d(dtype=f64), r: f64):
    """An implicit step along each row: the tridiagonal system of the thread, in place, with a local array."""
    t = wp.tid()
    n = u.shape[1]
    upper = wp.zeros(shape=8, dtype=f64)
    b = f64(1.0) + f64(2.0) * r
    upper[0] = -r / b
    u[t, 0] = u[t, 0] / b
    for i in range(1, n):
        m = b + r * upper[i - 1]
        upper[i] = -r / m
        u[t, i] = (u[t, i] + r * u[t, i - 1]) / m
    for back in range(n - 1):
        i = n - 2 - back
        u[t, i] -= upper[i] * u[t, i + 1]


@wp.kernel
def eliminate(m: wp.array(dtype=mat33), b: wp.array(dtype=vec3), x: wp.array(dtype=vec3)):
    """Gauss with pivots on a local matrix, whole rows at a time."""
    i = wp.tid()
    a, r = m[i], b[i]
    for k in range(3):
        pivot = int(k)
        for s in range(k + 1, 3):
            if wp.abs(a[s, k]) > wp.abs(a[pivot, k]):
                pivot = s
        if pivot != k:
            row = a[k]
            a[k] = a[pivot]
            a[pivot] = row
            r[k], r[pivot] = r[pivot], r[k]
        for s in range(k + 1, 3):
            f = a[s, k] / a[k, k]
            a[s] = a[s] - a[k] * f
            r[s] = r[s] - f * r[k]
    for back in range(3):
        k = 2 - back
        s = r[k]
        for c in range(k + 1, 3):
            s -= a[k, c] * r[c]
        r[k] = s / a[k, k]
    x[i] = r


@wp.kernel
def billiards(x: wp.array(dtype=vec2), v: wp.array(dtype=vec2), steps: int, bounce: wp.array(dtype=f64)):
    n = x.shape[0]
    for _ in range(steps):
        for i in range(n):
            x[i] = x[i] + v[i] * f64(0.02)
            for d in range(2):
                if x[i][d] < f64(0.0) or x[i][d] > f64(1.0):
                    v[i][d] = -v[i][d] * bounce[0]
        for i in range(n):
            for j in range(i + 1, n):
                apart = x[i] - x[j]
                normal = wp.normalize(apart)
                speed = wp.dot(v[i] - v[j], normal)
                if wp.length(apart) < f64(0.2) and speed < f64(0.0):
                    v[i] -= normal * speed * (f64(0.5) + f64(0.5) * bounce[0])
                    v[j] += normal * speed * (f64(0.5) + f64(0.5) * bounce[0])


def warped(a: wp.array, b: wp.array) -> wp.array:
    out = zeros(2)
    wp.launch(time_warp, dim=2, inputs=[a, b, zeros((2, 5, 4)), out])
    return end(out)


def heap_sorted(x: wp.array) -> wp.array:
    wp.launch(heap_sort, dim=2, inputs=[x])
    return end(x)


def interpreted(x: wp.array) -> wp.array:
    y, code = zeros(5), ints([0, 4, 1, 3, 6, 0, 4, 4, 1, 2, 5, 3, 0, 2, 6, 3, 3])
    wp.launch(interpret, dim=5, inputs=[code, x, y])
    return end(y)


def alternating_directions(u: wp.array, r: wp.array) -> wp.array:
    for _ in range(3):
        wp.launch(diffuse_rows, dim=8, inputs=[u, r])
        wp.launch(diffuse_rows, dim=8, inputs=[u.transpose([1, 0]), r])
    return end(u)


def eliminated(m: wp.array, b: wp.array) -> wp.array:
    x = zeros(3, vec3)
    wp.launch(eliminate, dim=3, inputs=[m, b, x])
    return end(x)


def played(x: wp.array, v: wp.array, bounce: wp.array) -> wp.array:
    wp.launch(billiards, dim=1, inputs=[x, v, 30, bounce])
    return end(x)


PLACES = [[0.2, 0.3], [0.7, 0.35], [0.4, 0.8], [0.55, 0.52]]
CASES = {
    "material points": (
        material_points,
        [(rng.uniform(0.3, 0.6, (6, 2)), vec2), (rng.normal(size=(6, 2)), vec2), ([5.0], f64)],
    ),
    "linked cells": (linked_cells, [(rng.uniform(0.0, 1.6, 7), f64)]),
    "sentinels": (sentinels, [(rng.uniform(0.5, 1.5, 5), f64), (rng.uniform(0.5, 1.5, 5), f64)]),
    "time warp": (warped, [(rng.normal(size=(2, 5)), f64), (rng.normal(size=4), f64)]),
    "heap sort": (heap_sorted, [(rng.normal(size=(2, 7)), f64)]),
    "stack machine": (interpreted, [(rng.normal(size=5), f64)]),
    "alternating directions": (alternating_directions, [(rng.normal(size=(8, 8)), f64), ([0.4], f64)]),
    "elimination": (eliminated, [(rng.normal(size=(3, 3, 3)), mat33), (rng.normal(size=(3, 3)), vec3)]),
    "billiards": (played, [(PLACES, vec2), ([[1.5, 0.6], [-1.4, 0.5], [0.3, -1.2], [0.2, 0.1]], vec2), ([0.9], f64)]),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_research_programs(name):
    program, inputs = CASES[name]
    assert_gradient(program, *[array(values, dtype) for values, dtype in inputs], tolerance=3e-6)
