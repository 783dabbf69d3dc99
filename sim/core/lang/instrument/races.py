"""Races: does what a kernel computes depend on the order of its threads?  Then it has no gradient.

What is not known to be free of races (`race_freedom.py`) is looked at in a launch: two variants of the kernel run their
threads one after another and mark a shadow memory; an access to what another thread has touched is reported.

* `address_check` computes only where the accesses go, and takes both sides of a branch that depends on floating-point
  values.  What it finds free of races is so whatever the values are.  There is none where places depend on values.
* `exact_check` does what the kernel does, on copies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import dataclass
from functools import partial

from sim.core.lang.analysis.activity import is_float
from sim.core.lang.analysis.dataflow import reached_results, solve_forward
from sim.core.lang.instrument.shadow_memory import ShadowMemory
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.clone import Env, copy_block, copy_op
from sim.core.lang.ir.core import Block, Func, Op, Value, split_memory, walk, walk_regions
from sim.core.lang.ir.dce import dce
from sim.core.lang.ir.regions import control
from sim.core.lang.ir.verifier import verify


@dataclass(frozen=True)
class RaceCheck:
    """A variant of a kernel that looks for races.

    func:    its parameters are those of the kernel, then three arrays: `layout` (int64), the shadow memory (KINDS,
             cells; int32) and `report` (REPORT; int32).  `layout` has, for each watched parameter, the cell where it
             begins, and its strides.
    watched: numbers of the array parameters whose accesses are marked.
    unit:    bytes of a cell.
    sites:   the accesses, by their number in a report.
    used:    numbers of the parameters of the kernel that the verdict depends on (beside shapes and strides).
    exact:   whether it does what the kernel does; else it only computes where accesses go, and may find too much.
    """

    func: Func
    watched: tuple[int, ...]
    unit: int
    sites: tuple[Op, ...]
    used: frozenset[int]
    exact: bool


def _variant(
    kernel: Func,
    watched: Collection[int],
    active: Collection[int],
    fill: Callable[[ShadowMemory, Env], bool],
    exact: bool,
) -> RaceCheck | None:
    """A kernel with the parameters of a check whose operations `fill` emits; None if that gives up."""
    block = Block([Value(p.type, p.name) for p in kernel.params])
    env: Env = dict(zip(kernel.params, block.params, strict=True))
    with Builder(block) as b:
        shadow = ShadowMemory(b, kernel, tuple(sorted(watched)), frozenset(active))
        block.params += [shadow.layout, shadow.cells, shadow.report]
        if not fill(shadow, env):
            return None
    name = f"{kernel.name}_{'races' if exact else 'addresses'}"
    func = verify(dce(Func(name, block, kernel.span, kernel.dims, {"serial": True})))
    count = len(kernel.params)
    operands = {v for op in walk(func.body) if op.name != "shape" for v in op.operands}
    used = frozenset(k for k, p in enumerate(func.params[:count]) if p in operands)
    return RaceCheck(func, shadow.watched, shadow.unit, tuple(shadow.sites), used, exact)


def exact_check(kernel: Func, watched: Collection[int], active: Collection[int]) -> RaceCheck:
    """The kernel with marks for the accesses to the parameters `watched`.  Give it copies of what it writes."""

    def fill(shadow: ShadowMemory, env: Env) -> bool:
        def special(op: Op, inner: Env) -> bool:
            if op.name in ("print", "assert"):
                return True
            if not shadow.watches(op):
                return False
            shadow.mark(op, inner)
            copy_op(shadow.b, op, inner)
            return True

        copy_block(shadow.b, kernel.body, env, special)
        return True

    made = _variant(kernel, watched, active, fill, exact=True)
    assert made is not None
    return made


class _UnknownPlace(Exception):
    """Where an access goes depends on values."""


def address_check(kernel: Func, watched: Collection[int], active: Collection[int]) -> RaceCheck | None:
    """Only the places of the accesses, whichever way branches on values go.  None if a place depends on values.

    It writes nothing but marks.  Accesses outside of arrays may happen in branches that the kernel would not take.
    """

    def fill(shadow: ShadowMemory, env: Env) -> bool:
        try:
            _Addresses(shadow, _volatile(kernel)).block(kernel.body, env)
        except _UnknownPlace:
            return False
        return True

    return _variant(kernel, watched, active, fill, exact=False)


def _volatile(kernel: Func) -> set[Value]:
    """Values that may differ from launch to launch: from floating-point memory, or memory that the kernel writes."""
    written = {op.operands[0] for op in walk(kernel.body) if op.row.writes}

    def transfer(op: Op, found: Set[Value]) -> Iterable[Value]:
        if op.name == "load":
            moved = op.operands[0] in written or any(v in found for v in op.operands[1:])
            return op.results if moved else filter(is_float, op.results)
        return op.results if op.name == "atomic" else reached_results(op, found, controlled=True)

    return solve_forward(walk(kernel.body), (), transfer)


class _Addresses:
    """Emits what a kernel does, as far as it decides where accesses go: nothing of what is `volatile`."""

    def __init__(self, shadow: ShadowMemory, volatile: set[Value]) -> None:
        self.shadow, self.b, self.volatile = shadow, shadow.b, volatile

    def block(self, block: Block, env: Env) -> None:
        for op in block.ops:
            self.b.span = op.span
            if op.row.memory:
                self._access(op, env)
            elif op.regions:
                self._regions(op, env)
            elif op.name not in ("print", "assert"):
                self._copy(op, env)

    def _copy(self, op: Op, env: Env) -> None:
        if not any(r in self.volatile for r in op.results):
            copy_op(self.b, op, env)

    def _access(self, op: Op, env: Env) -> None:
        if self.shadow.watches(op):
            if any(v in self.volatile for v in split_memory(op).address):
                raise _UnknownPlace
            self.shadow.mark(op, env)
        if op.name == "load":
            self._copy(op, env)

    def _regions(self, op: Op, env: Env) -> None:
        if any(v in self.volatile for v in control(op)):
            if op.name == "if":  # both sides, one after the other
                for region in op.regions:
                    self.block(region, dict(env))
            elif any(self.shadow.watches(inner) for inner in walk_regions(op)):
                raise _UnknownPlace
            return
        kept = [j for j, r in enumerate(op.results) if r not in self.volatile]
        if op.name == "if":
            cond = env.get(op.operands[0], op.operands[0])
            results = self.b.if_(cond, *(partial(self._region, op, region, kept, env) for region in op.regions))
        else:
            results = self._loop(op, kept, env)
        env.update(zip([op.results[j] for j in kept], results, strict=True))

    def _loop(self, op: Op, kept: Sequence[int], env: Env) -> list[Value]:
        args = [env.get(v, v) for v in op.operands]
        body = partial(self._region, op, op.regions[-1], kept, env)
        if op.name == "for":
            return self.b.for_(args[0], [args[1 + j] for j in kept], body, op.reverse)
        ask = partial(self._region, op, op.regions[0], kept, env)
        return self.b.while_([args[j] for j in kept], lambda *now: ask(*now)[0], body)

    def _region(self, op: Op, region: Block, kept: Sequence[int], env: Env, *params: Value) -> list[Value]:
        """A region without the carried values and results that are not `kept`; returns what it yields."""
        first = 0 if op.name == "if" else op.first_carried
        names = region.params and [*region.params[:first], *(region.params[first + j] for j in kept)]
        inner = {**env, **dict(zip(names, params, strict=True))}
        self.block(region, inner)
        asks = op.name == "while" and region is op.regions[0]
        yields = region.yields if asks else [region.yields[j] for j in kept]
        return [inner.get(v, v) for v in yields]
