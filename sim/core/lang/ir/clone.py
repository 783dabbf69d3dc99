"""Copying of IR: the values of a copy are folded and reused anew."""

from __future__ import annotations

from collections.abc import Callable

from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Block, Func, Op, Value

Env = dict[Value, Value]
"""What stands for the values of the original in the copy."""


def copy_block(b: Builder, block: Block, env: Env, special: Callable[[Op, Env], bool] | None = None) -> list[Value]:
    """Emit the operations of `block` with operands replaced by `env`; returns what the block yields there.

    `special(op, env)` may handle an operation itself (then it returns True and has set `env` for the results).
    """
    for op in block.ops:
        if special is None or not special(op, env):
            copy_op(b, op, env, special)
    return [env.get(v, v) for v in block.yields]


def _copy_primitive(b: Builder, op: Op, env: Env) -> None:
    """Most operations are these: nothing is asked twice."""
    before = op.results[0]
    after = b.again(op, [env.get(v, v) for v in op.operands])
    if op.attrs and after.op is not None and after.op.name == op.name:
        after.op.attrs.update(op.attrs)
    if before.name and not after.name:
        after.name = before.name
    env[before] = after


def copy_op(b: Builder, op: Op, env: Env, special: Callable[[Op, Env], bool] | None = None) -> None:
    """Emit one operation (and its regions) with operands replaced by `env`."""
    b.span = op.span
    if op.is_primitive:
        _copy_primitive(b, op, env)
        return
    args = [env.get(v, v) for v in op.operands]

    def inside(region: Block) -> Callable[..., list[Value]]:
        def fill(*params: Value) -> list[Value]:
            inner = dict(env)
            inner.update(zip(region.params, params, strict=True))
            return copy_block(b, region, inner, special)

        return fill

    if op.name == "const":
        results = [b.const(op.attrs["value"], op.results[0].type)]
    elif op.row.free:
        results = [b.leaf_op(op.name, args, op.results[0].type, **op.attrs)]
    elif op.name == "if" and args[0].const is not None:
        chosen = op.regions[0] if args[0].const else op.regions[1]
        inner = dict(env)
        results = copy_block(b, chosen, inner, special)
    else:
        regions = [b.region([p.type for p in r.params], inside(r), [p.name for p in r.params]) for r in op.regions]
        results = b.append(
            Op(op.name, args, [Value(r.type, r.name) for r in op.results], dict(op.attrs), regions, op.span)
        ).results
    for before, after in zip(op.results, results, strict=True):
        after.name = after.name or before.name
        env[before] = after


def rebuild(func: Func, special: Callable[[Builder, Op, Env], bool] | None = None) -> Func:
    """A copy of the function, its values folded and reused anew."""
    block = Block([Value(p.type, p.name) for p in func.params])
    env: Env = dict(zip(func.params, block.params, strict=True))
    with Builder(block) as b:
        handler = None if special is None else (lambda op, e: special(b, op, e))
        block.yields = copy_block(b, func.body, env, handler)
    return Func(func.name, block, func.span, func.dims, dict(func.attrs))
