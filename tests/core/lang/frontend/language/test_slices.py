"""Slices of vectors and matrices in kernels, with gradients; half precision; types with parts left open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sim

vec4, mat34 = sim.types.vector(4, float), sim.types.matrix((3, 4), float)


@sim.kernel
def parts(v: sim.array(dtype=vec4), m: sim.array(dtype=mat34), out: sim.array(dtype=vec4)):
    i = sim.tid()
    a = v[i]
    b = m[i]
    a[1:3] = sim.vec2(10.0, 20.0)
    a[-1:] *= 3.0
    b[:, 1] = a[:3]
    b[1:, -2:] = sim.mat22(1.0, 2.0, 3.0, 4.0)
    m[i] = b
    m[i][0, :2] = a[2:]
    out[i] = b[-1] + v[i][::-1]


def test_slices_are_those_of_numpy():
    rng = np.random.default_rng(0)
    v, m = rng.normal(size=(1, 4)).astype(np.float32), rng.normal(size=(1, 3, 4)).astype(np.float32)
    xv, xm, out = sim.array(v, dtype=vec4), sim.array(m, dtype=mat34), sim.zeros(1, dtype=vec4)
    sim.launch(parts, 1, inputs=[xv, xm, out])
    a, b = v[0].copy(), m[0].copy()
    a[1:3] = 10, 20
    a[-1:] *= 3
    b[:, 1] = a[:3]
    b[1:, -2:] = [[1, 2], [3, 4]]
    expected = b[-1] + v[0][::-1]
    b[0, :2] = a[2:]
    np.testing.assert_array_equal(xm.numpy()[0], b)
    np.testing.assert_array_equal(out.numpy()[0], expected)


@sim.kernel
def reversed_product(x: sim.array(dtype=vec4), y: sim.array(dtype=float)):
    v = x[0]
    v[:2] = v[2:] * v[0]
    y[0] = sim.dot(v[::-1], v)


def test_gradient_through_slices():
    x, y = sim.array([[1.0, 2.0, 3.0, 4.0]], dtype=vec4, requires_grad=True), sim.zeros(1, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(reversed_product, 1, inputs=[x, y])
    tape.backward(y)  # y = 4 x0 x2 x3: v = (x2 x0, x3 x0, x2, x3)
    np.testing.assert_allclose(y.numpy(), [48.0])
    np.testing.assert_allclose(x.grad.numpy(), [[48.0, 0.0, 16.0, 12.0]])


def test_a_slice_takes_what_fits():
    def launched(body):
        with pytest.raises(sim.KernelError) as problem:
            sim.launch(sim.kernel(body), 1, inputs=[sim.zeros(1, dtype=vec4)])
        return str(problem.value)

    def too_long(x: sim.array(dtype=vec4)):
        v = x[0]
        v[:2] = sim.vec3()

    def too_deep(x: sim.array(dtype=vec4)):
        v = x[0]
        x[0] = v[0:1, 0:1]

    assert "shape (2,) cannot be set to vec3<float32>" in launched(too_long)
    assert "has 1 index, got 2" in launched(too_deep)


@sim.kernel
def halves(x: sim.array(dtype=sim.float16), s: sim.float16, y: sim.array(dtype=sim.float16)):
    i = sim.tid()
    y[i] = sim.sin(x[i]) * s + x[i] * x[i] / sim.float16(3.0)


def test_half_precision_computes_in_single_and_rounds():
    x = np.linspace(-2, 2, 33).astype(np.float16)
    xs, y = sim.array(x, requires_grad=True), sim.zeros(33, dtype=sim.float16, requires_grad=True)
    assert xs.dtype is sim.float16 and y.numpy().itemsize == 2
    with sim.Tape() as tape:
        sim.launch(halves, 33, inputs=[xs, 0.5, y])
    h, single = np.float16, np.float32
    rounded = (np.sin(x.astype(single)).astype(h).astype(single) * single(0.5)).astype(h)
    quotient = ((x.astype(single) ** 2).astype(h).astype(single) / single(3)).astype(h)
    expected = (rounded.astype(single) + quotient.astype(single)).astype(h)
    np.testing.assert_array_equal(y.numpy(), expected)
    tape.backward(grads={y: sim.ones(33, dtype=sim.float16)})
    exact = 0.5 * np.cos(x.astype(float)) + 2.0 * x.astype(float) / 3.0
    np.testing.assert_allclose(xs.grad.numpy().astype(float), exact, atol=2e-3)


@sim.func
def total(v: sim.types.vector(length=Any, dtype=Any)):
    out = v.dtype(0)
    for i in range(len(v)):
        out += v[i]
    return out


def test_types_with_parts_left_open():
    @sim.kernel
    def k(x: sim.array(dtype=sim.types.vector(length=Any, dtype=sim.Float)), y: sim.array(dtype=Any)):
        y[0] = total(x[0])

    for kind in (sim.vec3, sim.vec4d, sim.vec2h):
        y = sim.zeros(1, dtype=kind.dtype)
        sim.launch(k, 1, inputs=[sim.ones(1, dtype=kind), y])
        assert y.numpy()[0] == len(kind)
    assert total(sim.vec3i(1, 2, 3)) == 6


def test_a_number_by_a_vector():
    @sim.kernel
    def k(y: sim.array(dtype=sim.vec2)):
        v = sim.vec2(2.0, 4.0)
        y[0] = 8.0 / v + sim.vec2(5.0, 9.0) % v

    y = sim.zeros(1, dtype=sim.vec2)
    sim.launch(k, 1, inputs=[y])
    np.testing.assert_array_equal(y.numpy(), [[5.0, 3.0]])
    assert 8.0 / sim.vec2(2.0, 4.0) == (4, 2) and sim.vec2(5.0, 9.0) % sim.vec2(2.0, 4.0) == (1, 1)
