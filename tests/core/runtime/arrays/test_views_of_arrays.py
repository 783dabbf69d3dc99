"""Views of arrays are as NumPy has them: slices, orders of dimensions, other types."""

import numpy as np
import pytest

from sim.core.lang import types as t
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import (
    zeros,
)
from sim.core.runtime.memory.spans import extent_of

vec2, vec3, vec3d, mat22, mat33, quat = (
    t.vector(2),
    t.vector(3),
    t.vector(3, t.float64),
    t.matrix((2, 2)),
    t.matrix((3, 3)),
    t.quaternion(),
)

# ---------------------------------------------------------------------------------------------------- views
KEYS = [
    slice(1, 4),
    slice(None, None, -1),
    slice(4, 0, -2),
    slice(3, 3),
    slice(10, 20),
    2,
    -1,
    (1, slice(None)),
    (slice(None), 2),
    (slice(None, None, 2), slice(None, None, -3)),
    (Ellipsis, slice(1, 2)),
    (Ellipsis, 0),
    (slice(1, 3), Ellipsis),
    (slice(0, 0), slice(None, None, -1)),
]


@pytest.mark.parametrize("kind", [t.float32, vec3, mat22], ids=str)
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_slices_are_views_as_in_numpy(key, kind):
    host = np.arange(35 * t.size_of(kind) // 4, dtype=np.float32).reshape(5, 7, *getattr(kind, "shape", ()))
    x = array(host, dtype=kind)
    keys = key if isinstance(key, tuple) else (key,)
    inner = (slice(None),) * (host.ndim - 2)
    expected = host[(*keys, *inner)] if Ellipsis in keys else host[key]
    view = x[key]
    assert view.buffer is x.buffer and np.array_equal(view.numpy(), expected)
    assert view.ptr == (view.buffer.address + view.offset if view.size else None)
    low, high = np.lib.array_utils.byte_bounds(view.numpy()) if view.size else (x.ptr + view.offset,) * 2
    assert extent_of(view) == (low - x.ptr, high - x.ptr)
    assert view.is_contiguous == expected.flags.c_contiguous
    view.fill_(-1)
    host[(*keys, *inner)] = -1
    assert np.array_equal(x.numpy(), host)


def test_views_of_views_and_transpose():
    host = np.arange(24).reshape(2, 3, 4)
    x = array(host)
    assert np.array_equal(x[:, ::-1][1][::2, 1:].numpy(), host[:, ::-1][1][::2, 1:])
    assert np.array_equal(x.transpose().numpy(), host.T) and not x.transpose().is_contiguous
    assert np.array_equal(x.transpose((1, 0, 2)).numpy(), host.transpose(1, 0, 2))
    assert np.array_equal(x.transpose().contiguous().numpy(), host.T) and x.contiguous() is x
    assert np.array_equal(x.reshape((4, -1)).numpy(), host.reshape(4, 6)) and x.flatten().shape == (24,)
    assert x.reshape(24).shape == (24,) and x.reshape((6, 4)).buffer is x.buffer


def test_view_as_another_type():
    x = array(np.arange(12, dtype=np.float32).reshape(4, 3), dtype=vec3)
    flat = x.view(float)
    assert flat.shape == (4, 3) and flat.strides == (12, 4) and flat.buffer is x.buffer
    assert flat.view(vec3).shape == (4,) and np.array_equal(flat.view(vec3).numpy(), x.numpy())
    assert np.array_equal(x[::2].view(float)[:, 1].numpy(), [1, 7])
    assert array([1.0]).view(t.uint32).numpy()[0] == 0x3F800000
    bits = x.view(t.uint32)
    assert bits.shape == (4, 3) and np.array_equal(bits.numpy(), x.numpy().view(np.uint32))
    assert np.array_equal(bits.view(vec3).numpy(), x.numpy())
    with pytest.raises(TypeError, match="cannot be viewed as int32; view sim.clone"):
        zeros(2, dtype=vec3, requires_grad=True).view(int)
    with pytest.raises(ValueError, match=r"dtype vec2f from source dtype float32: the last axes of shape \(3,\)"):
        array([1.0, 2.0, 3.0]).view(vec2)
    with pytest.raises(TypeError, match="source dtype has size 4 bytes, but target dtype has size 8 bytes"):
        array([1.0, 2.0, 3.0]).view(t.float64)
    with pytest.raises(ValueError, match="are not the packed components of one"):
        zeros((2, 6))[:, ::2].view(vec3)
    with pytest.raises(TypeError, match="gradient"):
        zeros(2, requires_grad=True).view(int)
