"""U f(s) V^T at equal singular values: the derivative is right, or an error; the body at rest is the usual case."""

import numpy as np
import pytest
from tools.adjoints.differences import traced
from tools.tapes.gradients import array

import sim
from sim.core.lang.autodiff.degeneracy import combined_calls, moved_results, stored_calls, values_behind
from sim.core.lang.ir.core import walk

f64, mat33, vec3 = sim.float64, sim.mat33d, sim.vec3d
DIRECTION = np.array([[[1.0, 0.3, 0.2], [0.1, -1.0, 0.4], [0.3, 0.2, 0.5]]])
REST, BENT = np.eye(3)[None], np.diag([1.3, 1.1, 0.7])[None] + 0.05 * DIRECTION
MESSAGE = r"singular values or eigenvalues coincide(.|\n)*use polar3"


@sim.func
def cubed(s: vec3):
    return sim.diag(vec3(s[0] ** 3.0, s[1] ** 3.0, s[2] ** 3.0))


@sim.func
def score(m: mat33):
    return m[0, 1] * 2.0 + m[0, 0] + m[1, 2] * 0.5


@sim.kernel
def combined(a: sim.array[mat33], out: sim.array[f64]):
    i = sim.tid()
    u, s, v = sim.svd3(a[i])
    sim.atomic_add(out, 0, score(u * cubed(s) * sim.transpose(v)))


@sim.kernel
def combined_in_a_branch(a: sim.array[mat33], out: sim.array[f64]):
    i = sim.tid()
    u, s, v = sim.svd3(a[i])
    stretched = vec3(1.0, 1.0, 1.0)
    if s[0] > 0.5:
        for _ in range(2):
            stretched = sim.cw_mul(stretched, s)
    sim.atomic_add(out, 0, score(u * sim.diag(stretched) * sim.transpose(v)))


@sim.kernel
def eigen(a: sim.array[mat33], out: sim.array[f64]):
    i = sim.tid()
    q, d = sim.eig3(a[i] + sim.transpose(a[i]))
    sim.atomic_add(out, 0, score(q * cubed(d) * sim.transpose(q)))


@sim.kernel
def decomposed(a: sim.array[mat33], u: sim.array[mat33], s: sim.array[vec3], v: sim.array[mat33]):
    i = sim.tid()
    u[i], s[i], v[i] = sim.svd3(a[i])


@sim.kernel
def put_together(u: sim.array[mat33], s: sim.array[vec3], v: sim.array[mat33], out: sim.array[f64]):
    i = sim.tid()
    sim.atomic_add(out, 0, score(u[i] * cubed(s[i]) * sim.transpose(v[i])))


@sim.kernel
def rotation_alone(u: sim.array[mat33], s: sim.array[vec3], v: sim.array[mat33], out: sim.array[f64]):
    i = sim.tid()
    sim.atomic_add(out, 0, score(u[i] * sim.transpose(v[i])))


@sim.kernel
def again_and_again(a: sim.array[mat33], out: sim.array[f64], n: int):
    i = sim.tid()
    for _ in range(n):
        u, s, v = sim.svd3(a[i])
        a[i] = u * cubed(s) * sim.transpose(v)
    sim.atomic_add(out, 0, score(a[i]))


def new(dtype):
    return sim.zeros(1, dtype=dtype, requires_grad=True)


def in_one_kernel(kernel):
    def program(a):
        out = new(f64)
        sim.launch(kernel, 1, inputs=[a, out])
        return out

    return program


def in_two_kernels(second):
    def program(a):
        u, s, v, out = new(mat33), new(vec3), new(mat33), new(f64)
        sim.launch(decomposed, 1, inputs=[a, u, s, v])
        sim.launch(second, 1, inputs=[u, s, v, out])
        return out

    return program


def in_a_loop(a):
    b, out = new(mat33), new(f64)
    sim.copy(b, a)
    sim.launch(again_and_again, 1, inputs=[b, out, 2])
    return out


def value(program, at):
    return program(array(at, mat33)).numpy()[0]


def reverse(program, at):
    x = array(at, mat33)
    with sim.Tape() as tape:
        loss = program(x)
    tape.backward(loss)
    return np.sum(x.grad.numpy() * DIRECTION)


def forward(program, at):
    return float(sim.autograd.jvp(program, [array(at, mat33)], [array(DIRECTION, mat33)])[1][0].numpy()[0])


def second(program, at):
    (product,) = sim.autograd.hvp(program, [array(at, mat33)], [array(DIRECTION, mat33)])
    return np.sum(product.numpy() * DIRECTION)


PROGRAMS = {
    "one kernel": in_one_kernel(combined),
    "branch": in_one_kernel(combined_in_a_branch),
    "eig3": in_one_kernel(eigen),
    "two kernels": in_two_kernels(put_together),
    "rotation": in_two_kernels(rotation_alone),
    "loop": in_a_loop,
}
REFUSED = {("two kernels", reverse), ("loop", reverse), ("two kernels", forward), ("rotation", forward)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_are_right_or_refused(name):
    program = PROGRAMS[name]
    for at in (REST, BENT):
        h = 1e-4
        wanted = (value(program, at + h * DIRECTION) - value(program, at - h * DIRECTION)) / (2 * h)
        curvature = (
            value(program, at + 10 * h * DIRECTION) - 2 * value(program, at) + value(program, at - 10 * h * DIRECTION)
        ) / (10 * h) ** 2
        for how in (reverse, forward, second):
            if at is REST and ((name, how) in REFUSED or how is second):
                with pytest.raises(sim.GradientError, match=MESSAGE):
                    how(program, at)
            else:
                np.testing.assert_allclose(how(program, at), curvature if how is second else wanted, rtol=1e-5)


# ------------------------------------------------------------------------------------------------ on the IR
@sim.kernel
def values_alone(a: sim.array[mat33], out: sim.array[f64]):
    _, s, _ = sim.svd3(a[0])
    out[0] = s[0] * s[1] * s[2]


@sim.kernel
def added_up(a: sim.array[mat33], out: sim.array[f64]):
    u, s, _ = sim.svd3(a[0])
    out[0] = u[0, 0] + s[0]


@pytest.mark.parametrize(("kernel", "combines", "stores"), [
    (combined, 1, 0), (combined_in_a_branch, 1, 0), (values_alone, 0, 0), (added_up, 0, 0), (decomposed, 0, 1),
])  # fmt: skip
def test_calls_whose_results_a_kernel_combines_or_stores(kernel, combines, stores):
    """A sum combines nothing: its derivative by one part does not look at the other."""
    func = traced(kernel, source=True)
    assert (len(combined_calls(func)), len(stored_calls(func))) == (combines, stores)


def test_splitting_moves_the_values_and_leaves_the_vectors():
    func = traced(decomposed, source=True)
    (call,) = [op for op in walk(func.body) if "separated" in op.attrs]
    assert len(call.results) == 9 + 3 + 9
    assert moved_results(call) == set(call.results[9:12])
    behind = values_behind(func, {call})
    assert set(call.results) <= behind and not any(p in behind for p in func.params)
