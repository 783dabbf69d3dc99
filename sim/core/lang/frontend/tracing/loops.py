"""Loops: unrolled while tracing, or `for` and `while` operations with carried variables.

SSA has no variables, so a loop of the run passes what its body changes from one iteration to the next, as parameters of
its region (block arguments, in MLIR).  Which variables those are, and of what types, shows only when the body is
traced: `_stable` traces it until nothing more turns out to change, a fixed point.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from functools import partial

from sim.core.lang.errors import KernelError
from sim.core.lang.frontend.traced import (
    ArrayRef,
    Mismatch,
    Range,
    StructValue,
    TracedValue,
    Undefined,
    constant,
    describe,
    flatten,
    is_number,
    is_typed,
    like_views,
    rebuild,
    same,
    type_of,
    whole,
)
from sim.core.lang.frontend.tracing.assignments import assign
from sim.core.lang.frontend.tracing.branches import (
    branch,
    breaks,
    clear_flags,
    exit_flag,
    exits,
    filler,
    forget_skipped,
    settle_flags,
    short_circuit,
)
from sim.core.lang.frontend.tracing.components import iterate
from sim.core.lang.frontend.tracing.context import BROKE, CONTINUED, FLAGS, RETURNED, VALUE, Context
from sim.core.lang.frontend.tracing.registry import ADVANCE, Builtin
from sim.core.lang.ir.core import Block, Op, Value
from sim.core.lang.types import Scalar, Type, bool_, int32

UNROLL_LIMIT = 16
"""Loops over constant ranges up to this length are unrolled; longer ones, and `rolled(range(n))`, stay loops, except
where `static(...)` asks for their variable."""
COPIES_LIMIT = 256
"""Nested unrolled loops make at most this many copies of the innermost body; outer loops of deeper nests stay."""


@dataclass
class Carried:
    """What a loop passes from one iteration to the next: start values by variable; names without a value inside.

    results: variables whose value of the last iteration is read after the loop; `start` has something of their type,
    which nobody reads.
    """

    start: dict[str, TracedValue] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    results: set[str] = field(default_factory=set)

    @property
    def init(self) -> list[Value]:
        return [v for x in self.start.values() for v in flatten(x)]


def for_loop(t: Context, node: ast.For) -> None:
    _no_else(t, node)
    over = t.eval(node.iter)
    if isinstance(over, StructValue) and over.type in ADVANCE:
        _advanced(t, node, over, ADVANCE[over.type])
        return
    if isinstance(over, Range):
        bounds = [whole(k) for k in (over.start, over.stop, over.step)]
        if None in bounds:
            _counted(t, node, over)
            return
        items: Sequence[TracedValue] = range(*bounds)  # type: ignore[arg-type]
        too_long = len(items) > UNROLL_LIMIT or t.copies * _copies_of(t, node, items) > COPIES_LIMIT
        if over.rolled or (too_long and not _static_depends_on(node)):
            _counted(t, node, over)
            return
        items = list(items)
        copies = len(items)
    else:
        items, copies = iterate(t, over, node.iter), 1
    t.copies *= max(copies, 1)
    outer, t.frame.skipped = t.frame.skipped, {}
    _unrolled(t, node, items)
    forget_skipped(t)
    t.frame.skipped = outer
    t.copies //= max(copies, 1)
    t.env[BROKE] = False


def _static_depends_on(node: ast.For) -> bool:
    """Whether the loop asks `static(...)` for something that only its unrolled copies know: of its variable."""
    calls = [x for part in node.body for x in ast.walk(part) if isinstance(x, ast.Call)]
    statics = [x for x in calls if "static" in (getattr(x.func, "attr", ""), getattr(x.func, "id", ""))]
    names = {x.id for x in ast.walk(node.target) if isinstance(x, ast.Name)}
    return any(isinstance(x, ast.Name) and x.id in names for call in statics for x in ast.walk(call))


def _advanced(t: Context, node: ast.For, over: StructValue, advance: Builtin) -> None:
    """A loop over what a query finds: `while advance(query, target)`, and both are variables."""
    if not isinstance(node.target, ast.Name):
        raise t.error(node.target, f"the target of a loop over a {over.type} is one name")
    query, target = f"$query {node.lineno}:{node.col_offset}", node.target.id
    loop = getattr(node, "_as_while", None)
    if loop is None:
        names = [ast.Name(name, ast.Load()) for name in ("$advance", query, target)]
        loop = ast.While(ast.Call(names[0], [*names[1:]], []), node.body, [])
        node._as_while = loop = ast.fix_missing_locations(ast.copy_location(loop, node))  # type: ignore[attr-defined]
    t.env.update({"$advance": advance, query: over, target: t.b.const(0, int32)})
    while_loop(t, loop)
    line = t.frame.function.source.span(node).line
    t.env[target] = Undefined(f"may have no value here: it is the variable of the loop on line {line}")


def _copies_of(t: Context, node: ast.For, items: Sequence[TracedValue]) -> int:
    """How many copies of the innermost body the loop makes, if it and the loops directly inside it are unrolled."""
    inner = [child for child in node.body if isinstance(child, ast.For)]
    if not inner or not items or not isinstance(node.target, ast.Name):
        return len(items)
    # the ranges inside are evaluated for one item, in a region that is thrown away
    before, most = dict(t.env), 1
    t.env[node.target.id] = items[len(items) // 2]  # the bounds inside may depend on it
    for child in inner:
        found: list[TracedValue] = []
        try:
            t.b.region((), lambda child=child, found=found: found.append(t.eval(child.iter)))
        except KernelError:  # they depend on what the body computes
            continue
        finally:
            t.env = dict(before) | {node.target.id: items[len(items) // 2]}
        bounds = (
            [whole(k) for k in (found[0].start, found[0].stop, found[0].step)]
            if isinstance(found[0], Range)
            else [None]
        )
        if None not in bounds and not found[0].rolled and len(range(*bounds)) <= UNROLL_LIMIT:
            most = max(most, _copies_of(t, child, range(*bounds)))
    t.env = before
    return len(items) * most


def _no_else(t: Context, node: ast.For | ast.While) -> None:
    if node.orelse:
        raise t.error(
            node.orelse[0],
            "`else` of a loop cannot be used in a kernel",
            "set a variable before `break`, and test it after the loop",
        )


def _unrolled(t: Context, node: ast.For, items: Sequence[TracedValue]) -> None:
    for k, item in enumerate(items):
        assign(t, node.target, item)
        t.frame.skipped = {}
        t.execute(node.body)
        t.env[CONTINUED] = False
        forget_skipped(t)
        stop = exit_flag(t)
        if stop is True:
            return
        if isinstance(stop, Value):

            def go_on(rest: Sequence[TracedValue] = items[k + 1 :]) -> None:
                clear_flags(t)
                _unrolled(t, node, rest)

            branch(t, t.logical_not(stop), go_on, partial(settle_flags, t), node, (False, True))
            return


def _counted(t: Context, node: ast.For, over: Range) -> None:
    """A loop over a range: a `for` operation, or a `while` if the body leaves it early."""
    if not isinstance(node.target, ast.Name):
        raise t.error(node.target, "the target of a loop over a range is one name")
    target = node.target.id
    ty = next((k.type for k in (over.start, over.stop, over.step) if isinstance(k, Value)), int32)
    start, step = t.as_value(over.start, ty, node.iter), t.as_value(over.step, ty, node.iter)
    stop = t.as_value(over.stop, ty, node.iter)
    count = trip_count(t, start, stop, step, ty)

    def bind(k: Value) -> None:
        t.lower_bounds.note(k, 0)
        t.env[target] = t.b.emit("add", start, t.b.emit("mul", k, step))

    ran = None not in (bounds := [constant(v) for v in (start, stop, step)]) and len(range(*bounds)) > 0
    kept = _read_after(t, node) if ran else set()
    last: TracedValue = None  # what the variable holds after the loop, where it certainly ran
    if not exits(node.body):
        carried, block = _stable(t, node, [target], [ty], bind, kept)
        results = t.b.append(
            Op("for", [count, *carried.init], [Value(v.type) for v in carried.init], {"reverse": False}, [block])
        ).results
        last = range(*bounds)[-1] if ran else None
    else:
        # `for` has no exit: the count becomes a variable of a `while`, whose condition asks the flags too
        carried, block = _stable(t, node, [target], [ty], bind, kept)
        advanced = _append_in(t, block, lambda: t.b.emit("add", block.params[0], t.b.const(1, ty)))
        block.yields = [advanced, *block.yields]
        cond = _condition(t, carried, [ty], lambda k: t.b.emit("lt", k, count), node)
        init = [t.b.const(0, ty), *carried.init]
        trips, *results = t.b.append(Op("while", init, [Value(v.type) for v in init], {}, [cond, block])).results
        if ran:
            last = t.b.emit("add", start, t.b.emit("mul", t.b.emit("sub", trips, t.b.const(1, ty)), step))
    _leave(t, carried, results, node, [target])
    if last is not None and target not in assigned(node.body):
        t.env[target] = last


def _append_in(t: Context, block: Block, fill: Callable[[], Value]) -> Value:
    """Emits at the end of a finished region."""
    extra = t.b.region((), lambda: [fill()])
    block.ops.extend(extra.ops)
    return extra.yields[0]


def trip_count(t: Context, start: Value, stop: Value, step: Value, ty: Type) -> Value:
    """How often a loop over a range runs; of an empty range zero or less."""
    b = t.b
    k = constant(step)
    if k == 1:
        return b.emit("sub", stop, start)
    if k is not None:
        span = b.emit("sub", stop, start) if k > 0 else b.emit("sub", start, stop)
        return b.emit("div", b.emit("add", span, b.const(abs(k) - 1, ty)), b.const(abs(k), ty))
    zero, one = b.const(0, ty), b.const(1, ty)
    up = b.emit("gt", step, zero)
    size = b.emit("select", up, step, b.emit("neg", step))
    span = b.emit("select", up, b.emit("sub", stop, start), b.emit("sub", start, stop))
    return b.emit("div", b.emit("add", span, b.emit("sub", size, one)), size)


def while_loop(t: Context, node: ast.While) -> None:
    _no_else(t, node)
    known, changes = _known_test(t, node)
    if known is False:
        return
    if changes:
        while_loop(t, _test_inside(node))
        return
    carried, block = _stable(t, node, [], [], lambda: None, _read_after(t, node) if known else frozenset())
    cond = _condition(t, carried, [], lambda: t.logical(t.eval(node.test), node.test), node)
    results = t.b.append(Op("while", carried.init, [Value(v.type) for v in carried.init], {}, [cond, block])).results
    _leave(t, carried, results, node, [])
    # without this, what follows would count as reached, and the function as returning nothing on that path
    if isinstance(node.test, ast.Constant) and not any(breaks(s) for s in node.body):
        t.env[RETURNED] = True  # `while True:` without `break` ends in a `return` only


def _known_test(t: Context, node: ast.While) -> tuple[bool | None, bool]:
    """The condition before the loop, if it is a constant, and whether it changes a variable; what it emits is thrown
    away."""
    before, found = dict(t.env), []
    t.b.region((), lambda: found.append(t.logical(t.eval(node.test), node.test)))
    changes = any(not same(x, t.env.get(name)) for name, x in before.items())
    t.env = before
    first = constant(found[0])
    return first if isinstance(first, bool) else None, changes


def _test_inside(node: ast.While) -> ast.While:
    """`while True: if not test: break; ...`: a body may change variables, which a condition may not."""
    made: ast.While | None = getattr(node, "_test_inside", None)
    if made is None:
        stop = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
        made = ast.While(ast.Constant(True), [ast.copy_location(stop, node), *node.body], [])
        node._test_inside = made = ast.fix_missing_locations(ast.copy_location(made, node))  # type: ignore[attr-defined]
    return made


def _condition(
    t: Context, carried: Carried, counters: list[Type], test: Callable[..., TracedValue], node: ast.stmt
) -> Block:
    """The condition region of a `while`: no exit flag is set, and `test(*counters)`."""
    before = t.env

    def fill(*params: Value) -> list[Value]:
        _enter(t, before, carried, params[len(counters) :])
        stop: TracedValue = exit_flag(t)
        clear_flags(t)
        entered = dict(t.env)
        go = short_circuit(t, True, t.logical_not(stop), lambda: test(*params[: len(counters)]), node)
        if any(t.env.get(k) is not v for k, v in entered.items()):
            raise t.error(node, "the condition of a `while` changes a variable", "do that in the body")
        return [go if isinstance(go, Value) else t.b.const(go, bool_)]

    block = t.b.region([*counters, *(v.type for v in carried.init)], fill)
    t.env = before
    return block


def _enter(t: Context, before: dict[str, TracedValue], carried: Carried, params: Sequence[Value]) -> None:
    """Makes an environment in which carried variables are parameters."""
    values = iter(params)
    t.env = dict(before)
    for name, x in carried.start.items():
        t.env[name] = rebuild(x, values)
    for name in carried.lost | carried.results:
        t.env[name] = Undefined("is assigned later in this loop, and has no value at the start of an iteration")


def _stable(
    t: Context,
    node: ast.For | ast.While,
    targets: list[str],
    counters: list[Type],
    bind: Callable[..., None],
    kept: Set[str] = frozenset(),
) -> tuple[Carried, Block]:
    """Traces the body until it is known which variables it changes and what types they have.

    kept: names that have a value after the loop if every iteration gives them one, though they had none before.

    A weak number that the body changes gets the type that the body gives it; one that it leaves alone stays a
    constant.  The runs before the last one are thrown away.
    """
    before = t.env
    carried = Carried()
    # a loop inside of a loop is traced again with every run of the outer one: what it carried then is a good guess
    memo = t.frame.loops.get(id(node))
    for name in memo if memo is not None else assigned(node.body):
        if name in before and name not in targets and is_typed(before[name]):
            carried.start[name] = before[name]
    after: dict[str, TracedValue] = {}

    def body(*params: Value) -> None:
        _enter(t, before, carried, params[len(counters) :])
        clear_flags(t)
        bind(*params[: len(counters)])
        outer, t.frame.skipped = t.frame.skipped, {}
        t.execute(node.body)
        t.env[CONTINUED] = False
        forget_skipped(t)
        t.frame.skipped = outer
        after.clear()
        after.update(t.env)

    while True:
        block = t.b.region([*counters, *(v.type for v in carried.init)], body)
        t.env = before
        t.at(node)
        if _discover(t, node, carried, before, after, targets):
            continue
        fresh = {n for n in kept - carried.results - {*targets} if _is_fresh(before.get(n), after.get(n))}
        if not fresh:
            break
        carried.results |= fresh
        carried.start |= {name: filler(t, _settled(t, after[name])) for name in sorted(fresh)}
    t.frame.loops[id(node)] = list(carried.start)
    block.yields = [v for name, x in carried.start.items() for v in flatten(_carry(t, name, x, after[name], node))]
    carried.lost |= (
        {name for name in after if name not in before or isinstance(after[name], Undefined)}
        - set(FLAGS)
        - {VALUE}
        - carried.results
    )
    return carried, block


def _is_fresh(before: TracedValue, after: TracedValue) -> bool:
    """Whether a variable got its first value."""
    return (before is None or isinstance(before, Undefined)) and (is_number(after) or is_typed(after))


def _read_after(t: Context, loop: ast.For | ast.While) -> set[str]:
    """Names that the loop assigns and that the function reads behind it, before it assigns them anew; kept on it."""
    found: set[str] | None = getattr(loop, "_read_after", None)
    if found is None:
        first: dict[
            str, tuple[int, bool]
        ] = {}  # by name: the first line behind the loop, and whether it is stored there
        for node in ast.walk(t.frame.function.source.node):
            name = node.target if isinstance(node, ast.AugAssign) else node
            if isinstance(name, ast.Name) and name.lineno > (loop.end_lineno or 0):
                stores = isinstance(name.ctx, ast.Store) and name is node
                first[name.id] = min(first.get(name.id, (name.lineno, stores)), (name.lineno, stores))
        found = {name for name in assigned(loop.body) if not first.get(name, (0, True))[1]}
        loop._read_after = found  # type: ignore[union-attr]
    return found


def _discover(
    t: Context,
    node: ast.stmt,
    carried: Carried,
    before: dict[str, TracedValue],
    after: dict[str, TracedValue],
    targets: list[str],
) -> bool:
    """Adds the variables that turned out to change; whether there were any."""
    grown = False
    for name, start in before.items():
        end = after[name]
        if name in carried.start:
            # its value does not survive an iteration (a branch leaves it undefined): nobody may read it at the start
            if isinstance(end, Undefined) and name not in carried.lost:
                del carried.start[name]
                carried.lost.add(name)
                grown = True
            elif isinstance(end, ArrayRef):  # another array that it may be
                first, _ = t.unify(carried.start[name], end)
                if not like_views(first, carried.start[name]):
                    carried.start[name], grown = first, True
            continue
        if name in targets or name in carried.lost or same(start, end):
            continue
        if isinstance(start, Undefined) and (name != VALUE or isinstance(end, Undefined)):
            continue  # assigned inside only: new in every iteration
        grown = True
        if isinstance(end, Undefined):
            carried.lost.add(name)
            continue
        if isinstance(start, Undefined):  # the value of a `return` in the body: read only where its flag is set
            carried.start[name] = filler(t, _settled(t, end))
            continue
        try:
            first, _ = t.unify(start, end)
        except Mismatch:
            raise _changes_type(t, name, start, end, node) from None
        carried.start[name] = first
    return grown


def _settled(t: Context, x: TracedValue) -> TracedValue:
    """x with weak numbers made values."""
    if isinstance(x, tuple):
        return tuple(_settled(t, v) for v in x)
    return t.typed(x) if is_number(x) else x


def _carry(t: Context, name: str, start: TracedValue, end: TracedValue, node: ast.stmt) -> TracedValue:
    """The value at the end of an iteration in the shape that the loop carries."""
    try:
        first, last = t.unify(start, end)
    except Mismatch:
        raise _changes_type(t, name, start, end, node) from None
    if [v.type for v in flatten(first)] != [v.type for v in flatten(start)]:
        raise _changes_type(t, name, start, end, node)
    return last


def _changes_type(t: Context, name: str, start: TracedValue, end: TracedValue, node: ast.stmt) -> Exception:
    if name == VALUE:
        return t.error(
            node,
            f"`{t.frame.function.name}` returns {describe(start)} and {describe(end)} on different paths",
            "return one type",
        )
    ty = type_of(end)
    scalars = isinstance(ty, Scalar) and isinstance(type_of(start, t.real), Scalar)
    hint = f"start with `{name} = sim.{ty}(...)`" if scalars else "use another name in the loop"
    return t.error(node, f"`{name}` changes its type in this loop, from {describe(start)} to {describe(end)}", hint)


def _leave(t: Context, carried: Carried, results: Sequence[Value], node: ast.stmt, targets: list[str]) -> None:
    """The environment after the loop."""
    line = t.frame.function.source.span(node).line
    values = iter(results)
    for name, x in carried.start.items():
        t.env[name] = rebuild(x, values)
    for name in [*carried.lost, *targets]:
        why = "is the variable of the loop" if name in targets else "is assigned only inside of the loop"
        t.env[name] = Undefined(f"may have no value here: it {why} on line {line}")
    t.env[BROKE] = t.env[CONTINUED] = False


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
