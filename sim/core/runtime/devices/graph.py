"""Graphs: what a piece of the program did to memory, as nodes that run again without the Python around them.

Inside `with capture() as graph:` everything still happens as usual, and is captured.  `graph.replay()` does the same on
the present content of the same memory: one native call walks the launches, copies and fills.  Only what has no native
form (assertions, prints, the reference interpreter) is called in between.  Arguments that are numbers keep their value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any
from weakref import WeakSet

import numpy as np

from sim.core.lang.errors import GradientError, entry_point
from sim.core.lang.frontend.captures import Captures
from sim.core.runtime.ambient import observers, recording
from sim.core.runtime.ambient.open_graphs import opened, somewhere
from sim.core.runtime.devices.base_device import Device, DeviceNode, NodeForm
from sim.core.runtime.devices.segments import DeviceSegment, NativeSegment
from sim.core.runtime.memory.buffer import Buffer, ByteRange, Operand, Strided, before_write, heard


class Graph:
    """What was captured, in order.  `replay()` does it again.

    series: shared by graphs always replayed one after the other; a live-in of one may get its snapshot in the next.
    """

    def __init__(self, series: object = None) -> None:
        self.series = object() if series is None else series
        self.device: Device | None = None
        """The one that `capture_begin` was called for; whatever a graph captures may be work of any device."""
        self._segments: list[NativeSegment | DeviceSegment | Callable[[], None]] = []
        self._keep: list[object] = []
        self._written: dict[Buffer, Strided] = {}
        self._read: dict[tuple[object, ...], Strided] = {}
        self._slices_written: dict[Buffer, dict[tuple[object, ...], Strided]] = {}
        """The views of gradients that are written: whose a result is, is known by ranges."""
        self._undo: list[Callable[[], None]] = []
        self._observer = observers.current()
        self._count = 0
        self._gradients: dict[Buffer, Buffer | None] = {}
        self._captures: dict[int, Captures] = {}
        self.recorders: WeakSet[recording.AnyRecorder] = WeakSet()
        """The tapes that recorded while this was captured: they hear of a replay."""
        self.carries = False
        """Whether it reads arrays that required a gradient when it was captured."""
        self.owns_fresh_memory = False
        """Whether arrays that are made while it is captured begin anew at each replay, with their zeros."""
        self.strand: int | None = None
        """Of what is captured now, see `strand`."""
        self.broken = ""
        """What broke off while this was captured."""
        self.executes = True
        """Whether what is captured happens too."""

    def __len__(self) -> int:
        return self._count

    def row(self, function: int, block: bytes, end: int, grain: int, keep: object, name: str, nbytes: int) -> None:
        """Add a native function (`sim.core.backends.native`); `keep` owns its code and the memory it touches.

        name, nbytes: for profiles.
        """
        self._native_segment().add(function, block, end, grain, (name, nbytes), self.strand if grain else None)
        self._keep.append(keep)
        self._count += 1

    def native(self, function: int, words: tuple[int, ...], end: int, keep: object) -> None:
        """Add a native function with a block of these words."""
        self.row(function, np.array(words, np.int64).tobytes(), end, 0, keep, "copies and fills", 2 * end)

    def _native_segment(self) -> NativeSegment:
        """What rows are added to: the last segment, if it is of rows."""
        last = self._segments[-1] if self._segments else None
        if not isinstance(last, NativeSegment):
            self._segments.append(last := NativeSegment())
        return last

    def on_device(self, device: Device, action: Callable[[], None], keep: object) -> None:
        """Add an action that only enqueues work on a device, and neither waits for it nor reads host data."""
        last = self._segments[-1] if self._segments else None
        if not isinstance(last, DeviceSegment) or last.device is not device:
            self._segments.append(last := DeviceSegment(device))
        last.actions.append(action)
        self._keep.append(keep)
        self._count += 1

    def call(self, action: Callable[[], None], keep: object = None) -> None:
        """Add anything else that changes memory."""
        self._segments.append(action)
        self._keep.append(keep)
        self._count += 1

    def writes(self, view: Strided) -> None:
        """Remember what memory is written: a replay calls `before_write` for it."""
        if view.buffer.owners is not None:
            self._slices_written.setdefault(view.buffer, {})[view.offset, view.shape, view.strides] = view
        known = self._written.setdefault(view.buffer, view)
        if known is not view and (known.offset, known.shape, known.strides) != (view.offset, view.shape, view.strides):
            self._written[view.buffer] = ByteRange(view.buffer)

    def reads(self, view: Strided) -> None:
        """Remember what memory is read."""
        if view.buffer not in self._written:
            self._read.setdefault((view.buffer, view.offset, view.shape, view.strides), view)

    @property
    def rows(self) -> NativeSegment | None:
        """All of it, if that is one table of native functions."""
        only = self._segments[0] if len(self._segments) == 1 else None
        return only if isinstance(only, NativeSegment) else None

    def with_rows(self, rows: NativeSegment, keep: object) -> Graph:
        """One that touches what this does, as far as others can see, by other rows; keep: what they work with."""
        out = copy(self)
        out._segments, out._keep, out._count = [rows], [self, keep], len(rows.rows)
        return out

    @property
    def written(self) -> list[Buffer]:
        """The memory that it writes."""
        return list(self._written)

    @property
    def read(self) -> list[Any]:
        """The arrays that it reads before it writes to their memory, if it does."""
        return list(self._read.values())

    def on_failure(self, undo: Callable[[], None]) -> None:
        """What to do if a replay breaks off."""
        self._undo.append(undo)

    def uses_gradient(self, buffer: Buffer) -> None:
        """Remember that the memory of this gradient is in the nodes."""
        self._gradients[buffer] = buffer.gradient

    def uses(self, captures: Captures) -> None:
        """Remember what a launched kernel has read of Python."""
        if captures.watches:
            self._captures[id(captures)] = captures

    @property
    def stale(self) -> bool:
        """Whether a launch would trace a kernel anew: a name or a function that it reads is another one now.

        A replay runs the code that was captured all the same, as it passes the numbers that were captured.
        """
        return any_stale([self])

    @property
    def outdated(self) -> bool:
        """Whether an array has another gradient now: a replay would add to the one from when this was captured."""
        return any(buffer.gradient is not gradient for buffer, gradient in self._gradients.items())

    @entry_point
    def replay(self) -> None:
        """Do it all again.  Raises GradientError if an array has got another gradient since, or for one who records.

        Where a replay breaks off, gradients that a `backward` in it was about to change are put back.
        """
        self._check()
        recorder = recording.current()
        if recorder is not None:
            recorder.replay(self._written.values(), self.carries)
        self._before_writes()
        for tape in self.recorders:  # now that they have saved what is overwritten
            tape.replayed()
        outer = capturing()
        with suspend_capture():
            self._run()
        if outer is not None:
            outer.call(self.replay)

    def rerun(self, times: int = 1) -> None:
        """`replay` for whoever made this for himself: no tape, graph or forward mode is open, arrays have the gradients
        that they had (`outdated`), and tapes that recorded meanwhile have nothing to do with what it overwrites.

        times: in a row; more than once only of one table of native functions (`rows`)."""
        self._before_writes()
        if times == 1:
            self._run()
        else:
            assert self.rows is not None, "only a table of native functions runs more than once"
            self.rows.run(times)

    def _check(self) -> None:
        """Raises GradientError where a replay would not do what was captured."""
        if self.broken:
            raise GradientError(
                f"this graph is not complete: {self.broken} while it was captured", hint="capture it again"
            )
        if self.outdated:
            raise GradientError(
                "an array has got another gradient (`a.grad = ...` or `a.requires_grad = ...`) since this graph was"
                " captured",
                hint="capture it again, or clear gradients by a.grad.zero_() or tape.zero()",
            )
        if observers.current() is not self._observer:
            raise GradientError(
                "this graph was captured outside of the forward mode in which it is replayed, or the other way round",
                hint="capture it again",
            )

    def _before_writes(self) -> None:
        """What comes before the writes of a launch, for all of them at once: whoever needs the content saves it, the
        versions count up, and results of a backward become the user's."""
        for buffer, view in self._written.items():
            if heard(buffer):
                before_write(view, "replay of a captured graph")
            buffer.version += 1
            if buffer.owners is not None:
                for written in self._slices_written.get(buffer, {(): view}).values():
                    buffer.owners.written(written)

    def _run(self) -> None:
        try:
            for segment in self._segments:
                if isinstance(segment, (NativeSegment, DeviceSegment)):
                    segment.run()
                else:
                    segment()
        except BaseException:
            for undo in reversed(self._undo):
                undo()
            raise


