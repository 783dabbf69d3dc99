"""What a tape records: launches, writes, stretches that the caller knows the way back through, and marks.

Each knows how to take gradients back (`backward`), and which `arrays` it has to do with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from sim.core.lang.errors import GradientError
from sim.core.runtime.ambient import observers
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import empty
from sim.core.runtime.arrays.operations import Operation
from sim.core.runtime.devices.graph import add_native_node, add_node, add_whole_node, capturing
from sim.core.runtime.launch.argument_packing import Memory
from sim.core.runtime.launch.calls import Call, run, thread_count
from sim.core.runtime.launch.kernel import AdjointPair
from sim.core.runtime.launch.sandbox import host_argument, on_cpu, on_host, private_arguments, run_privately
from sim.core.runtime.tape.claims import Claim, restored
from sim.core.runtime.tape.probes import passing


@dataclass(eq=False, slots=True)
class LaunchRecord:
    """A recorded launch: its adjoint, and where the values lie that the adjoint loads."""

    call: Call
    pair: AdjointPair
    claims: dict[int, Claim]
    records: Sequence[array]
    returned: Sequence[array]
    counts: array | None
    finals: dict[int, Claim]

    def backward(self) -> None:
        call, plan = self.call, self.pair.plan
        active = call.spec.active(call.args)
        if active != plan.active:
            changed = set(active).symmetric_difference(plan.active)
            raise _changed(f"'{call.spec.func.params[min(changed)].name}'", self)
        args = list(call.args)
        for k, claim in self.claims.items():
            args[k] = self._memory(args[k], claim)
        graph = capturing()
        for k in plan.active:
            args.append(call.args[k].grad)
            if graph is not None:
                graph.uses_gradient(call.args[k].buffer)
        args += [
            *self.records,
            *self.returned,
            *self._logs(),
            *(self._memory(call.args[k], self.finals[k]) for k in plan.finals),
        ]
        run(self.pair.adjoint, call.device, call.dims, args)

    @staticmethod
    def _memory(a: array, claim: Claim) -> array | Memory:
        """The values of an array that were claimed, wherever they lie now."""
        return (
            a
            if claim.kept is None
            else Memory(claim.address(a.offset), a.shape, a.strides, a.is_contiguous, claim.kept)
        )

    def _logs(self) -> list[array]:
        """Room for the logs of one thread at a time, as the forward launch has counted it."""
        plan, counts = self.pair.plan, self.counts
        if counts is None:
            return []
        room = [max(int(n), 1) for n in counts.device.numpy(counts)[len(self.returned) :]]
        most = [*(a.shape[0] for a in self.returned), *room]

        def check() -> None:
            if any(int(n) > m for n, m in zip(counts.device.numpy(counts), most, strict=True)):
                raise GradientError(
                    f"{self}: it stores more often than there is room for, because it was captured with other values,"
                    " or its threads ran in another order",
                    hint="capture it again; on a GPU, make what a thread stores independent of the other threads",
                )

        add_node(check)
        device = self.call.device
        return [
            empty((1, n * width), kind, device)
            for log, n in zip(plan.logs, room, strict=True)
            for kind, width in log.arrays
        ]

    @property
    def arrays(self) -> list[array]:
        return [a for a in self.call.args if isinstance(a, array)]

    @property
    def writes(self) -> list[array]:
        return [self.call.args[k] for k in self.call.spec.written if self.call.args[k] is not None]

    @property
    def works_on_kept(self) -> bool:
        """Whether the adjoint changes, for a while, what the tape keeps: where it breaks off that may be spoilt."""
        return any(k in self.call.spec.writes for k in self.claims)

    def __str__(self) -> str:
        return f"launch of '{self.call.spec.kernel.name}'"


@dataclass(eq=False)
class WriteRecord:
    """A copy, fill or write from the host."""

    operation: Operation
    active: tuple[bool, ...]
    works_on_kept: ClassVar[bool] = False

    def backward(self) -> None:
        _check_active(self, self.active)
        gradients = [a.grad for a in self.arrays]
        graph = capturing()
        if graph is not None:
            for a in self.arrays:
                graph.uses_gradient(a.buffer)
        add_native_node(
            self._take_back, lambda: self.operation.adjoint_row(lambda a: a.grad), (self.operation, gradients)
        )

    def _take_back(self) -> None:
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

    def __str__(self) -> str:
        return self.operation.name


@dataclass(eq=False)
class FunctionRecord:
    """A stretch of the program whose way back the caller knows: it runs with its inputs as they were.

    writes: those of the arrays that are touched that may be written.
    """

    name: str
    run: Callable[[], None]
    claims: list[Claim]
    touched: list[array]
    writes: list[array]
    memory: Callable[[], list[Remembered]]
    active: tuple[bool, ...]
    works_on_kept: ClassVar[bool] = False

    def backward(self) -> None:
        # A replay runs the same again; what of its input is not kept by then, lies where it lay.
        kept = [replace(c) for c in self.claims if c.kept is not None]
        add_whole_node(partial(self._run_with, kept), (), ())

    def _run_with(self, claims: list[Claim]) -> None:
        _check_active(self, self.active)
        with restored(claims):
            self.run()

    @property
    def arrays(self) -> list[array]:
        return self.touched

    def __str__(self) -> str:
        return self.name


@dataclass(eq=False)
class Mark:
    """A named place; `state`: the arrays whose gradients are of interest there."""

    name: str
    state: Mapping[str, array]
    works_on_kept: ClassVar[bool] = False

    def backward(self) -> None:
        add_node(lambda: passing(self.name, self.state))

    @property
    def arrays(self) -> list[array]:
        return []

    @property
    def writes(self) -> list[array]:
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
        raise _changed(f"an array of shape {which.shape}", record)


def _changed(what: str, record: object) -> GradientError:
    return GradientError(
        f"requires_grad of {what} of the {record} was changed after that was recorded: its gradient cannot be right",
        hint="set requires_grad before recording, or record again",
    )


def room_for_returned(call: Call, pair: AdjointPair, records: list[array]) -> list[array]:
    """Logs for what atomics in loops return: as long as a run in private, on the CPU, finds that they have to be.

    On another device the order of the threads may make them longer: then `LaunchRecord.backward` raises.
    """
    kinds = pair.plan.returned
    if not kinds:
        return []
    assert pair.forward is not None
    counts = np.zeros(len(kinds) + len(pair.plan.logs), np.int32)
    none = [np.empty((0, thread_count(call.dims)), kind.np) for kind in kinds]
    host = on_cpu(call)
    args = [
        *private_arguments(host, call.spec.writes),
        *(records if host is call else on_host(records)),
        *map(host_argument, (*none, counts)),
    ]
    run_privately(pair.forward, host, args, check=False)
    return [empty((int(n), thread_count(call.dims)), kind, call.device) for kind, n in zip(kinds, counts, strict=False)]


def _gradient_of(a: array) -> array | None:
    return a.grad


@dataclass(frozen=True)
class Remembered:
    """One piece of memory that a tape keeps: a `copy` of a range before it was overwritten, or a `record` of loads."""

    nbytes: int
    kind: str
    reason: str


class TapeMemory(list[Remembered]):
    """What a tape keeps beside the arrays."""

    @property
    def nbytes(self) -> int:
        return sum(entry.nbytes for entry in self)

    def __str__(self) -> str:
        totals: dict[tuple[str, str], list[int]] = {}
        for entry in self:
            totals.setdefault((entry.kind, entry.reason), []).append(entry.nbytes)
        rows = sorted(((sum(sizes), len(sizes), *key) for key, sizes in totals.items()), reverse=True)
        lines = [f"{size:>12} bytes, {count:>5} x {kind:<7} {reason}" for size, count, kind, reason in rows]
        return "\n".join([*lines, f"{self.nbytes:>12} bytes in all"])
