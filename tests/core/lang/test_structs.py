"""Structs on the host: made by position and by name, nested, with annotations as text, moved to a device."""

from __future__ import annotations

import numpy as np
import pytest

import sim


@sim.struct
class Inner:
    x: float
    v: sim.vec3


@sim.struct
class Outer:
    inner: Inner
    data: sim.array[float]
    n: int


def test_fields_by_position_and_by_name():
    a, b = Inner(2.0, (1.0, 2.0, 3.0)), Inner(2.0, v=sim.vec3(1.0, 2.0, 3.0))
    assert a.x == b.x == 2.0 and a.v == b.v
    assert Inner().x == 0.0 and list(Inner().v) == [0.0, 0.0, 0.0]
    assert Outer(a, None, 3).n == 3 and Outer().data is None
    with pytest.raises(TypeError, match="has 2 fields, got 3 values"):
        Inner(1.0, (1.0, 2.0, 3.0), 2)
    with pytest.raises(TypeError, match="got 'x' twice"):
        Inner(1.0, x=2.0)
    with pytest.raises(AttributeError, match="no field 'y'"):
        Inner(y=1.0)


def test_instances_know_their_struct():
    assert isinstance(Inner(), Inner) and isinstance(Inner(), Inner.cls)
    assert not isinstance(Outer(), Inner) and isinstance(Outer().inner, Inner)


def test_a_struct_has_no_base():
    with pytest.raises(TypeError, match="structs have no bases"):

        @sim.struct
        class Derived(Inner):
            y: float


def test_annotations_name_what_is_local():
    @sim.struct
    class Local:
        x: sim.vec2

    @sim.struct
    class Holder:
        part: Local
        weight: sim.float64

    h = Holder()
    h.part.x = (3.0, 4.0)

    @sim.kernel
    def read(h: Holder, out: sim.array[float]):
        out[0] = sim.length(h.part.x)

    out = sim.zeros(1, dtype=float)
    sim.launch(read, 1, inputs=[h, out])
    assert out.list() == [5.0]
    with pytest.raises(TypeError, match="field 'names' of struct Wrong"):

        @sim.struct
        class Wrong:
            names: dict


def test_moving_to_a_device_moves_the_arrays():
    @sim.struct
    class Deep:
        outer: Outer

    d = Deep(Outer(Inner(), sim.array([1.0, 2.0], dtype=float), 4))
    moved = d.to("cpu")
    assert isinstance(moved, Deep) and moved.outer.n == 4
    np.testing.assert_array_equal(moved.outer.data.numpy(), [1.0, 2.0])


def test_the_dtype_of_its_arrays():
    assert Inner.numpy_dtype() == sim.zeros(1, dtype=Inner).numpy().dtype


def test_a_module_of_its_own_may_be_asked_for():
    @sim.struct(module="unique")
    class Sample:
        n: sim.uint8

    assert Sample(3).n == 3 and Sample.fields["n"] is sim.uint8


def test_fields_begin_typed_and_take_what_fits():
    @sim.struct
    class Sample:
        n: sim.uint8
        w: sim.float64
        v: sim.vec3

    s = Sample()
    assert isinstance(s.n, sim.uint8) and isinstance(s.w, sim.float64) and s.n == 0 and s.v == sim.vec3()
    s.v = [1, 2, 3]
    assert s.v == sim.vec3(1, 2, 3)
    for single in (1.5, 2, sim.float32(1)):
        with pytest.raises(TypeError, match="Struct field 'v' expects vec3f but got a single value"):
            s.v = single
    for name, value, kind in (("n", 1.5, "uint8"), ("n", np.float32(2), "uint8"), ("w", "2", "float64")):
        with pytest.raises(TypeError, match=f"Struct field '{name}' expects {kind}, got "):
            setattr(s, name, value)
    s.n, s.w = 3, 2
    assert s.n == 3 and s.w == 2
    s.v = None
    assert s.v == sim.vec3()


def test_a_matrix_is_not_taken_for_its_transpose():
    @sim.struct
    class Sample:
        m: sim.types.matrix((2, 3), float)

    s = Sample()
    with pytest.raises(TypeError, match=r"expects mat23<float32>, got numbers of shape \(3, 2\)"):
        s.m = np.ones((3, 2))
    s.m = np.arange(6.0)
    assert s.m[1] == (3.0, 4.0, 5.0)


@sim.struct
class Part:
    x: float
    v: sim.vec3
    values: sim.array[float]


@sim.struct
class Whole:
    v: sim.vec3
    m: sim.mat22
    inner: Part


@sim.kernel
def firsts(s: Whole, out: sim.array[float]):
    out[0] = s.v[0]
    out[1] = s.m[0, 0]
    out[2] = s.inner.x
    out[3] = s.inner.v[0]
    out[4] = s.inner.values[0]


def seen_by_kernels(s):
    out = sim.zeros(5, dtype=float)
    sim.launch(firsts, 1, inputs=[s], outputs=[out])
    return out.list()


def test_a_field_holds_a_copy():
    """What is set is not changed by what happens to where it came from, nor the other way round."""
    v, m, values = sim.vec3(1, 2, 3), sim.mat22(1, 2, 3, 4), sim.array([1.0], dtype=float)
    inner = Part(1.0, v, values)
    s = Whole(v, m, inner)
    other = Whole()
    other.v, other.m, other.inner = s.v, s.m, s.inner
    v.x, m[0, 0], inner.x, inner.v.x = 9.0, 9.0, 9.0, 8.0
    assert seen_by_kernels(s) == seen_by_kernels(other) == [1.0] * 5
    s.v.x, s.m[0, 0], s.inner.x, s.inner.v.x = 5.0, 5.0, 5.0, 5.0
    assert seen_by_kernels(s) == [5.0, 5.0, 5.0, 5.0, 1.0]
    assert seen_by_kernels(other) == [1.0] * 5
    assert (v.x, m[0, 0], inner.x, inner.v.x) == (9.0, 9.0, 9.0, 8.0)
    values.fill_(7.0)  # arrays are shared
    assert s.inner.values is values and seen_by_kernels(other)[4] == 7.0
