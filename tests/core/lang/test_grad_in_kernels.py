"""`sim.grad(f)(...)` inside of kernels, against closed forms; differentiated once more by a tape."""

from __future__ import annotations

import numpy as np
import pytest

import sim


@sim.func
def cubic(x: float, y: float):
    return x * x * x * y


@sim.func
def safe_root(x: float):
    return sim.sqrt(x)


@sim.func_grad(safe_root)
def _(x: float, adj: float):
    sim.adjoint[x] += sim.grad(sim.sqrt)(x) * adj * 10.0  # a factor that shows who was asked


@sim.func
def applied(f, x: float):
    return f(x) * x


@sim.func
def energy(v: sim.vec3, n: int, s: float):
    total = 0.0
    for _i in range(n):
        total += s * sim.dot(v, v)
    return total


def run(kernel, *inputs, count=2):
    out = sim.zeros(count, dtype=float)
    sim.launch(kernel, 1, inputs=[*inputs, out])
    return out.numpy()


def test_by_all_arguments_of_functions_and_builtins():
    @sim.kernel
    def program(x: float, y: float, out: sim.array[float]):
        g = sim.grad(cubic)
        dx, dy = g(x, y=y)
        out[0] = dx
        out[1] = dy
        out[2] = sim.grad(sim.sqrt)(x)
        p, q = sim.grad(sim.atan2)(y, x)
        out[3] = p
        out[4] = q
        out[5] = sim.grad(applied)(sim.sin, x)

    x, y = 1.5, 0.5
    r = x * x + y * y
    want = [3 * x * x * y, x**3, 0.5 / np.sqrt(x), x / r, -y / r, np.sin(x) + x * np.cos(x)]
    np.testing.assert_allclose(run(program, x, y, count=6), want, rtol=2e-6)


def test_vectors_and_arguments_that_are_no_floats():
    @sim.kernel
    def program(n: int, out: sim.array[float]):
        dv, dn, ds = sim.grad(energy)(sim.vec3(1.0, 2.0, 3.0), n, 0.5)
        for k in range(3):
            out[k] = dv[k]
        out[3] = float(dn)
        out[4] = ds

    np.testing.assert_allclose(run(program, 3, count=5), [3, 6, 9, 0, 42])


def test_the_derivative_in_closed_form_is_used():
    @sim.kernel
    def program(x: float, out: sim.array[float]):
        out[0] = sim.grad(safe_root)(x)

    np.testing.assert_allclose(run(program, 4.0, count=1), [2.5])


def check_product_of_derivatives(program):
    """3 x^2 y x^3 = 3 x^5 y, and its gradient."""
    x = sim.array([1.5, 0.5], dtype=float, requires_grad=True)
    out = sim.zeros(1, dtype=float, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(program, 1, inputs=[x], outputs=[out])
    tape.backward(out)
    np.testing.assert_allclose(out.numpy(), 3 * 1.5**5 * 0.5, rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), [15 * 1.5**4 * 0.5, 3 * 1.5**5], rtol=1e-6)


def test_a_tape_differentiates_it_once_more():
    @sim.kernel
    def program(x: sim.array[float], out: sim.array[float]):
        dx, dy = sim.grad(cubic)(x[0], x[1])
        out[0] = dx * dy

    check_product_of_derivatives(program)


by_cubic = sim.grad(cubic)


def test_made_outside_of_kernels():
    @sim.kernel
    def program(x: sim.array[float], out: sim.array[float]):
        dx, dy = by_cubic(x[0], x[1])
        out[0] = dx * dy

    check_product_of_derivatives(program)
    assert by_cubic(2.0, 3.0) == (36.0, 8.0) and sim.grad(sim.sin)(0.0) == 1.0
    for other in (3.0, lambda x: x):
        with pytest.raises(TypeError, match=r"grad takes a function of the language, not .*decorate it with @sim.func"):
            sim.grad(other)


def test_what_has_no_gradient_here():
    @sim.func
    def two(x: float):
        return x, x

    @sim.kernel
    def several(x: float, out: sim.array[float]):
        out[0] = sim.grad(two)(x)

    @sim.kernel
    def number(x: float, out: sim.array[float]):
        out[0] = sim.grad(x)

    with pytest.raises(sim.KernelError, match="one floating result, not a tuple of 2"):
        run(several, 1.0)
    with pytest.raises(sim.KernelError, match="grad takes a function of the language, got float32"):
        run(number, 1.0)
