"""Indices that may count from the end: every body that a kernel can have does what the interpreter does."""

import numpy as np
import pytest

import sim
from sim.core.backends.base import LANES, argument_block
from sim.core.backends.interp import InterpBackend
from sim.core.backends.llvm.backend import LlvmBackend
from sim.core.backends.llvm.text import Emitter
from sim.core.lang.analysis.first_threads import first_threads
from sim.core.lang.ir.core import Func
from sim.core.lang.types import ArrayType
from sim.core.runtime.launch.arguments import argument_type

SPOTS = 40


@sim.kernel
def gathered(at: sim.array[int], x: sim.array[sim.vec3], w: sim.array[float], out: sim.array[sim.vec3]):
    i = sim.tid()
    k = at[i]
    out[i] = x[k] * w[k]


@sim.kernel
def beside(at: sim.array[int], x: sim.array[sim.vec3], w: sim.array[float], out: sim.array[sim.vec3]):
    i = sim.tid()
    out[i] = x[i] - x[i - 1] * w[i - 9]


@sim.kernel
def masked(at: sim.array[int], x: sim.array[sim.vec3], w: sim.array[float], out: sim.array[sim.vec3]):
    i = sim.tid()
    value = x[i]
    if w[i] > 0.0:
        value = x[at[i]] + x[i - 2]
    out[i] = value


@sim.kernel
def stored_before(at: sim.array[int], x: sim.array[sim.vec3], w: sim.array[float], out: sim.array[sim.vec3]):
    i = sim.tid()
    out[i] = x[i]
    w[i] = w[i] * 2.0 + x[at[i]][1] + x[i - 1][0]


