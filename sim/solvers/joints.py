"""What drives joints and bodies from outside during a step: targets that change over time, forces along free
coordinates, forces and torques over time; and dry friction of joints that come to a stop within it, and go back."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from copy import copy
from dataclasses import dataclass
from functools import cache

import numpy as np

from sim.constraints.base import Constraint
from sim.constraints.contact.laws.friction import turning
from sim.constraints.joints.frames import axis_of, joint_frame_of
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import body_struct, slot_struct
from sim.constraints.slots.linearization import masses_of, row_functions, rows_of, turns, velocities_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.library.quaternion import quat_rotate
from sim.core.lang.library.scalar import clamp
from sim.core.lang.library.search import lower_bound
from sim.core.lang.library.transform import transform_point
from sim.core.lang.library.vector import cross, spatial_bottom, spatial_top
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, float64, int32, transformation, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.model.control import Control
from sim.model.fields import BALL, FREE, PRISMATIC, REVOLUTE
from sim.model.model import Model
from sim.model.state import State
from sim.solvers.batch import ConstraintBatch
from sim.solvers.bodies import BodyStep


@cache
def joint_kernels(real: Scalar) -> tuple[Kernel, Kernel]:
    """Targets of drives at the end of a step, and forces on bodies at its start, for float32 or float64."""
    vec3, frame, spatial = vector(3, real), transformation(real), vector(6, real)

    @kernel
    def drive_targets(
        joint: array[int],
        own_pos: array[real],
        own_vel: array[real],
        q_start: array[int],
        qd_start: array[int],
        target_pos: array[real],
        target_vel: array[real],
        key_offset: array[int],
        smooth: array[int],
        key_time: array[real],
        key_value: array[real],
        clock: array[float64],
        dt: float64,
        pos: array[real],
        vel: array[real],
    ):
        k = tid()
        j = joint[k]
        if j < 0:  # not of a joint
            pos[k], vel[k] = own_pos[k], own_vel[k]
        else:
            time = clock[0] + dt
            at, speed = float64(target_pos[q_start[j]]), float64(target_vel[qd_start[j]])
            first, last = key_offset[j], key_offset[j + 1] - 1
            if last > first:
                at += float64(key_value[first])
            for m in range(first, last):
                begin, length = float64(key_time[m]), float64(key_time[m + 1]) - float64(key_time[m])
                s = clamp((time - begin) / length, float64(0.0), float64(1.0))
                rate = float64(1.0)
                if smooth[j] == 1:
                    rate = 6.0 * s * (1.0 - s)
                    s = s * s * (3.0 - 2.0 * s)
                further = float64(key_value[m + 1]) - float64(key_value[m])
                at += s * further
                if time >= begin and time < begin + length:
                    speed += rate * further / length
            pos[k], vel[k] = real(at), real(speed)

    @kernel
    def forces_on_bodies(
        body_q: array[frame],
        body_f: array[spatial],
        com: array[vec3],
        offset: array[int],
        ends: array[int],
        kind: array[int],
        parent: array[int],
        child: array[int],
        X_p: array[frame],
        X_c: array[frame],
        qd_start: array[int],
        joint_f: array[real],
        out: array[spatial],
    ):
        i = tid()
        center = transform_point(body_q[i], com[i])
        F, T = spatial_top(body_f[i]), spatial_bottom(body_f[i])
        for m in range(offset[i], offset[i + 1]):
            j = ends[m] // 2
            side = real(1.0) if ends[m] % 2 == 0 else real(-1.0)
            f = qd_start[j]
            on_parent, on_child = joint_frame_of(parent[j], X_p[j], body_q), joint_frame_of(child[j], X_c[j], body_q)
            if kind[j] == REVOLUTE:
                T += (side * joint_f[f]) * axis_of(on_parent.q, 0)
            elif kind[j] == PRISMATIC:
                push = (side * joint_f[f]) * axis_of(on_parent.q, 0)
                F += push
                T += cross(on_child.p - center, push)
            elif kind[j] == BALL:
                T += side * quat_rotate(on_parent.q, vec3(joint_f[f], joint_f[f + 1], joint_f[f + 2]))
            elif kind[j] == FREE:
                push = side * vec3(joint_f[f], joint_f[f + 1], joint_f[f + 2])
                place = transform_point(body_q[child[j]], com[child[j]])
                F += push
                T += side * vec3(joint_f[f + 3], joint_f[f + 4], joint_f[f + 5]) + cross(place - center, push)
        out[i] = spatial(F[0], F[1], F[2], T[0], T[1], T[2])

    return drive_targets, forces_on_bodies


@cache
def thrust_kernel(real: Scalar) -> Kernel:
    """Forces and torques over time, added to the outer forces on bodies, for float32 or float64."""
    vec3, frame, spatial = vector(3, real), transformation(real), vector(6, real)

    @kernel
    def forces_over_time(
        body_q: array[frame],
        com: array[vec3],
        begin: array[int],
        placed: array[int],
        at: array[vec3],
        offset: array[int],
        times: array[float64],
        force: array[vec3],
        torque: array[vec3],
        clock: array[float64],
        dt: float64,
        body_f: array[spatial],
        out: array[spatial],
    ):
        i = tid()
        F, T = spatial_top(body_f[i]), spatial_bottom(body_f[i])
        time = clock[0] + 0.5 * dt  # the mean of what is linear over the step
        for m in range(begin[i], begin[i + 1]):
            first, end = offset[m], offset[m + 1]
            k = max(lower_bound(times, first, end, time) - 1, first)
            n = min(k + 1, end - 1)
            s = real(clamp((time - times[k]) / max(times[n] - times[k], 1e-300), float64(0.0), float64(1.0)))
            push = force[k] + s * (force[n] - force[k])
            F += push
            T += torque[k] + s * (torque[n] - torque[k])
            if placed[m] == 1:
                T += cross(quat_rotate(body_q[i].q, at[m] - com[i]), push)
        out[i] = spatial(F[0], F[1], F[2], T[0], T[1], T[2])

    return forces_over_time


@dataclass(eq=False)
class JointDrives:
    """The drives of a model during a step.

    Their constraints read `target_pos` and `target_vel` as they are at the end of a step: arrays of a solver, in place
    of those of their set, for the batches that `take` was called with.  forces: on bodies, with those along joints;
    thrusts: with those over time as well.
    """

    model: Model

    def __post_init__(self) -> None:
        self._driven: list[tuple[ConstraintBatch, array, list[array]]] = []
        model = self.model
        self.forces = zeros(model.body_count if model.joint_count else 0, model.body_qd.dtype, model.device,
                            model.requires_grad)  # fmt: skip
        self.thrusts = zeros(model.body_count if model.thrust_at.size else 0, model.body_qd.dtype, model.device,
                             model.requires_grad)  # fmt: skip

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        return [self.forces, self.thrusts, *(a for _, _, targets in self._driven for a in targets)]

    def take(self, batch: ConstraintBatch) -> None:
        """Gives the constraints of a batch targets of a step, if they are drives of joints."""
        model, made = self.model, batch.set
        labels = {label: number for number, label in enumerate(model.joints)}
        if not made.constraint.driven or not any(label in labels for label in made.names):
            return
        joint = np.full(made.count, -1, np.int32)
        for label in made.names:
            rows = made.index_of[label]
            if label in labels:
                joint[rows[rows >= 0]] = (labels[label] * model.worlds + np.arange(model.worlds))[rows >= 0]
        targets = [zeros(made.count, model.dtype, model.device, model.requires_grad) for _ in range(2)]
        batch.parameters.target_pos, batch.parameters.target_vel = targets
        self._driven.append((batch, array(joint, dtype=int32, device=model.device), targets))

    def aim(self, before: State, control: Control | None, dt: float) -> None:
        """The targets at the end of a step."""
        model = self.model
        own_pos, own_vel = model.joint_target_pos, model.joint_target_vel
        pos = own_pos if control is None or control.joint_target_pos is None else control.joint_target_pos
        vel = own_vel if control is None or control.joint_target_vel is None else control.joint_target_vel
        keys = [model.target_key_offset, model.target_key_smooth, model.target_key_time, model.target_key_value]
        for batch, joint, targets in self._driven:
            own = [batch.set.parameters[name] for name in ("target_pos", "target_vel")]
            aims = [model.joint_q_start, model.joint_qd_start, pos, vel]
            launch(joint_kernels(model.dtype)[0], joint.size, [joint, *own, *aims, *keys, before.clock, dt], targets)

    def push(self, before: State, control: Control | None, dt: float) -> array:
        """The outer forces on bodies in a step, with those along the free coordinates of joints and those over time."""
        model, forces = self.model, self._along_joints(before, control)
        if not model.thrust_at.size:
            return forces
        series = [model.thrust_begin, model.thrust_placed, model.thrust_at, model.thrust_offset, model.thrust_time]
        inputs = [before.body_q, model.body_com, *series, model.thrust_force, model.thrust_torque, before.clock, dt]
        launch(thrust_kernel(model.dtype), model.body_count, [*inputs, forces], [self.thrusts])
        return self.thrusts

    def _along_joints(self, before: State, control: Control | None) -> array:
        """The outer forces on bodies, with those along the free coordinates of joints."""
        model = self.model
        if control is None or control.joint_f is None or not model.joint_count:
            return before.body_f
        ends = [model.body_joint_offset, model.body_joint, model.joint_kind, model.joint_parent, model.joint_child]
        frames = [model.joint_X_p, model.joint_X_c, model.joint_qd_start, control.joint_f]
        inputs = [before.body_q, before.body_f, model.body_com, *ends, *frames]
        launch(joint_kernels(model.dtype)[1], model.body_count, inputs, [self.forces])
        return self.forces


LEAST = 1e-3
"""Of what a rate loses in a step, what friction takes that is all but none: it turns round wholly."""


@memoize
def make_turned(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """`turned` of joints `tid()`, between bodies: from dC/dt as this step and the last one began."""
    vec2, spatial, owners = vector(2, real), vector(6, real), tuple(own[0] for own in slots.bodies)
    Data, SlotData, Bodies = parameter_struct(c, real), slot_struct(c, slots, real), body_struct(real)
    masses_at, rows_at, velocities = masses_of(slots), rows_of(c, slots, real), velocities_of(slots)
    _, response, product = row_functions(slots)
    limit_at = tuple(c.parameters).index(c.limited)

    @kernel(name=f"turn_{c.name}_{slots.kinds}")
    def turn_round(
        points: array2d[int],
        placing: SlotData,
        data: Data,
        bodies: Bodies,
        body_qd: array[spatial],
        body_qd_last: array[spatial],
        dt: real,
        turned: array[real],
    ):
        k = tid()
        b_k, values = [points[k, j] for j in static(owners)], fields_at(data, k)
        begun = [(bodies.x[b_k[g]], bodies.q[b_k[g]]) for g in static(range(len(owners)))]
        masses, inertias = masses_at([], b_k, begun, [], bodies)
        _, G = rows_at([], begun, fields_at(placing, k), values)
        easy = product(G[0], response(G[0], masses, inertias))
        rate = vec2(product(G[0], velocities([], b_k, [], body_qd)), 0.0)
        last = vec2(product(G[0], velocities([], b_k, [], body_qd_last)), 0.0)
        takes = easy * values[static(limit_at)] * dt
        if takes == 0.0:  # as of the least friction there is: one that is given as 0 has a derivative too
            takes = real(LEAST) * abs(last[0] - rate[0])
        turned[k] = turning(rate, last, takes)[0]

    return turn_round


@dataclass(eq=False)
class DryJoints:
    """The rows of dry friction of a model's joints, of which a step finds `turned`."""

    model: Model
    bodies: BodyStep
    batches: list[ConstraintBatch]

    def __post_init__(self) -> None:
        self.batches = [b for b in self.batches if turns(b.set.constraint)]
        # without the array that `find` writes: a launch does not read what it writes
        self._given = [copy(batch.parameters) for batch in self.batches]
        for batch in self.batches:
            batch.parameters.turned = zeros(
                batch.set.count, self.model.dtype, self.model.device, self.model.requires_grad
            )

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        return [batch.parameters.turned for batch in self.batches]

    def find(self, body_qd: array, last: array, dt: float) -> None:
        """For a step that begins with these velocities; last: those one step earlier."""
        for batch, given in zip(self.batches, self._given, strict=True):
            made = batch.set
            inputs = [made.points, batch.placing, given, self.bodies.start, body_qd, last, dt]
            kernel = make_turned(made.constraint, made.slots, self.model.dtype)
            launch(kernel, made.count, inputs, [batch.parameters.turned])
