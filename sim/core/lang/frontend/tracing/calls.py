"""Calls inside of kernels: what a name that is called stands for, overloads, recursion."""

from __future__ import annotations

import ast
import builtins as python_builtins
import enum
import types as python_types
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.core.lang import types as language_types
from sim.core.lang.errors import KernelError, did_you_mean
from sim.core.lang.frontend.elsewhere import NUMPY, PYTHON, instead
from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.traced import (
    Keywords,
    LValue,
    Positional,
    TracedValue,
    describe,
    is_number,
    is_traced,
    same,
    type_of,
)
from sim.core.lang.frontend.tracing.argument_forms import check_forms
from sim.core.lang.frontend.tracing.assignments import assign
from sim.core.lang.frontend.tracing.bodies import bind_arguments, match_arguments, run_body
from sim.core.lang.frontend.tracing.closed_form import call_closed_form
from sim.core.lang.frontend.tracing.construct import construct
from sim.core.lang.frontend.tracing.context import Context, Frame
from sim.core.lang.frontend.tracing.registry import HOST_FUNCTIONS, NAMES, Builtin, in_order
from sim.core.lang.types import SCALARS, ArrayType, Type, bool_, int32

_DEEPEST = 48


_PYTHON_TYPES: dict[Any, Type] = {int: int32, bool: bool_}


_TYPE_MAKERS = (language_types.vector, language_types.matrix, language_types.quaternion, language_types.transformation)


_RENAMED = {"asin": "asin_unclamped", "acos": "acos_unclamped"}  # until the library registers its clamped ones


_ALSO_NUMPY = frozenset(
    (
        *("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log", "log2", "log10", "sqrt", "cbrt", "floor", "ceil"),
        *("trunc", "absolute", "degrees", "radians", "isnan", "isinf", "isfinite", "dot", "cross", "outer", "trace"),
    )
)
"""Functions of NumPy that mean the same for numbers, vectors and matrices of the language as its own of that name."""


def callee_of(t: Context, x: TracedValue, node: ast.Call) -> TracedValue:
    """What a call calls: a function of the language, a builtin, a type, or a maker of types."""
    if isinstance(x, (Function, Builtin, Type, enum.EnumMeta)):
        return x
    if isinstance(x, python_types.FunctionType) and x in _TYPE_MAKERS:
        return NAMES[x.__name__]  # with components it makes a value
    if x is float:
        return t.real
    if isinstance(x, type) and x in _PYTHON_TYPES:
        return _PYTHON_TYPES[x]
    if is_traced(x) or isinstance(x, (LValue, tuple)) or is_number(x) or x is None:
        raise t.error(node, f"{describe(x)} cannot be called")
    name = getattr(x, "__name__", "")
    module = getattr(x, "__module__", None) or ""
    if module == "math" or getattr(python_builtins, name, None) is x:
        found = NAMES.get(name) or NAMES.get(_RENAMED.get(name, ""))
        if found is not None:
            return found
    own_kind = _of_numpy(x)
    if own_kind is not None:
        return own_kind
    shown = (
        f"{module}.{name}"
        if module and name and module not in ("builtins", t.frame.function.python.__module__)
        else name or describe(x)
    )
    if (
        module.split(".")[0] == "numpy"
        or type(x).__module__ == "numpy"
        or type(getattr(x, "__self__", None)).__module__.startswith("numpy")
    ):
        known = instead(NUMPY, name) or _as_ours(name) or "write it with functions of the language"
        raise t.error(
            node, f"`{module or 'numpy'}.{name}` is a NumPy function: it cannot run inside of a kernel", known
        )
    meaning = HOST_FUNCTIONS.get(x) if isinstance(x, (type, python_types.FunctionType)) else None
    if isinstance(meaning, Builtin):
        return meaning
    if meaning is not None:
        raise t.error(node, f"`sim.{name}` {meaning.what}: it cannot run inside of a kernel", meaning.hint)
    own = instead({**NUMPY, **PYTHON}, name) if module in ("math", "builtins") else ""
    if isinstance(x, python_types.FunctionType):
        hint = "decorate it with @sim.func"
    else:
        hint = (
            own
            or _as_ours(name)
            or "call it outside, and pass the result as an argument" + (did_you_mean(name, NAMES) if name else "")
        )
    raise t.error(node, f"`{shown}` is a Python function, not one of the kernel language", hint)


def _of_numpy(x: object) -> TracedValue:
    """The type, or the function, of the language that one of NumPy stands for in programs of Warp, if there is one."""
    if isinstance(x, type) and issubclass(x, np.generic):
        return next((kind for kind in SCALARS if kind.np.type is x), None)
    name = getattr(x, "__name__", "")
    if name in _ALSO_NUMPY and getattr(np, name, None) is x:
        return NAMES.get("abs" if name == "absolute" else name)
    return None


