"""Arrays that show chosen elements of another: in kernels, on the host, copied, with gradients; against NumPy."""

from typing import Any, Literal

import numpy as np
import pytest

import sim

VALUES = np.arange(20, dtype=np.float32).reshape(4, 5)
ROWS, COLUMNS = [3, 1], [0, 2, 4]


def indices(numbers):
    return sim.array(numbers, dtype=int)


@sim.kernel
def square(a: sim.indexedarray[float, Literal[2]], out: sim.array2d(dtype=float)):
    i, j = sim.tid()
    out[i, j] = a[i, j] * a[i][j] + float(a.shape[0] - len(a))


@sim.kernel
def increase(a: Any):
    i, j = sim.tid()
    a[i, j] = a[i, j] + 1.0
    sim.atomic_add(a, i, j, 1.0)


def chosen(a, which):
    return {
        "both": lambda: (a[indices(ROWS), indices(COLUMNS)], np.ix_(ROWS, COLUMNS)),
        "rows": lambda: (a[indices(ROWS)], np.ix_(ROWS, range(5))),
        "columns": lambda: (a[:, indices(COLUMNS)], np.ix_(range(4), COLUMNS)),
        "of a slice": lambda: (a[1:, indices(COLUMNS)], np.ix_(range(1, 4), COLUMNS)),
        "constructed": lambda: (sim.indexedarray(a, [None, indices(COLUMNS)]), np.ix_(range(4), COLUMNS)),
    }[which]()


WAYS = ["both", "rows", "columns", "of a slice", "constructed"]


