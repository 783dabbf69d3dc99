"""Gradient functions that take arrays (`@func_grad`): what they may look at, and how they stand in an adjoint.

A function that only reads arrays is a `call`; its gradient function reads them as they were before the launch.  One
that writes arrays stands in the kernel with all that it does, its writes marked `by_rule`, and a `rule` behind it: in
the reverse sweep that runs first, sees the gradients of what was written, and adds to those of what was read; then the
stores clear theirs, as any store does, but where the rule has changed that gradient itself: it knows what is left of
it.  What the function itself has written the rule reads as it is after the launch.

What a rule stores to array arguments is *scratch memory*: nothing else of the kernel may look there, and the threads of
the adjoint take turns, so that one place does for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sim.core.lang.analysis.activity import is_float, ops_in_loops
from sim.core.lang.errors import GradientError
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.clone import Env, copy_block
from sim.core.lang.ir.core import Func, Op, Value, walk
from sim.core.lang.types import ArrayType

Memory = Mapping[Value, Value]


def gradient_parameters(rule: Op) -> list[tuple[Value, Value]]:
    """(array operand, the parameter of its gradient in the derivative of this `rule`)."""
    arrays = [v for v in rule.operands if isinstance(v.type, ArrayType)]
    func: Func = rule.attrs["vjp"]()
    return list(zip(arrays, func.params[len(func.params) - len(arrays) :], strict=True))


def read_values(rule: Op) -> set[Value]:
    """Array operands whose elements the derivative of this `rule` loads."""
    func: Func = rule.attrs["vjp"]()
    given = dict(zip(func.params, rule.operands, strict=False))
    return {given[op.operands[0]] for op in walk(func.body) if op.name == "load" and op.operands[0] in given}


def scratch_of(rule: Op) -> set[Value]:
    """Array operands that the derivative of this `call` or `rule` stores to."""
    func: Func = rule.attrs["vjp"]()
    given = dict(zip(func.params, rule.operands, strict=False))
    return {given[op.operands[0]] for op in walk(func.body) if op.row.writes and op.operands[0] in given}


def scratch_memory(kernel: Func) -> set[Value]:
    """Arrays that rules of this kernel use as scratch memory."""
    return {v for op in walk(kernel.body) if op.name in ("call", "rule") for v in scratch_of(op)}


class _Argument(NamedTuple):
    """An array that a `rule` is given: its name in the function, and whether the function writes it, and the rule
    changes its gradient."""

    name: str
    array: Value
    written: bool
    changed: bool

    @property
    def kept(self) -> bool:
        """Whether what is left of its gradient is said by the rule."""
        return self.written and self.changed


def _arguments(rule: Op) -> list[_Argument]:
    changed = {op.operands[0] for op in walk(rule.attrs["vjp"]().body) if op.row.writes}
    written = {op.operands[0] for op in walk(rule.callee.body) if op.row.writes}
    params = [p for p in rule.callee.params if isinstance(p.type, ArrayType)]
    rows = zip(params, gradient_parameters(rule), strict=True)
    return [_Argument(p.name, array, p in written, gradient in changed) for p, (array, gradient) in rows]


def keeping_gradients(kernel: Func) -> set[Op]:
    """Stores `by_rule` that leave a gradient as it is: their rule has changed it."""
    kept = {
        (rule.callee, given.array)
        for rule in walk(kernel.body)
        if rule.name == "rule"
        for given in _arguments(rule)
        if given.kept
    }
    return {op for op in walk(kernel.body) if op.row.writes and (op.by_rule, op.operands[0]) in kept}


def written_by(kernel: Func, rule: Op) -> set[Value]:
    """Arrays that the function of this `rule` writes."""
    return {op.operands[0] for op in walk(kernel.body) if op.row.writes and op.by_rule is rule.callee}


def read_finals(kernel: Func) -> set[Value]:
    """Arrays that rules read as they are after the launch."""
    return {v for op in walk(kernel.body) if op.name == "rule" for v in read_values(op) & written_by(kernel, op)}


def check_rules(kernel: Func, groups: Mapping[Value, int]) -> None:
    """Refuse gradient functions that would find other values in an array than their function did.

    An array that the kernel writes is not as it was before the launch; one that the function itself writes is after the
    launch as the function has left it, if nothing else writes there.
    """
    _check_scratch(kernel, groups)
    _check_names(kernel, groups)
    ops = list(walk(kernel.body))
    written = {groups[op.operands[0]]: op.operands[0] for op in ops if op.row.writes}
    looped = ops_in_loops(kernel)
    for op in ops:
        if op.name not in ("call", "rule"):
            continue
        own = set[Value]()
        if op.name == "rule":
            own = written_by(kernel, op)
        for v in op.operands:
            if groups.get(v) not in written or (op.name == "rule" and v not in read_values(op)) or v in scratch_of(op):
                continue
            writers = {o.by_rule for o in ops if o.row.writes and groups[o.operands[0]] == groups[v]}
            calls = [o for o in ops if o.name == "rule" and o.callee is op.callee]
            if v in own and writers == {op.callee} and len(calls) == 1 and op not in looped:
                continue
            if v in own:
                raise GradientError(
                    f"`{op.callee.name}` has a gradient function that reads '{v.name}', which `{op.callee.name}` writes"
                    " and this kernel may write again",
                    op.span,
                    "call it once in a kernel, outside of loops, or let the gradient function compute what it needs",
                )
            raise GradientError(
                f"`{op.callee.name}` has a gradient function that takes the array '{v.name}', which this"
                f" kernel writes to (as '{written[groups[v]].name}')",
                op.span,
                "write to another array, or pass the elements instead of the array",
            )


def _check_scratch(kernel: Func, groups: Mapping[Value, int]) -> None:
    """Refuse scratch memory that anything else looks at, or leaves something in."""
    ops = list(walk(kernel.body))
    for rule in ops:
        if rule.name not in ("call", "rule"):
            continue
        for v in scratch_of(rule):
            other = next((op for op in ops if _touches(op, groups[v], groups)), None)
            if other is not None:
                raise GradientError(
                    f"the gradient function of `{rule.callee.name}` stores to '{v.name}', which is scratch memory then,"
                    " and this kernel uses it for something else",
                    other.span,
                    "take an array for it alone",
                )


def _touches(op: Op, group: int, groups: Mapping[Value, int]) -> bool:
    """Does an operation use an array otherwise than as scratch memory?"""
    if op.row.memory:
        return groups[op.operands[0]] == group
    if op.name not in ("call", "rule"):
        return False
    body, read = op.callee.body, read_values(op) - scratch_of(op)
    if op.name == "call":
        given = dict(zip(op.callee.params, op.operands, strict=True))
        read |= {given[o.operands[0]] for o in walk(body) if o.row.loads and o.operands[0] in given}
    return any(groups.get(v) == group for v in read)


def _check_names(kernel: Func, groups: Mapping[Value, int]) -> None:
    """Refuse one array under two names, where a store under one would end what is added to its gradient by the other.

    A function that is called several times may be given an array under another name the next time.
    """
    given = [(rule, a) for rule in walk(kernel.body) if rule.name == "rule" for a in _arguments(rule)]
    for rule, a in given:
        for other, b in given:
            one = other.callee is rule.callee and a.name != b.name and groups[a.array] == groups[b.array]
            if one and b.written and ((a.changed and rule is other) or (a.kept and not b.kept)):
                raise GradientError(
                    f"`{rule.callee.name}` is given the same memory as '{a.name}' and as '{b.name}', which it writes:"
                    f" what its gradient function adds to adjoint[{a.name}] would be lost",
                    rule.span,
                    "pass two arrays",
                )


def emit_rule(
    b: Builder, rule: Op, args: Sequence[Value], cts: Sequence[Value], gradient: Memory, finals: Memory
) -> list[Value]:
    """The derivative of a `call` or `rule`: cotangents of its floating operands.

    args: its operands and results in the adjoint; cts: cotangents of the results; gradient, finals: by array.
    """
    func: Func = rule.attrs["vjp"]()
    sums = [(gradient.get(v), p) for v, p in gradient_parameters(rule)]
    none = {p for v, p in sums if v is None}
    final = [finals.get(v, x) for v, x in zip(rule.operands, args, strict=False)]
    given: Env = dict(zip(func.params, [*final, *args[len(final) :], *cts, *(v or p for v, p in sums)], strict=True))

    def without(op: Op, env: Env) -> bool:
        """What has no gradient takes none, and none comes from there: it is an array without elements."""
        if not (op.row.memory or op.name == "shape") or op.operands[0] not in none:
            return False
        if op.name == "shape":
            env[op.results[0]] = b.const(0, op.results[0].type)
            return True
        env.update((r, b.const(0.0, r.type) if is_float(r) else r) for r in op.results)
        return True

    return copy_block(b, func.body, given, without)
