"""`@func_grad` of functions that write arrays, or take references to them: gradients against those without, and what
is refused."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.core.runtime.derivatives.autograd import jvp

f32 = sim.array[float]


@sim.func
def squash(i: int, x: f32, y: f32):
    y[i] = 1.0 / (1.0 + sim.exp(-x[i]))


@sim.func_grad(squash)
def squash_grad(i: int, x: f32, y: f32):
    sim.adjoint[x][i] += 10.0 * sim.adjoint[y][i] * y[i] * (1.0 - y[i])


@sim.func
def add_square(x: float, total: f32):
    sim.atomic_add(total, 0, x * x)


@sim.func_grad(add_square)
def add_square_grad(x: float, total: f32):
    sim.adjoint[x] += 20.0 * x * sim.adjoint[total][0]


@sim.func
def nested(i: int, x: f32, y: f32):
    squash(i, x, y)


@sim.func_grad(nested)
def nested_grad(i: int, x: f32, y: f32):
    sim.adjoint[x][i] += 10.0 * sim.adjoint[y][i] * y[i] * (1.0 - y[i])


@sim.func
def neighbour(i: int, x: f32, y: f32):
    y[i] = x[i]


@sim.func_grad(neighbour)
def neighbour_grad(i: int, x: f32, y: f32):
    sim.adjoint[x][i] += sim.adjoint[y][i + 1]


@sim.func
def second(table: sim.ref[sim.array2d[float]], i: int) -> float:
    row = table[i]
    return row[1]


@sim.func_grad(second)
def second_grad(table: sim.ref[sim.array2d[float]], i: int, ct: float):
    sim.adjoint[table][i, 1] += 7.0 * ct


@sim.kernel
def squashed(x: f32, y: f32):
    i = sim.tid()
    squash(i, x, y)


@sim.kernel
def squashed_and_read(x: f32, y: f32, z: f32):
    i = sim.tid()
    if x[i] > -10.0:
        squash(i, x, y)
    z[i] = 2.0 * y[i]


@sim.kernel
def squashed_by_another(x: f32, y: f32):
    i = sim.tid()
    nested(i, x, y)


@sim.kernel
def summed(x: f32, total: f32):
    i = sim.tid()
    for j in range(3):
        add_square(x[i] * float(j), total)


@sim.kernel
def tripled(y: f32, z: f32):
    i = sim.tid()
    z[i] += 3.0 * y[i]


@sim.kernel
def seconds(table: sim.array2d[float], y: f32):
    i = sim.tid()
    y[i] = second(table, i)


@sim.func
def put_square(i: int, v: float, y: f32):
    y[i] = v * v


@sim.func_grad(put_square)
def put_square_grad(i: int, v: float, y: f32):
    sim.adjoint[v] += 2.0 * v * sim.adjoint[y][i]


@sim.func
def put_square_plainly(i: int, v: float, y: f32):
    y[i] = v * v


def repeated(put: sim.Function) -> sim.Kernel:
    """Stores in a loop, each of which the next trip reads; then one in a branch."""

    @sim.kernel
    def work(x: f32, n: int, y: f32):
        i = sim.tid()
        v = x[i]
        for _ in range(n):
            put(i, v, y)
            v = v + y[i] * 0.1
        if v > 0.0:
            put(i, v, y)

    return work


@sim.kernel
def from_neighbours(x: f32, y: f32):
    neighbour(sim.tid(), x, y)


@sim.kernel
def squashed_twice(x: f32, y: f32):
    i = sim.tid()
    for _ in range(sim.int32(x[0])):
        squash(i, x, y)


@sim.kernel
def squashed_and_changed(x: f32, y: f32):
    i = sim.tid()
    squash(i, x, y)
    y[i] = y[i] + 1.0


@pytest.fixture
def x() -> sim.array:
    return sim.array([0.5, -1.0, 2.0], dtype=float, requires_grad=True)


def zeros(count: int = 3) -> sim.array:
    return sim.zeros(count, dtype=float, requires_grad=True)


def slope(x: sim.array) -> np.ndarray:
    s = 1.0 / (1.0 + np.exp(-x.numpy()))
    return 10.0 * s * (1.0 - s)


@pytest.mark.parametrize("kernel", [squashed, squashed_by_another])
def test_the_rule_goes_back_from_the_gradient_of_what_was_written(kernel: sim.Kernel, x: sim.array) -> None:
    y, z = zeros(), zeros()
    with sim.Tape() as tape:
        sim.launch(kernel, 3, [x, y])
        sim.launch(tripled, 3, [y, z])
        y.fill_(0.0)  # the rule reads what its function has written there
    tape.backward(grads={z: sim.ones(3, dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), 3.0 * slope(x), rtol=1e-6)


def test_what_the_kernel_reads_back_counts_by_the_rule(x: sim.array) -> None:
    y, z = zeros(), zeros()
    with sim.Tape() as tape:
        sim.launch(squashed_and_read, 3, [x, y, z])
        sim.launch(tripled, 3, [y, z])
    tape.backward(grads={z: sim.ones(3, dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), 5.0 * slope(x), rtol=1e-6)


def test_a_store_ends_the_gradient_of_what_was_there(x: sim.array) -> None:
    y, z = zeros(), zeros()
    with sim.Tape() as tape:
        sim.launch(tripled, 3, [x, y])
        sim.launch(squashed, 3, [x, y])
        sim.launch(tripled, 3, [y, z])
    tape.backward(grads={z: sim.ones(3, dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), 3.0 * slope(x), rtol=1e-6)


def test_sums_may_be_added_to_anywhere(x: sim.array) -> None:
    total = zeros(1)
    with sim.Tape() as tape:
        sim.launch(summed, 3, [x, total])
    tape.backward(total)
    np.testing.assert_allclose(x.grad.numpy(), 20.0 * 5.0 * x.numpy(), rtol=1e-6)


def test_in_loops_and_branches_the_rule_is_the_derivative_that_it_stands_for(x: sim.array) -> None:
    found = []
    for put in (put_square, put_square_plainly):
        y = zeros()
        x.grad.zero_()
        with sim.Tape() as tape:
            sim.launch(repeated(put), 3, [x, 3, y])
        tape.backward(grads={y: sim.ones(3, dtype=float)})
        found.append(x.grad.numpy().copy())
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_a_reference_to_an_array() -> None:
    table, y = sim.ones((3, 2), dtype=float, requires_grad=True), zeros()
    with sim.Tape() as tape:
        sim.launch(seconds, 3, [table, y])
    tape.backward(grads={y: sim.ones(3, dtype=float)})
    np.testing.assert_array_equal(table.grad.numpy(), [[0.0, 7.0]] * 3)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (from_neighbours, r"looks at adjoint\[y\] where another thread stores to 'y' or reads it, as thread 1"),
        (squashed_twice, "reads 'y', which `squash` writes and this kernel may write again"),
        (squashed_and_changed, "reads 'y', which `squash` writes and this kernel may write again"),
    ],
)
def test_what_a_rule_could_not_see_is_refused(kernel: sim.Kernel, words: str, x: sim.array) -> None:
    with pytest.raises(sim.GradientError, match=words), sim.Tape():
        sim.launch(kernel, 3, [x, zeros(4)])


def test_without_a_gradient_of_what_is_written_there_is_none_to_lose(x: sim.array) -> None:
    y, z = sim.zeros(3, dtype=float), zeros()
    with pytest.raises(sim.GradientError, match="the gradient would be lost"), sim.Tape():
        sim.launch(squashed, 3, [x, y])
        sim.launch(tripled, 3, [y, z])


def test_there_is_no_tangent(x: sim.array) -> None:
    def program(a: sim.array) -> sim.array:
        y = zeros()
        sim.launch(squashed, 3, [a, y])
        return y

    with pytest.raises(sim.GradientError, match="gives no tangent"):
        jvp(program, [x], [sim.ones(3, dtype=float)])


# ------------------------------------------------------------------------------------------ in place
@sim.func
def scale(x: f32, i: int, by: float):
    x[i] = x[i] * by


@sim.func_grad(scale)
def scale_grad(x: f32, i: int, by: float):
    sim.adjoint[x][i] += sim.adjoint[x][i] * (by - 1.0)


@sim.func
def scale_too(x: f32, i: int, by: float):
    x[i] = x[i] * by


@sim.func_grad(scale_too)
def scale_too_grad(x: f32, i: int, by: float):
    sim.adjoint[x][i] = sim.adjoint[x][i] * by


@pytest.mark.parametrize("function", [scale, scale_too])
def test_what_a_rule_makes_of_the_gradient_of_its_result_is_kept(function: sim.Function, x: sim.array) -> None:
    @sim.kernel
    def kernel(x: f32):
        function(x, sim.tid(), 3.0)

    y = zeros()
    with sim.Tape() as tape:
        sim.launch(kernel, 3, [x])
        sim.launch(tripled, 3, [x, y])
    tape.backward(grads={y: sim.ones(3, dtype=float)})
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 9.0))


@sim.kernel
def squashed_rows(x: sim.array2d[float], y: sim.array2d[float]):
    i, j = sim.tid()
    squash(j, x[i], y[i])


@sim.kernel
def scaled_rows(x: sim.array2d[float]):
    i = sim.tid()
    for j in range(3):
        scale(x[i], j, float(j + 1))


def test_rows_of_arrays(x: sim.array) -> None:
    twice = sim.array(np.stack([x.numpy(), 2.0 * x.numpy()]), dtype=float, requires_grad=True)
    y = sim.zeros((2, 3), dtype=float, requires_grad=True)
    weights = np.arange(1.0, 7.0).reshape(2, 3)
    with sim.Tape() as tape:
        sim.launch(squashed_rows, (2, 3), [twice, y])
        sim.launch(scaled_rows, 2, [y])
    tape.backward(grads={y: sim.array(weights, dtype=float)})
    expected = [slope(sim.array(row)) * w * [1.0, 2.0, 3.0] for row, w in zip(twice.numpy(), weights, strict=True)]
    np.testing.assert_allclose(twice.grad.numpy(), expected, rtol=1e-5)


@sim.func
def doubled(i: int, x: f32, y: f32):
    y[i] = 2.0 * x[i]


@sim.func_grad(doubled)
def doubled_grad(i: int, x: f32, y: f32):
    sim.adjoint[x][i] += 2.0 * sim.adjoint[y][i]


@sim.kernel
def doubled_in_a_row(a: f32, b: f32, c: f32):
    i = sim.tid()
    doubled(i, a, b)
    doubled(i, b, c)


def test_an_array_between_two_calls_ends_with_its_store(x: sim.array) -> None:
    """What is added to its gradient by the second call is taken by the first, and is not there before."""
    b, c, d = zeros(), zeros(), zeros()
    with sim.Tape() as tape:
        sim.launch(tripled, 3, [x, b])
        sim.launch(doubled_in_a_row, 3, [x, b, c])
        sim.launch(tripled, 3, [c, d])
    tape.backward(grads={d: sim.ones(3, dtype=float)})
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 12.0))


@sim.func
def swap_and_scale(i: int, x: f32, y: f32):
    kept = x[i]
    x[i] = 2.0 * y[i]
    y[i] = kept


@sim.func_grad(swap_and_scale)
def swap_and_scale_grad(i: int, x: f32, y: f32):
    ct = sim.adjoint[x][i]
    sim.adjoint[x][i] = sim.adjoint[y][i]
    sim.adjoint[y][i] = 2.0 * ct


@sim.kernel
def swapped_and_scaled(a: f32, b: f32):
    swap_and_scale(sim.tid(), a, b)


def test_gradients_may_be_overwritten(x: sim.array) -> None:
    b, c, d = sim.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True), zeros(), zeros()
    values, others = x.numpy().copy(), b.numpy().copy()
    with sim.Tape() as tape:
        sim.launch(swapped_and_scaled, 3, [x, b])
        sim.launch(tripled, 3, [x, c])
        sim.copy(d, b)
    np.testing.assert_array_equal((x.numpy(), b.numpy()), (2.0 * others, values))
    tape.backward(grads={c: sim.ones(3, dtype=float), d: sim.ones(3, dtype=float)})
    np.testing.assert_array_equal((x.grad.numpy(), b.grad.numpy()), ([1.0] * 3, [6.0] * 3))


def test_two_names_of_one_array_are_refused(x: sim.array) -> None:
    with pytest.raises(sim.GradientError, match="given the same memory as 'x' and as 'y'"), sim.Tape():
        sim.launch(squashed, 3, [x, x])
