"""Which content of memory the recorded operations still need, and copies of it made just before it is overwritten.

The scheme (D5): recording an operation *claims* the ranges whose values its adjoint loads; nothing is copied.  A write,
announced before it happens, first saves the open claims that it overlaps: one copy of their hull, shared, and they are
closed.  So a "version" of a buffer is the set of its open claims.

Memory that others can write (NumPy views, tensors of PyTorch) is kept at once.  What they write between two recorded
operations has no place on the tape: `Watch` finds it by comparing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from weakref import ref

import numpy as np

from sim.core.backends.native import Row
from sim.core.lang.errors import GradientError
from sim.core.runtime.ambient import observers
from sim.core.runtime.ambient.stacks import insist
from sim.core.runtime.arrays.array import array
from sim.core.runtime.devices.base_device import DeviceNode
from sim.core.runtime.devices.graph import add_native_node, capturing
from sim.core.runtime.devices.graph import opened as open_graphs
from sim.core.runtime.memory.buffer import Buffer, ByteRange, duplicate
from sim.core.runtime.memory.spans import extent_of
from sim.core.runtime.tape.arena import Arena


@dataclass(eq=False)
class Kept:
    """A copy of bytes `low` to `low + data.nbytes` of a buffer, and why it was made."""

    buffer: Buffer
    low: int
    data: Buffer
    readers: Sequence[Claim]
    writer: str
    captured: bool = False
    """Whether a replay saves it again: it was claimed and saved in the same capture."""

    @property
    def reason(self) -> str:
        """Who needs it, and who overwrites it; "": others can write there."""
        readers = ", ".join(dict.fromkeys(f"'{c.name}' of the {c.reader}" for c in self.readers))
        return f"{readers}; overwritten by the {self.writer}" if self.writer else f"{readers}; others can write there"

    @property
    def live(self) -> ByteRange:
        """The memory that it is a copy of."""
        return ByteRange(self.buffer, self.low, self.low + self.data.nbytes)

    def save(self) -> None:
        """Copy the live content."""
        self.buffer.device.copy(ByteRange(self.data), self.live)
        observer = observers.current()
        if observer is not None:
            observer.saved(self)

    def row(self) -> Row | DeviceNode | None:
        """Its form in a graph."""
        return self.buffer.device.copy_row(ByteRange(self.data), self.live)

    @property
    def address(self) -> int:
        return self.data.address


@dataclass(eq=False, slots=True)
class Claim:
    """The values that one operation needs of one range.  `kept` is None as long as the live memory still has them.

    series: of the graph that the operation was captured in (None: in none).  Only a replay of that one brings other
    values to save.
    """

    buffer: Buffer
    low: int
    high: int
    reader: str
    name: str
    series: object
    kept: Kept | None = None

    def address(self, offset: int) -> int:
        """Where the value that the buffer had at byte `offset` lies now."""
        if self.kept is None:
            return self.buffer.address + offset
        return self.kept.address + offset - self.kept.low


@dataclass(eq=False)
class Claims:
    """The open claims of one tape, by buffer."""

    refuse: bool = False
    open: dict[Buffer, list[Claim]] = field(default_factory=dict)
    kept: list[Kept] = field(default_factory=list)
    arena: Arena = field(default_factory=Arena)
    _of_shared: dict[Buffer, list[Kept]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._reference = ref(self)

    def claim(self, a: array, reader: str, name: str) -> Claim:
        low, high = extent_of(a)
        made = Claim(a.buffer, low, high, reader, name, _series() if open_graphs.entries else None)
        if a.buffer.shared:  # it may change unseen, so it is kept now
            made.kept = self._keep(made)
            return made
        waiting = self.open.setdefault(a.buffer, [])
        if not waiting:
            a.buffer.watch(self._reference)
        waiting.append(made)
        return made

    def join(self, claims: Sequence[Claim]) -> None:
        """Claims of one buffer that overlap: whatever is kept of their memory is kept as one copy."""
        if not claims:
            return
        low, high = min(c.low for c in claims), max(c.high for c in claims)
        buffer = claims[0].buffer
        for c in claims:
            c.low, c.high = low, high
        whole = self._keep(claims[0]) if buffer.shared else None
        for c in claims:
            c.kept = whole

    def _keep(self, claim: Claim) -> Kept:
        """The present content of shared memory: an earlier copy if that is the same still."""
        buffer, low, high = claim.buffer, claim.low, claim.high
        if capturing() is None:
            for kept in reversed(self._of_shared.get(buffer, ())):
                if kept.low == low and kept.data.nbytes == high - low:
                    if np.array_equal(_bytes(kept.data), _bytes(buffer, low, high)):
                        return kept
                    break
        kept = self._save(buffer, low, high, [claim], "")
        self._of_shared.setdefault(buffer, []).append(kept)
        return kept

    def _save(self, buffer: Buffer, low: int, high: int, readers: Sequence[Claim], writer: str) -> Kept:
        captured = readers[0].series is not None and readers[0].series is _series()
        kept = Kept(buffer, low, self.arena.buffer(high - low, buffer.device), readers, writer, captured)
        if captured:
            add_native_node(kept.save, kept.row, kept)
        else:  # a replay comes too late: the values are those of before
            kept.save()
        self.kept.append(kept)
        return kept

    def before_write(self, a: array, writer: str) -> None:
        """Save what an imminent write to `a` would destroy; with `refuse`, raise instead."""
        waiting = self.open.get(a.buffer)
        if not waiting:
            return
        low, high = extent_of(a)
        hit = [c for c in waiting if c.low < high and low < c.high]
        if not hit:
            return
        if self.refuse:
            raise GradientError(
                f"{writer} overwrites an array of shape {a.shape} whose values {hit[0].reader} read as '{hit[0].name}'"
                " and needs for its gradient",
                hint="write into another array, or open the tape with on_overwrite='save'",
            )
        here = _series()
        for readers in ([c for c in hit if c.series is here], [c for c in hit if c.series is not here]):
            if readers:
                kept = self._save(a.buffer, min(c.low for c in readers), max(c.high for c in readers), readers, writer)
                for c in readers:
                    c.kept = kept
        still = self.open[a.buffer] = [c for c in waiting if c.kept is None]
        if not still:
            a.buffer.unwatch(self._reference)

    def present(self) -> set[Claim]:
        """The open claims."""
        return {c for waiting in self.open.values() for c in waiting}

    def drop(self, claims: Iterable[Claim]) -> None:
        """Give claims up: what they are on may change."""
        gone = set(claims)
        for buffer in {c.buffer for c in gone} & self.open.keys():
            still = self.open[buffer] = [c for c in self.open[buffer] if c not in gone]
            if not still:
                buffer.unwatch(self._reference)

    def release(self) -> None:
        """Stop watching: the content that is claimed may change from now on."""
        for buffer in self.open:
            buffer.unwatch(self._reference)
        self.open.clear()

    def clear(self) -> None:
        self.release()
        self.kept.clear()
        self._of_shared.clear()


def _series() -> object:
    """Of the graph that is open."""
    graph = capturing()
    return None if graph is None else graph.series


@dataclass(eq=False)
class Watch:
    """The content of shared memory as a tape last saw it: (version of the buffer, bytes) by buffer."""

    seen: dict[Buffer, tuple[int, np.ndarray]] = field(default_factory=dict)

    def before(self, arrays: Iterable[array], what: str) -> None:
        """Raises GradientError where somebody else has written since the last look: the gradient of what was there goes
        nowhere."""
        for a in arrays:
            buffer = a.buffer
            if not buffer.requires_grad or not buffer.shared:
                continue
            version, content = self.seen.get(buffer, (-1, None))
            if content is not None and np.array_equal(content, _bytes(buffer)):
                self.seen[buffer] = buffer.version, content
                continue
            if content is not None and version == buffer.version:
                raise GradientError(
                    f"an array of shape {a.shape} was written through NumPy or another library since this tape last saw"
                    f" it, before the {what}: its gradient would be wrong",
                    hint="write with assign, fill_ or an indexed assignment, which the tape sees",
                )
            self._look(buffer)

    def after(self, arrays: Iterable[array]) -> None:
        """The operation itself has written these."""
        for a in arrays:
            if a.buffer.requires_grad and a.buffer.shared:
                self._look(a.buffer)

    def _look(self, buffer: Buffer) -> None:
        if capturing() is None:
            self.seen[buffer] = buffer.version, _bytes(buffer).copy()


def _bytes(buffer: Buffer, low: int = 0, high: int | None = None) -> np.ndarray:
    """The present content of memory, for the host to look at."""
    return buffer.device.numpy(ByteRange(buffer, low, high))


@contextmanager
def restored(claims: list[Claim]) -> Iterator[None]:
    """Inside the block the live memory has the content that the claims ask for; afterwards what it had before, however
    the block ends."""
    back: list[Callable[[], None]] = []
    swapped: list[Kept] = []
    observer = observers.current()
    try:
        for kept in {id(c.kept): c.kept for c in claims if c.kept is not None}.values():
            live, device = kept.live, kept.buffer.device
            present = ByteRange(duplicate(kept.buffer, kept.low, kept.low + kept.data.nbytes))
            back.insert(0, partial(device.copy, live, present))
            device.copy(live, ByteRange(kept.data))
            kept.buffer.epoch += 1
            if observer is not None:
                swapped.append(kept)
                observer.swapped(kept)
        yield
    finally:
        insist(back)
        for claim in claims:
            claim.buffer.epoch += 1
        if observer is not None:
            for kept in reversed(swapped):
                observer.swapped(kept)
