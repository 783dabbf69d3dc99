"""What all solvers share: predicted positions, prescribed ones, velocities from positions, and who is to blame."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, fields
from functools import cache
from numbers import Real
from typing import Any

import numpy as np

from sim.constraints.flow import make_flow
from sim.constraints.projection import parameter_struct, value_type
from sim.core.lang.constants import pi
from sim.core.lang.errors import SimError, did_you_mean, entry_point
from sim.core.lang.frontend.builtins import cos, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.scalar import clamp
from sim.core.lang.library.vector import length
from sim.core.lang.types import Scalar, float64, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros, zeros_like
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
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
def _kernels(real: Scalar, in_air: bool) -> _Kernels:
    vec3 = vector(3, real)

    @kernel
    def predict(
        x: array[vec3],
        v: array[vec3],
        f: array[vec3],
        w: array[real],
        drag: array[real],
        gravity: array[vec3],
        dt: real,
        x_out: array[vec3],
    ):
        i = tid()
        if w[i] > 0.0:
            slowed = v[i]
            if in_air:
                slowed = v[i] / (1.0 + dt * drag[i] * length(v[i]))  # never reversed, whatever the step
            x_out[i] = x[i] + dt * slowed + (dt * dt) * (gravity[0] + w[i] * f[i])
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
        point: array[int],
        anchor: array[vec3],
        group: array[int],
        slot: array[int],
        offset: array[int],
        kind: array[int],
        displacement: array[vec3],
        a: array[real],
        b: array[real],
        clock: array[float64],
        dt: real,
        x: array[vec3],
        target: array[vec3],
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
    def finish(
        x_before: array[vec3],
        x: array[vec3],
        dt: real,
        clock: array[float64],
        step: float64,
        v_out: array[vec3],
        clock_out: array[float64],
    ):
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
class Pass:
    """What a solver needs to work on one set of constraints."""

    set: ConstraintSet
    data: Any
    multiplier: array
    flows: dict[str, Kernel] = field(default_factory=dict)

    def of(self, state: State) -> Any:
        """The parameters of C with what elements remember in a state."""
        if not self.flows:
            return self.data
        made = parameter_struct(self.set.constraint, state.model.dtype)()
        for name, values in self.set.parameters.items():
            setattr(made, name, state.memory[f"{self.set.name}.{name}"] if name in self.flows else values)
        return made

    @property
    def colors(self) -> Iterator[tuple[int, int, bool]]:
        """First row and number of rows of the launches for each colour, and whether their constraints share no point,
        pinned or not."""
        offsets = self.set.offsets
        for begin, shared, end in zip(offsets, self.set.shared, offsets[1:], strict=False):
            if shared > begin:
                yield begin, shared - begin, True
            if end > shared:
                yield shared, end - shared, False


def token(value: Any) -> Hashable:
    """Tells whether an attribute is what it was: numbers, text and containers by value, arrays by their memory, other
    objects by identity.

    The objects have to be kept alive for as long as the token.
    """
    if isinstance(value, array):
        return id(value.buffer), value.ptr, value.shape, value.strides, value.requires_grad
    if type(value) in (list, tuple):
        return type(value), tuple(map(token, value))
    if type(value) is dict:
        return dict, tuple((token(key), token(x)) for key, x in value.items())
    if type(value) is set:
        return set, frozenset(map(token, value))
    if type(value) is np.ndarray and value.dtype != object:
        return value.dtype.str, value.shape, value.tobytes()
    return value if value is None or isinstance(value, (bool, int, float, str)) else id(value)


def own(value: Any) -> Any:
    """An attribute as it is now: containers are copied, so that what is written to them later does not show."""
    if type(value) in (list, tuple):
        return type(value)(map(own, value))
    if type(value) is dict:
        return {key: own(x) for key, x in value.items()}
    return value.copy() if type(value) in (set, np.ndarray) else value


@dataclass(eq=False)
class Solver:
    """Steps a model from one state to the next.  What happens to predicted positions is up to the kind of solver."""

    model: Model
    passes: list[Pass] = field(init=False, default_factory=list)

    def _prepare(self, keeps: bool) -> None:
        """Kernels and scratch for a step.  keeps: gradients flow through the multipliers."""
        model = self.model
        self._kernels, self._keeps = _kernels(model.dtype, model.in_air), keeps
        self._no_damping = zeros(1, model.dtype, model.device)
        self._prescribes = (
            model.attachment_point.size if "attachment" in model.constraint_sets or model.motion_kind.size else 0
        )
        self._own_scratch()

    def _own_scratch(self) -> None:
        """Makes arrays for all that a step writes before it reads it."""
        model = self.model
        real, vec3 = model.dtype, vector(3, model.dtype)
        self.passes = []
        for constraints in model.constraint_sets.values():
            c = constraints.constraint
            data = parameter_struct(c, real)()
            for name, values in constraints.parameters.items():
                setattr(data, name, values)
            multiplier = zeros(
                constraints.count, value_type(c, real), model.device, requires_grad=model.requires_grad and self._keeps
            )
            flows = {name: make_flow(c, real, name) for name in c.memory}
            self.passes.append(Pass(constraints, data, multiplier, flows))
        soft = model.constraint_sets.get("attachment")
        self._target = (
            soft.parameters["target"]
            if soft is not None
            else zeros(1, vec3, model.device, requires_grad=model.requires_grad)
        )

    def _ready(self) -> None:
        """Prepares anew where settings were changed."""

    def begin(self) -> None:
        """Before many steps at once: settings and derived data are brought up to date, also on an open tape."""
        self._ready()
        self.model.refresh(force=True)

    def bound(self) -> Solver:
        """A solver that takes the same steps, now and later: with the settings and the arrays that this one has now,
        and scratch of its own."""
        self._ready()
        made = copy.copy(self)
        made.__dict__.update({name: own(value) for name, value in vars(self).items()})
        made.model = self.model.bound()
        soft = made.model.constraint_sets.get("attachment")
        if soft is not None:
            soft.parameters["target"] = zeros_like(soft.parameters["target"])
        made._own_scratch()
        return made

    def __repr__(self) -> str:
        own = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.init and f.name != "model")
        return f"{type(self).__name__}({own}{'; ' if own else ''}{self.model!r})"

    @property
    def settings(self) -> Hashable:
        """What a step depends on beside the content of arrays: all attributes, objects other than containers by
        identity."""
        return tuple((name, token(value)) for name, value in vars(self).items())

    @property
    def sweeps(self) -> int:
        """How often a step goes over all constraints."""
        return 1

    @property
    def inputs(self) -> list[array]:
        """Arrays beside the state that a step reads, and does not write before: derived data and parameters of the
        model."""
        sets = [
            a
            for p in self.passes
            for a in (p.set.points, p.set.compliance, p.set.damping, *p.set.parameters.values())
            if a is not None and not (a is self._target and self._prescribes)
        ]
        return [*self.model.arrays.values(), self.model.gravity, *sets]

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        return [*(p.multiplier for p in self.passes), self._target]

    def multipliers(self, constraint: str) -> array:
        """Multipliers lambda of the last step for a constraint type, in the order of its set; force = lambda / dt^2
        times the gradient."""
        for p in self.passes:
            if p.set.constraint.name == constraint:
                return p.multiplier
        raise SolverError(
            "the model has no constraint"
            f" '{constraint}'{did_you_mean(constraint, [p.set.constraint.name for p in self.passes])}"
        )

    @entry_point
    def step(
        self, state_in: State, state_out: State, control: Control | None, contacts: Contacts | None, dt: float
    ) -> None:
        """One step of `dt` seconds from `state_in` (never written) to `state_out`."""
        self._check(state_in, state_out, dt)
        self._ready()
        self.model.refresh()
        motion = self.model.motion_vector if control is None else control.motion_vector
        for _ in self._stages(state_in, state_out, motion, dt):
            pass

    def _stages(
        self, state_in: State, state_out: State, motion: array, dt: float
    ) -> Iterator[tuple[array, Pass | None, int, int]]:
        """The step, bit by bit: yields what was just written, and by which rows of which constraints (if by any)."""
        raise NotImplementedError(f"{type(self).__name__} takes no steps")

    def _predict(self, state_in: State, state_out: State, motion: array, dt: float) -> None:
        """Positions by inertia and outer forces (XPBD, alg. 1, lines 1 to 3), and positions that attachments prescribe.

        What elements remember flows with the positions at the start of the step.
        """
        model, k, x = self.model, self._kernels, state_out.particle_q
        for p in self.passes:
            for name, flow in p.flows.items():
                after = state_out.memory[f"{p.set.name}.{name}"]
                launch(flow, p.set.count, [p.set.points, p.of(state_in), state_in.particle_q, dt], [after])
        outer = [
            state_in.particle_q,
            state_in.particle_qd,
            state_in.particle_f,
            model.particle_inv_mass,
            model.particle_drag,
            model.gravity,
            dt,
        ]
        launch(k.predict, model.particle_count, outer, [x])
        if self._prescribes:
            held = [model.attachment_point, model.attachment_anchor, model.attachment_group, model.attachment_slot]
            moved = [model.motion_offset, model.motion_kind, motion, model.motion_a, model.motion_b]
            launch(k.prescribe, self._prescribes, [*held, *moved, state_in.clock, dt], [x, self._target])

    def _push(
        self, push: Kernel, p: Pass, begin: int, count: int, state_in: State, state_out: State, dt: float
    ) -> None:
        """Elastic and damping forces at the start of a step, applied to the predicted positions."""
        damping = p.set.damping if p.set.damping is not None else self._no_damping
        data = [p.set.points, p.of(state_out), p.set.compliance, damping, self.model.particle_inv_mass]
        launch(
            push,
            count,
            [begin, *data, state_in.particle_q, state_in.particle_qd, dt],
            [state_out.particle_q, p.multiplier],
        )

    def _finish(self, state_in: State, state_out: State, dt: float) -> None:
        """Velocities (lines 15 and 16), and the time."""
        before, after = (
            [state_in.particle_q, state_out.particle_q, dt, state_in.clock, dt],
            [
                state_out.particle_qd,
                state_out.clock,
            ],
        )
        launch(self._kernels.finish, self.model.particle_count, before, after)

    def blame(self, before: State, after: State, control: Control | None, dt: float) -> str:
        """Takes the step from `before` again, into `after`, and says in words where a position first became
        non-finite."""
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
