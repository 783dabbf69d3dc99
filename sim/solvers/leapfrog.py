"""Where velocities belong to: half a step before the positions beside them.

A step of implicit Euler moves what is free by

    v' = v + h a,   x' = x + h v'

which is a leapfrog, and without error under a constant acceleration, where v is the velocity at t - h/2 (R. W. Hockney,
J. W. Eastwood, "Computer Simulation Using Particles", 1981, sec. 4-4: it begins with v(-h/2) = v(0) - a h/2).  With the
velocity at the time t of the positions, as XPBD is published, what is dropped ends g h t / 2 too low: 5 mm after 0.6 s
at 600 Hz, which moves the restitution that is found by what a recording can tell.

a is what gravity and outer forces give.  Constraints without compliance need nothing: in the first step they answer the
half that is left.  What springs, cloths and solids pull is left as published: at rest on them a is none of these alone,
and a step takes more out of their vibrations than the start puts into them.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from functools import cache

import numpy as np

from sim.constraints.slots.bodies import in_world
from sim.core.lang.frontend.builtins import tid
from sim.core.lang.library.vector import spatial_bottom, spatial_top
from sim.core.lang.types import Scalar, matrix, transformation, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.model.state import State
from sim.solvers.base import Solver
from sim.solvers.batch import ConstraintBatch
from sim.solvers.mechanisms.held import mechanisms


@cache
def leapfrog_kernels(real: Scalar) -> tuple[Kernel, Kernel]:
    """Velocities of particles and of bodies half a step back, where `loose` is 1."""
    vec3, mat33, spatial, frame = vector(3, real), matrix((3, 3), real), vector(6, real), transformation(real)

    @kernel
    def particles_back(
        loose: array[real],
        particle_f: array[vec3],
        inv_mass: array[real],
        gravity: array[vec3],
        dt: real,
        v: array[vec3],
    ):
        i = tid()
        v[i] -= (0.5 * dt * loose[i]) * (gravity[0] + inv_mass[i] * particle_f[i])

    @kernel
    def bodies_back(
        loose: array[real],
        body_f: array[spatial],
        inv_mass: array[real],
        inv_inertia: array[mat33],
        gravity: array[vec3],
        body_q: array[frame],
        dt: real,
        body_qd: array[spatial],
    ):
        i = tid()
        a = gravity[0] + inv_mass[i] * spatial_top(body_f[i])
        alpha = in_world(body_q[i].q, inv_inertia[i], spatial_bottom(body_f[i]))
        body_qd[i] -= (0.5 * dt * loose[i]) * spatial(a[0], a[1], a[2], alpha[0], alpha[1], alpha[2])

    return particles_back, bodies_back


class LeapfrogStart:
    """Takes the velocities of a start half a step back, of what only gravity, outer forces and rigid constraints move.

    solver: of first order; with another one nothing changes.  loose: (particles,), (bodies,) 1 for what is taken back:
    all that may move, but what a spring, a cloth, a solid, a rod or a drive pulls, directly or by what it is fixed to.
    What that is does not change with parameters.
    """

    def __init__(self, solver: Solver) -> None:
        model = self.model = solver.model
        self._solver = solver
        pulling = [batch for batch in solver.batches if _pulls(batch)]
        free = model.particle_free, model.body_free
        loose = np.concatenate([of.numpy() for of in free]) * (solver.convergence_order == 1)
        for batch in pulling:
            if _is_soft(batch):
                loose[_movers(batch, model.particle_count)] = 0.0
        held, _, count = mechanisms(model, [batch for batch in pulling if not _is_soft(batch)])
        number = np.concatenate([of.numpy() for of in held])
        least = np.ones(count)  # of each mechanism: all of it is taken back, or nothing
        np.minimum.at(least, number[number >= 0], loose[number >= 0])
        loose[number >= 0] = least[number[number >= 0]]
        parts = np.split(loose, [model.particle_count])
        self.loose = tuple(array(part, dtype=model.dtype, device=model.device) for part in parts)

    def apply(self, state: State, dt: float) -> None:
        """Change the velocities of a state that begins, [m/s] and [rad/s], for steps of dt [s]; recorded by a tape."""
        model, (particles, bodies) = self.model, self.loose
        of_particles, of_bodies = leapfrog_kernels(model.dtype)
        if model.particle_count:
            inputs = [particles, state.particle_f, model.particle_inv_mass, model.gravity, dt]
            launch(of_particles, model.particle_count, inputs, [state.particle_qd])
        if model.body_count:
            forces = self._solver.outer_forces(state, dt)
            inputs = [bodies, forces, model.body_inv_mass, model.body_inv_inertia, model.gravity, state.body_q, dt]
            launch(of_bodies, model.body_count, inputs, [state.body_qd])


def _movers(batch: ConstraintBatch, particles: int) -> np.ndarray:
    """The numbers of its particles, and of its bodies behind all particles."""
    points, slots = batch.set.points.numpy(), batch.set.slots
    bodies = points[:, [own[0] for own in slots.bodies]] + particles
    return np.concatenate([points[:, list(slots.particles)], bodies], axis=1)


def _pulls(batch: ConstraintBatch) -> bool:
    """Whether it may pull at what rests: contacts, which open, do not count."""
    c = batch.set.constraint
    contact = batch.set.surface or (c.unilateral and not c.of_joint)
    return bool(batch.set.count and any(c.elastic) and not contact)


def _is_soft(batch: ConstraintBatch) -> bool:
    """Whether it pulls by how far it has given way.  A joint of any compliance is taken as one of none."""
    c = batch.set.constraint
    if c.law is not None or c.driven:
        return True
    return not c.holds_joint and not c.of_joint and bool((batch.set.compliance.numpy() > 0.0).any())
