"""map: functions applied to the elements of arrays, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sim
from sim.core.lang.errors import KernelError

X = np.linspace(-2.0, 3.0, 11, dtype=np.float32)


@sim.struct
class Pair:
    a: float
    b: float


@sim.func
def swapped(p: Pair, scale: float):
    q = Pair()
    q.a = p.b * scale
    q.b = p.a * scale
    return q


@sim.func
def parts(x: float):
    return x + 2.0, sim.vec3(x), x > 0.0


def test_functions_of_every_kind() -> None:
    x, y = sim.array(X), sim.array(2.0 * X)
    np.testing.assert_array_equal(sim.map(sim.add, x, y).numpy(), 3.0 * X)
    np.testing.assert_array_equal(sim.map(sim.clamp, x, -0.5, 0.5).numpy(), np.clip(X, -0.5, 0.5))
    np.testing.assert_array_equal(sim.map(lambda a: a + 2.0, x).numpy(), X + 2.0)
    np.testing.assert_array_equal(sim.map(sim.where, sim.array(X > 0.0), x, 7.0).numpy(), np.where(X > 0, X, 7.0))
    out = sim.map(parts, x)
    assert [o.dtype for o in out] == [sim.float32, sim.vec3, sim.bool]
    np.testing.assert_array_equal(out[0].numpy(), X + 2.0)
    assert (out[1].numpy() == X[:, None]).all() and (out[2].numpy() == (X > 0)).all()


def test_lambdas_are_found_where_they_stand() -> None:
    x = sim.array(X)
    two = [sim.map(lambda a: a * 2.0, x), sim.map(lambda a: a * 3.0, x)]  # of one line
    np.testing.assert_array_equal(two[0].numpy(), X * np.float32(2.0))
    np.testing.assert_array_equal(two[1].numpy(), X * np.float32(3.0))
    # fmt: off
    wide = sim.map(lambda a: (
        a + 1.0 \
            + (2.0  # with a remark
            + sim.abs(a))
    ), x)
    # fmt: on
    np.testing.assert_allclose(wide.numpy(), X + 3.0 + np.abs(X), rtol=1e-6)


def test_what_a_lambda_reads_is_read_at_each_call() -> None:
    x, found = sim.array(X), []
    for shift in (1.0, 2.0, 1.0):
        found.append(sim.map(lambda a: a + shift, x).numpy()[0])  # noqa: B023 that is the question
    assert found == [-1.0, 0.0, -1.0]


@pytest.mark.parametrize("shapes", [((1, 3, 1, 4), (5, 4)), ((3, 1), (3,)), ((4,), (1,)), ((1,), (1, 1))])
def test_shapes_are_broadcast_as_in_numpy(shapes: Any) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.normal(size=s).astype(np.float32) for s in shapes)
    for p, q in ((a, b), (b, a)):
        np.testing.assert_array_equal(sim.map(sim.mul, sim.array(p, dtype=float), sim.array(q, dtype=float)), p * q)


def test_structs_and_given_outputs() -> None:
    one, two = Pair(), Pair()
    one.a, one.b, two.a, two.b = 1.0, 2.0, 3.0, 4.0
    pairs = sim.array([one, two], dtype=Pair)
    out = sim.map(swapped, pairs, 10.0)
    assert out.numpy().tolist() == [(20.0, 10.0), (40.0, 30.0)]
    x = sim.array(X)
    assert sim.map(sim.clamp, x, -1.0, 1.0, out=x) is x
    np.testing.assert_array_equal(x.numpy(), np.clip(X, -1.0, 1.0))


def test_gradients_go_through() -> None:
    x = sim.array(X, requires_grad=True)
    with sim.Tape() as tape:
        y = sim.map(lambda a, k: sim.sin(a) * k, x, 2.0)
    tape.backward(grads={y: sim.ones(len(X), dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * np.cos(X), rtol=1e-6)
    assert not sim.map(lambda a: int(a), x).requires_grad


def test_the_kernel_itself() -> None:
    kernel = sim.map(lambda a: a + 2.0, sim.array(X), return_kernel=True)
    out = sim.zeros(4, dtype=float)
    sim.launch(kernel, dim=4, inputs=[sim.ones(4, dtype=float)], outputs=[out])
    assert isinstance(kernel, sim.Kernel) and out.numpy().tolist() == [3.0] * 4


def forgets(a):
    a * 2.0


def test_what_does_not_fit_is_told() -> None:
    x = sim.array(X)
    with pytest.raises(ValueError, match=r"shapes \(11,\) and \(5,\) are not broadcastable"):
        sim.map(sim.add, x, sim.zeros(5, dtype=float))
    with pytest.raises(ValueError, match="at least one array"):
        sim.map(sim.add, 1.0, 2.0)
    with pytest.raises(TypeError, match="takes 1 argument"):
        sim.map(parts, x, x)
    with pytest.raises(TypeError, match=r"the output array has shape \(2,\), expected \(11,\)"):
        sim.map(sim.sin, x, out=sim.zeros(2, dtype=float))
    with pytest.raises(TypeError, match="output array 1 has dtype int32, expected float32"):
        sim.map(lambda a: (a, a), x, out=[sim.zeros(11, dtype=float), sim.zeros(11, dtype=int)])
    with pytest.raises(TypeError, match="returns 2 values, map got 1 arrays"):
        sim.map(lambda a: (a, a), x, out=x)
    with pytest.raises(KernelError, match="returns nothing"):
        sim.map(lambda a: None, x)
    with pytest.raises(KernelError, match="`forgets` returns nothing"):
        sim.map(forgets, x)
    with pytest.raises(KernelError, match="sin takes floats"):
        sim.map(sim.sin, sim.zeros(3, dtype=int))


def test_a_function_of_python_becomes_one_of_the_language():
    made, module = sim.utils.create_warp_function(lambda x, y: x * y + 1.0)
    assert made(2.0, 3.0) == 7.0 and module.name == __name__
    out = sim.map(made, sim.array([1.0, 2.0], dtype=float), sim.array([3.0, 4.0], dtype=float))
    assert out.numpy().tolist() == [4.0, 9.0]
    with pytest.raises(TypeError, match="takes a function of Python, got 3"):
        sim.utils.create_warp_function(3)
