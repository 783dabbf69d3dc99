"""Arrays and others: NumPy and DLPack, pointers, lists, pickle, copies, and memory that is freed."""

import copy as copy_module
import gc
import pickle
import weakref

import numpy as np
import pytest

from sim.core.lang import types as t
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import (
    from_dlpack,
    from_numpy,
    to_dlpack,
    zeros,
)

vec2, vec3, vec3d, mat22, mat33, quat = (
    t.vector(2),
    t.vector(3),
    t.vector(3, t.float64),
    t.matrix((2, 2)),
    t.matrix((3, 3)),
    t.quaternion(),
)


# ---------------------------------------------------------------------------------------------------- NumPy, DLPack
def test_zero_copy_from_numpy():
    host = np.zeros((6, 3), np.float32)
    x = array(host, dtype=vec3, copy=False)
    host[1] = 5
    assert x.shape == (6,) and x.numpy()[1].tolist() == [5, 5, 5] and x.ptr == host.ctypes.data and x.buffer.foreign
    x.fill_(2)
    assert (host == 2).all()
    part = from_numpy(host[4:0:-2], dtype=vec3, copy=False)
    assert part.buffer is x.buffer and part.strides == (-24,) and np.array_equal(part.numpy(), host[4:0:-2])
    part.fill_(9)
    assert host[:, 0].tolist() == [2, 2, 9, 2, 9, 2]
    del host
    gc.collect()
    assert x.numpy()[2, 0] == 9
    fortran = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert np.array_equal(array(fortran, copy=False).numpy(), fortran)
    assert array(np.arange(6.0), dtype=vec3d, copy=False).shape == (2,)


def test_same_memory_gives_the_same_buffer():
    x = zeros(5, dtype=vec3)
    for back in (x.numpy(), x.numpy()[1:], np.asarray(x)[::2], np.from_dlpack(x)):
        again = array(back, dtype=vec3, copy=False)
        assert again.ptr == back.ctypes.data and again.buffer is x.buffer
    host = np.zeros(10)
    assert array(host[2:], copy=False).buffer is array(host[:3], copy=False).buffer is not array(host).buffer
    shared = array(host, copy=False)
    assert array(shared.numpy()[::-1], copy=False).buffer is shared.buffer


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        ([1.0], None, "list data"),
        (np.zeros(3), float, "float64 data are not elements of float32"),
        (np.zeros((4, 6))[:, ::2], vec3d, "not packed"),
        (np.broadcast_to(np.zeros(1), (3,)), None, "read-only"),
        (np.lib.stride_tricks.as_strided(np.zeros(4), (3,), (0,)), None, "one address"),
        (np.zeros(17, np.uint8)[1:].view(np.float64), None, "aligned"),
        (np.zeros(3, ">f8"), None, "not elements of float64"),
        ([vec3()], None, "list data"),
    ],
)
def test_unshareable(data, kind, message):
    with pytest.raises(ValueError, match=message):
        array(data, dtype=kind, copy=False)
    assert array(data, dtype=kind).size > 0


def test_numpy_protocols():
    x = array(np.arange(6.0).reshape(2, 3), dtype=vec3d)
    assert np.shares_memory(np.asarray(x), x.numpy()) and not np.shares_memory(np.array(x), x.numpy())
    assert np.asarray(x, dtype=np.float32).dtype == np.float32
    assert np.shares_memory(x.__array__(copy=False), x.numpy())
    assert not np.shares_memory(x.__array__(copy=True), x.numpy())
    with pytest.raises(ValueError, match="needs a copy"):
        x.__array__(np.float32, copy=False)
    assert x.__array_interface__["data"][0] == x.ptr and np.linalg.norm(x) == np.sqrt(55)
    strided = array(np.asarray(x)[::-1], dtype=vec3d, copy=False)
    assert np.array_equal(np.asarray(strided), x.numpy()[::-1])
    assert [row.tolist() for row in x] == x.numpy().tolist()


def test_dlpack():
    x = array(np.arange(6, dtype=np.float32).reshape(2, 3), dtype=vec3)
    assert x.__dlpack_device__() == (1, 0)
    host = np.from_dlpack(x[1:])
    assert host.shape == (1, 3) and np.shares_memory(host, x.numpy())
    y = from_dlpack(np.zeros((4, 3), np.float32), dtype=vec3)
    assert y.shape == (4,) and from_dlpack(x).shape == (2, 3)
    from_dlpack(x, dtype=vec3).fill_(1)
    assert (x.numpy() == 1).all()


