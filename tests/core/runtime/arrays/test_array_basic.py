"""Arrays on the host: annotations, types of data, writing, structs, gradients, misuse."""

import time
from typing import Any

import numpy as np
import pytest

import sim
from sim.core.lang import types as t
from sim.core.runtime.arrays.array import array, clone
from sim.core.runtime.arrays.creation import (
    copy,
    empty,
    empty_like,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from sim.core.runtime.arrays.dimensions import array1d, array2d, array3d, array4d
from sim.core.runtime.memory.host_memory import ALIGNMENT

vec2, vec3, vec3d, mat22, mat33, quat = (
    t.vector(2),
    t.vector(3),
    t.vector(3, t.float64),
    t.matrix((2, 2)),
    t.matrix((3, 3)),
    t.quaternion(),
)


@t.struct
class Inner:
    a: vec2
    n: t.int8


@t.struct
class Particle:
    x: vec3
    mass: t.float64
    tag: t.uint8
    inner: Inner


@t.struct
class WithArray:
    mass: float
    values: array(dtype=float)


# ---------------------------------------------------------------------------------------------------- annotations
def test_annotations():
    assert array(dtype=vec3) is array[vec3] is array1d[vec3] is array(dtype=vec3, ndim=1) is t.array_type(vec3)
    assert array2d[float] is array2d(dtype=float) is array(dtype=t.float32, ndim=2) is t.array_type(float, 2)
    assert array3d[int] is t.array_type(int, 3) and array4d(dtype=t.bool_) is t.array_type(bool, 4)
    assert array() is t.array_type(None) and array(ndim=3) is t.array_type(None, 3)
    assert array[Any].dtype is Any and array2d[Any].dtype is Any
    with pytest.raises(ValueError, match="1 to 4"):
        array(dtype=float, ndim=5)


def test_elements_that_are_no_type_are_refused_where_they_are_used():
    class Widget: ...

    assert array[Widget].dtype is Widget and repr(array2d[Widget]) == "array[Widget]"

    @sim.kernel
    def k(x: array[Widget]):
        x[0] = 1.0

    with pytest.raises(sim.KernelError, match="the annotation of `x` in `k`.*is not a type of the kernel language"):
        sim.launch(k, 1, [sim.zeros(1)])
    with pytest.raises(TypeError, match="is not a type of the kernel language"):
        sim.zeros(2, dtype=sim.zeros(1))


def test_dimension_classes_check():
    assert array2d([[1.0, 2.0]]).shape == (1, 2)
    with pytest.raises(ValueError, match="1 dimensions, not 2"):
        array2d([1.0, 2.0])


# ---------------------------------------------------------------------------------------------------- types of data
@pytest.mark.parametrize(
    ("data", "kind", "shape"),
    [
        ([1.0, 2.0], t.float32, (2,)),
        ([1, 2.5], t.float32, (2,)),
        ([1, 2, 3], t.int32, (3,)),
        ([True, False], t.bool_, (2,)),
        ([[1, 2], [3, 4]], t.int32, (2, 2)),
        (5.0, t.float32, (1,)),
        (np.float64(5.0), t.float64, (1,)),
        ([], t.float32, (0,)),
        (np.arange(3.0), t.float64, (3,)),
        ([np.float64(1.0)], t.float64, (1,)),
        (np.arange(3, dtype=np.uint16), t.uint16, (3,)),
        (np.arange(3, dtype=">i4"), t.int32, (3,)),
        (np.zeros((2, 3), np.float32), t.float32, (2, 3)),
        ([vec3(1, 2, 3), vec3()], vec3, (2,)),
        (vec3(1, 2, 3), vec3, (1,)),
        ([[vec2(1, 2), vec2(3, 4)]], vec2, (1, 2)),
        (range(4), t.int32, (4,)),
    ],
)
def test_inferred_types(data, kind, shape):
    made = array(data)
    assert made.dtype is kind and made.shape == shape and made.ndim == len(shape)
    expected = np.asarray(data).reshape(made.numpy().shape)
    assert np.array_equal(made.numpy(), expected)


@pytest.mark.parametrize(
    ("data", "kind", "shape"),
    [
        (np.arange(6), vec3, (2,)),
        ([1, 2, 3], vec3, (1,)),
        (np.arange(6).reshape(2, 3), vec3, (2,)),
        (np.arange(18).reshape(2, 9), mat33, (2,)),
        (np.arange(18).reshape(2, 3, 3), mat33, (2,)),
        (np.arange(4).reshape(2, 2), mat22, (1,)),
        (np.arange(24).reshape(2, 3, 4), quat, (2, 3)),
        ([], vec3, (0,)),
        (np.arange(3), float, (3,)),
        ([0, 1], bool, (2,)),
        ([1.0, 2.0], int, (2,)),
    ],
)
def test_given_types(data, kind, shape):
    made = array(data, dtype=kind)
    assert made.shape == shape and made.dtype is t.as_type(kind)
    assert made.numpy().dtype == t.scalar_of(made.dtype).np
    assert np.array_equal(made.numpy().ravel(), np.ravel(data))


@pytest.mark.parametrize(
    ("data", "kind", "error", "message"),
    [
        (np.zeros((5, 4)), vec3, ValueError, r"shape \(5, 4\) does not fit vec3<float32>.*\(\.\.\., 3\)"),
        (np.zeros(4), vec3, ValueError, "does not fit vec3"),
        ([1.5, 2.0], int, ValueError, r"1\.5 at index 0 does not fit int32"),
        ([1, 300], t.uint8, ValueError, "300 at index 1 does not fit uint8"),
        ([[1, -2]], t.uint32, ValueError, r"-2 at index \(0, 1\)"),
        ([float("nan")], int, ValueError, "nan at index 0"),
        ([2], bool, ValueError, "2 at index 0 does not fit bool"),
        ([2**40], None, ValueError, "does not fit int32"),
        ([[1], [1, 2]], None, ValueError, "rectangular"),
        (["a"], None, TypeError, "cannot make an array of a list"),
        (["a"], float, TypeError, "give numbers"),
        (None.__class__, float, TypeError, "give numbers"),
        (np.zeros(2, complex), float, TypeError, "complex128"),
        (np.zeros(2, np.longdouble), None, TypeError, "has no counterpart"),
        (np.zeros((1,) * 5), None, ValueError, "1 to 4 dimensions, not 5"),
        ([1.0], WithArray, TypeError, "expected a WithArray, got a float"),
        ([1.0], t.array_type(float), TypeError, "cannot be an array element"),
        ([1.0], "flaot", TypeError, "is not a type"),
    ],
)
def test_bad_data(data, kind, error, message):
    with pytest.raises(error, match=message):
        array(data, dtype=kind)


@pytest.mark.parametrize("shape", [3, (3,), [3], np.int64(3), np.array([3])])
def test_shapes(shape):
    assert zeros(shape).shape == (3,) and type(zeros(shape).shape[0]) is int


@pytest.mark.parametrize(
    ("shape", "error", "message"),
    [
        ((), ValueError, "1 to 4"),
        ((1,) * 5, ValueError, "1 to 4"),
        (-1, ValueError, "must be non-negative"),
        (2**31, ValueError, "must not exceed .* 2147483647"),
        (2.5, TypeError, "shape is an integer"),
        ("ab", TypeError, "shape is an integer"),
    ],
)
def test_bad_shapes(shape, error, message):
    with pytest.raises(error, match=message):
        zeros(shape)


def test_creation_functions():
    assert (zeros((2, 3), dtype=vec3).numpy() == 0).all() and zeros(2).dtype is t.float32
    assert (ones(2, dtype=vec3).numpy() == 1).all()
    assert full(2, 3.5).dtype is t.float32 and full(2, 3).dtype is t.int32 and full(2, True).dtype is t.bool_
    assert full(2, vec3d(1, 2, 3)).dtype is vec3d and (full(2, vec3d(1, 2, 3)).numpy() == [1, 2, 3]).all()
    assert full((2, 2), 7, dtype=float).numpy().tolist() == [[7, 7], [7, 7]]
    assert empty((4, 1), dtype=mat33).numpy().shape == (4, 1, 3, 3)
    assert array(shape=(2, 2), dtype=int).numpy().tolist() == [[0, 0], [0, 0]]
    x = ones((2, 3), dtype=vec3, requires_grad=True)
    for make, value in ((zeros_like, 0), (ones_like, 1), (lambda a, **k: full_like(a, 5, **k), 5)):
        made = make(x)
        assert made.shape == x.shape and made.dtype is vec3 and made.requires_grad and (made.numpy() == value).all()
        assert not make(x, requires_grad=False).requires_grad
    assert empty_like(x).shape == x.shape
    assert array(np.arange(6.0), shape=(2, 3)).shape == (2, 3)


def test_memory_layout():
    x = zeros((4, 5), dtype=vec3)
    assert x.ptr % ALIGNMENT == 0 and x.strides == (60, 12) and x.nbytes == 240 == x.buffer.nbytes
    assert x.size == 20 and len(x) == 4 and x.is_contiguous and x.offset == 0 and x.ptr == x.buffer.address
    assert x.numpy().ctypes.data == x.ptr and x.device.name == "cpu"
    assert zeros(0).numpy().shape == (0,) and zeros((0, 3), dtype=vec3)[:, 1:].numpy().shape == (0, 2, 3)


def test_making_a_view_is_cheap():
    x, best = zeros(100, dtype=vec3), 1.0
    for _ in range(5):
        begin = time.process_time()
        for _ in range(2000):
            x[10:20]
        best = min(best, (time.process_time() - begin) / 2000)
    assert best < 50e-6  # about 3 on an idle machine


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda x: x[1, 2], IndexError, r"x\.numpy\(\)\[1, 2\]"),
        (lambda x: x[0][2], IndexError, r"x\.numpy\(\)\[2\]"),
        (lambda x: x[2], RuntimeError, "index 2 is out"),  # Warp's kind of error
        (lambda x: x[2], IndexError, "index 2 is out of range for dimension 0 of length 2"),
        (lambda x: x[0, 0, 0], IndexError, "3 indices"),
        (lambda x: x[[0, 1]], TypeError, "not list"),
        (lambda x: x[True], TypeError, "not bool"),
        (lambda x: x[None], TypeError, "NoneType"),
        (lambda x: x.reshape(5), ValueError, r"shape \(2, 3\) \(size 6\) into shape \(5,\) \(size 5\)"),
        (lambda x: x[:, :2].reshape(4), ValueError, "contiguous"),
        (lambda x: x.transpose((0, 0)), ValueError, "not an order"),
        (lambda x: x.item(), ValueError, "one element"),
        (lambda x: x + np.ones((2, 3)), TypeError, "operand|NumPy arrays"),
        (lambda x: np.ones((2, 3)) + x, TypeError, "operand|NumPy arrays"),
        (lambda x: x.assign(np.zeros((3, 2))), ValueError, r"shape \(3, 2\) to array\(shape=\(2, 3\)"),
        (lambda x: x.assign(1.0), ValueError, "fill_"),
        (lambda x: x.assign(zeros((3, 2))), ValueError, "cannot copy shape"),
        (lambda x: x.assign(zeros((2, 3), dtype=int)), TypeError, "int32 elements into an array of float32"),
        (lambda x: x.fill_([1, 2]), ValueError, "has 1 components"),
        (lambda x: copy(x, np.zeros(3)), TypeError, "src of copy"),
        (lambda x: copy(x, x, dest_offset=4, count=3), ValueError, "dest_offset=4"),
        (lambda x: copy(x, x, src_offset=7), ValueError, "src"),
        (lambda x: copy(x, zeros(5)), ValueError, "cannot copy shape"),
        (lambda x: array(x, ptr=3), TypeError, "not both"),
        (lambda x: array(ptr=3), TypeError, "dtype and shape"),
    ],
)
def test_misuse(act, error, message):
    with pytest.raises(error, match=message):
        act(array(np.zeros((2, 3), np.float32)))


