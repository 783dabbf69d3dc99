"""Tensors of PyTorch: shared memory and gradients, kernels in its autograd.  Skipped where it is not installed."""

import numpy as np
import pytest

import sim

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
f64 = sim.float64


@sim.kernel
def spring(x: sim.array[sim.vec3d], k: sim.array[f64], y: sim.array[sim.vec3d], energy: sim.array[f64]):
    i = sim.tid()
    d = sim.length(x[i])
    y[i] = -k[0] * d * x[i]
    sim.atomic_add(energy, 0, f64(0.5) * k[0] * d * d)


@sim.kernel
def square(x: sim.array[float], y: sim.array[float]):
    i = sim.tid()
    y[i] = x[i] * x[i]


@sim.kernel
def step(x: sim.array[f64], v: sim.array[f64]):
    i = sim.tid()
    v[i] = v[i] - f64(0.1) * sim.sin(x[i])
    x[i] = x[i] + f64(0.1) * v[i]


def springs(x, k):
    y = sim.zeros(x.shape, dtype=sim.vec3d, requires_grad=True)
    energy = sim.zeros(1, dtype=f64, requires_grad=True)
    sim.launch(spring, x.shape[0], [x, k], [y, energy])
    return y, energy


def pendulum(x, v, steps):
    for _ in range(steps):
        sim.launch(step, x.shape[0], [x, v])
    return x, v


def leaf(*shape):
    return torch.linspace(0.3, 1.7, int(np.prod(shape)), dtype=torch.float64).reshape(shape).requires_grad_()


def squares(x):
    y = sim.zeros(x.shape, dtype=float, requires_grad=True)
    sim.launch(square, x.size, [x, y])
    return y


# ------------------------------------------------------------------------------------------------ functions in
# PyTorch's autograd
def test_gradcheck_of_pytorch():
    assert torch.autograd.gradcheck(sim.torch_function(springs, dtypes=[sim.vec3d]), (leaf(3, 3), leaf(1)))
    assert torch.autograd.gradcheck(sim.torch_function(pendulum), (leaf(4), leaf(4), 5))


def test_a_function_between_operations_of_pytorch():
    x, k = leaf(2, 3), torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    y, energy = sim.torch_function(springs, dtypes=[sim.vec3d])(2.0 * x, torch.exp(k))
    ((y**2).sum() + 3.0 * energy.sum()).backward()
    x2, k2 = x.detach().clone().requires_grad_(), k.detach().clone().requires_grad_()
    d = torch.linalg.norm(2.0 * x2, dim=1, keepdim=True)
    (((torch.exp(k2) * d * 2.0 * x2) ** 2).sum() + 1.5 * torch.exp(k2) * (d**2).sum()).backward()
    assert torch.allclose(x.grad, x2.grad) and torch.allclose(k.grad, k2.grad)


def test_calls_may_be_mixed_nested_in_one_another_and_repeated():
    f = sim.torch_function(pendulum)
    x, v = leaf(3), leaf(3)
    first = f(x, v, 2)
    second = f(first[0], v, 3)  # before the backward of the first
    loss = (second[0] ** 2).sum() + first[1].sum()
    (once,) = torch.autograd.grad(loss, x, retain_graph=True)
    (again,) = torch.autograd.grad(loss, x, retain_graph=True)
    assert torch.equal(once, again)
    (part,) = torch.autograd.grad(first[0].sum(), x)
    assert not torch.equal(part, once)


def test_values_and_gradients_of_the_user_are_never_changed():
    x, v = leaf(3), leaf(3)
    before = x.detach().clone()
    moved, _ = sim.torch_function(pendulum)(x, v, 4)  # steps in place
    weights = torch.ones(3, dtype=torch.float64)
    moved.backward(weights)
    assert torch.equal(x.detach(), before) and torch.equal(weights, torch.ones(3, dtype=torch.float64))
    t = torch.ones(3)
    y = squares(sim.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True))
    with sim.Tape() as tape:
        loss = squares(y)
    tape.backward(grads={loss: sim.from_torch(t)})
    tape.backward(grads={loss: sim.from_torch(t)})
    assert torch.equal(t, torch.ones(3))


def test_a_result_without_gradient_or_a_second_derivative_is_an_error():
    def forgets(x):
        y = sim.zeros(x.shape, dtype=float)
        sim.launch(square, x.size, [x, y])
        return y

    with pytest.raises(sim.GradientError, match="requires_grad=True"):
        sim.torch_function(forgets)(torch.ones(2, requires_grad=True))
    assert torch.equal(sim.torch_function(forgets)(torch.full((2,), 3.0)), torch.full((2,), 9.0))
    x = torch.ones(2, requires_grad=True)
    (g,) = torch.autograd.grad(sim.torch_function(squares)(x).sum(), x, create_graph=True)
    with pytest.raises(sim.GradientError, match="first derivatives only"):
        (g.sum() + x.sum()).backward()


