"""Inlining of calls."""

from __future__ import annotations

from collections.abc import Sequence

from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.clone import Env, copy_block, rebuild
from sim.core.lang.ir.core import Func, Op, Value, walk


def inline_call(b: Builder, callee: Func, args: Sequence[Value]) -> list[Value]:
    """Emit the body of a function for these arguments; returns its results."""
    return copy_block(b, callee.body, dict(zip(callee.params, args, strict=True)))


def without_rule(op: Op, env: Env) -> bool:
    """Whether an operation is a `rule`; its results are then what its function has computed."""
    if op.name == "rule":
        count = len(op.results)
        env.update((r, env.get(v, v)) for r, v in zip(op.results, op.operands[len(op.operands) - count :], strict=True))
    return op.name == "rule"


def inline(func: Func) -> Func:
    """Replace every `call` by the body of its callee, and leave out every `rule`."""

    def special(b: Builder, op: Op, env: Env) -> bool:
        if op.name != "call":
            return without_rule(op, env)
        args = [env.get(v, v) for v in op.operands]
        inner: Env = dict(zip(op.callee.params, args, strict=True))
        results = copy_block(b, op.callee.body, inner, lambda o, e: special(b, o, e))
        env.update(zip(op.results, results, strict=True))
        return True

    return rebuild(func, special) if any(op.name in ("call", "rule") for op in walk(func.body)) else func
