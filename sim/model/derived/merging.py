"""One launch for all derivations of one form: for what a thousand bodies have as many launches as for what two have.

The material values stay arrays of their own, each with a gradient, or without one.  Where a launch takes those of
several bodies, they are brought together before it, by one operation for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from sim.core.runtime.arrays.array import array
from sim.core.runtime.memory.buffer import Buffer
from sim.model.derived.arrays import ArrayFactory
from sim.model.derived.concatenation import Concatenation
from sim.model.derived.derivation import Column, Derivation, Picked, Update


class Gathering(Update):
    """Brings material values together in one array, `whole`."""

    def __init__(self, values: Sequence[array], make: ArrayFactory) -> None:
        self.whole = make.zeros(sum(a.size for a in values), values[0].dtype)
        self._concatenation = Concatenation(self.whole, values)
        super().__init__([self.whole], values, ())

    def _perform(self) -> None:
        self._concatenation.do()


def merged(derivations: Iterable[Derivation], make: ArrayFactory) -> list[Update]:
    """Steps that do the same, in an order that does too.  No launch reads what a later one stores."""
    groups: list[list[Derivation]] = []
    place: dict[tuple[object, ...], int] = {}
    written: dict[Buffer, int] = {}  # the last group that stores there
    for d in derivations:
        k = place.get(d.form)
        if k is None or any(written.get(a.buffer, -1) >= k for a in d.sources):
            k = place[d.form] = len(groups)
            groups.append([])
        groups[k].append(d)
        for a in d.outputs:
            written[a.buffer] = max(k, written.get(a.buffer, -1))
    together = _Together(make)
    for group in groups:
        together.add(group)
    return together.steps


class _Together:
    """Groups of derivations, one after the other, as steps."""

    def __init__(self, make: ArrayFactory) -> None:
        self.steps: list[Update] = []
        self._make = make
        self._gathered: dict[tuple[int, ...], array] = {}

    def add(self, group: Sequence[Derivation]) -> None:
        """What these derive: by one launch where that saves some, those that bring its values together counted."""
        picked = [{id(a.value) for a in arguments if isinstance(a, Picked)} for arguments in _arguments(group)]
        if len(group) > 1 + sum(len(values) > 1 for values in picked):
            self._add(group)
        else:
            for d in group:
                self._add([d])

    def _add(self, group: Sequence[Derivation]) -> None:
        inputs: list[Any] = []
        values = {id(a): a for d in group for a in d.values}
        derived = {id(a): a for d in group for a in d.derived}
        for arguments in _arguments(group):
            if isinstance(arguments[0], Column):
                inputs.append(self._column(arguments))
            elif isinstance(arguments[0], Picked):
                picked = {id(p.value): p.value for p in arguments}
                begins = dict(zip(picked, accumulate((v.size for v in picked.values()), initial=0), strict=False))
                if isinstance(arguments[0].value, Column):
                    whole = self._column(list(picked.values()))
                else:
                    whole = self._gather(list(picked.values()))
                    if len(picked) > 1:
                        values = {key: a for key, a in values.items() if key not in picked}
                        derived[id(whole)] = whole
                inputs += [whole, self._column([Column(p.source + begins[id(p.value)], int) for p in arguments])]
            else:
                inputs.append(arguments[0])
        dim, first = sum(d.dim for d in group), group[0]
        self.steps.append(
            Derivation(first.kernel, dim, inputs, first.outputs, list(values.values()), list(derived.values()))
        )

    def _column(self, columns: Sequence[Column]) -> array:
        return self._make.constant(np.concatenate([c.host for c in columns]), columns[0].dtype)

    def _gather(self, values: Sequence[array]) -> array:
        """All of them in one array, by a step of its own where there are several."""
        if len(values) == 1:
            return values[0]
        key = tuple(map(id, values))
        if key not in self._gathered:
            made = Gathering(values, self._make)
            self._gathered[key] = made.whole
            self.steps.append(made)
        return self._gathered[key]


def _arguments(group: Sequence[Derivation]) -> Iterator[tuple[Any, ...]]:
    """For each parameter of the kernel what each derivation has for it."""
    return zip(*(d.inputs for d in group), strict=True)