# ---------------------------------------------------------------------------------------------------- writing
def test_copy_with_offsets():
    x, y = array([1.0, 2.0, 3.0, 4.0]), zeros(6)
    copy(y, x)
    assert y.list() == [1, 2, 3, 4, 0, 0]
    copy(y, x, dest_offset=4, src_offset=1, count=2)
    assert y.list() == [1, 2, 3, 4, 2, 3]
    copy(y, x, src_offset=3)
    assert y.list() == [4, 2, 3, 4, 2, 3]
    with pytest.raises(ValueError, match="6 elements from dest_offset=0 on exceeds the destination size, 4"):
        copy(x, y)
    copy(y[::-2], y[:3])  # overlapping, one of them reversed
    assert y.list() == [4, 3, 3, 2, 2, 4]
    m, n = zeros((2, 3)), array([[1.0, 2, 3], [4, 5, 6]])
    copy(m, n, dest_offset=1, src_offset=2, count=3)
    assert m.numpy().tolist() == [[0, 3, 4], [5, 0, 0]]
    copy(m[:, 1:], n[:, :2])
    assert m.numpy().tolist() == [[0, 1, 2], [5, 4, 5]]


def test_assign_and_fill():
    x = zeros(3, dtype=vec3)
    x.fill_(2)
    assert (x.numpy() == 2).all()
    x.fill_(vec3(1, 2, 3))
    x[1] = [4, 5, 6]
    x[2:] = vec3(7, 8, 9)
    assert x.numpy().tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    x.assign(x.numpy()[::-1])
    assert x.numpy()[0].tolist() == [7, 8, 9]
    x.assign([vec3(1, 1, 1)] * 3)
    x[:2] = np.zeros((2, 3))
    assert x.numpy().tolist() == [[0, 0, 0], [0, 0, 0], [1, 1, 1]]
    x[1:3] = x[0:2]
    assert (x.numpy() == 0).all()
    i = zeros(4, dtype=int)
    i[-1], i[1:3] = 3, [1, 2]
    assert i.list() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="does not fit int32"):
        i.fill_(0.5)
    with pytest.raises(ValueError, match="cannot assign"):
        i[0:2] = [1, 2, 3]
    m = zeros((2, 2))
    m[0, 1], m[1] = 5.0, [6.0, 7.0]
    assert m.numpy().tolist() == [[0, 5], [6, 7]]
    f = zeros(2, dtype=mat22)
    f.fill_([[1, 2], [3, 4]])
    f[1] = 0.0
    assert f.numpy().tolist() == [[[1, 2], [3, 4]], [[0, 0], [0, 0]]]


