"""What `tid()` gives in launches of several dimensions, values and gradients, by every back end."""

import sys

import numpy as np
import pytest
from tools.tapes.gradients import backend

import sim


@pytest.fixture(params=["interp", "llvm"])
def on_backend(request):
    with backend(request.param, sys.modules[__name__]):
        yield request.param


@sim.kernel
def count(x: sim.array[float], y: sim.array[float]):
    i = sim.tid()
    y[i] += float(i + 1) * x[i]


@sim.kernel
def both(y: sim.array2d[float]):
    first = sim.tid()
    i, j = sim.tid()
    again = sim.tid()
    y[i, j] = float(100 * first + 10 * j + again)


@sim.func
def row():
    return sim.tid()


@sim.kernel
def by_function(y: sim.array[float]):
    y[row()] += 1.0


@pytest.mark.parametrize("dim", [(3,), (3, 4), (3, 2, 2), (3, 2, 1, 2)])
def test_one_index_is_the_first(on_backend, dim):
    x = sim.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y = sim.zeros(3, dtype=float, requires_grad=True)
    times = np.prod(dim) / 3
    with sim.Tape() as tape:
        sim.launch(count, dim, inputs=[x], outputs=[y])
    np.testing.assert_array_equal(y.numpy(), times * np.array([1, 4, 9]))
    tape.backward(grads={y: sim.ones_like(y)})
    np.testing.assert_array_equal(x.grad.numpy(), times * np.array([1, 2, 3]))
    z = sim.zeros(3, dtype=float)
    sim.launch(by_function, dim, outputs=[z])
    np.testing.assert_array_equal(z.numpy(), times)


def test_one_index_beside_two(on_backend):
    y = sim.zeros((2, 3), dtype=float)
    sim.launch(both, (2, 3), outputs=[y])
    np.testing.assert_array_equal(y.numpy(), [[0, 10, 20], [101, 111, 121]])


def test_launches_of_one_and_of_two_dimensions_take_turns():
    x, y = sim.ones(4, dtype=float), sim.zeros(4, dtype=float)
    for dim, factor in ((4, 1), ((4, 2), 3), (4, 4), ((4, 2), 6)):
        sim.launch(count, dim, inputs=[x], outputs=[y])
        np.testing.assert_array_equal(y.numpy(), factor * np.arange(1, 5))


def test_a_recorded_launch_keeps_its_number_of_dimensions():
    x, y = sim.ones(4, dtype=float), sim.zeros(4, dtype=float)
    command = sim.launch(count, (4, 2), inputs=[x], outputs=[y], record_cmd=True)
    command.set_dim((2, 3))
    command.launch()
    np.testing.assert_array_equal(y.numpy(), [3, 6, 0, 0])


@sim.kernel
def visits(n: sim.array2d[float], x: sim.array[float], y: sim.array[float]):
    i, j = sim.tid()
    sim.atomic_add(n, i, j, 1.0)
    sim.atomic_add(y, 0, x[i] * x[i])


@pytest.mark.parametrize(
    ("dim", "visited"),
    [(4, [[1, 0]] * 4), ((2, 2, 3), [[3, 3], [3, 3], [0, 0], [0, 0]]), ((), [[1, 0]] + [[0, 0]] * 3)],
)
def test_extents_that_are_not_given_are_one_and_further_ones_are_passed_over(dim, visited):
    n, y = sim.zeros((4, 2)), sim.zeros(1, requires_grad=True)
    x = sim.array([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    tape = sim.Tape()
    with tape:
        sim.launch(visits, dim, inputs=[n, x, y])
    tape.backward(y)
    np.testing.assert_array_equal(n.numpy(), visited)
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * x.numpy() * np.sum(visited, axis=1))


def test_a_recorded_launch_may_get_another_number_of_dimensions():
    n, x, y = sim.zeros((4, 2)), sim.zeros(4), sim.zeros(1)
    command = sim.launch(visits, (1, 1), inputs=[n, x, y], record_cmd=True)
    for dim, bounds in ((4, (4, 1)), ((2, 2, 3), (2, 2, 3)), ((4, 2), (4, 2, 1))):
        command.set_dim(dim)
        assert command.bounds.shape == bounds and command.bounds.size == np.prod(bounds)
        command.launch()
    np.testing.assert_array_equal(n.numpy(), [[5, 4], [5, 4], [2, 1], [2, 1]])


def test_an_index_is_an_int32_where_one_is_asked_for():
    y = sim.zeros(1)
    command = sim.launch(nobody_asks, 2**31 + 1, inputs=[y], record_cmd=True)
    assert command.bounds.size == 2**31 + 1
    command = sim.launch(count, 2**31, inputs=[y, y], record_cmd=True)
    with pytest.raises(sim.LaunchError, match=r"asks for tid\(\) in dimension 0, whose extent 2147483649"):
        command.set_dim(2**31 + 1)
    assert command.bounds.size == 2**31
    sim.launch(visits, (0, 2**31 + 1), inputs=[sim.zeros((1, 1)), y, y])


@sim.kernel
def nobody_asks(y: sim.array[float]):
    sim.atomic_add(y, 0, 1.0)
