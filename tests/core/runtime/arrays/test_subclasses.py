"""Subclasses of arrays that users define: arguments of their own, and arrays wherever one is asked for."""

import pytest

import sim


class Named(sim.array):
    def __init__(self, *args, name, **options):
        self.name = name
        super().__init__(*args, **options)


class Greeting:
    def greeting(self):
        return f"I am {self.name}"


class Polite(Greeting, Named):
    pass


class Chosen(sim.indexedarray):
    def __init__(self, *args, name, **options):
        self.name = name
        super().__init__(*args, **options)


@sim.struct
class Holder:
    values: sim.array[float]
    factor: float


@sim.kernel
def double(x: sim.array[float], y: sim.array[float]):
    i = sim.tid()
    y[i] = 2.0 * x[i]


@sim.kernel
def double_held(h: Holder, y: sim.array[float]):
    i = sim.tid()
    y[i] = h.factor * h.values[i]


def test_a_subclass_has_arguments_of_its_own_and_is_an_array():
    x = Polite([1.0, 2.0], dtype=float, name="x")
    assert isinstance(x, sim.array) and x.greeting() == "I am x"
    assert x.list() == [1.0, 2.0] and x.shape == (2,) and x.dtype is sim.float32
    x[1:].fill_(5.0)
    assert x.list() == [1.0, 5.0] and x.to("cpu") is x
    assert Named(shape=(2, 3), dtype=sim.vec3, name="y").numpy().shape == (2, 3, 3)
    for part in (x[1:], x + x, sim.clone(x), sim.zeros_like(x), x.flatten()):
        assert type(part) is sim.array
    with pytest.raises(TypeError, match="Named needs data, a shape or a pointer"):
        Named(dtype=float, name="z")


def test_kernels_tapes_and_structs_take_subclasses():
    x = Named([1.0, 2.0], dtype=float, requires_grad=True, name="x")
    y = Polite(shape=2, dtype=float, requires_grad=True, name="y")
    with sim.Tape() as tape:
        sim.launch(double, 2, [x], [y])
    tape.backward(grads={y: [1.0, 10.0]})
    assert y.list() == [2.0, 4.0] and x.grad.list() == [2.0, 20.0] and tape.gradients[x].list() == [2.0, 20.0]
    held = Holder()
    held.values, held.factor = x, 3.0
    sim.launch(double_held, 2, [held], [y])
    assert held.values is x and y.list() == [3.0, 6.0]
    with pytest.raises(sim.LaunchError, match="has 2 dimensions; expected 1"):
        sim.launch(double, 2, [Named([[1.0]], dtype=float, name="w")], [y])


def test_what_is_seen_through_indices_may_be_a_subclass_too():
    a = Named([1.0, 2.0, 3.0], dtype=float, name="a")
    x = Chosen(a, [sim.array([2, 0], dtype=int)], name="x")
    assert x.name == "x" and x.list() == [3.0, 1.0]
    y = sim.zeros(2)
    sim.launch(double, 2, [x.contiguous()], [y])
    assert y.list() == [6.0, 2.0]
