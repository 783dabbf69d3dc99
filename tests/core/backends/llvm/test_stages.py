"""Kernels in two stages, or in one in order, rows that are added before they are transposed, rows of three numbers in
quarters: the bits of single threads, for every number of threads and every way to share them."""

import numpy as np
import pytest

import sim
from sim.core.backends.base import argument_block
from sim.core.backends.llvm import lane_bodies, lane_memory, pipelining
from sim.core.backends.llvm.backend import LlvmBackend
from sim.core.backends.llvm.lane_order import in_order
from sim.core.backends.llvm.text import Emitter
from sim.core.lang.ir.core import Func
from sim.core.lang.types import ArrayType
from sim.core.runtime.launch.binding import bind

SEED = 20261128
vec8 = sim.types.vector(8, sim.float32)


@pytest.fixture(params=["few registers", "many", "many, in order"])
def kind(request, monkeypatch):
    """Code for three kinds of processors, whichever this one is: it runs on all."""
    few, ordered = request.param == "few registers", request.param == "many, in order"
    monkeypatch.setattr(lane_memory, "has_few_registers", lambda: few)
    monkeypatch.setattr(pipelining, "gains_by_stages", lambda: few)
    monkeypatch.setattr(lane_bodies, "gains_by_order", lambda: ordered)
    return request.param


@pytest.fixture
def few(kind):
    return kind == "few registers"


def lanes_text(func):
    """The body for eight threads."""
    text = Emitter(func).text("f")
    return text[text.index("@lanes(") : text.index("define void @f(")]


def springs(signs, alone, both, choice):
    """Projections of springs.  signs: of what is added to the first point and to the second; alone: a number of a row
    is looked at by itself too; both: reference and displacement are added to; choice: a division within a choice."""

    @sim.kernel
    def pull(
        points: sim.array2d[sim.uint32],
        rest: sim.array[float],
        w: sim.array[sim.vec2],
        x: sim.array[vec8],
        out: sim.array[float],
        kept: sim.array[sim.vec3],
    ):
        k = sim.tid()
        a, b = points[k, 0], points[k, 1]
        p, q, w_k = x[a], x[b], w[k]
        d = sim.vec3(p[0], p[1], p[2]) + sim.vec3(p[4], p[5], p[6])
        d = d - (sim.vec3(q[0], q[1], q[2]) + sim.vec3(q[4], q[5], q[6]))
        size = sim.length(d)
        s, weight = size - rest[k], w_k[0] + w_k[1]
        if alone:
            s += p[5] * q[1]
        if choice:
            if s > 0.0:
                s = -s / weight
        else:
            s = s / (weight + 0.5)
        for j in sim.static(range(2)):
            m = (w_k[j] * s) * (d / size)
            if signs[j] < 0:
                m = (w_k[j] * s) * (-d)
            if both:
                x[a if j == 0 else b] += vec8(m[0], m[1], m[2], 0.0, m[0], m[1], m[2], 0.0)
            else:
                x[a if j == 0 else b] += vec8(0.0, 0.0, 0.0, 0.0, m[0], m[1], m[2], 0.0)
        out[k] = s
        kept[k] = d

    pull.exclusive = frozenset(("x",))
    return pull


def compiled(kernel, arrays):
    func = bind(kernel, (1,), [sim.array(a, dtype=t) for a, t in arrays], len(arrays), None).spec.func
    packed = frozenset(k for k, p in enumerate(func.params) if isinstance(p.type, ArrayType))
    func = Func(func.name, func.body, func.span, func.dims, {**func.attrs, "packed": packed, "few": False})
    return func, LlvmBackend().compile(func), LlvmBackend().compile(func, check=True)


def spring_arrays(rng, n):
    points = rng.permutation(2 * n + 3)[: 2 * n].reshape(n, 2).astype(np.uint32)
    x = rng.normal(size=(2 * n + 3, 8)).astype(np.float32)
    x[::4, 4:] = -0.0
    return [
        (points, sim.uint32),
        (rng.uniform(0.5, 1.5, n).astype(np.float32), float),
        (rng.uniform(0.0, 2.0, (n, 2)).astype(np.float32), sim.vec2),
        (x, vec8),
        (np.zeros(n, np.float32), float),
        (np.zeros((n, 3), np.float32), sim.vec3),
    ]


def runs(func, code, n, arrays, ranges):
    values = [a.copy() for a, _ in arrays]
    block = argument_block(func, (n,), values)
    for begin, end in ranges:
        code.run(block.ctypes.data, begin, end)
    return [v.tobytes() for v in values]


@pytest.mark.parametrize("choice", [False, True])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("signs", [(1, -1), (-1, -1), (1, 1)])
def test_stages_have_the_bits_of_single_threads(few, signs, alone, both, choice):
    rng = np.random.default_rng(SEED)
    func, wide, single = compiled(springs(signs, alone, both, choice), spring_arrays(rng, 1))
    assert ("@begin(" in Emitter(func).text("f")) == few
    for n in (1, 7, 8, 9, 15, 16, 17, 40, 101):
        arrays, cut = spring_arrays(rng, n), int(rng.integers(0, n + 1))
        wanted = runs(func, single, n, arrays, [(0, n)])
        for ranges in ([(0, n)], [(cut, n), (0, cut)], [(k, k + 1) for k in range(n)]):
            assert runs(func, wide, n, arrays, ranges) == wanted, (n, cut, ranges)
        assert wanted[3] != arrays[3][0].tobytes()


