"""How a step begins and ends for rigid bodies: exponential maps, and angular momentum at the midpoint.

    L = I(q) omega + h tau          omega_m = I(q_mid)^-1 L, q_mid = exp(h omega_m / 2) q      (fixed point)
    q* = exp(h omega_m) q           ... the projections turn it further, to q' ...
    omega' = I(q')^-1 (L + impulse / h)

`impulse` is the sum of lambda tau over all rows: the angular momentum at the end is that of the start and of the
torques, to rounding, whatever the projections have done to the rotation.  With the angular velocity from a difference
of quaternions instead (Mueller et al. 2020) a spin of 50 rad/s loses 70 % in a second at 60 Hz, and a free body its
axis.  The midpoint rule for L keeps |L|, and the energy to second order (J. C. Simo, K. K. Wong, "Unconditionally
stable algorithms for rigid body dynamics that exactly preserve energy and momentum", 1991).

A held body with motions goes where they say, p + sum d and exp(sum theta) q from where it begins, whatever pulls at it.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from sim.constraints.slots.bodies import body_struct, in_world
from sim.constraints.slots.rotations import exponential, logarithm
from sim.core.lang.constants import nan, pi
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import (
    quat_from_rotation_vector,
    quat_inverse,
    quat_rotate,
)
from sim.core.lang.library.vector import dot, normalize, spatial_bottom, spatial_top
from sim.core.lang.types import Scalar, float32, float64, matrix, quaternion, transformation, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.model.build.motions import TURN
from sim.model.fields import Field
from sim.model.model import Model
from sim.model.state import State
from sim.solvers.batch import ConstraintBatch
from sim.solvers.integrators.implicit import BODY_LOW
from sim.solvers.integrators.step_kernels import followed, progress, step_kernels, track_struct, tracks_of, two_sum

FIXED_POINT = 2
"""Iterations for the angular velocity at the midpoint: each gains a factor of h omega."""


@cache
def body_kernels(real: Scalar) -> tuple[Kernel, Kernel, Kernel]:
    """The prediction and the end of a step of bodies, and prescribed motion, for float32 or float64."""
    vec3, mat33, spatial = vector(3, real), matrix((3, 3), real), vector(6, real)
    frame, Quat, compensated = transformation(real), quaternion(real), real is float32
    vec3d = vector(3, float64)

    @func
    def midpoint_velocity(q, omega, L, inv_inertia, h):
        """omega_m, from the angular momentum at the midpoint and a first guess."""
        for _ in static(range(FIXED_POINT)):
            omega = in_world(exponential((0.5 * h) * omega) * q, inv_inertia, L)
        return omega

    Tracks = track_struct(real)

    @kernel
    def predict_bodies(
        body_q: array[frame],
        body_qd: array[spatial],
        body_f: array[spatial],
        com: array[vec3],
        inertia: array[mat33],
        inv_mass: array[real],
        inv_inertia: array[mat33],
        gravity: array[vec3],
        dt: real,
        x: array[vec3],
        q: array[Quat],
        momentum: array[vec3],
        dx: array[vec3],
        turn: array[Quat],
        impulse: array[vec3],
    ):
        i = tid()
        q_i = normalize(body_q[i].q)  # gradients of states are those of rotations: none along q itself
        x[i], q[i] = body_q[i].p + quat_rotate(q_i, com[i]), q_i
        moved, turned, L = vec3(), Quat(0.0, 0.0, 0.0, 1.0), vec3()
        if inv_mass[i] > 0.0:
            v, omega = spatial_top(body_qd[i]), spatial_bottom(body_qd[i])
            moved = dt * v + (dt * dt) * (gravity[0] + inv_mass[i] * spatial_top(body_f[i]))
            L = in_world(q_i, inertia[i], omega) + dt * spatial_bottom(body_f[i])
            theta = dt * midpoint_velocity(q_i, omega, L, inv_inertia[i], dt)
            if dot(theta, theta) >= pi * pi:  # which way it went could not be said: no step may be as long
                theta = vec3(nan, nan, nan)
            turned = exponential(theta)
        dx[i], turn[i], momentum[i], impulse[i] = moved, turned, L, vec3()

    @kernel
    def finish_bodies(
        x: array[vec3],
        q: array[Quat],
        momentum: array[vec3],
        dx: array[vec3],
        turn: array[Quat],
        impulse: array[vec3],
        body_q: array[frame],
        low: array[vec3],
        com: array[vec3],
        inv_mass: array[real],
        inv_inertia: array[mat33],
        dt: real,
        clock: array[float64],
        step: float64,
        q_out: array[frame],
        low_out: array[vec3],
        qd_out: array[spatial],
        clock_out: array[float64],
    ):
        i = tid()
        q_i = normalize(turn[i] * q[i])
        place = x[i] + dx[i] - quat_rotate(q_i, com[i])
        if compensated:
            moved = dx[i] - (quat_rotate(q_i, com[i]) - quat_rotate(q[i], com[i]))
            place, low_out[i] = two_sum(body_q[i].p, moved + low[i])
        q_out[i] = frame(place, q_i)
        v, omega = dx[i] / dt, logarithm(turn[i]) / dt
        if inv_mass[i] > 0.0:
            omega = in_world(q_i, inv_inertia[i], momentum[i] + impulse[i] / dt)
        qd_out[i] = spatial(v[0], v[1], v[2], omega[0], omega[1], omega[2])
        if i == 0:
            clock_out[0] = clock[0] + step

    @kernel
    def prescribe_bodies(
        body: array[int],
        group: array[int],
        offset: array[int],
        kind: array[int],
        motion: array[vec3],
        a: array[real],
        b: array[real],
        tracks: Tracks,
        clock: array[float64],
        dt: float64,
        anchor: array[frame],
        body_q: array[frame],
        com: array[vec3],
        q: array[Quat],
        dx: array[vec3],
        turn: array[Quat],
    ):
        k = tid()
        i = body[k]
        move, angle = followed(tracks, group[k], clock[0] + dt)
        _, before = followed(tracks, group[k], clock[0])
        place = vec3d(anchor[i].p) + move
        for m in range(offset[group[k]], offset[group[k] + 1]):
            d, begin, end = vec3d(motion[m]), float64(a[m]), float64(b[m])
            if kind[m] >= TURN:
                angle += d * progress(kind[m] - TURN, begin, end, clock[0] + dt)
                before += d * progress(kind[m] - TURN, begin, end, clock[0])
            else:
                place += d * progress(kind[m], begin, end, clock[0] + dt)
        theta = vec3(angle)
        if dot(angle - before, angle - before) >= pi * pi:  # as in the prediction
            theta = vec3(nan, nan, nan)
        q_end = quat_from_rotation_vector(theta) * normalize(anchor[i].q)
        dx[i] = vec3(place - vec3d(body_q[i].p)) + (quat_rotate(q_end, com[i]) - quat_rotate(q[i], com[i]))
        turn[i] = q_end * quat_inverse(q[i])

    return predict_bodies, finish_bodies, prescribe_bodies


@dataclass(eq=False)
class BodyStep:
    """The bodies of a model during a step.

    start: what the step does not change of them (`sim.constraints.slots.bodies`); dx [m], turn, impulse: how far they
    have been moved; momentum: angular, as the step begins, with the outer torques.
    """

    model: Model

    def __post_init__(self) -> None:
        model, real = self.model, self.model.dtype
        n, vec3, quat = model.body_count, vector(3, real), quaternion(real)
        self.dx, self.turn, self.impulse, self.momentum, x, q = (
            zeros(n, kind, model.device, model.requires_grad) for kind in (vec3, quat, vec3, vec3, vec3, quat)
        )
        self.start = body_struct(real)()
        self.start.inv_mass, self.start.inv_inertia = model.body_inv_mass, model.body_inv_inertia
        self.start.x, self.start.q = x, q
        self.scratch = [x, q, self.momentum, *self.moving]
        self.history: tuple[Field, ...] = (BODY_LOW,) if real is float32 and n else ()
        self._none = zeros(1, vec3, model.device)
        self._tracks = tracks_of(model)

    @property
    def moving(self) -> list[array]:
        """What projections change."""
        return [self.dx, self.turn, self.impulse]

    def predict(self, before: State, forces: array, dt: float, motion: array) -> None:
        """Displacements and turns by inertia and outer forces, or prescribed by motions with these vectors."""
        model = self.model
        if not model.body_count:
            return
        now = [before.body_q, before.body_qd, forces, model.body_com]
        inputs = [*now, model.body_inertia, model.body_inv_mass, model.body_inv_inertia, model.gravity, dt]
        outputs = [self.start.x, self.start.q, self.momentum, *self.moving]
        launch(body_kernels(model.dtype)[0], model.body_count, inputs, outputs)
        if model.motion_body.size:
            moved = [model.motion_body, model.motion_body_group, model.motion_offset, model.motion_kind, motion]
            poses = [model.body_q, before.body_q, model.body_com, self.start.q]
            inputs = [*moved, model.motion_a, model.motion_b, self._tracks, before.clock, dt, *poses]
            launch(body_kernels(model.dtype)[2], model.motion_body.size, inputs, [self.dx, self.turn])

    def finish(self, before: State, after: State, dt: float) -> None:
        """Poses, velocities and time after a step."""
        model = self.model
        if not model.body_count:
            return
        moved = [self.start.x, self.start.q, self.momentum, *self.moving]
        low, low_after = (state.history.get(BODY_LOW.name, self._none) for state in (before, after))
        inputs = [
            *moved,
            before.body_q,
            low,
            model.body_com,
            model.body_inv_mass,
            model.body_inv_inertia,
            dt,
            before.clock,
            dt,
        ]
        launch(
            body_kernels(model.dtype)[1],
            model.body_count,
            inputs,
            [after.body_q, low_after, after.body_qd, after.clock],
        )


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
        turn[i] = exponential(twist[i]) * turn_i

    return split, split_inertia, correct_bodies


class MassSplitting:
    """The movers of a model, split among the constraints of some batches: one of n constraints counts as n movers of an
    nth of its mass, so that all of them act at once (R. Tonge, F. Benevolenski, A. Voroshilov, "Mass Splitting for
    Jitter-Free Parallel Rigid Body Simulation", 2012).

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
