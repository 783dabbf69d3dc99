"""Recorded launches: how the adjoint of a kernel gets the values that it loads.

There are four ways, chosen array by array when the adjoint is made (`ToBeRecorded`) and when the launch is recorded:

* live-ins: the content of an argument before the launch, which the tape takes care of (`live_ins`);
* caches: what a thread has loaded and the launch itself overwrites, stored per thread by a variant of the kernel;
* returned: what atomics inside of loops have returned, a log per thread, whose length only a trial run can tell;
* finals: the content of an argument after the launch (of atomic minima and maxima).

What the adjoint itself overwrites while it replays a launch goes to undo logs; the forward launch counts their entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sim.core.lang.errors import GradientError
from sim.core.lang.types import int32
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import empty, zeros
from sim.core.runtime.compiled.argument_packing import Memory
from sim.core.runtime.compiled.compiled import Compiled
from sim.core.runtime.debug.races import refuse_races
from sim.core.runtime.devices.device import Device
from sim.core.runtime.devices.graph import add_node, add_whole_node, capturing, strand
from sim.core.runtime.launch.adjoints import AdjointPair, Differentiated
from sim.core.runtime.launch.aliases import Aliases
from sim.core.runtime.launch.calls import Call, run, thread_count, writing
from sim.core.runtime.launch.hidden import refuse_gradients_by_address
from sim.core.runtime.launch.sandbox import host_argument, on_cpu, on_host, run_sandboxed, sandboxed_arguments
from sim.core.runtime.launch.structures import refuse_elsewhere, structure_memory
from sim.core.runtime.memory.buffer import Buffer
from sim.core.runtime.memory.host_memory import ALIGNMENT
from sim.core.runtime.memory.spans import extent_of
from sim.core.runtime.tape.live_ins import LiveIn, LiveIns, restored
from sim.core.runtime.tape.memory_report import Remembered
from sim.core.runtime.tape.records import activity_changed


@dataclass(eq=False, slots=True)
class LaunchRecord:
    """A recorded launch: its adjoint, and where the values lie that the adjoint loads (see the head of this file).

    live_ins, finals: by number of the parameter.
    counts: entries of the logs `returned`, then of the undo logs; None where there are neither.
    structures: what it read by address; the adjoint finds it where it was.  strand: see `graph.strand`.
    """

    call: Call
    pair: AdjointPair
    live_ins: dict[int, LiveIn]
    caches: Sequence[array]
    returned: Sequence[array]
    counts: array | None
    finals: dict[int, LiveIn]
    structures: Sequence[LiveIn] = ()
    strand: int | None = None

    def begin_adjoint(self) -> None:
        """Begins to compile what `backward` will run, if that is known by now: undo logs are not.  Gradients, which
        are not there yet, will lie as values do.  Once: recording a launch that is known takes 3 us."""
        if not self.pair.begun and self.counts is None:
            alike = [self.call.args[k] for k in self.pair.plan.active]
            self.call.begin(self.pair.adjoint, self._arguments_of_adjoint(alike))
        self.pair.begun = True

    def _arguments_of_adjoint(self, gradients: Sequence[array]) -> list[Any]:
        call, plan = self.call, self.pair.plan
        args = list(call.args)
        for k, live_in in self.live_ins.items():
            args[k] = _where(args[k], live_in)
        args += [*gradients, *self.caches, *self.returned, *self._undo_logs()]
        args += [_where(call.args[k], self.finals[k]) for k in plan.finals]
        return args

    def backward(self) -> None:
        call, plan = self.call, self.pair.plan
        active = call.spec.active(call.args)
        if active != plan.active:
            changed = set(active).symmetric_difference(plan.active)
            raise activity_changed(f"'{call.spec.names[min(changed)]}'", self)
        gradients, graph = [call.args[k].grad for k in plan.active], capturing()
        if graph is not None:
            for k in plan.active:
                graph.uses_gradient(call.args[k].buffer)
        args = self._arguments_of_adjoint(gradients)
        adjoint = partial(self._run_adjoint if plan.scratch else run, self.pair.adjoint, call.device, call.dims, args)
        saved = [replace(live_in) for live_in in self.structures if live_in.snapshot is not None]
        if saved:
            add_whole_node(partial(_with_restored, saved, adjoint), (), ())
        else:
            with strand(self.strand):
                adjoint()

    def _run_adjoint(self, adjoint: Compiled, device: Device, dims: tuple[int, ...], args: list[Any]) -> None:
        """Run an adjoint that writes scratch memory."""
        with writing([self.call.args[k] for k in self.pair.plan.scratch], f"adjoint of the {self}"):
            run(adjoint, device, dims, args)

    def content(self) -> tuple[object, ...]:
        """Stands for what its arrays hold now: equal again only if nobody has written there, or others have where it
        writes (its adjoint does not look at that)."""
        given, reads = self.call.args, self.call.spec.reads
        buffers = [(a.buffer, k in reads) for k, a in enumerate(given) if isinstance(a, array)]
        unknown = capturing() is not None or any(read and b.shared for b, read in buffers)
        return (object(),) if unknown else tuple((b.version, read and b.epoch) for b, read in buffers)

    def include(self, gains: Buffer, live_ins: LiveIns) -> bool:
        """Go back through what it wrote to `gains` too, memory that gets a gradient only now; False: it is too late.

        Its arrays hold what they held behind it (`content`).  If it read nothing that it wrote, these are the values
        that it read: it is recorded as if it had just run.
        """
        call, spec, given = self.call, self.call.spec, self.call.args
        if spec.reads & spec.writes or spec.peeks or spec.aliases(given):
            return False
        active = frozenset(self.pair.plan.active).union(k for k in spec.reals(given) if given[k].buffer is gains)
        made = spec.differentiated(active, ())
        refuse_races(call, active, (), made)
        pair = made.adjoint(frozenset())
        if pair.forward is not None or pair.plan.finals:
            return False
        self.pair, self.live_ins = pair, live_ins_of(call, pair, made, (), live_ins)
        return True

    def _undo_logs(self) -> list[array]:
        """Room for the undo logs of one thread at a time, as the forward launch has counted it."""
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
        return [
            empty((1, n * width), kind, self.call.device)
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
    def works_on_snapshots(self) -> bool:
        return any(k in self.call.spec.writes for k in self.live_ins)

    def memory(self) -> list[Remembered]:
        cached, returned = f"loads of the {self} that it overwrites itself, per thread", f"what atomics of the {self}"
        return [
            *(Remembered(a.nbytes, "record", cached) for a in self.caches),
            *(Remembered(a.nbytes, "record", f"{returned} returned, per thread") for a in self.returned),
        ]

    def __str__(self) -> str:
        return f"launch of '{self.call.spec.kernel.name}'"


def _with_restored(live_ins: Sequence[LiveIn], action: Callable[[], None]) -> None:
    with restored(live_ins):
        action()


def _where(a: array, live_in: LiveIn) -> array | Memory:
    """The values that an array had, wherever they lie now."""
    if live_in.snapshot is None:
        return a
    return Memory(live_in.address(a.offset), a.shape, a.strides, a.is_contiguous, live_in.snapshot)


def adjoint_of(call: Call, made: Differentiated) -> AdjointPair:
    """The adjoint for a launch: caches take the place of snapshots where that takes less memory."""
    if made.runs_as_it_is:
        call.begin(call.spec.forward, call.args, soon=True)  # meanwhile its adjoint is made
    if not made.candidates:
        return made.adjoint(made.candidates)
    spans = (extent_of(call.args[k]) for k in made.candidates if call.args[k] is not None)
    cached = made.cached_bytes * thread_count(call.dims)
    return made.adjoint(made.candidates if cached < sum(high - low for low, high in spans) else frozenset())


def live_ins_of(
    call: Call, pair: AdjointPair, made: Differentiated, aliases: Aliases, live_ins: LiveIns
) -> dict[int, LiveIn]:
    """What of its arguments the adjoint loads, by number, as it is before the launch."""
    before = _live_in_at(call, pair.plan.live_in, live_ins)
    for group in aliases:
        if group & made.replayed:  # the adjoint writes to the snapshot: arrays that overlap need the same one
            live_ins.join([before[k] for k in pair.plan.live_in if k in group and k in before])
    return before


def structures_of(call: Call, live_ins: LiveIns) -> list[LiveIn]:
    """What a launch reads by address, as it is before the launch."""
    refuse_gradients_by_address(call.spec)
    reader = f"launch of '{call.spec.kernel.name}'"
    return [live_ins.add(a, reader, "memory of a structure") for a in structure_memory(call)]


def run_recorded(
    call: Call, pair: AdjointPair, before: dict[int, LiveIn], live_ins: LiveIns, done: bool = False
) -> LaunchRecord:
    """Run a launch, so that gradients can go back through it.  done: it has written what it would write."""
    if pair.forward is None:
        if not done or call.spec.reads & call.spec.writes:
            call.run()
        record = LaunchRecord(call, pair, before, (), (), None, {})
    else:
        record = _run_caching(call, pair, pair.forward, before, live_ins)
    if pair.plan.finals:
        record.finals = _live_in_at(call, pair.plan.finals, live_ins)
    graph = capturing()
    record.strand = None if graph is None else graph.strand
    return record


def _live_in_at(call: Call, numbers: Sequence[int], live_ins: LiveIns) -> dict[int, LiveIn]:
    """The present content of some arguments, of those that are not None, is live-in."""
    reader, names = f"launch of '{call.spec.kernel.name}'", call.spec.names
    return {k: live_ins.add(call.args[k], reader, names[k]) for k in numbers if call.args[k] is not None}


def _run_caching(
    call: Call, pair: AdjointPair, forward: Compiled, before: dict[int, LiveIn], live_ins: LiveIns
) -> LaunchRecord:
    """Run `forward`, the variant of the kernel that writes down what its adjoint needs."""
    plan, threads = pair.plan, thread_count(call.dims)
    rooms = ((scalar, (slots, _in_whole_lines(threads, scalar.size))) for scalar, slots in plan.caches)
    caches = [live_ins.arena.array(shape, scalar, call.device) for scalar, shape in rooms]
    returned, counts = _room_for_returned(call, pair, forward, caches), None
    extra = [*caches, *returned]
    if plan.logs or returned:
        counts = zeros(len(returned) + len(plan.logs), int32, call.device)
        add_node(partial(call.device.clear, counts))
        extra.append(counts)
    call.run_as(forward, [*call.args, *extra])
    return LaunchRecord(call, pair, before, caches, returned, counts, {})


def _in_whole_lines(threads: int, size: int) -> int:
    """Room of a slot for so many threads, in numbers of so many bytes: each slot of a cache begins where a line of
    memory does, since vectors that lie across two lines take longer to store.  Few threads keep what they need."""
    line = ALIGNMENT // size
    return threads if threads < 16 * line else -(-threads // line) * line


def _room_for_returned(call: Call, pair: AdjointPair, forward: Compiled, caches: list[array]) -> list[array]:
    """Logs for what atomics in loops return: as long as a run in a sandbox, on the CPU, finds that they have to be.

    On another device the order of the threads may make them longer: then `LaunchRecord.backward` raises.
    """
    kinds = pair.plan.returned
    if not kinds:
        return []
    refuse_elsewhere(call, "what its atomics return is counted")
    threads = thread_count(call.dims)
    counts = np.zeros(len(kinds) + len(pair.plan.logs), np.int32)
    none = [np.empty((0, threads), kind.np) for kind in kinds]
    host = on_cpu(call)
    args = [
        *sandboxed_arguments(host, call.spec.writes),
        *(caches if host is call else on_host(caches)),
        *map(host_argument, (*none, counts)),
    ]
    run_sandboxed(forward, host, args, check=False)
    return [empty((int(n), threads), kind, call.device) for kind, n in zip(kinds, counts, strict=False)]
