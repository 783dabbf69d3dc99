"""The front end: Python functions to IR.

`trace_kernel` and `trace_function` turn a kernel, or a function of the language (`@func`, in `function.py`) with given
argument types, into a `Func`.  The tracer runs the Python syntax tree on traced values (`traced.py`): what is known now
(numbers, types, functions, loops over constants) happens now, the rest becomes operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sim.core.lang.errors import KernelError
from sim.core.lang.frontend import builtins as builtins  # fills the registry of names
from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.traced import ArrayRef, Axis, TracedValue, flatten
from sim.core.lang.frontend.tracing import bodies
from sim.core.lang.frontend.tracing.bodies import Arguments, parameter_value, result_of
from sim.core.lang.frontend.tracing.calls import apply
from sim.core.lang.frontend.tracing.closed_form import ClosedForm
from sim.core.lang.frontend.tracing.context import OUTSIDE, Context, Frame, Syntax
from sim.core.lang.frontend.tracing.expressions import evaluate
from sim.core.lang.frontend.tracing.statements import execute
from sim.core.lang.ir.core import Func
from sim.core.lang.types import Scalar, Type, float32

SYNTAX = Syntax(evaluate, execute)


def trace_function(function: Function | Callable[..., Any], arg_types: Arguments, real: Scalar = float32) -> Func:
    """`bodies.trace_function` of a function of the language, or of Python, whatever its syntax."""
    return bodies.trace_function(SYNTAX, _function(function), arg_types, real)


def trace_kernel(
    python: Function | Callable[..., Any],
    arg_types: Sequence[Type],
    name: str | None = None,
    real: Scalar = float32,
    dims: int = 1,
    may_be_negative: bool = False,
) -> Func:
    """`bodies.trace_kernel` of a function of the language, or of Python."""
    return bodies.trace_kernel(SYNTAX, _function(python), arg_types, name, real, dims, may_be_negative)


class Known(NamedTuple):
    """An argument of `trace_call` that is a constant, although it is a type."""

    value: Type


class ViewOf(NamedTuple):
    """What a call returns that is an argument, an array, or a part of it.

    argument: its number.  parts: for each dimension that is looked at whether it is a range of it, which is three of
    the numbers that the call computes (start, step, extent), or an index, one of them.
    """

    argument: int
    parts: tuple[bool, ...]


def _view(result: TracedValue, given: Sequence[TracedValue]) -> ViewOf | None:
    if not isinstance(result, ArrayRef) or any(isinstance(k, Axis) and k.indices is not None for k in result.index):
        return None
    arrays = [x.array if isinstance(x, ArrayRef) else None for x in given]
    ways = tuple(isinstance(k, Axis) for k in result.index)
    return ViewOf(arrays.index(result.array), ways) if result.array in arrays else None


def trace_call(
    target: TracedValue, args: Sequence[TracedValue], kwargs: Mapping[str, TracedValue], real: Scalar
) -> Func:
    """A call from outside of kernels as a pure function: its parameters are the arguments given as types, in order.

    Other arguments, and what is `Known`, are constants.  `result` says what it returns: types, or a `ViewOf`.

    Raises `KernelError`, without a place where that is the call: there is no line of a kernel.
    """
    t = Context(SYNTAX, real)
    t.frames.append(Frame(_OUTSIDE, None, OUTSIDE))
    node = _OUTSIDE.source.node
    with t.b:
        given = {
            key: parameter_value(t, str(key), x)
            if isinstance(x, Type)
            else t.static(x.value if isinstance(x, Known) else x, str(key), node)
            for key, x in [*enumerate(args), *kwargs.items()]
        }
        try:
            made = apply(
                t, target, tuple(given[k] for k in range(len(args))), {key: given[key] for key in kwargs}, node
            )
            value, kind = made, _view(made, list(given.values()))
            if made is not None and kind is None:
                value, kind = result_of(t, target.name, made)
        except KernelError as problem:
            inside = problem.span is not None and problem.span.file != _OUTSIDE.source.file
            raise type(problem)(problem.what, problem.span if inside else None, problem.hint) from None
    out = t.finish(target.name, None, flatten(value))
    out.attrs["result"] = kind
    return out


def _outside() -> None:
    """Whoever calls a function outside of kernels."""


_OUTSIDE = Function(_outside, "a call outside of kernels")


def closed_form(function: Function, arg_types: Arguments, real: Scalar) -> ClosedForm:
    """A function and its derivative in closed form, for these argument types."""
    return ClosedForm(SYNTAX, function, arg_types, real)


def _function(python: Function | Callable[..., Any]) -> Function:
    return python if isinstance(python, Function) else Function(python)