def apply(t: Context, target: TracedValue, args: Positional, kwargs: Keywords, node: ast.AST) -> TracedValue:
    """A call with evaluated arguments."""
    if isinstance(target, Builtin):
        return target.handler(t, node, *(in_order(target.name, args, kwargs) if kwargs else (args, kwargs)))
    if isinstance(target, Type):
        return construct(t, target, args, kwargs, node)
    if isinstance(target, Function):
        kwargs = {target.synonyms.get(key, key): x for key, x in kwargs.items()}
        own = len(target.parameters(t.real)) if target.outputs else 0
        if own and len(args) == own + target.outputs and isinstance(node, ast.Call):
            for place, result in zip(node.args[own:], call_function(t, target, args[:own], kwargs, node), strict=True):
                assign(t, place, result)
            return None
        return call_function(t, target, args, kwargs, node)
    try:
        return target(
            *(t.real if a is float else a for a in args), **{k: t.real if v is float else v for k, v in kwargs.items()}
        )
    except (TypeError, ValueError) as problem:
        raise t.error(node, f"{target.__name__}(...): {problem}") from None


def call_function(
    t: Context, function: Function, args: Sequence[TracedValue], kwargs: Keywords, node: ast.AST
) -> TracedValue:
    """A call of a function of the language: traced in place, or kept if its derivative is in closed form."""
    function, values = chosen(t, function, args, kwargs, node)
    if function.takes:
        check_forms(t, function, values, node)
    t.captures.rule(function)
    if function.adjoint is not None:
        return call_closed_form(t, function, values, node)
    key = (function, *map(describe, values.values()))
    if len(t.frames) > _DEEPEST or any(frame.key == key for frame in t.frames):
        raise t.error(node, f"`{function.name}` calls itself", "kernels cannot recurse: use a loop")
    frame = Frame(function, node, key)
    frame.env.update(values)
    caller = t.env
    t.share_local_arrays(caller, frame.env)
    t.frames.append(frame)
    try:
        result = run_body(t, frame)
        t.share_local_arrays(frame.env, caller)
    finally:
        t.frames.pop()
        t.at(node)
    _give_back(t, function, values, frame.env, node)
    return result


def _give_back(t: Context, function: Function, before: Keywords, after: Keywords, node: ast.AST) -> None:
    """What a function has assigned to its parameters `ref[...]` is assigned to the arguments."""
    for k, p in enumerate(function.parameters(t.real)):
        if not p.by_reference:
            continue
        target: ast.AST = node
        if isinstance(node, ast.Call) and not any(isinstance(a, ast.Starred) for a in node.args):
            named = {keyword.arg: keyword.value for keyword in node.keywords}
            target = node.args[k] if k < len(node.args) else named.get(p.name, node)
        if not isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)):
            what = f"`{function.name}` changes its argument '{p.name}': this cannot be assigned to"
            raise t.error(target, what, "pass a variable, a component, a field or an element of an array")
        if not same(before[p.name], after[p.name]):
            assign(t, target, after[p.name])


def chosen(
    t: Context, function: Function, args: Sequence[TracedValue], kwargs: Keywords, node: ast.AST
) -> tuple[Function, Keywords]:
    """The definition that fits these arguments best, of several the last, and the arguments by name."""
    if function.earlier is None:
        return function, bind_arguments(t, function, args, kwargs, node)
    best: tuple[tuple[int, int], Function, Keywords] | None = None
    candidate: Function | None = function
    while candidate is not None:
        try:
            bound = bind_arguments(t, candidate, args, kwargs, node)
            cost = _cost(t, candidate, match_arguments(t, candidate, args, kwargs, node))
            if best is None or cost < best[0]:
                best = cost, candidate, bound
        except KernelError:
            pass
        candidate = candidate.earlier
    if best is not None:
        return best[1:]
    given = ", ".join([*map(describe, args), *(f"{key}={describe(x)}" for key, x in kwargs.items())])
    raise t.error(
        node, f"no definition of `{function.name}` takes ({given})", "it is defined more than once, for other types"
    )


def _cost(t: Context, function: Function, given: Keywords) -> tuple[int, int]:
    """How far arguments are from what a definition asks for: numbers that it converts, parameters without a type."""
    converted = generic = 0
    for p in function.parameters(t.real):
        if p.type is None or (isinstance(p.type, ArrayType) and p.type.dtype is Any):
            generic += 1
        elif is_number(given[p.name]) and type_of(given[p.name], t.real) is not p.type:
            converted += 1
    return converted, generic


def _as_ours(name: str) -> str:
    """What to write, if the language has a function of this name."""
    return (
        ""
        if name not in NAMES
        else f"write {name}(...)"
        if hasattr(python_builtins, name)
        else f"write sim.{name}(...)"
    )
