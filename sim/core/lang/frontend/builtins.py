"""Functions of the language that the compiler itself provides, as handlers that emit operations."""

from __future__ import annotations

import ast
from functools import reduce

from sim.core.lang.frontend import atomics as atomics  # fill the registry of names
from sim.core.lang.frontend import output as output
from sim.core.lang.frontend.source import own_module
from sim.core.lang.frontend.traced import (
    ArrayRef,
    Keywords,
    Positional,
    Range,
    StructValue,
    TracedValue,
    Undefined,
    VectorValue,
    describe,
    extents,
    flatten,
    kind_of,
    type_of,
    whole,
)
from sim.core.lang.frontend.tracing.branches import choose
from sim.core.lang.frontend.tracing.components import iterate
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.frontend.tracing.loops import trip_count
from sim.core.lang.frontend.tracing.operators import binary, elementwise, power, unary
from sim.core.lang.frontend.tracing.registry import NAMES, Builtin, builtin, takes
from sim.core.lang.ir.core import Value
from sim.core.lang.ir.ops import OPS  # the table with its rows
from sim.core.lang.types import Homogeneous, Scalar, Type


def __getattr__(name: str) -> TracedValue:
    """`from sim.core.lang.frontend.builtins import sqrt`: builtins by their name."""
    try:
        return NAMES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


