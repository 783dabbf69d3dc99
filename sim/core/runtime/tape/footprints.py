"""Which memory the records of a tape touch, and which of it they write: by ranges, because slices share a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sim.core.runtime.arrays.array import array
from sim.core.runtime.memory.buffer import Buffer
from sim.core.runtime.memory.spans import NOTHING, Spans
from sim.core.runtime.tape.records import TapeRecord


@dataclass(eq=False, slots=True)
class Footprint:
    """Of one buffer: an array there, what is touched, and what of that is written."""

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
                    self.of[a.buffer].written |= Spans.of(a)
                    self._written.add(id(a))
        self._count = len(records)
        return self.of

    def touch(self, a: array) -> None:
        """An array that the tape has to do with."""
        found, spans = self.of.get(a.buffer), Spans.of(a)
        if found is None:
            self.of[a.buffer] = Footprint(a, spans)
        else:
            found.touched |= spans

    def joined(self, *others: Footprints) -> dict[Buffer, Footprint]:
        """All of them, as they are now: what is added later does not show."""
        made = {buffer: Footprint(found.example, found.touched, found.written) for buffer, found in self.of.items()}
        for other in others:
            for buffer, found in other.of.items():
                here = made.setdefault(buffer, Footprint(found.example))
                here.touched |= found.touched
        return made

    def forget(self) -> None:
        """The records are gone."""
        self.of, self._known, self._written, self._count = {}, set(), set(), 0
