"""Gradient noise (Perlin, "Improving Noise", SIGGRAPH 2002) in 1 to 4 dimensions, differentiable in the position.

Warp's hash of the lattice points, so that the same state gives the same field.  Positions are scalars or vectors of
float32 or float64.
"""

from __future__ import annotations

from sim.core.lang.frontend.builtins import floor
from sim.core.lang.frontend.function import func
from sim.core.lang.library.export import export
from sim.core.lang.library.rand import rand_init, randf, sample_unit_cube, sample_unit_hypercube, sample_unit_square
from sim.core.lang.library.static import is_scalar, scalar_type, vector_type
from sim.core.lang.library.vector import normalize
from sim.core.lang.types import int32, uint32

PRIMES = (73856093, 19349663, 53471161, 10000019)


@func
def _hash_of(state, i):
    """i_0 p_0 ^ i_1 p_1 ^ ... ^ (i_last p_last + state): Teschner's spatial hash of a lattice point."""
    last = len(i) - 1
    out = uint32(i[last]) * PRIMES[last] + state
    for k in range(last):
        out = out ^ (uint32(i[k]) * PRIMES[k])
    return out


@func
def _slope(state, i, x):
    """The random gradient at a lattice point, of the type of x: in [-1, 1) in one dimension, else of length 1."""
    seed = _hash_of(state, i)
    if len(i) == 1:
        return type(x)(scalar_type(x)(randf(seed, -1.0, 1.0)))
    if len(i) == 2:
        return normalize(type(x)(sample_unit_square(seed)))
    if len(i) == 3:
        return normalize(type(x)(sample_unit_cube(seed)))
    return normalize(type(x)(sample_unit_hypercube(seed)))


@func
def _lattice(state, x, period):
    """Sum over the corners of the cell of x of slope times offset, weighted by products of 6 t^5 - 15 t^4 + 10 t^3."""
    n = len(x)
    cell, rest, weight = vector_type(int32, n)(), x, x
    for k in range(n):
        cell[k] = int32(floor(x[k]))
        rest[k] = x[k] - floor(x[k])
        weight[k] = rest[k] * rest[k] * rest[k] * (rest[k] * (rest[k] * 6.0 - 15.0) + 10.0)
    total = scalar_type(x)(0)
    for corner in range(2**n):
        at, share = cell, scalar_type(x)(1)
        for k in range(n):
            bit = (corner >> k) & 1
            at[k] = _wrapped(cell[k] + bit, period, k)
            share = share * (weight[k] if bit == 1 else 1.0 - weight[k])
        slope = _slope(state, at, x)
        value = scalar_type(x)(0)
        for k in range(n):
            value += slope[k] * (rest[k] - ((corner >> k) & 1))
        total += share * value
    return total


@func
def _lattice_gradient(state, x):
    """The gradient of `_lattice` without a period, by the product rule."""
    n = len(x)
    cell, rest, weight, change = vector_type(int32, n)(), x, x, x
    for k in range(n):
        cell[k] = int32(floor(x[k]))
        rest[k] = x[k] - floor(x[k])
        weight[k] = rest[k] * rest[k] * rest[k] * (rest[k] * (rest[k] * 6.0 - 15.0) + 10.0)
        change[k] = 30.0 * rest[k] * rest[k] * (rest[k] * (rest[k] - 2.0) + 1.0)
    total = type(x)()
    for corner in range(2**n):
        at, shares, changes = cell, x, x
        for k in range(n):
            bit = (corner >> k) & 1
            at[k] = cell[k] + bit
            shares[k] = weight[k] if bit == 1 else 1.0 - weight[k]
            changes[k] = change[k] if bit == 1 else -change[k]
        slope = _slope(state, at, x)
        value = scalar_type(x)(0)
        for k in range(n):
            value += slope[k] * (rest[k] - ((corner >> k) & 1))
        for k in range(n):
            others = scalar_type(x)(1)
            for j in range(n):
                others = others * (shares[j] if j != k else 1.0)
            total[k] += (slope[k] * shares[k] + value * changes[k]) * others
    return total


@func
def _wrapped(i, period, k):
    if period is None:
        return i
    return ((i % int32(period[k])) + int32(period[k])) % int32(period[k])


@export
def noise(state, x):
    """Smooth noise around 0 at the position x (a scalar, vec2, vec3 or vec4); 0 at whole numbers."""
    if is_scalar(x):
        return _lattice(state, vector_type(x, 1)(x), None)
    return _lattice(state, x, None)


@export
def pnoise(state, x, px, py=1, pz=1, pt=1):
    """As `noise`, with whole periods px, py, pz, pt along the axes."""
    if is_scalar(x):
        return _lattice(state, vector_type(x, 1)(x), (px,))
    return _lattice(state, x, (px, py, pz, pt))


@export
def curlnoise(state, x, octaves=1, lacunarity=2.0, gain=0.5):
    """A smooth field without divergence: the curl of noise, a vec2 at a vec2, a vec3 at a vec3, or at (x, y, z, time).

    Sum over `octaves`, octave i with frequency lacunarity^i and weight gain^i.  In three dimensions the potential has
    three components with seeds of their own, which go on from octave to octave (R. Bridson and others, "Curl-Noise for
    Procedural Fluid Flow", SIGGRAPH 2007).
    """
    frequency, weight = scalar_type(x)(1), scalar_type(x)(1)
    seed = uint32(state)
    a, b, c = type(x)(), type(x)(), type(x)()
    for _ in range(int32(octaves)):
        at = x * frequency
        a += _lattice_gradient(seed, at) * weight
        if len(x) > 2:
            seed = rand_init(seed, 10019689)
            b += _lattice_gradient(seed, at) * weight
            seed = rand_init(seed, 13112221)
            c += _lattice_gradient(seed, at) * weight
        weight *= gain
        frequency *= lacunarity
    if len(x) == 2:
        return type(x)(-a[1], a[0])
    return vector_type(x, 3)(c[1] - b[2], a[2] - c[0], b[0] - a[1])
