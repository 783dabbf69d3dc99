"""The front end: Python functions to IR.

`@func` makes a function of the language; `trace_kernel` and `trace_function` turn a kernel, or a function with given
argument types, into a `Func`.  The tracer runs the Python syntax tree on traced values (`traced.py`): what is known now
(numbers, types, functions, loops over constants) happens now, the rest becomes operations.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from sim.core.lang.errors import KernelError
from sim.core.lang.frontend.builtins import NAMES, Builtin, builtin, register
from sim.core.lang.frontend.captures import remembered
from sim.core.lang.frontend.context import Frame
from sim.core.lang.frontend.custom import GradientFunction, adjoint_name
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.frontend.loops import Loops
from sim.core.lang.frontend.operators import OPERATORS
from sim.core.lang.frontend.source import MISSING, Parameter, own_module, resolve_annotations, signature
from sim.core.lang.frontend.traced import (
    ArrayRef,
    Fields,
    Members,
    Mismatch,
    Parts,
    Place,
    Undefined,
    describe,
    flatten,
    is_number,
    type_of,
    whole,
)
from sim.core.lang.ir.core import Func, Op, Value, walk
from sim.core.lang.references import Reference, StructOfReferences
from sim.core.lang.types import (
    ArrayType,
    CompositeType,
    Scalar,
    Struct,
    Type,
    float32,
    has_float,
    int32,
    leaves_of,
    scalar_of,
)

Arguments = Sequence[Type | tuple[Type, ...]]


class Tracer(Loops):
    """Traces one function.  Handlers of builtins get it: `b`, `error`, `call`, `as_value`, `assign`, `compose`, ..."""

    def call_op(self, function: Function, values: dict[str, Any], node: ast.AST) -> Any:
        """A call that stays one, because its derivative is given in closed form."""
        real = next((s for v in values.values() if (s := _float_of(v)) is not None), self.real)
        typed, kinds = [], []
        for name, x in values.items():
            kind = self._argument_type(function, name, x, real, node)
            kinds.append(kind)
            typed += (
                [x.array]
                if isinstance(x, ArrayRef)
                else flatten(
                    self.as_value(x, kind, node)
                    if isinstance(kind, Scalar)
                    else (
                        tuple(
                            self.as_value(v, k, node) if isinstance(k, Scalar) else v
                            for v, k in zip(x, kind, strict=True)
                        )
                        if isinstance(kind, tuple)
                        else x
                    )
                )
            )
        try:
            entry = remembered(
                function.traces, ("closed form", *kinds, self.real), lambda: ClosedForm(function, kinds, self.real)
            )
        except KernelError as problem:
            raise self._inside(function, problem, node) from None
        self.captures.include(entry.captures)
        callee = entry.callee
        op = Op("call", typed, [Value(v.type) for v in callee.body.yields], {"callee": callee, "vjp": entry.vjp})
        if entry.separator is not None:
            op.attrs["separated"] = entry.separated
        results = iter(self.b.append(op).results)
        result = callee.attrs["result"]
        if isinstance(result, tuple):
            return tuple(self.compose(kind, results) for kind in result)
        return self.compose(result, results)

    def _inside(self, function: Function, problem: KernelError, node: ast.AST) -> KernelError:
        """An error in the body of a called function, with the call that led there."""
        if function.internal:
            return self.error(node, f"in `{function.name}`: {problem.what}", problem.hint)
        call = f"called from `{self.frame.function.name}` at {self.frame.function.source.span(node)}"
        return KernelError(f"{problem.what} ({call})", problem.span, problem.hint)

    def _argument_type(self, function: Function, name: str, x: Any, real: Scalar, node: ast.AST) -> Any:
        if isinstance(x, tuple):
            return tuple(self._argument_type(function, name, v, real, node) for v in x)
        kind = type_of(x, real)
        whole_array = isinstance(x, ArrayRef) and not x.index and isinstance(function.adjoint, GradientFunction)
        if (
            kind is None
            or (isinstance(kind, ArrayType) and not whole_array)
            or (isinstance(kind, Struct) and kind.has_arrays)
        ):
            raise self.error(
                node,
                f"`{function.name}` has a derivative in closed form: its argument '{name}' cannot be {describe(x)}",
                "it takes scalars, vectors, matrices and structs of them; with @sim.func_grad also whole arrays",
            )
        return kind


def _float_of(x: Any) -> Scalar | None:
    kind = type_of(x)
    scalar = scalar_of(kind) if isinstance(kind, Type) and not isinstance(kind, ArrayType) else None
    return scalar if scalar is not None and scalar.is_float else None


class ClosedForm:
    """A function with a derivative in closed form, for given argument types.

    A derivative of the user is traced with the function, since what it reads of Python may be something else when a
    gradient asks for it.
    """

    def __init__(self, function: Function, kinds: Sequence[Any], real: Scalar) -> None:
        self.function, self.kinds, self.real = function, kinds, real
        self.adjoint, self.separator = function.adjoint, function.separator
        self.callee = trace_function(function, kinds, real)
        self.captures = self.callee.captures
        for op in walk(self.callee.body):
            if op.name in ("store", "accum", "atomic"):
                raise KernelError(
                    f"`{function.name}` has a derivative in closed form, and writes to '{op.operands[0].name}'",
                    op.span,
                    "return the value",
                )
        self._vjp: Func | KernelError | None = None
        self._separated: Func | None = None
        if not own_module(function.__module__):
            try:
                self.captures.include(self.vjp().captures)
            except KernelError as problem:
                self._vjp = problem

    def separated(self) -> Func:
        """Parameters: results; yields the results moved apart."""
        if self._separated is None:
            assert self.separator is not None
            self._separated = trace_function(self.separator, list(self.callee.attrs["result"]), self.real)
        return self._separated

    def vjp(self) -> Func:
        """Parameters: operands, results, cotangents of floating results; yields a cotangent per floating operand."""
        if self._vjp is None:
            self._vjp = self._trace_vjp()
        if isinstance(self._vjp, KernelError):
            raise self._vjp
        return self._vjp

    def _trace_vjp(self) -> Func:
        result = self.callee.attrs["result"]
        results = result if isinstance(result, tuple) else (result,)
        floats = [k for k in results if has_float(k)]
        assert self.adjoint is not None
        if isinstance(self.adjoint, GradientFunction):
            return _trace_gradient(self.adjoint, self.callee, self.kinds, floats, self.real)
        traced = trace_function(self.adjoint, [*self.kinds, *results, *floats], self.real)
        wanted = [
            leaf.scalar
            for kind in self.kinds
            for k in (kind if isinstance(kind, tuple) else (kind,))
            for leaf in leaves_of(k)
            if leaf.scalar.is_float
        ]
        if [v.type for v in traced.body.yields] != wanted:
            raise KernelError(
                f"the derivative `{self.adjoint.name}` of `{self.function.name}` returns {traced.attrs['result']}",
                traced.span,
                f"it has to return one cotangent per floating argument: {', '.join(str(k) for k in self.kinds)}",
            )
        return traced


def _trace_gradient(
    function: GradientFunction, callee: Func, kinds: Sequence[Any], floats: Sequence[Any], real: Scalar
) -> Func:
    """What a `@func_grad` says, in the form of `ClosedForm.vjp`: `kinds` of the arguments, `floats` of the cotangents.

    Behind its parameters stand the gradients of the array arguments, to which it adds.
    """
    t = Tracer(real)
    frame = Frame(function, None, (function, *map(str, kinds)))
    t.frames.append(frame)
    node = function.source.node
    names = [p.name for p in function.parameters(real)]
    if len(names) != len(kinds) + len(floats):
        raise t.error(
            node,
            f"`{function.name}` takes {len(names)} arguments, `{callee.name}` has {len(kinds)} and {len(floats)}"
            " floating results",
            "it takes the arguments of its function, then the cotangent of each floating result",
        )
    args = [_parameter(t, name, kind) for name, kind in zip(names, [*kinds, *floats], strict=True)]
    sought = [
        (adjoint_name(name), kind)
        for name, kind in zip(names, kinds, strict=False)
        if not isinstance(kind, (tuple, ArrayType)) and has_float(kind)
    ]
    gradients = [
        (adjoint_name(name), Value(kind, f"adj_{name}"))
        for name, kind in zip(names, kinds, strict=False)
        if isinstance(kind, ArrayType)
    ]
    t.block.params += [v for _, v in gradients]
    with t.b:
        frame.env.update(t.bind(function, args, {}, node))
        frame.env.update((name, ArrayRef(v)) for name, v in gradients)
        frame.env.update((name, t.zero(kind)) for name, kind in sought)
        if t.body(frame) is not None:
            raise t.error(node, f"`{function.name}` returns a value", "add to adjoint[x] instead")
        values = [v for name, kind in sought for v in flatten(t.fit(frame.env[name], kind)) if v.type.is_float]  # type: ignore[attr-defined]
    count = len(callee.params)
    t.block.params[count:count] = [Value(v.type, "result") for v in callee.body.yields]
    out = t.finish(function.name, function.source.span(node), values)
    _check_accesses(function, out, {v for _, v in gradients})
    return out


def _check_accesses(function: GradientFunction, rule: Func, gradients: set[Value]) -> None:
    """A gradient function reads its arguments, and adds to their gradients."""
    used = {v for op in walk(rule.body) for v in op.operands} | set(rule.body.yields)
    for op in walk(rule.body):
        if op.name not in ("load", "store", "accum", "atomic"):
            continue
        adds = op.name == "accum" or (
            op.name == "atomic" and op.attrs["how"] == "add" and not any(r in used for r in op.results)
        )
        if not (adds if op.operands[0] in gradients else op.name == "load"):
            what = f"`{function.name}` can read array arguments and add to their adjoint[...]; this is something else"
            raise KernelError(what, op.span, "write adjoint[x][i] += ...")


def traced(function: Function, arg_types: Arguments, real: Scalar = float32) -> Func:
    """As `trace_function`, remembered as long as what the function has captured stays the same."""
    return remembered(
        function.traces, ("function", *arg_types, real), lambda: trace_function(function, arg_types, real)
    )


def trace_function(function: Function | Callable[..., Any], arg_types: Arguments, real: Scalar = float32) -> Func:
    """A pure function for these argument types: scalars in, scalars out.

    Composite arguments become one parameter per leaf (`v.0`, `v.1`, ...; a tuple of types: `x.0.0`, ...), results one
    yield per leaf; `attrs["result"]` is the type of the result, or a tuple of types.  `real`: what `float` means.
    """
    function = function if isinstance(function, Function) else Function(function)
    t = Tracer(real)
    frame = Frame(function, None, (function, *map(str, arg_types)))
    t.frames.append(frame)
    names = [p.name for p in function.parameters(real)]
    if len(arg_types) > len(names):
        raise t.error(None, f"`{function.name}` takes {len(names)} arguments, got {len(arg_types)} types")
    args = [_parameter(t, name, kind) for name, kind in zip(names, arg_types, strict=False)]
    with t.b:
        frame.env.update(t.bind(function, args, {}, function.source.node))
        result = t.body(frame)
        value, kind = _result(t, function, result)
    out = t.finish(function.name, function.source.span(function.source.node), flatten(value))
    out.attrs["result"] = kind
    return out


def _result(t: Tracer, function: Function, result: Any) -> tuple[Any, Any]:
    """The result with weak numbers made values, and its type or tuple of types."""
    if result is None:
        raise t.error(None, f"`{function.name}` returns nothing", "add a `return`")
    if isinstance(result, tuple):
        both = [_result(t, function, r) for r in result]
        return tuple(v for v, _ in both), tuple(k for _, k in both)
    if is_number(result):
        result = t.as_value(result)
    kind = type_of(result)
    if not isinstance(kind, (Scalar, CompositeType)):
        raise t.error(
            None, f"`{function.name}` returns {describe(result)}", "return numbers, vectors, matrices or structs"
        )
    return result, kind


def trace_kernel(
    python: Callable[..., Any], arg_types: Sequence[Type], name: str | None = None, real: Scalar = float32
) -> Func:
    """A kernel for these argument types.

    Parameters: a scalar takes one, an array one, a struct its leaves and arrays in field order (`s.mass`, `s.x.0`), a
    `Reference` one array.
    `attrs["signature"]` = [(argument, type, first parameter, number of parameters), ...]; `dims` as `tid()` asks for.
    """
    function = python if isinstance(python, Function) else Function(python)
    t = Tracer(real)
    frame = Frame(function, None, (function, *map(str, arg_types)))
    t.frames.append(frame)
    node = function.source.node
    names = [p.name for p in function.parameters(real)]
    if len(arg_types) != len(names):
        raise t.error(node, f"kernel `{function.name}` takes {len(names)} arguments, got {len(arg_types)}")
    layout = []
    with t.b:
        for key, kind in zip(names, arg_types, strict=True):
            first = len(t.block.params)
            frame.env[key] = _parameter(t, key, kind)
            layout.append((key, kind, first, len(t.block.params) - first))
        t.at(node)
        if t.body(frame) is not None:
            raise t.error(node, f"kernel `{function.name}` returns a value", "write it to an array")
    out = t.finish(name or function.name, function.source.span(node), ())
    out.attrs["signature"] = layout
    return out


def _parameter(t: Tracer, name: str, kind: Any) -> Any:
    """The traced value of an argument, with its parameters added to the function."""
    if isinstance(kind, tuple):
        parts = tuple(_parameter(t, f"{name}.{k}", part) for k, part in enumerate(kind))
        return Members(parts, kind.what) if isinstance(kind, Members) else parts
    if isinstance(kind, (Scalar, ArrayType)):
        if isinstance(kind, ArrayType) and kind.dtype is None:
            raise t.error(None, f"argument '{name}': an array of anything needs the type of its elements here")
        value = Value(kind, name)
        t.block.params.append(value)
        return ArrayRef(value) if isinstance(kind, ArrayType) else value
    if isinstance(kind, Reference):
        value = Value(kind.array, name)
        t.block.params.append(value)
        return t.load(Place(value, (t.b.const(0, int32),), kind.value))
    if isinstance(kind, StructOfReferences):
        return Fields(kind.struct, {key: _parameter(t, f"{name}.{key}", part) for key, part in kind.fields.items()})
    if isinstance(kind, Struct):
        return Fields(kind, {key: _parameter(t, f"{name}.{key}", part) for key, part in kind.fields.items()})
    if isinstance(kind, CompositeType):
        values = [Value(leaf.scalar, f"{name}.{leaf.path}") for leaf in kind.leaves]
        t.block.params.extend(values)
        return t.compose(kind, chain(values))
    raise t.error(None, f"argument '{name}' has no type that a function of the language takes: {kind!r}")


__all__ = [
    "MISSING",
    "NAMES",
    "OPERATORS",
    "ArrayRef",
    "Builtin",
    "Fields",
    "Function",
    "Mismatch",
    "Parameter",
    "Parts",
    "Place",
    "Tracer",
    "Undefined",
    "builtin",
    "describe",
    "flatten",
    "func",
    "register",
    "resolve_annotations",
    "signature",
    "trace_function",
    "trace_kernel",
    "traced",
    "type_of",
    "whole",
]
