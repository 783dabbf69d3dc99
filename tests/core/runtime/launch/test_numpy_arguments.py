"""NumPy arrays as arguments of kernels: their memory, not a copy of it."""

import numpy as np
import pytest

import sim


@sim.kernel
def move(x: sim.array(dtype=sim.vec3), by: sim.array2d(dtype=float), out: sim.array(dtype=float)):
    i = sim.tid()
    x[i] += sim.vec3(by[i, 0])
    out[i] = x[i][0] * x[i][0]


def test_a_kernel_works_on_memory_of_numpy():
    x, by, out = np.zeros((4, 3), np.float32), np.arange(8, dtype=np.float32).reshape(4, 2), sim.zeros(4)
    for _ in range(2):
        sim.launch(move, 4, [x, by, out])
    assert np.array_equal(x, np.repeat(2 * by[:, :1], 3, axis=1))
    reversed_columns = by[::-1, ::-1]
    sim.launch(move, 4, [x, reversed_columns, out])
    assert np.array_equal(x[:, 0], 2 * by[:, 0] + reversed_columns[:, 0])


@sim.kernel
def squares(x: sim.array(dtype=float), y: sim.array(dtype=float), out: sim.array(dtype=float)):
    i = sim.tid()
    out[i] = x[i] * y[i]


def test_a_tape_keeps_what_it_needs_of_it():
    x, y, out = np.float32([1, 2, 3]), sim.ones(3, requires_grad=True), sim.zeros(3, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(squares, 3, [x, y, out])
    x[:] = 100.0
    tape.backward(grads={out: sim.ones(3)})
    assert y.grad.list() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (np.ones(3), "is a NumPy array; pass sim.array.*float64 data are not elements of float32"),
        (np.ones((3, 3), np.float32), "has 2 dimensions; expected 1"),
        (np.broadcast_to(np.float32(1), 3), "read-only"),
    ],
)
def test_refused(given, what):
    with pytest.raises(sim.LaunchError, match=what):
        sim.launch(squares, 3, [given, sim.ones(3), sim.zeros(3)])


def test_an_empty_list_fits_any_number_of_dimensions():
    """As in programs that make an array of what there is: of no pairs, `sim.array([])`, although a pair has two."""

    @sim.kernel
    def count(pairs: sim.array2d[int], n: sim.array[int]):
        i = sim.tid()
        n[i] += 1 + pairs.shape[0] + pairs.shape[1]

    n, none = sim.zeros(3, dtype=int), sim.array([], dtype=int)
    for threads in (0, 3, 2, 3):  # the second time what is known of the first is used
        sim.launch(count, threads, [none, n])
    assert n.list() == [3, 3, 2]
    sim.launch(count, 1, [sim.zeros((4, 2), dtype=int), n])
    assert n.list() == [10, 3, 2]
    with pytest.raises(sim.LaunchError, match="has 1 dimensions; expected 2"):
        sim.launch(count, 1, [sim.array([1, 2]), n])
