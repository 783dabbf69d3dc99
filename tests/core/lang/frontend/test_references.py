"""Functions that change their arguments: parameters `ref[...]`, with gradients; native snippets, refused."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.core.lang.errors import KernelError


@sim.struct
class Ball:
    x: sim.vec3
    bounces: int


@sim.func
def grow(x: sim.ref[float], by: float):
    if by > 100.0:
        return
    x = x * by


@sim.func
def grow_twice(x: sim.ref[float]):
    grow(x, 2.0)
    grow(x=x, by=3.0)


@sim.func
def swap(a: sim.ref[float], b: sim.ref[float]):
    a, b = b, a


@sim.func
def bounce(ball: sim.ref[Ball]) -> bool:
    if ball.x[1] < 0.0:
        ball.x[1] = -ball.x[1]
        ball.bounces += 1
        return True
    return False


@sim.kernel
def program(x: sim.array[float], v: sim.array[sim.vec3], out: sim.array[float]):
    a = 2.0
    grow(a, 3.0)
    out[0] = a
    grow_twice(x[0])
    grow(x[1], 1000.0)
    w = sim.vec3(1.0, 2.0, 3.0)
    grow(w[1], 5.0)
    grow(v[0].z, 2.0)
    out[1] = w[1] + v[0][2]
    swap(x[0], x[1])
    ball = Ball()
    ball.x = sim.vec3(0.0, -2.0, 0.0)
    if bounce(ball) and not bounce(ball):
        out[2] = ball.x[1] + float(ball.bounces)
    for _k in range(30):
        grow(a, 1.1)
    out[3] = a


def test_arguments_are_changed():
    x, v = sim.array([1.0, 5.0], dtype=float), sim.array([[1.0, 2.0, 3.0]], dtype=sim.vec3)
    out = sim.zeros(4, dtype=float)
    sim.launch(program, 1, inputs=[x, v], outputs=[out])
    np.testing.assert_allclose(out.numpy(), [6.0, 16.0, 3.0, 6.0 * 1.1**30], rtol=1e-5)
    assert x.list() == [5.0, 6.0]


def test_gradients_go_through_what_was_changed():
    @sim.kernel
    def cube(x: sim.array[float], y: sim.array[float]):
        i = sim.tid()
        a = x[i]
        grow(a, x[i])
        grow(a, x[i])
        y[i] = a

    x = sim.array([1.0, 2.0, 200.0], dtype=float, requires_grad=True)
    y = sim.zeros_like(x)
    with sim.Tape() as tape:
        sim.launch(cube, 3, inputs=[x], outputs=[y])
    tape.backward(grads={y: sim.ones_like(y)})
    np.testing.assert_allclose(y.numpy(), [1.0, 8.0, 200.0])
    np.testing.assert_allclose(x.grad.numpy(), [3.0, 12.0, 1.0])


def test_what_cannot_be_changed():
    @sim.kernel
    def literal(out: sim.array[float]):
        grow(2.0, 3.0)

    @sim.kernel
    def result(out: sim.array[float]):
        grow(sim.sqrt(out[0]), 3.0)

    @sim.kernel
    def parameter(x: sim.ref[float], out: sim.array[float]):
        out[0] = x

    @sim.kernel
    def other_type(out: sim.array[sim.float64]):
        grow(out[0], 3.0)

    for kernel in (literal, result):
        with pytest.raises(KernelError, match="`grow` changes its argument 'x': this cannot be assigned to"):
            sim.launch(kernel, 1, inputs=[sim.zeros(1, dtype=float)])
    with pytest.raises(KernelError, match="has a parameter ref"):
        sim.launch(parameter, 1, inputs=[1.0, sim.zeros(1, dtype=float)])
    with pytest.raises(KernelError, match="expected float32, got float64"):
        sim.launch(other_type, 1, inputs=[sim.zeros(1, dtype=sim.float64)])


def test_references_are_values():
    assert sim.ref[sim.float32] == sim.ref[float] != sim.ref[int]
    assert len({sim.ref[sim.vec3], sim.ref[sim.vec3]}) == 1
    assert sim.ref[sim.int32].dtype is sim.int32 and repr(sim.ref[sim.int32]) == "ref[int32]"


def test_native_snippets_are_refused_where_they_are_called():
    @sim.func_native("return x * x;", adj_snippet="")
    def native(x: float) -> float: ...

    @sim.kernel
    def calls(out: sim.array[float]):
        out[0] = native(2.0)

    with pytest.raises(KernelError, match="`native` is a native snippet: C\\+\\+ and CUDA are not supported"):
        sim.launch(calls, 1, inputs=[sim.zeros(1, dtype=float)])


def test_overloads_differ_in_more_than_a_reference():
    @sim.func
    def change(x: sim.int32) -> sim.int32:
        return x

    with pytest.raises(KernelError, match="two definitions of `change` differ only by a parameter's being a ref"):

        @sim.func
        def change(x: sim.ref[sim.int32]):
            x += 1
