"""Runs functions of the language on NumPy values: through the front end, the adjoint and the reference interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.core.backends.interp import evaluate
from sim.core.lang import types as t
from sim.core.lang.autodiff.reverse import vjp
from sim.core.lang.frontend.function import func
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.ir.core import Func
from sim.core.lang.ir.inline import inline


def flat(values: Sequence[Any]) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(v)) for v in values]) if values else np.zeros(0)


def shaped(kind: Any, values: Sequence[Any]) -> list[np.ndarray]:
    """Flat results as arrays (numbers for scalars) of the shapes of a type or of a tuple of types."""
    out, at = [], 0
    for one in kind if isinstance(kind, tuple) else (kind,):
        count = len(t.leaves_of(one))
        part = np.array(values[at : at + count])
        out.append(part.reshape(one.shape) if isinstance(one, t.Homogeneous) else part[0])
        at += count
    assert at == len(values)
    return out


def is_real(kind: t.Type) -> bool:
    return isinstance(kind, t.Scalar) and kind.is_float


def calling(f: Any, count: int) -> Any:
    """A function that calls f with `count` arguments: f as users see it, with its derivative in closed form."""

    @func
    def one(a):
        return f(a)

    @func
    def two(a, b):
        return f(a, b)

    @func
    def three(a, b, c):
        return f(a, b, c)

    @func
    def four(a, b, c, d):
        return f(a, b, c, d)

    @func
    def five(a, b, c, d, e):
        return f(a, b, c, d, e)

    @func
    def six(a, b, c, d, e, g):
        return f(a, b, c, d, e, g)

    return (one, two, three, four, five, six)[count - 1]


class Traced:
    """A function at given argument types, with its first and second adjoint, on flat vectors."""

    def __init__(self, function: Any, kinds: Sequence[t.Type], real: t.Scalar = t.float64) -> None:
        self.func = trace_function(calling(function, len(kinds)), list(kinds), real=real)
        self.result = self.func.attrs["result"]
        self.value = inline(self.func)

    def call(self, args: Sequence[Any]) -> list[np.ndarray]:
        return shaped(self.result, evaluate(self.value, *flat_args(args)))


def flat_args(args: Sequence[Any]) -> list[Any]:
    return [x for a in args for x in (np.ravel(a) if isinstance(a, np.ndarray) else [a])]


def directional(
    function: Func, args: Sequence[Any], rng: np.random.Generator, step: float = 1e-5
) -> tuple[float, float]:
    """Slope of a random sum of the results along a random direction: (by the adjoint, by differences)."""
    value, adjoint = inline(function), inline(vjp(function))
    real = [k for k, p in enumerate(function.params) if is_real(p.type)]
    outputs = [k for k, y in enumerate(function.body.yields) if is_real(y.type)]
    weights, along = rng.normal(size=len(outputs)), rng.normal(size=len(real))
    cotangents = evaluate(adjoint, *args, *weights)
    assert len(cotangents) == len(real)

    def at(h: float) -> float:
        moved = list(args)
        for k, d in zip(real, along, strict=True):
            moved[k] = moved[k] + h * d
        results = evaluate(value, *moved)
        return float(sum(w * results[k] for w, k in zip(weights, outputs, strict=True)))

    slope = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step)
    return float(np.dot(cotangents, along)), slope


def assert_derivatives(
    function: Any,
    kinds: Sequence[t.Type],
    args: Sequence[Any],
    orders: int = 2,
    seed: int = 0,
    tolerance: float = 1e-6,
    step: float = 1e-4,
) -> None:
    """Reverse mode of `function` (and reverse mode of that) against differences, at these arguments, in float64."""
    traced = trace_function(calling(function, len(kinds)), list(kinds), real=t.float64)
    rng = np.random.default_rng(seed)
    flat_values = flat_args(args)
    for order in range(1, orders + 1):
        for _ in range(2):
            exact, differences = directional(traced, flat_values, rng, step)
            assert np.isfinite(exact)
            assert abs(exact - differences) <= tolerance * max(1.0, abs(exact), abs(differences)), (
                f"order {order}: {exact} {differences}"
            )
        if order < orders:
            flat_values = flat_values + list(rng.normal(size=sum(is_real(y.type) for y in traced.body.yields)))
            traced = vjp(traced)
