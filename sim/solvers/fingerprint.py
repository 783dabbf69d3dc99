"""Whether the attributes of an object are what they were, and copies of them as they are now."""

from __future__ import annotations

from collections.abc import Hashable
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
