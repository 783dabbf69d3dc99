"""Calls that stay calls, because the derivative of the function is given in closed form."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from sim.core.lang.errors import KernelError
from sim.core.lang.frontend.captures import remembered
from sim.core.lang.frontend.custom import GradientFunction, adjoint_name
from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.source import own_module
from sim.core.lang.frontend.traced import ArrayRef, Keywords, StructValue, TracedValue, describe, flatten, type_of
from sim.core.lang.frontend.tracing.bodies import (
    bind_arguments,
    parameter_value,
    run_body,
    trace_effects,
    trace_function,
)
from sim.core.lang.frontend.tracing.context import Context, Frame, Syntax
from sim.core.lang.ir.clone import rebuild
from sim.core.lang.ir.core import Func, Op, Value, split_memory, walk
from sim.core.lang.ir.inline import inline_call, without_rule
from sim.core.lang.memoize import compiling
from sim.core.lang.references import RowReference, row_reference
from sim.core.lang.types import ArrayType, Scalar, Struct, Type, has_float, leaves_of, scalar_of


def call_closed_form(t: Context, function: Function, values: Keywords, node: ast.AST) -> TracedValue:
    """A call that stays one, because its derivative is given in closed form."""
    if any(p.by_reference and not isinstance(values[p.name], ArrayRef) for p in function.parameters(t.real)):
        raise t.error(node, f"`{function.name}` has a derivative in closed form: it cannot change its arguments")
    real = next((s for v in values.values() if (s := _float_of(v)) is not None), t.real)
    typed: list[Any] = []
    kinds: list[Any] = []
    for name, x in values.items():
        ty = _argument_type(t, function, name, x, real, node)
        kinds.append(ty)
        typed += (
            _operands(x)
            if isinstance(x, ArrayRef | StructValue)
            else flatten(
                t.as_value(x, ty, node)
                if isinstance(ty, Scalar)
                else (
                    tuple(t.as_value(v, k, node) if isinstance(k, Scalar) else v for v, k in zip(x, ty, strict=True))
                    if isinstance(ty, tuple)
                    else x
                )
            )
        )
    try:
        entry = remembered(
            function.traces, ("closed form", *kinds, t.real), lambda: ClosedForm(t.syntax, function, kinds, t.real)
        )
        entry.look_at_rule()
    except KernelError as problem:
        raise _inside(t, function, problem, node) from None
    t.captures.include(entry.captures)
    callee = entry.callee
    made = inline_call(t.b, callee, typed) if entry.writes else []
    t.at(node)
    attrs: dict[str, Any] = {"callee": callee, "vjp": entry.vjp}
    op = Op("rule" if entry.writes else "call", [*typed, *made], [Value(v.type) for v in callee.body.yields], attrs)
    if entry.separator is not None:
        op.attrs["separated"] = entry.separated
    results = iter(t.b.append(op).results)
    result = callee.attrs["result"]
    if isinstance(result, tuple):
        return tuple(t.compose(ty, results) for ty in result)
    return None if result is None else t.compose(result, results)


def _operands(x: TracedValue) -> list[Value]:
    """An argument as operands: of a struct, those of its fields."""
    if isinstance(x, StructValue):
        return [v for part in x.values.values() for v in _operands(part)]
    return [x.array, *x.index] if isinstance(x, ArrayRef) else flatten(x)  # type: ignore[list-item]


def _is_whole(x: TracedValue) -> bool:
    """Whether an array is a parameter as it is, and so are all in a struct."""
    if isinstance(x, StructValue):
        kinds = x.type.fields.items()
        return all(_is_whole(x.values[key]) for key, kind in kinds if isinstance(kind, ArrayType | Struct))
    return isinstance(x, ArrayRef) and isinstance(x.array, Value) and not x.index


def _is_row(x: TracedValue) -> bool:
    """Whether it is what stands in a parameter at some first indices."""
    return isinstance(x, ArrayRef) and isinstance(x.array, Value) and all(isinstance(k, Value) for k in x.index)


def _inside(t: Context, function: Function, problem: KernelError, node: ast.AST) -> KernelError:
    """An error in the body of a called function, with the call that led there."""
    if function.internal:
        return t.error(node, f"in `{function.name}`: {problem.what}", problem.hint)
    call = f"called from `{t.frame.function.name}` at {t.frame.function.source.span(node)}"
    return KernelError(f"{problem.what} ({call})", problem.span, problem.hint)


def _argument_type(t: Context, function: Function, name: str, x: TracedValue, real: Scalar, node: ast.AST) -> Any:
    if isinstance(x, tuple):
        return tuple(_argument_type(t, function, name, v, real, node) for v in x)
    ty = type_of(x, real)
    has_arrays = isinstance(ty, ArrayType) or (isinstance(ty, Struct) and ty.has_arrays)
    by_rule = isinstance(function.adjoint, GradientFunction)
    if isinstance(x, ArrayRef) and x.index and by_rule and _is_row(x):
        return row_reference(x.array.type, len(x.index))  # type: ignore[arg-type]
    if ty is None or (has_arrays and not (by_rule and _is_whole(x))):
        raise t.error(
            node,
            f"`{function.name}` has a derivative in closed form: its argument '{name}' cannot be {describe(x)}",
            "it takes scalars, vectors, matrices and structs of them; with @sim.func_grad also arrays, their rows x[i],"
            " and structs with whole arrays",
        )
    return ty


def _float_of(x: TracedValue) -> Scalar | None:
    ty = type_of(x)
    scalar = scalar_of(ty) if isinstance(ty, Type) and not isinstance(ty, ArrayType) else None
    return scalar if scalar is not None and scalar.is_float else None


class ClosedForm:
    """A function with a derivative in closed form, for given argument types.

    A derivative of the user is traced with the function, since what it reads of Python may be something else when a
    gradient asks for it.
    """

    def __init__(self, syntax: Syntax, function: Function, kinds: Sequence[Any], real: Scalar) -> None:
        self.syntax, self.function, self.kinds, self.real = syntax, function, kinds, real
        self.adjoint, self.separator = function.adjoint, function.separator
        self.callee = rebuild(trace_effects(syntax, function, kinds, real), lambda _, op, env: without_rule(op, env))
        self.captures = self.callee.captures
        self.writes = self._mark_writes()
        if self.callee.attrs["result"] is None and not self.writes:
            raise KernelError(f"`{function.name}` returns nothing", self.callee.span, "add a `return`")
        self._vjp: Func | KernelError | None = None
        self._separated: Func | None = None
        self._looked_at = own_module(function.__module__)

    def _mark_writes(self) -> bool:
        """Whether the function writes to arrays; what it writes, its rule goes back through."""
        writes = [op for op in walk(self.callee.body) if op.row.writes]
        for op in writes:
            if not isinstance(self.adjoint, GradientFunction):
                raise KernelError(
                    f"`{self.function.name}` has a derivative in closed form, and writes to '{op.operands[0].name}'",
                    op.span,
                    "return the value, or give the derivative by @sim.func_grad",
                )
            if op.name == "atomic" and any(v.type.is_float for v in split_memory(op).values):  # type: ignore[attr-defined]
                raise KernelError(
                    f"`{self.function.name}` has a derivative in closed form, and uses atomic_{op.how} on"
                    f" '{op.operands[0].name}'",
                    op.span,
                    "it can store and add to arrays",
                )
            op.attrs["by_rule"] = self.callee
        return bool(writes)

    def look_at_rule(self) -> None:
        """Captures what the derivative reads too.  Not before the function is known: the derivative may call it."""
        with compiling:
            if self._looked_at:
                return
            self._looked_at = True
            try:
                self.captures.include(self.vjp().captures)
            except KernelError as problem:
                self._vjp = problem

    def separated(self) -> Func:
        """Parameters: results; yields the results moved apart."""
        if self._separated is None:
            assert self.separator is not None
            self._separated = trace_function(self.syntax, self.separator, list(self.callee.attrs["result"]), self.real)
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
        results = result if isinstance(result, tuple) else () if result is None else (result,)
        floats = [k for k in results if has_float(k)]
        assert self.adjoint is not None
        if isinstance(self.adjoint, GradientFunction):
            return _trace_gradient(self.syntax, self.adjoint, self.callee, self.kinds, floats, self.real)
        traced = trace_function(self.syntax, self.adjoint, [*self.kinds, *results, *floats], self.real)
        wanted = [
            leaf.scalar
            for ty in self.kinds
            for k in (ty if isinstance(ty, tuple) else (ty,))
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
    syntax: Syntax, function: GradientFunction, callee: Func, kinds: Sequence[Any], floats: Sequence[Any], real: Scalar
) -> Func:
    """What a `@func_grad` says, in the form of `ClosedForm.vjp`: `kinds` of the arguments, `floats` of the cotangents.

    Behind its parameters stand the gradients of the array arguments, to which it adds.
    """
    t = Context(syntax, real)
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
    args = [parameter_value(t, name, ty) for name, ty in zip(names, [*kinds, *floats], strict=True)]
    sought = [(name, ty) for name, ty in zip(names, kinds, strict=False) if _has_cotangent(ty)]
    gradients: list[Value] = []
    with t.b:
        frame.env.update(bind_arguments(t, function, args, {}, node))
        frame.env.update((adjoint_name(n), _cotangent(t, f"adj_{n}", ty, frame.env[n], gradients)) for n, ty in sought)
        t.block.params += gradients
        if run_body(t, frame) is not None:
            raise t.error(node, f"`{function.name}` returns a value", "add to adjoint[x] instead")
        made = [flatten(t.fit(frame.env[adjoint_name(n)], ty)) for n, ty in sought if not isinstance(ty, _ARRAYS)]
        values = [v for leaves in made for v in leaves if v.type.is_float]  # type: ignore[attr-defined]
    count = len(callee.params)
    t.block.params[count:count] = [Value(v.type, "result") for v in callee.body.yields]
    out = t.finish(function.name, function.source.span(node), values)
    written = {op.operands[0] for op in walk(callee.body) if op.row.writes}
    arrays = [p for p in callee.params if isinstance(p.type, ArrayType)]
    theirs = {g for p, g in zip(arrays, gradients, strict=True) if p in written}
    _check_accesses(function, out, set(gradients), theirs)
    _check_scratch(function, out, out.params[:count])
    return out


_ARRAYS = (ArrayType, RowReference)


def _has_cotangent(ty: Any) -> bool:
    """Whether `adjoint[x]` means something for an argument of this type."""
    if isinstance(ty, _ARRAYS) or (isinstance(ty, Struct) and ty.has_arrays):
        return True
    return isinstance(ty, Type) and has_float(ty)


def _cotangent(t: Context, name: str, ty: Type, x: TracedValue, gradients: list[Value]) -> TracedValue:
    """What `adjoint[x]` is at first: zero; of an array its gradient, a parameter more."""
    if isinstance(ty, _ARRAYS):
        gradients.append(Value(ty if isinstance(ty, ArrayType) else ty.array, name))
        return ArrayRef(gradients[-1], x.index)
    if isinstance(ty, Struct):
        parts = ((key, kind, x.values[key]) for key, kind in ty.fields.items())
        return StructValue(
            ty, {key: _cotangent(t, f"{name}.{key}", kind, part, gradients) for key, kind, part in parts}
        )
    return t.zero(ty)


def _check_accesses(function: GradientFunction, rule: Func, gradients: set[Value], written: set[Value]) -> None:
    """A gradient function adds to gradients; those of what its function has `written` it may read and overwrite too."""
    used = {v for op in walk(rule.body) for v in op.operands} | set(rule.body.yields)
    for op in walk(rule.body):
        if op.name not in ("load", "store", "accum", "atomic") or op.operands[0] not in gradients:
            continue
        adds = op.name == "accum" or (
            op.name == "atomic" and op.how == "add" and not any(r in used for r in op.results)
        )
        if not adds and (op.name == "atomic" or op.operands[0] not in written):
            what = (
                f"`{function.name}` can add to the adjoint[...] of array arguments, and read and overwrite that of"
                " arrays which its function writes; this is something else"
            )
            raise KernelError(what, op.span, "write adjoint[x][i] += ...")


def _check_scratch(function: GradientFunction, rule: Func, arguments: Sequence[Value]) -> None:
    """What a gradient function stores to `arguments` is scratch memory: what was there before is not looked at.

    Who looks first and stores afterwards means an argument, which would be another one the next time.
    """
    scratch = {op.operands[0] for op in walk(rule.body) if op.row.writes and op.operands[0] in arguments}
    for op in walk(rule.body):
        if op.name == "store":
            scratch.discard(op.operands[0])
        elif op.row.loads and op.operands[0] in scratch:
            raise KernelError(
                f"`{function.name}` looks at '{op.operands[0].name}' before it has stored anything there, and changes"
                " it",
                op.span,
                "what a gradient function stores to is scratch memory: take another array",
            )
