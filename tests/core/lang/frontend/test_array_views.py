"""Slices and rows of arrays inside of kernels, against the same slices of NumPy."""

import numpy as np
import pytest

import sim


@sim.kernel
def slices(a: sim.array2d(dtype=float), start: int, stop: int, step: int, numbers: sim.array(dtype=float)):
    part = a[start:stop:step, 1:]
    turned = part[::-1, -1]
    numbers[0] = turned[0]
    numbers[1] = float(turned.shape[0])
    numbers[2] = float(part.shape[1])
    numbers[3] = float(part.shape[2] + turned.shape[1])
    numbers[4] = a[-1, -2] + a[1][2:][0] + a[1:][:, :2][-1][1]
    total = 0.0
    for i in range(turned.shape[0]):
        total += turned[i] * turned[i]
    numbers[5] = total
    numbers[6] = float(part.size + len(turned) + turned.ndim)


@pytest.mark.parametrize(
    "bounds", [(0, 5, 1), (4, -9, -1), (0, 5, 2), (4, 0, -3), (-3, -1, 1), (2, 99, 1), (99, -99, -2)]
)
def test_slices_are_those_of_numpy_and_gradients_go_through_them(bounds):
    values = np.arange(20, dtype=np.float32).reshape(5, 4)
    a, numbers = sim.array(values, requires_grad=True), sim.zeros(7, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(slices, 1, [a, *bounds, numbers])
    part = values[slice(*bounds), 1:]
    turned = part[::-1, -1]
    several = values[-1, -2] + values[1][2:][0] + values[1:][:, :2][-1][1]
    expected = [turned[0], len(turned), 3, 0, several, turned @ turned, part.size + len(turned) + 1]
    assert np.allclose(numbers.numpy(), expected)
    tape.backward(grads={numbers: sim.array(np.float32([0, 0, 0, 0, 0, 1, 0]))})
    gradient = np.zeros_like(values)
    gradient[slice(*bounds), 1:][::-1, -1] = 2 * turned
    assert np.array_equal(a.grad.numpy(), gradient)


@sim.func
def add_to(part: sim.array(dtype=float), value: float):
    for i in range(len(part)):
        part[i] += value


@sim.kernel
def write_through_slices(a: sim.array2d(dtype=float)):
    i = sim.tid()
    add_to(a[i, 1::2], float(i + 1))
    row = a[i][::-1]
    row[0] = 9.0
    sim.atomic_add(row, row.shape[0] - 1, 0.5)


def test_writing_to_a_slice_writes_to_the_array():
    a = sim.zeros((3, 5))
    sim.launch(write_through_slices, 3, [a])
    expected = np.zeros((3, 5))
    expected[:, 1::2] += np.arange(1, 4)[:, None]
    expected[:, -1] = 9.0
    expected[:, 0] = 0.5
    assert np.array_equal(a.numpy(), expected)


@sim.kernel
def chosen_view(a: sim.array(dtype=float), n: int, out: sim.array(dtype=float)):
    part = a[0:2]
    if n > 3:
        part = a[1:n:2]
    for _ in range(part.shape[0]):
        out[0] += part[0]
        part = part[1:]


@pytest.mark.parametrize("n", [2, 6])
def test_a_view_may_differ_from_path_to_path(n):
    values = np.arange(8, dtype=np.float32)
    out = sim.zeros(1)
    sim.launch(chosen_view, 1, [sim.array(values), n, out])
    assert out.numpy()[0] == (values[1:n:2] if n > 3 else values[:2]).sum()


@sim.kernel
def beyond(a: sim.array(dtype=float), i: int, out: sim.array(dtype=float)):
    out[0] = a[1:3][i]


def test_an_index_beyond_a_slice_is_reported_though_it_is_inside_of_the_array():
    a, out = sim.array(np.arange(8, dtype=np.float32)), sim.zeros(1)
    sim.set_check_bounds(True)
    try:
        sim.launch(beyond, 1, [a, 1, out])
        assert out.numpy()[0] == 2.0
        with pytest.raises(sim.KernelFault, match="index 2"):
            sim.launch(beyond, 1, [a, 2, out])
            sim.synchronize()
    finally:
        sim.set_check_bounds(False)


@sim.kernel
def step_of_the_run(a: sim.array(dtype=float), step: int, out: sim.array(dtype=float)):
    out[0] = a[::step][0]


def test_a_step_of_zero_is_reported():
    with pytest.raises(sim.KernelFault, match="slice step cannot be zero"):
        sim.launch(step_of_the_run, 1, [sim.zeros(4), 0, sim.zeros(1)])
        sim.synchronize()
