"""Kernels that overwrite in a loop what they read there: their adjoint performs the stores again and takes them
back."""

import sys

import numpy as np
import pytest
from tools.tapes.gradients import array, assert_gradient, backend

import sim
from sim.core.lang.autodiff import checkpoints
from sim.core.lang.autodiff.kernel_adjoint import kernel_adjoint
from sim.core.lang.autodiff.to_be_recorded import to_be_recorded
from sim.core.lang.ir.core import walk
from sim.core.lang.types import array_type

f64, vec3 = sim.float64, sim.vec3d


@pytest.fixture(autouse=True, params=["interp", "llvm", "cuda"])
def on_backend(request):
    with backend(request.param, sys.modules[__name__]):
        yield


@sim.kernel
def recurrence(x: sim.array2d[f64], out: sim.array[f64], n: int):
    i = sim.tid()
    for j in range(n):
        x[i, (j + 1) % 4] = sim.sin(x[i, j % 4]) * 1.2 + x[i, (j + 1) % 4] * 0.3
    sim.atomic_add(out, 0, x[i, 0] * x[i, 2])


@sim.kernel
def linear_carry_is_stored(x: sim.array2d[f64], out: sim.array[f64], n: int):
    i = sim.tid()
    a = x[i, 3]
    b = f64(1.0)
    for j in range(n):
        a = 0.6 * a - 0.3 * x[i, j % 4]
        x[i, (j + 1) % 4] = 0.5 * a
        b = b * (1.0 + x[i, (j + 2) % 4])
    sim.atomic_add(out, 0, b)


@sim.kernel
def while_with_a_way_out(x: sim.array2d[f64], out: sim.array[f64], n: int):
    i = sim.tid()
    k = 0
    s = f64(0.0)
    while k < n:
        x[i, k % 3] = x[i, k % 3] * x[i, 3] + 0.2
        s += x[i, (k + 1) % 3] * x[i, k % 3]
        if s > 4.0:
            break
        if x[i, 0] < 0.0:
            k += 2
            continue
        k += 1
    sim.atomic_add(out, 0, s * x[i, 1])


@sim.kernel
def nested_with_accumulation(x: sim.array2d[f64], out: sim.array[f64], n: int):
    i = sim.tid()
    for j in range(n):
        for k in range(j % 4):
            x[i, k] += 0.1 * x[i, k + 1] * x[i, k]
        if j % 2 == 1:
            x[i, 3] = x[i, 3] * x[i, 0] * 0.5
    sim.atomic_add(out, 0, x[i, 3] + x[i, 0] * x[i, 1])


@sim.kernel
def stores_before_between_and_after(x: sim.array2d[f64], out: sim.array[f64], n: int):
    i = sim.tid()
    x[i, 0] = x[i, 1] * x[i, 2]
    for j in range(n):
        x[i, 1] = x[i, 0] * x[i, 1] + 0.1
        if x[i, 1] > 0.3:
            x[i, 2] = x[i, 1] * x[i, 2]
            for k in range(j):
                x[i, 0] = x[i, 0] * 0.9 * x[i, 2] + f64(k) * 0.01
        x[i, 0] = sim.sin(x[i, 0]) + x[i, 2]
    x[i, 0] = x[i, 0] * x[i, 0]
    sim.atomic_add(out, 0, x[i, 0] * x[i, 1] * x[i, 2])


@sim.kernel
def a_branch_finds_a_value_and_whether_to_store(x: sim.array2d[f64], out: sim.array[f64], n: int):
    i = sim.tid()
    if n > 0:
        more = True
        w = f64(0.5)
        if n % 3 == 0:
            more = n < 5
            w = x[i, 0]
        if more:
            x[i, n % 3] = w * x[i, 1]
    for _ in range(n):
        x[i, 0] = x[i, 0] * x[i, 1] + 0.3
    sim.atomic_add(out, 0, x[i, 0] * x[i, 1])


@sim.kernel
def a_branch_stores_and_ends_the_loop(x: sim.array2d[f64], out: sim.array[f64], n: int):
    i = sim.tid()
    for j in range(n):
        if n % 2 == 1:
            x[i, 0] = x[i, 0] * x[i, 1]
            if j > 1:
                break
            if n > 6:
                continue
        x[i, 1] = x[i, 0] * x[i, 1] + 0.2
    if n > 1:
        if n % 3 == 0:
            x[i, 2] = x[i, 0] * x[i, 1]
            if n > 5:
                return
        x[i, 1] = x[i, 2] * x[i, 1]
        for _ in range(n):
            x[i, 0] = x[i, 0] * x[i, 1] + 0.3
    sim.atomic_add(out, 0, x[i, 0] * x[i, 1])


