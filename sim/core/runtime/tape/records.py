"""The records of a tape: what it has recorded, in order.  Launches stand in `launch_records`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Protocol

from sim.core.lang.errors import GradientError
from sim.core.runtime.ambient import observers
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.operations import Operation
from sim.core.runtime.devices.graph import add_native_node, add_node, add_whole_node, capturing
from sim.core.runtime.tape.live_ins import LiveIn, restored
from sim.core.runtime.tape.memory_report import Remembered
from sim.core.runtime.tape.probes import passing


class TapeRecord(Protocol):
    """What a tape asks of a record; `str(record)` names it in messages."""

    @property
    def arrays(self) -> Iterable[array]:
        """All that it has to do with."""

    @property
    def writes(self) -> Iterable[array]:
        """Those of them that it writes, in whole or in part."""

    @property
    def works_on_snapshots(self) -> bool:
        """Whether `backward` changes, for a while, what the tape keeps: where it breaks off that may be spoilt."""

    def backward(self) -> None:
        """Turn the gradients after the operation into those before it."""

    def memory(self) -> list[Remembered]:
        """What it keeps for that, beside snapshots."""


@dataclass(eq=False)
class WriteRecord:
    """A copy, fill or write from the host.  active: which of its arrays had a gradient when it was recorded."""

    operation: Operation
    active: tuple[bool, ...]
    works_on_snapshots = False

    def backward(self) -> None:
        _check_active(self, self.active)
        gradients = [a.grad for a in self.arrays]
        graph = capturing()
        if graph is not None:
            for a in self.arrays:
                graph.uses_gradient(a.buffer)
        add_native_node(
            self._apply_adjoint, lambda: self.operation.adjoint_row(_gradient_of), (self.operation, gradients)
        )

    def _apply_adjoint(self) -> None:
        self.operation.adjoint(_gradient_of)
        observer = observers.current()
        if observer is not None:
            observer.taken_back(self.operation)

    @property
    def arrays(self) -> list[array]:
        return [*self.operation.reads, *self.operation.writes]

    @property
    def writes(self) -> Sequence[array]:
        return self.operation.writes

    def memory(self) -> list[Remembered]:
        return []

    def __str__(self) -> str:
        return self.operation.name


@dataclass(eq=False)
class FunctionRecord:
    """A part of the program whose adjoint the caller knows: `run`, with the inputs as they were.

    touched, writes: the arrays it has to do with, and those that it may write.
    active: which of `touched` had a gradient when it was recorded.  memory: what is kept for `run`.
    """

    name: str
    run: Callable[[], None]
    live_ins: list[LiveIn]
    touched: list[array]
    writes: list[array]
    memory: Callable[[], list[Remembered]]
    active: tuple[bool, ...]
    works_on_snapshots = False

    def backward(self) -> None:
        # A replay runs the same again.  An input without a snapshot by now stays where it is then, even if the tape
        # takes one later: so the graph gets live-ins of its own.
        saved = [replace(live_in) for live_in in self.live_ins if live_in.snapshot is not None]
        add_whole_node(partial(self._run_with, saved), (), ())

    def _run_with(self, live_ins: list[LiveIn]) -> None:
        _check_active(self, self.active)
        with restored(live_ins):
            self.run()

    @property
    def arrays(self) -> list[array]:
        return self.touched

    def __str__(self) -> str:
        return self.name


@dataclass(eq=False)
class Probe:
    """A named place of the program.  state: the arrays whose gradients are of interest there."""

    name: str
    state: Mapping[str, array]
    arrays: ClassVar[tuple[array, ...]] = ()
    writes: ClassVar[tuple[array, ...]] = ()
    works_on_snapshots = False

    def backward(self) -> None:
        add_node(lambda: passing(self.name, self.state))

    def memory(self) -> list[Remembered]:
        return []

    def __str__(self) -> str:
        return self.name


def active_now(arrays: Iterable[array]) -> tuple[bool, ...]:
    """Which of these require a gradient."""
    return tuple(a.requires_grad for a in arrays)


def _check_active(record: WriteRecord | FunctionRecord, active: tuple[bool, ...]) -> None:
    """Raises GradientError if arrays of a record have got or lost their gradient since it was made."""
    now = active_now(record.arrays)
    if now != active:
        which = next(a for a, before, after in zip(record.arrays, active, now, strict=True) if before != after)
        raise activity_changed(f"an array of shape {which.shape}", record)


def activity_changed(what: str, record: TapeRecord) -> GradientError:
    """The error that an array of a record has got or lost its gradient."""
    return GradientError(
        f"requires_grad of {what} of the {record} was changed after that was recorded: its gradient cannot be right",
        hint="set requires_grad before recording, or record again",
    )


def _gradient_of(a: array) -> array | None:
    gradient: array | None = a.grad
    return gradient
