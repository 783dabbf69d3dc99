"""Overloads: generic kernels for given types."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sim.core.lang.errors import KernelError, did_you_mean, entry_point
from sim.core.lang.frontend.function import local_annotations
from sim.core.lang.frontend.source import FunctionSource, caller_locals
from sim.core.runtime.launch.kernel import Kernel
from sim.core.runtime.launch.module import get_module


@entry_point
def overload(kernel: Kernel | Callable[..., Any], arg_types: Sequence[Any] | Mapping[str, Any] | None = None) -> Kernel:
    """A generic kernel for given types: `overload(k, [sim.array[float], float])`, or by name for the generic ones,
    `overload(k, {"value": float})`.

    Decorator of a function without a body: the kernel of that name gets an overload with the types that it declares.
    A launch of the generic kernel needs none; an overload converts the numbers that it is launched with.
    """
    if isinstance(kernel, Kernel):
        if isinstance(arg_types, Mapping):
            names = [p.name for p in kernel.parameters]
            for key in arg_types:
                if key not in names:
                    raise KernelError(f"kernel '{kernel.name}' has no argument '{key}'{did_you_mean(key, names)}")
            arg_types = [arg_types.get(p.name, p.type) for p in kernel.parameters]
        return kernel.add_overload(arg_types or ())
    if not callable(kernel):
        raise TypeError(f"overload takes a kernel or decorates a function, got {kernel!r}")
    return _overload_as_declared(kernel, local_annotations(kernel, caller_locals(2)))


def _overload_as_declared(stub: Callable[..., Any], annotations: dict[str, Any] | None) -> Kernel:
    kernels: Iterable[Kernel] = get_module(stub.__module__).kernels.values()
    known = [k for k in kernels if k.func.__qualname__ == stub.__qualname__]
    source = FunctionSource(stub)
    span = source.span(source.node)
    if len(known) != 1:
        found = "no kernel" if not known else "more than one kernel"
        raise KernelError(
            f"there is {found} `{stub.__name__}` to overload", span, "write sim.overload(kernel, [types])"
        )
    if not all(isinstance(part, ast.Pass) or _is_constant(part) for part in source.node.body):
        raise KernelError(f"an overload of `{stub.__name__}` has a body", span, "write `...`: it gives types only")
    given = stub.__annotations__ if annotations is None else annotations
    if given.get("return") not in (None, type(None)):
        raise KernelError(f"an overload of `{stub.__name__}` returns something", span, "kernels write to arrays")
    known[0].add_overload([kind for key, kind in given.items() if key != "return"])
    return known[0]


def _is_constant(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
