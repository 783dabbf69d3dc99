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

from sim.core.lang.frontend.builtins import cos, log, sin, sqrt
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.frontend.tracing.calls import call_function
from sim.core.lang.frontend.tracing.registry import Builtin
from sim.core.lang.library.export import RANDOM, public
from sim.core.lang.types import float32, int32, uint32, vector

vec2, vec3, vec4 = vector(2, float32), vector(3, float32), vector(4, float32)
TWO_PI = 2.0 * math.pi
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
    low, high = int32(0), cdf.shape[0]
    while low < high:
        middle = (low + high) // 2
        if cdf[middle] < u:
            low = middle + 1
        else:
            high = middle
    return state, low


def _drawing(name: str, function: Function, doc: str) -> Builtin:
    """A builtin that calls `function(state, ...) -> (state, result)` and assigns the new state to its variable."""

    def handler(tracer: Any, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
        place = node.args[0] if node.args else None
        if not isinstance(place, ast.Name) or place.id not in tracer.env:
            raise tracer.error(
                node,
                f"{name} advances its state, so it needs a local variable as its first argument",
                f"write `state = rand_init(seed, i)`, then `{name}(state)`",
            )
        state, result = call_function(tracer, function, args, kwargs, node)
        tracer.env[place.id] = state
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
    "The number of the first entry of the array `cdf` (ascending) that is not below randf(state).",
)