def any_stale(graphs: Iterable[Graph]) -> bool:
    """Whether any of them is `stale`; many have launched the same kernels."""
    captures = dict[int, Captures]()
    for graph in graphs:
        captures |= graph._captures
    for read in captures.values():
        if read.changed():
            return True
    return False


def joined(graphs: Iterable[Graph]) -> Graph:
    """One graph that does what these do, one after the other."""
    out = Graph()
    for graph in graphs:
        if graph._observer is not out._observer:
            raise GradientError(
                "graphs captured in and outside of forward mode cannot be joined", hint="capture them again"
            )
        for segment in graph._segments:
            last = out._segments[-1] if out._segments else None
            if isinstance(segment, NativeSegment):
                out._native_segment().extend(segment)
            elif not isinstance(segment, DeviceSegment):
                out._segments.append(segment)
            elif isinstance(last, DeviceSegment) and last.device is segment.device:
                last.actions += segment.actions
            else:  # its own: what is joined behind it must not reach the graph that it comes from
                out._segments.append(DeviceSegment(segment.device, segment.actions))
        out._keep.append(graph)
        out._count += len(graph)
        out.carries |= graph.carries
        out.broken = out.broken or graph.broken
        out._undo += graph._undo
        out._gradients |= graph._gradients
        out._captures |= graph._captures
        out.recorders |= graph.recorders
        for view in graph._read.values():
            out.reads(view)
        for view in [
            *graph._written.values(),
            *(v for views in graph._slices_written.values() for v in views.values()),
        ]:
            out.writes(view)
    return out


