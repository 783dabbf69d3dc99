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


# ------------------------------------------------------------------------------------------ results beside writes
@sim.func
def root_and_kept(x: float, kept: f32, k: int) -> float:
    """A cube root by Newton's method; what is found is kept for the derivative."""
    y = 1.0
    for _ in range(60):
        y = y - (y * y * y - x) / (3.0 * y * y)
    kept[k] = y
    return y


@sim.func_grad(root_and_kept)
def root_and_kept_grad(x: float, kept: f32, k: int, ct: float):
    sim.adjoint[x] += ct / (3.0 * kept[k] * kept[k])


@sim.kernel
def cube_roots(x: f32, kept: f32, y: f32):
    i = sim.tid()
    y[i] = 2.0 * root_and_kept(x[i] * x[i], kept, i)


@sim.func
def root_outside(x: float, kept: f32, k: int) -> float:
    return root_and_kept(x, kept, k)


@sim.func_grad(root_outside)
def root_outside_grad(x: float, kept: f32, k: int, ct: float):
    sim.adjoint[x] += ct / (3.0 * kept[k] * kept[k])


@sim.kernel
def cube_roots_within(x: f32, kept: f32, y: f32):
    i = sim.tid()
    y[i] = 2.0 * root_outside(x[i] * x[i], kept, i)


