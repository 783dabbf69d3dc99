"""What a step works on: where each point is, as a displacement from where it began.

A point of a step is at x = x_ref + dx: the displacement dx counts from the reference x_ref with which the step begins.
float64 has room for both in one number, float32 has not: in x the low bits of a small dx are lost, and with them the
velocity dx / h.  So there are two layouts, with the same functions:

    float64   x [m]                         dx = x - x_ref, whose x_ref is elsewhere
    float32   x_ref [m], -, dx [m], -       x = x_ref + dx, whenever C is evaluated

The two numbers of float32 that mean nothing are there because four side by side are moved at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.static import vector_type
from sim.core.lang.types import Scalar, Vector, float32, vector


@dataclass(frozen=True, eq=False)
class ParticleLayout:
    """Functions of the language on a particle, a vector of `size` numbers.

    at_start: (x_ref, dx) -> particle; position: particle -> x; displacement: (particle, x_ref) -> dx; moved_by: what
    to add to a particle to move it, whose literal zeros touch nothing.
    """

    size: int
    at_start: Function
    position: Function
    displacement: Function
    moved_by: Function

    def type(self, real: Scalar) -> Vector:
        """The type of a particle."""
        return vector(self.size, real)

    def host_positions(self, particles: np.ndarray) -> np.ndarray:
        """x of particles (n, size)."""
        return particles if self.size == 3 else particles[:, :3] + particles[:, 4:7]


def _of_sums() -> ParticleLayout:
    @func
    def at_start(x_ref, dx):
        return x_ref + dx

    @func
    def position(particle):
        return particle

    @func
    def displacement(particle, x_ref):
        return particle - x_ref

    @func
    def moved_by(dx):
        return dx

    return ParticleLayout(3, at_start, position, displacement, moved_by)


def _of_parts() -> ParticleLayout:
    @func
    def at_start(x_ref, dx):
        return vector_type(dx, 8)(x_ref[0], x_ref[1], x_ref[2], 0.0, dx[0], dx[1], dx[2], 0.0)

    @func
    def displacement(particle, x_ref):
        return vector_type(particle, 3)(particle[4], particle[5], particle[6])

    @func
    def position(particle):
        return vector_type(particle, 3)(particle[0], particle[1], particle[2]) + displacement(particle, 0.0)

    @func
    def moved_by(dx):
        return vector_type(dx, 8)(0.0, 0.0, 0.0, 0.0, dx[0], dx[1], dx[2], 0.0)

    return ParticleLayout(8, at_start, position, displacement, moved_by)


_SUMS, _PARTS = _of_sums(), _of_parts()


def particle_layout(real: Scalar) -> ParticleLayout:
    """How the steps of a precision keep their points."""
    return _PARTS if real is float32 else _SUMS
