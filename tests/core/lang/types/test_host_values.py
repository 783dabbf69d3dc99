"""Values on the host: numbers, vectors, matrices and transforms behave as in kernels."""

from __future__ import annotations

import pickle
from typing import Any, Literal

import numpy as np
import pytest

import sim
from sim.core.lang import types
from sim.core.lang.types import FLOATS, INTEGERS

VECTORS = [sim.types.vector(3, s) for s in (*FLOATS, *INTEGERS)]


@pytest.mark.parametrize("kind", VECTORS, ids=str)
def test_vectors_of_every_scalar(kind):
    v, s = kind(2, 4, 6), kind.dtype(2)
    assert isinstance(v, kind) and kind.dtype is v.dtype and v.shape == (3,) and len(v) == 3
    assert v + kind(1, 1, 1) == (3, 5, 7) and v - kind(1, 1, 1) == (1, 3, 5)
    assert v * s == s * v == (4, 8, 12) and v / s == (1, 2, 3) and kind.dtype(12) / v == (6, 3, 2)
    assert +v == v and hash(v) == hash((2, 4, 6)) and v != (2, 4, 7) and v != (2, 4)
    assert v[0] == v.x == 2 and v[-1] == v.z == 6 and v[1:] == (4, 6) and v[::-1] == (6, 4, 2)
    assert np.asarray(v).dtype == kind.dtype.np and pickle.loads(pickle.dumps(v)) == v
    copy = kind(v)
    copy.y, copy[0:1], copy[-1] = 5, (7,), kind.dtype(8)
    assert copy == (7, 5, 8) and v == (2, 4, 6)


@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS], ids=str)
def test_numbers_keep_their_type(kind):
    a = kind(7)
    assert isinstance(a, kind) and not isinstance(a, sim.bool) and a.value == 7 and int(a) == 7 and float(a) == 7.0
    assert a == 7 and a == 7.0 and a < 8 and a >= 7 and hash(a) == hash(7) and bool(a) and repr(a) == f"{kind}({a})"
    for made, value in ((a + kind(2), 9), (a - kind(2), 5), (a * kind(2), 14), (a % kind(2), 1), (2 * a, 14)):
        assert made == value
        assert type(made) in (int, float) if kind in (sim.int32, sim.float32) else made.type is kind
    assert a / kind(2) == (3.5 if kind.is_float else 3)  # whole numbers divide as in C
    assert np.array([a, a]).dtype == kind.np and sim.array([a, a]).dtype is kind
    assert pickle.loads(pickle.dumps(a)) == a


def test_a_class_that_derives_from_a_number_is_that_type():
    class Mass(sim.float16):  # type: ignore[valid-type, misc]
        pass

    assert np.dtype(Mass) == np.float16 == np.dtype(Mass(2)) and sim.zeros(1, dtype=Mass).dtype is sim.float16