def test_a_dlpack_capsule_is_taken_once():
    x = array(np.arange(12, dtype=np.float32).reshape(4, 3), dtype=vec3)[::2]
    y = from_dlpack(to_dlpack(x), dtype=vec3)
    assert y.ptr == x.ptr and y.buffer is x.buffer and y.strides == x.strides
    bits = array([True, False], dtype=t.bool_)
    assert from_dlpack(to_dlpack(bits), dtype=t.uint8).list() == [1, 0]
    capsule = np.arange(3.0).__dlpack__()
    z = from_dlpack(capsule)  # memory of NumPy, which the capsule keeps
    assert z.list() == [0, 1, 2]
    with pytest.raises(TypeError, match="valid DLPack capsule: this one was taken before"):
        from_dlpack(capsule)
    with pytest.raises(TypeError, match="must be None or -1"):
        x.__dlpack__(stream=1)
    assert np.from_dlpack(x, device=None).shape == (2, 3) and x.__dlpack__(stream=-1) is not None


def test_dlpack_of_another_device():
    class Elsewhere:
        def __dlpack_device__(self):
            return 123, 7

    with pytest.raises(TypeError, match="Unsupported source device for DLPack: device_type=123"):
        from_dlpack(Elsewhere())


def test_raw_pointer():
    host = np.arange(12, dtype=np.float64)
    x = array(ptr=host.ctypes.data + 88, dtype=t.float64, shape=(4,), strides=(-24,))
    assert x.numpy().tolist() == [11, 8, 5, 2] and x.buffer.nbytes == 80 and x.buffer.foreign
    x.fill_(0)
    assert host.sum() == 66 - 26


def test_list_item_bool():
    assert array([[1, 2], [3, 4]]).list() == [1, 2, 3, 4]
    assert array([vec2(1, 2)]).list() == [vec2(1, 2)]
    assert array([1.5]).item() == 1.5 and float(array([1.5])) == 1.5 and int(array([3])) == 3
    assert array([vec2(3, 4)]).item() == vec2(3, 4)


def test_the_truth_of_an_array_is_whether_it_has_elements():
    """As in Warp's programs, `if model.body_q:`; where the value of a single element says otherwise, it is an error."""
    assert array([1]) and zeros((2, 3)) and not zeros(0) and not array([], dtype=vec2)
    with pytest.raises(ValueError, match=r"truth of array\(shape=\(1,\).* test `x is not None`, len\(x\)"):
        bool(array([0.0]))


def test_an_empty_list_has_the_dimensions_that_are_asked_for():
    assert array([], dtype=int, ndim=2).shape == (0, 0) and array(np.array([]), dtype=vec2, ndim=3).ndim == 3
    with pytest.raises(ValueError, match="has 1 dimensions, not 2"):
        array([1, 2], dtype=int, ndim=2)


def test_hash_and_equality_are_identity():
    x, y = zeros(2), zeros(2)
    assert x != y and x == x and len({x, y}) == 2


def test_repr():
    text = repr(zeros((2, 3), dtype=vec3, requires_grad=True))
    assert "shape=(2, 3), dtype=vec3<float32>, device=cpu, requires_grad=True" in text
    assert len(repr(zeros((1000, 1000)))) < 1000 and "..." in repr(zeros(1000))


def test_pickle_and_deepcopy():
    x = array(np.arange(6.0).reshape(2, 3), dtype=vec3d, requires_grad=True)[::-1]
    for y in (pickle.loads(pickle.dumps(x)), copy_module.deepcopy(x), copy_module.copy(x)):
        assert y.dtype is vec3d and np.array_equal(y.numpy(), x.numpy()) and y.requires_grad
        assert y.buffer is not x.buffer and y.is_contiguous
    one, two = copy_module.deepcopy([x, x])
    assert one is two


def test_memory_is_freed():
    x = zeros(10, requires_grad=True)
    host, gradient = x.numpy(), x.grad
    gone = weakref.ref(x.buffer)
    del x
    assert gone() is None and host.sum() == 0 and gradient.numpy().sum() == 0
