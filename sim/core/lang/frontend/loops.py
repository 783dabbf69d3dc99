"""Loops: unrolled while tracing, or `for` and `while` operations with carried variables."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim.core.lang.errors import KernelError
from sim.core.lang.frontend.context import BROKE, CONTINUED, FLAGS, RETURNED, VALUE
from sim.core.lang.frontend.statements import Statements
from sim.core.lang.frontend.traced import (
    Mismatch,
    Range,
    Undefined,
    constant,
    describe,
    flatten,
    is_number,
    is_typed,
    rebuild,
    same,
    type_of,
    whole,
)
from sim.core.lang.ir.core import Block, Op, Value
from sim.core.lang.types import Scalar, Type, bool_, int32

UNROLL_LIMIT = 16
"""Loops over constant ranges up to this length are unrolled; longer ones, and `rolled(range(n))`, stay loops."""
COPIES_LIMIT = 256
"""Nested unrolled loops together make at most this many copies of the innermost body; of deeper nests the outer loops
stay loops."""


@dataclass
class Carried:
    """What a loop passes from one iteration to the next: start values by variable name; names that have no value
    inside."""

    start: dict[str, Any] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)

    @property
    def init(self) -> list[Value]:
        return [v for x in self.start.values() for v in flatten(x)]


class Loops(Statements):
    """`for` and `while`."""

    copies = 1

    def do_for(self, node: ast.For) -> None:
        self._no_else(node)
        over = self.eval(node.iter)
        if isinstance(over, Range):
            bounds = [whole(k) for k in (over.start, over.stop, over.step)]
            if None in bounds:
                self._counted(node, over)
                return
            items: Sequence[Any] = range(*bounds)  # type: ignore[arg-type]
            if over.rolled or len(items) > UNROLL_LIMIT or self.copies * self._copies_of(node, items) > COPIES_LIMIT:
                self._counted(node, over)
                return
            items = list(items)
            copies = len(items)
        else:
            items, copies = self.items(over, node.iter), 1
        self.copies *= max(copies, 1)
        self._unrolled(node, items)
        self.copies //= max(copies, 1)
        self.env[BROKE] = False

    def _copies_of(self, node: ast.For, items: Sequence[Any]) -> int:
        """How many copies of the innermost body the loop makes, if it and the loops directly inside it are unrolled."""
        inner = [child for child in node.body if isinstance(child, ast.For)]
        if not inner or not items or not isinstance(node.target, ast.Name):
            return len(items)
        before, most = dict(self.env), 1
        self.env[node.target.id] = items[len(items) // 2]  # the bounds inside may depend on it
        for child in inner:
            found: list[Any] = []
            try:
                self.b.region((), lambda child=child, found=found: found.append(self.eval(child.iter)))  # type: ignore[misc]
            except KernelError:  # they depend on what the body computes
                continue
            finally:
                self.env = dict(before) | {node.target.id: items[len(items) // 2]}
            bounds = (
                [whole(k) for k in (found[0].start, found[0].stop, found[0].step)]
                if isinstance(found[0], Range)
                else [None]
            )
            if None not in bounds and not found[0].rolled and len(range(*bounds)) <= UNROLL_LIMIT:  # type: ignore[arg-type]
                most = max(most, self._copies_of(child, range(*bounds)))  # type: ignore[arg-type]
        self.env = before
        return len(items) * most

    def _no_else(self, node: ast.For | ast.While) -> None:
        if node.orelse:
            raise self.error(
                node.orelse[0],
                "`else` of a loop cannot be used in a kernel",
                "set a variable before `break`, and test it after the loop",
            )

    def _unrolled(self, node: ast.For, items: Sequence[Any]) -> None:
        for k, item in enumerate(items):
            self.assign(node.target, item)
            self.statements(node.body)
            self.env[CONTINUED] = False
            stop = self.stopped()
            if stop is True:
                return
            if isinstance(stop, Value):

                def go_on(rest: Sequence[Any] = items[k + 1 :]) -> None:
                    self._clear()
                    self._unrolled(node, rest)

                self.branch(self.nope(stop), go_on, self._stay, node)
                return

    # -- loops of the run
    def _counted(self, node: ast.For, over: Range) -> None:
        """A loop over a range: a `for` operation, or a `while` if the body leaves it early."""
        if not isinstance(node.target, ast.Name):
            raise self.error(node.target, "the target of a loop over a range is one name")
        target = node.target.id
        kind = next((k.type for k in (over.start, over.stop, over.step) if isinstance(k, Value)), int32)
        start, step = self.as_value(over.start, kind, node.iter), self.as_value(over.step, kind, node.iter)
        stop = self.as_value(over.stop, kind, node.iter)
        count = self._trip_count(start, stop, step, kind)

        def bind(k: Value) -> None:
            self.env[target] = self.b.emit("add", start, self.b.emit("mul", k, step))

        if not exits(node.body):
            carried, block = self._stable(node, [target], [kind], bind)
            results = self.b.append(
                Op("for", [count, *carried.init], [Value(v.type) for v in carried.init], {"reverse": False}, [block])
            ).results
        else:
            carried, block = self._stable(node, [target], [kind], bind)
            advanced = self._append_in(block, lambda: self.b.emit("add", block.params[0], self.b.const(1, kind)))
            block.yields = [advanced, *block.yields]
            cond = self._condition(carried, [kind], lambda k: self.b.emit("lt", k, count), node)
            init = [self.b.const(0, kind), *carried.init]
            results = self.b.append(Op("while", init, [Value(v.type) for v in init], {}, [cond, block])).results[1:]
        self._leave(carried, results, node, [target])

    def _append_in(self, block: Block, fill: Callable[[], Value]) -> Value:
        """Emits at the end of a finished region."""
        extra = self.b.region((), lambda: [fill()])
        block.ops.extend(extra.ops)
        return extra.yields[0]

    def _trip_count(self, start: Value, stop: Value, step: Value, kind: Type) -> Value:
        b = self.b
        k = constant(step)
        if k == 1:
            return b.emit("sub", stop, start)
        if k is not None:
            span = b.emit("sub", stop, start) if k > 0 else b.emit("sub", start, stop)
            return b.emit("div", b.emit("add", span, b.const(abs(k) - 1, kind)), b.const(abs(k), kind))
        zero, one = b.const(0, kind), b.const(1, kind)
        up = b.emit("gt", step, zero)
        size = b.emit("select", up, step, b.emit("neg", step))
        span = b.emit("select", up, b.emit("sub", stop, start), b.emit("sub", start, stop))
        return b.emit("div", b.emit("add", span, b.emit("sub", size, one)), size)

    def do_while(self, node: ast.While) -> None:
        self._no_else(node)
        if self._known_test(node) is False:
            return
        carried, block = self._stable(node, [], [], lambda: None)
        cond = self._condition(carried, [], lambda: self.logical(self.eval(node.test), node.test), node)
        results = self.b.append(
            Op("while", carried.init, [Value(v.type) for v in carried.init], {}, [cond, block])
        ).results
        self._leave(carried, results, node, [])
        if isinstance(node.test, ast.Constant) and not any(_breaks(s) for s in node.body):
            self.env[RETURNED] = True  # `while True:` without `break` ends in a `return` only

    def _known_test(self, node: ast.While) -> bool | None:
        """The condition before the loop, if it is a constant; what it emits is thrown away."""
        before, found = dict(self.env), []
        self.b.region((), lambda: found.append(self.logical(self.eval(node.test), node.test)))
        self.env = before
        return found[0] if isinstance(found[0], bool) else None

    def _condition(self, carried: Carried, counters: list[Type], test: Callable[..., Any], node: ast.stmt) -> Block:
        """The condition region of a `while`: no exit flag is set, and `test(*counters)`."""
        before = self.env

        def fill(*params: Value) -> list[Value]:
            self._enter(before, carried, params[len(counters) :])
            stop: Any = self.stopped()
            self._clear()
            entered = dict(self.env)
            go = self.short(True, self.nope(stop), lambda: test(*params[: len(counters)]), node)
            if any(self.env.get(k) is not v for k, v in entered.items()):
                raise self.error(node, "the condition of a `while` changes a variable", "do that in the body")
            return [go if isinstance(go, Value) else self.b.const(go, bool_)]

        block = self.b.region([*counters, *(v.type for v in carried.init)], fill)
        self.env = before
        return block

    def _enter(self, before: dict[str, Any], carried: Carried, params: Sequence[Value]) -> None:
        """Makes an environment in which carried variables are parameters."""
        values = iter(params)
        self.env = dict(before)
        for name, x in carried.start.items():
            self.env[name] = rebuild(x, values)
        for name in carried.lost:
            self.env[name] = Undefined("is assigned later in this loop, and has no value at the start of an iteration")

    def _stable(
        self, node: ast.For | ast.While, targets: list[str], counters: list[Type], bind: Callable[..., None]
    ) -> tuple[Carried, Block]:
        """Traces the body until it is known which variables it changes and what types they have.

        A weak number that the body changes gets the type that the body gives it; one that it leaves alone stays a
        constant.  The runs before the last one are thrown away.
        """
        before = self.env
        carried = Carried()
        memo = self.frame.loops.get(id(node))
        for name in memo if memo is not None else assigned(node.body):
            if name in before and name not in targets and is_typed(before[name]):
                carried.start[name] = before[name]
        after: dict[str, Any] = {}

        def body(*params: Value) -> None:
            self._enter(before, carried, params[len(counters) :])
            self._clear()
            bind(*params[: len(counters)])
            self.statements(node.body)
            self.env[CONTINUED] = False
            after.clear()
            after.update(self.env)

        while True:
            block = self.b.region([*counters, *(v.type for v in carried.init)], body)
            self.env = before
            self.at(node)
            if not self._discover(node, carried, before, after, targets):
                break
        self.frame.loops[id(node)] = list(carried.start)
        block.yields = [
            v for name, x in carried.start.items() for v in flatten(self._carry(name, x, after[name], node))
        ]
        carried.lost |= (
            {name for name in after if name not in before or isinstance(after[name], Undefined)} - set(FLAGS) - {VALUE}
        )
        return carried, block

    def _discover(
        self, node: ast.stmt, carried: Carried, before: dict[str, Any], after: dict[str, Any], targets: list[str]
    ) -> bool:
        """Adds the variables that turned out to change; whether there were any."""
        grown = False
        for name, start in before.items():
            end = after[name]
            if name in carried.start:
                if isinstance(end, Undefined) and name not in carried.lost:
                    del carried.start[name]
                    carried.lost.add(name)
                    grown = True
                continue
            if name in targets or name in carried.lost or same(start, end):
                continue
            if isinstance(start, Undefined) and (name != VALUE or isinstance(end, Undefined)):
                continue  # assigned inside only: new in every iteration
            grown = True
            if isinstance(end, Undefined):
                carried.lost.add(name)
                continue
            if isinstance(start, Undefined):
                carried.start[name] = self._filler(self._settled(end))
                continue
            try:
                first, _ = self.unify(start, end)
            except Mismatch:
                raise self._changes_type(name, start, end, node) from None
            carried.start[name] = first
        return grown

    def _settled(self, x: Any) -> Any:
        """x with weak numbers made values."""
        if isinstance(x, tuple):
            return tuple(self._settled(v) for v in x)
        return self.typed(x) if is_number(x) else x

    def _carry(self, name: str, start: Any, end: Any, node: ast.stmt) -> Any:
        """The value at the end of an iteration in the shape that the loop carries."""
        try:
            first, last = self.unify(start, end)
        except Mismatch:
            raise self._changes_type(name, start, end, node) from None
        if [v.type for v in flatten(first)] != [v.type for v in flatten(start)]:
            raise self._changes_type(name, start, end, node)
        return last

    def _changes_type(self, name: str, start: Any, end: Any, node: ast.stmt) -> Exception:
        if name == VALUE:
            return self.error(
                node,
                f"`{self.frame.function.name}` returns {describe(start)} and {describe(end)} on different paths",
                "return one type",
            )
        kind = type_of(end)
        scalars = isinstance(kind, Scalar) and isinstance(type_of(start, self.real), Scalar)
        hint = f"start with `{name} = sim.{kind}(...)`" if scalars else "use another name in the loop"
        return self.error(
            node, f"`{name}` changes its type in this loop, from {describe(start)} to {describe(end)}", hint
        )

    def _leave(self, carried: Carried, results: Sequence[Value], node: ast.stmt, targets: list[str]) -> None:
        """The environment after the loop."""
        line = self.frame.function.source.span(node).line
        values = iter(results)
        for name, x in carried.start.items():
            self.env[name] = rebuild(x, values)
        for name in [*carried.lost, *targets]:
            why = "is the variable of the loop" if name in targets else "is assigned only inside of the loop"
            self.env[name] = Undefined(f"may have no value here: it {why} on line {line}")
        self.env[BROKE] = self.env[CONTINUED] = False


def exits(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop body can leave its loop: a `break` of its own, or a `return`."""
    return any(_exits(s, True) for s in body)


def _exits(node: ast.stmt, own: bool) -> bool:
    if isinstance(node, ast.Return) or (own and isinstance(node, ast.Break)):
        return True
    inner = own and not isinstance(node, (ast.For, ast.While))
    return any(_exits(s, inner) for s in ast.iter_child_nodes(node) if isinstance(s, ast.stmt))


def _breaks(node: ast.stmt) -> bool:
    """Whether a statement of a loop body may leave that loop by `break`."""
    if isinstance(node, (ast.For, ast.While)):
        return False
    return isinstance(node, ast.Break) or any(_breaks(s) for s in ast.iter_child_nodes(node) if isinstance(s, ast.stmt))


def assigned(body: Sequence[ast.stmt]) -> list[str]:
    """Names that a block assigns (to them or to a component), in order of appearance; kept on the first statement."""
    found = getattr(body[0], "_assigned", None)
    if found is None:
        names: dict[str, None] = {}
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
                    root: ast.AST = node
                    while isinstance(root, (ast.Attribute, ast.Subscript)):
                        root = root.value
                    if isinstance(root, ast.Name):
                        names[root.id] = None
        found = body[0]._assigned = list(names)  # type: ignore[attr-defined]
    return found
