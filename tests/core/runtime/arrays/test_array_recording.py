"""Writes as a tape sees them: told before they happen, and with adjoints that match finite differences."""

import numpy as np
import pytest

from sim.core.lang import types as t
from sim.core.lang.errors import GradientError
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array, clone
from sim.core.runtime.arrays.creation import copy, zeros
from sim.core.runtime.arrays.operations import Copy, Fill, HostWrite

vec3 = t.vector(3, t.float64)


class Notes:
    """Keeps operations and the content that they were about to overwrite."""

    def __init__(self):
        self.operations, self.before = [], []

    def recorded(self, operation):
        assert operation in self.operations

    def record(self, operation):
        self.operations.append(operation)
        self.before.append([w.numpy().copy() for w in operation.writes])

    def __enter__(self):
        recording.push(self)
        return self

    def __exit__(self, *error):
        assert recording.pop() is self


def test_every_write_is_told_before_it_happens():
    x = array(np.arange(4.0), requires_grad=True)
    y = zeros(4, dtype=t.float64, requires_grad=True)
    writes = [
        (Copy, lambda: copy(y, x)),
        (Copy, lambda: y.assign(x)),
        (Copy, lambda: copy(y, x, 1, 2, 2)),
        (HostWrite, lambda: y.assign([4.0, 3, 2, 1])),
        (Fill, lambda: y.fill_(7)),
        (Fill, y.zero_),
        (Copy, lambda: y.__setitem__(slice(1, 3), x[:2])),
        (HostWrite, lambda: y.__setitem__(slice(0, 2), [8.0, 9.0])),
        (Fill, lambda: y.__setitem__(3, 5.0)),
        (Copy, lambda: clone(x)),
        (Copy, lambda: array(x)),
        (Copy, lambda: x[::2].contiguous()),
    ]
    for kind, write in writes:
        with Notes() as notes:
            content = y.numpy().copy()
            write()
        (operation,) = notes.operations
        assert type(operation) is kind
        (target,) = operation.writes
        assert operation.reads == ((operation.src,) if kind is Copy else ())
        if target.buffer is y.buffer:
            part = np.ndarray(target.shape, float, content, target.offset, target.strides)
            assert np.array_equal(notes.before[0][0], part)
    assert recording.current() is None


def test_new_memory_and_reading_are_not_told():
    x = zeros(4, requires_grad=True)
    with Notes() as notes:
        array([1.0, 2.0])
        zeros(3)
        x[1:].numpy().sum()
        x.reshape((2, 2)).transpose().list()
        clone(x, requires_grad=False)
        with recording.paused():
            x.fill_(1)
            assert recording.current() is None
        assert recording.current() is notes
    assert notes.operations == []
    x.fill_(2)
    assert notes.operations == [] and x.list() == [2, 2, 2, 2]


def test_only_the_innermost_recorder_is_told():
    x = zeros(1)
    with Notes() as outer, Notes() as inner:
        x.fill_(1)
    assert len(inner.operations) == 1 and outer.operations == []


def test_losing_a_gradient_raises_and_writes_nothing():
    x, y = array([1.0, 2.0], requires_grad=True), zeros(2)
    y.assign(x)  # without a tape: fine
    y.zero_()
    with Notes() as notes:
        for lose in (lambda: y.assign(x), lambda: copy(y, x, count=1), lambda: y.__setitem__(slice(0, 1), x[:1])):
            with pytest.raises(GradientError, match=r"array\(shape=.*requires a gradient, into array\(shape="):
                lose()
        y.assign(clone(x, requires_grad=False))
        zeros(2, requires_grad=True).assign(y)
    assert len(notes.operations) == 2 and y.list() == [1, 2]


def test_host_data_is_kept_as_it_was():
    x, data, element = zeros(2, dtype=t.float64), np.array([1.0, 2.0]), vec3(1, 2, 3)
    y = zeros(2, dtype=vec3)
    with Notes() as notes:
        x.assign(data)
        y.fill_(element)
    data[:], element[0] = 9, 9
    x.zero_()
    y.zero_()
    for operation in notes.operations:
        operation.run()
    assert x.list() == [1, 2] and y.numpy().tolist() == [[1, 2, 3]] * 2


def gradient_view(view):
    return view.grad


@pytest.mark.parametrize("seed", range(40))
def test_adjoints_of_random_programs(seed):
    """Copies (overlapping, reversed, with offsets), fills and host writes are linear in the start content.

    <seed, J e_k> for every unit vector e_k is what one backward sweep must give.
    """
    random = np.random.default_rng(seed)

    def program(first, second):
        arrays, draw = (first, second), np.random.default_rng(seed + 1000)
        for _ in range(8):
            dest, src = arrays[draw.integers(2)], arrays[draw.integers(2)]
            length = int(draw.integers(1, 5))
            views = []
            for whole in (dest, src):
                step = int(draw.choice([-2, -1, 1, 2]))
                begin = int(draw.integers(0, 12 - (length - 1) * abs(step)))
                end = begin + (length - 1) * abs(step)
                stop = begin - 1 if begin else None
                views.append(whole[begin : end + 1 : step] if step > 0 else whole[end:stop:step])
            action = draw.integers(5)
            if action == 0:
                views[0].fill_(float(draw.normal()))
            elif action == 1:
                views[0].assign(draw.normal(size=(length, 3)))
            elif action == 2:
                copy(dest, src, int(draw.integers(6)), int(draw.integers(6)), length)
            else:
                views[0].assign(views[1])

    start = random.normal(size=(2, 12, 3))
    weight = random.normal(size=(2, 12, 3))
    x, y = (array(s, dtype=vec3, requires_grad=True) for s in start)
    with Notes() as notes:
        program(x, y)
    x.grad.assign(weight[0])
    y.grad.assign(weight[1])
    for operation in reversed(notes.operations):
        operation.adjoint(gradient_view)
    found = np.stack([x.grad.numpy(), y.grad.numpy()])

    def value(content):
        ends = [array(c, dtype=vec3) for c in content]
        program(*ends)
        return sum(float((w * e.numpy()).sum()) for w, e in zip(weight, ends, strict=True))

    base, expected = value(start), np.zeros_like(start)
    for k in np.ndindex(2, 12, 3):
        moved = start.copy()
        moved[k] += 1.0
        expected[k] = value(moved) - base
    assert np.allclose(found, expected, atol=1e-12), f"seed {seed}"


def test_adjoint_of_struct_copies():
    @t.struct
    class Point:
        x: vec3
        tag: t.int32

    a, b = zeros(3, dtype=Point, requires_grad=True), zeros(3, dtype=Point, requires_grad=True)
    with Notes() as notes:
        a[:2].assign(b[1:])
        b.zero_()
    a.grad.numpy()["x"][:] = [[1], [2], [3]]
    b.grad.numpy()["x"][:] = 10
    for operation in reversed(notes.operations):
        operation.adjoint(gradient_view)
    assert a.grad.numpy()["x"][:, 0].tolist() == [0, 0, 3] and b.grad.numpy()["x"][:, 0].tolist() == [0, 1, 2]
    assert a.grad.numpy()["tag"].tolist() == [0, 0, 0]


def test_adjoint_without_a_destination_gradient_does_nothing():
    x, y = array([1.0], requires_grad=True), array([1.0])
    with Notes() as notes:
        x.assign(y)
        y.fill_(3)
    x.grad.fill_(5)
    for operation in reversed(notes.operations):
        operation.adjoint(gradient_view)
    assert x.grad.list() == [0.0]