# ---- primitives of the op table
def _primitive(name: str) -> None:
    def handler(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
        takes(t, node, name, args, kwargs, OPS[name].arity)
        return elementwise(t, name, args, node)

    NAMES[name] = Builtin(name, handler, OPS[name].doc)


for _name, _row in OPS.items():
    if _row.builtin:
        _primitive(_name)
NAMES["fabs"] = NAMES["abs"]


def _operator(name: str, op: str, sign: str) -> None:
    def handler(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
        takes(t, node, name, args, kwargs, 2)
        return binary(t, op, sign, args[0], args[1], node)

    NAMES[name] = Builtin(name, handler, f"a {sign} b")


for _name, _op, _sign in (
    ("add", "add", "+"),
    ("sub", "sub", "-"),
    ("mul", "mul", "*"),
    ("div", "div", "/"),
    ("mod", "mod", "%"),
    ("floordiv", "floordiv", "//"),
    ("bit_and", "and", "&"),
    ("bit_or", "or", "|"),
    ("bit_xor", "xor", "^"),
    ("lshift", "shl", "<<"),
    ("rshift", "shr", ">>"),
):
    _operator(_name, _op, _sign)
NAMES["div_approx"] = NAMES["div"]


def _unary(name: str, op: ast.unaryop, doc: str) -> None:
    def handler(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
        takes(t, node, name, args, kwargs, 1)
        return unary(t, op, args[0], node)

    NAMES[name] = Builtin(name, handler, doc)


_unary("neg", ast.USub(), "-a.")
_unary("pos", ast.UAdd(), "+a.")
_unary("invert", ast.Invert(), "~a: every bit flipped.")
_unary("unot", ast.Not(), "not a.")


@builtin("pos")
def _pos(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """+a."""
    takes(t, node, "pos", args, kwargs, 1)
    return unary(t, ast.UAdd(), args[0], node)


@builtin("pow")
def _pow(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """a ** b: small constant whole exponents multiply."""
    takes(t, node, "pow", args, kwargs, 2)
    if any(isinstance(a, VectorValue) for a in args):
        return elementwise(t, "pow", args, node)
    if any(kind_of(a) != "scalar" for a in args):
        raise t.error(node, f"pow is not defined for {describe(args[0])} and {describe(args[1])}")
    return power(t, args[0], args[1], node)


def _extremum(name: str) -> None:
    """Two values change places: the primitive gives the first of equal ones the derivative, Warp the second.

    Functions of the package keep their order, in which equal values are weighed as each of them needs it.
    """

    def handler(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
        takes(t, node, name, args, kwargs, 1, 1000)
        if len(args) == 1 and isinstance(args[0], (VectorValue, tuple)):
            args = args[0].leaves if isinstance(args[0], VectorValue) else args[0]
            if not args:
                raise t.error(node, f"{name} of nothing")
        elif len(args) == 2 and not own_module(t.frame.function.__module__):
            args = args[::-1]
        return reduce(lambda a, b: elementwise(t, name, (a, b), node), args)

    NAMES[name] = Builtin(
        name,
        handler,
        f"The {name}imum of several values (vectors: component by component), or of the components of one vector."
        "  Of two equal values the second has the derivative, of several or of components the first.",
    )


_extremum("min")
_extremum("max")


@builtin("sum")
def _sum(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """The sum of the components of a vector, or of the items of a tuple."""
    takes(t, node, "sum", args, kwargs, 1, 2)
    items = args[0].leaves if isinstance(args[0], VectorValue) else args[0]
    if not isinstance(items, tuple):
        raise t.error(node, f"sum takes a vector or a tuple, got {describe(args[0])}")
    start = args[1:] or items[:1] or (0,)
    return reduce(lambda a, b: binary(t, "add", "+", a, b, node), items if len(args) == 2 else items[1:], start[0])


# ---- launch and memory
@builtin("tid")
def _tid(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """`i = tid()`: the index of the thread, in a launch of several dimensions the first;
    `i, j = tid()`: its indices in a launch of 2 (up to 4) dimensions."""
    takes(t, node, "tid", args, kwargs, 0)
    call, count = t.unpack
    if call is not node:
        t.single_tids.append(t.b.tid(-1))
        return t.single_tids[-1]
    if not 1 <= count <= 4:
        raise t.error(node, f"tid() gives 1 to 4 indices, not {count}")
    t.dims = max(t.dims, count)
    return tuple(t.b.tid(axis) for axis in range(count))


# ---- choice and compile time
@builtin("where", lazy=True)
def _where(t: Context, node: ast.AST, args: list[ast.expr], kwargs: dict[str, ast.expr]) -> TracedValue:
    """where(cond, a, b): a if cond else b.
    Only the chosen one is evaluated, so the other may be infinite or out of range."""
    takes(t, node, "where", tuple(args), kwargs, 3)
    return choose(t, args[0], args[1], args[2], node)


class LengthOnly:
    """What `static(...)` sees of a vector, matrix or tuple of the run: how long it is."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"a value of the run with {self._length} components"


@builtin("static", lazy=True, host=lambda value: value)
def _static(t: Context, node: ast.AST, args: list[ast.expr], kwargs: dict[str, ast.expr]) -> TracedValue:
    """static(expression): evaluated by Python where the function is defined, once; with constants of the kernel in it
    while compiling."""
    takes(t, node, "static", tuple(args), kwargs, 1)
    space = t.frame.function.scope.namespace()
    for key, value in t.env.items():
        if key.startswith("$"):
            continue
        if isinstance(value, (StructValue, ArrayRef, Undefined)) or flatten(value):
            space.pop(key, None)  # a value of the run hides a captured name
            if isinstance(value, (VectorValue, tuple)):
                space[key] = LengthOnly(len(value.type) if isinstance(value, VectorValue) else len(value))
        else:
            space[key] = value
    t.captures.expression(t.frame.function, args[0], t.env)
    try:
        code = compile(ast.Expression(args[0]), t.frame.function.source.file, "eval")
        value = eval(code, space)  # noqa: S307 the user's own expression
    except Exception as problem:
        raise t.error(
            node,
            f"Error evaluating static expression: {problem} ({type(problem).__name__})",
            "it sees what Python sees where the kernel is defined, and constants, not values of the run",
        ) from None
    return t.of_static(value, node)


@builtin("range")
def _range(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> Range:
    """range(stop), range(start, stop), range(start, stop, step): as in Python."""
    takes(t, node, "range", args, kwargs, 1, 3)
    args = tuple(int(a) if isinstance(a, bool) else a for a in args)
    for a in args:
        ty = type_of(a, t.real)
        if not isinstance(ty, Scalar) or ty.kind != "i":
            raise t.error(
                node,
                f"range takes signed integers, got {describe(a)}",
                "write int(...)" if isinstance(ty, Scalar) else "",
            )
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1) if len(args) == 2 else args
    if whole(step) == 0:
        raise t.error(node, "range with step 0")
    return Range(start, stop, step)


@builtin("rolled")
def _rolled(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> Range:
    """rolled(range(8)): keeps a short loop with a constant count as a loop (they are unrolled otherwise)."""
    takes(t, node, "rolled", args, kwargs, 1)
    if not isinstance(args[0], Range):
        raise t.error(node, f"rolled takes a range, got {describe(args[0])}")
    return Range(args[0].start, args[0].stop, args[0].step, rolled=True)


@builtin("reversed")
def _reversed(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """reversed(range(...)), of a tuple or vector: as in Python."""
    takes(t, node, "reversed", args, kwargs, 1)
    over = args[0]
    if not isinstance(over, Range):
        return tuple(reversed(iterate(t, over, node)))
    bounds = [whole(k) for k in (over.start, over.stop, over.step)]
    if None not in bounds:
        turned = range(*bounds)[::-1]  # type: ignore[arg-type]
        return Range(turned.start, turned.stop, turned.step, over.rolled)
    ty = next(k.type for k in (over.start, over.stop, over.step) if isinstance(k, Value))
    start, stop, step = (t.as_value(k, ty, node) for k in (over.start, over.stop, over.step))
    before_last = t.b.emit("sub", trip_count(t, start, stop, step, ty), 1)
    last = t.b.emit("add", start, t.b.emit("mul", before_last, step))
    return Range(last, t.b.emit("sub", start, step), t.b.emit("neg", step), over.rolled)


@builtin("len")
def _len(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """Length of a vector or tuple (a constant), rows of a matrix, first dimension of an array."""
    takes(t, node, "len", args, kwargs, 1)
    x = args[0]
    if isinstance(x, VectorValue):
        return len(x.type)
    if isinstance(x, ArrayRef):
        return extents(t.b, x)[0]
    if isinstance(x, (tuple, str, range, Homogeneous)):
        return len(x)
    raise t.error(node, f"{describe(x)} has no length")


@builtin("type")
def _type(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> Type:
    """The type of a value: `type(v)(0.0)` makes another of the same type."""
    takes(t, node, "type", args, kwargs, 1)
    ty = type_of(args[0], t.real)
    if ty is None:
        raise t.error(node, f"type(...) of {describe(args[0])}")
    return ty


@builtin("enumerate")
def _enumerate(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """enumerate(tuple or vector): as in Python, unrolled."""
    takes(t, node, "enumerate", args, kwargs, 1)
    return tuple(enumerate(iterate(t, args[0], node)))


@builtin("zip")
def _zip(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """zip of tuples or vectors: as in Python, unrolled."""
    return tuple(zip(*(iterate(t, a, node) for a in args), strict=False))
