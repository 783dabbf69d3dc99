"""requires_grad and gradient arrays that change between recording and going back."""

import numpy as np
import pytest
from tools.tapes.gradients import array
from tools.tapes.kernels import square

import sim

f64 = sim.float64
X = np.array([1.1, 0.7, 1.3])


@sim.kernel
def product(x: sim.array[f64], w: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = x[i] * w[i]


def like(a: sim.array) -> sim.array:
    return sim.zeros(a.shape, dtype=f64, requires_grad=True)


def by_assign(x):
    y = like(x)
    y.assign(x)
    return y


def by_copy(x):
    y = like(x)
    sim.copy(y, x, count=2)
    return y


def by_slices(x):
    y = like(x)
    y[1:] = x[:2]
    return y


def by_fill(x):
    y = sim.clone(x)
    y[:1].fill_(2.0)
    return y


def by_host(x):
    y = sim.clone(x)
    y[1:2] = np.array([5.0])
    return y


def by_rollout_like_function(x):
    y = like(x)

    def back():
        x.grad.numpy()[:] += y.grad.numpy()
        y.grad.zero_()

    sim.copy(y, x)
    recorder = sim.core.runtime.ambient.recording.current()
    recorder.record_function("a function", back, [x], [y])
    return y


CHAINS = {
    "clone": sim.clone,
    "assign": by_assign,
    "copy": by_copy,
    "slices": by_slices,
    "fill": by_fill,
    "host": by_host,
    "function": by_rollout_like_function,
    "launch": lambda x: (lambda y: (sim.launch(square, 3, [x], [y]), y)[1])(like(x)),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("which", ["first", "middle", "last of the chain"])
@pytest.mark.parametrize("view", [False, True])
def test_a_gradient_switched_off_inside_of_a_chain_is_an_error(name, which, view):
    x = array(X)
    with sim.Tape() as tape:
        y = CHAINS[name](x)
        z = sim.clone(y)
        out = CHAINS[name](z)
    off = {"first": x, "middle": y, "last of the chain": z}[which]
    (off[1:] if view else off).requires_grad = False
    with pytest.raises(sim.GradientError, match="requires_grad of .* was changed after that was recorded"):
        tape.backward(grads={out: np.ones(3)})
    off.requires_grad = True  # as it was recorded
    tape.backward(grads={out: np.ones(3)})
    found = x.grad.numpy().copy()
    x2 = array(X)
    with sim.Tape() as tape:
        out = CHAINS[name](sim.clone(CHAINS[name](x2)))
    tape.backward(grads={out: np.ones(3)})
    np.testing.assert_array_equal(found, x2.grad.numpy())
    assert found.any()


def test_a_gradient_switched_on_after_recording_is_an_error_too():
    x, y = array(X, gradient=False), sim.zeros(3, dtype=f64)
    out = like(x)
    with sim.Tape() as tape:
        y.assign(x)
        sim.launch(product, 3, [y, array(X)], [out])
    x.requires_grad = True
    with pytest.raises(sim.GradientError, match="was changed"):
        tape.backward(grads={out: np.ones(3)})


@pytest.mark.parametrize("between", ["off and on", "grad = None", "grad = other", "grad = other with content"])
def test_a_gradient_that_is_exchanged_between_recording_and_backward(between):
    x = array(X)
    with sim.Tape() as tape:
        y, z = like(x), like(x)
        sim.launch(square, 3, [x], [y])
        z.assign(y)
    for a in (x, y, z):
        if between == "off and on":
            a.requires_grad = False
            a.requires_grad = True
        elif between == "grad = None":
            a.grad.fill_(3.0)
            a.grad = None
        else:
            a.grad = sim.zeros(3, dtype=f64)
    if "content" in between:
        x.grad = sim.array([1.0, 1.0, 1.0], dtype=f64)
    tape.backward(grads={z: np.ones(3)})
    np.testing.assert_allclose(x.grad.numpy(), 2 * X + ("content" in between))


# ------------------------------------------------------------------------------------------------ recorded adjoint
# launches
def test_a_gradient_array_that_was_named_stays_whatever_the_argument():
    """Also where it is the argument's own `.grad`: it was named."""
    for named in ("own", "other"):
        x, y = array(X), like(array(X))
        target = x.grad if named == "own" else sim.zeros(3, dtype=f64)
        command = sim.launch(square, 3, [x], [y], adj_inputs=[target], adjoint=True, record_cmd=True)
        other = array(2 * X)
        for set_other in (
            lambda c, a: c.set_param_at_index(0, a),
            lambda c, a: c.set_param_by_name("x", a),
            lambda c, a: c.set_params([a]),
        ):
            target.zero_()
            set_other(command, other)
            y.grad.fill_(1.0)
            command.launch()
            np.testing.assert_allclose(target.numpy(), 4 * X)
            assert not other.grad.numpy().any()
        command.set_param_by_name("x", None, adjoint=True)
        y.grad.fill_(1.0)
        command.launch()
        np.testing.assert_allclose(other.grad.numpy(), 4 * X)


def test_a_gradient_that_was_not_named_is_that_of_the_argument_at_the_time():
    x, y = array(X), like(array(X))
    command = sim.launch(square, 3, [x], [y], adjoint=True, record_cmd=True)
    for fresh in (False, True):
        if fresh:
            x.grad, y.grad = sim.zeros(3, dtype=f64), sim.ones(3, dtype=f64)
        y.grad.fill_(1.0)
        command.launch()
        np.testing.assert_allclose(x.grad.numpy(), 2 * X)
    x.requires_grad = False
    with pytest.raises(sim.LaunchError, match="'x' needs a gradient array of its shape, there is none"):
        command.launch()


def test_each_of_several_gradient_arrays_is_remembered():
    x, w, y = array(X), array([2.0, 3.0, 4.0]), like(array(X))
    mine, weights = sim.zeros(3, dtype=f64), sim.array([1.0, 10.0, 100.0], dtype=f64)
    command = sim.launch(
        product, 3, [x, w], [y], adj_inputs=[None, mine], adj_outputs=[weights], adjoint=True, record_cmd=True
    )
    x2, w2, y2 = array(X + 1), array([5.0, 6.0, 7.0]), like(array(X))
    command.set_params([x2, w2, y2])
    command.launch()
    np.testing.assert_allclose(x2.grad.numpy(), [5, 60, 700])
    np.testing.assert_allclose(mine.numpy(), (X + 1) * [1, 10, 100])
    assert not x.grad.numpy().any() and not w2.grad.numpy().any() and not y2.grad.numpy().any()
