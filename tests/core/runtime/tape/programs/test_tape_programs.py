"""Whole programs as users write them, their gradients against differences: none of these may be refused."""

import numpy as np
import pytest
from tools.tapes.gradients import array, assert_gradient

import sim

f64, vec3 = sim.float64, sim.vec3d
CELLS = 6


@sim.kernel
def half_square(x: sim.array[f64], out: sim.array[f64]):
    i = sim.tid()
    sim.atomic_add(out, 0, x[i] * x[i] * 0.5 + x[i])


@sim.kernel
def weighted_sum(x: sim.array[vec3], out: sim.array[f64]):
    i = sim.tid()
    sim.atomic_add(out, 0, sim.dot(x[i], vec3(1.0, 2.0, 3.0)) + sim.length_sq(x[i]))


def zeros(n, dtype=f64):
    return sim.zeros(n, dtype=dtype, requires_grad=True)


def integers(n):
    return sim.zeros(n, dtype=int)


def ended(x):
    out = zeros(1)
    sim.launch(half_square if x.dtype is f64 else weighted_sum, x.shape[0], [x, out])
    return out


# ------------------------------------------------------------------------------------------------ particles in a grid
# that is rebuilt
@sim.kernel
def count_cells(x: sim.array[f64], cell: sim.array[int], count: sim.array[int]):
    i = sim.tid()
    c = sim.clamp(int(x[i] * f64(CELLS)), 0, CELLS - 1)
    cell[i] = c
    sim.atomic_add(count, c, 1)


@sim.kernel
def starts_of_cells(count: sim.array[int], start: sim.array[int]):
    total = 0
    for c in range(count.shape[0]):
        start[c] = total
        total += count[c]


@sim.kernel
def fill_cells(cell: sim.array[int], start: sim.array[int], filled: sim.array[int], items: sim.array[int]):
    i = sim.tid()
    slot = sim.atomic_add(filled, cell[i], 1)
    items[start[cell[i]] + slot] = i


@sim.kernel
def repel(
    x: sim.array[f64],
    start: sim.array[int],
    count: sim.array[int],
    items: sim.array[int],
    stiffness: f64,
    force: sim.array[f64],
):
    i = sim.tid()
    c = sim.clamp(int(x[i] * f64(CELLS)), 0, CELLS - 1)
    total = f64(0.0)
    for step in range(-1, 2):
        b = c + step
        if b >= 0 and b < CELLS:
            for slot in range(start[b], start[b] + count[b]):
                j = items[slot]
                if j != i:
                    r = x[i] - x[j]
                    if sim.abs(r) < 0.2:
                        total += stiffness * r * sim.exp(-30.0 * r * r)
    force[i] = total


@sim.kernel
def advance(x: sim.array[f64], v: sim.array[f64], force: sim.array[f64], dt: f64):
    i = sim.tid()
    v[i] = v[i] + dt * force[i]
    x[i] = x[i] + dt * v[i]


def particles_in_cells(x, v, stiffness):
    n = x.shape[0]
    cell, items, count, start, filled = integers(n), integers(n), integers(CELLS), integers(CELLS), integers(CELLS)
    force = zeros(n)
    for _ in range(3):
        count.zero_()
        filled.zero_()
        sim.launch(count_cells, n, [x, cell, count])
        sim.launch(starts_of_cells, 1, [count, start])
        sim.launch(fill_cells, n, [cell, start, filled, items])
        sim.launch(repel, n, [x, start, count, items, stiffness, force])
        sim.launch(advance, n, [x, v, force, f64(0.05)])
    return ended(x)


# ------------------------------------------------------------------------------------------------ coloured constraints
# in place
@sim.kernel
def predict(x: sim.array[vec3], v: sim.array[vec3], w: sim.array[f64], p: sim.array[vec3], dt: f64):
    i = sim.tid()
    if w[i] > 0.0:
        v[i] = v[i] + vec3(0.0, -9.8, 0.0) * dt
    p[i] = x[i] + v[i] * dt


@sim.kernel
def project(
    edges: sim.array2d[int],
    start: int,
    rest: sim.array[f64],
    compliance: sim.array[f64],
    w: sim.array[f64],
    p: sim.array[vec3],
    multiplier: sim.array[f64],
    dt: f64,
):
    k = start + sim.tid()
    i = edges[k, 0]
    j = edges[k, 1]
    weight = w[i] + w[j]
    if weight == 0.0:
        return
    d = p[i] - p[j]
    length = sim.length(d)
    if length < 1e-9:
        return
    alpha = compliance[k] / (dt * dt)
    change = (-(length - rest[k]) - alpha * multiplier[k]) / (weight + alpha)
    multiplier[k] = multiplier[k] + change
    p[i] += d / length * (w[i] * change)
    p[j] -= d / length * (w[j] * change)


