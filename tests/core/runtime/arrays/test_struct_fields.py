"""Arrays of structs that have array fields (in memory such a field says where the array lies); copies into shapes."""

import gc

import numpy as np
import pytest

import sim


@sim.struct
class Weights:
    count: int
    w: sim.array2d(dtype=sim.vec3)


@sim.struct
class Body:
    mass: float
    x: sim.array(dtype=float)
    weights: Weights


@sim.kernel
def sums(bodies: sim.array(dtype=Body), out: sim.array(dtype=float)):
    i = sim.tid()
    body = bodies[i]
    total = body.mass
    for j in range(body.x.shape[0]):
        total += body.x[j]
    out[i] = total + body.weights.w[1, 0][2]


@sim.kernel
def grow(bodies: sim.array(dtype=Body)):
    i = sim.tid()
    bodies[i].x[0] = 7.0
    bodies[i].x[1] += 1.0
    bodies[i].mass = 3.0


@sim.kernel
def swap(a: sim.array(dtype=Body), b: sim.array(dtype=Body)):
    i = sim.tid()
    b[i] = a[1 - i]


@sim.kernel
def share(a: sim.array(dtype=Body)):
    a[0].x = a[1].x


@sim.kernel
def count_missing(a: sim.array(dtype=Body), out: sim.array(dtype=int)):
    if not a[sim.tid()].x:
        sim.atomic_add(out, 0, 1)


@sim.kernel
def square_masses(a: sim.array(dtype=Body), out: sim.array(dtype=float)):
    sim.atomic_add(out, 0, a[sim.tid()].mass ** 2.0)


def body(k):
    made = Body(mass=float(k), x=sim.array([1.0 * k, 2.0, 3.0]))
    made.weights.count = k
    rows = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    made.weights.w = sim.array(rows, dtype=sim.vec3)[:, ::-1]  # strides count
    return made


def test_kernels_read_and_write_the_arrays_of_structs_that_the_memory_keeps_alive():
    bodies, out = sim.array([body(1), body(2)], dtype=Body), sim.zeros(2)
    gc.collect()
    sim.launch(sums, 2, [bodies, out])
    np.testing.assert_array_equal(out.numpy(), [1 + 6 + 11, 2 + 7 + 11])
    sim.launch(grow, 2, [bodies])
    first, second = bodies.list()
    assert first.mass == 3.0 and second.weights.count == 2
    np.testing.assert_array_equal(first.x.numpy(), [7, 3, 3])
    np.testing.assert_array_equal(second.weights.w.numpy()[0, 0], [3, 4, 5])


def test_structs_are_copied_with_their_arrays():
    bodies = sim.array([body(1), body(2)], dtype=Body)
    swapped, out = sim.zeros_like(bodies), sim.zeros(1, dtype=int)
    sim.launch(count_missing, 2, [swapped, out])
    assert out.numpy()[0] == 2 and swapped.list()[0].x is None
    sim.launch(swap, 2, [bodies, swapped])
    assert [b.x.numpy()[0] for b in swapped.list()] == [2, 1]
    sim.launch(share, 1, [bodies])
    assert [b.x.numpy()[0] for b in bodies.list()] == [2, 2]
    copied = sim.clone(bodies)
    del bodies, swapped
    gc.collect()
    assert copied.list()[1].x.numpy()[0] == 2
    filled = sim.full(3, body(4), dtype=Body)
    assert filled.numpy()["weights"]["count"].tolist() == [4, 4, 4]
    record = np.empty(3, Body.numpy_dtype())
    record.fill(filled.list()[0].numpy_value())
    np.testing.assert_array_equal(record, filled.numpy())


def test_gradients_reach_the_numbers_of_such_structs_and_are_refused_through_their_arrays():
    bodies = sim.array([body(1), body(2)], dtype=Body, requires_grad=True)
    out = sim.zeros(1, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(square_masses, 2, [bodies, out])
        with pytest.raises(
            sim.GradientError, match=r"(?s)'sums' works on .* in an element of 'bodies': .*or a Body inst"
        ):
            sim.launch(sums, 2, [bodies, sim.zeros(2)])
    tape.backward(out)
    assert [g.mass for g in bodies.grad.list()] == [2, 4]


def test_what_does_not_fit_an_array_field_is_an_error():
    wrong = body(1)
    for value, what in (
        (sim.zeros(3, dtype=int), "expects dtype float32, got int32"),
        (sim.zeros((3, 2)), r"expects an array with 1 dimension\(s\), got 2 dimension"),
        ([1.0, 2.0], r"expects array\[float32\], got list; write sim.array"),
    ):
        with pytest.raises(TypeError, match=f"Struct field 'x' {what}"):
            wrong.x = value
    wrong.x = np.zeros(3, np.int32)  # another library's: looked at where it is used
    with pytest.raises(TypeError, match=r"field 'x' of Body: expected array.*got int32 of 1 dim"):
        sim.array([wrong], dtype=Body)
    wrong.x = sim.zeros(4)[sim.array([0, 2], dtype=int)]
    with pytest.raises(TypeError, match="contiguous"):
        sim.array([wrong], dtype=Body)

    @sim.kernel
    def store(a: sim.array(dtype=Body), x: sim.array(dtype=float)):
        made = Body()
        made.x = x
        a[0] = made

    with pytest.raises(sim.KernelError, match="cannot be put into an element"):
        sim.launch(store, 1, [sim.zeros(1, dtype=Body), sim.zeros(3)])


def test_contiguous_arrays_are_copied_into_another_shape_with_their_gradient():
    x = sim.array(np.arange(8, dtype=np.float32), requires_grad=True)
    cube = sim.zeros((2, 2, 2), requires_grad=True)
    with sim.Tape() as tape:
        sim.copy(cube, x)
    np.testing.assert_array_equal(cube.numpy().ravel(), np.arange(8))
    tape.backward(grads={cube: sim.array(np.arange(8, dtype=np.float32).reshape(2, 2, 2))})
    np.testing.assert_array_equal(x.grad.numpy(), np.arange(8))
    with pytest.raises(ValueError, match="cannot copy shape"):
        sim.copy(sim.zeros((4, 2))[:, ::-1], x)


@sim.kernel
def agree():
    sim.expect_eq(1, 1)


def test_a_message_without_numbers_compiles():
    sim.launch(agree, 1)
