"""The state of a model: what a step of a solver changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from sim.core.lang.errors import did_you_mean
from sim.core.lang.types import Scalar, float64, int32
from sim.core.runtime.arrays.array import array, clone
from sim.core.runtime.arrays.creation import empty_like, full, sibling, zeros
from sim.core.runtime.devices.device import Device
from sim.core.runtime.devices.graph import capturing
from sim.model.errors import ModelError
from sim.model.fields import HISTORY_FIELDS, STATE_FIELDS, Field


class OwnerModel(Protocol):
    """What a state, a control and contacts know of the model that made them; `Model` stands above them."""

    @property
    def dtype(self) -> Scalar:
        """The precision."""

    @property
    def device(self) -> Device:
        """Where the arrays live."""


class State:
    """Positions, velocities, forces (`STATE_FIELDS`), and the time [s].  Made by `Model.state()`.

    internal_variables: "constraint.parameter" -> one for each element, in the order of their set, such as
    viscous strains; mostly nothing.
    history: what the integrator of a solver carries from step to step beside these, by name; solvers put it there.
    Without it a state is nearly as good: a float32 position has no second part then, a step of BDF2 begins anew, and
    contacts begin without the forces that pressed them, so that a pile comes to rest 1e-5 to 3e-4 m elsewhere.  `clone`
    and `Trajectory.final` have it, and go on to the same bits.
    """

    def __init__(
        self,
        model: OwnerModel,
        particle_q: array,
        particle_qd: array,
        particle_f: array,
        body_q: array,
        body_qd: array,
        body_f: array,
        *,
        time: float = 0.0,
        internal_variables: dict[str, array] | None = None,
    ) -> None:
        self.internal_variables = internal_variables or {}
        self.history: dict[str, array] = {}
        self.model = model
        self.particle_q, self.particle_qd, self.particle_f = particle_q, particle_qd, particle_f
        self.body_q, self.body_qd, self.body_f = body_q, body_qd, body_f
        self.clock = full(1, time, float64, particle_q.device)
        if capturing() is not None:
            self.clock.fill_(time)  # a replay begins with it too

    @property
    def time(self) -> float:
        """Time [s].  It lies in memory (`clock`, one float64), so that a step can be replayed."""
        return float(self.clock.device.numpy(self.clock)[0])

    @time.setter
    def time(self, value: float) -> None:
        self.clock.fill_(float(value))

    def __getattr__(self, name: str) -> Any:
        # Only called for what is not there.
        raise AttributeError(f"a state has no {name!r}{did_you_mean(name, (f.name for f in STATE_FIELDS))}")

    @property
    def memory(self) -> dict[str, array]:
        """`internal_variables`, by the name that they had in version 0.1."""
        return self.internal_variables

    @property
    def arrays(self) -> dict[str, array]:
        """The arrays by name."""
        return {field.name: getattr(self, field.name) for field in STATE_FIELDS}

    @property
    def moving(self) -> list[array]:
        """What a step changes, the time aside: positions, velocities, internal variables, the history last."""
        return [*self._shared, *self.history.values()]

    @property
    def differentiable(self) -> list[array]:
        """Of what a step changes that through which gradients flow, in the same order."""
        constant = {field.name for field in HISTORY_FIELDS if field.constant}
        of_history = [a for name, a in self.history.items() if name not in constant and a.dtype is not int32]
        return [*self._shared, *of_history]

    @property
    def _shared(self) -> list[array]:
        """What all states of a model have."""
        return [*self.positions, *self.velocities, *self.internal_variables.values()]

    @property
    def positions(self) -> list[array]:
        """Positions of particles, poses of bodies, what there is of them."""
        return [a for a in (self.particle_q, self.body_q) if a.size]

    @property
    def velocities(self) -> list[array]:
        """Of particles, of bodies, what there is of them."""
        return [a for a in (self.particle_qd, self.body_qd) if a.size]

    @property
    def forces(self) -> list[array]:
        """On particles, on bodies, what there is of them."""
        return [a for a in (self.particle_f, self.body_f) if a.size]

    def clone(self) -> State:
        """A copy that shares nothing; recorded and differentiable."""
        internal = {name: clone(a) for name, a in self.internal_variables.items()}
        q, qd, f, body_q, body_qd, body_f = map(clone, self.arrays.values())
        made = State(self.model, q, qd, f, body_q, body_qd, body_f, internal_variables=internal)
        made.history = {name: clone(a, requires_grad=a.requires_grad) for name, a in self.history.items()}
        made.clock.assign(self.clock)
        return made

    def bound(self) -> State:
        """The same arrays under another object, where those stay that this one has now."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.internal_variables, made.history = dict(self.internal_variables), dict(self.history)
        return made

    def sibling(self, forced: State) -> State:
        """A state in memory of its own of undefined content, of the model and under the external forces of another one
        of the same kind."""
        made = object.__new__(type(self))
        made.model, made.particle_f, made.body_f = forced.model, forced.particle_f, forced.body_f
        made.particle_q, made.particle_qd = sibling(self.particle_q), sibling(self.particle_qd)
        made.body_q, made.body_qd, made.clock = sibling(self.body_q), sibling(self.body_qd), sibling(self.clock)
        made.internal_variables = {name: sibling(a) for name, a in self.internal_variables.items()}
        made.history = {name: sibling(a) for name, a in self.history.items()}
        return made

    def carry(self, history: Iterable[Field]) -> None:
        """Makes room for the history of an integrator, where there is none yet: zeros, with which one begins."""
        for field in history:
            if field.name not in self.history:
                grad = self.particle_q.requires_grad and not field.constant
                kind = field.dtype(self.model.dtype)
                given = field.shape[0]
                count = (
                    given
                    if isinstance(given, int)
                    else {"bodies": self.body_q, "particles": self.particle_q}[given].size
                )
                self.history[field.name] = zeros(count, kind, self.model.device, grad)

    def copy_from(self, other: State) -> None:
        """Copies what a step changes, and the time, from another state of the same model; forces stay."""
        for mine, theirs in zip(self._shared, other._shared, strict=True):
            mine.assign(theirs)
        for name, values in other.history.items():
            if name not in self.history:
                self.history[name] = empty_like(values, requires_grad=values.requires_grad)
        for name, mine in self.history.items():
            if name in other.history:
                mine.assign(other.history[name])
            else:
                mine.zero_()
        self.clock.assign(other.clock)

    def overwrite(self, other: State) -> None:
        """`copy_from` for whoever is the only one to know this state, which has all of the history of the other one: no
        tape, no graph and no watcher has to hear of the write."""
        known = other.history
        given = [*other._shared, *map(known.get, self.history), other.clock]
        for mine, theirs in zip((*self.moving, self.clock), given, strict=True):
            buffer = mine.buffer
            if theirs is None:
                buffer.device.clear(mine)
            else:
                buffer.device.copy(mine, theirs)
            buffer.version += 1

    def follow(self, other: State) -> None:
        """`copy_from`, by the name that it had in version 0.1."""
        self.copy_from(other)

    def assign(self, other: State) -> None:
        """Copies another state of the same model into this one; recorded and differentiable."""
        if other.model is not self.model:
            raise ModelError("assign: the other state belongs to another model", "Use states of one model")
        self.copy_from(other)
        for mine, theirs in zip(self.forces, other.forces, strict=True):
            mine.assign(theirs)

    def clear_forces(self) -> None:
        """Sets `particle_f` and `body_f` to zero."""
        for forces in self.forces:
            forces.zero_()

    def __repr__(self) -> str:
        bodies = f", {self.body_q.size} bodies" if self.body_q.size else ""
        return f"State(t={self.time:g} s, {self.particle_q.size} particles{bodies})"