@sim.kernel
def finish(x: sim.array[vec3], v: sim.array[vec3], p: sim.array[vec3], dt: f64):
    i = sim.tid()
    v[i] = (p[i] - x[i]) / dt
    x[i] = p[i]


def constraints_by_colour(x, v, rest, compliance):
    edges = sim.array(np.array([[0, 1], [2, 3], [1, 2], [3, 4]], np.int32))
    w = sim.array(np.array([1.0, 0.5, 1.0, 2.0, 1.0]))
    p, multiplier, dt = zeros(5, vec3), zeros(4), f64(0.02)
    for _ in range(3):
        multiplier.zero_()
        sim.launch(predict, 5, [x, v, w, p, dt])
        for _ in range(2):
            for start in (0, 2):
                sim.launch(project, 2, [edges, start, rest, compliance, w, p, multiplier, dt])
        sim.launch(finish, 5, [x, v, p, dt])
    return ended(x)


# ------------------------------------------------------------------------------------------------ particles and a grid;
# a return mapping
@sim.kernel
def to_grid(x: sim.array[f64], v: sim.array[f64], mass: sim.array[f64], momentum: sim.array[f64]):
    i = sim.tid()
    base = int(x[i] * 8.0 - 0.5)
    r = x[i] * 8.0 - f64(base)
    share = vec3(0.5 * (1.5 - r) * (1.5 - r), 0.75 - (r - 1.0) * (r - 1.0), 0.5 * (r - 0.5) * (r - 0.5))
    for k in range(3):
        mass[base + k] += share[k]
        momentum[base + k] += share[k] * v[i]


@sim.kernel
def on_grid(mass: sim.array[f64], momentum: sim.array[f64]):
    i = sim.tid()
    if mass[i] > 0.0:
        momentum[i] = momentum[i] / mass[i]
        momentum[i] -= 0.1 * momentum[i] * momentum[i]


@sim.kernel
def from_grid(x: sim.array[f64], v: sim.array[f64], velocity: sim.array[f64]):
    i = sim.tid()
    base = int(x[i] * 8.0 - 0.5)
    r = x[i] * 8.0 - f64(base)
    share = vec3(0.5 * (1.5 - r) * (1.5 - r), 0.75 - (r - 1.0) * (r - 1.0), 0.5 * (r - 0.5) * (r - 0.5))
    fresh = f64(0.0)
    for k in range(3):
        fresh += share[k] * velocity[base + k]
    v[i] = fresh
    x[i] += 0.02 * fresh


def particles_and_grid(x, v):
    mass, momentum = zeros(12), zeros(12)
    for _ in range(3):
        mass.zero_()
        momentum.zero_()
        sim.launch(to_grid, 4, [x, v, mass, momentum])
        sim.launch(on_grid, 12, [mass, momentum])
        sim.launch(from_grid, 4, [x, v, momentum])
    return ended(x)


@sim.kernel
def harden(f: sim.array[sim.mat33d], velocity: sim.array[sim.mat33d]):
    i = sim.tid()
    trial = f[i] + velocity[i] * f[i]
    u, s, v = sim.svd3(trial)
    f[i] = u * sim.diag(vec3(s[0] * s[0] * s[0], s[1] * s[1] * s[1], s[2] * s[2] * s[2])) * sim.transpose(v)


@sim.kernel
def entries(f: sim.array[sim.mat33d], out: sim.array[f64]):
    for k in range(3):
        for j in range(3):
            out[0] += f[0][k, j] * f64(3 * k + j + 1)


def return_mapping_at_rest(velocity):
    """Singular values that coincide, as they do in a body at rest."""
    f, out = sim.array(np.eye(3)[None], dtype=sim.mat33d, requires_grad=True), zeros(1)
    sim.launch(harden, 1, [f, velocity])
    sim.launch(entries, 1, [f, out])
    return out


