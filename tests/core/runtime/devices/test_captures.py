"""`capture_begin`, `capture_end`, `capture_launch`, `ScopedCapture`: a capture leaves memory as it was."""

import numpy as np
import pytest

import sim


@sim.kernel
def increment(a: sim.array(dtype=float)):
    i = sim.tid()
    a[i] = a[i] + 1.0


@sim.kernel
def square(x: sim.array(dtype=float), y: sim.array(dtype=float)):
    i = sim.tid()
    y[i] = x[i] * x[i]


@sim.kernel
def total(y: sim.array(dtype=float), out: sim.array(dtype=float)):
    sim.atomic_add(out, 0, y[sim.tid()])


def test_a_capture_changes_nothing_until_it_is_launched():
    a, b = sim.zeros(4), sim.zeros(4)
    with sim.ScopedCapture() as capture:
        assert capture.active and sim.is_capturing() and sim.get_device().is_capturing and sim.Stream().is_capturing
        sim.launch(increment, 4, [a])
        sim.copy(b, a)
        a.fill_(5.0)
        b[1:2].assign([9.0])
    assert not capture.active and not sim.is_capturing() and not sim.get_device().is_capturing
    assert capture.graph.device is sim.get_device()
    assert not a.numpy().any() and not b.numpy().any()
    a.fill_(2.0)
    sim.capture_launch(capture.graph)
    assert a.numpy().tolist() == [5.0] * 4
    assert b.numpy().tolist() == [3.0, 9.0, 3.0, 3.0]


def test_modes_of_captures_change_nothing():
    assert [int(mode) for mode in sim.CaptureMode] == [0, 1, 2]
    a = sim.zeros(2)
    with sim.ScopedCapture(capture_mode=sim.CaptureMode.RELAXED) as capture:
        sim.launch(increment, 2, [a])
    sim.capture_launch(capture.graph)
    assert a.list() == [1.0, 1.0]


def test_every_launch_of_a_graph_works_on_present_content():
    a = sim.zeros(3)
    sim.capture_begin()
    sim.launch(increment, 3, [a])
    graph = sim.capture_end()
    for _ in range(7):
        sim.capture_launch(graph)
    assert a.numpy().tolist() == [7.0] * 3


def test_a_tape_and_its_backward_in_a_capture():
    x = sim.array([1.0, 2.0, 3.0], requires_grad=True)
    y, out = sim.zeros(3, requires_grad=True), sim.zeros(1, requires_grad=True)
    x.grad.fill_(0.5)
    with sim.ScopedCapture() as capture:
        tape = sim.Tape()
        with tape:
            sim.launch(square, 3, [x], [y])
            sim.launch(total, 3, [y], [out])
        tape.backward(out)
    assert x.grad.numpy().tolist() == [0.5] * 3
    assert out.numpy()[0] == 0.0 and not y.numpy().any()
    for values in ([1.0, 2.0, 3.0], [-1.0, 0.0, 4.0]):
        x.assign(values)
        out.zero_()
        tape.zero()
        sim.capture_launch(capture.graph)
        assert out.numpy()[0] == np.square(values).sum()
        assert x.grad.numpy().tolist() == [2.0 * v for v in values]


def test_arrays_made_in_a_capture_begin_anew_at_each_launch():
    out = sim.zeros(2)
    with sim.ScopedCapture() as capture:
        scratch, ones = sim.zeros(2), sim.full(2, 3.0)
        sim.launch(increment, 2, [scratch])
        sim.launch(increment, 2, [ones])
        sim.launch(total, 2, [scratch], [out])
        sim.launch(total, 2, [ones], [out])
    for k in range(3):
        sim.capture_launch(capture.graph)
        assert out.numpy()[0] == 10.0 * (k + 1)


def test_decisions_in_a_capture_are_taken_at_each_launch():
    counter, a = sim.zeros(1, dtype=int), sim.zeros(1)

    @sim.kernel
    def count_down(c: sim.array(dtype=int), a: sim.array(dtype=float)):
        sim.atomic_sub(c, 0, 1)
        sim.atomic_add(a, 0, 1.0)

    with sim.ScopedCapture() as capture:
        counter.fill_(4)
        sim.capture_while(counter, lambda: sim.launch(count_down, 1, [counter, a]))
    assert a.numpy()[0] == 0.0
    for k in range(3):
        sim.capture_launch(capture.graph)
        assert a.numpy()[0] == 4.0 * (k + 1)


def test_what_breaks_off_leaves_memory_as_it_was_and_no_graph():
    a = sim.zeros(2)
    with pytest.raises(ZeroDivisionError), sim.ScopedCapture() as capture:
        sim.launch(increment, 2, [a])
        raise ZeroDivisionError
    assert capture.graph is None and not sim.is_capturing()
    assert not a.numpy().any()


def test_misuse_is_refused():
    with pytest.raises(RuntimeError, match="no graph is being captured"):
        sim.capture_end()
    sim.capture_begin()
    with pytest.raises(sim.CaptureError, match="already"):
        sim.capture_begin()
    graph = sim.capture_end()
    with pytest.raises(sim.NotSupportedError, match="cannot be saved"):
        sim.capture_begin(apic=True)
    with pytest.raises(TypeError, match="takes a graph"):
        sim.capture_launch("graph")
    with sim.capture(), pytest.raises(sim.CaptureError, match="no graph"):
        sim.capture_end()
    sim.capture_launch(graph, stream=sim.get_stream())


def test_a_recorded_tape_keeps_what_a_capture_overwrites():
    x, y = sim.array([3.0], requires_grad=True), sim.zeros(1, requires_grad=True)
    tape = sim.Tape()
    with tape:
        sim.launch(square, 1, [x], [y])
    with sim.ScopedCapture():
        x.fill_(100.0)
    tape.backward(grads={y: [1.0]})
    assert x.grad.numpy()[0] == 6.0
