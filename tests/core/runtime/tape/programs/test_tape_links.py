"""What connects a loss with its parameters: copies, arrays without gradient, structs, library sums, several tapes and
seeds."""

import sys

import numpy as np
import pytest
from tools.tapes.gradients import array, assert_gradient, backend, gradient
from tools.tapes.kernels import square, square_in_place, total

import sim

f64, vec3 = sim.float64, sim.vec3d


@pytest.fixture(autouse=True, params=["interp", "llvm", "cuda"])
def on_backend(request):
    with backend(request.param, sys.modules[__name__]):
        yield


@sim.kernel
def product(x: sim.array[f64], w: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = x[i] * w[i]


@sim.kernel
def round_up(x: sim.array[f64], n: sim.array[int]):
    i = sim.tid()
    n[i] = int(x[i]) + 1


@sim.kernel
def scaled(n: sim.array[int], x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = f64(n[i]) * x[i]


@sim.kernel
def through_scratch(x: sim.array[f64], scratch: sim.array2d[f64], y: sim.array[f64]):
    i = sim.tid()
    for j in range(scratch.shape[1]):
        scratch[i, j] = x[i] * f64(j)
    s = f64(0.0)
    for j in range(scratch.shape[1]):
        s += scratch[i, j] * scratch[i, j]
    y[i] = s


def end(y: sim.array) -> sim.array:
    out = sim.zeros(1, dtype=f64, requires_grad=True)
    sim.launch(square_in_place, y.shape, outputs=[y])
    sim.launch(total, y.shape, inputs=[y], outputs=[out])
    return out


def like(x: sim.array, needed: bool = True) -> sim.array:
    return sim.zeros(x.shape, dtype=x.dtype, requires_grad=needed)


# ---- arrays without gradient on the way (row 25)
def lost_at_once(x, a, b, y):
    sim.launch(square, 3, inputs=[x], outputs=[a])
    sim.launch(square, 3, inputs=[a], outputs=[y])


def lost_along_a_chain(x, a, b, y):
    sim.launch(square, 3, inputs=[x], outputs=[a])
    sim.launch(square, 3, inputs=[a], outputs=[b])
    sim.launch(square, 3, inputs=[b], outputs=[y])


def lost_in_a_copy(x, a, b, y):
    sim.launch(square, 3, inputs=[x], outputs=[a])
    b.assign(a)
    y.assign(b)


def lost_in_part(x, a, b, y):
    a.fill_(1.0)
    sim.launch(square, 1, inputs=[x[2:]], outputs=[a[1:2]])
    a[::2].zero_()
    sim.launch(square, 3, inputs=[a], outputs=[y])


def lost_in_place(x, a, b, y):
    sim.launch(square, 3, inputs=[x], outputs=[a])
    sim.launch(square_in_place, 3, outputs=[a])
    sim.launch(square, 3, inputs=[a], outputs=[y])


def lost_in_a_sum(x, a, b, y):
    sim.utils.array_scan(x, a)
    sim.launch(square, 3, inputs=[a], outputs=[y])


@pytest.mark.parametrize(
    "program",
    [lost_at_once, lost_along_a_chain, lost_in_a_copy, lost_in_part, lost_in_place, lost_in_a_sum],
    ids=lambda f: f.__name__,
)
def test_an_intermediate_without_gradient_is_an_error(program):
    x = array([0.7, 0.9, 1.1])
    a, b, y = like(x, False), like(x, False), like(x)
    with pytest.raises(sim.GradientError, match="from values with a gradient, but had none itself"), sim.Tape():
        program(x, a, b, y)

    def linked(x):
        y = like(x)
        program(x, like(x), like(x), y)
        return end(y)

    assert_gradient(linked, x)  # with gradients everywhere the same program passes


def test_the_message_names_array_reader_and_writer():
    x, a, y = array([1.0, 2.0, 3.0]), sim.zeros(3, dtype=f64), array([0.0, 0.0, 0.0])
    with sim.Tape():
        sim.launch(square, 3, inputs=[x], outputs=[a])
        with pytest.raises(sim.GradientError) as error:
            sim.launch(scaled, 3, inputs=[sim.zeros(3, dtype=int), a], outputs=[y])
    text = str(error.value)
    assert (
        "launch of 'scaled' (as 'x') reads an array of shape (3,)" in text
        and "written as 'y' of kernel 'square'" in text
    )
    assert "requires_grad=True" in text and "sim.clone(a, requires_grad=False)" in text


def test_scratch_memory_inside_of_one_kernel():
    x = array([1.0, 2.0, 3.0])

    def program(x, needed=True):
        y = like(x)
        sim.launch(through_scratch, 3, inputs=[x, sim.zeros((3, 4), dtype=f64, requires_grad=needed)], outputs=[y])
        return end(y)

    with pytest.raises(
        sim.GradientError, match="written to 'y' here depends on values with a gradient that pass through 'scratch'"
    ):
        gradient(lambda x: program(x, False), [x])


def test_what_carries_no_gradient_may_pass_through_anything():
    def program(x):
        steps, weights, y = sim.zeros(3, dtype=int), sim.zeros(3, dtype=f64), like(x)
        sim.launch(round_up, 3, inputs=[x], outputs=[steps])  # an integer has no gradient
        sim.launch(square, 3, inputs=[sim.clone(x, requires_grad=False)], outputs=[weights])  # cut on purpose
        sim.launch(scaled, 3, inputs=[steps, x], outputs=[y])
        return end(y)

    x = array([1.3, 2.4, 3.2])
    (found,) = gradient(program, [x])
    np.testing.assert_allclose(found, 2.0 * np.array([2.0, 3, 4]) ** 2 * x.numpy())


def test_overwriting_all_of_an_array_mends_the_link():
    x, a, y = array([1.0, 2.0, 3.0]), sim.zeros(3, dtype=f64), array([0.0, 0.0, 0.0])
    with sim.Tape():
        sim.launch(square, 3, inputs=[x], outputs=[a])
        a.fill_(2.0)
        sim.launch(square, 3, inputs=[a], outputs=[y])


# ---- copies (situation c)
def clones(x):
    y = sim.clone(x)
    sim.launch(square_in_place, 4, outputs=[x])
    z = sim.clone(x)
    z.assign(y)
    sim.copy(z, x, dest_offset=1, src_offset=2, count=2)
    x[::2].assign(y[2:])
    sim.launch(square_in_place, 4, outputs=[y])
    out = end(z)
    sim.launch(total, 4, inputs=[x], outputs=[out])
    sim.launch(total, 4, inputs=[y], outputs=[out])
    return out


def overlapping_copies(x):
    x[1:].assign(x[:3])
    x[:3].assign(x[1:])
    sim.launch(square_in_place, 2, outputs=[x[1:3]])
    x[3:0:-1].assign(x[:3])
    return end(x)


def snapshot_of_a_state(x):
    start = sim.clone(x)
    sim.launch(square_in_place, 4, outputs=[x])
    middle = sim.clone(x)
    sim.launch(square_in_place, 4, outputs=[x])
    x.assign(start)
    sim.launch(square_in_place, 4, outputs=[x])
    out = end(middle)
    sim.launch(total, 4, inputs=[x], outputs=[out])
    return out


def assigned_from_the_host(x):
    x.assign(x.numpy() * 1.0)
    return end(x)


@pytest.mark.parametrize("program", [clones, overlapping_copies, snapshot_of_a_state], ids=lambda f: f.__name__)
def test_copies(program):
    (found,) = assert_gradient(program, array([0.5, 0.9, 1.1, 1.4]))
    assert np.abs(found).sum() > 0


def test_host_data_has_no_gradient():
    assert (gradient(assigned_from_the_host, [array([0.5, 0.9])])[0] == 0).all()


def test_copying_into_a_smaller_array_raises():
    with pytest.raises(ValueError, match=r"cannot copy shape \(3,\) into shape \(2,\)"):
        sim.zeros(2).assign(sim.zeros(3))


def test_a_clone_inherits_and_has_a_gradient_of_its_own():
    x = array([1.0, 2.0])
    y, z = sim.clone(x), sim.clone(x, requires_grad=False)
    assert y.requires_grad and y.grad.buffer is not x.grad.buffer and not z.requires_grad and z.grad is None


# ---- structs (row 26), sums (row 27), recorded launches (row 28)
@sim.struct
class Sheet:
    scale: f64
    x: sim.array[f64]
    out: sim.array[f64]


@sim.kernel
def of_a_struct(s: Sheet):
    i = sim.tid()
    s.out[i] = s.scale * s.x[i] * s.x[i]


def test_requires_grad_set_after_the_array_went_into_a_struct():
    sheet = Sheet()
    sheet.scale, sheet.x, sheet.out = 3.0, array([1.0, 2.0], gradient=False), array([0.0, 0.0], gradient=False)
    sheet.x.requires_grad = sheet.out.requires_grad = True
    with sim.Tape() as tape:
        sim.launch(of_a_struct, 2, inputs=[sheet])
        sheet_scale, sheet.scale = sheet.scale, 100.0  # what was launched stays what it was
        out = end(sheet.out)
    tape.backward(out)
    np.testing.assert_allclose(
        sheet.x.grad.numpy(), 2 * (sheet_scale * np.array([1.0, 4])) * 2 * sheet_scale * np.array([1.0, 2])
    )


def library_sums(x, v):
    out, inner, scan = (sim.zeros(n, dtype=f64, requires_grad=True) for n in (1, 1, 4))
    sim.utils.array_sum(x, out)
    sim.utils.array_inner(v, v, inner)
    sim.utils.array_scan(x, scan, inclusive=False)
    sim.launch(square, 1, inputs=[out], outputs=[x[:1]])
    sim.launch(square, 1, inputs=[inner], outputs=[x[1:2]])
    y = end(scan)
    sim.launch(total, 2, inputs=[x], outputs=[y])
    return y


def test_library_sums():
    rng = np.random.default_rng(2)
    x, v = array(rng.normal(size=4)), array(rng.normal(size=(5, 3)), vec3)
    assert_gradient(library_sums, x, v, tolerance=1e-6)
    assert (
        sim.utils.array_sum(x) == pytest.approx(x.numpy().sum())
        and sim.utils.array_sum(x[::3]) == x.numpy()[0] + x.numpy()[3]
    )
    with pytest.raises(sim.GradientError, match="array_sum on an open tape returns a number.*\n.*out="), sim.Tape():
        sim.utils.array_sum(x)


def sorted_pairs(x, v):
    order = sim.array(np.arange(5, dtype=np.int32))
    sim.utils.radix_sort_pairs(x, v, 4)  # the last one stays
    sim.utils.radix_sort_pairs(x, order, 5)
    sim.launch(square, 2, inputs=[x[3:]], outputs=[x[:2]])
    y = end(x)
    sim.launch(weighted_vectors, 5, inputs=[v], outputs=[y])
    return y


@sim.kernel
def weighted_vectors(v: sim.array[vec3], out: sim.array[f64]):
    i = sim.tid()
    sim.atomic_add(out, 0, sim.dot(v[i], v[i]) * f64(i + 1))


def test_gradients_move_with_sorted_elements():
    assert_gradient(
        sorted_pairs, array([0.7, -0.4, 1.2, 0.1, 0.3]), array(np.random.default_rng(2).normal(size=(5, 3)), vec3)
    )
    keys, values = sim.array([3, 1, 3, 2, 0], dtype=int), sim.array([0, 1, 2, 3, 4], dtype=int)
    sim.utils.radix_sort_pairs(keys, values, 4)
    assert keys.list() == [1, 2, 3, 3, 0] and values.list() == [1, 3, 0, 2, 4]
    for wrong, words in (((keys, values, 6), "at least count=6"), ((sim.zeros(3, dtype=vec3), values, 1), "numbers")):
        with pytest.raises((ValueError, TypeError), match=words):
            sim.utils.radix_sort_pairs(*wrong)


def test_recorded_launches_on_a_tape():
    x, y = array([1.0, 2.0, 3.0]), array([0.0, 0.0, 0.0])
    command = sim.launch(square, 3, inputs=[x], outputs=[y], record_cmd=True)
    with sim.Tape() as tape:
        command.launch()
        sim.launch(square_in_place, 3, outputs=[x])
        command.launch()
        out = end(y)
    tape.backward(out)
    np.testing.assert_allclose(x.grad.numpy(), 8.0 * np.array([1.0, 2, 3]) ** 7)


# ---- seeds and repeated sweeps (row 37, situation e)
def test_a_second_backward_adds_exactly_and_zero_clears():
    x, y = array([1.1, 2.2, 3.3]), array([0.0, 0.0, 0.0])
    with sim.Tape() as tape:
        sim.launch(square, 3, inputs=[x], outputs=[y])
        sim.launch(square_in_place, 3, outputs=[x])
        out = end(y)
    tape.backward(out)
    once = x.grad.numpy().copy()
    tape.backward(out)
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * once)
    tape.zero()
    assert not x.grad.numpy().any() and not out.grad.numpy().any()
    tape.backward(out)
    np.testing.assert_array_equal(x.grad.numpy(), once)


def test_weights_are_not_changed_and_those_of_overlapping_arrays_add_up():
    x, y = array([1.0, 2.0, 3.0]), array([0.0, 0.0, 0.0])
    with sim.Tape() as tape:
        sim.launch(square, 3, inputs=[x], outputs=[y])
    w = sim.array(np.array([1.0, 10.0, 100.0]), dtype=f64)
    tape.backward(grads={y: w, y[1:]: w[:2]})
    np.testing.assert_array_equal(w.numpy(), [1, 10, 100])
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.array([1.0, 2, 3]) * [1, 11, 110])


