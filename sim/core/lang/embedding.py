"""Traced functions as functions of the language: a kernel calls them, or their value and gradient, by name.

For code that writes kernels around functions it has been given, as constraints are: what it needs of the tracer.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sim.core.lang.analysis.activity import is_float
from sim.core.lang.autodiff.forward import Gradient, jvp, vjp_rule
from sim.core.lang.frontend.captures import remembered
from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.traced import (
    Keywords,
    Positional,
    StructValue,
    TracedValue,
    describe,
    flatten,
    rebuild,
    type_of,
)
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.frontend.tracing.bodies import Arguments, parameter_value
from sim.core.lang.frontend.tracing.calls import apply, chosen
from sim.core.lang.frontend.tracing.components import get_field, subscript
from sim.core.lang.frontend.tracing.context import Context, Frame
from sim.core.lang.frontend.tracing.registry import Builtin, builtin, takes
from sim.core.lang.ir.core import Func, Value
from sim.core.lang.ir.inline import inline_call
from sim.core.lang.memoize import memoize
from sim.core.lang.types import CompositeType, Scalar, Struct, Type, float32


def traced(function: Function, arg_types: Arguments, real: Scalar = float32) -> Func:
    """As `trace_function`, remembered as long as what the function has captured stays the same."""
    key = ("function", *arg_types, real)
    found: Func = remembered(function.traces, key, lambda: trace_function(function, arg_types, real))
    return found


Trace = Callable[[], Func]
"""Gives a traced function.  Asked whenever a kernel is traced: what the function reads of Python may have changed."""


def embed(trace: Trace, name: str) -> Builtin:
    """`name(*args)` in a kernel: the scalar results of a traced function, a tuple.

    The arguments hold the parameters of the function in order: scalars, vectors, structs, or tuples of them.
    Raises `KernelError` where their components are not those that the function takes.
    """

    def handler(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> tuple[Value, ...]:
        func = trace()
        return tuple(t.inline(func, _components(t, func, name, args, kwargs, node)))

    return Builtin(name, handler, f"The results of `{name}`.")


def value_and_grad(trace: Trace, name: str) -> Builtin:
    """`name(x, *args)` in a kernel: (values, gradients) of a traced function, by its first argument.

    values is the tuple of its scalar results; gradients has one entry per result, in the form of x (a tuple of points
    gives a tuple of vectors): row r of the Jacobian is gradients[r].  As `jax.value_and_grad`, but for several results
    too, where JAX asks for `jax.jacrev`.
    Raises `KernelError` as `embed` does, and where a result or a component of x is no float.
    """

    def handler(
        t: Context, node: ast.AST, args: Positional, kwargs: Keywords
    ) -> tuple[tuple[Value, ...], tuple[Any, ...]]:
        func = trace()
        flat = _components(t, func, name, args, kwargs, node)
        x = flatten(args[0]) if args else []
        for v in (*x, *func.body.yields):
            if not (isinstance(v.type, Scalar) and v.type.is_float):
                raise t.error(node, f"{name} has a gradient: its first argument and results are floats, not {v.type}")
        values = t.inline(func, flat)
        gradient, rows = gradient_of(func, len(x)), []
        for r in range(len(values)):  # a reverse sweep for each row of the Jacobian, from a unit vector
            seeds = [t.b.const(float(k == r), v.type) for k, v in enumerate(values)]
            rows.append(rebuild(args[0], iter(gradient.emit(t.b, [*flat, *seeds]))))
        return tuple(values), tuple(rows)

    return Builtin(name, handler, f"The results of `{name}`, and their gradients by its first argument.")


def hessian_product(trace: Trace, name: str) -> Builtin:
    """`name(x, *args, weights, along)` in a kernel: the second derivative of sum_r weights[r] values[r] by x, along x.

    weights has a number for each scalar result of the traced function; `along` and the result have the form of x.
    Not to be differentiated once more.  Raises `KernelError` as `embed` does.
    """

    def handler(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> Any:
        takes(t, node, name, args, kwargs, 3, len(args))
        *inner, weights, along = args
        func = trace()
        flat = _components(t, func, name, tuple(inner), kwargs, node)
        t.captures.include(func.captures)
        second = second_derivative_of(func, len(flatten(inner[0])))
        moved = inline_call(t.b, second, [*flat, *flatten(weights), *flatten(along)])
        return rebuild(inner[0], iter(moved[len(moved) // 2 :]))

    return Builtin(name, handler, f"The second derivative of the weighted results of `{name}`, times a direction.")


@memoize
def second_derivative_of(func: Func, components: int) -> Func:
    """Parameters of func, weights of its results, a direction of its first components -> gradient, its change."""
    return jvp(gradient_of(func, components).func, range(components))


@memoize
def gradient_of(func: Func, components: int) -> Gradient:
    """The vector-Jacobian product of a traced function with respect to its first components."""
    return vjp_rule(func, range(components))


def _components(t: Context, func: Func, name: str, args: Positional, kwargs: Keywords, node: ast.AST) -> list[Value]:
    """The arguments as parameters of a traced function."""
    takes(t, node, name, args, kwargs, 0, len(args))
    flat = flatten(args)
    given, wanted = ([str(v.type) for v in row] for row in (flat, func.params))
    if given != wanted:
        what = f"{name} takes the components ({', '.join(wanted)}), got ({', '.join(given)})"
        raise t.error(node, what, "numbers that are known while compiling count as none: write float(...)")
    return flat


def _fields_at(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> tuple[Any, ...]:
    """fields_at(struct, i): element i of every array of a struct, a tuple; i may be a tuple with an index for each."""
    takes(t, node, "fields_at", args, kwargs, 2)
    arrays, index = args
    if not isinstance(arrays, StructValue):
        raise t.error(node, f"fields_at takes a struct of arrays, got {describe(arrays)}")
    indices = index if isinstance(index, tuple) else (index,) * len(arrays.values)
    if len(indices) != len(arrays.values):
        raise t.error(node, f"fields_at of {arrays.type} takes {len(arrays.values)} indices, got {len(indices)}")
    pairs = zip(arrays.values, indices, strict=True)
    return tuple(t.load(subscript(t, get_field(t, arrays, key, node), (i,), node)) for key, i in pairs)


def _grad(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> Builtin:
    """grad(f)(x, y, ...): the derivatives of f(x, y, ...), a function with one floating result, by its arguments.

    For one argument its derivative, for several a tuple of them, zero for those that are no floats.  Can be
    differentiated once more, by a tape too.
    """
    takes(t, node, "grad", args, kwargs, 1)
    made = _gradient_function(args[0])
    if made is None:
        raise t.error(node, f"grad takes a function of the language, got {describe(args[0])}")
    return made


def _grad_on_host(func: Any) -> Builtin:
    """`grad(f)` outside of kernels: a function that they call by the name it is given, and Python does, too."""
    made = _gradient_function(func)
    if made is None:
        raise TypeError(f"grad takes a function of the language, not {func!r}; decorate it with @sim.func")
    return made


def _gradient_function(f: Any) -> Builtin | None:
    if not isinstance(f, (Function, Builtin)) or (isinstance(f, Builtin) and f.lazy):
        return None
    return Builtin(f"grad({f.name})", partial(_gradient, f))


def _gradient(f: Function | Builtin, t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    if isinstance(f, Function):
        args = tuple(chosen(t, f, args, kwargs, node)[1].values())
    elif kwargs:
        raise t.error(node, f"{f.name} takes no argument '{next(iter(kwargs))}'")
    kinds = [_kind_of(t, f, x, node) for x in args]
    given = tuple(x if kind is None else t.fit(x, kind) for x, kind in zip(args, kinds, strict=True))
    func = _call_of(f, t, given, kinds, node)
    t.captures.include(func.captures)
    seed = t.b.const(1, func.body.yields[0].type)
    found = iter(vjp_rule(func).emit(t.b, [*flatten(given), seed]))
    rows = []
    for x, kind in zip(given, kinds, strict=True):
        leaves = [next(found) if is_float(v) else t.b.const(0, v.type) for v in flatten(x)]
        rows += [rebuild(x, iter(leaves))] if kind is not None else []
    return rows[0] if len(rows) == 1 else tuple(rows)


def _kind_of(t: Context, f: Function | Builtin, x: TracedValue, node: ast.AST) -> Type | None:
    """The type of an argument of f; None for a function, which is known."""
    kind = type_of(x, t.real)
    if kind is None and isinstance(x, (Function, Builtin)):
        return None
    if not isinstance(kind, (Scalar, CompositeType)) or (isinstance(kind, Struct) and kind.has_arrays):
        raise t.error(node, f"grad({f.name}) takes numbers, vectors, matrices and structs of them, got {describe(x)}")
    return kind


def _call_of(f: Function | Builtin, t: Context, args: Positional, kinds: Sequence[Type | None], node: ast.AST) -> Func:
    """f as a pure function of the scalars of those arguments that have a type."""
    inner = Context(t.syntax, t.real)
    inner.frames.append(Frame(t.frame.function, None, ("grad", f)))
    with inner.b:
        inner.at(node)
        own = [
            x if kind is None else parameter_value(inner, f"x{k}", kind)
            for k, (x, kind) in enumerate(zip(args, kinds, strict=True))
        ]
        result = apply(inner, f, tuple(own), {}, node)
        kind = type_of(result)
        if not (isinstance(kind, Scalar) and kind.is_float):
            raise t.error(node, f"grad({f.name}) takes a function with one floating result, not {describe(result)}")
    return inner.finish(f.name, t.b.span, [result])


grad = builtin("grad", host=_grad_on_host)(_grad)
fields_at = Builtin("fields_at", _fields_at, _fields_at.__doc__ or "")
