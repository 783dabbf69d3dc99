"""Who has left what a gradient buffer holds: the backward of a tape, or somebody who wrote there.

What a backward has left is a result, to which the next one adds; what anybody else has written may be a seed.  That is
known byte by byte, because slices of one array share a buffer.  See docs/decisions/17-seeds.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim.core.runtime.memory.spans import NOTHING, Spans, StridedLayout


class Owner(NamedTuple):
    """The tapes whose backward has left a result, by their numbers: several may have added to it."""

    oldest: int
    newest: int

    def joined(self, other: Owner) -> Owner:
        """The owner of the sum of two results."""
        return Owner(min(self.oldest, other.oldest), max(self.newest, other.newest))


CLEAR = Owner(-1, -1)
"""Zero, since the gradient was made or cleared by a tape: nobody has written there."""
ZEROED = Owner(-2, -2)
"""Zero, as the user wrote: a seed, although of nothing."""
OTHERS = Owner(0, 0)
"""What another library has added up: as a result of a tape before all others."""


class GradientOwners:
    """Owners by range; bytes without an owner were written by the user.

    compares: whether writes through views of other libraries are looked for.
    """

    __slots__ = ("ranges", "compares", "_seen")

    def __init__(self, ranges: dict[Owner, Spans] | None = None) -> None:
        self.ranges = ranges or {}
        self.compares = True
        self._seen: np.ndarray | None = None

    def written(self, view: StridedLayout, zero: bool = False) -> None:
        """The user has written to a view; `zero`: zeros."""
        if not (self.ranges or zero):
            return
        spans = Spans.of(view)
        self._release(spans)
        if zero:
            self.ranges[ZEROED] = self.ranges.get(ZEROED, NOTHING) | spans

    def leave(self, owner: Owner, spans: Spans) -> None:
        """From now on a range belongs to `owner`.  What was seen of it before counts no longer."""
        if len(self.ranges) == 1 and spans in self.ranges.values():  # nearly always: all of it, as before
            self.ranges = {owner: spans}
            return
        self._release(spans)
        self.ranges[owner] = self.ranges.get(owner, NOTHING) | spans

    def _release(self, spans: Spans) -> None:
        self.ranges = {owner: rest for owner, had in self.ranges.items() if (rest := had - spans)}

    def cleared(self, spans: Spans) -> bool:
        """Whether all that was ever seen to happen there, and elsewhere, is that it was cleared by a tape."""
        cleared = self.ranges.get(CLEAR) if len(self.ranges) == 1 and self.compares else None
        return cleared is not None and not spans - cleared

    def owned(self) -> Spans:
        """All that has an owner."""
        return Spans.union(run for spans in self.ranges.values() for run in spans.runs)

    # -- writes by others, which `before_write` does not see
    @property
    def looked(self) -> bool:
        """Whether the content was looked at, because others can write there."""
        return self._seen is not None

    def look(self, content: np.ndarray) -> None:
        """Remember the content: others can write there from now on."""
        self._seen = content.copy()

    def forget(self) -> None:
        """What was seen is out of date."""
        self._seen = None

    def compare(self, content: np.ndarray, size: int, first: int) -> None:
        """Take from the owners what has changed since.  size: bytes of a number; the first one lies at `first`."""
        if self._seen is None:
            return
        numbers = np.unique((np.flatnonzero(content != self._seen) - first) // size)
        gaps = np.flatnonzero(np.diff(numbers) != 1)
        starts, ends = numbers[[0, *(gaps + 1)]] if len(numbers) else (), numbers[[*gaps, -1]] if len(numbers) else ()
        self._release(
            Spans.union((first + int(k) * size, first + (int(n) + 1) * size) for k, n in zip(starts, ends, strict=True))
        )

    def copy(self) -> GradientOwners:
        """The same, to be put back."""
        made = GradientOwners(dict(self.ranges))
        made.compares, made._seen = self.compares, self._seen
        return made