def test_what_does_not_make_a_value_is_refused():
    wide, tall = sim.types.matrix((2, 3), float), sim.types.matrix((3, 2), float)
    for make in (
        lambda: wide(np.ones((3, 2))), lambda: wide(tall(1.0)), lambda: sim.quat([[1, 2], [3, 4]]),
        lambda: sim.vec4(sim.mat22(1.0)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="got numbers of shape"):
            make()
    assert sim.vec3(np.ones((3, 1))) == sim.vec3(1.0) and wide(np.arange(6.0)) == wide([[0, 1, 2], [3, 4, 5]])
    with pytest.raises(TypeError, match=r"float32\(None\): expected a number"):
        sim.float32(None)
    with pytest.raises(ValueError, match="is a whole number, got inf"):
        sim.vec3i(np.inf)


def test_numbers_round_and_wrap():
    assert sim.float16(0.1).value == float(np.float16(0.1)) and sim.int8(200) == -56 and sim.uint8(-1) == 255
    assert sim.int32(2.9) == 2 and sim.float16(1e6).value == float("inf")


def test_a_number_is_a_typed_constant_of_a_kernel():
    third = sim.float64(1.0 / 3.0)

    @sim.kernel
    def k(y: sim.array(dtype=sim.float64)):
        y[sim.tid()] = third

    y = sim.zeros(1, dtype=sim.float64)
    sim.launch(k, 1, inputs=[y])
    assert y.numpy()[0] == 1.0 / 3.0


@pytest.mark.parametrize("real", "hfd")
def test_matrices(real):
    mat22, vec2 = getattr(sim, f"mat22{real}"), getattr(sim, f"vec2{real}")
    m = mat22(2, 4, 6, 8)
    assert m == mat22(((2, 4), (6, 8))) == mat22([2, 4], [6, 8]) == mat22(np.array([[2, 4], [6, 8]]))
    assert m * vec2(1, 2) == m @ vec2(1, 2) == (10, 22) and vec2(1, 2) * m == (14, 20)
    assert m @ m == ((28, 40), (60, 88)) and m / m.dtype(2) == ((1, 2), (3, 4)) and mat22(3) == ((3, 3), (3, 3))
    assert m[1] == m.get_row(1) == (6, 8) and m[:, 1] == m.get_col(-1) == (4, 8) and m[0:1, 1:] == ((4,),)
    m[0][1], m[1] = 5, (1, 2)
    m.set_col(0, 9)
    assert m == ((9, 5), (9, 2)) and str(mat22(1)) == "[[1.0, 1.0],\n [1.0, 1.0]]"


@pytest.mark.parametrize("real", "hfd")
def test_transforms_and_quaternions(real):
    transform, quat, vec3 = (getattr(sim, name + real) for name in ("transform", "quat", "vec3"))
    t = transform((1, 2, 3), (0, 0, 1, 0))
    assert (
        t == transform(p=(1, 2, 3), q=(0, 0, 1, 0)) == transform(1, 2, 3, 0, 0, 1, 0) and transform((1, 2, 3)).q.w == 1
    )
    assert isinstance(t.p, vec3) and isinstance(t.q, quat) and transform()[6] == 1 and quat() == (0, 0, 0, 0)
    t.p = (4, 5, 6)
    t.p.x = 7
    assert t.p == (7, 5, 6)
    sim.transform_set_rotation(t, quat(0, 0, 1, 0))
    sim.transform_set_translation(t, vec3(7, 5, 6))
    assert sim.quat_rotate(t.q, vec3(1, 2, 3)) == (-1, -2, 3) and t * transform() == t
    assert sim.transform_point(t, vec3(1, 0, 0)) == (6, 5, 6)


def test_the_class_of_a_value_is_its_type():
    v = sim.vec3(1, 2, 3)
    made = type(v)
    assert made == sim.vec3 and sim.vec3 == made and made != sim.vec4 and {sim.vec3: 1}[made] == 1
    assert type(v)(4, 5, 6) == (4, 5, 6) and type(v)._shape_ == (3,) and type(sim.float64(1))(2) == 2
    assert sim.zeros(2, dtype=type(v)).dtype is sim.vec3 and sim.types.types_equal(type(v), sim.vec3)

    class Point(sim.vec3):
        pass

    assert sim.zeros(2, dtype=Point).dtype is sim.vec3 and Point(1, 2, 3) == v


def test_text():
    assert repr(sim.vec3(1, 2, 3)) == "vec3f([1.0, 2.0, 3.0])" and str(sim.vec2i(1, 2)) == "[1, 2]"
    assert repr(sim.vec2d(1, 2)) == "vec2d([float64(1.0), float64(2.0)])"
    assert sim.vec3.__name__ == "vec3f" and sim.types.vector(5, float).__name__ == "vec5<float32>"


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (
            lambda: sim.vec3(1, 2),
            TypeError,
            "vec3<float32>: Invalid number of arguments in vector constructor, expected 3 elements, got 2",
        ),
        (lambda: sim.vec3("a"), TypeError, "Expected to assign a `float32` value but got `str` instead: 'a'"),
        (lambda: sim.vec2i(1.5, 2), TypeError, "whole number"),
        (lambda: sim.mat22(sim.vec2(), sim.vec2()), TypeError, "matrix_from_rows"),
        (lambda: sim.mat22((1, 2, 3), (1, 2, 3)), TypeError, r"expected row of length 2, got \(1, 2, 3\)"),
        (lambda: sim.transform(x=1), TypeError, "p= and q="),
        (lambda: sim.vec3().w, AttributeError, "a component of vec3<float32>: 'vec3f' object has no attribute 'w'"),
        (lambda: setattr(sim.vec3(), "w", 1), AttributeError, "has no attribute 'w'"),
        (lambda: sim.vec3()[None], KeyError, "Invalid key None, expected int or slice"),
        (lambda: sim.mat22()[0, 0, 0], KeyError, "one or two indices"),
        (lambda: sim.vec3()[3], IndexError, "out of bounds"),
        (lambda: sim.mat22().get_row(2), IndexError, "no row 2"),
        (lambda: sim.vec3().__setitem__(slice(0, 2), (1, 2, 3)), ValueError, "takes"),
        (lambda: sim.vec3() + sim.vec3d(), TypeError, "types differ"),
        (lambda: sim.vec3() + sim.vec2(), TypeError, "types differ"),
        (lambda: sim.int8(1) + sim.int16(1), TypeError, "no implicit conversion"),
        (lambda: sim.int8(2) ** sim.int8(2), TypeError, "constant exponent"),
        (lambda: sim.vec3() + "a", TypeError, "unsupported operand"),
        (lambda: sim.vec3.from_ptr(0), RuntimeError, "NULL pointer"),
    ],
)
def test_what_is_wrong_says_so(act, error, message):
    with pytest.raises(error, match=message):
        act()


