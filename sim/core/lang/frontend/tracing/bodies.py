"""Functions traced: arguments bound to parameters, the body executed, the operations finished as a `Func`."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

from sim.core.lang.errors import KernelError, did_you_mean
from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.source import KernelParameter
from sim.core.lang.frontend.traced import (
    ArrayRef,
    Keywords,
    LValue,
    Members,
    StructValue,
    TracedValue,
    Undefined,
    describe,
    flatten,
    is_number,
    type_of,
)
from sim.core.lang.frontend.tracing.context import FLAGS, VALUE, Context, Frame, Syntax
from sim.core.lang.frontend.tracing.hidden import hidden_parameters
from sim.core.lang.frontend.tracing.views import seen_through_indices
from sim.core.lang.ir.core import Func, Value
from sim.core.lang.references import IndexedReference, Reference, RowReference, StructOfReferences
from sim.core.lang.types import ArrayType, CompositeType, Scalar, Struct, Type, int32

Arguments = Sequence[Type | tuple[Type, ...]]


def bind_arguments(
    t: Context, function: Function, args: Sequence[TracedValue], kwargs: Keywords, node: ast.AST
) -> Keywords:
    """Arguments by parameter name, converted to the annotated types."""
    given = match_arguments(t, function, args, kwargs, node)
    return {p.name: _fitted(t, function, p, given[p.name], node) for p in function.parameters(t.real)}


def _fitted(t: Context, function: Function, p: KernelParameter, value: TracedValue, node: ast.AST) -> TracedValue:
    value = t.load(value)
    if p.type is None:
        return value
    return t.fit_or_error(value, p.type, f"argument '{p.name}' of `{function.name}`", node)


def match_arguments(
    t: Context, function: Function, args: Sequence[TracedValue], kwargs: Keywords, node: ast.AST
) -> Keywords:
    """Arguments by parameter name, defaults filled in."""
    parameters = function.parameters(t.real)
    names = [p.name for p in parameters]
    if len(args) > len(parameters):
        hint = f"; it returns its results: write ... = {function.name}({', '.join(names)})" if function.internal else ""
        raise t.error(
            node,
            f"`{function.name}` takes {_arguments(len(parameters))}, got {len(args)}",
            f"its parameters: {', '.join(names) or 'none'}{hint}",
        )
    given = dict(zip(names, args, strict=False))
    for key, value in kwargs.items():
        if key not in names:
            raise t.error(
                node,
                f"`{function.name}` has no parameter '{key}'{did_you_mean(key, names)}",
                f"its parameters: {', '.join(names) or 'none'}",
            )
        if key in given:
            raise t.error(node, f"`{function.name}` got '{key}' twice")
        given[key] = value
    for p in parameters:
        if p.name not in given and p.required:
            raise t.error(
                node, f"`{function.name}` needs a value for '{p.name}'", f"its parameters: {', '.join(names)}"
            )
        if p.name not in given:
            given[p.name] = t.static(p.default, p.name, node)
    return given


def run_body(t: Context, frame: Frame) -> TracedValue:
    """Traces the body of the innermost frame; its result."""
    t.execute(frame.function.source.node.body)
    result, returned = frame.env[VALUE], frame.env[FLAGS[0]]
    if isinstance(result, Undefined):
        return None
    if returned is not True and result is not None:
        raise t.error(
            frame.function.source.node,
            f"`{frame.function.name}` does not return a value on every path",
            "add a `return` at the end",
        )
    if not (t.is_kernel and len(t.frames) == 1):
        _check_result(t, frame.function, result)
    return result


def _check_result(t: Context, function: Function, result: TracedValue) -> None:
    """A result that is not what the function's annotation promises is an error."""
    wanted = function.annotated_result(t.real)
    if wanted is None or _is_as_annotated(t, result, wanted):
        return
    node = function.source.node.returns or function.source.node
    spelled = f"`{re.sub(r'([A-Za-z_]+[.])+', '', ast.unparse(node))}`"
    found = f"a value of type `{type_of(result, t.real) or describe(result)}`"
    if isinstance(result, tuple):
        found = f"a tuple with types `({', '.join(str(type_of(r, t.real) or describe(r)) for r in result)})`"
        if not isinstance(wanted, tuple) or len(wanted) != len(result):
            found = f"{len(result)} values"
            spelled = f"a tuple of {len(wanted)} elements" if isinstance(wanted, tuple) else spelled
    what = f"The function `{function.name}` has its return type annotated as {spelled} but the code returns {found}."
    raise t.error(node, what, "convert what it returns, or annotate what it is")


