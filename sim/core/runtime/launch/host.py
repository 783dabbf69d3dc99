"""Functions of the language called outside of a kernel (`sim.quat_from_axis_angle(axis, 0.3)`): by the interpreter.

For set-up code: a call costs a fraction of a millisecond or more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.core.backends.interp import evaluate
from sim.core.lang.errors import KernelError
from sim.core.lang.frontend.function import Function, provide_host
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.ir.inline import inline
from sim.core.lang.ir.table import OPS
from sim.core.lang.types import (
    CompositeType,
    Homogeneous,
    Scalar,
    Type,
    bool_,
    float32,
    float64,
    int32,
    type_of_value,
)


def _type_of(value: Any) -> Type:
    kind = type_of_value(value, float32)
    if kind is not None:
        return kind
    raise KernelError(
        f"{type(value).__name__} cannot be given to a function of the kernel language",
        hint="pass numbers, sim.vec3(...), sim.mat33(...)",
    )


def _leaves(value: Any, kind: Type) -> list[Any]:
    if isinstance(kind, Homogeneous):
        return [kind.dtype.np.type(x) for x in np.ravel(value.data)]
    assert isinstance(kind, Scalar)
    return [kind.np.type(value)]


def _host_value(kind: Type, values: list[Any]) -> Any:
    if isinstance(kind, CompositeType):
        return kind(*[values.pop(0) for _ in kind.leaves])
    value = values.pop(0)
    return value.item() if kind in (float32, float64, int32, bool_) else value


class Interpreter:
    """Evaluates functions and primitives of the language for values of the host."""

    def function(self, function: Function, args: tuple[Any, ...]) -> Any:
        """Evaluate a function for host values: numbers are float32 or int32, as in a kernel."""
        kinds = [_type_of(a) for a in args]
        doubles = any(isinstance(k, Homogeneous) and k.dtype is float64 for k in kinds)
        kinds = [float64 if doubles and k is float32 else k for k in kinds]
        traced = inline(trace_function(function, kinds, real=float64 if doubles else float32))
        flat = [x for a, k in zip(args, kinds, strict=True) for x in _leaves(a, k)]
        results = list(evaluate(traced, *flat))
        kind = traced.attrs["result"]
        return tuple(_host_value(k, results) for k in kind) if isinstance(kind, tuple) else _host_value(kind, results)

    def primitive(self, name: str, args: tuple[Any, ...]) -> Any:
        """A primitive on host numbers, by its meaning in the op table."""
        kinds = [_type_of(a) for a in args]
        floats = [float32 if k is int32 and any(t in (float32, float64) for t in kinds) else k for k in kinds]
        exact = [k.np.type(a) for a, k in zip(args, floats, strict=True)]  # type: ignore[attr-defined]
        return np.asarray(OPS[name].numpy(*exact)).item()


provide_host(Interpreter())