def test_memory():
    row = np.array([1, 2, 3], np.float32)
    assert sim.vec3.from_ptr(row.ctypes.data) == (1, 2, 3)


def test_questions():
    t = sim.types
    assert t.type_is_vector(sim.vec3) and not t.type_is_vector(sim.vec3()) and t.is_vector(sim.vec3())
    assert t.type_is_int(int) and t.type_is_float(sim.float16) and t.is_int(3) and t.is_float(sim.float16(1))
    assert t.type_is_matrix(sim.mat22) and t.is_quaternion(sim.quat()) and t.is_transformation(sim.transform())
    assert t.type_is_value(sim.quat) and t.is_value(1.0) and not t.is_value("a") and t.types_equal(float, sim.float32)
    for value, question in (
        (sim.vec3d(), t.type_is_vector),
        (sim.mat22(), t.type_is_matrix),
        (sim.quat_identity(), t.type_is_quaternion),
        (sim.transform_identity(sim.float16), t.type_is_transformation),
        (sim.zeros(1), t.type_is_array),
        (sim.indexedarray(sim.zeros(2), sim.zeros(1, dtype=int)), t.type_is_array),
    ):
        assert question(type(value)) and not question(value) and not question(np.ones(2)) and not question(np.ndarray)
        assert t.type_is_composite(type(value)) == t.type_is_value(type(value)) == (question is not t.type_is_array)
    assert t.type_is_array(sim.array2d) and t.type_is_array(sim.array[float]) and not t.type_is_array(sim.zeros)
    assert t.int_types == INTEGERS and t.float_types == FLOATS and sim.spatial_vector is t.vector(6, float)


def test_questions_about_sizes():
    types = sim.types
    assert [types.type_size(t) for t in (float, sim.int8, sim.vec3, sim.mat33d)] == [1, 1, 3, 9]
    assert [types.type_size_in_bytes(t) for t in (float, bool, sim.vec3, sim.mat33d)] == [4, 1, 12, 72]
    assert types.type_repr(types.vector(5, sim.float64)) == "vector(length=5, dtype=float64)"
    assert types.type_repr(sim.array2d[sim.vec3]) == "array(ndim=2, dtype=vec3f)"
    assert types.type_repr(sim.zeros((2, 3))) == "array(shape=(2, 3), dtype=float32)"
    assert types.is_array(sim.zeros(1))
    assert not types.is_array(sim.vec3())