# ------------------------------------------------------------------------------------------------ linear algebra in one
# thread; a history
@sim.kernel
def cholesky_solve(a: sim.array2d[f64], b: sim.array[f64], x: sim.array[f64]):
    n = a.shape[0]
    for j in range(n):
        s = a[j, j]
        for k in range(j):
            s -= a[j, k] * a[j, k]
        a[j, j] = sim.sqrt(s)
        for i in range(j + 1, n):
            t = a[i, j]
            for k in range(j):
                t -= a[i, k] * a[j, k]
            a[i, j] = t / a[j, j]
    for i in range(n):
        s = b[i]
        for k in range(i):
            s -= a[i, k] * x[k]
        x[i] = s / a[i, i]
    for back in range(n):
        i = n - 1 - back
        s = x[i]
        for k in range(i + 1, n):
            s -= a[k, i] * x[k]
        x[i] = s / a[i, i]


def solve_in_place(a, b):
    x = zeros(b.shape[0])
    sim.launch(cholesky_solve, 1, [a, b, x])
    return ended(x)


@sim.kernel
def next_row(history: sim.array2d[f64], t: int, rate: sim.array[f64]):
    i = sim.tid()
    history[t + 1, i] = history[t, i] * rate[0] + sim.sin(history[sim.max(t - 1, 0), i])


def history_of_steps(x, rate):
    history = zeros((7, 2))
    history[0].assign(x)
    for t in range(6):
        sim.launch(next_row, 2, [history, t, rate])
    return ended(history.flatten())


@sim.kernel
def longest(x: sim.array[f64], most: sim.array[f64]):
    i = sim.tid()
    sim.atomic_max(most, 0, x[i] * x[i])


@sim.kernel
def divide(x: sim.array[f64], by: sim.array[f64]):
    i = sim.tid()
    x[i] = x[i] / sim.sqrt(by[0]) + 0.1 * x[i]


def normalise_by_the_longest(x):
    most = zeros(1)
    for _ in range(3):
        most.zero_()
        sim.launch(longest, 3, [x, most])
        sim.launch(divide, 3, [x, most])
    return ended(x)


RNG = np.random.default_rng(3)
SYMMETRIC = RNG.normal(size=(4, 4))
PROGRAMS = {
    "neighbours in a grid that is rebuilt": (
        particles_in_cells,
        [array(RNG.random(7)), array(0.2 * RNG.normal(size=7)), array([3.0])],
    ),
    "coloured constraints in place": (
        constraints_by_colour,
        [
            array(RNG.normal(size=(5, 3)), vec3),
            array(RNG.normal(size=(5, 3)), vec3),
            array([1.0, 1.0, 1.0, 1.5]),
            array([0.5] * 4),
        ],
    ),
    "particles and a grid": (particles_and_grid, [array([0.31, 0.45, 0.52, 0.77]), array([1.0, -0.5, 0.3, -1.0])]),
    "a return mapping at rest": (return_mapping_at_rest, [array(np.zeros((1, 3, 3)), sim.mat33d)]),
    "a Cholesky factor in place": (
        solve_in_place,
        [array(SYMMETRIC @ SYMMETRIC.T + 4.0 * np.eye(4)), array(RNG.normal(size=4))],
    ),
    "a history of steps": (history_of_steps, [array([0.1, 0.4]), array([0.9])]),
    "an atomic maximum that is used": (normalise_by_the_longest, [array([0.3, 0.9, 0.5])]),
}


@pytest.mark.parametrize("case", PROGRAMS.values(), ids=PROGRAMS)
def test_the_gradient_is_that_of_differences(case):
    program, inputs = case
    found = assert_gradient(program, *[sim.clone(x) for x in inputs], tolerance=2e-5)
    assert all(np.abs(part).max() > 1e-6 for part in found)


@sim.kernel
def bounding_box(x: sim.array(dtype=f64), box: sim.array(dtype=f64)):
    i = sim.tid()
    sim.atomic_min(box, 0, x[i])
    sim.atomic_max(box, 1, x[i])


@sim.kernel
def mixed_up(x: sim.array(dtype=f64), box: sim.array(dtype=f64)):
    i = sim.tid()
    sim.atomic_min(box, i % 2, x[i])
    sim.atomic_max(box, 1, x[i])


def test_minima_and_maxima_in_different_elements_of_one_array():
    x, box = array([0.5, -1.0, 2.0, 0.1]), array([9.0, -9.0])
    with sim.Tape() as tape:
        sim.launch(bounding_box, 4, [x, box])
    tape.backward(grads={box: array([3.0, 5.0], gradient=False)})
    assert box.list() == [-1.0, 2.0]
    assert x.grad.list() == [0.0, 3.0, 5.0, 0.0]
    with (
        pytest.raises(sim.GradientError, match="an element of 'box' may take atomic_min and atomic_max in one launch"),
        sim.Tape(),
    ):
        sim.launch(mixed_up, 4, [x, box])
