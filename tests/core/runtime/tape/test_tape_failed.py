"""A backward that breaks off leaves no halves behind: gradients, values and what the tape keeps are as before the
call."""

import sys

import numpy as np
import pytest
from tools.tapes.gradients import array
from tools.tapes.interruptions import out_of_reach
from tools.tapes.kernels import square, total, zeros

import sim
from sim.core.runtime.launch.calls import Call
from sim.core.runtime.tape.exclusive import _working
from sim.core.runtime.tape.launch_records import LaunchRecord

f64 = sim.float64
X = np.array([1.1, 0.7, 1.3, 0.9])


MENDING = ("abort", "restored", "paused", "insist", "__exit__")
"""Functions that put things back: what they call may be interrupted once, not their own lines."""


class Stop(BaseException):
    """What a user presses."""


@sim.kernel
def root(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = sim.sqrt(x[i])


@sim.kernel
def smooth(x: sim.array[f64], n: int):
    """In place, in a loop: its adjoint works on what the tape keeps."""
    i = sim.tid()
    for _ in range(n):
        x[i] = x[i] * sim.sin(x[i]) + 0.5


@sim.kernel
def checked(x: sim.array[f64], y: sim.array[f64], limit: f64):
    i = sim.tid()
    y[i] = 2.0 * y[i]
    assert x[i] < limit, "too large"
    y[i] = y[i] * x[i]


class Program:
    """Launches in place, copies, slices, host code and a nested tape, over one flat vector p and others."""

    def __init__(self) -> None:
        self.p, self.y, self.out = array(X), zeros(4), zeros(1)
        self.shown = array(X)  # read only
        self.fail = False
        with sim.Tape() as self.tape:
            sim.launch(square, 4, [self.p], [self.y])
            sim.launch(smooth, 4, [self.y, 3])
            self.p[:2].assign(self.y[2:])
            z = sim.clone(self.p)
            self.host_code(z)
            sim.launch(square, 2, [self.shown[1:3]], [z[:2]])
            z[3:].fill_(2.0)
            sim.launch(total, 4, [z], [self.out])
        self.p.fill_(0.25)
        self.y.fill_(0.5)
        self.arrays = [self.p, self.y, self.out, self.shown, z]

    def host_code(self, z: sim.array) -> None:
        before = z.numpy().copy()

        def back() -> None:
            if self.fail:
                z.grad.zero_()
                raise Stop
            assert np.array_equal(z.numpy(), before)
            z.grad.assign(3.0 * z.grad.numpy())

        self.tape.record_function("host code", back, [z], [z])
        sim.launch(tripled, 4, outputs=[z], record_tape=False)

    def finished(self, before: list[np.ndarray], wanted: list[np.ndarray]) -> list[np.ndarray]:
        """The state that a complete backward makes of another one."""
        return [s if k % 2 == 0 else s + wanted[k // 2] for k, s in enumerate(before)]

    def state(self) -> list[np.ndarray]:
        return [a.device.numpy(b).copy() for a in self.arrays for b in (a, a.grad)]


@sim.kernel
def tripled(x: sim.array[f64]):
    i = sim.tid()
    x[i] = 3.0 * x[i]


def fresh_gradients() -> list[np.ndarray]:
    program = Program()
    program.tape.backward(program.out)
    return [a.grad.numpy().copy() for a in program.arrays]


def interrupted_at(count: int, action) -> bool:
    """Raises Stop at the count-th line of the runtime that is executed inside, or the next at which Ctrl-C could;
    whether it was reached."""
    seen = 0

    def trace(frame, event, _):
        nonlocal seen
        if "sim/core/runtime/" not in frame.f_code.co_filename.replace("\\", "/") or frame.f_code.co_name in MENDING:
            return None
        if event == "line":
            seen += 1
            if seen >= count and not out_of_reach(frame):
                sys.settrace(None)
                raise Stop
        return trace

    sys.settrace(trace)
    try:
        action()
    except Stop:
        return True
    finally:
        sys.settrace(None)
    return False


def refused(program: Program) -> bool:
    """Whether the tape says that it cannot be used again."""
    try:
        program.tape.backward(program.out)
    except sim.GradientError as error:
        assert "broke off" in str(error) and "record again" in str(error)
        return True
    return False


def test_a_backward_interrupted_anywhere():
    wanted, steps, refusals, complete = fresh_gradients(), 0, 0, 0
    for first in (1, 2, 3):
        for count in range(first, 4000, 61):
            program = Program()
            program.shown.grad.fill_(5.0)  # accumulated before
            before = program.state()
            if not interrupted_at(count, lambda p=program: p.tape.backward(p.out)):
                break
            steps += 1
            assert not _working  # other threads would wait for this one for ever
            if program.out.grad.numpy().any():  # stopped after it was complete
                complete += 1
                before = program.finished(before, wanted)
            for a, b in zip(program.state(), before, strict=True):
                np.testing.assert_array_equal(a, b, f"stopped at line {count}")
            if complete:
                break
            program.shown.grad.zero_()
            if refused(program):
                refusals += 1
                continue
            for a, b in zip(program.arrays, wanted, strict=True):
                np.testing.assert_array_equal(a.grad.numpy(), b, f"stopped at line {count}")
    assert steps > 30 and refusals < steps / 2


@pytest.mark.parametrize("record", range(8))
def test_a_backward_that_raises_at_a_record(record, monkeypatch):
    wanted, program = fresh_gradients(), Program()
    assert len(program.tape.records) == 8
    one = program.tape.records[record]
    with monkeypatch.context() as patch:
        original = type(one).backward

        def broken(self):
            if self is one:
                raise KeyboardInterrupt
            original(self)

        patch.setattr(type(one), "backward", broken)
        before = program.state()
        with pytest.raises(KeyboardInterrupt):
            program.tape.backward(program.out)
    for a, b in zip(program.state(), before, strict=True):
        np.testing.assert_array_equal(a, b)
    if refused(program):
        assert isinstance(one, LaunchRecord) and one.works_on_snapshots
        return
    for a, b in zip(program.arrays, wanted, strict=True):
        np.testing.assert_array_equal(a.grad.numpy(), b)


def test_host_code_that_raises_in_the_middle():
    wanted, program = fresh_gradients(), Program()
    before, program.fail = program.state(), True
    with pytest.raises(Stop):
        program.tape.backward(program.out)
    for a, b in zip(program.state(), before, strict=True):
        np.testing.assert_array_equal(a, b)
    program.fail = False
    program.tape.backward(program.out)
    program.tape.backward(program.out)
    for a, b in zip(program.arrays, wanted, strict=True):
        np.testing.assert_array_equal(a.grad.numpy(), 2 * b)


def test_seeds_and_owners_come_back():
    x, y, z = array(X), zeros(4), zeros(4)
    with sim.Tape() as tape:
        sim.launch(square, 4, [x], [y])
        sim.launch(root, 4, [x], [z])
    x.assign(X)
    with sim.Tape() as bad:
        sim.launch(square, 4, [x], [y])
        sim.launch(root, 4, [sim.zeros(4, dtype=f64, requires_grad=True)], [z])  # infinite slope
    y.grad.fill_(2.0)
    z.grad[1:].fill_(3.0)
    x.grad[:2].fill_(7.0)
    with pytest.raises(sim.autograd.NonFiniteError), sim.autograd.detect_nonfinite():
        bad.backward()
    assert (
        y.grad.list() == [2.0] * 4 and z.grad.list() == [0.0, 3.0, 3.0, 3.0] and x.grad.list() == [7.0, 7.0, 0.0, 0.0]
    )
    tape.backward()
    np.testing.assert_allclose(x.grad.numpy(), [7, 7, 0, 0] + 4 * X + 3 * np.array([0, 1, 1, 1]) / (2 * np.sqrt(X)))


def test_a_failed_backward_keeps_the_results_of_others_apart():
    """What was left by one tape is a result still, and no seed, after the backward of another has failed."""
    x, y = array(X), zeros(4)
    with sim.Tape() as first:
        sim.launch(square, 4, [x], [y])
    first.backward(grads={y: np.ones(4)})
    with sim.Tape() as second:
        sim.launch(smooth, 4, [x, 2])
    second.record_func(lambda: 1 / 0, [x])
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            second.backward(grads={x: np.ones(4)})
        np.testing.assert_array_equal(x.grad.numpy(), 2 * X)
    with pytest.raises(sim.GradientError, match="nothing to start from"):
        second.backward()


def test_a_graph_of_which_a_backward_broke_off():
    x, y, switch = array(X), zeros(4), {"fail": False}
    with sim.Tape() as tape:
        sim.launch(square, 4, [x], [y])

    def back():
        if switch["fail"]:
            raise Stop

    tape.record_func(back, [x])
    tape.record_func(lambda: None, [y])
    w = sim.ones(4, dtype=f64)
    with sim.capture() as graph:
        tape.backward(grads={y: w})
    graph.replay()
    np.testing.assert_allclose(x.grad.numpy(), 4 * X)
    switch["fail"] = True
    with pytest.raises(Stop), sim.capture() as half:
        tape.backward(grads={y: w})
    np.testing.assert_allclose(x.grad.numpy(), 4 * X)
    with pytest.raises(sim.GradientError, match="not complete"):
        half.replay()
    with sim.capture() as half:
        with pytest.raises(Stop):
            tape.backward(grads={y: w})
    with pytest.raises(sim.GradientError, match="not complete"):
        half.replay()
    assert not y.grad.numpy().any()


def test_a_replay_that_breaks_off_puts_gradients_back(monkeypatch):
    x, y, z = array(X), zeros(4), zeros(4)
    with sim.Tape() as tape:
        sim.launch(square, 4, [x], [y])
        sim.launch(square, 4, [y], [z])
    x.grad.fill_(3.0)
    w = sim.ones(4, dtype=f64)
    with sim.capture() as graph:
        tape.backward(grads={z: w})
    before, raises = x.grad.numpy().copy(), []

    def failing():
        raises.append(1)
        raise Stop

    monkeypatch.setattr(graph, "_segments", [graph._segments[0], *graph._segments[1:2], failing, *graph._segments[2:]])
    with pytest.raises(Stop):
        graph.replay()
    assert (
        raises and x.grad.numpy().tolist() == before.tolist() and not y.grad.numpy().any() and not z.grad.numpy().any()
    )


def test_second_order_after_a_failure():
    """Tangents of gradients come back too: a failed backward inside of forward mode does not show in a second one."""

    def gradient_and_hvp(fail: bool):
        x, out = array(X), zeros(1)
        switch = {"fail": fail}

        def back():
            if switch["fail"]:
                raise Stop

        with sim.autograd.Forward({x: np.ones(4)}) as forward:
            y = zeros(4)
            with sim.Tape() as tape:
                sim.launch(square, 4, [x], [y])
                tape.record_func(back, [x])
                sim.launch(square, 4, [y], [y])
                sim.launch(total, 4, [y], [out])
            if fail:
                with pytest.raises(Stop):
                    tape.backward(out)
                switch["fail"] = False
            tape.backward(out)
            return x.grad.numpy().copy(), forward.tangent(x.grad).numpy().copy()

    for a, b, closed in zip(gradient_and_hvp(False), gradient_and_hvp(True), (4 * X**3, 12 * X**2), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, closed, rtol=1e-13)


# ------------------------------------------------------------------------------------------------ blocks that raise
def test_a_block_that_raised_gives_the_gradient_of_what_was_recorded():
    x, y, out = array(X), zeros(4), zeros(1)
    with pytest.raises(ZeroDivisionError), sim.Tape() as tape:
        sim.launch(square, 4, [x], [y])
        sim.launch(total, 4, [y], [out])
        raise ZeroDivisionError
    tape.backward(out)
    np.testing.assert_allclose(x.grad.numpy(), 2 * X)


@pytest.mark.parametrize("then", ["go on", "seed", "overwrite"])
def test_what_a_failed_launch_has_left_is_not_differentiated(then):
    x, y, out = array(X), zeros(4), zeros(1)
    with sim.Tape() as tape:
        sim.launch(square, 4, [x], [y])
        with pytest.raises(sim.KernelFault, match="too large"):
            sim.launch(checked, 4, [x, y, 1.0])
        if then == "overwrite":
            y.fill_(0.0)
            sim.launch(square, 4, [x], [y])
            sim.launch(total, 4, [y], [out])
        elif then == "go on":
            with pytest.raises(sim.GradientError, match="half written when a launch of 'checked'"):
                sim.launch(total, 4, [y], [out])
    if then == "overwrite":
        tape.backward(out)
        np.testing.assert_allclose(x.grad.numpy(), 2 * X)
    if then == "seed":
        with pytest.raises(sim.GradientError, match="half written when a launch of 'checked'"):
            tape.backward(grads={y: np.ones(4)})


def test_a_copy_that_breaks_off_is_not_recorded(monkeypatch):
    x, y, out = array(X), zeros(4), zeros(1)
    device = x.device
    with sim.Tape() as tape:
        with monkeypatch.context() as patch:
            patch.setattr(device, "copy", lambda dest, src: (_ for _ in ()).throw(Stop()))
            with pytest.raises(Stop):
                y.assign(x)
        assert not tape.records
        with pytest.raises(sim.GradientError, match="half written when a copy"):
            sim.launch(total, 4, [y], [out])
        y.assign(x)
        sim.launch(total, 4, [y], [out])
    tape.backward(out)
    np.testing.assert_array_equal(x.grad.numpy(), 1.0)


def test_an_interrupted_launch_is_no_part_of_the_tape(monkeypatch):
    x, y, out = array(X), zeros(4), zeros(1)
    with sim.Tape() as tape:
        sim.launch(square, 4, [x], [y])
        with monkeypatch.context() as patch:
            patch.setattr(Call, "run", lambda self: (_ for _ in ()).throw(Stop()))
            with pytest.raises(Stop):
                sim.launch(root, 4, [x], [y])
        assert len(tape.records) == 1
        with pytest.raises(sim.GradientError, match="half written"):
            sim.launch(total, 4, [y], [out])