def test_what_one_backward_left_is_no_seed_of_the_next_tape():
    x = array([1.0, 2.0, 3.0])
    with sim.Tape() as first:
        y = sim.clone(x)
        out = end(y)
    first.backward(out)
    left = x.grad.numpy().copy()
    with sim.Tape() as second:
        out = end(x)  # overwrites x
    second.backward(out)
    np.testing.assert_allclose(x.grad.numpy(), left + 2 * np.array([1.0, 2, 3]))


def test_what_a_backward_left_in_structs_is_no_seed_either():
    @sim.struct
    class Point:
        mass: f64
        tag: int
        x: sim.vec2f

    @sim.kernel
    def grow(p: sim.array[Point]):
        i = sim.tid()
        p[i].mass = p[i].mass * p[i].mass
        p[i].x *= 2.0
        p[i].tag += 1

    start, weight = sim.zeros(2, dtype=Point, device="cpu").numpy(), sim.zeros(2, dtype=Point, device="cpu").numpy()
    start["mass"][:], weight["mass"][:], weight["x"][:] = [3.0, 5.0], [1.0, 1.0], 1.0
    p, w = sim.array(start, dtype=Point, requires_grad=True), sim.array(weight, dtype=Point)
    with sim.Tape() as tape:
        sim.launch(grow, 2, outputs=[p])
    for times in (1, 2):
        tape.backward(grads={p: w})
        np.testing.assert_array_equal(p.grad.numpy()["mass"], times * np.array([6.0, 10.0]))
        np.testing.assert_array_equal(p.grad.numpy()["x"], np.full((2, 2), 2.0 * times))
        assert not p.grad.numpy()["tag"].any()