def test_components_as_numbers_of_python(monkeypatch):
    v, n = sim.vec3h(1.0, 2.0, 3.0), sim.int8(5)
    assert [type(x) for x in (v[0], n + n)] == [sim.float16, sim.int8]
    monkeypatch.setattr(sim.config, "legacy_scalar_return_types", True)
    assert [type(x) for x in (v[0], n + n)] == [float, int]


# ---- types that are not supported
def test_a_file_may_name_a_type_that_is_not_supported():
    assert bytes(sim.vec2(1.0, 2.0)) == np.array([1.0, 2.0], np.float32).tobytes()
    assert sim.bool(1).value is True and sim.bool() == False and not sim.bool(0.0)  # noqa: E712
    assert sim.vec3._wp_generic_type_str_ == "vec_t" and sim.mat22d._wp_generic_type_str_ == "mat_t"
    assert sim.float32 is not sim.bfloat16 and sim.bfloat16.__name__ == "bfloat16"
    assert not hasattr(sim.bfloat16, "_wp_scalar_type_")
    for use in (lambda: sim.bfloat16(1.0), lambda: sim.zeros(3, dtype=sim.bfloat16)):
        with pytest.raises(sim.NotSupportedError, match="sim.bfloat16 is not supported: bfloat16; use"):
            use()


def test_annotations_of_what_is_not_supported_are_refused_at_a_launch():
    for named in (sim.array2d[sim.bfloat16], sim.array[types.vector(3, sim.bfloat16)], sim.tile[float, 3]):

        @sim.kernel
        def refused(x: named, y: sim.array[float]):
            y[0] = 1.0

        with pytest.raises(sim.NotSupportedError, match=r"sim\.(bfloat16|tile) is not supported: \w"):
            sim.launch(refused, 1, [sim.zeros(2), sim.zeros(1)])
    with pytest.raises(sim.NotSupportedError, match=r"sim.fabricarray is not supported: \w"):
        sim.fabricarray(dtype=float)


def test_subscripts_name_types():
    assert types.type_scalar_type(sim.vec3d) is sim.float64 and types.type_scalar_type(sim.int8) is sim.int8
    assert sim.transform_expand(range(7)) == sim.transform((0, 1, 2), (3, 4, 5, 6))
    assert types.Vector[float, Literal[3]] is types.Vector[sim.float32, 3] is sim.vec3
    assert types.Matrix[sim.float64, 2, Literal[4]] is types.matrix((2, 4), sim.float64)
    assert types.Quaternion[float] is sim.quatf and types.Transformation[sim.float64] is sim.transformd
    assert isinstance(types.Vector[Any, Any], types.TypePattern)
    for wrong, what in (
        (lambda: types.Vector[float], "requires 2 parameters, got 1"),
        (lambda: types.Matrix[float, -1, 3], "positive integer, not -1"),
        (lambda: types.Vector[float, Literal[2, 3]], "a single Literal value"),
        (lambda: sim.array2d[float, 2], "single type parameter"),
    ):
        with pytest.raises(TypeError, match=what):
            wrong()
    assert sim.array[float, Any].ndim is Any and sim.indexedarray[sim.vec3, Any].dtype is sim.vec3

    @sim.kernel
    def first(x: sim.array[float, Any], y: sim.array[float]):
        y[0] = x[0, 1]

    y = sim.zeros(1)
    sim.launch(first, 1, [sim.array([[1.0, 2.0]]), y])
    assert y.list() == [2.0]
    assert (sim.array[float] | None).__args__ == (sim.array[float], type(None))


def test_a_struct_with_a_field_that_is_not_supported_is_refused_where_it_is_used():
    @sim.struct
    class Inner:
        x: float
        sample: sim.bfloat16

    @sim.struct
    class Outer:
        inner: Inner

    value = Outer()
    with pytest.raises(
        sim.NotSupportedError, match="struct Outer is not supported: its field 'inner' is <struct Inner"
    ):
        value.inner()
    with pytest.raises(sim.NotSupportedError, match="struct Inner is not supported: its field 'sample' is <sim.bfl"):
        sim.zeros(3, dtype=Inner)


def test_a_handle_is_a_uint64():
    assert sim.handle is sim.uint64