# ------------------------------------------------------------------------------------------------ shared memory
def test_memory_and_gradient_are_shared():
    t = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = sim.from_torch(t)
    with sim.Tape() as tape:
        y = squares(x)
    tape.backward(grads={y: sim.ones_like(y)})
    assert torch.equal(t.grad, torch.tensor([2.0, 4.0, 6.0])) and x.requires_grad
    torch.optim.SGD([t], lr=0.5).step()
    np.testing.assert_array_equal(x.numpy(), [0.0, 0.0, 0.0])
    back = sim.to_torch(x)
    assert back.requires_grad and torch.equal(back.grad, t.grad)
    back.data[0] = 7.0
    assert t.data[0] == x.numpy()[0] == 7.0


def test_what_pytorch_has_added_to_a_gradient_is_no_seed():
    t = torch.tensor([1.0, 2.0], requires_grad=True)
    (5.0 * t).sum().backward()
    x = sim.from_torch(t)
    with sim.Tape() as tape:
        sim.launch(square, 2, [x, x])
    tape.backward(grads={x: sim.ones_like(x)})
    assert torch.equal(t.grad, torch.tensor([7.0, 9.0]))  # 5 + 2 * old value, squares being in the memory of t


def test_views_of_one_tensor_overlap():
    t = torch.arange(6.0)
    part, whole = sim.from_torch(t[2:]), sim.from_torch(t)
    columns = sim.from_torch(t.reshape(2, 3).T)
    assert part.buffer is whole.buffer is columns.buffer and columns.shape == (3, 2)
    assert sim.from_torch(t.reshape(2, 3), dtype=sim.vec3).shape == (2,)


def test_a_gradient_tensor_of_ones_own():
    t, g = torch.ones(2), torch.zeros(2)
    x = sim.from_torch(t, grad=g)
    with sim.Tape() as tape:
        y = squares(x)
    tape.backward(grads={y: sim.ones_like(y)})
    assert torch.equal(g, torch.full((2,), 2.0)) and t.grad is None


def test_a_gradient_array_of_ones_own():
    t, g = torch.ones(2), sim.zeros(2, dtype=float)
    x = sim.from_torch(t, grad=g, return_ctype=True)
    with sim.Tape() as tape:
        y = squares(x)
    tape.backward(grads={y: sim.ones_like(y)})
    assert g.list() == [2.0, 2.0] and t.grad is None


def test_what_cannot_be_right_is_refused():
    t = torch.ones(3, requires_grad=True)
    with pytest.raises(sim.GradientError, match="torch_function"):
        sim.from_torch(2.0 * t)
    with pytest.raises(sim.LaunchError, match="from_torch"):
        sim.launch(square, 3, [t, sim.zeros(3, dtype=float)])
    with pytest.raises(TypeError, match="bfloat16"):
        sim.from_torch(torch.ones(3, dtype=torch.bfloat16))
    with pytest.raises(TypeError, match="the gradient is a ndarray"):
        sim.from_torch(t, grad=np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="shape"):
        sim.from_torch(t, grad=torch.zeros(4))
    x = sim.ones(3, dtype=float, requires_grad=True)
    with sim.Tape(), pytest.raises(sim.GradientError, match="recording"):
        sim.to_torch(x)


def test_a_kernel_takes_a_tensor_as_data_but_not_one_that_asks_for_a_gradient():
    x, y = torch.arange(4, dtype=torch.float32), torch.zeros(6)
    for _ in range(2):
        sim.launch(square, 4, [x, y[2:]])
    assert y.tolist() == [0, 0, 0, 1, 4, 9]
    with pytest.raises(sim.LaunchError, match=r"is a tensor that requires a gradient.*sim.from_torch.*t.detach"):
        sim.launch(square, 4, [x.requires_grad_(), y])
    with pytest.raises(sim.LaunchError, match=r"inputs\[0\] \('x'\).*sim.array\(a, dtype=sim.float32\)"):
        sim.launch(square, 4, [torch.zeros(4, dtype=torch.float64), y])


def test_a_tensor_on_its_own_is_no_array():
    with pytest.raises(TypeError, match="expected a torch.Tensor"):
        sim.from_torch(np.ones(3))
    with pytest.raises(TypeError, match="to_torch takes an array"):
        sim.to_torch(np.ones(3))