@pytest.mark.parametrize("which", WAYS)
def test_kernels_take_one_as_they_take_an_array(which):
    a = sim.array(VALUES, requires_grad=True)
    part, where = chosen(a, which)
    assert part.shape == VALUES[where].shape and np.array_equal(part.numpy(), VALUES[where])
    out = sim.zeros(part.shape, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(square, part.shape, [part, out])
    assert np.array_equal(out.numpy(), VALUES[where] ** 2)
    weights = np.random.default_rng(1).random(part.shape, dtype=np.float32)
    tape.backward(grads={out: sim.array(weights)})
    gradient = np.zeros_like(VALUES)
    gradient[where] = 2 * VALUES[where] * weights
    assert np.array_equal(a.grad.numpy(), gradient)
    assert np.array_equal(part.grad.numpy(), gradient[where])


def test_a_generic_kernel_writes_to_the_chosen_elements_and_takes_whole_arrays_too():
    a = sim.array(VALUES)
    sim.launch(increase, (2, 3), [a[indices(ROWS), indices(COLUMNS)]])
    expected = VALUES.copy()
    expected[np.ix_(ROWS, COLUMNS)] += 2
    assert np.array_equal(a.numpy(), expected)
    sim.launch(increase, a.shape, [a])
    assert np.array_equal(a.numpy(), expected + 2)


@sim.struct
class Part:
    values: sim.indexedarray[float]
    factor: float


@sim.struct
class Holder:
    part: Part


@sim.kernel
def scale(holder: Holder, out: sim.array(dtype=float)):
    i = sim.tid()
    out[i] = holder.part.values[i] * holder.part.factor


def test_one_in_a_struct_and_an_array_in_its_place():
    a, holder, out = sim.array(VALUES[0], requires_grad=True), Holder(), sim.zeros(2, requires_grad=True)
    holder.part = Part(values=a[indices([4, 1])], factor=3.0)
    with sim.Tape() as tape:
        sim.launch(scale, 2, [holder, out])
    tape.backward(grads={out: sim.ones(2)})
    assert out.list() == [12.0, 3.0] and a.grad.list() == [0.0, 3.0, 0.0, 0.0, 3.0]
    holder.part = Part(values=a, factor=2.0)
    sim.launch(scale, 2, [holder, out])
    assert out.list() == [0.0, 2.0]


@pytest.mark.parametrize("which", WAYS)
def test_copies_are_those_of_numpy_and_carry_gradients(which):
    a, b = sim.array(VALUES, requires_grad=True), sim.zeros((4, 5), requires_grad=True)
    with sim.Tape() as tape:
        part, where = chosen(a, which)
        packed = sim.clone(part)  # gathered
        target, _ = chosen(b, which)
        sim.copy(target, packed)  # scattered
    assert packed.is_contiguous and not part.is_contiguous
    expected = np.zeros_like(VALUES)
    expected[where] = VALUES[where]
    assert np.array_equal(b.numpy(), expected)
    weights = np.random.default_rng(2).random(VALUES.shape, dtype=np.float32)
    tape.backward(grads={b: sim.array(weights)})
    gradient = np.zeros_like(VALUES)
    gradient[where] = weights[where]
    assert np.array_equal(a.grad.numpy(), gradient)


def test_an_element_that_is_chosen_twice_gets_both_gradients_but_cannot_be_written_twice():
    a, b = sim.array(VALUES[0], requires_grad=True), sim.zeros(5, requires_grad=True)
    with sim.Tape() as tape:
        out = sim.clone(a[indices([2, 2, 0])])
    tape.backward(grads={out: sim.array(np.float32([1, 10, 100]))})
    assert a.grad.list() == [100.0, 0.0, 11.0, 0.0, 0.0]
    with sim.Tape(), pytest.raises(sim.GradientError, match="an index occurs twice"):
        sim.copy(b[indices([2, 2, 0])], out)


def test_forward_mode_goes_through_copies_of_chosen_elements():
    def rearranged(x):
        out = sim.zeros(5, requires_grad=True)
        sim.copy(out[indices([4, 0])], x[indices([1, 2])])
        out[indices([3])].fill_(9.0)
        return out

    _, (tangent,) = sim.autograd.jvp(rearranged, [sim.array(VALUES[0])], [sim.array(np.float32([1, 2, 3, 4, 5]))])
    assert tangent.list() == [3.0, 0.0, 0.0, 0.0, 2.0]


def test_writing_from_the_host():
    a = sim.array(VALUES)
    part = a[indices(ROWS), indices(COLUMNS)]
    expected = VALUES.copy()
    part.fill_(7.0)
    expected[np.ix_(ROWS, COLUMNS)] = 7.0
    assert np.array_equal(a.numpy(), expected)
    part.assign(VALUES[:2, :3])
    expected[np.ix_(ROWS, COLUMNS)] = VALUES[:2, :3]
    assert np.array_equal(a.numpy(), expected) and part.list() == VALUES[:2, :3].ravel().tolist()
    a[indices(ROWS), indices(COLUMNS)] = 5.0
    part.zero_()
    assert part.numpy().max() == 0.0
    line = a[0][indices([4, 3, 2])]
    sim.copy(line, sim.array(np.float32([10, 20, 30])), dest_offset=1, src_offset=0, count=2)
    assert a.numpy()[0].tolist() == [0.0, 1.0, 20.0, 10.0, 4.0]
    assert sim.zeros_like(part).shape == (2, 3) and sim.full_like(part, 2.0).numpy().sum() == 12.0


def test_none_chosen():
    part = sim.zeros((3, 2), dtype=sim.vec3)[sim.empty(0, dtype=int)]
    part.fill_(1.0)
    assert part.shape == (0, 2) and part.list() == [] and part.contiguous().size == 0
    sim.copy(part, sim.clone(part))


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda a: a[sim.array(np.float32([1.0]))], "indices are arrays of int32 of one dimension, not array"),
        (lambda a: a[sim.zeros((2, 2), dtype=int)], "indices are arrays of int32 of one dimension"),
        (lambda a: sim.indexedarray(a, [None, None, None]), "indices for 3 dimensions of an array that has 2"),
        (lambda a: sim.indexedarray(VALUES), "an indexedarray shows a part of an array, not of a ndarray"),
        (lambda a: sim.indexedarray(a, dtype=int), "the elements of an indexedarray are those of its data"),
        (lambda a: sim.indexedarray1d(a), "data of 2 dimensions cannot be seen as an indexedarray of 1"),
        (lambda a: sim.copy(a[indices(ROWS)], a), r"cannot copy shape \(4, 5\) into shape \(2, 5\)"),
        (lambda a: sim.copy(a[indices(ROWS)], a, count=2), "offsets and counts are for indexedarrays of one dimension"),
        (lambda a: sim.array(a[indices(ROWS)], copy=False), "do not lie in order"),
        (lambda a: a[indices(ROWS)].assign(np.zeros(3)), r"cannot assign data of shape \(3,\) to array"),
    ],
)
def test_refused(make, what):
    with pytest.raises((TypeError, ValueError), match=what):
        make(sim.array(VALUES))


def test_annotations():
    assert sim.indexedarray[float] is sim.indexedarray(dtype=float) is sim.indexedarray1d[float]
    assert sim.indexedarray[sim.vec3, Literal[2]] is sim.indexedarray2d[sim.vec3]
    assert sim.array[float, Literal[3]] is sim.array3d[float]
    assert str(sim.indexedarray2d[float]) == "indexedarray2d[float32]"
