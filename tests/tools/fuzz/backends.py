"""Random kernels, built as IR, for the back ends: what they compute has to be the same to the bit."""

from __future__ import annotations

import random

import numpy as np

from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Func, Op, TapeType, Value, emit
from sim.core.lang.ir.table import OPS, Libm
from sim.core.lang.types import Scalar, array_type, bool_, float32, float64, int32, uint8, vector
from tools.backends.kernels import kernel

KINDS = (float32, float64, int32, uint8, bool_)
_NOT = {*"exp log log2 log10 pow sin cos".split(), "reinterpret"}  # which shows the payload of a NaN: it is not defined
EXACT = [n for n, r in OPS.items() if not isinstance(r.llvm, Libm) and n not in _NOT]
THREADS, WIDTH, SEEN = 19, 4, 40


class Program:
    """Grows a kernel statement by statement from values in scope, by type."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.depth = 0

    def kernel(self) -> Func:
        types = [array_type(float32, 2), array_type(vector(4, float64)), array_type(int32, 2), array_type(float32)]
        return kernel([*types, array_type(float64, 2), float32, int32], self.fill, dims=self.rng.choice([1, 1, 2]))

    def fill(self, b: Builder, *params: Value) -> None:
        self.b, (self.x, self.v, self.n, self.shared, seen), scalars = b, params[:5], params[5:]
        self.me, self.width = b.tid(-1), b.const(WIDTH - 1, int32)
        self.tape = b.leaf_op("tape", (), TapeType(float64, WIDTH), slots=WIDTH, scalar=float64)
        for k in range(WIDTH):
            b.append(Op("tape_store", [self.tape, b.const(k, int32), b.const(float(k), float64)], []))
        self.pool: dict[Scalar, list[Value]] = {k: [] for k in KINDS}
        for value in (*scalars, self.me, b.tid(0)):
            self.pool[value.type].append(value)
        self.statements(14)
        for array, kind in ((self.x, float32), (self.n, int32)):
            b.store(array, [self.me, b.const(0, int32)], [0], [self.value(kind)])
        b.store(self.v, [self.me], range(4), [self.value(float64) for _ in range(4)])
        shown = [v for values in self.pool.values() for v in values[-SEEN // len(KINDS) :]]
        for k, v in enumerate(shown):
            b.store(seen, [self.me, b.const(k, int32)], [0], [emit("cast", v, type=float64)])

    def value(self, kind: Scalar) -> Value:
        if self.pool[kind] and self.rng.random() < 0.9:
            return self.rng.choice(self.pool[kind])
        if kind is bool_:
            return self.b.const(self.rng.random() < 0.5, bool_)
        if kind.is_float:
            return self.b.const(self.rng.choice([0.0, -1.5, 0.3, 2.0, 1e6, float("inf")]), kind)
        return self.b.const(self.rng.choice([0, 1, 2, 3, 7, 100]), kind)

    def index(self) -> Value:
        return emit("and", self.value(int32), self.width)

    def add(self, *values: Value) -> None:
        for v in values:
            self.pool[v.type].append(v)

    def statements(self, count: int) -> None:
        for _ in range(count):
            kind = self.rng.random()
            if kind < 0.6 or self.depth > 2:
                self.operation()
            elif kind < 0.8:
                self.memory()
            else:
                self.depth += 1
                self.rng.choice([self.branch, self.loop, self.loop, self.search])()
                self.depth -= 1

    def operation(self) -> None:
        name = self.rng.choice(EXACT)
        kind = self.rng.choice([k for k in KINDS if k.kind in OPS[name].accepts])
        if name == "cast":
            self.add(emit("cast", self.value(kind), type=self.rng.choice(KINDS)))
        elif name == "select":
            self.add(emit("select", self.value(bool_), self.value(kind), self.value(kind)))
        elif name in ("min", "max"):  # of two zeros either may come out: let no zeros meet
            self.add(emit(name, self.value(kind), self.b.const(2, kind)))
        elif name == "copysign":  # the sign of a NaN is not defined
            self.add(emit(name, self.value(kind), emit("cast", self.value(int32), type=kind)))
        else:
            self.add(emit(name, *[self.value(kind) for _ in range(OPS[name].arity)]))

    def memory(self) -> None:
        b, me = self.b, self.me
        match self.rng.randrange(9):
            case 0:
                self.add(*b.load(self.x, [me, self.index()], [0]))
            case 1:
                b.store(self.x, [me, self.index()], [0], [self.value(float32)])
            case 2:
                b.store(self.v, [me], range(4), [self.value(float64)], leaf=self.index())
            case 3:
                self.add(*b.load(self.v, [me], [3, 1]))
            case 4:
                b.accum(self.shared, [self.index()], [0], [self.value(float32)])
            case 5:
                how = self.rng.choice(["add", "exch"])
                self.add(*b.atomic(how, self.n, [me, self.index()], [0], [self.value(int32)]))
            case 6:
                b.append(Op("tape_store", [self.tape, self.index(), self.value(float64)], []))
            case 7:
                self.add(b.leaf_op("tape_load", (self.tape, self.index()), float64))
            case 8:
                b.append(Op("assert", [self.value(bool_)], [], {"message": "fuzz"}))

    def scoped(self, params: list[Value], yields: list[Scalar]) -> list[Value]:
        """A few statements that see `params`; what they define goes out of scope with them."""
        saved = {k: list(v) for k, v in self.pool.items()}
        self.add(*params)
        self.statements(self.rng.randrange(1, 6))
        out = [self.value(k) for k in yields]
        self.pool = saved
        return out

    def carried(self) -> list[Scalar]:
        return [self.rng.choice(KINDS) for _ in range(self.rng.randrange(4))]

    def branch(self) -> None:
        kinds = self.carried()
        self.add(*self.b.if_(self.value(bool_), lambda: self.scoped([], kinds), lambda: self.scoped([], kinds)))

    def loop(self) -> None:
        kinds = self.carried()
        init = [self.value(k) for k in kinds]
        n = emit("and", self.value(int32), self.b.const(3, int32))
        self.add(*self.b.for_(n, init, lambda *p: self.scoped(list(p), kinds), reverse=self.rng.random() < 0.3))

    def search(self) -> None:
        """A while loop of at most three iterations, with a random further condition."""
        kinds = self.carried()
        init = [self.b.const(0, int32), *[self.value(k) for k in kinds]]

        def cond(count: Value, *rest: Value) -> Value:
            (flag,) = self.scoped([count, *rest], [bool_])
            return emit("and", emit("lt", count, 3), flag)

        self.add(*self.b.while_(init, cond, lambda c, *rest: [c + 1, *self.scoped(list(rest), kinds)])[1:])


def arguments(seed: int) -> list:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((WIDTH, THREADS)).astype(np.float32).T  # not packed
    v, n = rng.standard_normal((THREADS, 4)), rng.integers(-9, 9, (THREADS, WIDTH)).astype(np.int32)
    outputs = [np.zeros(WIDTH, np.float32), np.zeros((THREADS, SEEN))]
    return [x, v, n, *outputs, np.float32(rng.standard_normal()), np.int32(seed % 7)]
