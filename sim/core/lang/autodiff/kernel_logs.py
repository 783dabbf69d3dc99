"""The logs of a kernel's adjoint, as its parameters: what atomics returned, old values and their places, frames."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sim.core.lang.autodiff.replay_plan import ReplayPlan
from sim.core.lang.autodiff.to_be_recorded import ToBeRecorded
from sim.core.lang.autodiff.undo_log import Cursor, ReturnLog, UndoLog, ValueStack, log_array, position_tape
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.clone import Env
from sim.core.lang.ir.core import Op, Value
from sim.core.lang.types import Scalar, array_type, int32


@dataclass(frozen=True)
class LogLayout:
    """A log that the adjoint writes: its arrays, each a scalar type and the numbers of that type in one entry."""

    arrays: tuple[tuple[Scalar, int], ...]


@dataclass
class KernelLogs:
    """The logs of one kernel that is being emitted (the adjoint; or the launch, which only counts most entries).

    returned: by type, what atomics in loops have returned: the launch writes them, the adjoint reads.
    undo:     by array, and stacks, by type: written and read by the adjoint.
    declared: the operations that make their positions, for the top of the kernel.
    params:   the arrays of `undo` and `stacks`, and layouts, one per log.
    """

    returned: dict[Scalar, ReturnLog] = field(default_factory=dict)
    undo: dict[Value, UndoLog] = field(default_factory=dict)
    stacks: dict[Scalar, ValueStack] = field(default_factory=dict)
    declared: list[Op] = field(default_factory=list)
    params: list[Value] = field(default_factory=list)
    layouts: list[LogLayout] = field(default_factory=list)

    @property
    def written(self) -> list[Cursor]:
        """Those that the adjoint writes, in the order of `layouts`."""
        return [*dict.fromkeys(self.undo.values()), *self.stacks.values()]

    def position(self) -> Value:
        op, position = position_tape()
        self.declared.append(op)
        return position

    def add(self, layout: LogLayout, *params: Value) -> None:
        self.layouts.append(layout)
        self.params += params


def kernel_logs(b: Builder, tbr: ToBeRecorded, plan: ReplayPlan, env: Env) -> KernelLogs:
    """The logs that a plan and what atomics return ask for.  env: what the arrays of the kernel are here."""
    logs = KernelLogs()
    for kind in _by_name(map(returned_type, tbr.returned)):
        logs.returned[kind] = ReturnLog(b, logs.position(), Value(array_type(kind, 2), f"returned_{kind.name}"))
    for memory in sorted({plan.groups[a] for a in plan.logged_arrays}):
        written = [p for p in tbr.kernel.params if p in plan.logged_arrays and plan.groups[p] == memory]
        places = log_array(int32, f"undo_{written[0].name}")
        values = {kind: log_array(kind, f"old_{written[0].name}") for kind in UndoLog.kinds_of(written)}
        log = UndoLog(b, logs.position(), [env[p] for p in written], places, values)
        logs.undo.update((p, log) for p in written)
        logs.add(LogLayout(((int32, log.width), *((kind, 1) for kind in values))), places, *values.values())
    for kind in _by_name(plan.stack_types):
        logs.stacks[kind] = ValueStack(b, logs.position(), log_array(kind, "stack"))
        logs.add(LogLayout(((kind, 1),)), logs.stacks[kind].values)
    return logs


def _by_name(kinds: Iterable[Scalar]) -> list[Scalar]:
    return sorted(set(kinds), key=lambda kind: kind.name)


def returned_type(atomic: Op) -> Scalar:
    """The scalar type of what an atomic returns."""
    kind = atomic.results[0].type
    assert isinstance(kind, Scalar)
    return kind


def clear(b: Builder, cursors: Iterable[Cursor]) -> None:
    """Let logs begin with no entries."""
    for cursor in cursors:
        cursor.set(b.const(0, int32))
