"""The forward part of adjoints: stores that are performed again and taken back, checkpoints of loops, what is left
out."""

from __future__ import annotations

import numpy as np
import pytest
from tools.adjoints.differences import check, gradients, numbers, traced

import sim
from sim.core.lang.autodiff import checkpoints
from sim.core.lang.ir.core import walk

f64, vec3 = sim.float64, sim.vec3d


# ------------------------------------------------------------------------------------------------ stores that are
# performed again
@sim.kernel
def around_loops(x: sim.array2d[f64], at: sim.array2d[int], n: int):
    i = sim.tid()
    x[i, 0] = x[i, 1] * x[i, 2]
    for _ in range(n):
        x[i, 1] = x[i, 0] * x[i, 1] + 0.1
        if x[i, 1] > 0.3:
            x[i, 2] = x[i, 1] * x[i, 2] + 0.05
    if x[i, 0] > 0.2:
        x[i, 0] = x[i, 0] * x[i, 1]
        x[i, 1] += x[i, 0] * x[i, 2]
    else:
        x[i, 2] = x[i, 0] * 2.0
    for j in range(n):
        x[i, 2] += x[i, 2] * x[i, 0] * f64(j + 1)
    x[i, 1] = x[i, 1] * x[i, 2]


@sim.kernel
def places_that_are_stored(x: sim.array2d[f64], at: sim.array2d[int], n: int):
    i = sim.tid()
    for j in range(n):
        k = at[i, j % 2]
        x[i, k] = x[i, (k + 1) % 3] * x[i, k] + 0.1
        at[i, k % 2] = (at[i, 0] + j + 1) % 3
        if x[i, k] > 0.5:
            x[i, (k + 2) % 3] += x[i, k] * 0.5
    if at[i, 0] > 0:
        x[i, at[i, 0]] = x[i, at[i, 1]] * x[i, 0]


@sim.kernel
def nested(x: sim.array2d[f64], at: sim.array2d[int], n: int):
    i = sim.tid()
    for _ in range(n):
        for k in range(1, 3):
            x[i, k] = 0.6 * x[i, k] * x[i, k - 1] + 0.2
        for k in range(2, 0, -1):
            x[i, k - 1] += 0.3 * x[i, k] * x[i, k - 1]


@sim.kernel
def nested_with_values_carried(x: sim.array2d[f64], at: sim.array2d[int], n: int):
    i = sim.tid()
    a, m = x[i, 0], 0
    for j in range(n):
        b = a * 0.5
        for k in range(m + 1):
            x[i, k % 3] = x[i, k % 3] * b + 0.1
            b = b * x[i, (k + 1) % 3] + 0.2
        a = a * b
        m = (m + at[i, j % 2] + j) % 3
    x[i, 0] = a * x[i, 1]


@sim.kernel
def until(x: sim.array2d[f64], at: sim.array2d[int], n: int):
    i = sim.tid()
    k, a = 0, x[i, 1]
    while k < n and x[i, 0] < 3.0:
        x[i, k % 3] = x[i, k % 3] * a + 0.3
        a = a * x[i, (k + 1) % 3] + 0.1
        at[i, 1] = k
        k += 1 + at[i, 0] % 2
    x[i, 2] = x[i, 2] * a * f64(k)


@sim.kernel
def downwards(x: sim.array2d[f64], at: sim.array2d[int], n: int):
    i = sim.tid()
    for j in range(n - 1, -1, -1):
        x[i, j % 3] = x[i, (j + 1) % 3] * x[i, j % 3] + f64(j) * 0.1
        for k in range(j, 0, -2):
            x[i, k % 3] += x[i, 0] * 0.1 * x[i, k % 3]


@sim.kernel
def sweeps(x: sim.array2d[f64], at: sim.array2d[int], n: int):
    i = sim.tid()
    for _ in range(n):
        for k in range(1, x.shape[1]):
            x[i, k] = 0.6 * x[i, k] * x[i, k - 1] + 0.2
        for k in range(x.shape[1] - 1, 0, -1):
            x[i, k - 1] += 0.3 * x[i, k] * x[i, k - 1]


@sim.kernel
def sweeps_in_sweeps(x: sim.array2d[f64], at: sim.array2d[int], n: int):
    i = sim.tid()
    for j in range(n):
        for m in range(j):
            for k in range(1, x.shape[1]):
                x[i, k] = 0.6 * x[i, k] * x[i, k - 1] + 0.1 * f64(m)
    x[i, 0] = x[i, 2] * x[i, 1]


