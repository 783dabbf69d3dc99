"""Where a tape loses the way back: content that no recorded operation can explain."""

from __future__ import annotations

from typing import NamedTuple

from sim.core.runtime.arrays.array import array


class Cut(NamedTuple):
    """Memory whose content the tape cannot take a gradient back from: an array there, what became of it, and what to
    do."""

    where: array
    what: str
    hint: str

    @classmethod
    def without_gradient(cls, a: array, written_as: str) -> Cut:
        """Values with a gradient were stored where there is none."""
        return cls(
            a, f"was written as {written_as} from values with a gradient, but had none itself then: the gradient would be lost",
            "make that array with requires_grad=True, or read a copy made by sim.clone(a, requires_grad=False)",
        )  # fmt: skip

    @classmethod
    def half_written(cls, a: array, writer: str) -> Cut:
        """What has written there was not recorded."""
        return cls(
            a, f"was left half written when a {writer} broke off: the tape does not know its content",
            "overwrite all of it first (a.zero_(), a.assign(...)), or record on a new tape",
        )  # fmt: skip
