"""`@func_grad` of functions that return something beside what they write, or work in scratch memory."""

from __future__ import annotations

import numpy as np
import pytest

import sim

f32 = sim.array[float]


@pytest.fixture
def x() -> sim.array:
    return sim.array([0.5, -1.0, 2.0], dtype=float, requires_grad=True)


def zeros(count: int = 3) -> sim.array:
    return sim.zeros(count, dtype=float, requires_grad=True)


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
