"""Arrays that the run chooses: values against NumPy, gradients against differences, and what cannot be chosen."""

from typing import Any

import numpy as np
import pytest

import sim
from sim.core.backends.interp import InterpBackend

N = 7
real = sim.float64


@sim.func
def larger(a: sim.array[real], b: sim.array[real], i: int):
    if a[i] > b[i]:
        return a
    return b


@sim.kernel
def branches(a: sim.array[real], b: sim.array[real], c: sim.array[real], out: sim.array[real]):
    i = sim.tid()
    r = a
    if i % 3 == 1:
        r = b
    elif i % 3 == 2:
        r = c
    out[i] = r[i] * r[-1] + larger(a, c, i)[i] + real(r.shape[0]) * sim.where(r[i] > real(0.5), b, a)[0]


def branches_of_numpy(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    out = np.zeros(N)
    for i in range(N):
        r = (a, b, c)[i % 3]
        out[i] = r[i] * r[-1] + (a if a[i] > c[i] else c)[i] + len(r) * (b if r[i] > 0.5 else a)[0]
    return out


@sim.kernel
def turns(a: sim.array[real], b: sim.array[real], c: sim.array[real], out: sim.array[real]):
    i = sim.tid()
    total = real(0.0)
    for k in range(i + 2):
        a, b, c = b, c, a
        if a[i] > real(0.6):
            c = b
        total += sim.sin(a[i]) * real(k + 1) * c[i]
    out[i] = total


def turns_of_numpy(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    out = np.zeros(N)
    for i in range(N):
        x, y, z = a, b, c
        for k in range(i + 2):
            x, y, z = y, z, x
            if x[i] > 0.6:
                z = y
            out[i] += np.sin(x[i]) * (k + 1) * z[i]
    return out


@sim.kernel
def views(a: sim.array2d[real], b: sim.array2d[real], c: sim.array2d[real], out: sim.array[real]):
    i = sim.tid()
    row = a[i] if i % 2 == 0 else b[i + 1]
    part = c[1:, 1:] if i > 3 else a[:-1, :-1]
    total = real(0.0)
    for k in range(row.shape[0]):
        total += row[k] * real(k + 1)
    out[i] = total * part[i % part.shape[0], 0] + real(part.shape[1])


def views_of_numpy(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    out = np.zeros(N)
    for i in range(N):
        row = a[i] if i % 2 == 0 else b[i + 1]
        part = c[1:, 1:] if i > 3 else a[:-1, :-1]
        out[i] = row @ np.arange(1, len(row) + 1) * part[i % len(part), 0] + part.shape[1]
    return out


PROGRAMS = [(branches, branches_of_numpy, ()), (turns, turns_of_numpy, ()), (views, views_of_numpy, (3,))]


@pytest.mark.parametrize(("kernel", "of_numpy", "columns"), PROGRAMS, ids=[row[0].name for row in PROGRAMS])
def test_values_and_gradients(kernel: Any, of_numpy: Any, columns: tuple[int, ...]) -> None:
    rng = np.random.default_rng(11)
    given = [rng.uniform(0.1, 1.0, (N + 2, *columns)) for _ in range(3)]
    weights = rng.standard_normal(N)
    arrays = [sim.array(x, dtype=real, requires_grad=True) for x in given]
    out = sim.zeros(N, dtype=real, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(kernel, N, [*arrays, out])
    np.testing.assert_allclose(out.numpy(), of_numpy(*given), rtol=1e-14)
    tape.backward(grads={out: weights})
    for which, array in enumerate(arrays):
        found = np.zeros_like(given[which])
        for place in np.ndindex(found.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [x.copy() for x in given]
                moved[which][place] += step
                ends.append(weights @ of_numpy(*moved))
            found[place] = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(array.grad.numpy(), found, atol=1e-7)


@sim.kernel
def written(a: sim.array[real], p: sim.array[real], q: sim.array[real], counts: sim.array[int], others: sim.array[int]):
    i = sim.tid()
    r = p if i > 2 else q
    r[i] = a[i] * a[i]
    r[i] += real(1.0)
    n = counts if i % 2 == 0 else others
    k = sim.atomic_add(n, 0, 1)
    n[k + 1] = i


@pytest.mark.parametrize("backend", ["llvm", "interp"])
def test_stores_and_atomics_go_to_the_one_that_is_chosen(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = sim.get_device("cpu")
    if backend == "interp":
        monkeypatch.setattr(device, "_backend", InterpBackend())
        monkeypatch.setattr(device, "identity", object())  # so that no code that LLVM has made is taken
    a = sim.array(np.arange(N) + 1.0, dtype=real)
    p, q = sim.zeros(N, dtype=real), sim.zeros(N, dtype=real)
    counts, others = sim.zeros(N, dtype=int), sim.zeros(N, dtype=int)
    sim.launch(written, N, [a, p, q, counts, others])
    squares, high = (np.arange(N) + 1.0) ** 2 + 1.0, np.arange(N) > 2
    expected = [squares * high, squares * ~high, [4, 0, 2, 4, 6, 0, 0], [3, 1, 3, 5, 0, 0, 0]]
    for found, wanted in zip((p, q, counts, others), expected, strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_what_cannot_be_chosen() -> None:
    @sim.kernel
    def types(a: sim.array[float], b: sim.array[int], out: sim.array[float]):
        r = a if out[0] > 0.5 else b
        out[0] = float(r[0])

    @sim.kernel
    def parts(a: sim.array2d[float], b: sim.array[float], out: sim.array[float]):
        r = a[0] if out[0] > 0.5 else b
        out[0] = r[0]

    @sim.kernel
    def rows(a: sim.array[float], b: sim.array[float], out: sim.array[float]):
        x = sim.zeros(shape=(3,), dtype=float)
        if out[0] > 0.5:
            r = a
        else:
            r = x
        out[0] = r[0]

    one, two = sim.zeros(1), sim.zeros((1, 1))
    choose = r"two sides of a choice are two different arrays, or parts of them[^`]*choose between elements: `a\[i\]"
    with pytest.raises(sim.KernelError, match=choose):
        sim.launch(types, 1, [one, sim.zeros(1, dtype=int), one])
    with pytest.raises(sim.KernelError, match=choose):
        sim.launch(parts, 1, [two, one, one])
    with pytest.raises(sim.KernelError, match="`r` is two different arrays, or parts of them after the branches"):
        sim.launch(rows, 1, [one, one, one])


def test_a_gradient_function_takes_no_choice() -> None:
    @sim.func
    def first(x: sim.array[float]) -> float:
        return x[0]

    @sim.func_grad(first)
    def adj_first(x: sim.array[float], adj: float):
        sim.adjoint[x][0] += adj

    @sim.kernel
    def called(a: sim.array[float], b: sim.array[float], out: sim.array[float]):
        out[0] = first(a if out[1] > 0.5 else b)

    with pytest.raises(sim.KernelError, match="closed form: its argument 'x' cannot be"):
        sim.launch(called, 1, [sim.zeros(1), sim.zeros(1), sim.zeros(2)])