# ---------------------------------------------------------------------------------------------------- structs
def test_arrays_of_structs():
    p = Particle(x=vec3(1, 2, 3), mass=0.1, tag=7, inner=Inner(a=vec2(4, 5), n=-3))
    ps = array([p, Particle()])
    assert ps.dtype is Particle and ps.shape == (2,) and ps.strides == (Particle.size,)
    host = ps.numpy()
    assert host["x"].tolist() == [[1, 2, 3], [0, 0, 0]] and host["mass"][0] == 0.1 and host["inner"]["n"][0] == -3
    host["mass"][1] = 2.5
    back = ps.list()
    assert back[1].mass == 2.5 and back[0].x == vec3(1, 2, 3) and back[0].inner.a == vec2(4, 5) and back[0].tag == 7
    ps.fill_(p)
    assert (ps.numpy()["tag"] == 7).all()
    ps.zero_()
    assert (ps.numpy()["mass"] == 0).all()
    ps[0] = p
    assert ps.numpy()["inner"]["a"][0].tolist() == [4, 5]
    shuffled = np.zeros(2, [("mass", "f4"), ("x", "f8", 3), ("inner", [("n", "i4"), ("a", "f4", 2)]), ("tag", "i8")])
    shuffled["mass"], shuffled["inner"]["n"], shuffled["x"] = 3, 5, [1, 2, 3]
    by_name = array(shuffled, dtype=Particle)
    assert by_name.numpy()["mass"].tolist() == [3, 3] and by_name.numpy()["inner"]["n"].tolist() == [5, 5]
    with pytest.raises(TypeError, match="has fields x, mass, tag, inner, the data has"):
        array(np.zeros(2), dtype=Particle)
    with pytest.raises(TypeError, match="dtype="):
        array(shuffled)
    with pytest.raises(TypeError, match="expected a Particle"):
        array([Inner()], dtype=Particle)
    assert zeros(3, dtype=Particle, requires_grad=True).grad.numpy()["mass"].tolist() == [0, 0, 0]
    assert array(ps.numpy(), dtype=Particle, copy=False).buffer is ps.buffer


