"""The seam between whatever changes memory and forward mode, which changes the tangents beside it (`forward.py`).

Every change of memory that may carry a derivative tells the open observer: compiled kernels are run by it, copies, fills
and the saving and swapping of kept values are repeated on the tangents.  Nothing here imports forward mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from sim.core.runtime.ambient.stacks import Stack, anywhere


class MemoryObserver(Protocol):
    """What forward mode shows to the rest of the runtime."""

    def run(self, compiled: Any, device: Any, dims: tuple[int, ...], args: Sequence[Any]) -> None:
        """Runs a compiled function, and moves the tangents of its arguments."""

    def copied(self, dest: Any, src: Any) -> None:
        """Array `src` has been copied to `dest`."""

    def overwritten(self, dest: Any) -> None:
        """Array `dest` has got values that depend on nothing."""

    def saved(self, kept: Any) -> None:
        """A `Snapshot` has saved live memory."""

    def swapped(self, kept: Any) -> None:
        """A `Snapshot` has changed places with live memory."""

    def taken_back(self, operation: Any) -> None:
        """The adjoint of a recorded copy, fill or host write has been applied to the gradients."""

    def seeded(self, gradient: Any, weights: Any) -> None:
        """`gradient` has been set to one (weights None) or increased by the array `weights`."""

    def tracks(self, buffer: Any) -> bool:
        """Whether a buffer has a tangent."""

    def remembered(self, buffer: Any) -> Callable[[], None]:
        """What puts the tangent of a buffer back as it is now."""

    def first_meets(self, thing: object) -> bool:
        """Whether `thing`, with derived data to bring up to date, is met for the first time."""


def _nothing() -> None:
    pass


class PassiveObserver:
    """A observer that only looks on: the parts that it does not define do nothing."""

    def copied(self, dest: Any, src: Any) -> None:
        pass

    def overwritten(self, dest: Any) -> None:
        pass

    def saved(self, kept: Any) -> None:
        pass

    def swapped(self, kept: Any) -> None:
        pass

    def taken_back(self, operation: Any) -> None:
        pass

    def seeded(self, gradient: Any, weights: Any) -> None:
        pass

    def tracks(self, buffer: Any) -> bool:
        return False

    def remembered(self, buffer: Any) -> Callable[[], None]:
        return _nothing

    def first_meets(self, thing: object) -> bool:
        return False


opened = Stack()
"""The observers; only the innermost is told."""


def current() -> MemoryObserver | None:
    """The open observer, or None."""
    if not anywhere:
        return None
    entries = opened.entries
    return entries[-1] if entries else None


def open_observer(observer: MemoryObserver) -> None:
    opened.push(observer)


def close_observer() -> MemoryObserver:
    made: MemoryObserver = opened.pop()
    return made
