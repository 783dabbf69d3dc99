"""Arrays of JAX, there and back.  Skipped where it is not installed."""

import numpy as np
import pytest

import sim

jax = pytest.importorskip("jax", reason="JAX is not installed")


@pytest.fixture
def wide():
    """64-bit numbers in JAX."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@sim.kernel
def square(x: sim.array[float], y: sim.array[float]):
    i = sim.tid()
    y[i] = x[i] * x[i]


def test_arrays_are_copied_in_and_out():
    given = jax.numpy.arange(6.0).reshape(2, 3)
    x = sim.from_jax(given, dtype=sim.vec3)
    assert x.shape == (2,) and x.dtype is sim.vec3 and x.device.is_cpu
    back = sim.to_jax(x)
    assert isinstance(back, jax.Array) and back.shape == (2, 3)
    x.fill_(9.0)
    np.testing.assert_array_equal(given, np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(back, given)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float32", "int64", "float64"])
def test_numbers_keep_their_bits(wide, dtype):
    values = np.array([0, 1, 100, 17], dtype)
    there = sim.from_jax(jax.numpy.asarray(values))
    np.testing.assert_array_equal(there.numpy(), values)
    back = sim.to_jax(there)
    assert back.dtype == values.dtype
    np.testing.assert_array_equal(back, values)


def test_scalars_views_and_empty_arrays():
    assert sim.from_jax(jax.numpy.float32(3.0)).list() == [3.0]
    assert sim.from_jax(jax.numpy.zeros((0, 3)), dtype=sim.vec3).shape == (0,)
    x = sim.array(np.arange(12, dtype=np.float32).reshape(3, 4))
    np.testing.assert_array_equal(sim.to_jax(x[:, 1:4:2]), x.numpy()[:, 1:4:2])
    np.testing.assert_array_equal(
        sim.from_jax(jax.numpy.arange(12.0).reshape(3, 4).T).numpy(), np.arange(12.0).reshape(3, 4).T
    )


def test_a_kernel_on_values_of_jax_has_gradients():
    values = jax.numpy.array([1.0, 2.0, 3.0])
    x = sim.from_jax(values)
    x.requires_grad = True
    y = sim.zeros(3, dtype=float, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(square, 3, inputs=[x], outputs=[y])
    tape.backward(grads={y: sim.from_jax(jax.numpy.ones(3))})
    np.testing.assert_array_equal(sim.to_jax(x.grad), jax.grad(lambda v: (v * v).sum())(values))


def test_dlpack_without_a_copy():
    x = sim.array([1.0, 2.0], dtype=sim.float32)
    np.testing.assert_array_equal(jax.numpy.from_dlpack(x), [1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        sim.from_dlpack(jax.numpy.ones(2))  # a JAX array must not change


def test_what_cannot_cross_over_says_so():
    with pytest.raises(sim.GradientError, match="no gradient could come back"):
        jax.grad(lambda v: sim.to_jax(sim.from_jax(v)).sum())(jax.numpy.ones(3))
    with pytest.raises(sim.GradientError, match="outside of jax.grad"):
        jax.jit(sim.from_jax)(jax.numpy.ones(3))
    with pytest.raises(TypeError, match="from_jax takes a JAX array, not a ndarray"):
        sim.from_jax(np.ones(3))
    with pytest.raises(TypeError, match="to_jax takes an array, not a ndarray"):
        sim.to_jax(np.ones(3))
    with pytest.raises(TypeError, match="JAX would shorten float64 numbers"):
        sim.to_jax(sim.zeros(2, dtype=sim.float64))
    with pytest.raises(TypeError, match="no counterpart"):
        sim.from_jax(jax.numpy.ones(3, dtype=jax.numpy.float16))
