"""XPBD: position-based dynamics with compliance, in small steps.

M. Macklin, M. Mueller, N. Chentanez, "XPBD", MIG 2016 (the projection and its multipliers); M. Macklin, K. Storey, M. Lu,
P. Terdiman, N. Chentanez, S. Jeschke, M. Mueller, "Small Steps in Physics Simulation", SCA 2019 (substeps instead of
iterations).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from numbers import Real
from typing import Any

import numpy as np

from sim.constraints.projection import make_projection, parameter_struct, value_type
from sim.core.lang.builtins import cos, tid
from sim.core.lang.constants import pi
from sim.core.lang.errors import SimError, did_you_mean
from sim.core.lang.function import func
from sim.core.lang.library.scalar import clamp
from sim.core.lang.types import Scalar, float64, vector
from sim.core.runtime.array import array
from sim.core.runtime.creation import zeros
from sim.core.runtime.kernel import Kernel, kernel
from sim.core.runtime.launch import launch
from sim.model.constraint_set import ConstraintSet
from sim.model.control import Contacts, Control
from sim.model.model import Model
from sim.model.motions import MOVE_SMOOTH, SWING
from sim.model.state import State


class SolverError(SimError, ValueError):
    """A step that cannot be taken as asked."""


@dataclass(frozen=True)
class _Kernels:
    predict: Kernel
    prescribe: Kernel
    finish: Kernel
    correct: Kernel


@cache
def _kernels(real: Scalar) -> _Kernels:
    vec3 = vector(3, real)

    @kernel
    def predict(x: array[vec3], v: array[vec3], f: array[vec3], w: array[real], gravity: array[vec3], dt: real, x_out: array[vec3]):
        i = tid()
        if w[i] > 0.0:
            x_out[i] = x[i] + dt * v[i] + (dt * dt) * (gravity[0] + w[i] * f[i])
        else:
            x_out[i] = x[i]

    @func
    def progress(kind: int, a: real, b: real, time: real):
        """How far along its displacement a motion is at a time."""
        if kind == SWING:
            return 0.5 * (1.0 - cos(2.0 * pi * a * time))
        s = clamp((time - a) / (b - a), real(0.0), real(1.0))
        if kind == MOVE_SMOOTH:
            s = s * s * (3.0 - 2.0 * s)
        return s

    @kernel
    def prescribe(
        point: array[int], anchor: array[vec3], group: array[int], slot: array[int], offset: array[int], kind: array[int],
        displacement: array[vec3], a: array[real], b: array[real], clock: array[float64], dt: real, x: array[vec3], target: array[vec3],
    ):
        k = tid()
        time = real(clock[0]) + dt
        place = anchor[k]
        for m in range(offset[group[k]], offset[group[k] + 1]):
            place += displacement[m] * progress(kind[m], a[m], b[m], time)
        if slot[k] < 0:
            x[point[k]] = place
        else:
            target[slot[k]] = place

    @kernel
    def finish(x_before: array[vec3], x: array[vec3], dt: real, clock: array[float64], step: float64, v_out: array[vec3], clock_out: array[float64]):
        i = tid()
        v_out[i] = (x[i] - x_before[i]) / dt
        if i == 0:
            clock_out[0] = clock[0] + step

    @kernel
    def correct(correction: array[vec3], x: array[vec3]):
        i = tid()
        x[i] += correction[i]

    return _Kernels(predict, prescribe, finish, correct)


@dataclass(eq=False)
class _Pass:
    """What the solver needs to project one set of constraints."""

    set: ConstraintSet
    data: Any
    multiplier: array
    first: Kernel
    next: Kernel


@dataclass(eq=False)
class SolverXPBD:
    """Steps a model by XPBD.

    iterations: projections of every constraint per step; small steps with one iteration converge best.
    order:      "colored": Gauss-Seidel over colours whose constraints share no free point; "jacobi": all constraints at
                once, corrections averaged by mass splitting.  Both conserve momentum.
    Pinned points (zero inverse mass) never move, unless their attachment prescribes a motion.
    """

    model: Model
    iterations: int = 1
    order: str = "colored"
    passes: list[_Pass] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        model = self.model
        if int(self.iterations) < 1:
            raise SolverError(f"iterations={self.iterations}; expected at least 1")
        if self.order not in ("colored", "jacobi"):
            raise SolverError(f"order={self.order!r}{did_you_mean(str(self.order), ('colored', 'jacobi'))}; expected 'colored' or 'jacobi'")
        real, averaged = model.dtype, self.order == "jacobi"
        self._kernels = _kernels(real)
        for constraints in model.constraint_sets.values():
            c = constraints.constraint
            data = parameter_struct(c, real)()
            for name, values in constraints.parameters.items():
                setattr(data, name, values)
            damped = constraints.damping is not None
            keeps = model.requires_grad and self.iterations > 1
            multiplier = zeros(constraints.count, value_type(c, real), model.device, requires_grad=keeps)
            make = [make_projection(c, real, first, damped, averaged) for first in (True, False)]
            self.passes.append(_Pass(constraints, data, multiplier, *make))
        vec3 = vector(3, real)
        self._no_damping = zeros(1, real, model.device)
        self._share = self._shares() if averaged else self._no_damping
        self._correction = zeros(model.particle_count, vec3, model.device, requires_grad=model.requires_grad) if averaged else None
        soft = model.constraint_sets.get("attachment")
        self._target = soft.parameters["target"] if soft is not None else zeros(1, vec3, model.device, requires_grad=model.requires_grad)
        self._prescribes = model.attachment_point.size if soft is not None or model.motion_kind.size else 0

    def _shares(self) -> array:
        """(particles,) number of constraints on each point, as its mass is split among them."""
        count = np.zeros(self.model.particle_count)
        for p in self.passes:
            np.add.at(count, p.set.points.numpy(), 1.0)
        return array(np.maximum(count, 1.0), dtype=self.model.dtype, device=self.model.device)

    @property
    def inputs(self) -> list[array]:
        """Arrays beside the state that a step reads: derived data and parameters of the model."""
        sets = [a for p in self.passes for a in (p.set.points, p.set.compliance, p.set.damping, *p.set.parameters.values()) if a is not None]
        return [*self.model.arrays.values(), self.model.gravity, *sets]

    def multipliers(self, constraint: str) -> array:
        """Multipliers lambda of the last step for a constraint type, in the order of its set; force = lambda / dt^2 times the gradient."""
        for p in self.passes:
            if p.set.constraint.name == constraint:
                return p.multiplier
        raise SolverError(f"the model has no constraint '{constraint}'{did_you_mean(constraint, [p.set.constraint.name for p in self.passes])}")

    def step(self, state_in: State, state_out: State, control: Control | None, contacts: Contacts | None, dt: float) -> None:
        """One step of `dt` seconds from `state_in` (never written) to `state_out`."""
        self._check(state_in, state_out, dt)
        self.model.refresh()
        motion = self.model.motion_vector if control is None else control.motion_vector
        for _ in self._stages(state_in, state_out, motion, dt):
            pass

    def _stages(self, state_in: State, state_out: State, motion: array, dt: float) -> Iterator[tuple[array, _Pass | None, int, int]]:
        """The step, bit by bit: yields what was just written, and by which rows of which constraints (if by any)."""
        model, k = self.model, self._kernels
        n, x = model.particle_count, state_out.particle_q

        # predicted positions (alg. 1, lines 1 to 3), and positions that attachments prescribe
        launch(k.predict, n, [state_in.particle_q, state_in.particle_qd, state_in.particle_f, model.particle_inv_mass, model.gravity, dt], [x])
        if self._prescribes:
            held = [model.attachment_point, model.attachment_anchor, model.attachment_group, model.attachment_slot]
            moved = [model.motion_offset, model.motion_kind, motion, model.motion_a, model.motion_b]
            launch(k.prescribe, self._prescribes, [*held, *moved, state_in.clock, dt], [x, self._target])
        yield x, None, 0, 0

        # constraint projections (lines 5 to 13)
        for iteration in range(self.iterations):
            if self._correction is None:
                for p in self.passes:
                    for begin, end in zip(p.set.offsets, p.set.offsets[1:]):  # noqa: B905 pairs of neighbours
                        self._project(p, iteration, begin, end - begin, state_in.particle_q, dt, x, x)
                        yield x, p, begin, end
            else:
                self._correction.zero_()
                for p in self.passes:
                    self._project(p, iteration, 0, p.set.count, state_in.particle_q, dt, x, self._correction)
                    yield self._correction, p, 0, p.set.count
                launch(k.correct, n, [self._correction], [x])

        # velocities (lines 15 and 16)
        launch(k.finish, n, [state_in.particle_q, x, dt, state_in.clock, dt], [state_out.particle_qd, state_out.clock])

    def _project(self, p: _Pass, iteration: int, start: int, count: int, x_before: array, dt: float, x: array, x_out: array) -> None:
        kernel = p.first if iteration == 0 else p.next
        damping = p.set.damping if p.set.damping is not None else self._no_damping
        data = [p.set.points, p.data, p.set.compliance, damping, self.model.particle_inv_mass, self._share]
        launch(kernel, count, [start, *data, x_before, dt, x], [x_out, p.multiplier])

    def blame(self, before: State, after: State, control: Control | None, dt: float) -> str:
        """Takes the step from `before` again, into `after`, and says in words where a position first became non-finite."""
        motion = self.model.motion_vector if control is None else control.motion_vector
        for written, p, begin, end in self._stages(before, after, motion, dt):
            bad = np.flatnonzero(~np.isfinite(written.numpy()).all(axis=1))
            if not len(bad):
                continue
            if p is None:
                return f"at point {bad[0]}, as predicted from its velocity and the forces on it"
            rows = p.set.points.numpy()[begin:end]
            of_it = rows[np.isin(rows, bad).any(axis=1)][0].tolist()
            return f"at point {bad[0]}, moved by the constraint '{p.set.constraint.name}' on points {of_it}"
        return "in no single projection"

    def _check(self, state_in: State, state_out: State, dt: float) -> None:
        if not isinstance(dt, Real) or not dt > 0.0:
            raise SolverError(f"dt={dt!r}; expected a positive time step in seconds")
        for name, state in (("state_in", state_in), ("state_out", state_out)):
            if state.model is not self.model:
                raise SolverError(f"{name} belongs to another model; make it with solver.model.state()")
        if state_in is state_out:
            raise SolverError("state_in and state_out are the same state; use two and let them change places")
