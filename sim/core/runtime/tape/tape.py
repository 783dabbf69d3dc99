"""The tape: records launches and writes to arrays, and takes gradients back through them.

After `backward`, every array still has its final value, and `.grad` of an array is the gradient of the loss with
respect to the content that it had when recording began.

This is reverse mode over operations on memory.  What can be recorded stands in `records` and `launch_records`; which
values the way back needs and how they are kept, in `live_ins`; what a backward starts from, in `seeds`; where no way
leads back, in `detached`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from threading import get_ident
from typing import Any

from sim.core.lang.analysis.addresses import no_derivative
from sim.core.lang.collector import uncollected
from sim.core.lang.errors import GradientError, entry_point
from sim.core.runtime.ambient import recording
from sim.core.runtime.ambient.recording import Bookmark
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.operations import Operation
from sim.core.runtime.debug.nonfinite import NonFiniteError
from sim.core.runtime.debug.races import refuse_races
from sim.core.runtime.devices.graph import add_node, capturing
from sim.core.runtime.launch.calls import Call, thread_count
from sim.core.runtime.memory.buffer import Buffer, ByteRange, Strided, before_write, heard, is_whole
from sim.core.runtime.memory.spans import Spans
from sim.core.runtime.tape.arena import Arena
from sim.core.runtime.tape.detached import Detached, Detachment
from sim.core.runtime.tape.exclusive import exclusive
from sim.core.runtime.tape.footprints import Footprint, Footprints
from sim.core.runtime.tape.foreign_writes import ForeignWrites
from sim.core.runtime.tape.gradients import Gradients
from sim.core.runtime.tape.launch_records import (
    LaunchRecord,
    adjoint_of,
    live_ins_of,
    run_recorded,
    structures_of,
)
from sim.core.runtime.tape.live_ins import LiveIns
from sim.core.runtime.tape.memory_report import Remembered, TapeMemory
from sim.core.runtime.tape.records import FunctionRecord, Probe, TapeRecord, WriteRecord, active_now
from sim.core.runtime.tape.retained import RetainedGradients
from sim.core.runtime.tape.scopes import Scopes
from sim.core.runtime.tape.seeds import Seeds, Weights, clear
from sim.core.runtime.tape.visualize import TapeGraph

_tapes = count(1)


@dataclass(eq=False)
class Tape:
    """`with Tape() as tape: ...` records; `tape.backward(loss)` then fills `.grad` of every array that requires one.

    on_overwrite: "save" keeps a copy of what is overwritten while a gradient still needs it (only then); "error" raises
        instead, naming array, reader and writer.
    records: what was recorded, in order; scopes: named parts of it.
    begun: where that began, for messages: " since file:line".
    skipped: names of kernels with enable_backward=False that were not recorded, although they read a gradient's array.
    """

    on_overwrite: str = "save"
    records: list[TapeRecord] = field(default_factory=list)
    scopes: Scopes = field(default_factory=Scopes, init=False)
    begun: str = field(default="", init=False)
    skipped: set[str] = field(default_factory=set, init=False)
    _order: int = field(default=0, init=False)  # when it began to record, counted over all tapes
    _live_ins: LiveIns = field(init=False)
    _foreign: ForeignWrites = field(default_factory=ForeignWrites, init=False)
    _detached: Detached = field(default_factory=Detached, init=False)
    _recorded: Footprints = field(default_factory=Footprints, init=False)  # of the records
    _seeded: Footprints = field(default_factory=Footprints, init=False)  # of what a backward was given to start from
    _replayed: bool = field(default=False, init=False)  # by a graph whose replay leaves old snapshots as they are
    _broken: str = field(default="", init=False)  # the record in which a backward broke off and spoilt snapshots

    def __post_init__(self) -> None:
        if self.on_overwrite not in ("save", "error"):
            raise ValueError(f"on_overwrite is {self.on_overwrite!r}; expected 'save' or 'error'")
        self._live_ins = LiveIns(refuse=self.on_overwrite == "error")

    def __repr__(self) -> str:
        return f"Tape({len(self.records)} operations{self.begun})"

    # -- recording
    def __enter__(self) -> Tape:
        outer = recording.current()
        if outer is not None:
            raise GradientError(
                f"a tape is already recording{outer.begun}: the arrays that are launched on from here belong to it, and"
                " this one would hide them from it",
                hint="leave its `with` block first, or go on with that tape",
            )
        caller = sys._getframe(1)
        self.begun = f" since {caller.f_code.co_filename}:{caller.f_lineno}"
        self._order = self._order or next(_tapes)
        self._live_ins.thread = get_ident()
        recording.push(self)
        return self

    def __exit__(self, *exc: object) -> None:
        recording.pop()

    def record(self, operation: Operation) -> None:
        """A copy, fill or host write is about to run."""
        # What it overwrites as a whole may have been written by others: nobody needs the gradient of that.
        partly = (a for a in operation.writes if not is_whole(a))
        self._foreign.refuse((*operation.reads, *partly), operation.name)
        self._detached.before_operation(operation)

    def recorded(self, operation: Operation) -> None:
        """It has run."""
        self.records.append(WriteRecord(operation, active_now((*operation.reads, *operation.writes))))
        self._foreign.look(operation.writes)

    def broke_off(self, written: Iterable[array], writer: str) -> None:
        """A write to these that carries a gradient broke off: it is not recorded."""
        for a in written:
            self._detached.replace(a, Detachment.half_written(a, writer))

    def launch(self, call: Call, done: bool = False) -> None:
        """Record a launch and run it.  done: see `Recorder`."""
        if not thread_count(call.dims):
            return
        spec, args = call.spec, call.args
        if spec.forward.by_address:
            raise no_derivative(spec.func, "gradient", "; or launch it with record_tape=False")
        # 1. Is there a way back from all that it reads and writes?
        active, aliases = frozenset(spec.active(args)), spec.aliases(args)
        shared = [args[k] for k in active if args[k].buffer.shared]
        if shared:
            self._foreign.refuse(shared, f"launch of '{spec.kernel.name}'")
        if active and not spec.kernel.enable_backward:
            self._run_detached(call, active)
            return
        made = spec.differentiated(active, aliases) if active else None
        if self._detached.by_buffer or (made is not None and made.detached):
            self._detached.before_launch(call, active, made.detached if made is not None else frozenset())
        if made is None:  # it has nothing to do with gradients
            if not done:
                call.run()
            return
        refuse_races(call, active, aliases, made)
        # 2. What its adjoint will load is live-in: noted before the launch runs and overwrites it.
        pair = adjoint_of(call, made)
        before = {}
        if pair.plan.live_in or spec.peeks:
            self._belongs_to_open_graph()
            before = live_ins_of(call, pair, made, aliases, self._live_ins)
        structures = structures_of(call, self._live_ins) if spec.peeks else ()
        # 3. It runs, and takes snapshots of what others have as live-ins.
        try:
            record = run_recorded(call, pair, before, self._live_ins, done and not aliases)
            record.structures = structures
            record.begin_adjoint()
            if shared:
                self._foreign.look(args[k] for k in active if k in spec.writes)
            self.records.append(record)
            if made.detached:
                self._detached.after_launch(record, made.detached)
        except BaseException:
            self.broke_off((args[k] for k in spec.written if args[k] is not None), f"launch of '{spec.kernel.name}'")
            raise

    def _run_detached(self, call: Call, active: frozenset[int]) -> None:
        """A launch of a kernel with enable_backward=False: what depends on a gradient in it must not reach the loss."""
        spec, args = call.spec, call.args
        call.run()
        self.skipped.add(spec.kernel.name)
        for k in spec.reached(active) | (spec.writes & active):
            if args[k] is not None:
                self._detached.replace(args[k], Detachment.without_backward(args[k], spec.kernel.name))

    def _belongs_to_open_graph(self) -> None:
        """What is recorded now has live-ins: a replay of the graph that is open has to ask for `replayed`."""
        graph = capturing()
        if graph is not None:
            graph.recorders.add(self)

    def adjoint_launch(self, call: Call, gradients: Mapping[int, array]) -> None:
        """A launch in adjoint form is about to run: not differentiated, what it writes must not reach the loss."""
        name = f"adjoint launch of '{call.spec.kernel.name}'"
        for k, g in gradients.items():
            if g.requires_grad:
                raise GradientError(
                    f"{name} writes an array that requires a gradient, on an open tape: it cannot be differentiated",
                    hint="launch it outside of the tape",
                )
            written_as = f"the gradient of '{call.spec.names[k]}' in the {name}"
            self._detached.add(g, Detachment.without_gradient(g, written_as))

    def gradients_change(self, gradients: Mapping[array, array]) -> None:
        """The backward of another tape is about to run.  It is not differentiated either."""
        for a, g in gradients.items():
            written_as = f"the gradient of an array of shape {a.shape} by the backward of another tape"
            self._detached.add(g, Detachment.without_gradient(g, written_as))

    def replay(self, written: Iterable[Strided], carries: bool) -> None:
        """A captured graph is about to be replayed, unrecorded: what it writes must not matter to a gradient.

        carries: whether it reads what has a gradient.
        """
        for view in written:
            if view.buffer.requires_grad:
                raise GradientError(
                    "a captured graph is replayed under an open tape, and writes an array that requires a gradient: its"
                    " launches are not recorded",
                    hint=(
                        "launch the kernels under the tape, or capture the forward pass and tape.backward() together,"
                        " and replay that outside"
                    ),
                )
            if carries:
                self._detached.add(view, Detachment.without_gradient(view, "the result of a replayed graph"))

    def replayed(self) -> None:
        """A graph that was captured while this recorded is about to be replayed.  Snapshots that were not taken inside
        of it still have the values of the first run: from now on they belong to another one than the live memory."""
        self._replayed = self._replayed or self._live_ins.uncaptured

    def mark(self, name: str, state: Mapping[str, array] | None = None) -> None:
        """Name what is recorded from here on, as "step 3".

        state: arrays by name whose gradients, with respect to their values here, are what `gradient_norms` logs.
        """
        self.records.append(Probe(name, dict(state or {})))

    def record_scope_begin(self, scope_name: str, metadata: dict[str, Any] | None = None) -> None:
        """From here to `record_scope_end` what is recorded belongs to a part of this name, as `visualize` shows.

        metadata: whatever is to be kept with it, in `scopes`.
        """
        self.scopes.begin(len(self.records), scope_name, metadata)

    def record_scope_end(self, remove_scope_if_empty: bool = True) -> None:
        """Ends the part that began last; one in which nothing was recorded is forgotten.

        Raises RuntimeError where none has begun.
        """
        self.scopes.end(len(self.records), remove_scope_if_empty)

    def record_func(self, backward: Callable[[], None], arrays: Iterable[array]) -> None:
        """Record host code that has just run and that the caller knows the way back through (Warp's name, arguments).

        backward: turns the gradients of what that part wrote into gradients of what it read; it runs while `arrays`,
            all that it looks at, have the values that they have now.
        """
        touched, name = list(arrays), "recorded function"
        live_ins = [self._live_ins.add(a, name, "array") for a in touched]
        self.records.append(FunctionRecord(name, backward, live_ins, touched, touched, list, active_now(touched)))

    def record_function(
        self,
        name: str,
        backward: Callable[[], None],
        reads: Iterable[array],
        writes: Iterable[array],
        memory: Callable[[], list[Remembered]] = list,
        detached: Iterable[array] = (),
        finals: Iterable[array] = (),
    ) -> None:
        """Record a part of the program that is run unrecorded.  Call it *before* that writes, unless to fresh memory.

        backward: adds to gradients; it runs while `reads` have the values that they have now.
        writes:   arrays that the part writes (their gradients are `backward`'s business).
        memory:   what is kept for `backward`.
        detached: arrays without gradients that get values that depend on what has some: they must not reach the loss.
        finals:   arrays that the part has written already, whose present values `backward` looks at too.
        """
        reads, writes, finals = list(reads), list(writes), list(finals)
        touched = [*reads, *writes, *finals]
        self._detached.refuse(reads, name, any(a.requires_grad for a in (*writes, *finals)))
        self._belongs_to_open_graph()
        with self.all_or_nothing():
            live_ins = [self._live_ins.add(a, name, "input") for a in reads]
            live_ins += [self._live_ins.add(a, name, "result") for a in finals]
            for a in writes:
                before_write(a, name)
            for a in detached:
                self._detached.replace(a, Detachment.without_gradient(a, f"a result of the {name}"))
            written = [*writes, *finals]
            self.records.append(FunctionRecord(name, backward, live_ins, touched, written, memory, active_now(touched)))

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """`with tape.all_or_nothing():` an exception makes the tape forget what it has recorded in the block."""
        count, detached, before = len(self.records), self._detached.copy(), self._live_ins.present()
        try:
            yield
        except BaseException:
            del self.records[count:]
            self._detached = detached
            self._live_ins.drop(self._live_ins.present() - before)
            raise

    def bookmark(self) -> Bookmark | None:
        """The end of what is recorded so far; None where that is nothing."""
        return Bookmark(len(self.records) - 1, self.records[-1]) if self.records else None

    def holds(self, bookmark: Bookmark) -> bool:
        """Whether a bookmark was made on this tape, and `reset` has not forgotten since what was recorded up to it."""
        place, record = bookmark
        return place < len(self.records) and self.records[place] is record

    # -- backward
    @entry_point
    def backward(self, loss: array | None = None, grads: Mapping[array, Weights] | None = None) -> None:
        """Add the gradient of `loss`, or of the sum of array * weight over `grads`, to `.grad` of arrays on the tape.

        loss: an array with one element.
        grads: final arrays -> weights, arrays or host data like them (never changed).
        Without both, what has been written to `.grad` is the gradient to start from, and what the backward of a later
        tape has left there.
        Seeds that are given are the only ones.  Twice without `zero` the gradients add up.
        Raises GradientError for a tape that recorded nothing, nothing to start from, a loss without gradient, with
        several elements, or not on this tape; where `requires_grad` was changed since; where it is not clear whether
        what `.grad` holds is a seed (docs/decisions/17-seeds.md).
        Where it raises, or is interrupted, all gradients are as before.
        Threads that share a gradient go backward one after the other.
        """
        for a in grads or ():
            if isinstance(a, array):
                self._detached.attach(a, self._live_ins)
        named = [a for a in (loss, *(grads or ())) if isinstance(a, array)]
        self._detached.refuse(named, "backward", True)  # says more than that the loss is not on the tape
        self._refuse_unfit()
        # 1. What it starts from, and all memory whose gradients it may change.
        seeds = Seeds.of(loss, grads or {}, self._recorded.update(self.records), self._order)
        self._detached.refuse([target for target, _ in seeds.given], "backward", True)
        seeded = Footprints(self._seeded.joined())
        for target, _ in seeds.given:
            seeded.touch(target)
        seeds.memory = self._recorded.joined(seeded)
        # 2. A graph that captures this checks the same things again when it is replayed.
        graph = capturing()
        if graph is not None:
            graph.on_failure(seeds.abort)
            required = [(found.example, found.example.requires_grad) for found in seeds.memory.values()]
            add_node(partial(_refuse_toggled, required))
        # 3. The sweep, as one thread at a time may do it that adds to these gradients.
        try:
            with exclusive(seeds.gradients()), uncollected():
                self._sweep_from(seeds, seeded)
        except BaseException as problem:
            if graph is not None:
                graph.broken = f"{type(problem).__name__} was raised by a backward"
            raise

    def _refuse_unfit(self) -> None:
        """Raises GradientError where no backward of this tape can be right."""
        if not self.records:
            raise GradientError(
                "backward on a tape that recorded nothing",
                hint="launch kernels inside `with tape:` first, on arrays of floats with requires_grad=True",
            )
        if self._replayed:
            raise GradientError(
                "a graph has replayed the forward pass on this tape after something that it had read was overwritten:"
                " what was kept belongs to the first run",
                hint="put backward into the graph too, or record again",
            )
        if self._broken:
            raise GradientError(
                f"an earlier backward of this tape broke off in the {self._broken}, which works on what the tape keeps",
                hint="record again",
            )

    def _sweep_from(self, seeds: Seeds, seeded: Footprints) -> None:
        """Put aside what gradients hold, sweep, and add it again; where that breaks off, all gradients are as before.

        seeded: the memory of all seeds so far, these included.
        """
        outer, before = recording.current(), self._seeded

        def begin() -> None:
            _before_gradients_change(seeds.memory, "backward")
            seeds.begin()

        try:
            with recording.paused():
                add_node(begin)
                retained = RetainedGradients()
                self.sweep(before=retained.before)
                add_node(retained.put_back)
                self._seeded = seeded
                if outer is not None:
                    outer.gradients_change(self.gradients)
                add_node(seeds.end)
        except BaseException:
            self._seeded = before
            seeds.abort()
            raise

    def sweep(
        self, begin: int = 0, end: int | None = None, *, before: Callable[[TapeRecord], None] | None = None
    ) -> None:
        """Take gradients back through records begin .. end - 1, without seeds: a part of what `backward` does.

        before: is told of each record before its turn.
        """
        end = len(self.records) if end is None else end
        for k in range(end - 1, begin - 1, -1):
            try:
                if before is not None:
                    before(self.records[k])
                self.records[k].backward()
            except NonFiniteError as problem:  # found when the launch had ended
                raise problem.at(f"backward pass{self._place(k)}, {self.records[k]}") from None
            except BaseException:
                if self.records[k].works_on_snapshots:
                    self._broken = str(self.records[k])
                raise

    def _place(self, index: int) -> str:
        """Words for the last mark before a record."""
        probe = next((r for r in reversed(self.records[: index + 1]) if isinstance(r, Probe)), None)
        return f", {probe.name}" if probe is not None else ""

    @property
    def arena(self) -> Arena:
        """Where what is kept lies."""
        return self._live_ins.arena

    def hear_no_other_thread(self) -> None:
        """Take no snapshots of what other threads overwrite: for one who knows that this is kept elsewhere."""
        self._live_ins.alone = True

    def release(self) -> None:
        """Take no more snapshots: for one who knows that what the records need stays as it is."""
        self._live_ins.release()

    def zero(self) -> None:
        """Clear the gradients of all arrays on the tape, and of those that it was seeded with.

        An array is what an operation was given: where that is a slice, the rest of its memory keeps its gradient.
        """
        memory = self._footprints()
        add_node(lambda: clear(memory, _before_zero))

    def reset(self) -> None:
        """Forget what was recorded, and clear the gradients."""
        self.zero()
        self.records.clear()
        self.scopes.clear()
        self._order, self._replayed, self._broken = 0, False, ""
        self._recorded.forget()
        self._seeded.forget()
        self._live_ins.clear()
        self._foreign.seen.clear()
        self._detached = Detached()

    # -- what is on it
    def _footprints(self) -> dict[Buffer, Footprint]:
        """The memory of the records, and of what a backward was given to start from."""
        self._recorded.update(self.records)
        return self._recorded.joined(self._seeded)

    @property
    def gradients(self) -> Gradients:
        """Gradient of every array on the tape that requires one; of a struct, the struct of its arrays' gradients."""
        return Gradients({a: a.grad for r in self.records for a in r.arrays if a.requires_grad})

    @property
    def bytes_kept(self) -> int:
        """Bytes that the tape keeps beside the arrays: copies of overwritten values, and records per thread."""
        return self.memory().nbytes

    def memory(self) -> TapeMemory:
        """What the tape keeps beside the arrays, and why; prints as a table."""
        copies = [Remembered(snapshot.data.nbytes, "copy", snapshot.reason) for snapshot in self._live_ins.snapshots]
        return TapeMemory([*copies, *(entry for r in self.records for entry in r.memory())])

    def visualize(
        self,
        filename: str | Path | None = None,
        simplify_graph: bool = False,
        hide_readonly_arrays: bool = False,
        array_labels: Mapping[array, str] | None = None,
        choose_longest_node_name: bool = True,
        ignore_graph_scopes: bool = False,
        track_inputs: Sequence[array] | None = None,
        track_outputs: Sequence[array] | None = None,
        track_input_names: Sequence[str] | None = None,
        track_output_names: Sequence[str] | None = None,
        graph_direction: str = "LR",
    ) -> str:
        """The recorded program as a graph: DOT text, also written to `filename` if given (`.html`: a browser page).

        simplify_graph: the same launch several times in a row is one box, which says how often.
        hide_readonly_arrays: without arrays that nothing writes.  array_labels: names of arrays.
        ignore_graph_scopes: without the names of scopes.  `choose_longest_node_name` is taken for Warp's programs.
        track_inputs, track_outputs, and their names: what lies on the ways from the ones to the others (None: to
            anything) is drawn bold.
        graph_direction: of DOT, "LR" (left to right), "TB", ...
        """
        sources, targets = list(track_inputs or ()), list(track_outputs or ())
        labels = dict(zip(sources, track_input_names or (), strict=False))
        labels |= dict(zip(targets, track_output_names or (), strict=False))
        labels |= array_labels or {}
        scopes = None if ignore_graph_scopes else self.scopes
        graph = TapeGraph.of(self.records, labels, scopes, simplify_graph, hide_readonly_arrays)
        graph.track(sources, targets)
        text = graph.dot(graph_direction)
        if filename is not None:
            path = Path(filename)
            path.write_text(graph.page() if path.suffix in (".html", ".htm") else text, encoding="utf-8")
        return text

    @property
    def launches(self) -> list[Call]:
        """The recorded launches in order."""
        return [r.call for r in self.records if isinstance(r, LaunchRecord)]

    def buffers(self) -> dict[Buffer, array]:
        """The memory that the tape has to do with, and an array there that tells its type."""
        return {buffer: found.example for buffer, found in self._footprints().items()}


def _refuse_toggled(required: Sequence[tuple[array, bool]]) -> None:
    """A replay takes gradients back to the arrays that had one when the graph was captured, and to no others."""
    for a, before in required:
        if a.requires_grad != before:
            raise GradientError(
                f"`requires_grad` of an array of shape {a.shape} was changed since a graph with the backward of its"
                " tape was captured",
                hint="capture it again",
            )


def _before_gradients_change(memory: Mapping[Buffer, Footprint], writer: str) -> None:
    """Gradients are about to change: another tape may have read them as values."""
    for buffer in memory:
        gradient = buffer.gradient
        if gradient is not None and heard(gradient):
            before_write(ByteRange(gradient), writer)


def _before_zero(gradient: Buffer, spans: Spans) -> None:
    """Part of a gradient is about to be cleared: another tape may have read it as values."""
    if heard(gradient):
        for low, high in spans.runs:
            before_write(ByteRange(gradient, low, high), "zero() of a tape")
