"""Expressions: syntax trees to traced values."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Sequence
from functools import partial

from sim.core.lang.errors import UnknownName, did_you_mean
from sim.core.lang.frontend.source import MISSING, position
from sim.core.lang.frontend.traced import ArrayRef, Positional, TracedValue, Undefined, describe, is_number, whole
from sim.core.lang.frontend.tracing.assignments import assign, subscript_keys
from sim.core.lang.frontend.tracing.branches import choose, short_circuit
from sim.core.lang.frontend.tracing.calls import apply, callee_of
from sim.core.lang.frontend.tracing.components import get_attribute, iterate, subscript
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.frontend.tracing.operators import BINARY, binary, compare, unary
from sim.core.lang.frontend.tracing.registry import NAMES, Builtin, in_order
from sim.core.lang.ir.core import Value
from sim.core.lang.types import NAMED, SCALARS

REFUSED_EXPRESSIONS: dict[type, tuple[str, str]] = {
    ast.Lambda: ("lambda", "write a function with @sim.func"),
    ast.Dict: ("a dictionary", "use a @sim.struct, or constants outside of the kernel"),
    ast.Set: ("a set", "use a tuple"),
    ast.DictComp: ("a dictionary comprehension", "use a loop"),
    ast.SetComp: ("a set comprehension", "use a loop"),
    ast.GeneratorExp: ("a generator expression", "use a loop"),
    ast.JoinedStr: ("an f-string", 'write print("x =", x)'),
    ast.NamedExpr: ("an assignment inside of an expression (:=)", "assign on a line of its own"),
    ast.Starred: ("a starred expression", "write the items one by one"),
    ast.Await: ("await", "kernels run in parallel by themselves"),
    ast.Yield: ("yield", "return values, or write them to an array"),
    ast.YieldFrom: ("yield from", "return values, or write them to an array"),
}

_SCALARS = {scalar.name: scalar for scalar in SCALARS}


def evaluate(t: Context, node: ast.expr) -> TracedValue:
    handler = _EXPRESSIONS.get(type(node))
    if handler is None:
        what, hint = REFUSED_EXPRESSIONS.get(type(node), (type(node).__name__, ""))
        raise t.error(node, f"{what} cannot be used in a kernel", hint)
    return handler(t, node)


def read_name(t: Context, node: ast.Name) -> TracedValue:
    x = t.env.get(node.id, MISSING)
    if x is MISSING:
        return _outside(t, node.id, node)
    if isinstance(x, Undefined):
        raise t.error(node, f"`{node.id}` {x.why}", "give it a value before, on every path")
    return x


def _outside(t: Context, name: str, node: ast.AST) -> TracedValue:
    """A name of the closure, the module or Python; else one of the language, which needs no prefix."""
    function = t.frame.function
    if name in function.python.__code__.co_varnames:
        raise t.error(node, f"`{name}` is used before it has a value", "assign it first")
    x = function.scope.find(name)
    t.captures.name(function, name, x)
    if x is MISSING:
        x = NAMES.get(name) or NAMED.get(name) or _SCALARS.get(name, MISSING)
    if x is MISSING:
        near = did_you_mean(name, [*(k for k in t.env if not k.startswith("$")), *function.scope.names()])
        raise t.error(node, f"`{name}` is not defined{near}", kind=UnknownName)
    return t.static(x, name, node)


def _constant(t: Context, node: ast.Constant) -> TracedValue:
    if isinstance(node.value, (bool, int, float, str)) or node.value is None:
        return node.value
    raise t.error(node, f"a constant of type {type(node.value).__name__} cannot be used in a kernel")


def _tuple(t: Context, node: ast.Tuple | ast.List) -> Positional:
    return tuple(x for e in node.elts for x in _items(t, e))


def _binary(t: Context, node: ast.BinOp) -> TracedValue:
    op, sign = BINARY[type(node.op)]
    left, right = t.eval(node.left), t.eval(node.right)
    t.at(node)
    return binary(t, op, sign, left, right, node)


def _unary(t: Context, node: ast.UnaryOp) -> TracedValue:
    return unary(t, node.op, t.eval(node.operand), node)


def _compare(t: Context, node: ast.Compare) -> TracedValue:
    left = t.eval(node.left)
    out: TracedValue = True
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = t.eval(right_node)
        t.at(node)
        out = _conjunction(t, out, compare(t, op, left, right, node))
        left = right
    return out


def _conjunction(t: Context, a: TracedValue, b: TracedValue) -> TracedValue:
    """a and b, of conditions already evaluated."""
    if isinstance(a, Value) and isinstance(b, Value):
        return t.b.emit("and", a, b)
    known, other = (b, a) if isinstance(a, Value) else (a, b)
    return other if known else False


def _logic(t: Context, node: ast.BoolOp) -> TracedValue:
    conjunction = isinstance(node.op, ast.And)
    left = t.logical(t.eval(node.values[0]), node.values[0])
    for right in node.values[1:]:
        left = short_circuit(t, conjunction, left, partial(_test, t, right), node)
    return left


def _test(t: Context, node: ast.expr) -> TracedValue:
    return t.logical(t.eval(node), node)


def _ternary(t: Context, node: ast.IfExp) -> TracedValue:
    return choose(t, node.test, node.body, node.orelse, node)


def _comprehension(t: Context, node: ast.ListComp) -> Positional:
    """Over constants only: unrolled into a tuple."""
    generator = node.generators[0]
    if len(node.generators) > 1:
        raise t.error(node, "a list comprehension with several `for`", "use loops")
    items = iterate(t, t.eval(generator.iter), generator.iter)
    names = [n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name)]
    kept = {name: t.env.get(name, MISSING) for name in names}
    out = []
    for item in items:
        assign(t, generator.target, item)
        tests = [t.logical(t.eval(test), test) for test in generator.ifs]
        if any(isinstance(c, Value) for c in tests):
            raise t.error(node, "a condition in a list comprehension has to be constant", "use a loop")
        if all(tests):
            out.append(t.eval(node.elt))
    for name, value in kept.items():
        if value is MISSING:
            t.env.pop(name, None)
        else:
            t.env[name] = value
    return tuple(out)


def _attribute(t: Context, node: ast.Attribute) -> TracedValue:
    base = t.lazy(node.value)
    t.at(node)
    if isinstance(base, enum.Enum):  # `Kind.A.value`, although Kind.A may be a number
        return t.static(getattr(base, node.attr, None), node.attr, node)
    return get_attribute(t, base, node.attr, node)


def _subscript(t: Context, node: ast.Subscript) -> TracedValue:
    base = t.lazy(node.value)
    keys = subscript_keys(t, node.slice)
    t.at(node)
    return subscript(t, base, keys, node)


def _slice(t: Context, node: ast.Slice) -> slice:
    return slice(*(None if part is None else t.eval(part) for part in (node.lower, node.upper, node.step)))


def _call(t: Context, node: ast.Call) -> TracedValue:
    known = t.frame.function.statics
    if known and (place := position(node)) in known:  # whatever the name that stands there means by now
        return t.of_static(known[place], node)
    callee = t.lazy(node.func)
    for keyword in node.keywords:
        if keyword.arg is None:
            raise t.error(node, "** in a call cannot be used in a kernel", "write the arguments one by one")
    target = callee_of(t, callee, node)
    if isinstance(target, Builtin) and target.lazy:
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                raise t.error(arg, f"* in a call of {target.name}", "write the arguments one by one")
        t.at(node)
        return target.handler(
            t, node, *in_order(target.name, tuple(node.args), {str(k.arg): k.value for k in node.keywords})
        )
    args = tuple(x for a in node.args for x in _items(t, a))
    kwargs = {str(k.arg): t.eval(k.value) for k in node.keywords}
    t.at(node)
    return apply(t, target, args, kwargs, node)


def _items(t: Context, node: ast.expr) -> Sequence[TracedValue]:
    """What an argument, or an item of a tuple, stands for: one value, or with a star several."""
    return _unpacked(t, node) if isinstance(node, ast.Starred) else (t.eval(node),)


def _unpacked(t: Context, node: ast.Starred) -> Sequence[TracedValue]:
    """The arguments that `*x` stands for: items of a tuple, components of a vector, elements of a part of an array."""
    part = node.value
    if not (isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Slice)):
        whole_value = t.eval(part)
        if isinstance(whole_value, ArrayRef):
            raise t.error(node, f"*x of {describe(whole_value)} requires explicit upper bound", _STARRED)
        if isinstance(whole_value, Value) or is_number(whole_value):
            what = (
                f"Starred expressions are only supported for what has a known length, not for {describe(whole_value)}"
            )
            raise t.error(node, what, _STARRED)
        return iterate(t, whole_value, node)
    base = t.eval(part.value)
    if not isinstance(base, ArrayRef):
        return iterate(t, t.eval(part), node)
    low, high, step = _constants(t, part.slice, node)
    return [t.load(subscript(t, base, (k,), node)) for k in range(low, high, step)]


_STARRED = "how many values this is has to be known while compiling: write *a[0:3], or *x of a tuple or vector"


def _constants(t: Context, given: ast.Slice, node: ast.AST) -> tuple[int, int, int]:
    """The bounds of a part of an array that is unpacked."""
    if given.upper is None:
        raise t.error(node, "*a[...] of an array requires explicit upper bound", _STARRED)
    bounds = []
    for part, default, least in ((given.lower, 0, 0), (given.upper, 0, 0), (given.step, 1, 1)):
        value = default if part is None else whole(t.eval(part))
        if value is None:
            raise t.error(part, "*a[...]: Slice component must be a compile-time constant", _STARRED)
        if value < least:
            what = "step cannot be negative or zero" if least else "bound cannot be negative for arrays"
            raise t.error(part, f"*a[...]: {what}, got {value}", _STARRED)
        bounds.append(value)
    return bounds[0], bounds[1], bounds[2]


_EXPRESSIONS: dict[type, Callable[[Context, TracedValue], TracedValue]] = {
    ast.Name: read_name,
    ast.Constant: _constant,
    ast.Tuple: _tuple,
    ast.List: _tuple,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _logic,
    ast.IfExp: _ternary,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Call: _call,
    ast.ListComp: _comprehension,
}
