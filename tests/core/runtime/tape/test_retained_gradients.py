"""`retain_grad`: the gradient of content that launches have written stays, and is not counted twice."""

import numpy as np
import pytest

import sim


@sim.kernel
def twice(x: sim.array(dtype=float), y: sim.array(dtype=float)):
    i = sim.tid()
    y[i] = 2.0 * x[i]


@sim.kernel
def square(x: sim.array(dtype=float), y: sim.array(dtype=float)):
    i = sim.tid()
    y[i] = x[i] * x[i]


@pytest.mark.parametrize("retain", [False, True])
def test_the_gradient_of_an_intermediate_result_stays_where_it_is_wanted(retain):
    x, z = sim.full(3, 3.0, requires_grad=True), sim.zeros(3, requires_grad=True)
    y = sim.zeros(3, requires_grad=True, retain_grad=retain)
    with sim.Tape() as tape:
        sim.launch(twice, 3, [x, y])
        sim.launch(square, 3, [y, z])
    for _ in range(2):
        tape.backward(grads={z: sim.ones(3)})
        assert y.grad.list() == ([12.0] * 3 if retain else [0.0] * 3)
        assert x.grad.list() == [24.0] * 3
        tape.zero()


def test_what_was_overwritten_gets_no_gradient_of_what_came_after():
    first, last = sim.ones(3, requires_grad=True), sim.full(3, 3.0, requires_grad=True)
    y = sim.zeros(3, requires_grad=True, retain_grad=True)
    with sim.Tape() as tape:
        sim.launch(twice, 3, [first, y])
        sim.launch(square, 3, [last, y])
    tape.backward(grads={y: sim.ones(3)})
    assert (first.grad.list(), last.grad.list(), y.grad.list()) == ([0.0] * 3, [6.0] * 3, [1.0] * 3)


def test_it_goes_with_requires_grad():
    a = sim.zeros(2)
    with pytest.raises(ValueError, match="without requires_grad"):
        a.retain_grad = True
    with pytest.raises(ValueError, match="without requires_grad"):
        sim.zeros(2, retain_grad=True)
    a.requires_grad = a.retain_grad = True
    assert a.retain_grad
    a.requires_grad = False
    assert not a.retain_grad


def test_copies_and_arrays_like_others_may_retain_theirs():
    x, host = sim.ones(3, requires_grad=True), np.ones(3, np.float32)
    for make in (sim.zeros_like, sim.ones_like, sim.empty_like, sim.clone, lambda x, **k: sim.full_like(x, 2.0, **k)):
        assert make(x, retain_grad=True).retain_grad and not make(x, pinned=False).retain_grad
    assert sim.from_numpy(host, requires_grad=True, retain_grad=True).retain_grad
    assert not x.retain_grad
