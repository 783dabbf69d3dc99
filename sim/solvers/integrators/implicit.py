"""How a step begins and ends: what points do by inertia, and what their displacement makes of velocities.

A step works on the displacement `dx` of each point from a reference position x_ref.  Projections add to it and evaluate
C at x_ref + dx.  Implicit Euler and BDF2 (C. W. Gear, 1971) are the same step then: both say x' = x_ref + dx and
v' = dx / h~, where a force F moves a free point by h~^2 F / m:

    euler   x_ref = x                    h~ = h       dx starts with h~ v + h~^2 a
    bdf2    x_ref = x + (x - x_last)/3   h~ = 2h/3    dx starts with h~ (v + (v - v_last)/3) + h~^2 a

Velocities never are differences of positions: in float32 the low bits of a small step are lost in x, not in dx.
Positions are sums of displacements, to which a second float holds what the first has no room for (two-sum: D. Knuth,
"The Art of Computer Programming" 2, 4.2.2).
"""

from __future__ import annotations

from cmath import sqrt
from dataclasses import dataclass
from math import log, log1p
from typing import Protocol

from sim.constraints.particles import particle_layout
from sim.constraints.slots.pattern import Slots
from sim.core.lang.types import float32, int32, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.launch.launch import launch
from sim.model.fields import HISTORY_FIELDS, Field
from sim.model.model import Model
from sim.model.state import State
from sim.solvers.integrators.step_kernels import mark_touched, step_kernels

LOW, *STEP_BEFORE, BODY_LOW, QD_BEFORE, BODY_QD_BEFORE = HISTORY_FIELDS

SLOW = 1e-3
"""h omega below which the leading term of BDF2's damping is exact to 1e-6."""


class Integrator(Protocol):
    """What a solver needs of one.

    order: of convergence, by the step; history: fields of a state that it reads and writes beside x and v; particle:
    what a step works on (`sim.constraints.particles`); scratch: arrays that every step writes before it reads them.
    """

    order: int
    history: tuple[Field, ...]
    particle: array
    scratch: list[array]

    def effective(self, dt: float) -> float:
        """h~ of a step."""

    def damping_time(self, omega: float, dt: float) -> float:
        """Damping time [s] that steps of dt add to a vibration of omega [rad/s]: its damping ratio times 2 / omega."""

    def reference(self, before: State) -> array:
        """x_ref: (particles,) vec3 [m]."""

    def touch(self, points: array, slots: Slots, multiplier: array) -> None:
        """Is told of contacts, what their points (n, k) are, and their multipliers, before a step is finished."""

    def predict(self, before: State, dt: float) -> None:
        """Displacements by inertia and outer forces."""

    def at_end(self, before: State, dt: float) -> tuple[array, array]:
        """Positions and velocities of the end of a step, as well as they are known before it to the order of the
        integrator: for forces that are not solved for."""

    def finish(self, before: State, after: State, dt: float) -> None:
        """Positions, velocities, history and time after a step, from the displacements."""


@dataclass(eq=False)
class Euler:
    """Implicit Euler: first order; takes energy out of a vibration of omega by h omega / 2 of critical damping."""

    model: Model

    def __post_init__(self) -> None:
        model = self.model
        self.order = 1
        self.history: tuple[Field, ...] = (LOW,) if model.dtype is float32 else ()
        self.kernels = step_kernels(model.dtype, model.in_air)
        self.particle = zeros(
            model.particle_count, particle_layout(model.dtype).type(model.dtype), model.device, model.requires_grad
        )
        self.scratch = [self.particle]
        self._none = zeros(1, vector(3, model.dtype), model.device)

    def effective(self, dt: float) -> float:
        """See `Integrator`."""
        return dt

    def damping_time(self, omega: float, dt: float) -> float:
        """ln(1 + (h omega)^2) / (h omega^2): about h."""
        turn = (omega * dt) ** 2
        return dt * log1p(turn) / turn if turn > 0.0 else dt

    def reference(self, before: State) -> array:
        """See `Integrator`."""
        return before.particle_q

    def touch(self, points: array, slots: Slots, multiplier: array) -> None:
        """Nothing: what has no history loses none."""

    def predict(self, before: State, dt: float) -> None:
        """See `Integrator`."""
        model = self.model
        inputs = [before.particle_q, before.particle_qd, before.particle_f, *_outer(model), dt]
        launch(self.kernels.predict, model.particle_count, inputs, [self.particle])

    def at_end(self, before: State, dt: float) -> tuple[array, array]:
        """Those of the start."""
        return before.particle_q, before.particle_qd

    def finish(self, before: State, after: State, dt: float) -> None:
        """See `Integrator`."""
        low, low_after = (state.history.get(LOW.name, self._none) for state in (before, after))
        inputs = [before.particle_q, low, self.particle, dt, before.clock, dt]
        outputs = [after.particle_q, low_after, after.particle_qd, after.clock]
        launch(self.kernels.finish, self.model.particle_count, inputs, outputs)