KERNELS = [
    a_branch_stores_and_ends_the_loop,
    a_branch_finds_a_value_and_whether_to_store,
    recurrence,
    linear_carry_is_stored,
    while_with_a_way_out,
    nested_with_accumulation,
    stores_before_between_and_after,
]


@pytest.mark.parametrize("slots", [2, 4, 512])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_replay(kernel, slots, monkeypatch):
    monkeypatch.setattr(checkpoints, "SLOTS", slots)
    values = np.random.default_rng(4).uniform(0.3, 0.9, size=(2, 4))
    for n in (0, 1, 3, 7) if slots > 4 else (23,):

        def program(x, n=n):
            out = sim.zeros(1, dtype=f64, requires_grad=True)
            sim.launch(kernel, 2, inputs=[x], outputs=[out, n])
            return out

        (found,) = assert_gradient(program, array(values), tolerance=2e-6)
        assert n == 0 or np.abs(found).max() > 1e-3


@sim.kernel
def moving_targets(x: sim.array2d[f64], at: sim.array2d[int], v: sim.array[vec3], out: sim.array[f64], n: int):
    i = sim.tid()
    for j in range(n):
        k = at[i, j % 2]
        v[i][k % 3] = v[i][(k + 1) % 3] * x[i, k % 4] + 0.1
        at[i, (j + 1) % 2] = (k * 2 + j) % 5
        x[i, k % 4] = v[i].y * 0.7
    sim.atomic_add(out, 0, v[i].x * v[i].y * x[i, 1])


def test_indices_and_components_are_overwritten_too():
    def program(x, v):
        out, at = sim.zeros(1, dtype=f64, requires_grad=True), sim.array([[0, 1], [3, 2]], dtype=sim.int32)
        sim.launch(moving_targets, 2, inputs=[x, at, v], outputs=[out, 9])
        return out

    rng = np.random.default_rng(5)
    found = assert_gradient(
        program, array(rng.uniform(0.5, 1.5, size=(2, 4))), array(rng.uniform(0.5, 1.5, size=(2, 3)), vec3)
    )
    assert all(np.abs(f).max() > 1e-3 for f in found)


@sim.struct
class Mixed:
    value: f64
    count: int
    scale: sim.float32


@sim.struct
class Wide:
    value: f64
    count: sim.int64


@sim.kernel
def of_mixed_fields(p: sim.array[Mixed], n: int):
    i = sim.tid()
    for _ in range(n):
        p[i].value = p[i].value * p[i].value * f64(p[i].count)
        p[i].count += 1
        p[i].scale = p[i].scale * p[i].scale * 0.5


LARGE = 2**60


@sim.kernel
def of_wide_fields(p: sim.array[Wide], n: int):
    i = sim.tid()
    for _ in range(n):
        p[i].count += sim.int64(1)
        p[i].value = p[i].value * p[i].value * f64(p[i].count - sim.int64(LARGE))


@sim.kernel
def of_wide_fields_sometimes(p: sim.array[Wide], n: int):
    i = sim.tid()
    for _ in range(n):
        if p[i].value > -1.0:
            p[i].count += sim.int64(1)
            p[i].value = p[i].value * p[i].value * f64(p[i].count - sim.int64(LARGE))


def test_structs_of_several_types():
    start, weight = sim.zeros(2, dtype=Mixed, device="cpu").numpy(), sim.zeros(2, dtype=Mixed, device="cpu").numpy()
    start["value"], start["count"], start["scale"] = [1.1, 0.9], [1, 2], [1.5, 0.5]
    weight["value"], weight["scale"] = 1.0, 3.0
    points, weights = sim.array(start, dtype=Mixed, requires_grad=True), sim.array(weight, dtype=Mixed)
    v, c, s = (start[name].copy() for name in ("value", "count", "scale"))
    with sim.Tape() as tape:
        sim.launch(of_mixed_fields, 2, inputs=[points, 3])
    end = points.numpy().copy()
    np.testing.assert_allclose(end["value"], v**8 * c**4 * (c + 1.0) ** 2 * (c + 2))
    tape.backward(grads={points: weights})
    np.testing.assert_array_equal(points.numpy(), end)
    np.testing.assert_allclose(points.grad.numpy()["value"], 8 * v**7 * c**4 * (c + 1.0) ** 2 * (c + 2))
    np.testing.assert_allclose(points.grad.numpy()["scale"], 3.0 * 8 * s**7 / 2**7, rtol=1e-6)