def capturing() -> Graph | None:
    """The innermost open graph, or None."""
    if not somewhere:
        return None
    entries: list[Graph | None] = opened.entries
    return entries[-1] if entries else None


@contextmanager
def strand(number: int | None) -> Iterator[None]:
    """`with strand(3):` launches inside touch nothing that those of other strands around them touch; None: they may.

    Threads then take strands as a whole.  What cannot be shared among threads in itself is no part of one.
    """
    graph = capturing()
    if graph is None or number is None:
        yield
        return
    before, graph.strand = graph.strand, number
    try:
        yield
    finally:
        graph.strand = before


@contextmanager
def suspend_capture() -> Iterator[None]:
    """`with suspend_capture():` no graph captures what happens inside the block."""
    if not opened.entries:
        yield
        return
    before = list(opened.entries)
    opened.push(None)
    try:
        yield
    finally:
        opened.restore(before)


def add_node(action: Callable[[], None]) -> None:
    """Do something to memory, and capture it if a graph is open."""
    graph = capturing()
    if graph is None or graph.executes:
        action()
    if graph is not None:
        graph.call(action)


def add_whole_node(action: Callable[[], None], reads: Iterable[Operand], writes: Iterable[Operand]) -> None:
    """As `add_node`, for Python code with launches of its own, which a replay runs again as it is.

    reads, writes: the arrays that others see it read and write.
    """
    graph, reads, writes = capturing(), list(reads), list(writes)
    if graph is not None:
        for view in writes:
            before_write(view, "what runs as a whole")
    if graph is None or graph.executes:
        with suspend_capture():
            action()
    if graph is None:
        return
    graph.call(action)
    for view in reads:
        graph.reads(view)
        graph.carries |= view.requires_grad
    for view in writes:
        graph.writes(view)


def add_native_node(action: Callable[[], None], row: Callable[[], NodeForm], keep: object) -> None:
    """As `add_node`, for an action that may have a better form: `row()` gives it.  keep: owns the memory it touches."""
    graph = capturing()
    if graph is None or graph.executes:
        action()
    if graph is not None:
        found = row() if observers.current() is None else None
        if found is None:
            graph.call(action)
        elif isinstance(found, DeviceNode):
            graph.on_device(found.device, action, keep)
        else:
            graph.native(*found, keep)


@contextmanager
def capture_only() -> Iterator[Graph]:
    """`with capture_only() as graph:` captures what would happen to memory inside the block, and nothing happens: for
    a part of the program that does not look at what it has done."""
    with capture() as graph:
        graph.executes = False
        yield graph


@contextmanager
def capture(after: Graph | None = None) -> Iterator[Graph]:
    """`with capture() as graph:` captures what happens to memory inside the block; `graph.replay()` does it again.

    Launches, copies, fills, writes from the host (with the data they had), rollouts and `backward` of a tape are
    captured, also what an open tape records of them; so is the derived data of a model whose solver takes a step.
    Python code in between is not: its decisions and the numbers it passed (dt, settings of a solver) stay as they were,
    and so do the constants and functions that the launched kernels had captured.

    What a tape recorded before and still needs is saved once, when the block overwrites it; not again at a replay.
    after: a graph that is always replayed before this one.
    """
    graph, before = Graph(after.series if after is not None else None), list(opened.entries)
    opened.push(graph)
    try:
        yield graph
    except BaseException as problem:
        graph.broken = f"{type(problem).__name__} was raised"
        raise
    finally:
        opened.restore(before)
