"""Branches: both sides of a choice of the run are traced into regions, and what they assigned is merged.

Early exits, `return`, `break` and `continue`, set flags that are kept like variables: one that is known to be true ends
the block, one of the run wraps what is left of it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from sim.core.lang.frontend.source import MISSING
from sim.core.lang.frontend.traced import Mismatch, TracedValue, Undefined, flatten, rebuild, same
from sim.core.lang.frontend.tracing.context import FLAGS, RETURNED, VALUE, Context
from sim.core.lang.ir.core import Block, Op, Value
from sim.core.lang.types import bool_

_CHOICE = "$choice"


def choose(t: Context, test: ast.expr, body: ast.expr, orelse: ast.expr, node: ast.AST) -> TracedValue:
    """`body if test else orelse`: only one of them is evaluated."""
    cond = t.logical(t.eval(test), test)
    if not isinstance(cond, Value):
        return t.eval(body if cond else orelse)

    def side(part: ast.expr) -> Callable[[], None]:
        return lambda: t.env.__setitem__(_CHOICE, t.eval(part))

    branch(t, cond, side(body), side(orelse), node)
    return t.env.pop(_CHOICE)


def branch(
    t: Context,
    cond: Value,
    then: Callable[[], None],
    orelse: Callable[[], None],
    node: ast.AST,
    left: tuple[bool, bool] = (False, False),
) -> None:
    """Traces both sides into regions of an `if` and merges what they assigned.

    left: which of them end where the program has left the block, by one flag or another.
    """
    if cond.const is not None:
        (then if cond.const else orelse)()
        return
    # both sides start from the same variables; each works on a copy of its own
    before, envs, blocks = t.env, [], []
    for side, holds in ((then, True), (orelse, False)):
        t.env = dict(before)
        with t.lower_bounds.assuming(cond, holds):
            blocks.append(t.b.region((), side))
        envs.append(t.env)
    t.env = before
    t.at(node)
    merged = [
        name for name in {**envs[0], **envs[1]} if not same(envs[0].get(name, MISSING), envs[1].get(name, MISSING))
    ]
    for name in envs[0]:
        if name not in merged:
            before[name] = envs[0][name]
    gone = [known or any(env[flag] is True for flag in FLAGS) for known, env in zip(left, envs, strict=True)]
    returned = [env[RETURNED] is True for env in envs]
    pairs = {
        name: _merge_pair(t, name, cond, envs[0].get(name, MISSING), envs[1].get(name, MISSING), gone, returned, node)
        for name in merged
    }
    _emit_if(t, cond, blocks, pairs)


def _merge_pair(
    t: Context,
    name: str,
    cond: Value,
    a: TracedValue,
    b: TracedValue,
    gone: list[bool],
    returned: list[bool],
    node: ast.AST,
) -> tuple[TracedValue, TracedValue]:
    """The values of a variable after both branches, in one shape; not mergeable: an `Undefined` twice.

    gone: which of the branches have left, so that nothing is read there any more; returned: for good, not to the next
    iteration or behind the loop.
    """
    lost = [x is MISSING or isinstance(x, Undefined) for x in (a, b)]
    if any(lost):
        line = t.frame.function.source.span(node).line
        why = next(
            (x.why for x in (a, b) if isinstance(x, Undefined)),
            f"may have no value here: only one branch of the `if` on line {line} assigns it",
        )
        side = lost.index(True)
        if not all(lost) and (name == VALUE or gone[side]):  # only one side returns: the other's value is never read
            if name != VALUE and not returned[side]:
                t.frame.skipped[name] = why
            return (filler(t, b), b) if lost[0] else (a, filler(t, a))
        none = Undefined(why if name != VALUE else "is not returned")
        return none, none
    if name in FLAGS and isinstance(a, bool) and isinstance(b, bool):
        flag = cond if a else t.logical_not(cond)
        return flag, flag
    try:
        return t.unify(a, b)
    except Mismatch as problem:
        if name == VALUE:
            raise t.error(
                node, f"`{t.frame.function.name}` returns {problem.args[0]} on different paths", "return one type"
            ) from None
        if name == _CHOICE:
            hint = problem.args[1] if len(problem.args) > 1 else "convert one of them"
            raise t.error(node, f"the two sides of a choice are {problem.args[0]}", hint) from None
        return _clash(t, name, problem, node)


def _clash(t: Context, name: str, problem: Mismatch, node: ast.AST) -> tuple[TracedValue, TracedValue]:
    line = t.frame.function.source.span(node).line
    # only an error if somebody reads it: branches may use one name for unrelated temporaries
    gone = Undefined(f"is {problem.args[0]} after the branches of the `if` on line {line}")
    return gone, gone


def filler(t: Context, x: TracedValue) -> TracedValue:
    """Something of the shape of x for a path on which it is never read."""
    zeros = (t.b.const(0, v.type) for v in flatten(x))
    return rebuild(x, zeros)


def _emit_if(t: Context, cond: Value, blocks: list[Block], pairs: dict[str, tuple[TracedValue, TracedValue]]) -> None:
    columns: dict[tuple[int, int], tuple[Value, Value]] = {}  # variables that are the same on both sides share a result
    for a, b in pairs.values():
        for x, y in zip(flatten(a), flatten(b), strict=True):
            if x is not y:
                columns[id(x), id(y)] = (x, y)
    idle = all(op.name == "const" for block in blocks for op in block.ops)
    if idle:  # nothing happens in the branches: a plain selection
        for block in blocks:
            t.b.blocks[-1].ops.extend(block.ops)
        results = [t.b.emit("select", cond, x, y) for x, y in columns.values()]
    else:
        for k, block in enumerate(blocks):
            block.yields = [pair[k] for pair in columns.values()]
        results = t.b.append(Op("if", [cond], [Value(x.type) for x, _ in columns.values()], {}, blocks)).results
    chosen = dict(zip(columns, results, strict=True))
    for name, (a, b) in pairs.items():
        values = iter([chosen.get((id(x), id(y)), x) for x, y in zip(flatten(a), flatten(b), strict=True)])
        t.env[name] = rebuild(a, values)


def short_circuit(
    t: Context, conjunction: bool, left: TracedValue, right: Callable[[], TracedValue], node: ast.AST
) -> TracedValue:
    """`left and right()` (or `or`), where the right side must not be evaluated if the left decides."""
    if not isinstance(left, Value):
        return right() if bool(left) is conjunction else left
    found: list[TracedValue] = []
    before, t.env = t.env, dict(t.env)
    # traced into a region first: if it turns out harmless its operations run always, and no branch is needed
    with t.lower_bounds.assuming(left, conjunction):
        block = t.b.region((), lambda: found.append(right()))
    changes = any(t.env.get(name) is not value for name, value in before.items())
    t.env = before
    if changes:  # as the state of random numbers, which is another one only where the right side was evaluated
        return _deciding(t, conjunction, left, right, node)
    known = found[0]
    if not isinstance(known, Value):
        return left if known is conjunction else known
    if harmless(block):
        t.b.blocks[-1].ops.extend(block.ops)
        return t.b.emit("and" if conjunction else "or", left, known)
    block.yields = [known]
    other = t.b.region((), lambda: [t.b.const(not conjunction, bool_)])
    regions = [block, other] if conjunction else [other, block]
    return t.b.append(Op("if", [left], [Value(bool_)], {}, regions)).results[0]


def _deciding(
    t: Context, conjunction: bool, left: Value, right: Callable[[], TracedValue], node: ast.AST
) -> TracedValue:
    """`left and right()` (or `or`) as a branch, in which the right side may change variables."""

    def evaluated() -> None:
        found = right()
        t.env[_CHOICE] = found if isinstance(found, Value) else t.b.const(bool(found), bool_)

    def decided() -> None:
        t.env[_CHOICE] = t.b.const(not conjunction, bool_)

    branch(t, left, *((evaluated, decided) if conjunction else (decided, evaluated)), node)
    return t.env.pop(_CHOICE)


def harmless(block: Block) -> bool:
    """May operations run where the program would not get to?  Arithmetic may, and no index that may be refused."""
    return all((op.is_primitive and op.name != "in_bounds") or op.row.free for op in block.ops)


# ---- early exits
def forget_skipped(t: Context) -> None:
    """At the end of an iteration: variables that a path has left without a value have none in the next one."""
    for name, why in t.frame.skipped.items():
        t.env[name] = Undefined(why)


def exit_flag(t: Context) -> TracedValue:
    """Whether the rest of the block is skipped: False, True, or a bool of the run."""
    out: TracedValue = False
    for name in FLAGS:
        flag = t.env[name]
        if flag is True:
            return True
        if isinstance(flag, Value):
            out = flag if out is False else t.b.emit("or", out, flag)
    return out


def clear_flags(t: Context) -> None:
    for name in FLAGS:
        t.env[name] = False


def settle_flags(t: Context) -> None:
    """In the branch where a flag was set: if it can only be one, it is known to be."""
    raised = [name for name in FLAGS if t.env[name] is not False]
    if len(raised) == 1:
        t.env[raised[0]] = True


def leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether a block always ends in `return`, `break` or `continue` (by its syntax)."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return leaves(last.body) and leaves(last.orelse)
    return isinstance(last, (ast.Return, ast.Break, ast.Continue))


def exits(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop body can leave its loop: a `break` of its own, or a `return`."""
    return any(_exits(s, True) for s in body)


def _exits(node: ast.stmt, own: bool) -> bool:
    if isinstance(node, ast.Return) or (own and isinstance(node, ast.Break)):
        return True
    inner = own and not isinstance(node, (ast.For, ast.While))
    return any(_exits(s, inner) for s in ast.iter_child_nodes(node) if isinstance(s, ast.stmt))


def breaks(node: ast.stmt) -> bool:
    """Whether a statement of a loop body may leave that loop by `break`."""
    if isinstance(node, (ast.For, ast.While)):
        return False
    return isinstance(node, ast.Break) or any(breaks(s) for s in ast.iter_child_nodes(node) if isinstance(s, ast.stmt))