@pytest.mark.parametrize("kernel", [of_wide_fields, of_wide_fields_sometimes], ids=lambda k: k.name)
def test_large_integers_are_kept_exactly(kernel):
    start = sim.zeros(2, dtype=Wide, device="cpu").numpy()
    start["value"], start["count"] = [1.1, 0.9], LARGE
    points, weights = sim.array(start, dtype=Wide, requires_grad=True), sim.array(start, dtype=Wide)
    with sim.Tape() as tape:
        sim.launch(kernel, 2, inputs=[points, 3])
    end = points.numpy().copy()
    np.testing.assert_array_equal(end["count"], LARGE + 3)
    np.testing.assert_allclose(end["value"], 12 * start["value"] ** 8)
    tape.backward(grads={points: weights})
    np.testing.assert_array_equal(points.numpy(), end)
    np.testing.assert_allclose(points.grad.numpy()["value"], 96 * start["value"] ** 8)


@sim.kernel
def two_names(x: sim.array[f64], y: sim.array[f64], n: int):
    i = 2 * sim.tid()
    for _ in range(n):
        x[i] = x[i] * y[i + 1]
        y[i + 1] = sim.sin(y[i]) * x[i + 2] + x[i]


@sim.kernel
def two_names_sometimes(x: sim.array[f64], y: sim.array2d[f64], n: int):
    for k in range(n):
        if y[0, 1] > 0.2:
            x[k % 2] = x[k % 2] * y[0, 1] + 0.1
        y[0, k % 3] = y[0, k % 3] * x[1] + 0.3


@sim.kernel
def weighted_sum(x: sim.array[f64], out: sim.array[f64]):
    i = sim.tid()
    sim.atomic_add(out, 0, x[i] * f64(i + 1))


@pytest.mark.parametrize("shared", [False, True])
def test_one_memory_under_two_written_names(shared):
    if shared and not sim.get_device().is_cpu:
        pytest.skip("memory of NumPy is shared with the CPU only")

    def program(x, kernel, views):
        host = np.zeros(8)
        z = (
            sim.from_numpy(host, requires_grad=True, copy=False)
            if shared
            else sim.zeros(8, dtype=f64, requires_grad=True)
        )
        sim.copy(z, x)
        sim.launch(kernel, 1, inputs=[*views(z), 5])
        out = sim.zeros(1, dtype=f64, requires_grad=True)
        sim.launch(weighted_sum, 8, inputs=[z], outputs=[out])
        return out

    start = np.random.default_rng(2).uniform(0.5, 1.5, size=8)
    for kernel, views in (
        (two_names, lambda z: (z[:6], z[1:7])),
        (two_names_sometimes, lambda z: (z[1:], z.reshape((2, 4)))),
    ):
        (found,) = assert_gradient(
            lambda x, kernel=kernel, views=views: program(x, kernel, views), array(start), tolerance=2e-6
        )
        assert np.abs(found).max() > 1e-3


@sim.kernel
def counting(slots: sim.array[int], y: sim.array[f64], n: int):
    i = sim.tid()
    for j in range(n):
        k = slots[i]
        y[k] = y[k] * y[k]
        sim.atomic_max(slots, i, j)


def test_what_cannot_be_replayed_is_an_error_with_its_place():
    slots, y = sim.zeros(2, dtype=int), array([0.5] * 8)
    why = "atomic_max on 'slots' cannot be replayed"
    with (
        pytest.raises(
            sim.GradientError,
            match=rf"test_undo_stack.py:\d+:\d+: (.|\n)*{why}(.|\n)*carry the value in a local variable",
        ),
        sim.Tape(),
    ):
        sim.launch(counting, 2, inputs=[slots, y, 3])
    assert y.list() == [0.5] * 8  # refused before it ran


@sim.kernel
def sweeps(x: sim.array2d[f64], n: int):
    i = sim.tid()
    if i >= x.shape[0]:
        return
    for _ in range(n):
        for k in range(1, x.shape[1] - 1):
            x[i, k] = 0.3 * (x[i, k - 1] + x[i, k + 1]) + 0.3 * x[i, k] * x[i, k]


def test_sweeps_are_run_twice_and_no_more():
    """Once forward, which keeps a number per store, and once back: the time of an adjoint is that of a few launches."""
    kernel = sweeps.specialise((array_type(f64, 2), sim.int32)).func
    made = kernel_adjoint(to_be_recorded(kernel, [0]))
    assert [op.name for op in walk(made.func.body)].count("for") == 4
    assert [log.arrays for log in made.logs] == [((f64, 1),)]

    def program(x):
        out, y = sim.zeros(1, dtype=f64, requires_grad=True), sim.zeros((2, 6), dtype=f64, requires_grad=True)
        sim.copy(y, x)
        sim.launch(sweeps, 3, inputs=[y, 3])
        sim.launch(weighted_sum, 12, inputs=[y.flatten()], outputs=[out])
        return out

    assert_gradient(program, array(np.random.default_rng(7).uniform(0.3, 0.9, size=(2, 6))), tolerance=2e-6)