@pytest.mark.parametrize("kernel", [cube_roots, cube_roots_within])
def test_a_function_may_return_and_write_what_its_rule_reads(kernel: sim.Kernel, x: sim.array) -> None:
    kept, y = sim.zeros(3, dtype=float), zeros()
    with sim.Tape() as tape:
        sim.launch(kernel, 3, [x, kept, y])
        kept.fill_(7.0)
    np.testing.assert_allclose(y.numpy(), 2.0 * np.cbrt(x.numpy() ** 2), rtol=1e-6)
    tape.backward(grads={y: sim.ones(3, dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), 4.0 / 3.0 / np.cbrt(x.numpy()), rtol=1e-5)


@sim.func
def floored(x: f32, i: int, kept: f32) -> float:
    kept[i] = x[i]
    return sim.floor(x[i])


@sim.func_grad(floored)
def floored_grad(x: f32, i: int, kept: f32, ct: float):
    sim.adjoint[x][i] += ct * kept[i]


@sim.kernel
def straight_through(x: f32, kept: f32, y: f32):
    i = sim.tid()
    y[i] = 2.0 * floored(x, i, kept)


def test_the_rule_counts_where_the_function_has_no_derivative(x: sim.array) -> None:
    kept, y = sim.zeros(3, dtype=float), zeros()
    with sim.Tape() as tape:
        sim.launch(straight_through, 3, [x, kept, y])
    tape.backward(grads={y: sim.ones(3, dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * x.numpy())


@sim.func
def split_off(x: f32, i: int, count: sim.array[int], kept: f32):
    """A place for what is positive, its half, and a copy of it there."""
    k = sim.atomic_add(count, 0, 1)
    kept[k] = x[i]
    return k, 0.5 * x[i]


@sim.func_grad(split_off)
def split_off_grad(x: f32, i: int, count: sim.array[int], kept: f32, ct: float):
    sim.adjoint[x][i] += 0.5 * ct


@sim.func
def split_off_plainly(x: f32, i: int, count: sim.array[int], kept: f32):
    k = sim.atomic_add(count, 0, 1)
    kept[k] = x[i]
    return k, 0.5 * x[i]


def splitting(function: sim.Function) -> sim.Kernel:
    @sim.kernel
    def kernel(x: f32, count: sim.array[int], kept: f32, y: f32):
        i = sim.tid()
        s = 0.0
        for n in range(3):
            if x[i] > 0.0:
                k, half = function(x, i, count, kept)
                s += half * float(n + 1)
                y[3 + k] = half
        y[i] = s

    return kernel


def test_results_in_loops_and_branches_are_those_that_they_stand_for(x: sim.array) -> None:
    found = []
    for function in (split_off, split_off_plainly):
        count, kept, y = sim.zeros(1, dtype=int), sim.zeros(9, dtype=float), zeros(12)
        x.grad.zero_()
        with sim.Tape() as tape:
            sim.launch(splitting(function), 3, [x, count, kept, y])
        tape.backward(grads={y: sim.array(np.arange(12.0), dtype=float)})
        found.append((y.numpy(), x.grad.numpy().copy()))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1])
    assert found[0][1][0] > 0.0


# ------------------------------------------------------------------------------------------ scratch memory
@sim.func
def substitute(n: int, lower: f32, b: f32, x: f32, at: int):
    """x = inv(L L^T) b."""
    for i in range(n):
        v = b[at + i]
        for j in range(i):
            v -= lower[(at + i) * n + j] * x[at + j]
        x[at + i] = v / lower[(at + i) * n + i]
    for back in range(n):
        i = n - 1 - back
        v = x[at + i]
        for j in range(i + 1, n):
            v -= lower[(at + j) * n + i] * x[at + j]
        x[at + i] = v / lower[(at + i) * n + i]


@sim.func
def solve(n: int, matrix: f32, lower: f32, b: f32, x: f32, scratch: f32, at: int):
    substitute(n, lower, b, x, at)


@sim.func_grad(solve)
def solve_grad(n: int, matrix: f32, lower: f32, b: f32, x: f32, scratch: f32, at: int):
    if not scratch or not sim.adjoint[x]:
        return
    for i in range(n):
        scratch[at + i] = 0.0
    substitute(n, lower, sim.adjoint[x], scratch, at)
    for i in range(n):
        sim.adjoint[b][at + i] += scratch[at + i]
    if not sim.adjoint[matrix]:
        return
    for i in range(n):
        for j in range(n):
            sim.adjoint[matrix][(at + i) * n + j] += -scratch[at + i] * x[at + j]


@sim.kernel
def solves(n: int, starts: sim.array[int], matrix: f32, lower: f32, b: f32, x: f32, scratch: f32):
    solve(n, matrix, lower, b, x, scratch, starts[sim.tid()])


@sim.kernel
def solves_with_what_is_there(n: int, starts: sim.array[int], matrix: f32, lower: f32, b: f32, x: f32, scratch: f32):
    at = starts[sim.tid()]
    scratch[at] = b[at]
    solve(n, matrix, lower, b, x, scratch, at)


class Systems:
    """Four systems of three equations; the last one stands first."""

    def __init__(self, with_matrix: bool) -> None:
        rng = np.random.default_rng(5)
        shape = rng.normal(size=(4, 3, 3))
        self.matrices = shape @ shape.transpose(0, 2, 1) + np.eye(3)
        self.matrix = sim.array(self.matrices.ravel(), dtype=float, requires_grad=with_matrix)
        self.lower = sim.array(np.linalg.cholesky(self.matrices).ravel(), dtype=float)
        self.right, self.seed = rng.normal(size=(2, 4, 3))
        self.b = sim.array(self.right.ravel(), dtype=float, requires_grad=True)
        self.x, self.scratch = zeros(12), sim.full(12, 5.0, dtype=float)
        self.starts = sim.array([9, 3, 0, 6], dtype=int)

    def record(self, kernel: sim.Kernel) -> sim.Tape:
        with sim.Tape() as tape:
            sim.launch(kernel, 4, self.arguments)
        return tape

    @property
    def arguments(self) -> list:
        return [3, self.starts, self.matrix, self.lower, self.b, self.x, self.scratch]

    def to_b(self) -> np.ndarray:
        return np.linalg.solve(self.matrices, self.seed[..., None])[..., 0]

    def to_matrix(self) -> np.ndarray:
        return -self.to_b()[:, :, None] * np.linalg.solve(self.matrices, self.right[..., None])[:, None, :, 0]


@pytest.mark.parametrize("with_matrix", [True, False])
def test_a_rule_may_work_in_an_array(with_matrix: bool) -> None:
    systems = Systems(with_matrix)
    tape = systems.record(solves)
    for times in (1, 2):
        tape.backward(grads={systems.x: sim.array(systems.seed.ravel(), dtype=float)})
        np.testing.assert_allclose(systems.b.grad.numpy(), times * systems.to_b().ravel(), rtol=2e-5)
        if with_matrix:
            np.testing.assert_allclose(systems.matrix.grad.numpy(), times * systems.to_matrix().ravel(), rtol=1e-4)
    np.testing.assert_allclose(systems.scratch.numpy(), systems.to_b().ravel(), rtol=2e-5)  # as the rule has left it


def test_what_stood_in_scratch_memory_is_kept_for_those_who_need_it() -> None:
    """The adjoint of the first launch reads what the adjoint of the second one overwrites."""
    systems, y = Systems(False), zeros(12)
    factors = sim.array(np.arange(12.0), dtype=float, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(multiplied, 12, [factors, systems.scratch, y])
        sim.launch(solves, 4, systems.arguments)
    tape.backward(grads={systems.x: sim.array(systems.seed.ravel(), dtype=float), y: sim.ones(12, dtype=float)})
    np.testing.assert_array_equal(factors.grad.numpy(), np.full(12, 5.0))


@sim.kernel
def multiplied(a: f32, b: f32, y: f32):
    i = sim.tid()
    y[i] = a[i] * b[i]


def test_without_scratch_memory_the_rule_of_the_user_decides() -> None:
    systems = Systems(False)
    systems.scratch = None
    systems.record(solves).backward(grads={systems.x: sim.array(systems.seed.ravel(), dtype=float)})
    np.testing.assert_array_equal(systems.b.grad.numpy(), np.zeros(12))


def test_scratch_memory_is_for_nothing_else() -> None:
    with pytest.raises(sim.GradientError, match="stores to 'scratch', which is scratch memory then, and this kernel"):
        Systems(True).record(solves_with_what_is_there)

    @sim.func
    def halve(x: f32, kept: f32, i: int) -> float:
        return 0.5 * x[i]

    @sim.func_grad(halve)
    def halve_grad(x: f32, kept: f32, i: int, ct: float):
        kept[i] = kept[i] + ct
        sim.adjoint[x][i] += 0.5 * ct

    @sim.kernel
    def kernel(x: f32, kept: f32, y: f32):
        i = sim.tid()
        y[i] = halve(x, kept, i)

    with pytest.raises(sim.KernelError, match="looks at 'kept' before it has stored anything there"), sim.Tape():
        sim.launch(kernel, 3, [zeros(), zeros(), zeros()])


@sim.func
def pass_on(x: f32, seen: f32, i: int) -> float:
    return x[i]


@sim.func_grad(pass_on)
def pass_on_grad(x: f32, seen: f32, i: int, ct: float):
    sim.adjoint[x][i] += ct
    seen[0] += ct


@sim.kernel
def passed_on(x: f32, seen: f32, y: f32):
    i = sim.tid()
    y[i] = 2.0 * pass_on(x, seen, i)


def test_a_rule_may_tell_what_it_sees(x: sim.array) -> None:
    y, seen = zeros(), sim.zeros(1, dtype=float)
    with sim.Tape() as tape:
        sim.launch(passed_on, 3, [x, seen, y])
    tape.backward(grads={y: sim.array([1.0, 2.0, 4.0], dtype=float)})
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 4.0, 8.0])
    assert seen.item() == 14.0


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