@dataclass(eq=False)
class Bdf2:
    """BDF2: second order, and stable for stiff forces as Euler is; takes out (h omega)^3 / 4 of critical damping.

    It needs the step before.  Where there is none, or one of another length, or somebody has written another velocity
    since, a point starts with a step of first order: x' = x + h v + h~^2 a', v' = v + h a', a' being the acceleration
    at its end.  So it does after a step in which a contact has pushed it: a velocity that jumps has no history.  That
    step itself ends with v' = (x' - x) / h.

    touched: 1 for points that a contact has pushed.
    """

    model: Model

    def __post_init__(self) -> None:
        model, vec3 = self.model, vector(3, self.model.dtype)
        self.order = 2
        self.history: tuple[Field, ...] = (*((LOW,) if model.dtype is float32 else ()), *STEP_BEFORE)
        self.kernels = step_kernels(model.dtype, model.in_air)
        self.particle = zeros(
            model.particle_count, particle_layout(model.dtype).type(model.dtype), model.device, model.requires_grad
        )
        self._reference = zeros(model.particle_count, vec3, model.device, model.requires_grad)
        self.touched = zeros(model.particle_count, int32, model.device)
        count = model.particle_count if model.in_wind else 0
        q, qd = (zeros(count, vec3, model.device, model.requires_grad) for _ in range(2))
        self._end = q, qd
        self.scratch = [self.particle, self._reference, self.touched, *self._end]
        self._none = zeros(1, vec3, model.device)

    def effective(self, dt: float) -> float:
        """See `Integrator`."""
        return 2.0 * dt / 3.0

    def damping_time(self, omega: float, dt: float) -> float:
        """-2 ln |z| / (h omega^2), z the larger root of (3 / 2 - i h omega) z^2 - 2 z + 1 / 2 = 0, by which a swing
        goes on in a step: about h (h omega)^2 / 2."""
        if omega * dt < SLOW:
            return 0.5 * dt * (omega * dt) ** 2
        a = 1.5 - 1j * omega * dt
        z = max(abs((1.0 + sign * sqrt(1.0 - 0.5 * a)) / a) for sign in (1, -1))
        return float(-2.0 * log(z) / (dt * omega**2))

    def reference(self, before: State) -> array:
        """See `Integrator`."""
        return self._reference

    def predict(self, before: State, dt: float) -> None:
        """See `Integrator`."""
        model = self.model
        now = [before.particle_q, before.particle_qd, before.particle_f]
        inputs = [*now, *self._history(before), *_outer(model), dt]
        outputs = [self.particle, self._reference, self.touched]
        launch(self.kernels.predict_bdf2, model.particle_count, inputs, outputs)

    def at_end(self, before: State, dt: float) -> tuple[array, array]:
        """Continued from the step before."""
        inputs = [before.particle_q, before.particle_qd, *self._history(before), dt]
        launch(self.kernels.extrapolate, self.model.particle_count, inputs, list(self._end))
        return self._end

    def finish(self, before: State, after: State, dt: float) -> None:
        """See `Integrator`."""
        model = self.model
        low, low_after = (state.history.get(LOW.name, self._none) for state in (before, after))
        now = [before.particle_q, low, before.particle_qd]
        inputs = [
            *now,
            *self._history(before),
            model.particle_inv_mass,
            self.particle,
            self._reference,
            self.touched,
            dt,
        ]
        outputs = [after.particle_q, low_after, after.particle_qd, *self._history(after), after.clock]
        launch(self.kernels.finish_bdf2, model.particle_count, [*inputs, before.clock, dt], outputs)

    def touch(self, points: array, slots: Slots, multiplier: array) -> None:
        """Notes the points that contacts have pushed in this step."""
        launch(mark_touched(slots, self.model.dtype), points.shape[0], [points, multiplier], [self.touched])

    @staticmethod
    def _history(state: State) -> list[array]:
        return [state.history[field.name] for field in STEP_BEFORE]


def _outer(model: Model) -> list[array]:
    """What moves free points beside their velocity."""
    return [model.particle_inv_mass, model.particle_drag, model.gravity]


INTEGRATORS: dict[str, type[Euler] | type[Bdf2]] = {"euler": Euler, "bdf2": Bdf2}
"""By the name that a scene gives."""
