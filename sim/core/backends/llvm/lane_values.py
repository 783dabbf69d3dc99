"""Values of eight threads at once, and arithmetic on them: what `lanes.py` writes kernels with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sim.core.backends.base import LANES
from sim.core.backends.llvm.elementary import ElementaryWriter
from sim.core.backends.llvm.writer import llvm_type
from sim.core.lang.ir.core import Op, Value
from sim.core.lang.ir.table import OPS, Libm
from sim.core.lang.types import Scalar, int32

ALL = range(LANES)

_NOT_ALIKE = ("load ", "call ", "phi ")
"""What instructions begin with that may give something else when they are there again."""


@dataclass(frozen=True)
class Uniform:
    """The same scalar in all lanes."""

    name: str


@dataclass(frozen=True)
class Counting:
    """An int32 that is `first` in lane 0 and grows by one."""

    first: str


@dataclass(frozen=True)
class Split:
    """A scalar per lane."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class LaneVector:
    """A vector of the lanes."""

    name: str


@dataclass(frozen=True)
class InRows:
    """Number `part` of four side by side; each of `rows` holds those of two lanes, k and k + 4."""

    rows: tuple[str, ...]
    part: int


Lane = Uniform | Counting | Split | LaneVector | InRows


class LaneWriter(ElementaryWriter):
    """Lines of a function on eight threads: one basic block, so that what was made once can be used after."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[Value, Lane] = {}
        self.as_vector: dict[tuple[str, Lane], str] = {}
        self.as_split: dict[tuple[str, Lane], tuple[str, ...]] = {}
        self.in_rows: set[Value] = set()
        """The values that stay in rows."""
        self.at_hand: dict[str, str] = {}
        """The values that there are, by what makes them."""

    def let(self, right: str) -> str:
        """A value with this right-hand side: the same again where there is one.  LLVM would find these too, but only
        after it has changed some of them: a division whose negative is asked for becomes another division."""
        if right.startswith(_NOT_ALIKE):
            return super().let(right)
        known = self.at_hand.get(right)
        if known is None:
            known = self.at_hand[right] = super().let(right)
        return known

    def of(self, value: Value) -> Lane:
        return self.values[value]

    def vector(self, value: Value, lane: Lane | None = None) -> str:
        """A value as a vector."""
        lane = self.of(value) if lane is None else lane
        if isinstance(lane, LaneVector):
            return lane.name
        assert isinstance(value.type, Scalar)
        kind = llvm_type(value.type)
        if isinstance(lane, InRows):
            return self.transposed(kind, lane.rows)[lane.part]
        if isinstance(lane, Uniform) and not lane.name.startswith("%"):
            return f"splat ({kind} {lane.name})"
        known = self.as_vector.get((kind, lane))
        if known is not None:
            return known
        if isinstance(lane, Split):
            made = self.gathered(kind, lane.names)
        else:
            first = lane.first if isinstance(lane, Counting) else lane.name
            one = self.let(f"insertelement <{LANES} x {kind}> poison, {kind} {first}, i64 0")
            made = self.let(
                f"shufflevector <{LANES} x {kind}> {one}, <{LANES} x {kind}> poison, <{LANES} x i32> zeroinitializer"
            )
            if isinstance(lane, Counting):
                steps = ", ".join(f"{kind} {k}" for k in ALL)
                made = self.let(f"add <{LANES} x {kind}> {made}, <{steps}>")
        self.as_vector[kind, lane] = made
        return made

    def gathered(self, kind: str, names: Sequence[str]) -> str:
        """A vector of scalars."""
        made = "poison"
        for k, name in enumerate(names):
            made = self.let(f"insertelement <{LANES} x {kind}> {made}, {kind} {name}, i64 {k}")
        return made

    def split(self, value: Value, lane: Lane | None = None) -> tuple[str, ...]:
        """A value as a scalar per lane."""
        lane = self.of(value) if lane is None else lane
        if isinstance(lane, Split):
            return lane.names
        if isinstance(lane, Uniform):
            return (lane.name,) * LANES
        kind = llvm_type(value.type)
        known = self.as_split.get((kind, lane))
        if known is None:
            if isinstance(lane, Counting):
                known = tuple(self.let(f"add nsw {kind} {lane.first}, {k}") if k else lane.first for k in ALL)
            else:
                known = self.taken(kind, self.vector(value, lane))
            self.as_split[kind, lane] = known
        return known

    def taken(self, kind: str, vector: str) -> tuple[str, ...]:
        """The scalars of a vector."""
        return tuple(self.let(f"extractelement <{LANES} x {kind}> {vector}, i64 {k}") for k in ALL)

    def names_of(self, value: Value) -> tuple[str, ...]:
        """The values of LLVM that a value of the kernel is."""
        lane = self.of(value)
        if isinstance(lane, InRows):
            return lane.rows
        return self.split(value) if isinstance(lane, Split) else (self.vector(value),)

    def primitive(self, op: Op) -> Lane:
        lanes = [self.of(v) for v in op.operands]
        kind = op.operands[-1].type
        assert isinstance(kind, Scalar)
        if all(isinstance(a, Uniform) for a in lanes):
            return Uniform(self.rule(op, kind, [a.name for a in lanes]))  # type: ignore[union-attr]
        if op.name in ("add", "sub") and op.results[0].type is int32:
            a, b = lanes
            if isinstance(a, Counting) and isinstance(b, Uniform):
                return Counting(self.rule(op, kind, [a.first, b.name]))
            if op.name == "add" and isinstance(a, Uniform) and isinstance(b, Counting):
                return Counting(self.rule(op, kind, [a.name, b.first]))
        called = isinstance(OPS[op.name].llvm, Libm) and not self.is_inline(op.name, kind)
        one_by_one = called or (op.name == "mod" and kind.is_float)
        result = op.results[0].type
        assert isinstance(result, Scalar)
        a, b = lanes[0], lanes[-1]
        if op.results[0] in self.in_rows and isinstance(a, InRows) and isinstance(b, InRows):
            self.lanes = LANES
            rows = [self.arithmetic(op.name, kind, list(pair)) for pair in zip(a.rows, b.rows, strict=True)]
            self.lanes = 1
            return InRows(tuple(rows), a.part)
        whole = result.is_int and kind.is_int and not any(isinstance(a, LaneVector) for a in lanes)
        if one_by_one or whole:
            columns = [self.split(v, a) for v, a in zip(op.operands, lanes, strict=True)]
            return Split(tuple(self.rule(op, kind, [c[k] for c in columns]) for k in ALL))
        self.lanes = LANES
        try:
            return LaneVector(self.rule(op, kind, [self.vector(v, a) for v, a in zip(op.operands, lanes, strict=True)]))
        finally:
            self.lanes = 1

    def rule(self, op: Op, kind: Scalar, args: list[str]) -> str:
        if op.name in ("cast", "reinterpret"):
            target = op.results[0].type
            assert isinstance(target, Scalar)
            return (self.cast if op.name == "cast" else self.reinterpret)(args[0], kind, target)
        return self.arithmetic(op.name, kind, args)

    # -- shuffles
    def rows_of(self, t: str, vectors: Sequence[str]) -> list[str]:
        """One to four vectors as a vector of as many numbers for every lane; scalars are scalars."""
        count = len(vectors)
        if count == 1:
            return list(self.taken(t, vectors[0]))
        return self.of_each(t, self.transposed(t, [*vectors, *["poison"] * (4 - count)]), count)

    def of_each(self, t: str, rows: Sequence[str], count: int) -> list[str]:
        """So many numbers of every lane, of rows that hold those of two."""
        return [self.shuffle(t, LANES, rows[k % 4], "poison", range(k // 4 * 4, k // 4 * 4 + count)) for k in ALL]

    def shuffle(self, kind: str, n: int, a: str, b: str, chosen: Sequence[int]) -> str:
        """Elements of two vectors of length n, by number; -1: any."""
        mask = ", ".join(f"i32 {k if k >= 0 else 'poison'}" for k in chosen)
        return self.let(f"shufflevector <{n} x {kind}> {a}, <{n} x {kind}> {b}, <{len(chosen)} x i32> <{mask}>")

    def in_halves(self, t: str, a: str, b: str, picks: Sequence[int]) -> str:
        """In each half of two vectors two numbers of the first, then two of the second."""
        return self.shuffle(
            t, LANES, a, b, [half + k + LANES * (n > 1) for half in (0, 4) for n, k in enumerate(picks)]
        )

    def many_of_three(self, t: str, vectors: Sequence[str]) -> list[tuple[int, str]]:
        """Three vectors as the numbers of one lane after the other: quarters of 16 bytes, and where they go.

        Halves stay where they are: shuffles across them take twice as long on some processors.
        """
        x, y, z = vectors
        xy, yz, zx = (
            self.in_halves(t, *pair) for pair in ((x, y, (0, 2, 0, 2)), (y, z, (1, 3, 1, 3)), (z, x, (0, 2, 1, 3)))
        )
        parts = (
            self.in_halves(t, xy, zx, (0, 2, 0, 2)),
            self.in_halves(t, yz, xy, (0, 2, 1, 3)),
            self.in_halves(t, zx, yz, (1, 3, 1, 3)),
        )
        return [
            (16 * (k + 3 * half), self.shuffle(t, LANES, part, "poison", range(4 * half, 4 * half + 4)))
            for half in (0, 1)
            for k, part in enumerate(parts)
        ]

    def three_of_many(self, t: str, parts: Sequence[str]) -> list[str]:
        """The way back: from quarters k and k + 3 side by side."""
        a, b, c = parts
        xy, yz = self.in_halves(t, b, c, (2, 3, 1, 2)), self.in_halves(t, a, b, (1, 2, 0, 1))
        return [
            self.in_halves(t, a, xy, (0, 3, 0, 2)),
            self.in_halves(t, yz, xy, (0, 2, 1, 3)),
            self.in_halves(t, yz, c, (1, 3, 0, 3)),
        ]

    def transposed(self, t: str, rows: Sequence[str]) -> list[str]:
        """Four vectors of eight as two 4 x 4 matrices side by side, both transposed."""
        n = LANES

        def mix(a: str, b: str, picks: Sequence[tuple[int, int]]) -> str:
            return self.shuffle(t, n, a, b, [half + k + n * which for half in (0, 4) for k, which in picks])

        low, high = [(0, 0), (0, 1), (1, 0), (1, 1)], [(2, 0), (2, 1), (3, 0), (3, 1)]
        u = [
            mix(rows[0], rows[1], low),
            mix(rows[0], rows[1], high),
            mix(rows[2], rows[3], low),
            mix(rows[2], rows[3], high),
        ]
        first, second = [(0, 0), (1, 0), (0, 1), (1, 1)], [(2, 0), (3, 0), (2, 1), (3, 1)]
        return [mix(u[0], u[2], first), mix(u[0], u[2], second), mix(u[1], u[3], first), mix(u[1], u[3], second)]