def test_what_others_write_is_not_read_ahead(few):
    """Where elements are promised to nobody, the next eight begin when these have ended."""
    kernel = springs((1, -1), False, False, False)
    kernel.exclusive = frozenset()
    rng = np.random.default_rng(SEED)
    func = bind(kernel, (1,), [sim.array(a, dtype=t) for a, t in spring_arrays(rng, 8)], 6, None).spec.func
    assert "@begin(" not in Emitter(func).text("f")


def test_only_one_transposition_for_the_difference_of_two_points(kind):
    """Of the four rows that make it; what is added is transposed for each of the points."""
    rng = np.random.default_rng(SEED)
    texts = []
    for alone in (False, True):
        func = compiled(springs((1, 1), alone, False, False), spring_arrays(rng, 1))[0]
        texts.append(lanes_text(func))
    first = "<i32 0, i32 8, i32 1, i32 9, i32 4, i32 12, i32 5, i32 13>"  # so two pairs of rows begin
    found = [text.count(first) for text in texts]
    assert kind == "many" or found == [6, 12]


def test_rows_are_added_to_what_registers_hold(kind):
    """In one stage nothing is read again after the first of the rows has been stored, and lines are in order."""
    func = compiled(springs((1, -1), False, False, False), spring_arrays(np.random.default_rng(SEED), 1))[0]
    lines = lanes_text(func).splitlines()
    load, store = "load <4 x float>", "store <4 x float>"
    first = next(k for k, line in enumerate(lines) if store in line)
    again = sum(load in line for line in lines[first:])
    assert again == (15 if kind == "few registers" else 0)
    if kind == "many, in order":
        rows = [k for k, line in enumerate(lines) if load in line]
        first_sum = next(k for k, line in enumerate(lines) if "fadd <8 x float>" in line)
        assert rows[0] < first_sum < rows[-1]


@sim.kernel
def twice(points: sim.array2d[sim.uint32], w: sim.array[float], x: sim.array[sim.vec3], seen: sim.array[sim.vec3]):
    """What is written to is read again, and what was read before is added to it again."""
    k = sim.tid()
    a, b = points[k, 0], points[k, 1]
    before, q = x[a], x[b]
    d = before - q
    m = (w[k] / sim.length(d)) * d
    x[a] += m
    between = x[a]
    x[a] = before + sim.cross(between, m)
    x[b] = q - (1.0 / (w[k] + sim.dot(d, d))) * m
    seen[k] = x[a] + between


twice.exclusive = frozenset(("x",))


@pytest.mark.parametrize("n", [1, 8, 29, 64])
def test_what_is_written_is_read_again(kind, n):
    rng = np.random.default_rng(SEED)
    arrays = [
        (rng.permutation(2 * n)[: 2 * n].reshape(n, 2).astype(np.uint32), sim.uint32),
        (rng.uniform(0.5, 1.5, n).astype(np.float32), float),
        (rng.normal(size=(2 * n, 3)).astype(np.float32), sim.vec3),
        (np.zeros((n, 3), np.float32), sim.vec3),
    ]
    func, wide, single = compiled(twice, arrays)
    assert runs(func, wide, n, arrays, [(0, n)]) == runs(func, single, n, arrays, [(0, n)])


@sim.kernel
def threes(
    x: sim.array[sim.vec3],
    y: sim.array[sim.vec3],
    w: sim.array[float],
    out: sim.array[sim.vec3],
    more: sim.array[sim.vec3],
    less: sim.array[sim.vec3],
):
    i = sim.tid()
    a, b = x[i], y[i]
    out[i] = w[i] * a + sim.vec3(b[1], b[2], b[0])
    more[i] += sim.cross(a, b)
    less[i] += sim.vec3(-a[0], -a[1], -b[2])


@pytest.mark.parametrize("n", [1, 8, 16, 29])
def test_rows_of_three_numbers(few, n):
    rng = np.random.default_rng(SEED)
    arrays = [(rng.normal(size=(n, 3)).astype(np.float32), sim.vec3) for _ in range(5)]
    arrays.insert(2, (rng.normal(size=n).astype(np.float32), float))
    for k in (4, 5):
        arrays[k][0][::3] = -0.0
    arrays[0][0][::3] = 0.0
    func, wide, single = compiled(threes, arrays)
    assert ("load <24 x float>" in Emitter(func).text("f")) != few
    assert runs(func, wide, n, arrays, [(0, n)]) == runs(func, single, n, arrays, [(0, n)])
    values = [a.copy() for a, _ in arrays]
    wide.run(argument_block(func, (n,), values).ctypes.data, 0, n)
    a, b, w = (v for v, _ in arrays[:3])
    np.testing.assert_array_equal(values[3], w[:, None] * a + b[:, [1, 2, 0]])
    np.testing.assert_array_equal(values[5], arrays[5][0] - np.column_stack([a[:, :2], b[:, 2]]))


def test_what_a_line_needs_comes_just_before_it():
    lines = ["  %a = load 1", "  %b = load 2", "  %c = add %a, 1", "  %d = add %b, %c", "  %e = add %a, %b"]
    stores = ["  store %c", "  store %d"]
    ordered = in_order([*lines, *stores], ["%b", *stores])
    assert ordered == [lines[1], lines[0], lines[2], stores[0], lines[3], stores[1]]