def _is_as_annotated(t: Context, x: TracedValue, wanted: Type | tuple[Type | None, ...] | None) -> bool:
    if wanted is None:
        return True
    if isinstance(wanted, tuple) or isinstance(x, tuple):
        parts = wanted if isinstance(wanted, tuple) else ()
        same_count = isinstance(x, tuple) and len(x) == len(parts)
        return same_count and all(_is_as_annotated(t, a, b) for a, b in zip(x, parts, strict=True))
    if is_number(x) and isinstance(wanted, Scalar):
        return isinstance(x, bool) == (wanted.kind == "b") and (wanted.is_float or not isinstance(x, float))
    if isinstance(x, ArrayRef) and isinstance(wanted, ArrayType):
        return x.ndim == wanted.ndim and wanted.dtype in (Any, x.dtype)
    return type_of(x, t.real) is wanted


def _listed(kind: Type | tuple[Type, ...]) -> str:
    return f"({', '.join(map(str, kind))})" if isinstance(kind, tuple) else str(kind)


def _arguments(n: int) -> str:
    return f"{n} argument{'s' if n != 1 else ''}"


def trace_function(syntax: Syntax, function: Function, arg_types: Arguments, real: Scalar) -> Func:
    """A pure function for these argument types: scalars in, scalars out; see `trace_effects`."""
    out = trace_effects(syntax, function, arg_types, real)
    if out.attrs["result"] is None:
        raise KernelError(f"`{function.name}` returns nothing", out.span, "add a `return`")
    return out


def trace_effects(syntax: Syntax, function: Function, arg_types: Arguments, real: Scalar) -> Func:
    """A function for these argument types, which may write to arrays, and return nothing.

    Composite arguments become one parameter per leaf (`v.0`, `v.1`, ...; a tuple of types: `x.0.0`, ...), results one
    yield per leaf; `attrs["result"]` is the type of the result, a tuple of types, or None.  `real`: what `float` means.
    """
    t = Context(syntax, real)
    t.captures.rule(function)
    frame = Frame(function, None, (function, *map(str, arg_types)))
    t.frames.append(frame)
    names = [p.name for p in function.parameters(real)]
    if len(arg_types) > len(names):
        raise t.error(None, f"`{function.name}` takes {len(names)} arguments, got {len(arg_types)} types")
    args = [parameter_value(t, name, ty) for name, ty in zip(names, arg_types, strict=False)]
    with t.b:
        frame.env.update(bind_arguments(t, function, args, {}, function.source.node))
        result = run_body(t, frame)
        value, ty = ((), None) if result is None else result_of(t, function.name, result)
    out = t.finish(function.name, function.source.span(function.source.node), flatten(value))
    out.attrs["result"] = ty
    return out


def result_of(t: Context, name: str, result: TracedValue) -> tuple[TracedValue, TracedValue]:
    """The result with weak numbers made values, and its type or tuple of types."""
    if result is None:
        raise t.error(None, f"`{name}` returns nothing", "add a `return`")
    if isinstance(result, tuple):
        both = [result_of(t, name, r) for r in result]
        return tuple(v for v, _ in both), tuple(k for _, k in both)
    if is_number(result):
        result = t.as_value(result)
    ty = type_of(result)
    if not isinstance(ty, (Scalar, CompositeType)):
        raise t.error(None, f"`{name}` returns {describe(result)}", "return numbers, vectors, matrices or structs")
    return result, ty


