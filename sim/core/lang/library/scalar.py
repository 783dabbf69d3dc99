"""Scalar functions.  Those with a row in the op table (sin, sqrt, floor, ...) need no entry here."""

from __future__ import annotations

import math

from sim.core.lang.frontend.builtins import (
    abs,
    acos_unclamped,
    asin_unclamped,
    copysign,
    max,
    min,
    sqrt,
    trunc,
    where,
)
from sim.core.lang.frontend.function import func
from sim.core.lang.library.export import export
from sim.core.lang.library.static import is_float, is_scalar, scalar_type

DEGREES, RADIANS = 180.0 / math.pi, math.pi / 180.0


@export
def sign(x):
    """-1 where x < 0, else 1; of each component for vectors and matrices.  Derivative 0."""
    if is_scalar(x):
        return where(x < 0, scalar_type(x)(-1), scalar_type(x)(1))
    out = x
    for i in range(len(x)):
        out[i] = sign(x[i])
    return out


@export
def step(x):
    """1 where x < 0, else 0 (Warp's convention).  Derivative 0."""
    return where(x < 0, scalar_type(x)(1), scalar_type(x)(0))


@export
def nonzero(x):
    """0 where x = 0, else 1.  Derivative 0."""
    return where(x == 0, scalar_type(x)(0), scalar_type(x)(1))


@export
def frac(x):
    """x - trunc(x): the fractional part, with the sign of x.  Derivative 1."""
    return x - trunc(x)


@export
def round(x):
    """The nearest integer, halves away from zero (`rint`: halves to even).  Derivative 0."""
    whole = trunc(x)
    # x - trunc(x) is exact, so that 0.49999997 does not round up as floor(x + 0.5) would
    next_whole = whole + copysign(scalar_type(x)(1), x)
    return where(abs(x - whole) >= 0.5, next_whole, whole)


@export
def clamp(x, low, high):
    """min(max(x, low), high), and as these it passes over a NaN: where x is one, the result is a bound.
    Derivative 1 by x inside and at the bounds, by the bound outside."""
    return min(max(x, low), high)


@func
def _within_one(x):
    """x clamped to [-1, 1]; a NaN stays a NaN."""
    return where(x < -1.0, scalar_type(x)(-1.0), where(x > 1.0, scalar_type(x)(1.0), x))


@export
def degrees(x):
    """180 x / pi."""
    return x * DEGREES


@export
def radians(x):
    """pi x / 180."""
    return x * RADIANS


@export
def lerp(a, b, t):
    """a (1 - t) + b t, of scalars, vectors, matrices, quaternions; t a scalar."""
    return a * (1.0 - t) + b * t


@export
def smoothstep(edge0, edge1, x):
    """t^2 (3 - 2 t) with t = clamp((x - edge0) / (edge1 - edge0), 0, 1)."""
    t = clamp((x - edge0) / (edge1 - edge0), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


@export
def acos(x):
    """Arc cosine of x clamped to [-1, 1].  Derivative -1 / sqrt(1 - x^2) inside, 0 at the ends and outside."""
    return acos_unclamped(_within_one(x))


@acos.vjp
def _acos_vjp(x, y, ct):
    return -ct * _arc_slope(x)


@export
def asin(x):
    """Arc sine of x clamped to [-1, 1].  Derivative 1 / sqrt(1 - x^2) inside, 0 at the ends and outside."""
    return asin_unclamped(_within_one(x))


@asin.vjp
def _asin_vjp(x, y, ct):
    return ct * _arc_slope(x)


@func
def _arc_slope(x):
    """1 / sqrt(1 - x^2) inside (-1, 1), else 0."""
    rest = (1.0 - x) * (1.0 + x)
    inside = rest > 0.0
    slope = 1.0 / sqrt(where(inside, rest, 1.0))  # before the choice, which is then a plain selection
    return where(inside, slope, 0.0)


@export
def isfinite(x):
    """Whether x is neither infinite nor a NaN; of a composite: all components."""
    if is_scalar(x):
        if is_float(x):
            return x - x == 0.0
        return True
    ok = True
    for i in range(len(x)):
        ok = ok and isfinite(x[i])
    return ok


@export
def isnan(x):
    """Whether x is a NaN; of a composite: any component."""
    if is_scalar(x):
        if is_float(x):
            return x != x
        return False
    found = False
    for i in range(len(x)):
        found = found or isnan(x[i])
    return found


@export
def isinf(x):
    """Whether x is infinite; of a composite: any component."""
    if is_scalar(x):
        if is_float(x):
            return x == x and x - x != 0.0
        return False
    found = False
    for i in range(len(x)):
        found = found or isinf(x[i])
    return found
