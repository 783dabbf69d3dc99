"""The one solver of forward data-flow problems: which values does something reach?

A monotone framework (G. A. Kildall, "A Unified Approach to Global Program Optimization", 1973; J. B. Kam,
J. D. Ullman, "Monotone Data Flow Analysis Frameworks", 1977) over the lattice of sets of SSA values.  An analysis
gives its facts at the entry (`start`) and one *transfer function*: `transfer(op, found)` yields the values of `op` that
belong to the set where `found` does, and may only yield more where `found` holds more.  Then the sweeps below, in
program order, end at the least solution; loops are why there may be more than two.

    dependents = solve_forward(walk(func.body), seeds, reached_results)      # all that depends on the seeds
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Set
from typing import TypeVar

from sim.core.lang.ir.core import Op, Value
from sim.core.lang.ir.regions import control, flow

Transfer = Callable[[Op, Set[Value]], Iterable[Value]]
T = TypeVar("T")


def solve_forward(ops: Iterable[Op], start: Iterable[Value], transfer: Transfer) -> set[Value]:
    """The least set of values that holds `start` and is closed under the transfer function.

    ops: those of the region to look at, in program order, the operations inside of regions too (`walk`).
    """
    ops = list(ops)

    def sweep(found: set[Value]) -> None:
        for op in ops:
            found.update(transfer(op, found))

    return least_fixpoint(start, sweep)


def least_fixpoint(start: Iterable[T], grow: Callable[[set[T]], None]) -> set[T]:
    """The set that `grow`, which adds in place what follows from a set, adds nothing to any more."""
    found, size = set(start), -1
    while size != len(found):
        size = len(found)
        grow(found)
    return found


def reached_results(op: Op, found: Collection[Value], controlled: bool = False) -> list[Value]:
    """The transfer function of plain dependence: results of an operation with an operand in the set.

    And what takes a value of the set around regions (results and parameters of `if`, `for`, `while`).
    controlled: a value also depends on what decides which region runs, and how often (control dependence).
    """
    if not op.regions:
        return op.results if any(v in found for v in op.operands) else []
    targets = flow(op)
    if controlled and any(v in found for v in control(op)):
        return [target for target, _ in targets]
    return [target for target, sources in targets if any(v in found for v in sources)]
