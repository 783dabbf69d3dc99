"""The gradient that an array shares with a tensor, while PyTorch replaces it.  Skipped where it is not installed."""

import gc

import numpy as np
import pytest

import sim

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
START = [1.0, 2.0, 3.0]


@sim.kernel
def square(x: sim.array[float], y: sim.array[float]):
    i = sim.tid()
    y[i] = x[i] * x[i]


@sim.kernel
def square_in_place(x: sim.array[float]):
    i = sim.tid()
    x[i] = x[i] * x[i]


def backward(x: sim.array) -> None:
    """Adds 2 x to the gradient."""
    y = sim.zeros(x.size, dtype=float, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(square, x.size, [x.flatten() if x.is_contiguous else x], [y])
    tape.backward(grads={y: sim.ones_like(y, requires_grad=False)})


def leaf(requires_grad: bool = True):
    return torch.tensor(START, requires_grad=requires_grad)


def equal(tensor, values) -> bool:
    return torch.allclose(tensor, torch.tensor(np.asarray(values, dtype=np.float32)), rtol=1e-6)


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("shared", ["from_torch", "to_torch"])
def test_a_training_loop_is_that_of_pytorch(name, to_none, shared):
    if shared == "from_torch":
        t = leaf()
        x = sim.from_torch(t)
    else:
        x = sim.array(START, dtype=float, requires_grad=True)
        t = sim.to_torch(x)
    other = leaf()
    mine, theirs = OPTIMIZERS[name]([t]), OPTIMIZERS[name]([other])
    for _ in range(4):
        mine.zero_grad(set_to_none=to_none)
        theirs.zero_grad()
        backward(x)
        (other**2).sum().backward()
        assert equal(t.grad, other.grad.numpy()) and equal(t.grad, x.grad.numpy())
        mine.step()
        theirs.step()
        assert equal(t.detach(), other.detach().numpy())
        np.testing.assert_array_equal(x.numpy(), t.detach().numpy())


def test_two_backwards_of_ours_and_one_of_pytorch_add_up():
    t = leaf()
    x = sim.from_torch(t)
    for clear in (
        lambda: None,
        lambda: setattr(t, "grad", None),
        lambda: t.grad.zero_(),
        lambda: setattr(x, "grad", None),
    ):
        clear()
        start = torch.zeros(3) if t.grad is None else t.grad.clone()
        backward(x)
        (5.0 * t).sum().backward()
        backward(x)
        assert equal(t.grad, start.numpy() + 4 * np.array(START) + 5.0)


def test_pytorch_adds_to_a_gradient_of_memory_that_a_tape_writes():
    """What it adds is a result, as ours is: also after the tape was zeroed, when our content is known to be zero."""
    t = leaf()
    x = sim.from_torch(t)
    for _ in range(2):
        before = np.array(x.numpy())
        with sim.Tape() as tape:
            sim.launch(square_in_place, 3, outputs=[x])
        tape.zero()
        with torch.no_grad():
            t.grad.add_(5.0)
        tape.backward(grads={x: sim.ones(3)})
        assert equal(t.grad, 5.0 + 2 * before)


@pytest.mark.parametrize("made", ["set", "written", "written before"])
def test_what_a_user_writes_to_the_gradient_of_a_shared_result_is_a_seed(made):
    """As a function of PyTorch's autograd hands over what it is given: `y.grad = from_torch(g); tape.backward()`."""
    x, y = sim.array(START, dtype=float, requires_grad=True), sim.zeros(3, dtype=float, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(square, 3, [x], [y])
    if made == "written before":
        y.grad.fill_(5.0)
    result = sim.to_torch(y)
    if made == "set":
        y.grad = sim.from_torch(torch.full((3,), 5.0))
    elif made == "written":
        y.grad.fill_(5.0)
    tape.backward()
    assert x.grad.list() == [10.0, 20.0, 30.0] and equal(result.grad, y.grad.list())
    tape.backward(grads={y: sim.ones_like(y)})  # what the first has left is no seed any more
    assert x.grad.list() == [12.0, 24.0, 36.0]


def test_a_gradient_tensor_that_is_exchanged():
    t = leaf()
    x = sim.from_torch(t)
    backward(x)
    kept = t.grad
    t.grad = None
    backward(x)
    assert equal(kept, [2, 4, 6]) and equal(t.grad, [2, 4, 6]) and t.grad is not kept
    mine = torch.ones(3)
    t.grad = mine
    backward(x)
    assert equal(mine, [3, 5, 7]) and t.grad is mine and x.grad.list() == [3.0, 5.0, 7.0]
    x.grad = sim.array([10.0, 10.0, 10.0], dtype=float)
    backward(x)
    assert equal(t.grad, [12, 14, 16]) and equal(mine, [3, 5, 7])
    t.grad.data = torch.zeros(3)  # the same tensor, other memory
    backward(x)
    assert equal(t.grad, [2, 4, 6])


def test_switching_the_gradient_off_and_on():
    t = leaf()
    x = sim.from_torch(t)
    x.requires_grad = False
    t.grad = None
    x.requires_grad = True
    backward(x)
    assert equal(t.grad, [2, 4, 6])


@pytest.mark.parametrize("how", ["data", "set_", "resize_", "module"])
def test_a_tensor_that_gets_other_memory_is_an_error(how):
    if how == "module":
        module = torch.nn.Linear(3, 1, bias=False)
        t = module.weight
        x = sim.from_torch(t)
        module.double().float()
    else:
        t = leaf()
        x = sim.from_torch(t)
        with torch.no_grad():
            if how == "data":
                t.data = torch.tensor([4.0, 5.0, 6.0])
            elif how == "set_":
                t.set_(torch.tensor([4.0, 5.0, 6.0]))
            else:
                t.requires_grad_(False).resize_(2).requires_grad_()
    with pytest.raises(sim.GradientError, match="has got other memory since"):
        backward(x)
    if how == "data":
        x = sim.from_torch(t)
        backward(x)
        assert equal(t.grad, [8, 10, 12])


def test_values_written_in_place_by_pytorch_are_seen():
    t = leaf()
    x = sim.from_torch(t)
    with torch.no_grad():
        t.copy_(torch.tensor([3.0, 4.0, 5.0]))
    backward(x)
    assert equal(t.grad, [6, 8, 10])


def test_a_step_between_recording_and_backward():
    t = leaf()
    x = sim.from_torch(t)
    y = sim.zeros(3, dtype=float, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(square, 3, [x], [y])
    with torch.no_grad():
        t += 1.0
    t.grad = None
    tape.backward(grads={y: sim.ones(3)})
    assert equal(t.grad, [2, 4, 6]) and equal(t.detach(), [2, 3, 4])


def test_parts_of_one_tensor_as_parameters():
    flat = torch.tensor([*START, 4.0, 5.0])
    parts = [flat[:3].detach().requires_grad_(), flat[3:].detach().requires_grad_()]
    arrays = [sim.from_torch(p) for p in parts]
    for times in (1, 2):
        for x in arrays:
            backward(x)
        assert equal(parts[0].grad, times * np.array([2, 4, 6])) and equal(parts[1].grad, times * np.array([8, 10]))
    for p in parts:
        torch.optim.SGD([p], lr=0.1).zero_grad(set_to_none=False)
    backward(arrays[1])
    assert equal(parts[0].grad, [0, 0, 0]) and equal(parts[1].grad, [8, 10])
    parts[0].grad = None
    with pytest.raises(sim.GradientError, match="set_to_none=False"):
        backward(arrays[0])


def test_a_tensor_of_a_part_of_an_array():
    x = sim.array([*START, 4.0, 5.0], dtype=float, requires_grad=True)
    t = sim.to_torch(x[:3])
    backward(x)
    assert equal(t.grad, [2, 4, 6])
    t.grad.zero_()
    backward(x)
    assert x.grad.list() == [2.0, 4.0, 6.0, 16.0, 20.0] and equal(t.grad, [2, 4, 6])
    t.grad = None
    with pytest.raises(sim.GradientError, match="set_to_none=False"):
        backward(x)
    del t
    gc.collect()
    backward(x)
    assert x.grad.list()[3:] == [24.0, 30.0]


def test_several_tensors_of_one_array():
    t = leaf()
    x = sim.from_torch(t)
    p, q = sim.to_torch(x), sim.to_torch(x)
    for cleared in (t, p, q):
        cleared.grad = None
        backward(x)
        assert all(equal(a.grad, [2, 4, 6]) for a in (t, p, q)), cleared is t
    del p, q, cleared
    gc.collect()
    backward(x)
    assert equal(t.grad, [4, 8, 12]) and len(x.buffer.links) == 1


def test_a_gradient_tensor_of_ones_own_stays_the_one():
    t, g = leaf(), torch.zeros(3)
    x = sim.from_torch(t, grad=g)
    torch.optim.SGD([t], lr=0.1).zero_grad()
    backward(x)
    assert equal(g, [2, 4, 6]) and t.grad is None
    g.resize_(2)
    with pytest.raises((sim.GradientError, ValueError)):
        backward(x)


def test_a_captured_graph_notices_another_gradient():
    t = leaf()
    x = sim.from_torch(t)
    y, ones = sim.zeros(3, dtype=float, requires_grad=True), sim.ones(3)
    with sim.Tape() as tape:
        sim.launch(square, 3, [x], [y])
    with sim.capture() as graph:
        tape.backward(grads={y: ones})
    graph.replay()
    assert equal(t.grad, [4, 8, 12])
    t.grad = None
    with pytest.raises(sim.GradientError, match="another gradient"):
        graph.replay()
    with sim.capture() as graph:
        tape.backward(grads={y: ones})
    t.grad.zero_()
    graph.replay()
    assert equal(t.grad, [2, 4, 6])


def test_a_failed_backward_leaves_the_tensor_as_it_was():
    t = leaf()
    x = sim.from_torch(t)
    backward(x)
    with sim.Tape() as tape:
        y = sim.clone(x)
    tape.record_func(lambda: 1 / 0, [x])
    with pytest.raises(ZeroDivisionError):
        tape.backward(grads={y: sim.ones(3)})
    assert equal(t.grad, [2, 4, 6])


def test_columns_and_vectors():
    t = torch.arange(6.0).reshape(2, 3).requires_grad_()
    x = sim.from_torch(t, dtype=sim.vec3)
    y = sim.zeros(2, dtype=sim.vec3, requires_grad=True)
    for _ in range(2):
        with sim.Tape() as tape:
            y.assign(x)
        t.grad = None
        tape.backward(grads={y: sim.ones_like(y, requires_grad=False)})
        assert torch.equal(t.grad, torch.ones(2, 3))
    column = torch.arange(6.0).reshape(2, 3)[:, 1].requires_grad_()
    backward(sim.from_torch(column))
    assert equal(column.grad, [2, 8])
