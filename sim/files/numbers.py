"""Numbers as data formats write them; Python's own also take `1_000`, `nan`, `infinity` and digits of other scripts."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from sim.files.errors import FileError, quoted

LARGEST_WHOLE = 2**31 - 1
"""Counts and numbers of points are kept in 32 bits."""

# No two quantifiers of the same characters stand side by side: a long word would be tried at every place between them.
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,6})?")
_WHOLE = re.compile(r"[-+]?[0-9]{1,19}")
_OTHER = re.compile(r"[^-+.0-9eE\s]")
_FRACTION = re.compile(r"[^-+0-9\s]")


def number(word: str) -> float:
    """A finite number.  Raises FileError."""
    if _NUMBER.fullmatch(word) is None:
        raise FileError(f"{quoted(word)} is not a number")
    value = float(word)
    if not math.isfinite(value):
        raise FileError(f"{quoted(word)} is too large for a number")
    return value


def whole(word: str, low: int = 0, high: int = LARGEST_WHOLE) -> int:
    """A whole number from `low` to `high`.  Raises FileError."""
    if _WHOLE.fullmatch(word) is None:
        number(word)  # says so, if it is no number at all
        raise FileError(f"{quoted(word)} is not a whole number")
    value = int(word)
    if not low <= value <= high:
        raise FileError(f"{quoted(word)} is not a whole number from {low} to {high}")
    return value


def numbers(words: Sequence[str]) -> np.ndarray:
    """Many finite numbers (n,) float64.  Raises FileError."""
    try:
        if _OTHER.search(" ".join(words)) is None:  # leaves what `float` reads as the formats mean it
            values = np.array([float(word) for word in words], np.float64)
            if np.isfinite(values).all():
                return values
    except ValueError:
        pass
    return np.array([number(word) for word in words], np.float64)


def wholes(words: Sequence[str], low: int = 0, high: int = LARGEST_WHOLE) -> np.ndarray:
    """Many whole numbers (n,) int64 from `low` to `high`.  Raises FileError."""
    try:
        if _FRACTION.search(" ".join(words)) is None:
            values = np.array([int(word) for word in words], np.int64)
            if not len(values) or (values.min() >= low and values.max() <= high):
                return values
    except (ValueError, OverflowError):
        pass
    return np.array([whole(word, low, high) for word in words], np.int64)
