"""Custom derivatives in Warp's spelling: `@func_grad(f)` with `adjoint[x] += ...`, and `@func_replay(f)`.

    @sim.func
    def safe_sqrt(x: float):
        return sim.sqrt(x)

    @sim.func_grad(safe_sqrt)
    def _(x: float, adj_ret: float):
        if x > 0.0:
            sim.adjoint[x] += adj_ret / (2.0 * sim.sqrt(x))

`Function.vjp` says the same with a function that returns the cotangents.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any

from sim.core.lang.errors import KernelError, entry_point
from sim.core.lang.frontend.function import Function, local_annotations
from sim.core.lang.frontend.source import MISSING, FunctionSource, caller_locals


class Adjoint:
    """`adjoint[x]` inside of a function made by `@func_grad`: the cotangent of the argument x."""

    def __getitem__(self, key: Any) -> Any:
        raise TypeError("adjoint[x] means something only inside of a function that @sim.func_grad(f) decorates")

    def __repr__(self) -> str:
        return "<adjoint of the kernel language>"


adjoint = Adjoint()


def adjoint_name(argument: str) -> str:
    """The variable with the cotangent of an argument in a traced gradient function: no name that Python allows."""
    return f"adjoint[{argument}]"


class GradientFunction(Function):
    """A function of the arguments of another one and of the cotangents of its results; it adds to `adjoint[x]`."""

    @cached_property
    def source(self) -> FunctionSource:
        source = copy.copy(FunctionSource(self.python))
        source.node = _Rewrite(self, source).visit(copy.deepcopy(source.node))
        return source


class _Rewrite(ast.NodeTransformer):
    """`adjoint[x]` becomes a plain variable, so that branches and loops treat it as one."""

    def __init__(self, function: Function, source: FunctionSource) -> None:
        self.function, self.source = function, source
        self.arguments = {a.arg for a in source.node.args.args}

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if self._static(node.value) is not adjoint:
            return self.generic_visit(node)
        key: ast.expr = node.slice
        while isinstance(key, ast.Attribute):
            key = key.value
        if not (isinstance(key, ast.Name) and key.id in self.arguments):
            known = ", ".join(f"adjoint[{a}]" for a in sorted(self.arguments))
            raise KernelError("adjoint[...] takes the name of an argument", self.source.span(node), f"one of {known}")
        return self._renamed(node.slice, node)

    def _renamed(self, key: ast.expr, node: ast.Subscript) -> ast.expr:
        if isinstance(key, ast.Attribute):  # adjoint[x.mass] is adjoint[x].mass
            return ast.copy_location(ast.Attribute(self._renamed(key.value, node), key.attr, node.ctx), node)
        assert isinstance(key, ast.Name)
        return ast.copy_location(ast.Name(adjoint_name(key.id), node.ctx), node)

    def _static(self, node: ast.expr) -> Any:
        """What a name, or an attribute of a module, stands for where the function is defined."""
        if isinstance(node, ast.Name):
            return self.function.scope.find(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._static(node.value)
            return MISSING if owner is MISSING else getattr(owner, node.attr, MISSING)
        return MISSING


@entry_point
def func_grad(f: Function) -> Callable[[Callable[..., Any]], Function]:
    """Decorator `@func_grad(f)`: the derivative of f, used instead of differentiating its body.

    The decorated function takes the arguments of f, then the cotangent of each floating result, and adds to
    `adjoint[x]` for each argument x with a derivative.  Also for functions without types (they are traced anew).

    Of arrays, whole ones, rows `x[i]` and those in structs, `adjoint[x]` is the gradient: it is added to; that of an
    array which f writes may be read and overwritten as well.  What f has written is read as f has left it.  An array
    argument that it stores to is scratch memory, for nothing else in the kernel.
    """
    _check(f, "func_grad")
    caller = caller_locals(2)

    @entry_point
    def wrap(g: Callable[..., Any]) -> Function:
        return f.differentiate_by(GradientFunction(g, annotations=local_annotations(g, caller)))

    return wrap


@entry_point
def func_replay(f: Function) -> Callable[[Callable[..., Any]], Function]:
    """Decorator `@func_replay(f)`: what gives the results of f again in a reverse sweep, for functions with side
    effects.

    Accepted so that programs written for Warp run.  It is not called: the forward launch itself keeps the values that
    the reverse sweep needs (the counts that `atomic_add` returned, for example), which is what a replay function is
    for.
    """
    _check(f, "func_replay")
    caller = caller_locals(2)

    @entry_point
    def wrap(g: Callable[..., Any]) -> Function:
        made = Function(g, annotations=local_annotations(g, caller))
        want, have = ([p.name for p in x.parameters()] for x in (f, made))
        if len(want) != len(have):
            span = made.source.span(made.source.node)
            raise KernelError(
                f"`{made.name}` takes {len(have)} arguments, `{f.name}` takes {len(want)}",
                span,
                "a replay function takes those of its function",
            )
        return made

    return wrap


def _check(f: Any, decorator: str) -> None:
    if not isinstance(f, Function):
        raise TypeError(
            f"@{decorator} takes a function of the kernel language, not {f!r}; write @{decorator}(f) with f made by"
            " @func"
        )
