"""Structs in kernels: fields by position, operators of their own, attributes that are arrays."""

from __future__ import annotations

import pytest
from tools.programs.interpreted import evaluated

import sim
from sim.core.lang.errors import KernelError
from sim.core.lang.types import float32


# ---- structs
@sim.struct
class Pair:
    a: float
    b: int


def test_fields_of_a_struct_by_position():
    def make(x: float):
        p, q = Pair(x, 3), Pair(x, b=4)
        return p.a + q.a, p.b + q.b, Pair(x).b

    assert evaluated(make, [float32], 2.0) == [4.0, 7, 0]

    def twice(x: float):
        return Pair(x, a=1.0).a

    with pytest.raises(KernelError, match="got 'a' twice"):
        evaluated(twice, [float32], 2.0)

    def much(x: float):
        return Pair(x, 1, 2).a

    with pytest.raises(KernelError, match=r"takes 2 fields, got 3: a, b"):
        evaluated(much, [float32], 2.0)


# ---- structs with operators, and attributes that are set
@sim.struct
class Complex:
    real: float
    imag: float


@sim.func
def add(a: Complex, b: Complex):
    return Complex(a.real + b.real, a.imag + b.imag)


@sim.func
def mul(a: Complex, b: Complex):
    return Complex(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


@sim.func
def mul(a: float, b: Complex):  # noqa: F811
    return Complex(a * b.real, a * b.imag)


def test_functions_named_as_operators_serve_structs():
    def compute(x: float):
        a, b = Complex(x, 2.0), Complex(3.0, 4.0)
        c = a * b + 2.0 * b
        c += a
        return c.real, c.imag

    assert evaluated(compute, [float32], 1.0) == [2.0, 20.0]

    def missing(x: float):
        return (Complex(x, x) - Complex(x, x)).real

    with pytest.raises(KernelError, match="- is not defined for Complex and Complex"):
        evaluated(missing, [float32], 1.0)


@sim.struct
class WithArray:
    data: sim.array[float]
    scale: float


@sim.func
def with_array(data: sim.array[float], scale: float):
    s = WithArray()
    s.data = data
    s.scale = scale
    return s


def test_an_array_attribute_that_was_not_set_can_be_set():
    @sim.kernel
    def scaled(x: sim.array[float], y: sim.array[float]):
        i = sim.tid()
        s = with_array(x, 3.0)
        y[i] = s.scale * s.data[i]

    x, y = sim.array([1.0, 2.0], dtype=float), sim.zeros(2, dtype=float)
    sim.launch(scaled, 2, inputs=[x, y])
    assert y.list() == [3.0, 6.0]
