"""Random numbers: a counter-like hash generator (PCG), whose state is one uint32 variable.

    state = rand_init(seed, tid())
    x = randf(state)             # advances the variable `state`

The hash is the one recommended by Jarzynski and Olano, "Hash Functions for GPU Rendering", JCGT 9(3), 2020, with Warp's
way of drawing from it, so that the same seed gives the same numbers.  Numbers are float32 (randf: 24 bits, in [0, 1)).
"""

from __future__ import annotations

import ast
import math
from typing import Any

from sim.core.lang.frontend.builtins import abs, cos, exp, floor, log, sin, sqrt, where
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.frontend.traced import Keywords, Positional
from sim.core.lang.frontend.tracing.assignments import assign
from sim.core.lang.frontend.tracing.calls import call_function
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.frontend.tracing.registry import Builtin, argument_node
from sim.core.lang.library.export import RANDOM, public
from sim.core.lang.library.search import lower_bound
from sim.core.lang.types import float32, int32, uint32, vector

vec2, vec3, vec4 = vector(2, float32), vector(3, float32), vector(4, float32)
TWO_PI = 2.0 * math.pi
LOG_TWO_PI = math.log(2.0 * math.pi)
STIRLING = (
    8.333333333333333e-02, -2.777777777777778e-03, 7.936507936507937e-04, -5.952380952380952e-04, 8.417508417508418e-04,
    -1.917526917526918e-03, 6.410256410256410e-03, -2.955065359477124e-02, 1.796443723688307e-01, -1.39243221690590,
)  # fmt: skip
"""B_2k / (2k (2k - 1)), k = 1 .. 10."""
ABOVE_ZERO = 5.96e-8  # added to a number of [0, 1 - 2^-24] it keeps a logarithm finite and negative


@func
def _hash(state):
    """One step of the generator (PCG-RXS-M-XS-32)."""
    word = state * 747796405 + 2891336453
    word = ((word >> ((word >> 28) + 4)) ^ word) * 277803737
    return (word >> 22) ^ word


@func
def rand_init(seed, offset=None):
    """The state of a new generator; different offsets (thread numbers) give unrelated sequences."""
    if offset is None:
        return _hash(uint32(seed))
    return _hash(uint32(seed) + _hash(uint32(offset)))


public(rand_init, RANDOM)


@func
def _randi(state, low=None, high=None):
    state = _hash(state)
    if low is None:
        return state, int32(state)
    return state, int32(state % uint32(int32(high) - int32(low))) + int32(low)


@func
def _randu(state, low=None, high=None):
    state = _hash(state)
    if low is None:
        return state, state
    return state, state % (uint32(high) - uint32(low)) + uint32(low)


@func
def _randf(state, low=0.0, high=1.0):
    state = _hash(state)
    return state, (float32(high) - float32(low)) * (float32(state >> 8) * (1.0 / 16777216.0)) + float32(low)


@func
def _randn(state):
    state, a = _randf(state)
    state, b = _randf(state)
    return state, sqrt(-2.0 * log(a + ABOVE_ZERO)) * cos(TWO_PI * b)


@func
def _sample_triangle(state):
    state, a = _randf(state)
    state, b = _randf(state)
    r = sqrt(a)
    return state, vec2(1.0 - r, b * r)


@func
def _sample_unit_ring(state):
    state, a = _randf(state, 0.0, TWO_PI)
    return state, vec2(cos(a), sin(a))


@func
def _sample_unit_disk(state):
    state, a = _randf(state)
    state, direction = _sample_unit_ring(state)
    return state, direction * sqrt(a)


@func
def _on_sphere(state, spread):
    """A direction uniform over the part of the sphere with 1 - spread <= z <= 1."""
    state, a = _randf(state)
    state, ring = _sample_unit_ring(state)
    z = 1.0 - spread * a
    r = sqrt(spread * a * (2.0 - spread * a))
    return state, vec3(ring[0] * r, ring[1] * r, z)


@func
def _sample_unit_sphere_surface(state):
    return _on_sphere(state, 2.0)


@func
def _sample_unit_hemisphere_surface(state):
    return _on_sphere(state, 1.0)


@func
def _inside(state, spread):
    state, direction = _on_sphere(state, spread)
    state, a = _randf(state)
    return state, direction * a ** (1.0 / 3.0)


@func
def _sample_unit_sphere(state):
    return _inside(state, 2.0)


@func
def _sample_unit_hemisphere(state):
    return _inside(state, 1.0)


@func
def _sample_unit_square(state):
    state, x = _randf(state, -0.5, 0.5)
    state, y = _randf(state, -0.5, 0.5)
    return state, vec2(x, y)


@func
def _sample_unit_cube(state):
    state, x = _randf(state, -0.5, 0.5)
    state, y = _randf(state, -0.5, 0.5)
    state, z = _randf(state, -0.5, 0.5)
    return state, vec3(x, y, z)


@func
def _sample_unit_hypercube(state):
    state, x = _randf(state, -0.5, 0.5)
    state, y = _randf(state, -0.5, 0.5)
    state, z = _randf(state, -0.5, 0.5)
    state, w = _randf(state, -0.5, 0.5)
    return state, vec4(x, y, z, w)


@func
def _sample_cdf(state, cdf):
    state, u = _randf(state)
    return state, lower_bound(cdf, u)


