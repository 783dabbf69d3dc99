"""Where gradient functions look at the gradient of what their function writes, made visible to checks for races.

The store of another thread ends that gradient, and its reads add to it: what the look finds would depend on the order
of the threads.  So a look counts as a sum, since others may look too, and a change of that gradient as a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from sim.core.lang.analysis.dataflow import reached_results, solve_forward
from sim.core.lang.autodiff.rules import gradient_parameters, scratch_of
from sim.core.lang.errors import GradientError
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.clone import Env, copy_block, rebuild
from sim.core.lang.ir.core import Func, Op, Value, split_memory, walk
from sim.core.lang.ir.dce import dce
from sim.core.lang.ir.inline import inline_call, without_rule
from sim.core.lang.ir.regions import control


def with_looks(kernel: Func, groups: Mapping[Value, int]) -> Func | None:
    """The kernel with all calls in place, and a sum or store for each look; None where there are no looks.

    groups: numbers of the memory of its arrays.  Of what it only adds to nothing is cleared: there anyone may look.
    """
    stored = {groups[op.operands[0]] for op in walk(kernel.body) if op.name == "store"}
    looks = {
        rule: {g: array for array, g in gradient_parameters(rule) if groups[array] in stored}
        for rule in walk(kernel.body)
        if rule.name == "rule"
    }
    if not any(_looking(rule, gradients) for rule, gradients in looks.items()):
        return None

    def special(b: Builder, op: Op, env: Env) -> bool:
        if op.name == "call":
            env.update(zip(op.results, inline_call(b, op.callee, [env.get(v, v) for v in op.operands]), strict=True))
        elif op.name == "rule":
            _emit_looks(b, op, looks[op], env)
            without_rule(op, env)
        else:
            return False
        return True

    return dce(rebuild(kernel, special))


def _looking(rule: Op, gradients: Mapping[Value, Value]) -> bool:
    """Whether a rule does more with one of these gradients than to add to it."""
    ops = walk(rule.attrs["vjp"]().body)
    return any(op.name in ("load", "store") and op.operands[0] in gradients for op in ops)


def _emit_looks(b: Builder, rule: Op, gradients: Mapping[Value, Value], env: Env) -> None:
    """What a rule does as far as it says where it looks."""
    func: Func = rule.attrs["vjp"]()
    scratch = scratch_of(rule)
    unknown = {p for p, v in zip(func.params, rule.operands, strict=False) if v in scratch}
    unknown |= {p for _, p in gradient_parameters(rule)}
    _check_places(rule, func, unknown)
    given: Env = {p: env.get(v, v) for p, v in zip(func.params, rule.operands, strict=False)}
    given |= {g: env.get(array, array) for array, g in gradient_parameters(rule)}

    def special(op: Op, inner: Env) -> bool:
        if not op.row.memory or (op.name == "load" and op.operands[0] not in unknown):
            return False
        if op.operands[0] in gradients:
            access = split_memory(op)
            array = env.get(gradients[access.array], gradients[access.array])
            where, at = [inner.get(v, v) for v in access.indices], access.leaf and inner.get(access.leaf, access.leaf)
            if op.name == "load":
                zeros = [b.const(0.0, r.type) for r in op.results]
                look = b.accum(array, where, op.leaves, zeros, at)
            else:
                look = b.store(array, where, op.leaves, b.load(array, where, op.leaves, at), at)
            look.attrs["looks"] = rule.callee.name
        inner.update((r, b.const(0, r.type)) for r in op.results)
        return True

    copy_block(b, func.body, given, special)


def _check_places(rule: Op, func: Func, unknown: Set[Value]) -> None:
    """Refuse places that depend on what only the reverse sweep knows."""

    def transfer(op: Op, found: Set[Value]) -> Iterable[Value]:
        own = op.row.memory and op.operands[0] in unknown
        return op.results if own else reached_results(op, found, controlled=True)

    found = solve_forward(walk(func.body), (), transfer)
    for op in walk(func.body):
        asked = split_memory(op).address if op.row.memory else control(op) if op.regions else ()
        if any(v in found for v in asked):
            raise GradientError(
                f"the gradient function of `{rule.callee.name}` looks at gradients in places that depend on gradients:"
                " whether the threads are in each other's way there cannot be found out",
                op.span,
                "let places and branches depend on arguments alone",
            )
