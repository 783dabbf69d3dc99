"""Which memory the records of a tape touch, and which of it they write: by ranges, because slices share a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sim.core.runtime.arrays.array import array
from sim.core.runtime.memory.buffer import Buffer
from sim.core.runtime.memory.spans import NOTHING, Spans
from sim.core.runtime.tape.records import TapeRecord


class Footprint(NamedTuple):
    """Of one buffer: an array there, what is touched, and what of that is written.  Never changed."""

    example: array
    touched: Spans = NOTHING
    written: Spans = NOTHING


@dataclass(eq=False)
class Footprints:
    """Memory by buffer: of records, each looked at once (only added, or all forgotten), and of single arrays."""

    of: dict[Buffer, Footprint] = field(default_factory=dict)
    _known: set[int] = field(default_factory=set)
    _written: set[int] = field(default_factory=set)
    _count: int = 0

    def update(self, records: Sequence[TapeRecord]) -> dict[Buffer, Footprint]:
        """Look at the records that are new."""
        if len(records) < self._count:
            self.forget()
        for record in records[self._count :] if self._count else records:
            for a in record.arrays:
                if id(a) not in self._known:
                    self.touch(a)
                    self._known.add(id(a))
            for a in record.writes:
                if id(a) not in self._written:
                    example, touched, written = self.of[a.buffer]
                    self.of[a.buffer] = Footprint(example, touched, written | Spans.of(a))
                    self._written.add(id(a))
        self._count = len(records)
        return self.of

    def touch(self, a: array) -> None:
        """An array that the tape has to do with."""
        buffer, spans = a.buffer, Spans.of(a)
        found = self.of.get(buffer)
        if found is None:
            self.of[buffer] = Footprint(a, spans)
        elif found.touched.runs != spans.runs:
            self.of[buffer] = Footprint(found.example, found.touched | spans, found.written)

    def joined(self, *others: Footprints) -> dict[Buffer, Footprint]:
        """All of them, as they are now: what is added later does not show."""
        made = dict(self.of)
        for other in others:
            for buffer, found in other.of.items():
                here = made.get(buffer, Footprint(found.example))
                made[buffer] = Footprint(here.example, here.touched | found.touched, here.written)
        return made

    def forget(self) -> None:
        """The records are gone."""
        self.of, self._known, self._written, self._count = {}, set(), set(), 0
