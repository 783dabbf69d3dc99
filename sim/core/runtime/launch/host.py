"""Functions of the language called outside of a kernel (`sim.quat_from_axis_angle(axis, 0.3)`): by the interpreter.

Arrays on the CPU are read and written where they are, with every index checked.

For set-up code: the first call with arguments of some types traces, a fraction of a millisecond or more; those after it
evaluate what was traced.  Numbers of Python are as in a kernel: whole ones are constants, others take the precision of
the typed arguments beside them, or float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

from sim.core.backends.interp import evaluate
from sim.core.lang.errors import KernelError
from sim.core.lang.frontend.captures import remembered
from sim.core.lang.frontend.tracer import Known, ViewOf, trace_call
from sim.core.lang.frontend.tracing.registry import NAMES
from sim.core.lang.ir.core import Func
from sim.core.lang.ir.inline import inline
from sim.core.lang.types import (
    ArrayType,
    Composite,
    Homogeneous,
    HostNumber,
    HostStruct,
    Scalar,
    Struct,
    Type,
    array_type,
    float32,
    float64,
    provide_host,
    python_number,
    scalar_of,
    type_of_value,
)
from sim.core.runtime.arrays.arithmetic import ArrayOperators
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.mapping import map as over_elements

_TRACES = 4096
"""Calls that are remembered at most: constants are a part of what tells them apart."""


def _type_of(value: Any, real: Scalar) -> Type | None:
    """The type of an argument that may differ from call to call; None: of a constant of the call."""
    if isinstance(value, float) or isinstance(value, (Composite, HostNumber, np.generic)):
        return type_of_value(value, real)
    if isinstance(value, array) and value.device.is_cpu:
        return array_type(value.dtype, value.ndim)
    if hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"):
        raise KernelError(
            f"{type(value).__name__} cannot be given to a function of the kernel language",
            hint="pass numbers, sim.vec3(...), sim.mat33(...), arrays on the CPU",
        )
    return None


def _real(values: list[Any]) -> Scalar:
    """The precision of numbers of Python beside these values."""
    kinds = (scalar_of(v.type) for v in values if isinstance(v, (Composite, HostNumber)))
    return next((k for k in kinds if k is not None and k.is_float), float32)


def _leaves(value: Any, kind: Type) -> list[Any]:
    if isinstance(kind, Homogeneous):
        return list(value.data.ravel())
    if isinstance(kind, ArrayType):
        return [value.numpy()]
    assert isinstance(kind, Scalar)
    return [kind.np.type(value)]


def _part(of: array, parts: tuple[bool, ...], numbers: list[int]) -> array:
    """A view of an array as a call has computed it."""
    keys: list[int | slice] = []
    for k, ranged in enumerate(parts):
        start = int(numbers.pop(0))
        if not ranged:
            if start < 0:  # behind the front, after the length has been added
                raise IndexError(
                    f"index {start - of.shape[k]} is out of range for dimension {k} of length {of.shape[k]}"
                )
            keys.append(start)
            continue
        step, extent = int(numbers.pop(0)), int(numbers.pop(0))
        end = start + step * extent
        keys.append(slice(start, end if end >= 0 else None, step) if extent else slice(0, 0))
    made: array = of[tuple(keys)] if keys else of
    return made


def _host_value(kind: Any, values: list[Any]) -> Any:
    if isinstance(kind, tuple):
        return tuple(_host_value(k, values) for k in kind)
    if isinstance(kind, Homogeneous):
        return Composite(kind, [values.pop(0) for _ in kind.leaves])
    if isinstance(kind, Struct):
        return HostStruct(kind, **{key: _host_value(k, values) for key, k in kind.fields.items()})
    return None if kind is None else python_number(kind, values.pop(0))


class Interpreter:
    """Evaluates functions of the language for values of the host."""

    def __init__(self) -> None:
        self.traces: dict[Any, Func] = {}

    def call(self, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The result of a function, builtin or type."""
        values = [*args, *kwargs.values()]
        weak = _real(values)
        kinds = [_type_of(v, weak) for v in values]
        real = float64 if weak is float64 else float32
        # a value that a call may change is none to know a call by
        constants = [None if k is not None else v for v, k in zip(values, kinds, strict=True)]
        key = (target, real, *kinds, *kwargs, *map(type, constants), *constants)

        def trace() -> Func:
            constant = [Known(v) if isinstance(v, Type) else v for v in values]
            given = [v if k is None else k for v, k in zip(constant, kinds, strict=True)]
            named = dict(zip(kwargs, given[len(args) :], strict=True))
            return inline(trace_call(target, given[: len(args)], named, real))

        try:
            hash(key)
        except TypeError:
            func = trace()
        else:
            if len(self.traces) > _TRACES:
                self.traces.clear()
            func = remembered(self.traces, key, trace)
        flat = chain.from_iterable(_leaves(v, k) for v, k in zip(values, kinds, strict=True) if k is not None)
        result, numbers = func.attrs["result"], list(evaluate(func, *flat))
        if isinstance(result, ViewOf):
            return _part(values[result.argument], result.parts, numbers)
        return _host_value(result, numbers)

    def named(self, name: str, *args: Any, out: Any = None) -> Any:
        """`NAMES[name](*args)` as an operator: what it is not defined for is an error without a place."""
        try:
            if any(isinstance(x, ArrayOperators) for x in args):
                return over_elements(NAMES[name], *args, out=out)
            return self.call(NAMES[name], args, {})
        except KernelError as problem:
            raise KernelError(f"{problem.what}{'; ' + problem.hint if problem.hint else ''}") from None


provide_host(Interpreter())
