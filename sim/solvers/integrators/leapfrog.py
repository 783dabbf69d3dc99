"""Where velocities belong to: half a step before the positions beside them.

A step of implicit Euler moves what is free by

    v' = v + h a,   x' = x + h v'

which is a leapfrog, and without error under a constant acceleration, where v is the velocity at t - h/2 (R. W. Hockney,
J. W. Eastwood, "Computer Simulation Using Particles", 1981, sec. 4-4: it begins with v(-h/2) = v(0) - a h/2).  With the
velocity at the time t of the positions, as XPBD is published, what is dropped ends g h t / 2 too low: 5 mm after 0.6 s
at 600 Hz, which moves the restitution that is found by what a recording can tell.

a is what gravity and outer forces give.  Constraints without compliance need nothing: in the first step they answer the
half that is left.  What springs, cloths and solids hold to something in the world may begin in balance with gravity,
where a is none of these alone, and is left as published; what they hold together flies, and goes back as a whole.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from collections.abc import Sequence
from functools import cache

import numpy as np

from sim.constraints.slots.bodies import in_world
from sim.constraints.slots.pattern import WORLD
from sim.core.lang.frontend.builtins import tid
from sim.core.lang.library.vector import spatial_bottom, spatial_top
from sim.core.lang.types import Scalar, matrix, transformation, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.model.constraint_set import ConstraintSet
from sim.model.state import State
from sim.solvers.base import Solver
from sim.solvers.batch import ConstraintBatch


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
    all that may move, but what hangs on something that may not by a spring, a cloth, a solid, a rod or a drive.
    """

    def __init__(self, solver: Solver) -> None:
        model = self.model = solver.model
        self._solver = solver
        free = np.concatenate([model.particle_free.numpy(), model.body_free.numpy()]) != 0.0
        rows, soft = _rows(solver.batches, model.particle_count)
        together = np.concatenate([np.zeros((0, 2), int), *(_neighbours(of, free) for of in rows)])
        mechanism = _components(together, len(free))
        hanging = np.zeros((2, len(free)), bool)  # by mechanism: held by something, pulled by something soft
        for of, pulls in zip(rows, soft, strict=True):
            moving = (of >= 0) & free[of]
            hanging[0, mechanism[of[moving & ~moving.all(axis=1, keepdims=True)]]] = True
            hanging[1, mechanism[of[moving]]] |= pulls
        taken = free & ~hanging.all(axis=0)[mechanism] & (solver.convergence_order == 1)
        parts = np.split(taken, [model.particle_count])
        self._any = tuple(bool(part.any()) for part in parts)
        self.loose = tuple(array(part, dtype=model.dtype, device=model.device) for part in parts)

    def apply(self, state: State, dt: float) -> None:
        """Change the velocities of a state that begins, [m/s] and [rad/s], for steps of dt [s]; recorded by a tape."""
        model, (particles, bodies) = self.model, self.loose
        of_particles, of_bodies = leapfrog_kernels(model.dtype)
        if self._any[0]:
            inputs = [particles, state.particle_f, model.particle_inv_mass, model.gravity, dt]
            launch(of_particles, model.particle_count, inputs, [state.particle_qd])
        if self._any[1]:
            forces = self._solver.outer_forces(state, dt)
            inputs = [bodies, forces, model.body_inv_mass, model.body_inv_inertia, model.gravity, state.body_q, dt]
            launch(of_bodies, model.body_count, inputs, [state.body_qd])


FIXED = -1
"""In place of a mover, for places in the world."""


def _rows(batches: Sequence[ConstraintBatch], particles: int) -> tuple[list[np.ndarray], list[bool]]:
    """Of each set that may pull at what rests, the movers of its constraints, particles first, or `FIXED`; whether it
    pulls by how far it has given way.  Contacts, which open, do not count, and a joint of any compliance is rigid."""
    rows, soft = list[np.ndarray](), list[bool]()
    for made in (batch.set for batch in batches):
        c, slots, points = made.constraint, made.slots, made.points.numpy()
        if made.surface or (c.unilateral and not c.of_joint) or not any(c.elastic):
            continue
        movers = [points[:, list(slots.particles)], points[:, [own[0] for own in slots.bodies]] + particles]
        alone = sum(of.shape[1] for of in movers) == 1  # held at a place that is a parameter, as by an attachment
        in_world = np.full((made.count, int(alone or WORLD in slots.kinds)), FIXED)
        rows.append(np.concatenate([*movers, in_world], axis=1))
        soft.append(bool(c.law is not None or any((of.numpy() > 0.0).any() for of in _stiffnesses(made))))
    return rows, soft


def _stiffnesses(made: ConstraintSet) -> list[array]:
    """What is positive where constraints pull by how far they have given way.  The drive of a joint may be a mere
    damper."""
    if made.constraint.driven:
        return [made.parameters["target_ke"]]
    return [] if made.constraint.of_joint else [made.compliance]


def _neighbours(rows: np.ndarray, free: np.ndarray) -> np.ndarray:
    """(n, 2) movers that rows hold together: each with the next one of its row, if both are free."""
    moving = (rows >= 0) & free[rows]
    order = np.argsort(~moving, axis=1, kind="stable")  # what is not free would come between others
    rows, moving = (np.take_along_axis(of, order, axis=1) for of in (rows, moving))
    return np.stack([rows[:, :-1], rows[:, 1:]], axis=-1)[moving[:, 1:]]


def _components(pairs: np.ndarray, count: int) -> np.ndarray:
    """(count,) the lowest number of what pairs (n, 2) connect each with; scipy.sparse takes .1 s to import."""
    least = np.arange(count)
    while True:
        before = least
        ends = before[pairs]
        least = before.copy()
        np.minimum.at(least, ends.ravel(), np.repeat(ends.min(axis=1, initial=count), 2))
        least = least[least]  # as far again as one has come
        if (least == before).all():
            return least
