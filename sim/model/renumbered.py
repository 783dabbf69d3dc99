"""A model whose particles have other numbers: those that go along memory, where the user's do not.

Arrays of states and models are the user's, under the numbers that the points were given.  What takes many steps works
on a copy under better ones instead: elements of the arrays for each particle change places, the lists of particles name
them by their new numbers, and all else is shared.  Constraints keep their order, so that every sum is the same sum, and
the results are the same to the bit.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from sim.constraints.slots.pattern import PARTICLE
from sim.core.lang.frontend.builtins import tid
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Type, array_type, int32
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import empty, empty_like
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.model.constraint_set import ConstraintSet
from sim.model.derived.derivation import Derivation
from sim.model.fields import HISTORY_FIELDS, MODEL_FIELDS
from sim.model.model import Model
from sim.model.state import State

STARTS = frozenset(("particle_q", "particle_qd", "particle_mass"))
"""What states begin with, and what inverse masses follow from: no gradient reaches them by way of steps."""
_OF_PARTICLES = frozenset(field.name for field in HISTORY_FIELDS if field.shape[0] == "particles")


@memoize
def make_gather(kind: Type, ndim: int) -> Kernel:
    """found[..., i] = given[..., place[i]]; no place comes twice."""
    many: Any = array_type(kind, ndim)

    @kernel(name=f"renumber_{ndim}")
    def renumber(given: many, place: array[int], found: many):
        if ndim == 1:
            i = tid()
            found[i] = given[place[i]]
        else:
            frame, i = tid()
            found[frame, i] = given[frame, place[i]]

    renumber.exclusive = frozenset(("given",))
    return renumber


class Renumbering:
    """A model under other numbers, and what goes to and fro between both.

    model: the other one, whose `renew` takes the present content of the given one's arrays, on the tape if one is open.
    """

    def __init__(self, given: Model, number: np.ndarray) -> None:
        """number: (particles,) the other number of each."""
        user = np.argsort(number).astype(np.int32)
        self.given = given
        self._number, self._user = (array(a.astype(np.int32), dtype=int32, device=given.device) for a in (number, user))
        gathers: list[Derivation] = []
        made = self.model = given.renumbered(user, gathers)
        for field in MODEL_FIELDS:
            theirs = getattr(given, field.name)
            if field.shape[0] == "particles":
                mine = empty_like(theirs, requires_grad=theirs.requires_grad and field.name not in STARTS)
                inputs = [theirs, self._user]
                gathers.append(Derivation(make_gather(theirs.dtype, 1), len(number), inputs, [mine], values=[theirs]))
            elif field.points and theirs.size:
                mine = array(number[theirs.numpy()].astype(np.int32), dtype=int32, device=given.device)
            else:
                continue
            setattr(made, field.name, mine)
        self._copies = [(d.inputs[0], d.outputs[0]) for d in gathers if d.outputs[0].requires_grad]
        made.constraint_sets = {name: self._of_set(s, number) for name, s in given.constraint_sets.items()}

    def _of_set(self, given: ConstraintSet, number: np.ndarray) -> ConstraintSet:
        made, points = copy.copy(given), given.points.numpy().copy()
        for column, kind in enumerate(given.slots.kinds):
            if kind == PARTICLE:
                points[:, column] = number[points[:, column]]
        made.points = array(points, dtype=int32, device=given.points.device)
        return made

    def follow_gradients(self) -> None:
        """Copies have gradients where what they are copies of has some now (`Model.gradients_of`)."""
        for theirs, mine in self._copies:
            mine.buffer.requires_grad = theirs.requires_grad

    def inside(self, state: State) -> State:
        """A state of the given model as one of the other: a copy, recorded and differentiable, of what is per particle;
        the same arrays else."""
        return self._moved(state, self._user, self.model)

    def outside(self, state: State, forces: array) -> State:
        """The way back, under these external forces on the particles."""
        made = self._moved(state, self._number, self.given)
        made.particle_f = forces
        return made

    def frames_outside(self, frames: array) -> array:
        """Positions (frames, particles) by the numbers of the given model."""
        return _gathered(frames, self._number)

    def _moved(self, state: State, place: array, model: Model) -> State:
        made = state.bound()
        made.model = model
        for name in ("particle_q", "particle_qd", "particle_f"):
            setattr(made, name, _gathered(getattr(state, name), place))
        made.history = {name: _gathered(a, place) if name in _OF_PARTICLES else a for name, a in state.history.items()}
        return made


def _gathered(given: array, place: array) -> array:
    """The elements (..., place) of an array."""
    found = empty(given.shape, given.dtype, given.device, requires_grad=given.requires_grad)
    if given.size:
        launch(make_gather(given.dtype, given.ndim), given.shape, [given, place], [found])
    return found
