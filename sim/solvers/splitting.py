"""Mass splitting: a mover of n constraints counts as n movers of an nth of its mass, so that all of them act at once.

R. Tonge, F. Benevolenski, A. Voroshilov, "Mass Splitting for Jitter-Free Parallel Rigid Body Simulation", 2012.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from collections.abc import Sequence
from functools import cache

import numpy as np

from sim.constraints.slots.bodies import body_struct
from sim.core.lang.frontend.builtins import tid
from sim.core.lang.library.quaternion import quat_from_rotation_vector
from sim.core.lang.types import Scalar, matrix, quaternion, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.model.model import Model
from sim.solvers.batch import ConstraintBatch
from sim.solvers.bodies import BodyStep
from sim.solvers.step_kernels import step_kernels


@cache
def splitting_kernels(real: Scalar) -> tuple[Kernel, Kernel, Kernel]:
    """Inverse masses of the parts, of particles and of bodies; and the averaged motion of bodies."""
    vec3, mat33, Quat = vector(3, real), matrix((3, 3), real), quaternion(real)

    @kernel
    def split(w: array[real], valence: array[real], out: array[real]):
        i = tid()
        out[i] = w[i] * valence[i]

    @kernel
    def split_inertia(inverse: array[mat33], valence: array[real], out: array[mat33]):
        i = tid()
        out[i] = inverse[i] * valence[i]

    @kernel
    def correct_bodies(shift: array[vec3], twist: array[vec3], dx: array[vec3], turn: array[Quat]):
        i = tid()
        dx[i] += shift[i]
        turn_i = turn[i]
        turn[i] = quat_from_rotation_vector(twist[i]) * turn_i

    return split, split_inertia, correct_bodies


class MassSplitting:
    """The movers of a model, split among the constraints of some batches.

    valence, body_valence: (particles,), (bodies,) how many constraints each has, 1 at least; correction [m], shift [m],
    twist [rad]: how far a sweep moves them; w: inverse masses of the parts of particles.
    """

    def __init__(self, model: Model, batches: Sequence[ConstraintBatch], bodies: BodyStep) -> None:
        real, device, grad = model.dtype, model.device, model.requires_grad
        self.model, self._bodies = model, bodies
        counts = np.zeros(model.particle_count), np.zeros(model.body_count)
        for batch in batches:
            points, slots = batch.set.points.numpy(), batch.set.slots
            np.add.at(counts[0], points[:, list(slots.particles)], 1.0)
            np.add.at(counts[1], points[:, [own[0] for own in slots.bodies]], 1.0)
        self.valence, self.body_valence = (array(np.maximum(c, 1.0), dtype=real, device=device) for c in counts)
        self.correction = zeros(model.particle_count, vector(3, real), device, grad)
        self.shift, self.twist = (zeros(model.body_count, vector(3, real), device, grad) for _ in range(2))
        self.w = zeros(model.particle_count, real, device, grad)
        self.bodies = body_struct(real)()
        self.bodies.inv_mass = zeros(model.body_count, real, device, grad)
        self.bodies.inv_inertia = zeros(model.body_count, matrix((3, 3), real), device, grad)
        self.bodies.x, self.bodies.q = bodies.start.x, bodies.start.q

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        mixed = [self.shift, self.twist, self.w, self.bodies.inv_mass, self.bodies.inv_inertia]
        return [self.correction, *(mixed if self.model.body_count else [])]

    def begin(self) -> None:
        """Inverse masses of the parts, as the model has them now."""
        model = self.model
        if not model.body_count:
            return
        split, split_inertia, _ = splitting_kernels(model.dtype)
        launch(split, model.particle_count, [model.particle_inv_mass, self.valence], [self.w])
        launch(split, model.body_count, [model.body_inv_mass, self.body_valence], [self.bodies.inv_mass])
        launch(split_inertia, model.body_count, [model.body_inv_inertia, self.body_valence], [self.bodies.inv_inertia])

    def clear(self) -> None:
        """Before a sweep."""
        self.correction.zero_()
        if self.model.body_count:
            self.shift.zero_()
            self.twist.zero_()

    def apply(self, particle: array) -> None:
        """After it."""
        model = self.model
        launch(step_kernels(model.dtype, model.in_air).correct, model.particle_count, [self.correction], [particle])
        if model.body_count:
            moving = [self._bodies.dx, self._bodies.turn]
            launch(splitting_kernels(model.dtype)[2], model.body_count, [self.shift, self.twist], moving)
