"""The seam between whatever changes memory and forward mode, which changes the tangents beside it.

Every change of memory that may carry a derivative goes to the open observer: compiled kernels are run by it; copies,
fills, and the saving and swapping of snapshots are repeated on the tangents.  Nothing here imports forward mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from sim.core.runtime.ambient.stacks import OpenStack
from sim.core.runtime.compiled.argument_packing import FlatArguments
from sim.core.runtime.compiled.compiled import Compiled
from sim.core.runtime.memory.buffer import Buffer

ArrayT = TypeVar("ArrayT", contravariant=True)
SnapshotT = TypeVar("SnapshotT", contravariant=True)
OperationT = TypeVar("OperationT", contravariant=True)
DeviceT = TypeVar("DeviceT", contravariant=True)


class MemoryObserver(Protocol[ArrayT, SnapshotT, OperationT, DeviceT]):
    """What forward mode shows to the rest of the runtime.

    ArrayT, OperationT, DeviceT: `array`, `Operation` and `Device`; SnapshotT: a snapshot of a tape: all defined above.
    """

    def run(self, compiled: Compiled, device: DeviceT, dims: tuple[int, ...], args: FlatArguments) -> None:
        """Runs a compiled function, and moves the tangents of its arguments."""

    def copied(self, dest: ArrayT, src: ArrayT) -> None:
        """Array `src` has been copied to `dest`."""

    def overwritten(self, dest: ArrayT) -> None:
        """Array `dest` has got values that depend on nothing."""

    def repeated(self, operation: OperationT) -> None:
        """An operation that is linear in the arrays that it reads has run, and is to be applied to the tangents."""

    def saved(self, snapshot: SnapshotT) -> None:
        """A snapshot has saved live memory."""

    def swapped(self, snapshot: SnapshotT) -> None:
        """A snapshot has changed places with live memory."""

    def taken_back(self, operation: OperationT) -> None:
        """The adjoint of a recorded copy, fill or host write has been applied to the gradients."""

    def seeded(self, gradient: ArrayT, weights: ArrayT | None) -> None:
        """`gradient` has been set to one (weights None) or increased by the array `weights`."""

    def tracks(self, buffer: Buffer) -> bool:
        """Whether a buffer has a tangent."""

    def remembered(self, buffer: Buffer) -> Callable[[], None]:
        """What puts the tangent of a buffer back as it is now."""

    def first_meets(self, thing: object) -> bool:
        """Whether `thing`, with derived data to bring up to date, is met for the first time."""


AnyObserver = MemoryObserver[Any, Any, Any, Any]
"""An observer, for those who do not know the rooms above."""


class PassiveObserver:
    """An observer without tangents: the parts that it does not define do nothing."""

    def copied(self, dest: object, src: object) -> None:
        pass

    def overwritten(self, dest: object) -> None:
        pass

    def repeated(self, operation: object) -> None:
        pass

    def saved(self, snapshot: object) -> None:
        pass

    def swapped(self, snapshot: object) -> None:
        pass

    def taken_back(self, operation: object) -> None:
        pass

    def seeded(self, gradient: object, weights: object) -> None:
        pass

    def tracks(self, buffer: Buffer) -> bool:
        return False

    def remembered(self, buffer: Buffer) -> Callable[[], None]:
        return lambda: None

    def first_meets(self, thing: object) -> bool:
        return False


somewhere: list[None] = []
opened = OpenStack[AnyObserver](somewhere)
"""The observers; only the innermost is called."""


def current() -> AnyObserver | None:
    """The open observer, or None."""
    if not somewhere:
        return None
    entries = opened.entries
    return entries[-1] if entries else None


def open_observer(observer: AnyObserver) -> None:
    opened.push(observer)


def close_observer() -> AnyObserver:
    return opened.pop()
