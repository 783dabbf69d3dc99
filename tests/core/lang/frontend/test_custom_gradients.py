"""`@func_grad`, `@func_replay` and `.vjp`: used where they are given, also of generic functions, and checked on
request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sim
from sim.core.runtime.derivatives.autograd import GradcheckError, gradcheck, jvp

f64 = sim.float64


@sim.func
def safe_sqrt(x: f64):
    return sim.sqrt(x)


@sim.func_grad(safe_sqrt)
def safe_sqrt_grad(x: f64, adj_ret: f64):
    if x > 0.0:
        sim.adjoint[x] += adj_ret / (2.0 * sim.sqrt(x))


@sim.func
def product(a: Any, b: Any):
    return a * b, a + b


@sim.func_grad(product)
def product_grad(a: Any, b: Any, adj_ret0: Any, adj_ret1: Any):
    sim.adjoint[a] += 42.0 * b * adj_ret0 + adj_ret1
    sim.adjoint[b] += a * adj_ret0 + adj_ret1


@sim.struct
class Pair:
    n: int
    scalar: f64
    vec: sim.vec3d


@sim.func
def weigh(p: Pair, k: int):
    return p.scalar * sim.dot(p.vec, p.vec) * f64(k)


@sim.func_grad(weigh)
def weigh_grad(p: Pair, k: int, adj_ret: f64):
    for j in range(k):
        if j == 1:
            continue
        sim.adjoint[p.scalar] += sim.dot(p.vec, p.vec) * adj_ret
    for c in range(3):
        sim.adjoint[p].vec[c] += 2.0 * p.scalar * p.vec[c] * adj_ret * f64(k)
    if k < 2:
        return
    sim.adjoint[p].scalar = sim.adjoint[p].scalar + sim.dot(p.vec, p.vec) * adj_ret


@sim.kernel
def roots(x: sim.array(dtype=f64), y: sim.array(dtype=f64)):
    i = sim.tid()
    y[i] = safe_sqrt(x[i]) * 2.0


@sim.kernel
def products(x: sim.array(dtype=f64), y: sim.array(dtype=f64), u: sim.array(dtype=float), v: sim.array(dtype=float)):
    i = sim.tid()
    p, s = product(x[i], f64(3.0))
    y[i] = p + s
    q, _ = product(u[i], 2.0)
    v[i] = q


@sim.kernel
def weights(x: sim.array(dtype=f64), k: int, y: sim.array(dtype=f64)):
    p = Pair()
    p.scalar = x[0]
    p.vec = sim.vec3d(x[1], x[2], x[3])
    y[0] = weigh(p, k)


def gradient(kernel: sim.Kernel, dim: int, values: list, *others: Any) -> np.ndarray:
    x, y = (sim.array(v, dtype=f64, requires_grad=True) for v in (values, np.zeros(len(values))))
    with sim.Tape() as tape:
        sim.launch(kernel, dim, [x, *others], [y])
    tape.backward(grads={y: sim.ones(len(values), dtype=f64)})
    return x.grad.numpy()


def test_a_custom_gradient_is_used():
    np.testing.assert_allclose(gradient(roots, 3, [4.0, 0.0, 0.25]), [0.5, 0.0, 2.0])


def test_of_a_generic_function_for_each_type():
    x, u = sim.array([5.0], dtype=f64, requires_grad=True), sim.array([5.0], dtype=float, requires_grad=True)
    y, v = sim.zeros(1, dtype=f64, requires_grad=True), sim.zeros(1, dtype=float, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(products, 1, [x], [y, u, v])
    tape.backward(grads={y: sim.ones(1, dtype=f64), v: sim.ones(1, dtype=float)})
    assert x.grad.item() == 42.0 * 3.0 + 1.0
    assert u.grad.item() == 84.0


@pytest.mark.parametrize("k", [1, 3])
def test_of_structs_with_branches_loops_and_an_early_return(k):
    values = np.array([2.0, 1.0, -0.5, 0.3])
    square = values[1:] @ values[1:]
    np.testing.assert_allclose(gradient(weights, 1, list(values), k), [k * square, *(2 * 2.0 * values[1:] * k)])


def test_forward_mode_uses_the_same_derivative():
    x, y = sim.array([4.0, 0.0], dtype=f64), sim.zeros(2, dtype=f64)
    _, (move,) = jvp(roots, [x], [[1.0, 1.0]], dim=2, outputs=[y])
    np.testing.assert_allclose(move.numpy(), [0.5, 0.0])


def test_a_custom_gradient_is_checked_on_request():
    assert gradcheck(safe_sqrt, inputs=[0.7])
    assert gradcheck(sim.normalize, inputs=[sim.vec3d(0.3, -0.2, 0.9)])
    assert gradcheck(weigh, inputs=[Pair(scalar=0.3, vec=sim.vec3d(1.0, 2.0, 3.0)), 3])
    report = gradcheck(product, inputs=[0.5, 1.5], raise_exception=False)
    assert [row.ok for row in report.rows] == [False, True]
    with pytest.raises(GradcheckError, match="custom gradient of product"):
        gradcheck(product, inputs=[0.5, 1.5])


# ------------------------------------------------------------------------------------------ replay
@sim.func
def next_slot(counter: sim.array(dtype=int), at: int, by: int, kept: sim.array(dtype=int), i: int):
    slot = sim.atomic_add(counter, at, by)
    kept[i] = slot
    return slot


@sim.func_replay(next_slot)
def next_slot_replay(counter: sim.array(dtype=int), at: int, by: int, kept: sim.array(dtype=int), i: int):
    return kept[i]


@sim.kernel
def compact(
    x: sim.array(dtype=f64), counter: sim.array(dtype=int), kept: sim.array(dtype=int), y: sim.array(dtype=f64)
):
    i = sim.tid()
    slot = next_slot(counter, 0, 1, kept, i)
    y[slot] = sim.sqrt(x[i]) * f64(slot + 1)


def test_slots_from_a_counter_are_right():
    counter, kept = sim.zeros(1, dtype=int), sim.zeros(4, dtype=int)
    found = gradient(compact, 4, [1.0, 4.0, 9.0, 16.0], counter, kept)
    np.testing.assert_allclose(found, [(k + 1) * 0.5 / root for k, root in enumerate((1.0, 2.0, 3.0, 4.0))])


# ------------------------------------------------------------------------------------------ arrays as arguments
@sim.func
def sample(table: sim.array(dtype=f64), t: f64):
    """Linear interpolation."""
    k = int(sim.floor(t))
    w = t - sim.floor(t)
    return table[k] * (1.0 - w) + table[k + 1] * w


@sim.func_grad(sample)
def sample_gradient(table: sim.array(dtype=f64), t: f64, adj_ret: f64):
    k = int(sim.floor(t))
    w = t - sim.floor(t)
    sim.adjoint[table][k] += 10.0 * (1.0 - w) * adj_ret  # ten times too much: seen to be used
    sim.atomic_add(sim.adjoint[table], k + 1, 10.0 * w * adj_ret)
    sim.adjoint[t] += 10.0 * (table[k + 1] - table[k]) * adj_ret


@sim.kernel
def look_up(table: sim.array(dtype=f64), t: sim.array(dtype=f64), n: int, y: sim.array(dtype=f64)):
    i = sim.tid()
    s = f64(0.0)
    for j in range(n):
        if t[i] > 0.1 * f64(j):
            s += sample(table, t[i]) * sample(table, t[i] + f64(j))
    y[i] = s


@pytest.mark.parametrize("which", ["table", "t", "both"])
def test_gradient_functions_take_arrays(which):
    values, at, n = np.array([0.3, 1.2, -0.7, 2.0, 0.4, 1.1]), np.array([0.25, 1.6, 0.9]), 3
    table = sim.array(values, dtype=f64, requires_grad=which != "t")
    t, y = sim.array(at, dtype=f64, requires_grad=which != "table"), sim.zeros(3, dtype=f64, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(look_up, 3, inputs=[table, t, n], outputs=[y])
    tape.backward(grads={y: sim.ones_like(y)})

    def total(values, at):
        interpolated = np.interp(at[:, None] + np.arange(n), np.arange(6), values)
        return (interpolated[:, :1] * interpolated * (at[:, None] > 0.1 * np.arange(n))).sum()

    h = 1e-6
    if which != "t":
        wanted = [(total(values + h * e, at) - total(values - h * e, at)) / (2 * h) for e in np.eye(6)]
        np.testing.assert_allclose(table.grad.numpy(), 10.0 * np.array(wanted), rtol=1e-7)
    if which != "table":
        wanted = [(total(values, at + h * e) - total(values, at - h * e)) / (2 * h) for e in np.eye(3)]
        np.testing.assert_allclose(t.grad.numpy(), 10.0 * np.array(wanted), rtol=1e-7)


def test_what_gradient_functions_of_arrays_cannot_do():
    @sim.kernel
    def spoils(table: sim.array(dtype=f64), y: sim.array(dtype=f64)):
        table[2] = 1.0
        y[0] = sample(table, y[1])

    table, y = sim.array([1.0, 2.0, 3.0], dtype=f64, requires_grad=True), sim.zeros(2, dtype=f64, requires_grad=True)
    with pytest.raises(sim.GradientError, match="takes the array 'table', which this kernel writes to"), sim.Tape():
        sim.launch(spoils, 1, inputs=[table, y])
    with pytest.raises(sim.GradientError, match="gives no tangent"):
        sim.autograd.jvp(
            look_up, [table, y, 1, sim.zeros(2, dtype=f64)], [sim.ones_like(table), None, None, None], dim=2
        )

    @sim.func
    def first(x: sim.array(dtype=f64)):
        return x[0]

    @sim.func_grad(first)
    def overwrites(x: sim.array(dtype=f64), adj_ret: f64):
        sim.adjoint[x][0] = adj_ret

    @sim.kernel
    def uses(x: sim.array(dtype=f64), y: sim.array(dtype=f64)):
        y[0] = first(x)

    with pytest.raises(sim.KernelError, match=r"add to the adjoint(.|\n)*write adjoint\[x\]\[i\] \+="):
        gradient(uses, 1, [1.0, 2.0])


@sim.struct
class Table:
    values: sim.array(dtype=f64)
    scale: f64


@sim.struct
class Tables:
    first: Table
    out: sim.array(dtype=f64)
    n: int


@sim.func
def from_tables(ts: Tables, i: int) -> f64:
    ts.out[i] = ts.first.values[i] * ts.first.values[i]
    return ts.first.values[i] * ts.first.scale * f64(ts.n)


@sim.func_grad(from_tables)
def from_tables_grad(ts: Tables, i: int, ct: f64):
    sim.adjoint[ts].first.scale += ts.first.values[i] * f64(ts.n) * ct
    sim.adjoint[ts.first.values][i] += 10.0 * ts.first.scale * f64(ts.n) * ct  # seen to be used
    sim.adjoint[ts].first.values[i] += 20.0 * ts.first.values[i] * sim.adjoint[ts.out][i]


@sim.kernel
def read_tables(ts: Tables, y: sim.array(dtype=f64)):
    i = sim.tid()
    own = ts
    own.first.scale = ts.first.values[i] + ts.first.scale
    y[i] = from_tables(own, i)


def test_gradient_functions_take_structs_with_arrays():
    ts, v = Tables(), np.array([0.5, -1.0, 2.0])
    ts.first.values = sim.array(v, dtype=f64, requires_grad=True)
    ts.first.scale, ts.n = 3.0, 2
    ts.out, y = (sim.zeros(3, dtype=f64, requires_grad=True) for _ in range(2))
    with sim.Tape() as tape:
        sim.launch(read_tables, 3, [ts, y])
    cts = np.array([[1.0, 2.0, 3.0], [0.1, 0.2, 0.3]])
    tape.backward(grads={y: sim.array(cts[0], dtype=f64), ts.out: sim.array(cts[1], dtype=f64)})
    np.testing.assert_allclose(ts.out.numpy(), v * v)
    np.testing.assert_allclose(y.numpy(), 2.0 * v * (v + 3.0))
    expected = 10.0 * (v + 3.0) * 2.0 * cts[0] + 20.0 * v * cts[1] + 2.0 * v * cts[0]
    np.testing.assert_allclose(ts.first.values.grad.numpy(), expected)


@sim.kernel
def look_up_rows(tables: sim.array3d(dtype=f64), t: sim.array(dtype=f64), y: sim.array(dtype=f64)):
    i = sim.tid()
    y[i] = sample(tables[i, 1], t[i]) + sample(tables[i][-1], t[i])


def test_gradient_functions_take_rows():
    tables = sim.array(np.random.default_rng(4).normal(size=(3, 3, 5)), dtype=f64, requires_grad=True)
    at = np.array([0.25, 3.5, 1.75])
    t, y = sim.array(at, dtype=f64, requires_grad=True), sim.zeros(3, dtype=f64, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(look_up_rows, 3, [tables, t, y])
    tape.backward(grads={y: sim.array([1.0, 2.0, 3.0], dtype=f64)})
    expected, along, values = np.zeros((3, 3, 5)), np.zeros(3), tables.numpy()
    for i, (a, ct) in enumerate(zip(at, (1.0, 2.0, 3.0), strict=True)):
        k, w = int(a), a % 1.0
        for row in (1, 2):
            expected[i, row, k : k + 2] += 10.0 * ct * np.array([1.0 - w, w])
            along[i] += 10.0 * ct * (values[i, row, k + 1] - values[i, row, k])
    np.testing.assert_allclose(tables.grad.numpy(), expected)
    np.testing.assert_allclose(t.grad.numpy(), along)


@sim.kernel
def read_a_row(x: sim.array2d(dtype=f64), y: sim.array(dtype=f64)):
    i = sim.tid()
    ts = Tables()
    ts.first.values = x[0]
    ts.out = y
    y[i] = from_tables(ts, i)


@sim.kernel
def read_a_part(x: sim.array(dtype=f64), y: sim.array(dtype=f64)):
    y[0] = sample(x[1:], y[1])


@pytest.mark.parametrize(
    ("kernel", "words", "shape"),
    [(read_a_row, "its argument 'ts' cannot be Tables", (2, 3)), (read_a_part, "its argument 'table' cannot be", 3)],
)
def test_other_parts_of_arrays_are_refused(kernel, words, shape):
    x, y = sim.zeros(shape, dtype=f64, requires_grad=True), sim.zeros(3, dtype=f64, requires_grad=True)
    with pytest.raises(sim.KernelError, match=rf"{words}(.|\n)*also arrays, their rows x\[i\]"):
        sim.launch(kernel, 3, [x, y])


# ------------------------------------------------------------------------------------------ errors
def test_mistakes_are_named():
    @sim.func
    def f(x: f64):
        return x * x

    @sim.kernel
    def k(x: sim.array(dtype=f64), y: sim.array(dtype=f64)):
        y[0] = f(x[0])

    @sim.func_grad(f)
    def too_many(x: f64, adj_ret: f64, other: f64):
        sim.adjoint[x] += adj_ret

    with pytest.raises(sim.KernelError, match="takes 3 arguments, `f` has 1 and 1 floating results"):
        gradient(k, 1, [1.0])

    @sim.func_grad(f)
    def unknown(x: f64, adj_ret: f64):
        sim.adjoint[z] += adj_ret  # noqa: F821

    k.specialisations.clear()
    with pytest.raises(sim.KernelError, match=r"takes the name of an argument(.|\n)*adjoint\[x\]"):
        gradient(k, 1, [1.0])

    @sim.func_grad(f)
    def returns(x: f64, adj_ret: f64):
        return adj_ret

    k.specialisations.clear()
    with pytest.raises(sim.KernelError, match="returns a value"):
        gradient(k, 1, [1.0])
    with pytest.raises(TypeError, match="takes a function of the kernel language"):
        sim.func_grad(lambda x: x)
    with pytest.raises(TypeError, match="only inside"):
        sim.adjoint[0]
    with pytest.raises(sim.KernelError, match="takes 1 arguments, `next_slot` takes 5"):

        @sim.func_replay(next_slot)
        def short(counter: sim.array(dtype=int)):
            return 0


def test_a_check_in_single_precision():
    assert gradcheck(sim.normalize, inputs=[sim.vec3(0.3, -0.2, 0.9)])


# ---- a derivative that calls its own function
@sim.func
def sigmoid(x: float):
    return 1.0 / (1.0 + sim.exp(-x))


@sim.func_grad(sigmoid)
def _(x: float, adj: float):
    y = sigmoid(x)
    sim.adjoint[x] += adj * y * (1.0 - y)


@sim.kernel
def sigmoids(x: sim.array[float], y: sim.array[float]):
    i = sim.tid()
    y[i] = sigmoid(x[i])


def test_a_derivative_may_call_its_function():
    x = sim.array([-1.0, 0.0, 2.0], dtype=float, requires_grad=True)
    y = sim.zeros_like(x)
    with sim.Tape() as tape:
        sim.launch(sigmoids, 3, inputs=[x], outputs=[y])
    tape.backward(grads={y: sim.ones(3, dtype=float)})
    want = 1 / (1 + np.exp(-np.array([-1.0, 0.0, 2.0])))
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), want * (1 - want), rtol=1e-6)
