"""What arrays are made of: other arrays, converted or regrouped; addresses with a deleter; strides; values."""

import ctypes
import gc

import numpy as np
import pytest

import sim


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (np.arange(3), sim.vec3, (1,)),
        (np.arange(12), sim.vec3, (4,)),
        (np.arange(12).reshape(4, 3), sim.vec3, (4,)),
        (np.arange(24).reshape(4, 6), sim.vec3, (4, 2)),
        (np.arange(16).reshape(4, 4), sim.mat22, (4,)),
        (np.arange(4).reshape(2, 2), sim.mat22, (1,)),
        (np.arange(6).reshape(3, 2, 1), sim.vec2, (3,)),
    ],
)
def test_numbers_make_vectors(data, dtype, shape):
    data = data.astype(np.float32)
    sources = [data] if data.shape[-1] == 1 else [data, sim.array(data)]
    for source in sources:
        made = sim.array(source, dtype=dtype)
        assert made.shape == shape and made.dtype is dtype
        assert np.array_equal(made.numpy().ravel(), data.ravel())


def test_values_of_another_type_are_converted_as_data():
    a = sim.array([1.5, 2.5], requires_grad=True)
    assert sim.array(a, dtype=sim.float64).list() == [1.5, 2.5]
    with pytest.raises(ValueError, match="copy=True"):
        sim.array(a, dtype=sim.float64, copy=False)
    with sim.Tape(), pytest.raises(sim.GradientError, match="converts values"):
        sim.array(a, dtype=sim.float64)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        ([1, 2, 3], None, sim.vec3i),
        ([1.0, 2.0], None, sim.vec2),
        (np.eye(2), None, sim.mat22d),
        ([[1, 2], [3, 4]], float, sim.mat22),
        ([1, 0], sim.bool, sim.types.vector(2, sim.bool)),
        (3, float, sim.float32),
    ],
)
def test_the_value_says_what_full_makes(value, dtype, expected):
    made = sim.full((2, 3), value, dtype=dtype)
    assert made.dtype is expected
    assert np.array_equal(made.numpy(), np.broadcast_to(value, made.numpy().shape))


def test_bools_are_filled_by_truth():
    a = sim.zeros(2, dtype=sim.bool)
    a.fill_(42)
    assert a.list() == [True, True]


def test_memory_by_its_address_is_given_back():
    memory, freed = (ctypes.c_float * 6)(*range(6)), []
    address = ctypes.addressof(memory)
    made = sim.array(
        ptr=address, shape=(2, 2), strides=(12, 4), dtype=float, capacity=24, deleter=lambda *a: freed.append(a)
    )
    assert made.numpy().tolist() == [[0, 1], [3, 4]] and made.capacity == 24 and not made.is_contiguous
    row = made[1]
    del made
    gc.collect()
    assert freed == [] and row.list() == [3.0, 4.0]
    del row
    gc.collect()
    assert freed == [(address, 24)]


def test_new_memory_with_strides():
    made = sim.array(shape=(3, 2), strides=(4, 12), dtype=float)
    assert made.strides == (4, 12) and not made.is_contiguous and made.transpose().is_contiguous
    made.assign(np.arange(6).reshape(3, 2))
    assert made.transpose().flatten().list() == [0, 2, 4, 1, 3, 5]
    with pytest.raises(NotImplementedError, match="Negative strides"):
        sim.array(shape=3, strides=(-4,), dtype=float)


def test_pointers_and_types_of_numpy():
    a = sim.array([[1.0, 2.0], [3.0, 4.0]], dtype=sim.vec2)
    pointer = a.cptr()
    assert [pointer[k] for k in range(4)] == [1.0, 2.0, 3.0, 4.0]
    pointer[3] = 9.0
    assert a.numpy()[1, 1] == 9.0
    with pytest.raises(TypeError, match="must lie packed"):
        sim.zeros((2, 2))[:, 0].cptr()
    assert sim.dtype_from_numpy(np.float32) is sim.float32 and sim.dtype_to_numpy(int) is np.int32
    with pytest.raises(TypeError, match="is no scalar type"):
        sim.dtype_to_numpy(sim.vec3)


def test_str_shows_the_values_as_numpy_does():
    assert str(sim.array([[1, 2], [3, 4]])) == str(np.array([[1, 2], [3, 4]]))
    assert repr(sim.array([1, 2])) == "array([1, 2], shape=(2,), dtype=int32, device=cpu)"


def test_integers_on_both_sides_of_two_to_the_63() -> None:
    """NumPy makes float64 of such a list, which has no 2^63 + 1."""
    for data in ([0, 2**63 + 1], [[5, 2**64 - 1]], (2**63 + 1, 7)):
        assert sim.array(data, dtype=sim.uint64).numpy().tolist() == np.array(data, object).tolist()
    with pytest.raises(ValueError, match="-1.0 at index 0 does not fit uint64"):
        sim.array([-1, 2**63 + 1], dtype=sim.uint64)
    with pytest.raises(ValueError, match="0.5 at index 0 does not fit uint64"):
        sim.array([0.5, 2**63 + 1], dtype=sim.uint64)


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (lambda **k: sim.zeros((3, 2), float, **k), 0.0),
        (lambda **k: sim.ones((3, 2), float, **k), 1.0),
        (lambda **k: sim.full((3, 2), 2.5, float, **k), 2.5),
    ],
)
def test_new_arrays_that_are_not_packed(make, value):
    made = make(strides=(4, 24), requires_grad=True)
    assert made.strides == (4, 24) and not made.is_contiguous
    assert (made.numpy() == value).all()
    source = sim.array(np.arange(6.0).reshape(3, 2), dtype=float, requires_grad=True)
    with sim.Tape() as tape:
        sim.copy(made, source)
    tape.backward(grads={made: sim.array(10.0 * np.arange(6.0).reshape(3, 2), dtype=float)})
    assert (made.numpy() == source.numpy()).all()
    assert (source.grad.numpy() == 10.0 * source.numpy()).all()
