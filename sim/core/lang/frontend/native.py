"""Functions written in C++ or CUDA, which the language does not have: refused where one is called."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from sim.core.lang.frontend.traced import Keywords, Positional
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.frontend.tracing.registry import Builtin


def func_native(
    snippet: str, adj_snippet: str | None = None, replay_snippet: str | None = None
) -> Callable[[Callable[..., Any]], Builtin]:
    """Decorator of Warp for functions written in C++ or CUDA.  Not supported: a kernel that calls one is refused, and
    the others of the module run."""

    def wrap(f: Callable[..., Any]) -> Builtin:
        def refuse(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> None:
            what = f"`{f.__name__}` is a native snippet: C++ and CUDA are not supported"
            raise t.error(node, what, "write it with @sim.func")

        return Builtin(f.__name__, refuse, f.__doc__ or "")

    return wrap
