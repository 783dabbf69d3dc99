"""Patterns whose gradients other frameworks get wrong silently (the table of 38 of NVIDIA Warp, and the situations that
every user meets): here each is right, or an error that says where."""

import inspect
import math
import sys

import numpy as np
import pytest
from tools.tapes.gradients import array, assert_gradient, backend, gradient
from tools.tapes.kernels import square, square_in_place

import sim

f64, vec2, vec3 = sim.float64, sim.vec2d, sim.vec3d


@pytest.fixture(autouse=True, params=["interp", "llvm", "cuda"])
def on_backend(request):
    with backend(request.param, sys.modules[__name__]):
        yield


def loss() -> sim.array:
    return sim.zeros(1, dtype=f64, requires_grad=True)


def like(x: sim.array) -> sim.array:
    return sim.zeros(x.shape, dtype=x.dtype, requires_grad=True)


@sim.kernel
def weighted(x: sim.array[f64], out: sim.array[f64]):
    i = sim.tid()
    sim.atomic_add(out, 0, x[i] * x[i] * f64(i + 1) + x[i])


def end(x: sim.array) -> sim.array:
    """A nonlinear number of everything in x."""
    out = loss()
    sim.launch(weighted, x.shape, inputs=[x], outputs=[out])
    return out


# ---- loops (rows 1 to 9)
@sim.kernel
def product(x: sim.array[f64], out: sim.array[f64]):
    p = f64(1.0)
    for i in range(x.shape[0]):
        p *= x[i]
    out[0] = p


@sim.kernel
def product_of_17(x: sim.array[f64], out: sim.array[f64]):
    p = f64(1.0)
    for i in range(17):
        p *= x[i % 3]
    out[0] = p


@sim.kernel
def product_with_break(x: sim.array[f64], out: sim.array[f64]):
    p = f64(1.0)
    for i in range(3):
        if p > 100.0:
            break
        p *= x[i]
    out[0] = p


@sim.kernel
def product_by_while(x: sim.array[f64], out: sim.array[f64]):
    p = f64(1.0)
    i = 0
    while i < 3:
        p = p * x[i]
        i += 1
    out[0] = p


@sim.kernel
def mean_after_loop(x: sim.array[f64], out: sim.array[f64]):
    s = f64(0.0)
    z = f64(0.0)
    for i in range(x.shape[0]):
        w = sim.exp(-x[i] * x[i])
        s += w * x[i]
        z += w
    out[0] = s / z


@sim.kernel
def newton_root(x: sim.array[f64], out: sim.array[f64]):
    i = sim.tid()
    z = f64(1.0)
    for _ in range(out.shape[0] * 6):
        z = 0.5 * (z + x[i] / z)
    sim.atomic_add(out, 0, z * x[i])


@sim.kernel
def pendulum(x: sim.array[f64], out: sim.array[f64]):
    q = x[0]
    v = x[1]
    for _ in range(20):
        v -= 0.1 * sim.sin(q) * x[2]
        q += 0.1 * v
    out[0] = q * q + v


@sim.kernel
def running_max(x: sim.array[f64], out: sim.array[f64]):
    best = f64(-1e9)
    for i in range(x.shape[0]):
        best = sim.max(best, x[i])
    out[0] = best


@sim.kernel
def nested_loops(x: sim.array[f64], out: sim.array[f64]):
    s = f64(0.0)
    for i in range(x.shape[0]):
        t = f64(0.0)
        for j in range(x.shape[0]):
            t += x[i] * x[j]
        s += t * t
    out[0] = s


LOOPS = [
    product,
    product_of_17,
    product_with_break,
    product_by_while,
    mean_after_loop,
    pendulum,
    running_max,
    nested_loops,
]


@pytest.mark.parametrize("kernel", LOOPS, ids=lambda k: k.name)
def test_loops(kernel):
    def program(x):
        out = loss()
        sim.launch(kernel, 1, inputs=[x], outputs=[out])
        return out

    (found,) = assert_gradient(program, array([1.7, 2.3, 1.9]))
    assert np.abs(found).sum() > 0.1


def test_newton_iteration_in_every_thread():
    def program(x):
        out = loss()
        sim.launch(newton_root, 3, inputs=[x], outputs=[out])
        return out

    x = array([2.0, 3.0, 0.5])
    np.testing.assert_allclose(assert_gradient(program, x)[0], 1.5 * np.sqrt(x.numpy()), rtol=1e-6)


