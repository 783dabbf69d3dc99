"""Early exits: `return`, `break` and `continue` set flags that are kept like variables.

A flag known to be true ends the block; one of the run wraps what is left of it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from sim.core.lang.frontend.traced import TracedValue
from sim.core.lang.frontend.tracing.context import FLAGS, Context
from sim.core.lang.ir.core import Value


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