# ---------------------------------------------------------------------------------------------------- gradients
def test_gradient_belongs_to_the_buffer():
    x = zeros((4, 3), requires_grad=True)
    row, reverse = x[1], x[::-1]
    assert x.buffer.gradient is None and row.requires_grad
    row.grad.fill_(2)
    assert x.grad.numpy().sum() == 6 and reverse.grad.numpy()[2].tolist() == [2, 2, 2]
    assert x.grad is x.grad and x.grad.buffer is row.grad.buffer is x.buffer.gradient
    assert x.flatten().grad.shape == (12,) and not x.grad.requires_grad and row.grad.strides == row.strides
    y = clone(x)
    assert y.requires_grad and y.grad.buffer is not x.grad.buffer and y.grad.numpy().sum() == 0
    assert not clone(x, requires_grad=False).requires_grad
    x.requires_grad = False
    assert x.grad is None and row.grad is None
    x.requires_grad = True
    assert x.grad.numpy().sum() == 0


def test_setting_a_gradient():
    x, g = zeros(3, dtype=vec3), ones(5, dtype=vec3)[1:4]
    x.grad = g
    assert x.requires_grad and x.grad.buffer is g.buffer and x.grad.ptr == g.ptr and x[1:].grad.ptr == g.ptr + 12
    x.grad = None
    assert x.requires_grad and x.grad.numpy().sum() == 0 and g.numpy().sum() == 9
    assert array([1.0], grad=array([3.0])).grad.list() == [3.0]
    for value, error, message in (
        (np.zeros((3, 3)), TypeError, "assign"),
        (zeros(4, dtype=vec3), ValueError, "shape and dtype"),
        (zeros(3), ValueError, "shape and dtype"),
        (zeros((3, 2), dtype=vec3)[:, 0], ValueError, "no gradient of its own"),
        (x, ValueError, "hold its own"),
    ):
        with pytest.raises(error, match=message):
            x.grad = value
    with pytest.raises(ValueError, match="no gradient of its own"):
        x[:2].grad = zeros(2, dtype=vec3)


@pytest.mark.parametrize("kind", [t.int32, t.bool_, t.vector(3, t.int32)], ids=str)
def test_integers_have_no_gradient(kind):
    x = zeros(2, dtype=kind)
    assert not x.requires_grad and x.grad is None
    with pytest.raises(TypeError, match="cannot require a gradient"):
        x.requires_grad = True
    asked = zeros(2, dtype=kind, requires_grad=True)  # generic programs ask it of all their arrays, as in Warp
    assert not asked.requires_grad and asked.grad.dtype is kind and not asked.grad.numpy().any()


def test_array_of_an_array():
    x = array([1.0, 2.0], requires_grad=True)
    y, z, w = array(x), array(x, copy=False), array(x, requires_grad=False)
    assert y.requires_grad and y.buffer is not x.buffer and z.buffer is x.buffer and not w.requires_grad
    assert array(zeros((2, 3)), dtype=vec3).shape == (2,)
