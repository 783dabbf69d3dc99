"""The five situations in which users of kernels with gradients were once surprised, each by its name."""

import numpy as np
import pytest
from tools.tapes.gradients import array, assert_gradient

import sim as wp

f64, vec3, mat22 = wp.float64, wp.vec3d, wp.mat22d


@wp.kernel
def square(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def total(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(out, 0, x[i] * f64(i + 1))


@wp.kernel
def total_of_vectors(x: wp.array(dtype=vec3), out: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(out, 0, wp.dot(x[i], vec3(1.0, 2.0, 3.0)) * f64(i + 1))


@wp.kernel
def local_components(a: wp.array(dtype=vec3), y: wp.array(dtype=vec3)):
    i = wp.tid()
    t = vec3()
    t[0] += a[i][0] * a[i][1]
    t.x += a[i].z
    t.y = t[0] * t[0]
    t[1] = 3.0 * t[1] * t[0]
    if t.x > 0.5:
        t[2] = t.y
        t[2] *= t.x
    y[i] = t


@wp.kernel
def stored_components(x: wp.array(dtype=f64), y: wp.array(dtype=vec3), m: wp.array(dtype=mat22)):
    i = wp.tid()
    y[i].x = x[i] * x[i]
    y[i][1] = 2.0 * x[i]
    y[i].z += x[i] * y[i].x
    y[i].x = x[i] * y[i][1]  # the last write wins
    m[i][0, 1] = x[i]
    m[i][0, 1] += y[i].z * x[i]
    y[i].z = m[i][0, 1]


def zeros(n, dtype=f64):
    return wp.zeros(n, dtype=dtype, requires_grad=True)


def ended(x):
    out = zeros(1)
    wp.launch(total if x.dtype is f64 else total_of_vectors, dim=x.shape[0], inputs=[x], outputs=[out])
    return out


def test_a_component_operations_on_a_local_vector():
    def program(a):
        y = zeros(2, vec3)
        wp.launch(local_components, dim=2, inputs=[a], outputs=[y])
        return ended(y)

    assert_gradient(program, array([[1.1, 0.4, 0.3], [0.5, 0.2, 0.1]], vec3))


def test_b_component_stores_straight_into_array_elements():
    def program(x):
        y = zeros(3, vec3)
        wp.launch(stored_components, dim=3, inputs=[x], outputs=[y, zeros(3, mat22)])
        return ended(y)

    assert_gradient(program, array([1.0, -0.4, 0.8]))


def test_c_clone_copy_and_assign_under_a_tape():
    def program(x):
        kept, y, z = wp.clone(x), zeros(3), zeros(6)
        wp.launch(square, dim=3, inputs=[x], outputs=[x])
        wp.copy(z, x, dest_offset=2, src_offset=1, count=2)
        y.assign(kept)
        wp.launch(square, dim=6, inputs=[z], outputs=[z])
        wp.copy(z, y, count=2)
        y.assign(x)
        out = ended(z)
        wp.launch(total, dim=3, inputs=[y], outputs=[out])
        wp.launch(total, dim=3, inputs=[kept], outputs=[out])
        return out

    assert_gradient(program, array([1.0, -0.4, 0.8]))


def test_d_recorded_adjoint_launches_follow_the_data():
    x, y = array([1.0, 2.0, 3.0]), zeros(3)
    forward = wp.launch(square, dim=3, inputs=[x], outputs=[y], record_cmd=True)
    backward = wp.launch(square, dim=3, inputs=[x], outputs=[y], adjoint=True, record_cmd=True)
    assert y.list() == x.grad.list() == [0.0] * 3  # recording runs nothing
    for values in ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]):
        x.assign(np.array(values))
        x.grad.zero_()
        forward.launch()
        y.grad.fill_(1.0)
        backward.launch()
        np.testing.assert_array_equal(x.grad.numpy(), 2.0 * x.numpy())
    other = array([7.0, 8.0, 9.0])
    backward.set_param_at_index(0, other)
    y.grad.fill_(1.0)
    backward.launch()
    assert other.grad.list() == [14.0, 16.0, 18.0]
    with wp.Tape() as tape:  # and a forward one on a tape is recorded there
        forward.launch()
        out = ended(y)
    x.grad.zero_()
    tape.backward(out)
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * x.numpy() * [1, 2, 3])


def test_e_raw_tensors_take_part_or_raise_and_are_never_changed():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    t = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    between = torch.zeros(3, dtype=torch.float64)
    with wp.Tape() as tape, pytest.raises(wp.LaunchError, match="from_torch"):
        wp.launch(square, dim=3, inputs=[t], outputs=[between])
    x = wp.from_torch(t)
    with wp.Tape() as tape:
        y = wp.from_torch(between)
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        with pytest.raises(wp.GradientError, match="the gradient would be lost"):
            ended(y)
    with wp.Tape() as tape:
        z = zeros(3)
        wp.launch(square, dim=3, inputs=[x], outputs=[z])
    weights = torch.ones(3, dtype=torch.float64)
    tape.backward(grads={z: wp.from_torch(weights)})
    assert torch.equal(t.grad, torch.tensor([2.0, 4.0, 6.0], dtype=torch.float64))
    assert torch.equal(weights, torch.ones(3, dtype=torch.float64)) and t.detach().tolist() == [1.0, 2.0, 3.0]
