"""Whether the attributes of an object are what they were, and copies of them as they are now."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, is_
from typing import Any

import numpy as np

from sim.core.runtime.arrays.array import array

_BY_VALUE = frozenset((bool, int, float, str, type(None)))


def fingerprint(value: Any) -> Hashable:
    """Whether an attribute is what it was: numbers, text, containers by value, arrays by memory, else by identity.

    The objects have to be kept alive for as long as the fingerprint.
    """
    if isinstance(value, array):
        return id(value.buffer), value.ptr, value.shape, value.strides, value.requires_grad
    kind = type(value)
    if kind in _BY_VALUE:
        return value
    if kind is list or kind is tuple:
        return kind, tuple(map(fingerprint, value))
    if kind is dict:
        return dict, tuple(map(fingerprint, value)), tuple(map(fingerprint, value.values()))
    if kind is set:
        return set, frozenset(map(fingerprint, value))
    if kind is np.ndarray and value.dtype != object:
        return value.dtype.str, value.shape, value.tobytes()
    return value if isinstance(value, (int, float, str)) else id(value)


def copy_containers(value: Any) -> Any:
    """An attribute as it is now: containers are copied, so that what is written to them later does not show."""
    if type(value) in (list, tuple):
        return type(value)(map(copy_containers, value))
    if type(value) is dict:
        return {key: copy_containers(x) for key, x in value.items()}
    return value.copy() if type(value) in (set, np.ndarray) else value


def _parts(container: Any) -> Sequence[Any]:
    return (*container, *container.values()) if type(container) is dict else (*container,)


_REQUIRES = attrgetter("buffer.requires_grad")


def _requiring(arrays: Iterable[array]) -> list[bool]:
    """Which of these require a gradient."""
    return [*map(_REQUIRES, arrays)]


@dataclass(frozen=True, eq=False)
class Likeness:
    """Attributes and arrays, kept to tell that they are what they were, object for object: a small part of the price
    of a `fingerprint`, which has to be asked where this says no.

    inside: every container among the attributes, with what was in it.  arrays: those among the attributes.
    carry, gradients: which of the arrays used, and of the others, required a gradient.
    """

    attributes: dict[str, Any]
    inside: list[tuple[Any, Sequence[Any]]]
    arrays: list[array]
    gradients: list[bool]
    used: list[array]
    carry: list[bool]

    @classmethod
    def of(cls, attributes: Mapping[str, Any], used: Sequence[array]) -> Likeness | None:
        """None where an attribute can change and stay the same object."""
        inside, arrays, left = [], list[array](), list(attributes.values())
        while left:
            value = left.pop()
            if isinstance(value, array):
                arrays.append(value)
            elif isinstance(value, np.ndarray):
                return None
            elif type(value) in (list, tuple, dict, set):
                inside.append((value, _parts(value)))
                left += inside[-1][1]
        return cls(dict(attributes), inside, arrays, _requiring(arrays), list(used), _requiring(used))

    def holds(self, attributes: Mapping[str, Any], used: Sequence[array]) -> bool:
        """Whether these are the same ones, with the same in them.  What differs most often comes first."""
        if not (
            _requiring(used) == self.carry
            and len(attributes) == len(self.attributes)
            and len(used) == len(self.used)
            and [*attributes] == [*self.attributes]
            and all(map(is_, attributes.values(), self.attributes.values()))
            and all(map(is_, used, self.used))
            and _requiring(self.arrays) == self.gradients
        ):
            return False
        for of, kept in self.inside:
            if len(parts := _parts(of)) != len(kept) or not all(map(is_, parts, kept)):
                return False
        return True
