"""Statements: the environment of the innermost frame, changed one statement after the other.

Variables live in `env`; what a branch or a loop body changes is merged or carried.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial

from sim.core.lang.frontend.source import annotated_type
from sim.core.lang.frontend.traced import ArrayRef, LocalArray, LValue, TracedValue, describe, flatten, kind_of
from sim.core.lang.frontend.tracing.assignments import assign, assign_path, target_path
from sim.core.lang.frontend.tracing.branches import branch, clear_flags, exit_flag, leaves, settle_flags
from sim.core.lang.frontend.tracing.context import BROKE, CONTINUED, RETURNED, VALUE, Context
from sim.core.lang.frontend.tracing.expressions import read_name
from sim.core.lang.frontend.tracing.loops import for_loop, while_loop
from sim.core.lang.frontend.tracing.operators import BINARY, binary, unary
from sim.core.lang.ir.core import Op, Value
from sim.core.lang.types import Homogeneous, Scalar, bool_

REFUSED_STATEMENTS: dict[type, tuple[str, str]] = {
    ast.Try: ("try", "kernels raise nothing; check values with `if`"),
    ast.With: ("with", "kernels have no resources to manage"),
    ast.FunctionDef: ("a function inside of a kernel", "define it outside, with @sim.func"),
    ast.AsyncFunctionDef: ("a function inside of a kernel", "define it outside, with @sim.func"),
    ast.ClassDef: ("a class inside of a kernel", "define it outside, with @sim.struct"),
    ast.Global: ("global", "kernels change arrays only: pass one as an argument"),
    ast.Nonlocal: ("nonlocal", "kernels change arrays only: pass one as an argument"),
    ast.Delete: ("del", "leave the variable alone"),
    ast.Import: ("import inside of a kernel", "import at the top of the file"),
    ast.ImportFrom: ("import inside of a kernel", "import at the top of the file"),
    ast.Raise: ("raise", 'write `assert condition, "message"`'),
    ast.Match: ("match", "write if / elif"),
    ast.AsyncFor: ("async", "kernels run in parallel by themselves"),
    ast.AsyncWith: ("async", "kernels run in parallel by themselves"),
}


def execute(t: Context, body: Sequence[ast.stmt]) -> None:
    for k, statement in enumerate(body):
        rest = body[k + 1 :]
        # `if a: return x`, then more: with the rest in the other branch there is no flag to keep and to ask, and what
        # the rest assigns needs no value in the branch that has left
        if isinstance(statement, ast.If) and rest:
            left, right = leaves(statement.body), leaves(statement.orelse)
            if left != right:  # the rest of the block moves into the branch that goes on
                _if(
                    t,
                    statement,
                    [*statement.body, *([] if left else rest)],
                    [*statement.orelse, *([] if right else rest)],
                )
                return
        _statement(t, statement)
        stop = exit_flag(t)  # set by an exit deeper inside, under a condition of the run
        if stop is True:
            return
        if isinstance(stop, Value):
            branch(t, t.logical_not(stop), partial(_go_on, t, rest), partial(settle_flags, t), statement, (False, True))
            return


def _statement(t: Context, node: ast.stmt) -> None:
    t.at(node)
    method = _STATEMENTS.get(type(node))
    if method is None:
        what, hint = REFUSED_STATEMENTS.get(type(node), (type(node).__name__, ""))
        raise t.error(node, f"{what} cannot be used in a kernel", hint)
    method(t, node)


def _go_on(t: Context, rest: Sequence[ast.stmt]) -> None:
    clear_flags(t)
    t.execute(rest)


def _return(t: Context, node: ast.Return) -> None:
    t.env[VALUE] = t.eval(node.value) if node.value is not None else None
    t.env[RETURNED] = True


def _break(t: Context, node: ast.Break) -> None:
    t.env[BROKE] = True


def _continue(t: Context, node: ast.Continue) -> None:
    t.env[CONTINUED] = True


def _assign(t: Context, node: ast.Assign) -> None:
    target = node.targets[0]
    kept = t.unpack
    if isinstance(target, (ast.Tuple, ast.List)):
        t.unpack = (node.value, len(target.elts))
    value = t.eval(node.value)
    t.unpack = kept
    if isinstance(node.value, ast.Name) and isinstance(value, ArrayRef) and isinstance(value.array, LocalArray):
        if not value.index:  # `b = a` copies
            value = t.local_array(value.dtype, value.array.shape, t.env[value.array.name])
    for target in node.targets:
        assign(t, target, value)


def _annotated(t: Context, node: ast.AnnAssign) -> None:
    spec = t.eval(node.annotation)
    try:
        ty = annotated_type(spec, t.real)
    except TypeError as problem:
        raise t.error(node, str(problem)) from None
    if node.value is None:
        raise t.error(node, "a declaration without a value", "assign a value")
    value = t.eval(node.value)
    assign(t, node.target, t.fit_or_error(value, ty, "this variable", node) if ty is not None else value)


def _augmented(t: Context, node: ast.AugAssign) -> None:
    op, sign = BINARY[type(node.op)]
    if isinstance(node.target, ast.Name):
        old = read_name(t, node.target)
        value = t.eval(node.value)
        t.at(node)
        t.env[node.target.id] = binary(t, op, f"{sign}=", old, value, node)
        return
    path = target_path(t, node.target)
    place = path[2][-1]
    value = t.eval(node.value)
    t.at(node)
    if isinstance(place, LValue) and op in ("add", "sub") and isinstance(place.type, (Scalar, Homogeneous)):
        if kind_of(value) == "scalar" and isinstance(place.type, Homogeneous):
            raise t.error(node, f"{sign}= is not defined for {place.type} and {describe(value)}")
        values = t.fit_lvalue(place, value, node)
        if op == "sub":
            values = flatten(unary(t, ast.USub(), t.compose(place.type, iter(values)), node))
        t.accumulate(place, values)
        return
    assign_path(t, node.target, path, binary(t, op, f"{sign}=", t.load(place), value, node))


def _expression(t: Context, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant):
        return  # a docstring
    kept, t.unused = t.unused, node.value  # the call may be in a function that is itself called
    t.lazy(node.value)
    t.unused = kept


def _pass(t: Context, node: ast.Pass) -> None:
    pass


def _assert(t: Context, node: ast.Assert) -> None:
    cond = t.logical(t.eval(node.test), node.test)
    if cond is True:
        return
    message = t.eval(node.msg) if node.msg is not None else ast.unparse(node.test)
    if not isinstance(message, str):
        raise t.error(node, "the message of an assert is a constant string")
    t.at(node)
    condition = cond if isinstance(cond, Value) else t.b.const(False, bool_)
    t.b.append(Op("assert", [condition], [], {"message": message}))


def _if(
    t: Context, node: ast.If, body: Sequence[ast.stmt] | None = None, orelse: Sequence[ast.stmt] | None = None
) -> None:
    body, orelse = node.body if body is None else body, node.orelse if orelse is None else orelse
    t.at(node)
    cond = t.logical(t.eval(node.test), node.test)
    if not isinstance(cond, Value):
        t.execute(body if cond else orelse)
        return
    branch(t, cond, lambda: t.execute(body), lambda: t.execute(orelse), node, (leaves(body), leaves(orelse)))


_STATEMENTS: dict[type, Callable[[Context, TracedValue], None]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Expr: _expression,
    ast.If: _if,
    ast.Return: _return,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Pass: _pass,
    ast.Assert: _assert,
    ast.For: for_loop,
    ast.While: while_loop,
}
