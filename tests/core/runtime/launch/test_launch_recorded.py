"""Recorded launches, forward and adjoint, alone and alternating in a training loop; graphs of them."""

import ctypes
from typing import Any

import numpy as np
import pytest

import sim
from sim.core.runtime.devices.graph import capture

f64 = sim.float64


@sim.kernel
def residual(w: sim.array[f64], x: sim.array[f64], target: sim.array[f64], out: sim.array[f64]):
    i = sim.tid()
    r = w[0] * x[i] * x[i] + w[1] - target[i]
    sim.atomic_add(out, 0, r * r)


@sim.kernel
def square(x: sim.array[f64], scale: f64, y: sim.array[f64]):
    i = sim.tid()
    y[i] = scale * x[i] * x[i]


@sim.kernel
def add(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] += x[i]


def array(*values: float, gradient: bool = True) -> sim.array:
    return sim.array(np.array(values), dtype=f64, requires_grad=gradient)


def test_recording_does_not_launch():
    x, y = array(1.0, 2.0), array(5.0, 5.0)
    command = sim.launch(square, 2, inputs=[x, 3.0], outputs=[y], record_cmd=True)
    back = sim.launch(square, 2, inputs=[x, 3.0], outputs=[y], record_cmd=True, adjoint=True)
    assert isinstance(command, sim.Launch) and command.kernel is square and command.dim == (2,)
    assert y.list() == [5.0, 5.0] and x.grad.list() == [0.0, 0.0]
    command.launch()
    assert y.list() == [3.0, 12.0]
    y.grad.fill_(1.0)
    back.launch()
    assert x.grad.list() == [6.0, 12.0] and y.grad.list() == [0.0, 0.0]


