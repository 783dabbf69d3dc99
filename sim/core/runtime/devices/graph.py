"""Graphs: what a piece of the program did to memory, as a table that runs again without the Python around it.

Inside `with capture() as graph:` everything still happens as usual, and is noted.  `graph.replay()` does the same on
the present content of the same memory: one native call walks the launches, copies and fills.  Only what has no native
form (assertions, prints, the reference interpreter) is called in between.  Arguments that are numbers keep the value
they had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakSet

import numpy as np

from sim.core.backends.native import ROW, Row
from sim.core.lang.errors import GradientError, entry_point
from sim.core.lang.frontend.captures import Captures
from sim.core.runtime.ambient import observers, recording
from sim.core.runtime.ambient.profile import open_profiles, timed
from sim.core.runtime.ambient.stacks import Stack, anywhere
from sim.core.runtime.ambient.threads import run_table
from sim.core.runtime.memory.buffer import Buffer, ByteRange, Strided, before_write

opened = Stack()
"""The graphs; only the innermost notes what happens."""


class _Table:
    """Rows for the native walker, as they are collected; a block of memory when they first run."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int]] = []
        self.labels: list[tuple[str, int]] = []
        """What each row is called, and the bytes that it moves: for profiles."""
        self._memory: np.ndarray | None = None
        self._address = 0
        self._splits = False

    def extend(self, other: _Table) -> None:
        self.rows += other.rows
        self.labels += other.labels

    def run(self) -> None:
        if self._memory is None or len(self._memory) != len(self.rows):
            self._memory = np.array(self.rows, np.int64).reshape(-1, ROW)
            self._address = self._memory.ctypes.data
            self._splits = any(grain and end >= 2 * grain for _, _, end, grain in self.rows)
        if open_profiles:
            for k, (name, nbytes) in enumerate(self.labels):
                timed(name, nbytes, partial(run_table, self._address + 8 * ROW * k, 1, False))
        else:
            run_table(self._address, len(self._memory), self._splits)


class _Stretch:
    """Actions that only tell one device what to do: the device notes them when they first run again, and does them at
    once from then on."""

    def __init__(self, device: Any, actions: list[Callable[[], None]] | None = None) -> None:
        self.device, self.actions = device, actions if actions is not None else []
        self._noted: Any = None
        self._count = 0

    def run(self) -> None:
        if self._count != len(self.actions):
            self._noted, self._count = self.device.noted(self.actions), len(self.actions)
        self.device.replay(self._noted)


class Graph:
    """What was captured, in order.  `replay()` does it again.

    series: shared by graphs that are always replayed one after the other; a tape may claim a value in one and save it
    in the next.
    """

    def __init__(self, series: object = None) -> None:
        self.series = object() if series is None else series
        self._parts: list[_Table | _Stretch | Callable[[], None]] = []
        self._keep: list[Any] = []
        self._written: dict[Any, Strided] = {}
        self._read: dict[tuple[Any, ...], Any] = {}
        self._parts_written: dict[Any, dict[Any, Strided]] = {}
        """The views of gradients that are written: whose a result is, is known by ranges."""
        self._undo: list[Callable[[], None]] = []
        self._observer = observers.current()
        self._count = 0
        self._gradients: dict[Buffer, Buffer | None] = {}
        self._captures: dict[int, Captures] = {}
        self.recorders: WeakSet[Any] = WeakSet()
        """The tapes that recorded while this was captured: a replay is told to them."""
        self.carries = False
        """Whether it reads arrays that required a gradient when it was captured."""
        self.broken = ""
        """What broke off while this was captured."""

    def __len__(self) -> int:
        return self._count

    def row(self, function: int, block: int, end: int, grain: int, keep: Any, name: str, nbytes: int) -> None:
        """Note a native function: see `sim.core.backends.native`; `keep` owns its block, its code and the memory that
        it touches.

        name, nbytes: for profiles.
        """
        table = self._table()
        table.rows.append((function, block, end, grain))
        table.labels.append((name, nbytes))
        self._keep.append(keep)
        self._count += 1

    def native(self, function: int, words: tuple[int, ...], end: int, keep: Any) -> None:
        """Note a native function with a block of these words."""
        block = np.array(words, np.int64)
        self.row(function, block.ctypes.data, end, 0, (block, keep), "copies and fills", 2 * end)

    def _table(self) -> _Table:
        """The table that rows are added to: the last part, if it is one."""
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, _Table):
            last = _Table()
            self._parts.append(last)
        return last

    def on_device(self, device: Any, action: Callable[[], None], keep: Any) -> None:
        """Note an action that only tells a device what to do, and neither waits for it nor reads host data."""
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, _Stretch) or last.device is not device:
            self._parts.append(last := _Stretch(device))
        last.actions.append(action)
        self._keep.append(keep)
        self._count += 1

    def call(self, action: Callable[[], None]) -> None:
        """Note anything else that changes memory."""
        self._parts.append(action)
        self._count += 1

    def writes(self, view: Strided) -> None:
        """Note what memory is written, so that a replay can before_write it."""
        if view.buffer.owners is not None:
            self._parts_written.setdefault(view.buffer, {})[view.offset, view.shape, view.strides] = view
        known = self._written.setdefault(view.buffer, view)
        if known is not view and (known.offset, known.shape, known.strides) != (view.offset, view.shape, view.strides):
            self._written[view.buffer] = ByteRange(view.buffer)

    def reads(self, view: Strided) -> None:
        """Note what memory is read."""
        if view.buffer not in self._written:
            self._read.setdefault((view.buffer, view.offset, view.shape, view.strides), view)

    @property
    def written(self) -> list[Buffer]:
        """The memory that it writes."""
        return list(self._written)

    @property
    def read(self) -> list[Any]:
        """The arrays that it reads before it writes to their memory, if it does."""
        return list(self._read.values())

    def on_failure(self, undo: Callable[[], None]) -> None:
        """Note what to do if a replay breaks off."""
        self._undo.append(undo)

    def uses_gradient(self, buffer: Buffer) -> None:
        """Note that the memory of this gradient is in the table."""
        self._gradients[buffer] = buffer.gradient

    def uses(self, captures: Captures) -> None:
        """Note what a launched kernel has read of Python."""
        if captures.watches:
            self._captures[id(captures)] = captures

    @property
    def stale(self) -> bool:
        """Whether a kernel would be traced anew if it were launched: a name or a function that it reads is another one
        now.

        A replay runs the code that was captured all the same, as it passes the numbers that were captured.
        """
        return any(captures.changed() for captures in self._captures.values())

    @property
    def outdated(self) -> bool:
        """Whether an array has got another gradient since: a replay would add to the one that it had when this was
        captured."""
        return any(buffer.gradient is not gradient for buffer, gradient in self._gradients.items())

    @entry_point
    def replay(self) -> None:
        """Do it all again.  Raises GradientError if an array has got another gradient array since, or for one who
        records.

        Where a replay breaks off, gradients that a `backward` in it was about to change are put back.
        """
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
        recorder = recording.current()
        if recorder is not None:
            recorder.replay(self._written.values(), self.carries)
        for view in self._written.values():
            buffer = view.buffer
            if buffer.watchers:
                before_write(view, "replay of a captured graph")
            buffer.version += 1
            if buffer.owners is not None:
                for written in self._parts_written.get(buffer, {0: view}).values():
                    buffer.owners.written(written)
        for tape in self.recorders:  # now that they have saved what is overwritten
            tape.replayed()
        outer = capturing()
        with suspend_capture():
            try:
                for part in self._parts:
                    if isinstance(part, (_Table, _Stretch)):
                        part.run()
                    else:
                        part()
            except BaseException:
                for undo in reversed(self._undo):
                    undo()
                raise
        if outer is not None:
            outer.call(self.replay)


