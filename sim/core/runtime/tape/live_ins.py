"""Live-ins: the content that recorded operations still need, and snapshots of it taken before it is overwritten.

Reverse mode runs the program backward, and the adjoint of an operation loads values that its operation read (the
"to-be-recorded" values of Griewank & Walther, *Evaluating Derivatives*, 2008, ch. 4).  By then a later operation may
have overwritten them.  Copying each of them when it is read would be safe, and mostly wasted.  So:

* Recording an operation only notes its live-ins: ranges of buffers whose values its adjoint will load.  While nothing
  writes there, the adjoint loads them from the live memory.
* `before_write` comes before every write.  It takes one snapshot (Tapenade's word) of the hull of all live-ins that the
  write overlaps; from then on they lie there, and are no longer open.

There is thus no counter of versions: the version of the content that an operation read is its live-in.  A sequence of
writes to memory that nobody reads copies nothing, and a value that ten operations read is copied once.

Memory that others can write (NumPy views, tensors of PyTorch) may change without a `before_write`, so its snapshot is
taken at once.  What they write between two recorded operations has no place on the tape: see `foreign_writes`.

Other threads may share memory with a tape, as that of a model, and write there while it records: a `before_write` of
theirs takes the snapshot then.  The arena is that of the thread which records.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import RLock, get_ident
from weakref import ref

import numpy as np

from sim.core import config
from sim.core.lang.errors import GradientError, depth_of_user
from sim.core.runtime.ambient import observers
from sim.core.runtime.ambient.stacks import insist
from sim.core.runtime.arrays.array import array
from sim.core.runtime.devices.base_device import NodeForm
from sim.core.runtime.devices.graph import add_native_node, capturing
from sim.core.runtime.memory.buffer import Buffer, ByteRange, Strided, duplicate
from sim.core.runtime.memory.spans import extent_of
from sim.core.runtime.tape.arena import Arena
from sim.core.runtime.tape.foreign_writes import content_of


@dataclass(eq=False)
class RangeSnapshot:
    """A copy of the bytes `low` to `low + data.nbytes` of a buffer, for some readers.

    wanted: what these call the array, and who they are.  Not they themselves: they know their snapshot, and its memory
    would wait for the collector of garbage.
    writer: what overwrites them; "": others can write there.
    """

    buffer: Buffer
    low: int
    data: Buffer
    wanted: Sequence[tuple[str, str]]
    writer: str

    @property
    def reason(self) -> str:
        """Who needs it, and who overwrites it."""
        readers = ", ".join(dict.fromkeys(f"'{name}' of the {reader}" for name, reader in self.wanted))
        return f"{readers}; overwritten by the {self.writer}" if self.writer else f"{readers}; others can write there"

    @property
    def live(self) -> ByteRange:
        """The memory that it is a copy of."""
        return ByteRange(self.buffer, self.low, self.low + self.data.nbytes)

    @property
    def address(self) -> int:
        return self.data.address

    def save(self) -> None:
        """Copy the live content."""
        self.buffer.device.copy(ByteRange(self.data), self.live)
        observer = observers.current()
        if observer is not None:
            observer.saved(self)

    def row(self) -> NodeForm:
        """`save` as a node of a graph."""
        form: NodeForm = self.buffer.device.copy_row(ByteRange(self.data), self.live)
        return form


@dataclass(eq=False, slots=True)
class LiveIn:
    """A range of memory whose present values the adjoint of one operation loads.

    reader, name: the operation, and what it calls the array.
    series: of the graph that it was captured in (None: in none); only a replay of that one brings other values.
    snapshot: None as long as the live memory has the values.
    """

    buffer: Buffer
    low: int
    high: int
    reader: str
    name: str
    series: object
    snapshot: RangeSnapshot | None = None

    def address(self, offset: int) -> int:
        """Where the value that the buffer had at byte `offset` lies now."""
        if self.snapshot is None:
            return self.buffer.address + offset
        return self.snapshot.address + offset - self.snapshot.low


@dataclass(eq=False)
class LiveIns:
    """The live-ins of one tape.

    refuse: raise instead of taking snapshots.  thread: that records.  alone: what other threads write to memory that
    it reads is somebody else's concern.
    open: by buffer, those whose values the live memory still has; it is watched.  snapshots: of the others.
    uncaptured: some of them were not taken in the graph that their readers are in: its replays do not renew them.
    """

    refuse: bool = False
    thread: int = field(default_factory=get_ident)
    alone: bool = False
    open: dict[Buffer, list[LiveIn]] = field(default_factory=dict)
    snapshots: list[RangeSnapshot] = field(default_factory=list)
    uncaptured: bool = False
    arena: Arena = field(default_factory=Arena)
    _of_shared: dict[Buffer, list[RangeSnapshot]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._reference = ref(self)
        self._lock = RLock()

    # -- what is recorded
    def add(self, a: array, reader: str, name: str) -> LiveIn:
        """The adjoint of `reader` will load the present values of `a`."""
        low, high = extent_of(a)
        made = LiveIn(a.buffer, low, high, reader, name, _series())
        if a.buffer.shared:  # it may change without a `before_write`
            made.snapshot = self._of_shared_memory(made)
            return made
        with self._lock:
            waiting = self.open.setdefault(a.buffer, [])
            if not waiting:
                a.buffer.watch(self._reference)
            waiting.append(made)
        return made

    def join(self, live_ins: Sequence[LiveIn]) -> None:
        """These are of one buffer and overlap: they get one snapshot of their hull, if any."""
        if not live_ins:
            return
        with self._lock:
            low, high = _hull(live_ins)
            for live_in in live_ins:
                live_in.low, live_in.high = low, high
            snapshot = self._of_shared_memory(live_ins[0]) if live_ins[0].buffer.shared else None
            for live_in in live_ins:
                live_in.snapshot = snapshot

    def present(self) -> set[LiveIn]:
        """The open ones."""
        with self._lock:
            return {live_in for waiting in self.open.values() for live_in in waiting}

    def drop(self, live_ins: Iterable[LiveIn]) -> None:
        """Nobody needs these: their memory may change."""
        gone = set(live_ins)
        with self._lock:
            for buffer in {live_in.buffer for live_in in gone} & self.open.keys():
                self._keep_open(buffer, [live_in for live_in in self.open[buffer] if live_in not in gone])

    def release(self) -> None:
        """Stop watching: the memory of the open ones may change from now on."""
        with self._lock:
            for buffer in self.open:
                buffer.unwatch(self._reference)
            self.open.clear()

    def clear(self) -> None:
        """Forget all."""
        self.release()
        self.snapshots.clear()
        self.uncaptured = False
        self._of_shared.clear()

    # -- what is overwritten
    def before_write(self, view: Strided, writer: str) -> None:
        """Snapshot live-ins that an imminent write to `view` destroys; with `refuse`, raise GradientError."""
        if self.alone and get_ident() != self.thread:
            return
        with self._lock:
            self._before_write(view, writer)

    def _before_write(self, view: Strided, writer: str) -> None:
        waiting = self.open.get(view.buffer)
        if not waiting:
            return
        low, high = extent_of(view)
        hit = [r for r in waiting if r.low < high and low < r.high]
        if not hit:
            return
        if self.refuse:
            raise GradientError(
                f"{writer} overwrites an array of shape {view.shape} whose values {hit[0].reader} read as"
                f" '{hit[0].name}' and needs for its gradient",
                hint="write into another array, or open the tape with on_overwrite='save'",
            )
        # A replay of the open graph has to take the snapshots again of what was read in it, and only of that: what was
        # read before is not read again.
        here = _series()
        for readers in ([r for r in hit if r.series is here], [r for r in hit if r.series is not here]):
            if readers:
                snapshot = self._take(view.buffer, readers, writer)
                for live_in in readers:
                    live_in.snapshot = snapshot
                if config.verify_autograd_array_access:
                    first = f"'{readers[0].name}' of {readers[0].reader}"
                    warnings.warn(
                        f"{writer} overwrites an array of shape {view.shape}, which has already been read from, as"
                        f" {first}: for the gradient the tape keeps a copy of {snapshot.data.nbytes} bytes; write to"
                        " another array to save that (and for Warp, which keeps none)",
                        stacklevel=depth_of_user(),
                    )
        self._keep_open(view.buffer, [r for r in waiting if r.snapshot is None])

    def _keep_open(self, buffer: Buffer, live_ins: list[LiveIn]) -> None:
        """Of a buffer, these are still open."""
        self.open[buffer] = live_ins
        if not live_ins:
            buffer.unwatch(self._reference)

    def _of_shared_memory(self, live_in: LiveIn) -> RangeSnapshot:
        """The present content of memory that others can write: the last snapshot of it, if that is the same still."""
        buffer, size = live_in.buffer, live_in.high - live_in.low
        known = self._of_shared.setdefault(buffer, [])
        if capturing() is None:
            last = next((s for s in reversed(known) if s.low == live_in.low and s.data.nbytes == size), None)
            if last is not None and np.array_equal(
                content_of(last.data), content_of(buffer, live_in.low, live_in.high)
            ):
                return last
        known.append(self._take(buffer, [live_in], ""))
        return known[-1]

    def _take(self, buffer: Buffer, readers: Sequence[LiveIn], writer: str) -> RangeSnapshot:
        low, high = _hull(readers)
        captured = readers[0].series is not None and readers[0].series is _series()
        mine = get_ident() == self.thread
        data = self.arena.buffer(high - low, buffer.device) if mine else buffer.device.allocate(high - low)
        wanted = [(r.name, r.reader) for r in readers]
        snapshot = RangeSnapshot(buffer, low, data, wanted, writer)
        if captured:
            add_native_node(snapshot.save, snapshot.row, snapshot)
        else:  # a replay would come too late: the values are those of before
            snapshot.save()
            self.uncaptured = True
        self.snapshots.append(snapshot)
        return snapshot


def _hull(live_ins: Sequence[LiveIn]) -> tuple[int, int]:
    """From the first to behind the last byte."""
    return min(live_in.low for live_in in live_ins), max(live_in.high for live_in in live_ins)


def _series() -> object:
    """Of the graph that is open."""
    graph = capturing()
    return None if graph is None else graph.series


@contextmanager
def restored(live_ins: Sequence[LiveIn]) -> Iterator[None]:
    """Inside the block live memory has the values of the live-ins; afterwards, however it ends, what it had before."""
    put_back: list[Callable[[], None]] = []
    swapped: list[RangeSnapshot] = []
    observer = observers.current()
    try:
        for snapshot in dict.fromkeys(r.snapshot for r in live_ins if r.snapshot is not None):
            live, device = snapshot.live, snapshot.buffer.device
            present = ByteRange(duplicate(snapshot.buffer, snapshot.low, snapshot.low + snapshot.data.nbytes))
            put_back.insert(0, partial(device.copy, live, present))
            device.copy(live, ByteRange(snapshot.data))
            snapshot.buffer.epoch += 1
            if observer is not None:
                swapped.append(snapshot)
                observer.swapped(snapshot)
        yield
    finally:
        insist(put_back)
        for live_in in live_ins:
            live_in.buffer.epoch += 1
        if observer is not None:
            for snapshot in reversed(swapped):
                observer.swapped(snapshot)