def test_a_training_loop_of_two_recorded_launches():
    rng = np.random.default_rng(0)
    w, x, target, out = (
        array(0.1, 0.0),
        array(*rng.normal(size=20), gradient=False),
        array(*np.zeros(20), gradient=False),
        array(0.0),
    )
    target.assign(0.7 * x.numpy() ** 2 - 0.3)
    forward = sim.launch(residual, 20, inputs=[w, x, target], outputs=[out], record_cmd=True)
    backward = sim.launch(residual, 20, inputs=[w, x, target], outputs=[out], adjoint=True, record_cmd=True)
    for _ in range(300):
        out.zero_()
        forward.launch()
        w.grad.zero_()
        out.grad.fill_(1.0)
        backward.launch()
        r = w.numpy()[0] * x.numpy() ** 2 + w.numpy()[1] - target.numpy()
        np.testing.assert_allclose(out.numpy()[0], (r * r).sum(), rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(
            w.grad.numpy(), [(2 * r * x.numpy() ** 2).sum(), (2 * r).sum()], rtol=1e-10, atol=1e-12
        )
        w.assign(w.numpy() - 0.004 * w.grad.numpy())
    np.testing.assert_allclose(w.numpy(), [0.7, -0.3], atol=1e-4)


def test_changing_arguments():
    x, y, x2 = array(1.0, 2.0), array(0.0, 0.0), array(3.0, 4.0)
    command = sim.launch(square, 2, inputs=[x, 1.0], outputs=[y], record_cmd=True)
    command.launch()
    command.set_param_at_index(0, x2)
    command.set_param_by_name("scale", 2.0)
    command.launch()
    assert y.list() == [18.0, 32.0]
    z = array(0.0, 0.0, 0.0)
    command.set_params([array(1.0, 2.0, 3.0), 10.0, z])
    command.set_dim(3)
    command.launch()
    assert z.list() == [10.0, 40.0, 90.0] and command.dim == (3,) and y.list() == [18.0, 32.0]
    command.set_dim(0)
    z.zero_()
    command.launch()
    assert z.list() == [0.0] * 3
    command.set_dim(3)
    command.set_param_by_name(
        "x", array(9.0, 1.0, 9.0, 2.0, 9.0, 3.0)[1::2]
    )  # a strided view: another variant of the code
    command.launch()
    assert z.list() == [10.0, 40.0, 90.0]


def test_numbers_and_arrays_in_the_form_that_ctypes_has():
    y = array(0.0, 0.0)
    command = sim.launch(square, 2, inputs=[array(1.0, 2.0), 3.0], outputs=[y], record_cmd=True)
    command.set_param_at_index_from_ctype(0, array(1.0, 3.0).__ctype__())
    command.set_param_by_name_from_ctype("scale", ctypes.c_double(0.5))
    command.launch()
    assert y.list() == [0.5, 4.5]
    command.set_params_from_ctypes([array(2.0, 2.0), ctypes.c_double(1.0), y.__ctype__()])
    command.launch()
    assert y.list() == [4.0, 4.0]


def test_gradients_follow_a_changed_argument():
    x, y = array(1.0, 2.0), array(0.0, 0.0)
    back = sim.launch(square, 2, inputs=[x, 1.0], outputs=[y], adjoint=True, record_cmd=True)
    x2, elsewhere = array(3.0, 4.0), array(0.0, 0.0, gradient=False)
    back.set_param_at_index(0, x2)
    y.grad.fill_(1.0)
    back.launch()
    assert x2.grad.list() == [6.0, 8.0] and x.grad.list() == [0.0, 0.0]
    back.set_param_at_index(0, elsewhere, adjoint=True)
    y.grad.fill_(2.0)
    back.launch()
    assert elsewhere.list() == [12.0, 16.0] and x2.grad.list() == [6.0, 8.0]
    back.set_param_by_name("x", None, adjoint=True)  # back to the array's own
    y.grad.fill_(1.0)
    back.launch()
    assert x2.grad.list() == [12.0, 16.0]


def test_named_gradient_arrays_and_the_arrays_own():
    x, y = array(1.0, 2.0), array(0.0, 0.0)
    gx, gy = array(100.0, 100.0, gradient=False), array(1.0, 10.0, gradient=False)
    sim.launch(square, 2, inputs=[x, 1.0], outputs=[y], adj_inputs=[gx], adj_outputs=[gy], adjoint=True)
    assert (
        gx.list() == [102.0, 140.0] and gy.list() == [0.0, 0.0] and x.grad.list() == [0.0, 0.0]
    )  # it accumulates, and takes
    y.grad.fill_(1.0)
    sim.launch(square, 2, inputs=[x, 1.0], outputs=[y], adj_inputs=[None, None], adj_outputs=[None], adjoint=True)
    assert x.grad.list() == [2.0, 4.0]
    plain_x, plain_y, gy = (
        array(1.0, 2.0, gradient=False),
        array(0.0, 0.0, gradient=False),
        array(1.0, 10.0, gradient=False),
    )
    sim.launch(square, 2, inputs=[plain_x, 1.0], outputs=[plain_y], adj_inputs=[gx], adj_outputs=[gy], adjoint=True)
    assert gx.list() == [104.0, 180.0]


def test_an_adjoint_reads_the_values_as_they_are_now():
    x, y = array(1.0, 2.0), array(0.0, 0.0)
    back = sim.launch(square, 2, inputs=[x, 1.0], outputs=[y], adjoint=True, record_cmd=True)
    x.assign([5.0, 6.0])
    y.grad.fill_(1.0)
    back.launch()
    assert x.grad.list() == [10.0, 12.0]


def test_what_a_recorded_launch_wrote_is_a_seed():
    x, y = array(1.0, 2.0), array(0.0, 0.0)
    with sim.Tape() as tape:
        sim.launch(square, 2, inputs=[x, 1.0], outputs=[y])
    tape.backward(grads={y: array(1.0, 1.0)})
    seed = sim.launch(add, 2, inputs=[array(3.0, 3.0)], outputs=[y.grad], record_cmd=True)
    tape.zero()
    tape.backward(grads={y: array(0.0, 0.0)})
    seed.launch()
    tape.backward()
    assert x.grad.list() == [6.0, 12.0]


def test_a_hidden_launch_is_not_differentiated_but_saves_what_it_overwrites():
    x, y = array(1.0, 2.0), array(0.0, 0.0)
    with sim.Tape() as tape:
        sim.launch(square, 2, inputs=[x, 1.0], outputs=[y])
        sim.launch(add, 2, inputs=[array(7.0, 7.0)], outputs=[x], record_tape=False)
    tape.backward(grads={y: array(1.0, 1.0)})
    assert x.list() == [8.0, 9.0] and x.grad.list() == [2.0, 4.0] and len(tape.records) == 1


def test_a_captured_graph_does_it_again():
    x, y = array(1.0, 2.0), array(0.0, 0.0)
    command = sim.launch(square, 2, inputs=[x, 1.0], outputs=[y], record_cmd=True)
    with capture() as graph:
        command.launch()
        sim.launch(add, 2, inputs=[y], outputs=[x])
        y.zero_()
    assert x.list() == [2.0, 6.0] and y.list() == [0.0, 0.0] and len(graph) == 3
    graph.replay()
    assert x.list() == [6.0, 42.0]


def test_a_captured_gradient_follows_the_data():
    x, y = array(1.0, 2.0), array(0.0, 0.0)
    tape = sim.Tape()
    with capture() as forward, tape:
        sim.launch(square, 2, inputs=[x, 1.0], outputs=[y])
        sim.launch(add, 2, inputs=[y], outputs=[x])
        sim.launch(square, 2, inputs=[x, 1.0], outputs=[y])
    y.grad.fill_(1.0)
    with capture() as backward:
        tape.sweep()
    for start in ([1.0, 2.0], [0.5, -3.0]):
        x.assign(start)
        forward.replay()
        x.grad.zero_()
        y.grad.fill_(1.0)
        backward.replay()
        s = np.array(start)
        np.testing.assert_allclose(x.grad.numpy(), 2 * (s + s * s) * (1 + 2 * s), rtol=1e-12)


def test_dim_zero_records_nothing():
    x, y = array(1.0, 2.0), array(0.0, 0.0)
    with sim.Tape() as tape:
        sim.launch(square, 0, inputs=[x, 1.0], outputs=[y])
        sim.launch(square, (2, 0), inputs=[x, 1.0], outputs=[y])
    assert y.list() == [0.0, 0.0] and not tape.records
    with pytest.raises(sim.GradientError, match="recorded nothing"):
        tape.backward(grads={y: array(1.0, 1.0)})


def test_the_short_way_of_a_recorded_launch_keeps_what_a_tape_needs_and_tells_of_the_change():
    """From the second run on it goes straight to native code, unless somebody watches what it writes."""
    source, x, y = array(7.0, 8.0, gradient=False), array(1.0, 2.0), array(0.0, 0.0)
    overwrite = sim.launch(square, 2, inputs=[source, 1.0], outputs=[x], record_cmd=True)
    overwrite.launch()
    version = x.buffer.version
    overwrite.launch()
    assert x.buffer.version > version and x.list() == [49.0, 64.0]
    x.assign(np.array([1.0, 2.0]))
    with sim.Tape() as tape:
        sim.launch(square, 2, inputs=[x, 3.0], outputs=[y])
    overwrite.launch()
    assert x.list() == [49.0, 64.0]
    tape.backward(grads={y: sim.ones_like(y)})
    assert x.grad.list() == [6.0, 12.0]


def prepared(x, y):
    """A recorded launch that has run already: the next one may go straight to native code."""
    command = sim.launch(square, 2, inputs=[x, 3.0], outputs=[y], record_cmd=True)
    command.launch()
    command.launch()
    return command


def test_the_short_way_is_not_taken_past_an_open_tape():
    x, y = array(1.0, 2.0), array(0.0, 0.0)
    command = prepared(x, y)
    with sim.Tape():  # one that is closed again changes nothing
        pass
    command.launch()
    with sim.Tape() as tape:
        command.launch()
    assert len(tape.launches) == 1
    tape.backward(grads={y: sim.ones_like(y)})
    assert x.grad.list() == [6.0, 12.0]


def test_the_short_way_is_not_taken_past_an_open_graph_or_profile():
    x, y = array(1.0, 2.0), array(0.0, 0.0)
    command = prepared(x, y)
    with capture() as graph:
        command.launch()
    x.assign(np.array([3.0, 4.0]))
    graph.replay()
    assert y.list() == [27.0, 48.0]
    with sim.profile() as profile:
        command.launch()
    assert "square" in str(profile)


def test_the_short_way_is_not_taken_past_a_tangent():
    x, y = array(1.0, 2.0), array(0.0, 0.0)
    command = prepared(x, y)

    def program(x):
        command.launch()
        return y

    _, (tangent,) = sim.autograd.jvp(program, [x], [array(1.0, 10.0, gradient=False)])
    assert tangent.list() == [6.0, 120.0]


# ---- recorded for a kernel alone
def test_a_launch_of_a_kernel_gets_its_arguments_and_size_later():
    launch = sim.Launch(square, "cpu")
    launch.launch()  # no threads
    x, y = sim.array([1.0, 2.0, 3.0], dtype=f64), sim.zeros(3, dtype=f64)
    launch.set_param_by_name("x", x)
    launch.set_param_by_name("y", y)
    launch.set_dim(2)
    launch.launch()
    assert y.list() == [0.0, 0.0, 0.0]  # the scale was not set
    launch.set_param_at_index(1, f64(2.0))
    launch.launch()
    assert y.list() == [2.0, 8.0, 0.0]


def test_an_adjoint_launch_of_a_kernel_takes_the_gradients_of_what_is_set():
    launch = sim.Launch(square, "cpu", adjoint=True)
    x = sim.array([1.0, 2.0], dtype=f64, requires_grad=True)
    y = sim.zeros(2, dtype=f64, requires_grad=True)
    y.grad.fill_(1.0)
    launch.set_params([x, f64(3.0), y])
    launch.set_dim(2)
    launch.launch()
    assert x.grad.list() == [6.0, 12.0]
    other = sim.zeros(2, dtype=f64)
    launch.set_param_by_name("x", other, adjoint=True)
    y.grad.fill_(1.0)
    launch.launch()
    assert other.list() == [6.0, 12.0] and x.grad.list() == [6.0, 12.0]


def test_a_generic_kernel_has_no_launch_without_arguments():
    @sim.kernel
    def fill(a: Any, value: Any):
        a[sim.tid()] = value

    with pytest.raises(sim.LaunchError, match="takes the type of 'a' from its argument"):
        sim.Launch(fill)


def test_values_that_are_not_set_are_zero():
    @sim.kernel
    def sums(q: sim.quat, p: sim.transform, flag: bool, out: sim.array[float]):
        out[0] = q[3] + p[6] + float(flag)

    launch, out = sim.Launch(sums), sim.array([1.0], dtype=float)
    launch.set_param_by_name("out", out)
    launch.set_dim(1)
    launch.launch()
    assert out.list() == [0.0]


@sim.struct
class Inner:
    v: sim.vec3


@sim.struct
class Settings:
    gain: float
    table: sim.array[float]
    inner: Inner


@sim.kernel
def by_settings(s: Settings, y: sim.array[float]):
    y[0] = s.gain * s.table[0] + s.inner.v[1]


def test_a_changed_field_of_a_struct_counts_for_the_next_launch():
    s, y = Settings(), sim.zeros(1)
    s.gain, s.table = 2.0, sim.full(1, 3.0)
    command = sim.launch(by_settings, 1, inputs=[s], outputs=[y], record_cmd=True)

    def result():
        command.launch()
        return y.list()

    assert result() == result() == [6.0]
    s.gain = 3.0
    assert result() == [9.0]
    s.table = sim.full(1, 4.0)
    assert result() == result() == [12.0]
    s.inner.v.y = 0.5
    assert result() == [12.5]
    other = Settings()
    other.gain, other.table = 1.0, s.table
    command.set_param_by_name("s", other)
    s.gain = 7.0
    assert result() == [4.0]
    other.gain = 2.0
    assert result() == [8.0]