# ---- overwrites (rows 10 to 17)


@sim.kernel
def double(x: sim.array[f64]):
    i = sim.tid()
    x[i] = 2.0 * x[i]


@sim.kernel
def square_then_overwrite(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = x[i] * x[i]
    x[i] = -1.0


@sim.kernel
def multiply_in_place(a: sim.array[f64], b: sim.array[f64]):
    i = sim.tid()
    a[i] *= b[i]


@sim.kernel
def divide_in_place(a: sim.array[f64], b: sim.array[f64]):
    i = sim.tid()
    a[i] /= b[i]


def read_then_overwritten_by_a_kernel(x):
    y = like(x)
    sim.launch(square, 3, inputs=[x], outputs=[y])
    sim.launch(double, 3, outputs=[x])
    return end(y)


def read_and_overwritten_in_one_kernel(x):
    y = like(x)
    sim.launch(square_then_overwrite, 3, inputs=[x], outputs=[y])
    return end(y)


def in_place(x):
    sim.launch(square_in_place, 3, outputs=[x])
    sim.launch(square_in_place, 3, outputs=[x])
    return end(x)


def filled_after_it_was_read(x):
    y = like(x)
    sim.launch(square, 3, inputs=[x], outputs=[y])
    x.fill_(7.0)
    return end(y)


def zeroed_on_the_tape(x):
    y = like(x)
    sim.launch(square, 3, inputs=[x], outputs=[y])
    y.zero_()
    sim.launch(double, 3, outputs=[y])
    return end(y)


def output_written_twice(x):
    y = like(x)
    sim.launch(square, 3, inputs=[x], outputs=[y])
    sim.launch(square, 3, inputs=[x], outputs=[y])
    return end(y)


def host_data_between(x):
    y = like(x)
    sim.launch(square, 3, inputs=[x], outputs=[y])
    x.assign([5.0, 6.0, 7.0])
    sim.launch(multiply_in_place, 3, inputs=[y], outputs=[x])
    return end(y)


def ping_pong(x):
    y = like(x)
    for _ in range(3):
        sim.launch(square, 3, inputs=[x], outputs=[y])
        x, y = y, x
    return end(x)


OVERWRITES = [
    read_then_overwritten_by_a_kernel, read_and_overwritten_in_one_kernel, in_place, filled_after_it_was_read,
    zeroed_on_the_tape, output_written_twice, host_data_between, ping_pong,
]  # fmt: skip


@pytest.mark.parametrize("program", OVERWRITES, ids=lambda f: f.__name__)
def test_overwrites(program):
    (found,) = assert_gradient(program, array([1.0, 1.2, 0.7]))
    assert (found == 0).all() == (program is zeroed_on_the_tape)


@pytest.mark.parametrize("kernel", [multiply_in_place, divide_in_place], ids=lambda k: k.name)
def test_updates_in_place_reach_both_operands(kernel):
    def program(a, b):
        sim.launch(kernel, 3, inputs=[a], outputs=[b])
        return end(a)

    assert_gradient(program, array([1.0, 2.0, 3.0]), array([4.0, 5.0, 0.5]))


# ---- components (rows 18 to 20, situations a and b)
@sim.kernel
def local_components(a: sim.array[vec2], y: sim.array[f64]):
    i = sim.tid()
    t = vec3()
    t[0] += a[i][0]
    t.y += a[i].y * a[i].x
    t[0] = 3.0 * t[0] * t[0]
    if a[i].x > 1.0:
        t[1] = t[0] * t[1]
    t.z -= t[1]
    y[i] = t.x * t.z + t[i % 3]


@sim.kernel
def stored_components(x: sim.array[f64], v: sim.array[vec3], m: sim.array[sim.mat22d], y: sim.array[f64]):
    i = sim.tid()
    v[i].x = x[i] * x[i]
    v[i][1] = 3.0 * x[i]
    v[i].x = x[i] * v[i].y
    v[i].z += x[i]
    v[i][i % 3] *= 2.0
    m[i][0, 1] = v[i].x * x[i]
    m[i][1] = vec2(x[i], v[i].z)
    y[i] = v[i].x * m[i][0, 1] + m[i][1, 1] * v[i].z + m[i][1, 0]


def test_components_of_local_vectors():
    def program(a):
        y = sim.zeros(3, dtype=f64, requires_grad=True)
        sim.launch(local_components, 3, inputs=[a], outputs=[y])
        return end(y)

    assert_gradient(program, array([[1.1, 0.4], [0.5, 2.0], [1.3, -0.6]], vec2))


def test_components_of_array_elements():
    def program(x, v, m):
        y = like(x)
        sim.launch(stored_components, 3, inputs=[x, v, m], outputs=[y])
        out = end(y)
        sim.launch(weighted, 9, inputs=[v.view(f64).flatten()], outputs=[out])
        return out

    rng = np.random.default_rng(0)
    assert_gradient(
        program,
        array([1.0, -0.4, 0.8]),
        array(rng.normal(size=(3, 3)), vec3),
        array(rng.normal(size=(3, 2, 2)), sim.mat22d),
    )


@sim.kernel
def local_arrays(x: sim.array[f64], y: sim.array[f64], n: int):
    i = sim.tid()
    a = sim.zeros(shape=4, dtype=f64)
    path = sim.zeros(shape=(5,), dtype=vec2)
    table = sim.zeros((2, 3), f64)
    for k in range(n):
        a[k % 4] = a[(k + 3) % 4] * 0.5 + x[i] * x[i]
        path[k % 5] = vec2(a[k % 4], x[i])
        table[k % 2, k % 3] += path[k % 5].x * a[0]
    y[i] = a[0] * a[1] + path[2].x * path[1].y + table[0, 1] * table[1, 2]


def test_arrays_made_inside_of_a_kernel():
    for n in (0, 3, 11):

        def program(x, n=n):
            y = like(x)
            sim.launch(local_arrays, 3, inputs=[x], outputs=[y, n])
            return end(y)

        assert_gradient(program, array([0.7, 1.1, -0.4]))


@pytest.mark.parametrize(("count", "words"), [(257, "at most 256 numbers"), (0, "constant extents")])
def test_other_arrays_made_inside_of_a_kernel_are_refused(count, words):
    @sim.kernel
    def stack(y: sim.array[f64]):
        a = sim.zeros(shape=count, dtype=f64)
        y[0] = a[0]

    with pytest.raises(sim.KernelError, match=rf"test_tape_patterns.py:\d+:\d+(.|\n)*{words}"):
        sim.launch(stack, 1, inputs=[array([0.0])])


# ---- atomics (rows 21 to 24)
@sim.kernel
def slots_by_counter(x: sim.array[f64], count: sim.array[int], y: sim.array[f64]):
    i = sim.tid()
    k = sim.atomic_add(count, 0, 1)
    y[k] = sim.sqrt(x[i])


def test_slots_given_out_by_a_counter():
    def program(x):
        y, count = like(x), sim.zeros(1, dtype=int)
        sim.launch(slots_by_counter, 3, inputs=[x, count], outputs=[y])
        return end(y)

    assert_gradient(program, array([1.0, 2.0, 4.0]))


@sim.kernel
def value_of_atomic_add(x: sim.array[f64], t: sim.array[f64], y: sim.array[f64]):
    y[sim.tid()] = sim.atomic_add(t, 0, x[sim.tid()])


@sim.kernel
def exchanged(x: sim.array[f64], y: sim.array[f64]):
    sim.atomic_exch(y, 0, x[0])


@sim.kernel
def extremes(x: sim.array[f64], index: sim.array[int], largest: sim.array[f64], smallest: sim.array[f64]):
    i = sim.tid()
    sim.atomic_max(largest, index[i], x[i] * x[i])
    for k in range(2):
        sim.atomic_min(smallest, k, sim.sin(x[i]) * f64(k + 1))


def test_the_gradient_of_an_atomic_extreme_goes_to_the_first_that_set_it():
    def program(x):
        largest, smallest = array([0.3, 0.1, 9.0]), array([5.0, 5.0])
        sim.launch(extremes, 7, inputs=[x, sim.array(np.arange(7) % 3, dtype=int)], outputs=[largest, smallest])
        both = array(np.zeros(5))
        sim.copy(both, largest)
        sim.copy(both, smallest, dest_offset=3)
        return end(both)

    assert_gradient(program, array([0.1, -0.7, 1.3, 0.4, 0.9, -1.1, 0.6]))
    x, largest, smallest = array([1.0, 2.0, 2.0]), array([0.0]), array([9.0, 9.0])
    with sim.Tape() as tape:
        sim.launch(extremes, 3, inputs=[x, sim.zeros(3, dtype=int)], outputs=[largest, smallest])
    tape.backward(loss=largest)
    assert x.grad.numpy().tolist() == [0.0, 4.0, 0.0] and largest.grad.numpy().tolist() == [0.0]


@pytest.mark.parametrize("kernel", [value_of_atomic_add, exchanged], ids=lambda k: k.name)
def test_atomics_with_a_gradient_are_refused(kernel):
    x, y = array([1.0, 2.0]), array([0.0, 0.0])
    extra = [array([0.0])] if kernel is value_of_atomic_add else []
    how = {"value_of_atomic_add": "add", "exchanged": "exch"}[kernel.name]
    line = inspect.getsourcelines(kernel.function.python)[1]
    with pytest.raises(
        sim.GradientError,
        match=rf"test_tape_patterns.py:({'|'.join(str(line + k) for k in range(4))}):(.|\n)*atomic_{how}",
    ):
        gradient(lambda x: sim.launch(kernel, 2, inputs=[x, *extra], outputs=[y]) or end(y), [x])


# ---- the library (rows 34 to 36)
@sim.kernel
def guarded(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = sim.where(x[i] > 0.0, sim.sqrt(x[i]), 0.0) + sim.frac(x[i]) * x[i]


def test_guarded_root_and_fraction():
    x = array([0.0, 4.0, 2.25])

    def program(x):
        y = like(x)
        sim.launch(guarded, 3, inputs=[x], outputs=[y])
        return end(y)

    (found,) = gradient(program, [x])
    y, slope = [0.0, 2.0, 1.5 + 0.25 * 2.25], [0.0, 0.25 + 0.0 + 4.0, 1 / 3 + 0.25 + 2.25]
    np.testing.assert_allclose(
        found, [s * (2 * v * (i + 1) + 1) for i, (v, s) in enumerate(zip(y, slope, strict=True))]
    )


@sim.kernel
def rotation_part(m: sim.array[sim.mat33d], y: sim.array[f64]):
    u, _, v = sim.svd3(m[0])
    r = u @ sim.transpose(v)
    y[0] = r[0, 1] * 3.0 + r[1, 2] - 2.0 * r[0, 2]


def test_polar_rotation_at_the_identity():
    def program(m):
        y = sim.zeros(1, dtype=f64, requires_grad=True)
        sim.launch(rotation_part, 1, inputs=[m], outputs=[y])
        return y

    (found,) = gradient(program, [array([np.eye(3)], sim.mat33d)])
    weights = np.array([[0, 3.0, -2.0], [0, 0, 1.0], [0, 0, 0]])
    np.testing.assert_allclose(found.reshape(3, 3), (weights - weights.T) / 2, atol=1e-9)
    assert math.isclose(found.max(), 1.5)


# ---- what the tape keeps, and what it cannot see
def test_the_tape_says_what_it_keeps_and_why():
    x, y = array(np.ones(1000)), array(np.zeros(1000))

    with sim.Tape() as tape:
        sim.launch(square_into, 1000, inputs=[x], outputs=[y])
        x.fill_(3.0)
    (entry,) = tape.memory()
    assert entry.nbytes == 8000 and entry.kind == "copy" and tape.bytes_kept == 8000
    assert "'x' of the launch of 'square_into'" in entry.reason and "overwritten by the fill" in entry.reason
    assert "8000 bytes in all" in str(tape.memory())
    tape.backward(grads={y: sim.ones_like(y)})
    assert (x.grad.numpy() == 2.0).all() and (x.numpy() == 3.0).all()  # by the ones that x held at first


@sim.kernel
def square_into(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = x[i] * x[i]


def test_numpy_views_are_read_only_while_a_tape_records():
    x = array([1.0, 2.0])
    with sim.Tape():
        view = x.numpy()
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 5.0
    if x.device.is_cpu:
        x.numpy()[0] = 5.0
        assert x.numpy()[0] == 5.0
    else:  # there it is a copy: writing to it would be lost
        with pytest.raises(ValueError, match="read-only"):
            x.numpy()[0] = 5.0


def test_a_bookmark_holds_on_its_own_tape_until_that_is_reset():
    x, tape, other = sim.zeros(2, requires_grad=True), sim.Tape(), sim.Tape()
    assert tape.bookmark() is None
    with tape:
        x.fill_(1.0)
        bookmark = tape.bookmark()
        x.fill_(2.0)
    with other:
        x.fill_(1.0)
    assert bookmark is not None and bookmark.place == 0
    assert tape.holds(bookmark) and not other.holds(bookmark)
    tape.reset()
    assert not tape.holds(bookmark)