@pytest.mark.parametrize("change", ["zero", "backward", "adjoint launch", "reset"])
def test_a_gradient_that_another_tape_read_as_a_value(change):
    x, y, z, w = array([1.0, 2.0]), array([0.0, 0.0]), array([0.0, 0.0]), array([3.0, 4.0])
    with sim.Tape() as first:
        sim.launch(square, 2, inputs=[x], outputs=[y])
    first.backward(grads={y: array([1.0, 1.0])})
    with sim.Tape() as second:
        sim.launch(product, 2, inputs=[x.grad, w], outputs=[z])
    if change == "zero":
        first.zero()
    elif change == "backward":
        first.backward(grads={y: array([1.0, 1.0])})
    elif change == "adjoint launch":
        y.grad.fill_(1.0)
        sim.launch(square, 2, inputs=[x], outputs=[y], adjoint=True)
    else:
        first.reset()
    second.backward(grads={z: array([1.0, 1.0])})
    assert w.grad.list() == [2.0, 4.0]


def test_errors_of_backward():
    x, y, plain = array([1.0, 2.0]), array([0.0, 0.0]), sim.zeros(1, dtype=f64)
    with sim.Tape() as empty:
        pass
    with sim.Tape() as tape:
        sim.launch(square, 2, inputs=[x], outputs=[y])
    rows = [
        (empty, {"loss": y}, "backward on a tape that recorded nothing"),
        (tape, {"loss": y}, r"the loss is \(2,\); expected an array with one element"),
        (tape, {"loss": 3.0}, "the loss is float"),
        (tape, {"loss": plain}, "does not require a gradient"),
        (tape, {"loss": array([0.0])}, "the loss was neither written nor read on this tape"),
        (tape, {}, "nothing to start from"),
        (
            tape,
            {"grads": {y: np.ones(3)}},
            r"the weights of an array of shape \(2,\) of float64 are of shape \(3,\) of float64",
        ),
        (tape, {"grads": {y: sim.ones(2)}}, r"are of shape \(2,\) of float32"),
        (tape, {"grads": {y: "ones"}}, r"the weights of an array of shape \(2,\) of float64: "),
        (tape, {"grads": {y.numpy().tobytes(): y}}, "backward starts from a bytes"),
        (tape, {"grads": {plain: plain}}, "does not require a gradient"),
    ]
    for which, arguments, message in rows:
        with pytest.raises(sim.GradientError, match=message):
            which.backward(**arguments)
    assert not x.grad.numpy().any()
    with pytest.raises(ValueError, match="expected 'save' or 'error'"):
        sim.Tape(on_overwrite="copy")


def test_one_tape_at_a_time():
    with sim.Tape() as tape:
        for other in (tape, sim.Tape()):
            with (
                pytest.raises(
                    sim.GradientError,
                    match=r"already recording since .*test_tape_links.py:\d+: the arrays (.|\n)*belong to it",
                ),
                other,
            ):
                pass
    with tape, pytest.raises(ZeroDivisionError):
        1 / 0  # noqa: B018
    with sim.Tape():
        pass
