"""Kernels in two stages: what eight threads begin with is done for the next eight while these come to their end.

Eight threads of a short kernel are one chain: indices, rows, a square root, quotients, rows again.  Less than two such
chains fit where a processor looks for what it can do meanwhile, so its units wait.  In two stages half of the chain of
the next eight stands between the halves of this one (M. Lam, "Software Pipelining", PLDI 1988).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from sim.core.backends.base import LANES
from sim.core.backends.llvm.machine_code.toolchain import gains_by_stages
from sim.core.backends.llvm.writer import llvm_type
from sim.core.lang.analysis.thread_locality import injective_axes, late_updates, own_arrays, uniform_values
from sim.core.lang.ir.core import Func, Op, Value, split_memory
from sim.core.lang.types import Scalar

_CYCLES = {"div": 11, "sqrt": 15, "mul": 4, "add": 4, "sub": 4, "load": 8, "rows": 20}
"""What operations on floats take, nearly; all others take one."""
_LEAST, _MOST = 40, 200
"""Operations of a kernel that is worth it: others end before they wait, or wait for more than one chain."""
_CARRIED = 5
"""Vectors that registers have room for from stage to stage."""
_AGAIN = 5
"""Cycles that computing a value again may take, instead of carrying it."""
_SOON = 20
"""Cycles after which what lies side by side is there, whatever else is waited for."""

BETWEEN = 64
"""Bytes of a place for a vector between stages."""


@dataclass(frozen=True)
class Stages:
    """ahead: operations for the next eight, whose results `carried` the rest takes over; chain: what of the rest is
    done before them, and rest: after them."""

    ahead: list[Op]
    carried: list[Value]
    chain: list[Op]
    rest: list[Op]

    @property
    def carried_types(self) -> list[str]:
        """The types of the vectors, as LLVM writes them."""
        return [f"<{LANES} x {llvm_type(v.type)}>" for v in self.carried]


def chain_of(func: Func) -> list[Op] | None:
    """The operations of a kernel, without choices, if it is one that waits and nobody can see their order: launches
    promise that no two threads touch one element of what it writes to at scattered places, and with that, that its
    arrays lie apart."""
    if not func.attrs.get("exclusive") or late_updates(func):
        return None
    ops, uniform = flat(func.body.ops), uniform_values(func)
    waits = any(is_long(op) and not uniform.issuperset(op.results) for op in ops)
    if not _LEAST <= len(ops) <= _MOST or not waits or any(op.name in ("if", "from_end") for op in ops):
        return None
    return ops


def in_stages(func: Func, chain: list[Op]) -> Stages | None:
    """Such a kernel in two stages, where these are known to be faster and there is a place to cut."""
    return _Cut(func, chain).best() if gains_by_stages() else None


def only_stores_rows(chain: list[Op]) -> bool:
    """Does a chain end in stores of numbers that fit rows of 16 bytes, and adds to nothing but what it has loaded?"""
    writes = [op for op in chain if op.row.writes]
    return all(op.name == "store" and all(v.type.size == 4 for v in split_memory(op)[3]) for op in writes)  # type: ignore[attr-defined]


def is_long(op: Op) -> bool:
    return op.name in ("div", "sqrt")


def flat(ops: list[Op]) -> list[Op]:
    """The operations without choices between numbers: both sides, as eight threads compute them, then selections."""
    found = list[Op]()
    for op in ops:
        sides = [flat(region.ops) for region in op.regions]
        if op.name != "if" or not all(o.is_primitive or o.name == "const" for side in sides for o in side):
            found.append(op)
            continue
        found += [o for side in sides for o in side]
        for result, *ways in zip(op.results, *(region.yields for region in op.regions), strict=True):
            found.append(Op("select", [op.operands[0], *ways], [result], span=op.span))
    return found


def is_number(v: Value) -> bool:
    return isinstance(v.type, Scalar) and v.type.is_float


class _Cut:
    """The search for the operation after which the first stage ends."""

    def __init__(self, func: Func, ops: list[Op]) -> None:
        self.ops, self.uniform = ops, uniform_values(func)
        self.near = injective_axes(func).keys() | self.uniform
        own, promised = own_arrays(func), func.attrs["exclusive"]
        written = {op.operands[0] for op in ops if op.row.writes}
        self.changing = {a for a in written if a not in own and a.name not in promised}
        self.maker = {v: op for op in self.ops for v in op.results}
        self.ready: dict[Value, float] = {}
        self.fixed: set[Value] = set()
        """What cannot be computed ahead."""
        self.beside: set[Value] = set()
        """What is made of elements that lie side by side."""
        for op in self.ops:
            self._time(op)

    def _time(self, op: Op) -> None:
        given, loads = op.operands, op.name == "load"
        before = max((self.ready.get(v, 0.0) for v in given), default=0.0)
        for v in op.results:
            self.ready[v] = 0.0 if v in self.uniform else before + self._cycles(op)
        if (
            self._is_beside(op)
            if loads
            else op.is_primitive and all(v in self.beside or v in self.uniform for v in given)
        ):
            self.beside.update(op.results)
        if op.row.writes or (loads and given[0] in self.changing) or any(v in self.fixed for v in given):
            self.fixed.update(op.results)

    def _cycles(self, op: Op) -> int:
        if not op.results or not is_number(op.results[0]):
            return 1
        if op.name == "load":
            return _CYCLES["load" if self._is_beside(op) else "rows"]
        return _CYCLES.get(op.name, 1)

    def _is_beside(self, op: Op) -> bool:
        """Do elements of a memory operation lie side by side, or is there one for all?"""
        return all(v in self.near for v in split_memory(op)[1])

    def best(self) -> Stages | None:
        """Stages of about the same length, with few vectors between them."""
        whole = max(self.ready.values(), default=0.0)
        found: tuple[float, Stages] | None = None
        for end in sorted(set(self.ready.values())):
            if not 0.25 * whole <= end <= 0.75 * whole:
                continue
            stages = self._stages(end)
            if stages is None or sum(v.type.size for v in stages.carried) > 4 * _CARRIED:  # type: ignore[attr-defined]
                continue
            cost = max(end, whole - end) + 2.0 * len(stages.carried)
            if found is None or cost < found[0]:
                found = cost, stages
        return None if found is None else found[1]

    def _stages(self, end: float) -> Stages | None:
        """The stages of which the first ends after so many cycles."""
        writes = [op for op in self.ops if op.row.writes]
        early = {v for v in self.maker if self.ready[v] <= end and self._can_be_carried(v)}
        needed = self._closure(writes, early)
        carried = {v for op in needed for v in op.operands if v in early}
        for v in sorted(carried, key=self.ready.__getitem__):
            if self._again(v, carried - {v}) <= _AGAIN:
                carried.discard(v)
        needed = self._closure(writes, carried)
        ahead = self._closure([self.maker[v] for v in carried], set())
        if not any(op.name == "load" and not self._is_beside(op) for op in ahead):
            return None
        chain = self._closure([op for op in needed if is_long(op) and not op.row.writes], carried)
        return Stages(
            [op for op in self.ops if op in ahead],
            [v for op in self.ops for v in op.results if v in carried],
            [op for op in self.ops if op in chain],
            [op for op in self.ops if op in needed and op not in chain],
        )

    def _can_be_carried(self, v: Value) -> bool:
        computed = is_number(v) and self.maker[v].is_primitive
        return computed and v not in self.fixed and v not in self.uniform and not self._is_soon(v)

    def _is_soon(self, v: Value) -> bool:
        """Is a value there before anybody waits for it?"""
        return v not in self.maker or v in self.uniform or (self.ready[v] <= _SOON and v in self.beside)

    def _again(self, v: Value, carried: set[Value]) -> float:
        """Cycles to make a value from what is carried and what is there soon."""
        if v in carried or self._is_soon(v):
            return 0.0
        op = self.maker[v]
        if not op.is_primitive:
            return inf
        return self._cycles(op) + max(self._again(o, carried) for o in op.operands)

    def _closure(self, ops: list[Op], stops: set[Value]) -> set[Op]:
        """Operations and all that they are made of, but for what stops it."""
        found, left = set(ops), list(ops)
        while left:
            for v in left.pop().operands:
                made = self.maker.get(v)
                if made is not None and made not in found and v not in stops:
                    found.add(made)
                    left.append(made)
        return found