@sim.kernel
def sweeps_of_counted_length(x: sim.array2d[f64], at: sim.array2d[int], n: int):
    i = sim.tid()
    for j in range(n):
        length = 0
        for m in range(j + 1):
            length = (length + m + 1) % 3
        for k in range(1, length + 1):
            x[i, k] = 0.6 * x[i, k] * x[i, k - 1] + 0.2


KERNELS = [
    around_loops,
    places_that_are_stored,
    nested,
    nested_with_values_carried,
    until,
    downwards,
    sweeps,
    sweeps_in_sweeps,
    sweeps_of_counted_length,
]


@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_stores_are_performed_again_and_taken_back(kernel, n):
    made = check(kernel, [2], [numbers(2, 3), np.array([[0, 1], [2, 1]], np.int32), n], {"x"}, tolerance=2e-6)
    assert made.logs and made.func.attrs["serial"]


@sim.kernel
def components(v: sim.array[vec3], at: sim.array[int], n: int):
    i = sim.tid()
    for j in range(n):
        k = at[i]
        v[i][k] = v[i][(k + 1) % 3] * v[i][k] * 0.3 + 0.1
        v[i] += v[i] * v[i][0] * 0.1
        at[i] = (k + 2 * j + 1) % 3


@sim.kernel
def components_at_the_counter(v: sim.array[vec3], at: sim.array[int], n: int):
    i = sim.tid()
    for j in range(n):
        v[i][j % 3] = v[i][(j + 1) % 3] * v[i][j % 3] * 0.3 + 0.1
        v[i] += v[i] * v[i][0] * 0.1


@pytest.mark.parametrize("kernel", [components, components_at_the_counter], ids=lambda k: k.name)
def test_components_are_taken_back_too(kernel):
    check(kernel, [2], [numbers(2, 3), np.array([0, 2], np.int32), 4], {"v"}, tolerance=2e-6)


@pytest.mark.parametrize("kernel", [around_loops, nested, nested_with_values_carried, until], ids=lambda k: k.name)
def test_replays_do_not_depend_on_the_number_of_checkpoints(kernel, monkeypatch):
    func, args, seeds = traced(kernel), [numbers(2, 3), np.array([[0, 1], [2, 1]], np.int32), 6], {"x": numbers(2, 3)}
    wanted, _ = gradients(func, [2], args, seeds)
    monkeypatch.setattr(checkpoints, "SLOTS", 2)
    found, _ = gradients(func, [2], args, seeds)
    np.testing.assert_array_equal(found["x"], wanted["x"])


@sim.kernel
def takes_where_nothing_is_seen(x: sim.array2d[f64], count: sim.array[int], y: sim.array[f64], n: int):
    i = sim.tid()
    a = y[i]
    for j in range(n):
        b = x[i, 0] * x[i, 1]
        x[i, 0] = b
        if j % 2 == 0:
            slot = sim.atomic_add(count, i, j + 1)
            x[i, 2] = f64(slot) * x[i, 1]
        other = sim.atomic_add(count, i, 2)
        a = 0.1 * a * f64(other) + b
    y[i] = a


def test_a_branch_that_nothing_looks_at_still_takes_what_its_atomics_returned():
    check(
        takes_where_nothing_is_seen,
        [2],
        [numbers(2, 3), np.array([1, 3], np.int32), numbers(2), 5],
        {"x", "y"},
        tolerance=1e-6,
    )


# ------------------------------------------------------------------------------------------------ what is left out
@sim.kernel
def speaking(x: sim.array[f64], y: sim.array[f64], n: int):
    i = sim.tid()
    a = x[i]
    for _ in range(n):
        print(a)
        assert a < f64(100.0)
        y[i] = a
        a = sim.sin(a)
    y[i] += a * a


def test_an_adjoint_neither_prints_nor_asserts_nor_stores(capsys):
    made = check(speaking, [2], [numbers(2), numbers(2), 3], {"x", "y"})
    printed = capsys.readouterr().out
    assert not any(op.name in ("print", "assert") for op in walk(made.func.body)) and printed
    assert not any(
        op.name in ("store", "accum") and not op.operands[0].name.startswith("adj_") for op in walk(made.func.body)
    )


@sim.kernel
def unseen_stores(x: sim.array2d[f64], n: int):
    i = sim.tid()
    for j in range(n):
        x[i, j % 2] = x[i, (j + 1) % 2] * x[i, j % 2]
    if n > 2:
        x[i, 1] = 3.0
    x[i, 2] = 2.0


def test_stores_that_nothing_looks_at_are_not_performed_again():
    made = check(unseen_stores, [2], [numbers(2, 3), 3], {"x"})
    stored = [op for op in walk(made.func.body) if op.name == "store" and op.operands[0].name == "x"]
    assert len(stored) == 2, "in the loop, and where they are taken back"
