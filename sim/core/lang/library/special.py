"""Special functions: the inverses of the error functions (`erf` and `erfc` have rows in the op table).

A start by rational approximation (Abramowitz and Stegun, 26.2.23) and Halley's iteration, as in Press and others,
"Numerical Recipes", 3rd edition, 6.2.2: cubic convergence, to rounding in float64 after two steps.
"""

from __future__ import annotations

import math

from sim.core.lang.frontend.builtins import abs, bits_set, copysign, erf, erfc, exp, log, sqrt, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.export import export
from sim.core.lang.library.static import scalar_type
from sim.core.lang.types import int32

SLOPE = 2.0 / math.sqrt(math.pi)
"""Of erf at 0."""
INFINITE, NOT_A_NUMBER = math.inf, math.nan


@export
def bit_count(x):
    """How many bits of the integer x are set, an int32; of a negative one in its two's complement.  Derivative 0."""
    return int32(bits_set(x))


@func
def _near_zero(p):
    """The x with erf(x) = p, for |p| <= 1/2: by three steps from the series, whose error is below 1e-2."""
    x = p / SLOPE * (1.0 + p * p * (math.pi / 12.0))
    for _ in range(3):
        x -= _step(x, erf(x) - p)
    return x


@func
def _tail(p):
    """The x with erfc(x) = p, for 0 <= p <= 1/2 (infinite at 0); a NaN below."""
    inside = p > 0.0
    q = where(inside, p, 0.5)
    t = sqrt(-2.0 * log(0.5 * q))
    x = 0.7071067811865476 * (t - (2.30753 + t * 0.27061) / (1.0 + t * (0.99229 + t * 0.04481)))
    for _ in range(2):
        x -= _step(x, q - erfc(x))
    return where(inside, x, where(p == 0.0, scalar_type(p)(INFINITE), NOT_A_NUMBER))


@func
def _step(x, surplus):
    """Halley's step for erf(x) - p = surplus: u / (1 + x u) with Newton's step u = surplus / (SLOPE e^(-x^2))."""
    return surplus / (SLOPE * exp(-x * x) + x * surplus)


@export
def erfinv(p):
    """The x with erf(x) = p, for -1 <= p <= 1 (infinite at the ends); a NaN elsewhere."""
    size = abs(p)
    near = size < 0.5
    return where(near, _near_zero(where(near, p, 0.0)), copysign(_tail(where(near, 0.5, 1.0 - size)), p))


@erfinv.vjp
def _erfinv_vjp(p, x, ct):
    return ct * _inverse_slope(x)


@export
def erfcinv(p):
    """The x with erfc(x) = p, for 0 <= p <= 2 (infinite at the ends); a NaN elsewhere."""
    near = abs(1.0 - p) < 0.5
    tail = _tail(where(near, 0.5, where(p < 1.0, p, 2.0 - p)))
    return where(near, _near_zero(where(near, 1.0 - p, 0.0)), where(p < 1.0, tail, -tail))


@erfcinv.vjp
def _erfcinv_vjp(p, x, ct):
    return -ct * _inverse_slope(x)


@func
def _inverse_slope(x):
    """sqrt(pi) / 2 e^(x^2): the derivative of erfinv where its value is x."""
    return exp(x * x) / SLOPE