@func
def _log_gamma(x):
    """log Gamma(x) for x > 0, in float32: Stirling's series from 7 on, and log Gamma(x + 1) = log(x) + log Gamma(x)
    (Zhang and Jin, "Computation of Special Functions", 1996, 3.1)."""
    shift = int32(0)
    if x < 7.0:
        shift = int32(7.0 - x)
    y = x + float32(shift)
    z = (1.0 / y) * (1.0 / y)
    series = float32(STIRLING[9])
    for k in range(8, -1, -1):
        series = series * z + STIRLING[k]
    total = series / y + 0.5 * LOG_TWO_PI + (y - 0.5) * log(y) - y
    for _ in range(shift):
        total -= log(y - 1.0)
        y -= 1.0
    return where(x == 1.0 or x == 2.0, 0.0, total)


@func
def _poisson(state, lam):
    """Products of uniform numbers for a small mean, else W. Hormann's transformed rejection ("The transformed rejection
    method for generating Poisson random variables", Insurance: Mathematics and Economics 12, 1993)."""
    count = uint32(0)
    mean = float32(lam)
    if mean >= 10.0:
        b = 0.931 + 2.53 * sqrt(mean)
        a = -0.059 + 0.02483 * b
        log_inverse_alpha = log(1.1239 + 1.1328 / (b - 3.4))
        log_mean = log(mean)
        squeeze = 0.9277 - 3.6224 / (b - 2.0)
        drawing = True
        while drawing:
            state, u = _randf(state)
            state, v = _randf(state)
            u -= 0.5
            side = 0.5 - abs(u)
            k = floor((2.0 * a / side + b) * u + mean + 0.43)
            accepted = side >= 0.07 and v <= squeeze
            if not accepted and k >= 0.0 and not (side < 0.013 and v > side):
                height = log(v) + log_inverse_alpha - log(a / (side * side) + b)
                accepted = height <= -mean + k * log_mean - _log_gamma(k + 1.0)
            if accepted:
                count = uint32(k)
                drawing = False
    elif mean != 0.0:
        limit, product = exp(-mean), float32(1.0)
        drawing = True
        while drawing:
            state, u = _randf(state)
            product *= u
            if product > limit:
                count += uint32(1)
            else:
                drawing = False
    return state, count


def _drawing(name: str, function: Function, doc: str) -> Builtin:
    """A builtin that calls `function(state, ...) -> (state, result)` and assigns the new state where it came from."""

    def handler(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> Any:
        place = argument_node(node, 0, "state") if isinstance(node, ast.Call) else None
        known = isinstance(place, ast.Name) and place.id in t.env
        if isinstance(node, ast.Call) and not known and not isinstance(place, (ast.Subscript, ast.Attribute)):
            raise t.error(
                node,
                f"{name} advances its state, so it needs a local variable as its first argument",
                f"write `state = rand_init(seed, i)`, then `{name}(state)`",
            )
        state, result = call_function(t, function, args, kwargs, node)
        if place is not None:  # and the call is in a kernel: outside of them the state is a value
            assign(t, place, state)
        return result

    return public(Builtin(name, handler, doc), RANDOM)


randi = _drawing("randi", _randi, "A random int32: randi(state), or in [low, high): randi(state, low, high).")
randu = _drawing("randu", _randu, "A random uint32: randu(state), or in [low, high): randu(state, low, high).")
randf = _drawing(
    "randf", _randf, "A random float32 in [0, 1): randf(state), or in [low, high): randf(state, low, high)."
)
randn = _drawing("randn", _randn, "A standard normal float32 (Box-Muller).")
sample_triangle = _drawing(
    "sample_triangle", _sample_triangle, "Barycentric coordinates (u, v), uniform over a triangle."
)
sample_unit_ring = _drawing("sample_unit_ring", _sample_unit_ring, "A vec2 on the unit circle.")
sample_unit_disk = _drawing("sample_unit_disk", _sample_unit_disk, "A vec2 inside the unit circle.")
sample_unit_sphere_surface = _drawing(
    "sample_unit_sphere_surface", _sample_unit_sphere_surface, "A vec3 on the unit sphere."
)
sample_unit_sphere = _drawing("sample_unit_sphere", _sample_unit_sphere, "A vec3 inside the unit sphere.")
sample_unit_hemisphere_surface = _drawing(
    "sample_unit_hemisphere_surface", _sample_unit_hemisphere_surface, "A vec3 on the upper (z >= 0) unit hemisphere."
)
sample_unit_hemisphere = _drawing(
    "sample_unit_hemisphere", _sample_unit_hemisphere, "A vec3 inside the upper (z >= 0) unit hemisphere."
)
sample_unit_square = _drawing("sample_unit_square", _sample_unit_square, "A vec2 in [-1/2, 1/2)^2.")
sample_unit_cube = _drawing("sample_unit_cube", _sample_unit_cube, "A vec3 in [-1/2, 1/2)^3.")
sample_unit_hypercube = _drawing("sample_unit_hypercube", _sample_unit_hypercube, "A vec4 in [-1/2, 1/2)^4.")
sample_cdf = _drawing(
    "sample_cdf",
    _sample_cdf,
    "The number of the first entry of the array `cdf` (ascending) that is not below randf(state); else of the last.",
)
poisson = _drawing("poisson", _poisson, "A Poisson number (uint32): poisson(state, mean).")
