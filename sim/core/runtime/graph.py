"""Graphs: what a piece of the program did to memory, as a list of actions that run again without the Python around them.

Inside `with capture() as graph:` everything still happens as usual, and is noted.  `graph.replay()` does the same on the
present content of the same memory.  Arguments that are numbers keep the value they had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sim.core.lang.errors import GradientError
from sim.core.lang.types import Type, uint8
from sim.core.runtime import shadows
from sim.core.runtime.buffer import Buffer, Strided, announce

_open: list[Graph] = []


@dataclass(eq=False)
class _Span:
    """All bytes of a buffer, as a view."""

    buffer: Buffer
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Type = uint8
    is_contiguous: bool = True

    @property
    def size(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        return self.shape[0]


def _whole(buffer: Buffer) -> _Span:
    return _Span(buffer, 0, (buffer.nbytes,), (1,))


class Graph:
    """Actions in order: `run(address, begin, end)` of compiled kernels, and calls without arguments."""

    def __init__(self) -> None:
        self.actions: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._keep: list[Any] = []
        self._written: dict[Any, Strided] = {}
        self._shadow = shadows.current()

    def __len__(self) -> int:
        return len(self.actions)

    def kernel(self, run: Callable[[int, int, int], None], address: int, n: int, keep: Any) -> None:
        """Note the launch of a compiled kernel; `keep` owns its argument block and memory."""
        self.actions.append((run, (address, 0, n)))
        self._keep.append(keep)

    def call(self, action: Callable[[], None]) -> None:
        """Note anything else that changes memory."""
        self.actions.append((action, ()))

    def writes(self, view: Strided) -> None:
        """Note what memory is written, so that a replay can announce it."""
        known = self._written.setdefault(view.buffer, view)
        if known is not view and (known.offset, known.shape, known.strides) != (view.offset, view.shape, view.strides):
            self._written[view.buffer] = _whole(view.buffer)

    def replay(self) -> None:
        """Do it all again."""
        if shadows.current() is not self._shadow:
            raise GradientError("this graph was captured outside of the forward mode in which it is replayed, or the other way round", hint="capture it again")
        for view in self._written.values():
            view.buffer.epoch += 1
            if view.buffer.watchers:
                announce(view, "replay of a captured step")
        for action, args in self.actions:
            action(*args)


def capturing() -> Graph | None:
    """The innermost open graph, or None."""
    return _open[-1] if _open else None


def note(action: Callable[[], None]) -> None:
    """Do something to memory, and note it if a graph is open."""
    action()
    if _open:
        _open[-1].call(action)


@contextmanager
def capture() -> Iterator[Graph]:
    """`with capture() as graph:` notes what happens to memory inside the block."""
    graph = Graph()
    _open.append(graph)
    try:
        yield graph
    finally:
        _open.pop()
