"""Statements: assignments, `if`, loops, early exits.

Variables live in `env`; what a branch or a loop body changes is merged or carried.  `return`, `break` and `continue`
set flags that are kept like variables: a flag known to be true ends the block, one of the run wraps what is left of it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sim.core.lang.frontend.builtins import fit_or_error
from sim.core.lang.frontend.context import BROKE, CONTINUED, FLAGS, RETURNED, VALUE
from sim.core.lang.frontend.expressions import Expressions
from sim.core.lang.frontend.operators import BINARY, unary
from sim.core.lang.frontend.source import MISSING, annotated_type
from sim.core.lang.frontend.traced import (
    ArrayRef,
    Members,
    Mismatch,
    Parts,
    Place,
    Undefined,
    describe,
    flatten,
    is_traced,
    kind_of,
    name_values,
    rebuild,
    same,
)
from sim.core.lang.ir.core import Block, Op, Value
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
_CHOICE = "$choice"


class Statements(Expressions):
    """Executes statements on the environment of the innermost frame."""

    def statements(self, body: Sequence[ast.stmt]) -> None:
        for k, statement in enumerate(body):
            rest = body[k + 1 :]
            if isinstance(statement, ast.If) and rest:
                left, right = leaves(statement.body), leaves(statement.orelse)
                if left != right:  # the rest of the block moves into the branch that goes on
                    self.do_if(
                        statement,
                        [*statement.body, *([] if left else rest)],
                        [*statement.orelse, *([] if right else rest)],
                    )
                    return
            self.statement(statement)
            stop = self.stopped()
            if stop is True:
                return
            if isinstance(stop, Value):
                self.branch(self.nope(stop), partial(self._go_on, rest), self._stay, statement)
                return

    def statement(self, node: ast.stmt) -> None:
        self.at(node)
        method = _STATEMENTS.get(type(node))
        if method is None:
            what, hint = REFUSED_STATEMENTS.get(type(node), (type(node).__name__, ""))
            raise self.error(node, f"{what} cannot be used in a kernel", hint)
        method(self, node)

    # -- early exits
    def stopped(self) -> Any:
        """Whether the rest of the block is skipped: False, True, or a bool of the run."""
        out: Any = False
        for name in FLAGS:
            flag = self.env[name]
            if flag is True:
                return True
            if isinstance(flag, Value):
                out = flag if out is False else self.b.emit("or", out, flag)
        return out

    def _go_on(self, rest: Sequence[ast.stmt]) -> None:
        self._clear()
        self.statements(rest)

    def _clear(self) -> None:
        for name in FLAGS:
            self.env[name] = False

    def _stay(self) -> None:
        """In the branch where a flag was set: if it can only be one, it is known to be."""
        raised = [name for name in FLAGS if self.env[name] is not False]
        if len(raised) == 1:
            self.env[raised[0]] = True

    def do_return(self, node: ast.Return) -> None:
        self.env[VALUE] = self.eval(node.value) if node.value is not None else None
        self.env[RETURNED] = True

    def do_break(self, node: ast.Break) -> None:
        self.env[BROKE] = True

    def do_continue(self, node: ast.Continue) -> None:
        self.env[CONTINUED] = True

    # -- assignments
    def do_assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        kept = self.unpack
        if isinstance(target, (ast.Tuple, ast.List)):
            self.unpack = (node.value, len(target.elts))
        value = self.eval(node.value)
        self.unpack = kept
        for target in node.targets:
            self.assign(target, value)

    def do_annotated(self, node: ast.AnnAssign) -> None:
        spec = self.eval(node.annotation)
        try:
            kind = annotated_type(spec, self.real)
        except TypeError as problem:
            raise self.error(node, str(problem)) from None
        if node.value is None:
            raise self.error(node, "a declaration without a value", "assign a value")
        value = self.eval(node.value)
        self.assign(node.target, fit_or_error(self, value, kind, "this variable", node) if kind is not None else value)

    def assign(self, target: ast.expr, value: Any) -> None:
        """`target = value` for a name, a tuple of targets, a component, an array element."""
        if isinstance(target, ast.Name):
            self.env[target.id] = value
            name_values(value, target.id)
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = self._unpacked(target, value)
            for part, item in zip(target.elts, items, strict=True):
                self.assign(part, item)
        else:
            self.write_path(target, self.path(target), value)

    def _unpacked(self, target: ast.Tuple | ast.List, value: Any) -> list[Any]:
        if isinstance(value, Parts):
            value = tuple(self.items(value, target))
        if not isinstance(value, tuple):
            raise self.error(target, f"{describe(value)} cannot be unpacked")
        if len(value) != len(target.elts):
            raise self.error(
                target,
                f"{len(value)} values for {len(target.elts)} names",
                value.what if isinstance(value, Members) else "",
            )
        return list(value)

    def path(self, target: ast.expr) -> tuple[str | None, list[tuple[str, Any]], list[Any]]:
        """What `a.b[i].c` goes through: the variable, the keys, and the values from the variable to the target
        (lazily)."""
        steps: list[ast.expr] = []
        node = target
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            steps.append(node)
            node = node.value
        values = [self.lazy(node)]
        keys: list[tuple[str, Any]] = []
        for step in reversed(steps):
            if isinstance(step, ast.Attribute):
                keys.append(("attribute", step.attr))
                values.append(self.attribute(values[-1], step.attr, step))
            else:
                assert isinstance(step, ast.Subscript)
                keys.append(("item", self.keys(step.slice)))
                values.append(self.item(values[-1], keys[-1][1], step))
        return (node.id if isinstance(node, ast.Name) else None), keys, values

    def write_path(
        self, target: ast.expr, path: tuple[str | None, list[tuple[str, Any]], list[Any]], value: Any
    ) -> None:
        name, keys, values = path
        self.at(target)
        last = values[-1]
        if isinstance(last, Place):
            self.write(last, self.fit_place(last, value, target), self.b.store)
            return
        if isinstance(values[-2], ArrayRef):
            if keys[-1][0] == "attribute":
                raise self.error(
                    target,
                    f"the {keys[-1][1]} of an array cannot be assigned to",
                    "make the array that you need outside of the kernel",
                )
            raise self.error(
                target,
                f"a row of an array cannot be assigned to: it has {last.ndim} more"
                f" dimension{'s' if last.ndim > 1 else ''}",
                "assign to its elements",
            )
        if name is None or name not in self.env or not is_traced(values[0]):
            what = (
                f"a part of `{name}`,"
                f" {'which is from outside of the kernel' if name not in self.env else describe(values[0])},"
            )
            raise self.error(
                target, f"{what if name else 'this'} cannot be assigned to", "copy it into a variable first"
            )
        for k in range(len(keys) - 1, -1, -1):
            value = self.replace(values[k], keys[k], value, target)
        self.env[name] = value

    def do_augmented(self, node: ast.AugAssign) -> None:
        op, sign = BINARY[type(node.op)]
        if isinstance(node.target, ast.Name):
            old = self.on_name(node.target)
            self.env[node.target.id] = self.binary(op, f"{sign}=", old, self.eval(node.value), node)
            return
        path = self.path(node.target)
        place = path[2][-1]
        value = self.eval(node.value)
        self.at(node)
        if isinstance(place, Place) and op in ("add", "sub") and isinstance(place.type, (Scalar, Homogeneous)):
            if kind_of(value) == "scalar" and isinstance(place.type, Homogeneous):
                raise self.error(node, f"{sign}= is not defined for {place.type} and {describe(value)}")
            values = self.fit_place(place, value, node)
            if op == "sub":
                values = flatten(unary(self, ast.USub(), self.compose(place.type, iter(values)), node))
            self.write(place, values, self.b.accum)
            return
        self.write_path(node.target, path, self.binary(op, f"{sign}=", self.load(place), value, node))

    def do_expression(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        kept, self.unused = self.unused, node.value  # the call may be in a function that is itself called
        self.lazy(node.value)
        self.unused = kept

    def do_pass(self, node: ast.Pass) -> None:
        pass

    def do_assert(self, node: ast.Assert) -> None:
        cond = self.logical(self.eval(node.test), node.test)
        if cond is True:
            return
        message = self.eval(node.msg) if node.msg is not None else ast.unparse(node.test)
        if not isinstance(message, str):
            raise self.error(node, "the message of an assert is a constant string")
        self.at(node)
        condition = cond if isinstance(cond, Value) else self.b.const(False, bool_)
        self.b.append(Op("assert", [condition], [], {"message": message}))

    # -- choices
    def do_if(
        self, node: ast.If, body: Sequence[ast.stmt] | None = None, orelse: Sequence[ast.stmt] | None = None
    ) -> None:
        body, orelse = node.body if body is None else body, node.orelse if orelse is None else orelse
        self.at(node)
        cond = self.logical(self.eval(node.test), node.test)
        if not isinstance(cond, Value):
            self.statements(body if cond else orelse)
            return
        self.branch(cond, lambda: self.statements(body), lambda: self.statements(orelse), node)

    def choose(self, test: ast.expr, body: ast.expr, orelse: ast.expr, node: ast.AST) -> Any:
        """`body if test else orelse`: only one of them is evaluated."""
        cond = self.logical(self.eval(test), test)
        if not isinstance(cond, Value):
            return self.eval(body if cond else orelse)

        def side(part: ast.expr) -> Callable[[], None]:
            return lambda: self.env.__setitem__(_CHOICE, self.eval(part))

        self.branch(cond, side(body), side(orelse), node)
        return self.env.pop(_CHOICE)

    def branch(self, cond: Value, then: Callable[[], None], orelse: Callable[[], None], node: ast.AST) -> None:
        """Traces both sides into regions of an `if` and merges what they assigned."""
        if cond.const is not None:
            (then if cond.const else orelse)()
            return
        before, envs, blocks = self.env, [], []
        for side in (then, orelse):
            self.env = dict(before)
            blocks.append(self.b.region((), side))
            envs.append(self.env)
        self.env = before
        self.at(node)
        merged = [
            name for name in {**envs[0], **envs[1]} if not same(envs[0].get(name, MISSING), envs[1].get(name, MISSING))
        ]
        for name in envs[0]:
            if name not in merged:
                before[name] = envs[0][name]
        pairs = {
            name: self._pair(name, cond, envs[0].get(name, MISSING), envs[1].get(name, MISSING), node)
            for name in merged
        }
        self._emit_if(cond, blocks, pairs)

    def _pair(self, name: str, cond: Value, a: Any, b: Any, node: ast.AST) -> tuple[Any, Any]:
        """The values of a variable after both branches, in one shape; not mergeable: an `Undefined` twice."""
        lost = [x is MISSING or isinstance(x, Undefined) for x in (a, b)]
        if any(lost):
            if name == VALUE and not all(lost):
                return (self._filler(b), b) if lost[0] else (a, self._filler(a))
            line = self.frame.function.source.span(node).line
            why = next(
                (x.why for x in (a, b) if isinstance(x, Undefined)),
                f"may have no value here: only one branch of the `if` on line {line} assigns it",
            )
            gone = Undefined(why if name != VALUE else "is not returned")
            return gone, gone
        if name in FLAGS and isinstance(a, bool) and isinstance(b, bool):
            flag = cond if a else self.nope(cond)
            return flag, flag
        try:
            return self.unify(a, b)
        except Mismatch as problem:
            if name == VALUE:
                raise self.error(
                    node,
                    f"`{self.frame.function.name}` returns {problem.args[0]} on different paths",
                    "return one type",
                ) from None
            if name == _CHOICE:
                raise self.error(
                    node, f"the two sides of a choice are {problem.args[0]}", "convert one of them"
                ) from None
            return self._clash(name, problem, node)

    def _clash(self, name: str, problem: Mismatch, node: ast.AST) -> tuple[Any, Any]:
        line = self.frame.function.source.span(node).line
        # only an error if somebody reads it: branches may use one name for unrelated temporaries
        gone = Undefined(f"is {problem.args[0]} after the branches of the `if` on line {line}")
        return gone, gone

    def _filler(self, x: Any) -> Any:
        """Something of the shape of x for a path on which it is never read."""
        zeros = (self.b.const(0, v.type) for v in flatten(x))
        return rebuild(x, zeros)

    def _emit_if(self, cond: Value, blocks: list[Block], pairs: dict[str, tuple[Any, Any]]) -> None:
        columns: dict[tuple[int, int], tuple[Value, Value]] = {}
        for a, b in pairs.values():
            for x, y in zip(flatten(a), flatten(b), strict=True):
                if x is not y:
                    columns[id(x), id(y)] = (x, y)
        idle = all(op.name == "const" for block in blocks for op in block.ops)
        if idle:  # nothing happens in the branches: a plain selection
            for block in blocks:
                self.b.blocks[-1].ops.extend(block.ops)
            results = [self.b.emit("select", cond, x, y) for x, y in columns.values()]
        else:
            for k, block in enumerate(blocks):
                block.yields = [pair[k] for pair in columns.values()]
            results = self.b.append(Op("if", [cond], [Value(x.type) for x, _ in columns.values()], {}, blocks)).results
        chosen = dict(zip(columns, results, strict=True))
        for name, (a, b) in pairs.items():
            values = iter([chosen.get((id(x), id(y)), x) for x, y in zip(flatten(a), flatten(b), strict=True)])
            self.env[name] = rebuild(a, values)

    # -- loops: see loops.py
    def do_for(self, node: ast.For) -> None:
        raise NotImplementedError

    def do_while(self, node: ast.While) -> None:
        raise NotImplementedError


def leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether a block always ends in `return`, `break` or `continue` (by its syntax)."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return leaves(last.body) and leaves(last.orelse)
    return isinstance(last, (ast.Return, ast.Break, ast.Continue))


_STATEMENTS: dict[type, Callable[[Statements, Any], None]] = {
    ast.Assign: Statements.do_assign,
    ast.AnnAssign: Statements.do_annotated,
    ast.AugAssign: Statements.do_augmented,
    ast.Expr: Statements.do_expression,
    ast.If: Statements.do_if,
    ast.Return: Statements.do_return,
    ast.Break: Statements.do_break,
    ast.Continue: Statements.do_continue,
    ast.Pass: Statements.do_pass,
    ast.Assert: Statements.do_assert,
    ast.For: lambda t, node: t.do_for(node),
    ast.While: lambda t, node: t.do_while(node),
}
