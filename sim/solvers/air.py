"""Air: the drag of faces, across and along them, in a wind.

A face of area A that moves through the air by v = v_face - wind, by v_n along its normal n and by v_t in its plane,
feels

    f = -rho A / 2 (c_n |v_n| v_n n + c_t |v_t| v_t)

as if each part of the motion were alone (the independence principle, S. F. Hoerner, "Fluid-Dynamic Drag", 1965; of the
faces of a cloth: J. Wejchert, D. Haumann, "Animation Aerodynamics", SIGGRAPH 1991).  A plate of infinite size has c_n
near 2, a square one 1.2; c_t is skin friction, of both sides together.  A solid has faces in front and behind, and each
of them counts.

That is f = -D v with a symmetric D that depends on the speeds.  A third of D acts at each point; with the speeds, D
and the normals of the start of the step the step is implicit in the velocities,

    (1 + h w D) (dx - h wind) = dx~ - h wind,   dx~ as predicted without air,

so that no motion through the air is ever turned round, whatever the step, and terminal velocities do not depend on it.

BDF2 has them of the end of the step instead, continued from the step before, with the velocity v_end there.  What else
changes that velocity in the step, k = h v_end - dx~ + h w D h (v_end - wind), the air feels too: with

    (1 + h w D) (dx - h wind) = dx~ - h wind - h w D (1 + h w D)^-2 k

the force is of second order; the factor bounds it where the air is too thick for the step.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from functools import cache

import numpy as np

from sim.constraints.particles import particle_layout
from sim.constraints.projection import solve
from sim.core.lang.frontend.builtins import abs, static, tid
from sim.core.lang.library.vector import cross, dot, length, normalize, outer
from sim.core.lang.types import Scalar, matrix, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.model.model import Model


class FaceDrag:
    """The drag of the faces of a model, as a solver works on it."""

    def __init__(self, model: Model) -> None:
        points = model.tri_indices.device.numpy(model.tri_indices)
        at_point = np.argsort(points.ravel(), kind="stable") // 3
        counts = np.bincount(points.ravel(), minlength=model.particle_count)
        self._model = model
        self._face = array(at_point.astype(np.int32), dtype=int, device=model.device)
        self._first = array(np.cumsum([0, *counts]).astype(np.int32), dtype=int, device=model.device)
        self._drag = zeros(model.tri_count, matrix((3, 3), model.dtype), model.device, model.requires_grad)

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        return [self._drag]

    @property
    def inputs(self) -> list[array]:
        """What a step reads beside the arrays of the model."""
        return [self._model.wind, self._model.air_density, self._face, self._first]

    def slow(self, moving: tuple[array, array], ahead: bool, dt: float, reference: array, particle: array) -> None:
        """Lets the air act on the displacements of `particle` from `reference`, predicted for a step of dt (h~ of the
        integrator); moving: positions and velocities at which the faces feel it, `ahead` at the end of the step."""
        m, (of_faces, of_points) = self._model, drag_kernels(self._model.dtype, ahead)
        launch(
            of_faces,
            m.tri_count,
            [m.tri_indices, *moving, m.tri_air_normal, m.tri_air_tangential, m.wind, m.air_density],
            [self._drag],
        )
        inputs = [self._first, self._face, self._drag, m.particle_inv_mass, m.wind, moving[1], reference, dt]
        launch(of_points, m.particle_count, inputs, [particle])


@cache
def drag_kernels(real: Scalar, ahead: bool) -> tuple[Kernel, Kernel]:
    """A third of D of every face; what it does to the displacements of the points.  ahead: of second order."""
    vec3, square, layout = vector(3, real), matrix((3, 3), real), particle_layout(real)
    particle_type, displacement, moved_by = layout.type(real), layout.displacement, layout.moved_by

    @kernel
    def drag_of_faces(
        points: array2d[int],
        x: array[vec3],
        v: array[vec3],
        c_n: array[real],
        c_t: array[real],
        wind: array[vec3],
        density: array[real],
        drag: array[square],
    ):
        k = tid()
        a, b, c = points[k, 0], points[k, 1], points[k, 2]
        double = cross(x[b] - x[a], x[c] - x[a])
        n = normalize(double)
        through = (v[a] + v[b] + v[c]) / 3.0 - wind[0]
        across = dot(through, n)
        normal, along = c_n[k] * abs(across), c_t[k] * length(through - across * n)
        third = density[0] * length(double) / 12.0
        D = (third * (normal - along)) * outer(n, n)
        for i in static(range(3)):
            D[i, i] += third * along
        drag[k] = D

    @kernel(name="slow_points_ahead" if ahead else "slow_points")
    def slow_points(
        first: array[int],
        face: array[int],
        drag: array[square],
        w: array[real],
        wind: array[vec3],
        v_end: array[vec3],
        x_ref: array[vec3],
        dt: real,
        particle: array[particle_type],
    ):
        i = tid()
        if w[i] > 0.0 and first[i + 1] > first[i]:
            D = square()
            for m in range(first[i], first[i + 1]):
                D += drag[face[m]]
            D = (dt * w[i]) * D
            dx, carried = displacement(particle[i], x_ref[i]), dt * wind[0]
            end = dt * v_end[i]
            felt, of_others = D, end - dx + D @ (end - carried)
            for j in static(range(3)):
                D[j, j] += 1.0
            through = dx - carried
            if ahead:
                through -= felt @ solve(D, solve(D, of_others))
            particle[i] += moved_by(carried + solve(D, through) - dx)

    return drag_of_faces, slow_points
