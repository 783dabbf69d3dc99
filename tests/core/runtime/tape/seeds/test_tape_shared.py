"""Memory that others can write unseen (NumPy views, addresses), flags that change, tapes inside of tapes: right, or an
error."""

import gc
import sys

import numpy as np
import pytest
from tools.tapes.gradients import array
from tools.tapes.kernels import square

import sim

f64, vec3 = sim.float64, sim.vec3d


@sim.kernel
def pick(x: sim.array[f64], index: sim.array[int], y: sim.array[f64]):
    i = sim.tid()
    y[i] = x[index[i]] * x[index[i]]


@sim.kernel
def step_down(x: sim.array[f64], slope: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = x[i] - 0.1 * slope[i]


def zeros(n):
    return sim.zeros(n, dtype=f64, requires_grad=True)


def squares(x):
    y = zeros(x.shape[0])
    sim.launch(square, x.shape[0], [x, y])
    return y


def ones(y):
    return {y: sim.ones_like(y, requires_grad=False)}


# ------------------------------------------------------------------------------------------------ NumPy views from
# before
def test_writes_through_a_view_after_recording_change_no_gradient():
    x = array([1.0, 2.0])
    view = x.numpy()
    with sim.Tape() as tape:
        y = squares(x)
    view[:] = 7.0
    tape.backward(grads=ones(y))
    assert x.grad.list() == [2.0, 4.0] and x.list() == [7.0, 7.0]


def test_an_index_array_of_the_user_may_change_between_launches():
    host = np.array([0, 1], np.int32)
    index, x = sim.array(host, copy=False), array([1.0, 2.0])
    y, z = zeros(2), zeros(2)
    with sim.Tape() as tape:
        sim.launch(pick, 2, [x, index, y])
        host[:] = 1
        sim.launch(pick, 2, [x, index, z])
    host[:] = 0
    tape.backward(grads=ones(y) | ones(z))
    assert x.grad.list() == [2.0, 12.0]


def test_writes_between_two_launches_are_an_error():
    x, y = array([1.0, 2.0]), zeros(2)
    view = y.numpy()
    with sim.Tape():
        sim.launch(square, 2, [x, y])
        view[0] = 5.0
        with pytest.raises(
            sim.GradientError, match=r"shape \(2,\) was written through NumPy .* before the launch of 'square'"
        ):
            squares(y)
        y.assign(np.array([3.0, 4.0]))  # now it is known
        view[1] = 1.0
        with pytest.raises(sim.GradientError, match="before the copy"):
            sim.copy(zeros(2), y)


def test_copies_are_made_only_while_somebody_can_write():
    x = array([1.0, 2.0])
    assert x.numpy()[0] == 1.0
    gc.collect()
    with sim.Tape() as tape:
        squares(x)
    assert tape.bytes_kept == 0
    view = x.numpy()
    with sim.Tape() as tape:
        for _ in range(5):
            squares(x)
    assert tape.bytes_kept == x.nbytes  # one copy, shared
    assert "others can write there" in str(tape.memory()) and view.base is not None


# ------------------------------------------------------------------------------------------------ the same memory under
# another name
def test_an_address_of_another_array_is_that_array():
    x, y = array([1.0, 2.0]), zeros(2)
    again = sim.array(ptr=y.ptr, dtype=f64, shape=2)
    part = sim.array(ptr=y.ptr + 8, dtype=f64, shape=1)
    assert again.buffer is y.buffer is part.buffer and again.requires_grad
    with sim.Tape() as tape:
        sim.launch(square, 2, [x, y])
        z = squares(again)
    tape.backward(grads=ones(z))
    assert x.grad.list() == [4.0, 32.0]
    with pytest.raises(ValueError, match="only partly"):
        sim.array(ptr=y.ptr + 8, dtype=f64, shape=2)


# ------------------------------------------------------------------------------------------------ flags
def test_a_flag_that_changes_after_recording():
    for change, name in (
        (lambda x, y: setattr(y, "requires_grad", False), "x"),
        (lambda x, y: setattr(x, "requires_grad", False), "x"),
    ):
        x = array([1.0, 2.0])
        with sim.Tape() as tape:
            y = squares(x)
            z = squares(y)
        change(x, y)
        with pytest.raises(sim.GradientError, match=f"requires_grad of '{name}' of the launch of 'square' was changed"):
            tape.backward(grads=ones(z))
    x = array([1.0, 2.0], gradient=False)
    with sim.Tape() as tape:
        y = squares(x)
    x.requires_grad = True
    with pytest.raises(sim.GradientError, match="set requires_grad before recording"):
        tape.backward(grads=ones(y))


def test_a_flag_that_comes_too_late():
    x, y = array([1.0, 2.0]), sim.zeros(2, dtype=f64)
    with sim.Tape():
        sim.launch(square, 2, [x, y])
        y.requires_grad = True
        with pytest.raises(sim.GradientError, match="had none itself then"):
            squares(y)


# ------------------------------------------------------------------------------------------------ several tapes
def test_a_gradient_made_while_another_tape_records_is_a_constant_only_if_that_is_said():
    x = array([1.0, 2.0])
    inner = sim.Tape()
    with inner:
        e = squares(x)
    with sim.Tape() as outer:
        inner.backward(grads=ones(e))
        y = zeros(2)
        with pytest.raises(sim.GradientError, match="by the backward of another tape"):
            sim.launch(step_down, 2, [x, x.grad, y])
        sim.launch(step_down, 2, [x, sim.clone(x.grad, requires_grad=False), y])
    x.grad.zero_()
    outer.backward(grads=ones(y))
    assert x.grad.list() == [1.0, 1.0]


# ------------------------------------------------------------------------------------------------ other frameworks
def test_frameworks_that_are_missing_are_named(monkeypatch):
    x = array([1.0, 2.0])
    torch, jax = (sim.to_torch, lambda _: sim.torch_function(squares)), (sim.to_jax, sim.from_jax)
    for name, call in (*(("torch", f) for f in torch), *(("jax", f) for f in jax)):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(sim.SimError, match=f"pip install {name}"):
            call(x)