@sim.kernel
def shared(at: sim.array[int], x: sim.array[sim.vec3], w: sim.array[float], out: sim.array[sim.vec3]):
    i = sim.tid()
    d = x[at[i]] - x[at[i] // 2]
    sim.atomic_add(out, at[i], d)
    sim.atomic_sub(out, at[i] // 2, d)


@sim.kernel
def jumped(at: sim.array[int], x: sim.array[sim.vec3], w: sim.array[float], out: sim.array[sim.vec3]):
    """A long side that is jumped over where none of the eight takes it."""
    i = sim.tid()
    moved = x[i]
    if at[i] < -30:
        for _ in sim.static(range(8)):
            moved = sim.cross(moved, x[at[i]]) + x[i - 1] * w[at[i]]
    out[i] = moved


@sim.kernel
def long(at: sim.array[int], x: sim.array[sim.vec3], w: sim.array[float], out: sim.array[sim.vec3]):
    """What remains of the eights goes with masked lanes, and so do eights of which an index counts from the end."""
    i = sim.tid()
    moved = x[at[i]]
    for _ in sim.static(range(40)):
        moved = 0.5 * (sim.cross(moved, x[at[i]]) + x[i - 1] * w[at[i]])
    out[i] = moved


@sim.kernel
def rows(at: sim.array[int], x: sim.array[sim.vec3], w: sim.array[float], out: sim.array[sim.vec3]):
    """Loops from where memory says: from below zero and from above."""
    i = sim.tid()
    total = 0.0
    for k in range(at[i], at[i] + 3):
        for j in range(i - 1, i + 1):
            total += w[k] * w[j] + x[at[k]][0]
    out[i] = sim.vec3(total)


@sim.kernel
def left(at: sim.array[int], x: sim.array[sim.vec3], w: sim.array[float], out: sim.array[sim.vec3]):
    i = sim.tid()
    at[i] = int(10.0 * (w[i - 3] + 2.0 * w[2 * i - 5] + w[i - 1])) + at[i]


EVERY = (gathered, beside, masked, stored_before, shared, jumped, long, rows, left)


def arguments(n):
    rng = np.random.default_rng(5)
    at = rng.integers(-SPOTS, SPOTS - 4, 256).astype(np.int32)
    at[32:64] = np.abs(at[32:64])  # eights of which none counts from the end
    at[3] = -40
    x = rng.normal(size=(256, 3)).astype(np.float32)
    w = rng.normal(size=512).astype(np.float32)
    return [(at, int), (x, sim.vec3), (w, float), (np.zeros((256, 3), np.float32), sim.vec3)]


def packed(kernel, arrays):
    types = tuple(
        argument_type(kernel, k, sim.array(a, dtype=t, device="cpu"), "argument") for k, (a, t) in enumerate(arrays)
    )
    func = kernel.specialise(types).func
    known = frozenset(k for k, p in enumerate(func.params) if isinstance(p.type, ArrayType))
    return Func(func.name, func.body, func.span, func.dims, {**func.attrs, "packed": known, "tight": known})


def after(backend, func, dims, arrays, ranges):
    values = [a.copy() for a, _ in arrays]
    block = argument_block(func, dims, values)
    code = backend.compile(func)
    for begin, end in ranges:
        code.run(block.ctypes.data, begin, end)
    return values


@pytest.mark.parametrize("kernel", EVERY, ids=lambda k: k.key)
def test_all_bodies_count_from_the_end(kernel):
    func = packed(kernel, arguments(1))
    for n in (1, LANES - 1, LANES, LANES + 1, 5 * LANES, 203):
        expected = after(InterpBackend(), func, (n,), arguments(n), [(0, n)])
        for ranges in ([(0, n)], [(0, n // 2), (n // 2, n)], [(k, k + 1) for k in range(n)]):
            found = after(LlvmBackend(), func, (n,), arguments(n), ranges)
            for a, b in zip(found, expected, strict=True):
                assert np.array_equal(a, b), (n, len(ranges))


@sim.kernel
def grid2(u: sim.array2d[float], v: sim.array2d[float]):
    i, j = sim.tid()
    v[i, j] = u[i - 1, j] + 2.0 * u[i, j - 2] + 3.0 * u[i - 1, j - 1] + u[i, j]


@sim.kernel
def grid3(u: sim.array3d[float], v: sim.array3d[float]):
    i, j, k = sim.tid()
    v[i, j, k] = u[i - 1, j, k] + 2.0 * u[i, j - 1, k] + 3.0 * u[i, j, k - 1]


@sim.kernel
def flat(n: int, u: sim.array[float], v: sim.array[float]):
    i, j = sim.tid()
    v[i * n + j] = u[i * n + j - 1] + u[i * n + j - n]


@pytest.mark.parametrize("shape", [(1, 2), (1, 5), (5, 2), (7, 13), (3, 3), (40, 33)])
def test_the_first_of_rows_and_columns(shape):
    u = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    v = sim.zeros(shape, dtype=float)
    sim.launch(grid2, dim=shape, inputs=[sim.array(u, dtype=float), v])
    i, j = np.indices(shape)
    expected = u[i - 1, j] + np.float32(2) * u[i, j - 2] + np.float32(3) * u[i - 1, j - 1] + u
    assert np.array_equal(v.numpy(), expected)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 4), (4, 5, 6), (2, 9, 17)])
def test_the_first_of_three_axes(shape):
    u = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    v = sim.zeros(shape, dtype=float)
    sim.launch(grid3, dim=shape, inputs=[sim.array(u, dtype=float), v])
    i, j, k = np.indices(shape)
    assert np.array_equal(v.numpy(), u[i - 1, j, k] + np.float32(2) * u[i, j - 1, k] + np.float32(3) * u[i, j, k - 1])


def test_a_width_that_is_given():
    rows, n = 6, 11
    u = np.random.default_rng(0).normal(size=rows * n).astype(np.float32)
    v = sim.zeros(rows * n, dtype=float)
    sim.launch(flat, dim=(rows, n), inputs=[n, sim.array(u, dtype=float), v])
    k = np.arange(rows * n)
    assert np.array_equal(v.numpy(), u[k - 1] + u[k - n])


def test_only_the_first_threads_ask():
    """Loads of all others are those of what lies side by side: LLVM makes vectors of them."""
    func = packed(left, arguments(1))
    found = first_threads(func)
    assert found is not None and found.apart == {0: 5} and len(found.counted) == 3
    text = Emitter(func).text("f")
    first, rest = text[text.index("@first") :], text[text.index("void @body") :]
    assert first.split("ret void")[0].count("select") == 3 and rest.split("ret void")[0].count("select") == 0


def test_eight_are_left_to_single_threads_before_they_store_anything():
    assert Emitter(packed(gathered, arguments(1))).text("f").count("ret i1 false") == 1
    assert Emitter(packed(stored_before, arguments(1))).text("f").count("ret i1 false") == 0
    assert "call void @some" in Emitter(packed(long, arguments(1))).text("f")


@pytest.mark.parametrize("kernel", [gathered, masked, long], ids=lambda k: k.key)
def test_gradients_are_those_of_the_same_elements_counted_from_the_beginning(kernel):
    found = []
    for from_end in (True, False):
        (at, _), (x, _), (w, _), (out, _) = arguments(1)
        w = w[:256]
        if not from_end:
            at[at < 0] += 256
        arrays = [
            sim.array(at, dtype=int),
            sim.array(x, dtype=sim.vec3, requires_grad=True),
            sim.array(w, dtype=float, requires_grad=True),
            sim.array(out, dtype=sim.vec3, requires_grad=True),
        ]
        with sim.Tape() as tape:
            sim.launch(kernel, dim=200, inputs=arrays)
        tape.backward(grads={arrays[3]: sim.ones_like(arrays[3])})
        found.append([a.grad.numpy() for a in arrays[1:3]])
    for a, b in zip(*found, strict=True):
        assert np.array_equal(a, b)