def joined(graphs: Iterable[Graph]) -> Graph:
    """One graph that does what these do, one after the other."""
    out = Graph()
    for graph in graphs:
        if graph._observer is not out._observer:
            raise GradientError(
                "graphs captured in and outside of forward mode cannot be joined", hint="capture them again"
            )
        for part in graph._parts:
            last = out._parts[-1] if out._parts else None
            if isinstance(part, _Table):
                out._table().extend(part)
            elif isinstance(part, _Stretch) and isinstance(last, _Stretch) and last.device is part.device:
                last.actions += part.actions
            else:
                out._parts.append(_Stretch(part.device, list(part.actions)) if isinstance(part, _Stretch) else part)
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
        for view in [*graph._written.values(), *(v for views in graph._parts_written.values() for v in views.values())]:
            out.writes(view)
    return out


def capturing() -> Graph | None:
    """The innermost open graph, or None."""
    if not anywhere:
        return None
    entries = opened.entries
    return entries[-1] if entries else None


@contextmanager
def suspend_capture() -> Iterator[None]:
    """`with suspend_capture():` no graph notes what happens inside the block."""
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
    """Do something to memory, and note it if a graph is open."""
    action()
    graph = capturing()
    if graph is not None:
        graph.call(action)


def add_whole_node(action: Callable[[], None], reads: Iterable[Any], writes: Iterable[Any]) -> None:
    """As `add_node`, for Python code with launches of its own, which a replay runs again as it is.

    reads, writes: the arrays that others see it read and write.
    """
    graph = capturing()
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


@dataclass(frozen=True)
class DeviceNode:
    """In the place of a native form: the action only tells this device what to do."""

    device: Any


def add_native_node(action: Callable[[], None], row: Callable[[], Row | DeviceNode | None], keep: Any) -> None:
    """As `add_node`, for an action that may have a native form: `row()` gives it, or None; `keep` owns the memory that it
    touches."""
    action()
    graph = capturing()
    if graph is not None:
        found = row() if observers.current() is None else None
        if found is None:
            graph.call(action)
        elif isinstance(found, DeviceNode):
            graph.on_device(found.device, action, keep)
        else:
            graph.native(*found, keep)


@contextmanager
def capture(after: Graph | None = None) -> Iterator[Graph]:
    """`with capture() as graph:` notes what happens to memory inside the block; `graph.replay()` does it again.

    Launches, copies, fills, writes from the host (with the data they had), rollouts and `backward` of a tape are noted,
    also what an open tape records of them; so is the derived data of a model whose solver takes a step.  Python code in
    between is not: its decisions and the numbers it passed (dt, settings of a solver) stay as they were, and so do the
    constants and functions that the launched kernels had captured.

    What a tape recorded before the block and still needs is saved once, when the block overwrites it; not again at a
    replay. after: a graph that is always replayed before this one.
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
