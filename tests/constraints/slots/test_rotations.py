"""The exponential map and the logarithm as polynomials: against sine, cosine and arc tangent, to rounding."""

import math

import numpy as np
import pytest

import sim
from sim.constraints.slots.rotations import exponential, logarithm


@sim.kernel
def there_and_back(
    theta: sim.array[sim.vec3d], q: sim.array[sim.quatd], known: sim.array[sim.quatd], back: sim.array[sim.vec3d]
):
    i = sim.tid()
    q[i], known[i] = exponential(theta[i]), sim.quat_from_rotation_vector(theta[i])
    back[i] = logarithm(exponential(theta[i]))


def turned(angles, requires_grad=False):
    axes = np.random.default_rng(5).normal(size=(len(angles), 3))
    axes /= np.linalg.norm(axes, axis=1)[:, None]
    given = axes * np.asarray(angles)[:, None]
    theta = sim.array(given, dtype=sim.vec3d, requires_grad=requires_grad)
    made = [sim.zeros(len(angles), kind, requires_grad=requires_grad) for kind in (sim.quatd, sim.quatd, sim.vec3d)]
    with sim.Tape() as tape:
        sim.launch(there_and_back, len(angles), inputs=[theta], outputs=made)
    return given, theta, made, tape


def test_as_the_functions_of_the_library_up_to_a_full_turn():
    angles = np.concatenate([[0.0, 1e-12, 1e-5], np.linspace(0.01, 2 * math.pi - 1e-9, 200)])
    given, _, (q, known, back), _ = turned(angles)
    np.testing.assert_allclose(q.numpy(), known.numpy(), rtol=0, atol=2e-15)
    half = angles < math.pi - 1e-6
    np.testing.assert_allclose(np.abs(q.numpy()[half] - known.numpy()[half]).max(), 0, atol=3e-16)
    np.testing.assert_allclose(back.numpy()[half], given[half], rtol=0, atol=2e-15)
    beyond = given[~half] * (1 - 2 * math.pi / angles[~half, None])  # the shorter way round
    np.testing.assert_allclose(back.numpy()[~half][1:], beyond[1:], rtol=0, atol=1e-13)


def test_from_a_full_turn_on_there_is_no_number():
    _, _, (q, _, _), _ = turned([2 * math.pi + 1e-9, 7.0, 100.0])
    assert np.isnan(q.numpy()[:, :3]).all()


@pytest.mark.parametrize("which", [0, 2])
def test_gradients(which):
    """Of the map those of the library's, of both one after the other the identity."""
    angles = [0.0, 1e-9, 1e-3, 0.5, 2.0, 3.0]
    _, theta, made, tape = turned(angles, requires_grad=True)
    seed = np.random.default_rng(6).normal(size=made[which].numpy().shape)
    tape.backward(grads={made[which]: sim.array(seed, dtype=made[which].dtype)})
    found = theta.grad.numpy().copy()
    if which == 2:
        np.testing.assert_allclose(found, seed, rtol=0, atol=1e-13)
        return
    _, theta, made, tape = turned(angles, requires_grad=True)
    tape.backward(grads={made[1]: sim.array(seed, dtype=sim.quatd)})
    np.testing.assert_allclose(found, theta.grad.numpy(), rtol=0, atol=1e-14)
