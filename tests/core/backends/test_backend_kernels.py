"""Control flow, launches, memory layouts, tapes, failures and printing: the interpreter and LLVM do the same."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tools.backends.kernels import BACKENDS, kernel, launch

from sim.core.backends.base import ASSERT_FAILED, OUT_OF_BOUNDS, argument_block
from sim.core.backends.interp import InterpBackend, evaluate
from sim.core.backends.llvm.backend import LlvmBackend
from sim.core.lang.errors import Span
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Block, Func, Op, TapeType, Value, emit
from sim.core.lang.ir.verifier import InvalidIR, verify
from sim.core.lang.types import (
    Struct,
    array_type,
    bool_,
    float32,
    float64,
    int8,
    int32,
    int64,
    matrix,
    uint8,
    uint32,
    uint64,
    vector,
)

each = pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)


@each
def test_nested_control_flow(backend) -> None:
    """Collatz steps in a while, a triangular double for with an if inside, a reversed for, all with carried values."""

    def fill(b, out, steps, poly, n):
        i = b.tid(0)
        one = b.const(1, int32)

        def collatz(x, count):
            odd = emit("eq", emit("mod", x, b.const(2, int32)), one)
            return [b.if_(odd, lambda: [3 * x + 1], lambda: [emit("div", x, 2)])[0], count + 1]

        count = b.while_([i + 1, b.const(0, int32)], lambda x, count: emit("gt", x, one), collatz)[1]
        b.store(steps, [i], [0], [count])

        def outer(k, total):
            return b.for_(k, [total], lambda j, t: b.if_(emit("lt", j, i), lambda: [t + k * j], lambda: [t - 1]))

        b.store(out, [i], [0], b.for_(n, [b.const(0, int32)], outer))
        # Horner-like, so that the order of a reversed loop shows
        b.store(poly, [i], [0], b.for_(n, [b.const(0, int32)], lambda k, t: [t * 10 + k], reverse=True))

    func = kernel([array_type(int32)] * 3 + [int32], fill)
    out, steps, poly = (np.zeros(9, np.int32) for _ in range(3))
    launch(backend, func, [9], [out, steps, poly, 5])
    assert poly.tolist() == [43210] * 9
    assert steps.tolist() == [0, 1, 7, 2, 5, 8, 16, 3, 19]
    expected = [sum(k * j if j < i else -1 for k in range(5) for j in range(k)) for i in range(9)]
    assert out.tolist() == expected
    launch(backend, func, [9], [out, steps, poly, -3])  # no iterations
    assert not out.any() and not poly.any()


@each
def test_loops_of_other_counter_types(backend) -> None:
    def fill(b, y):
        for slot, kind in enumerate((int8, uint8, int64, uint64, uint32)):
            n = b.const(100, kind)
            zero, odd = b.const(0, int32), slot % 2 == 1
            total = b.for_(n, [zero], lambda k, t: [t * 3 + emit("cast", k, type=int32)], reverse=odd)
            b.store(y, [b.const(slot, int32)], [0], total)

    y = np.zeros(5, np.int32)
    launch(backend, kernel([array_type(int32)], fill), [1], [y])

    def expected(ks) -> int:
        total = 0
        for k in ks:
            total = (total * 3 + k) & 0xFFFFFFFF
        return total - 2**32 if total >= 2**31 else total

    up, down = expected(range(100)), expected(reversed(range(100)))
    assert y.tolist() == [up, down, up, down, up]


@each
def test_swapping_carried_values(backend) -> None:
    """Phis are simultaneous: a loop that swaps its carried values must not lose one, nor a branch that yields both."""

    def fill(b, y, n):
        a, c = b.for_(n, [b.const(1.0, float32), b.const(2.0, float32)], lambda k, a, c: [c, a])
        d, e = b.if_(emit("gt", n, 0), lambda: [c, a], lambda: [a, c])
        for k, v in enumerate((a, c, d, e)):
            b.store(y, [b.const(k, int32)], [0], [v])

    y = np.zeros(4, np.float32)
    launch(backend, kernel([array_type(float32), int32], fill), [1], [y, 3])
    assert y.tolist() == [2, 1, 1, 2]


@each
@pytest.mark.parametrize("dims", [(7,), (3, 5), (2, 3, 4), (3, 1, 2, 5), (1, 1, 6), (4, 1)], ids=str)
def test_launch_dimensions_and_splits(backend, dims) -> None:
    """Every thread runs once, with its own coordinates, wherever the range is cut."""
    total = int(np.prod(dims))

    def fill(b, out, runs):
        for axis in range(len(dims)):
            b.store(out, [b.tid(-1), b.const(axis, int32)], [0], [b.tid(axis)])
        b.accum(runs, [b.tid(-1)], [0], [b.const(1, int32)])

    func = kernel([array_type(int32, 2), array_type(int32)], fill, dims=len(dims))
    for splits in ([0, total], [0, 1, total // 2, total - 1, total], list(range(total + 1)), [0, 0, total, total]):
        out, runs = np.full((total, len(dims)), -1, np.int32), np.zeros(total, np.int32)
        launch(backend, func, dims, [out, runs], splits=splits)
        assert runs.tolist() == [1] * total
        assert (out == np.stack(np.unravel_index(np.arange(total), dims), axis=1)).all()


@each
def test_empty_launch(backend) -> None:
    func = kernel([array_type(int32)], lambda b, y: b.store(y, [b.tid(1)], [0], [b.tid(0)]), dims=2)
    launch(backend, func, [0, 0], [None])
    launch(backend, func, [3, 0], [None])


@each
@pytest.mark.parametrize("packed", [False, True])
def test_strides(backend, packed) -> None:
    """Reversed, transposed and sliced arrays; packed ones get their strides computed."""

    def fill(b, x, y):
        i, j = b.tid(0), b.tid(1)
        b.store(y, [j, i], [0], b.load(x, [i, j], [0]))

    func = kernel([array_type(float32, 2)] * 2, fill, dims=2, packed=packed)
    base = np.arange(48, dtype=np.float32).reshape(6, 8)
    views = [base[:3, :4].copy()] if packed else [base[::-1], base[::2, ::-2], base.T, base[3:0:-1, 1:6]]
    for x in views:
        y = np.zeros((x.shape[1], x.shape[0] * (1 if packed else 2)), np.float32)
        y = y if packed else y[:, ::-2]
        launch(backend, func, x.shape, [x, y])
        assert (y == x.T).all()


def test_packed_in_four_dimensions() -> None:
    def fill(b, x, y):
        index = [b.tid(k) for k in range(4)]
        b.store(y, index, [0], [b.load(x, index, [0])[0] + 1.0])

    func = kernel([array_type(float64, 4)] * 2, fill, dims=4, packed=True)
    x = np.arange(2 * 3 * 4 * 5, dtype=np.float64).reshape(2, 3, 4, 5)
    for backend in BACKENDS:
        y = np.zeros_like(x)
        launch(backend, func, x.shape, [x, y])
        assert (y == x + 1).all()


@each
def test_shapes_and_null_arrays(backend) -> None:
    """A null array has shape 0 and may be passed as long as no thread touches it."""

    def fill(b, out, maybe):
        have = emit("gt", b.shape(maybe, 0), 0)
        v = b.if_(have, lambda: b.load(maybe, [b.const(0, int32)], [0]), lambda: [b.const(-1.0, float32)])
        b.store(out, [b.tid(0)], [0], v)

    func = kernel([array_type(float32)] * 2, fill)
    out = np.zeros(3, np.float32)
    launch(backend, func, [3], [out, None])
    assert out.tolist() == [-1] * 3
    launch(backend, func, [3], [out, np.full(2, 7, np.float32)])
    assert out.tolist() == [7] * 3


@each
def test_scalar_arguments_of_every_type(backend) -> None:
    kinds = (bool_, int8, uint8, int32, uint32, int64, uint64, float32, float64)
    values = (True, -3, 250, -(2**31), 2**32 - 1, -(2**63), 2**64 - 1, 0.1, 0.1)

    def fill(b, *params):
        for y, v in zip(params[: len(kinds)], params[len(kinds) :], strict=True):
            b.store(y, [b.tid(0)], [0], [v])

    func = kernel([*map(array_type, kinds), *kinds], fill)
    outs = [np.zeros(2, k.np) for k in kinds]
    launch(backend, func, [2], [*outs, *values])
    for y, kind, value in zip(outs, kinds, values, strict=True):
        assert (y == kind.np.type(value)).all()


PARTICLE = Struct(
    "Particle",
    {"flag": bool_, "x": vector(3, float32), "mass": float64, "kind": int8, "m": matrix((2, 2), float32)},
)


@each
def test_struct_elements(backend) -> None:
    """Leaves at their C offsets; bools are bytes in memory; fields that are not touched stay."""
    names = [leaf.path for leaf in PARTICLE.leaves]
    flag, x0, mass, kind, m3 = (names.index(n) for n in ("flag", "x.0", "mass", "kind", "m.3"))

    def fill(b, p):
        i = b.tid(0)
        f, k = b.load(p, [i], [flag, kind])
        x = b.load(p, [i], [x0, x0 + 1, x0 + 2])
        b.store(p, [i], [flag, mass, x0 + 1], [emit("not", f), emit("cast", x[0] + x[2], type=float64), x[1] * 2.0])
        b.accum(p, [i], [kind, m3], [k, x[2]])

    data = np.zeros(4, PARTICLE.np)
    data["flag"], data["kind"] = [True, False, True, False], [1, 2, 3, 100]
    data["x"], data["m"] = np.arange(12).reshape(4, 3), 5
    launch(backend, kernel([array_type(PARTICLE)], fill), [4], [data])
    assert data["flag"].tolist() == [False, True, False, True]
    assert data["mass"].tolist() == [2, 8, 14, 20]
    assert data["kind"].tolist() == [2, 4, 6, -56]
    assert data["x"].tolist() == [[0, 2, 2], [3, 8, 5], [6, 14, 8], [9, 20, 11]]
    assert data["m"][:, 1, 1].tolist() == [7, 10, 13, 16] and (data["m"][:, 0] == 5).all()


@each
def test_dynamic_leaves(backend) -> None:
    """A leaf number at run time counts from the first of `leaves`."""
    names = [leaf.path for leaf in PARTICLE.leaves]
    m = tuple(names.index(f"m.{k}") for k in range(4))

    def fill(b, p, out, shift):
        i = b.tid(0)
        v = b.load(p, [i], m, leaf=i)
        b.store(p, [i], m, v, leaf=emit("mod", i + shift, b.const(4, int32)))
        old = b.atomic("add", p, [i], m, [b.const(100.0, float32)], leaf=b.const(0, int32))
        b.store(out, [i], [0], old)

    data, out = np.zeros(4, PARTICLE.np), np.zeros(4, np.float32)
    data["m"] = np.arange(16).reshape(4, 2, 2)
    launch(backend, kernel([array_type(PARTICLE), array_type(float32), int32], fill), [4], [data, out, 1])
    expected = np.arange(16, dtype=np.float32).reshape(4, 4)
    for i in range(4):
        expected[i, (i + 1) % 4] = expected[i, i]
    assert out.tolist() == expected[:, 0].tolist()
    expected[:, 0] += 100
    assert (data["m"].reshape(4, 4) == expected).all()


@each
def test_accumulation_on_shared_elements(backend) -> None:
    """Repeated indices add up, in thread order, also when LLVM would like to vectorise."""
    rng = np.random.default_rng(1)
    index, value = rng.integers(0, 5, 1000).astype(np.int32), rng.standard_normal(1000).astype(np.float32)

    def fill(b, y, index, value):
        i = b.tid(0)
        b.accum(y, b.load(index, [i], [0]), [0], b.load(value, [i], [0]))

    func = kernel([array_type(float32), array_type(int32), array_type(float32)], fill, packed=True)
    y, expected = np.zeros(5, np.float32), np.zeros(5, np.float32)
    launch(backend, func, [1000], [y, index, value])
    np.add.at(expected, index, value)
    assert (y == expected).all()


@each
def test_atomics_return_the_old_value(backend) -> None:
    def fill(b, y, old, x):
        i = b.tid(0)
        (v,) = b.load(x, [i], [0])
        for k, how in enumerate(("add", "min", "max", "exch")):
            b.store(old, [i, b.const(k, int32)], [0], b.atomic(how, y, [b.const(k, int32)], [0], [v]))

    x = np.array([3, -5, 8, 2], np.float32)
    y, old = np.zeros(4, np.float32), np.zeros((4, 4), np.float32)
    launch(backend, kernel([array_type(float32), array_type(float32, 2), array_type(float32)], fill), [4], [y, old, x])
    assert y.tolist() == [8, -5, 8, 2]
    assert old.T.tolist() == [[0, 3, -2, 6], [0, 0, -5, -5], [0, 3, 3, 8], [0, 3, -5, 8]]


@each
@pytest.mark.parametrize("kind", [float32, float64, bool_, int8], ids=str)
def test_tapes(backend, kind) -> None:
    """A tape keeps what a loop stores, separately for every thread."""

    def fill(b, y, n):
        i = b.tid(0)
        tape = b.leaf_op("tape", (), TapeType(kind, 16), slots=16, scalar=kind)

        def put(k):
            value = emit("mod", k * 7 + i, b.const(5, int32))
            b.append(Op("tape_store", [tape, k, emit("cast", value, type=kind)], []))
            return []

        b.for_(n, [], put)
        total = b.for_(n, [b.const(0, int32)], lambda k, t: [
            t * 2 + emit("cast", b.leaf_op("tape_load", (tape, k), kind), type=int32)], reverse=True)  # fmt: skip
        b.store(y, [i], [0], total)

    y = np.zeros(6, np.int32)
    launch(backend, kernel([array_type(int32), int32], fill), [6], [y, 12])
    for i in range(6):
        total = 0
        for k in reversed(range(12)):
            total = total * 2 + int(kind.np.type((k * 7 + i) % 5))
        assert y[i] == total


def test_tapes_do_not_grow_the_stack() -> None:
    """Half a million threads with 4 kB each would need 2 GB if every thread had its own frame."""

    def fill(b, y, k):
        tape = b.leaf_op("tape", (), TapeType(float64, 512), slots=512, scalar=float64)
        b.append(Op("tape_store", [tape, k, b.const(2.5, float64)], []))
        b.append(Op("tape_store", [tape, emit("mod", b.tid(0), b.const(512, int32)), b.const(1.5, float64)], []))
        b.accum(y, [b.const(0, int32)], [0], [b.leaf_op("tape_load", (tape, k), float64)])

    y, n = np.zeros(1), 500_000
    launch(LlvmBackend(), kernel([array_type(float64), int32], fill), [n], [y, 3])
    hits = len(range(3, n, 512))
    assert y[0] == 2.5 * (n - hits) + 1.5 * hits


@each
def test_assert_names_the_first_failure(backend) -> None:
    span = Span("user.py", 12, 3, "  assert x > 0")

    def fill(b, x, y):
        i = b.tid(0)
        (v,) = b.load(x, [i], [0])
        b.append(Op("assert", [emit("lt", v, 100.0)], [], {"message": "too large"}))
        b.append(Op("assert", [emit("gt", v, 0.0)], [], {"message": "not positive"}, span=span))
        b.store(y, [i], [0], [v])

    func = kernel([array_type(float32)] * 2, fill)
    x, y = np.array([1, 2, -3, 4, -5], np.float32), np.zeros(5, np.float32)
    error, sites = launch(backend, func, [5], [x, y])
    assert error[:4].tolist() == [1, ASSERT_FAILED, 1, 2]
    assert sites[error[2]].span == span and sites[error[2]].text == "not positive"
    assert (y == x).all()  # a failed assertion is recorded, and the threads go on
    assert not launch(backend, func, [5], [abs(x), y])[0].any()
    block = argument_block(func, [5], [x, y])  # without a record nothing happens
    backend.compile(func).run(block.ctypes.data, 0, 5)


@each
def test_bounds_checks(backend) -> None:
    """Outside of the shape: reads give 0, writes do nothing, and the record names access, thread, index and bound."""

    def fill(b, x, index, y):
        i = b.tid(0)
        (j,) = b.load(index, [i], [0])
        (v,) = b.load(x, [b.const(1, int32), j], [0])
        b.store(y, [i], [0], [v])
        b.store(x, [b.const(1, int32), j], [0], [b.const(5.0, float32)])
        b.accum(x, [b.const(0, int32), j], [0], [b.const(1.0, float32)])
        b.store(y, [i], [0], [v + b.atomic("add", x, [j, b.const(0, int32)], [0], [b.const(0.0, float32)])[0]])

    func = kernel([array_type(float32, 2), array_type(int32), array_type(float32)], fill)
    whole = np.full((4, 6), 9, np.float32)
    x, y = whole[1:3, 1:4], np.full(5, -1, np.float32)
    error, sites = launch(backend, func, [5], [x, np.array([0, 2, 3, -1, 1], np.int32), y], check=True)
    assert error[:6].tolist() == [1, OUT_OF_BOUNDS, 5, 1, 2, 2]  # x[2, 0] in thread 1 is the first
    assert sites[5].text == "p0" and len(sites) == 7
    assert y.tolist() == [9 + 10, 9 + 0, 0, 0, 9 + 5]
    assert x.tolist() == [[10, 10, 10], [5, 5, 5]]
    x[:] = 9
    assert (whole == 9).all()


def test_bounds_of_run_time_leaves_and_unsigned_indices() -> None:
    def fill(b, x, k, j):
        b.store(x, [j], [0, 1, 2], [b.const(1.0, float32)], leaf=k)

    func = kernel([array_type(vector(3, float32)), int32, uint64], fill)
    for backend in BACKENDS:
        for k, j, expected in ((2, 1, None), (3, 1, [3, 3]), (-1, 0, [-1, 3]), (0, 2**63 + 5, None)):
            x = np.zeros((2, 3), np.float32)
            error, _ = launch(backend, func, [1], [x, k, j], check=True)
            if j > 1:
                assert error[0] == 1 and error[5] == 2 and not x.any()
            elif expected is None:
                assert error[0] == 0 and x[1, 2] == 1
            else:
                assert error[4:6].tolist() == expected and not x.any()


def test_the_interpreter_refuses_what_would_crash() -> None:
    func = kernel([array_type(float32)], lambda b, x: b.store(x, [b.tid(0)], [0], [b.const(1.0, float32)]))
    with pytest.raises(IndexError, match=r"store of 'p0' at 3, outside of 0 .. 2"):
        launch(InterpBackend(), func, [4], [np.zeros(3, np.float32)])


@each
def test_print(backend, capsys) -> None:
    def fill(b, x):
        i = b.tid(0)
        (v,) = b.load(x, [i], [0])
        values = [i, v, emit("gt", v, 0.2), b.const(2**63, uint64)]
        b.append(Op("print", values, [], {"format": "{} has {:.2f}% {} {}\n"}))
        b.append(Op("print", [], [], {"format": "ä\n"}))

    launch(backend, kernel([array_type(float64)], fill), [2], [np.array([0.125, 2.5])])
    assert capsys.readouterr().out == f"0 has 0.12% False {2**63}\nä\n1 has 2.50% True {2**63}\nä\n"


def test_threads_in_another_order() -> None:
    def fill(b, y):
        b.store(y, [b.const(0, int32)], [0], [b.tid(0)])

    func, y = kernel([array_type(int32)], fill), np.zeros(1, np.int32)
    launch(InterpBackend(), func, [5], [y])
    assert y[0] == 4
    launch(InterpBackend(order=lambda n: reversed(range(n))), func, [5], [y])
    assert y[0] == 0


def test_evaluate_and_calls() -> None:
    square = Block([Value(float32, "x")])
    with Builder(square):
        square.yields = [square.params[0] * square.params[0]]
    callee = Func("square", square)
    body = Block([Value(float32, "x"), Value(array_type(float32), "a")])
    with Builder(body) as b:
        result = b.append(Op("call", [body.params[0]], [Value(float32)], {"callee": callee})).results[0]
        body.yields = [result + b.load(body.params[1], [b.const(1, int32)], [0])[0], result]
    func = verify(Func("f", body))
    out = evaluate(func, 3, np.array([1, 2], np.float32))
    assert out == (11, 9) and out[0].dtype == np.float32
    with pytest.raises(TypeError, match="takes 2 arguments, got 1"):
        evaluate(func, 3)
    kernel_like = dataclasses.replace(func, body=Block(body.params, body.ops, []))
    with pytest.raises(InvalidIR, match="square was not inlined"):
        LlvmBackend().compile(kernel_like)