def trace_kernel(
    syntax: Syntax,
    function: Function,
    arg_types: Sequence[Type],
    name: str | None,
    real: Scalar,
    dims: int = 1,
    may_be_negative: bool = False,
) -> Func:
    """A kernel for these argument types, in launches of so many dimensions (or as many as `tid()` asks for).

    may_be_negative: else integers that it is given are taken not to be, where indices are made of them.

    Parameters: a scalar takes one, an array or a `Reference` one array, a struct its leaves and arrays in field order
    (`s.mass`, `s.x.0`).
    `attrs["signature"]` = [(argument, type, first parameter, number of parameters), ...]; `dims` as `tid()` asks for;
    `attrs["hidden"]`: parameters behind those, which the runtime fills in; `attrs["not_negative"]`: numbers of those
    that it was needed of.
    """
    t = Context(syntax, real)
    t.dims = dims
    t.is_kernel = True
    frame = Frame(function, None, (function, *map(str, arg_types)))
    t.frames.append(frame)
    node = function.source.node
    names = [p.name for p in function.parameters(real)]
    if len(arg_types) != len(names):
        raise t.error(node, f"kernel `{function.name}` takes {len(names)} arguments, got {len(arg_types)}")
    layout = []
    with t.b:
        changed = next((p.name for p in function.parameters(real) if p.by_reference), None)
        if changed is not None:
            raise t.error(node, f"kernel `{function.name}` has a parameter ref[...], '{changed}'", "pass an array")
        promised = function.annotated_result(real)
        if promised is not None:
            what = f"kernel `{function.name}` is annotated to return {_listed(promised)}, and kernels return nothing"
            raise t.error(node.returns or node, what, "write to an array")
        for key, ty in zip(names, arg_types, strict=True):
            first = len(t.block.params)
            frame.env[key] = parameter_value(t, key, ty)
            layout.append((key, ty, first, len(t.block.params) - first))
        if not may_be_negative:
            t.lower_bounds.parameters |= {
                p for p in t.block.params if isinstance(p.type, Scalar) and p.type.kind == "i"
            }
        t.at(node)
        if run_body(t, frame) is not None:
            raise t.error(node, f"kernel `{function.name}` returns a value", "write it to an array")
    out = t.finish(name or function.name, function.source.span(node), ())
    out.attrs["signature"], out.attrs["hidden"] = layout, hidden_parameters(t)
    out.attrs["by_address"] = tuple(t.by_address)
    out.attrs["not_negative"] = tuple(k for k, p in enumerate(out.params) if p in t.lower_bounds.relied_on)
    return out


def parameter_value(t: Context, name: str, ty: TracedValue) -> TracedValue:
    """The traced value of an argument, with its parameters added to the function."""
    if isinstance(ty, tuple):
        parts = tuple(parameter_value(t, f"{name}.{k}", part) for k, part in enumerate(ty))
        return Members(parts, ty.what) if isinstance(ty, Members) else parts
    if isinstance(ty, (Scalar, ArrayType)):
        if isinstance(ty, ArrayType) and ty.dtype is Any:
            raise t.error(None, f"argument '{name}': an array of anything needs the type of its elements here")
        value = Value(ty, name)
        t.block.params.append(value)
        return ArrayRef(value) if isinstance(ty, ArrayType) else value
    if isinstance(ty, Reference):
        value = Value(ty.array, name)
        t.block.params.append(value)
        return t.load(LValue(value, (t.b.const(0, int32),), ty.value))
    if isinstance(ty, IndexedReference):
        return seen_through_indices(t, name, ty)
    if isinstance(ty, RowReference):
        array, *indices = Value(ty.array, name), *(Value(int32, f"{name}_{k}") for k in range(ty.indices))
        t.block.params += [array, *indices]
        return ArrayRef(array, tuple(indices))
    if isinstance(ty, StructOfReferences):
        return StructValue(
            ty.struct, {key: parameter_value(t, f"{name}.{key}", part) for key, part in ty.fields.items()}
        )
    if isinstance(ty, Struct):
        return StructValue(ty, {key: parameter_value(t, f"{name}.{key}", part) for key, part in ty.fields.items()})
    if isinstance(ty, CompositeType):
        values = [Value(leaf.scalar, f"{name}.{leaf.path}") for leaf in ty.leaves]
        t.block.params.extend(values)
        return t.compose(ty, chain(values))
    raise t.error(None, f"argument '{name}' has no type that a function of the language takes: {ty!r}")
