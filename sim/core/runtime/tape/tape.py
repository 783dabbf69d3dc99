"""The tape: records launches and writes to arrays, and takes gradients back through them.

After `backward`, every array still has its final value, and `.grad` of an array is the gradient of the loss with
respect to the content that it had when recording began.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from sim.core.lang.errors import GradientError, entry_point
from sim.core.lang.types import int32
from sim.core.runtime.ambient import recording
from sim.core.runtime.ambient.recording import Bookmark
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.arrays.extent import is_whole, span_of
from sim.core.runtime.arrays.operations import Operation
from sim.core.runtime.debug.nonfinite import NonFiniteError
from sim.core.runtime.debug.races import refuse_races
from sim.core.runtime.devices.graph import add_node, capturing
from sim.core.runtime.launch.calls import Call, thread_count
from sim.core.runtime.launch.kernel import AdjointPair, Aliases, Differentiated
from sim.core.runtime.memory.buffer import Buffer, ByteRange, before_write
from sim.core.runtime.memory.spans import Spans
from sim.core.runtime.tape.claims import Claim, Claims, Watch
from sim.core.runtime.tape.cuts import Cut
from sim.core.runtime.tape.exclusive import exclusive
from sim.core.runtime.tape.footprints import Footprint, Footprints
from sim.core.runtime.tape.seeds import Seeds, clear
from sim.core.runtime.tape.tape_records import (
    FunctionRecord,
    LaunchRecord,
    Mark,
    Remembered,
    TapeMemory,
    WriteRecord,
    active_now,
    room_for_returned,
)
from sim.core.runtime.tape.visualize import TapeGraph

_tapes = count(1)


@dataclass(eq=False)
class Tape:
    """`with Tape() as tape: ...` records; `tape.backward(loss)` then fills `.grad` of every array that requires one.

    on_overwrite: "save" keeps a copy of what is overwritten while a gradient still needs it (only then); "error" raises
        instead, naming array, reader and writer.
    """

    on_overwrite: str = "save"
    records: list[Any] = field(default_factory=list)
    _claims: Claims = field(default_factory=Claims)
    _watch: Watch = field(default_factory=Watch)
    _recorded: Footprints = field(default_factory=Footprints)
    _seeded: Footprints = field(default_factory=Footprints)
    begun: str = ""
    """Where it began to record, for messages: " since file:line"."""
    _replayed: bool = False
    _broken: str = ""  # the record in which a backward broke off, where that has spoilt what the tape keeps
    _order: int = 0  # when it began to record, counted over all tapes
    _cut: dict[Buffer, Cut] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.on_overwrite not in ("save", "error"):
            raise ValueError(f"on_overwrite is {self.on_overwrite!r}; expected 'save' or 'error'")
        self._claims.refuse = self.on_overwrite == "error"

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
        recording.push(self)
        return self

    def __exit__(self, *exc: object) -> None:
        recording.pop()

    def record(self, operation: Operation) -> None:
        """A copy, fill or host write that is about to run."""
        self._watch.before((*operation.reads, *(a for a in operation.writes if not is_whole(a))), operation.name)
        lost = self._refuse_cut(operation.reads, operation.name, any(w.requires_grad for w in operation.writes))
        for target in operation.writes:
            if lost is not None:
                self._cut.setdefault(target.buffer, lost)
            elif is_whole(target):
                self._cut.pop(target.buffer, None)

    def recorded(self, operation: Operation) -> None:
        """It has run."""
        self.records.append(WriteRecord(operation, active_now((*operation.reads, *operation.writes))))
        self._watch.after(operation.writes)

    def broke_off(self, written: Iterable[array], writer: str) -> None:
        """A write to these that carries a gradient broke off: it is not recorded."""
        for a in written:
            self._cut[a.buffer] = Cut.half_written(a, writer)

    def launch(self, call: Call) -> None:
        """A launch: claims what its adjoint needs, saves what it overwrites, and runs it."""
        if not thread_count(call.dims):
            return
        spec, args = call.spec, call.args
        active, aliases = frozenset(spec.active(args)), spec.aliases(args)
        shared = [args[k] for k in active if args[k].buffer.shared]
        if shared:
            self._watch.before(shared, f"launch of '{spec.kernel.name}'")
        made = spec.differentiated(active, aliases) if active else None
        if self._cut or (made is not None and made.tbr.detached):
            self._check_links(call, active, made.tbr.detached if made is not None else frozenset())
        if made is None:
            call.run()
            return
        refuse_races(call, active, aliases, made)
        pair = made.adjoint(self._worth_recording(call, made) if made.candidates else made.candidates)
        claims = self._claim_needs(call, pair, aliases, made) if pair.plan.live_in else {}
        try:
            if pair.forward is None:
                call.run()
                record = LaunchRecord(call, pair, claims, (), (), None, {})
            else:
                record = self._run_recording(call, pair, claims)
            if shared:
                self._watch.after(args[k] for k in active if k in spec.writes)
            if pair.plan.finals:
                record.finals = self._claim(call, pair.plan.finals)
            self.records.append(record)
        except BaseException:
            self.broke_off((args[k] for k in spec.written if args[k] is not None), f"launch of '{spec.kernel.name}'")
            raise

    @staticmethod
    def _worth_recording(call: Call, made: Differentiated) -> frozenset[int]:
        """The arrays whose loads are recorded, if that takes less memory than copies of them."""
        spans = (span_of(call.args[k]) for k in made.candidates if call.args[k] is not None)
        if made.tbr.bytes_per_thread(made.candidates) * thread_count(call.dims) >= sum(
            high - low for low, high in spans
        ):
            return frozenset()
        return made.candidates

    def _claim_needs(self, call: Call, pair: AdjointPair, aliases: Aliases, made: Differentiated) -> dict[int, Claim]:
        """Claims on what the adjoint loads."""
        graph = capturing()
        if graph is not None:
            graph.recorders.add(self)
        claims = self._claim(call, pair.plan.live_in)
        for together in aliases:
            if together & made.tbr.replayed:  # the adjoint writes to the copy: it has to be one
                self._claims.join([claims[k] for k in pair.plan.live_in if k in together and k in claims])
        return claims

    def _claim(self, call: Call, numbers: Sequence[int]) -> dict[int, Claim]:
        """Claims on the present content of some arguments, of those that are not None."""
        name, claims = f"launch of '{call.spec.kernel.name}'", {}
        for k in numbers:
            if call.args[k] is not None:
                claims[k] = self._claims.claim(call.args[k], name, call.spec.func.params[k].name)
        return claims

    def _run_recording(self, call: Call, pair: AdjointPair, claims: dict[int, Claim]) -> LaunchRecord:
        """Run the variant of a launch that writes what its adjoint needs."""
        plan = pair.plan
        records = [
            self._claims.arena.array((slots, thread_count(call.dims)), scalar, call.device)
            for scalar, slots in plan.caches
        ]
        returned, counts = room_for_returned(call, pair, records), None
        extra = [*records, *returned]
        if plan.logs or returned:
            counts = zeros(len(returned) + len(plan.logs), int32, call.device)
            add_node(partial(call.device.clear, counts))
            extra.append(counts)
        assert pair.forward is not None
        call.run_as(pair.forward, [*call.args, *extra])
        return LaunchRecord(call, pair, claims, records, returned, counts, {})

    def adjoint_launch(self, call: Call, gradients: Mapping[int, array]) -> None:
        """A launch in adjoint form is about to run.  It is not differentiated, so what it writes must not reach the
        loss."""
        name = f"adjoint launch of '{call.spec.kernel.name}'"
        for k, g in gradients.items():
            if g.requires_grad:
                raise GradientError(
                    f"{name} writes an array that requires a gradient, on an open tape: it cannot be differentiated",
                    hint="launch it outside of the tape",
                )
            self._cut.setdefault(
                g.buffer, Cut.without_gradient(g, f"the gradient of '{call.spec.func.params[k].name}' in the {name}")
            )

    def gradients_change(self, gradients: Mapping[array, array]) -> None:
        """The backward of another tape is about to run.  It is not differentiated either."""
        for a, g in gradients.items():
            self._cut.setdefault(
                g.buffer,
                Cut.without_gradient(g, f"the gradient of an array of shape {a.shape} by the backward of another tape"),
            )

    def replay(self, written: Iterable[Any], carries: bool) -> None:
        """A captured graph is about to be replayed: its launches are not recorded, so what it writes must not matter to
        a gradient."""
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
                self._cut.setdefault(view.buffer, Cut.without_gradient(view, "the result of a replayed graph"))

    def replayed(self) -> None:
        """A graph that was captured while this recorded is about to be replayed: what was saved outside of it would
        belong to another run."""
        self._replayed = self._replayed or not all(kept.captured for kept in self._claims.kept)

    def _check_links(self, call: Call, active: frozenset[int], lossy: frozenset[int]) -> None:
        """A value that carries a gradient, stored where there is none (`lossy`), must not be read again on the way to
        the loss."""
        spec, args = call.spec, call.args
        if self._cut:
            sources = [k for k in sorted(spec.reads) if isinstance(args[k], array) and args[k].buffer in self._cut]
            reached = spec.reached(frozenset(sources))
            reader = f"launch of '{spec.kernel.name}'" + (
                f" (as '{spec.func.params[sources[0]].name}')" if sources else ""
            )
            lost = self._refuse_cut([args[k] for k in sources], reader, bool(reached & active))
            if lost is not None:
                for k in (k for k in reached - active if args[k] is not None):
                    self._cut.setdefault(args[k].buffer, lost)
        for k in (k for k in lossy if args[k] is not None):
            self._cut.setdefault(
                args[k].buffer,
                Cut.without_gradient(args[k], f"'{spec.func.params[k].name}' of kernel '{spec.kernel.name}'"),
            )

    def _refuse_cut(self, reads: Iterable[array], reader: str, matters: bool) -> Cut | None:
        """What has cut one of these arrays off from values with a gradient, or None; an error if that `matters`."""
        lost = next((self._cut[a.buffer] for a in reads if a.buffer in self._cut), None)
        if lost is not None and matters:
            raise GradientError(f"{reader} reads an array of shape {lost.where.shape} that {lost.what}", hint=lost.hint)
        return lost

    def mark(self, name: str, state: Mapping[str, array] | None = None) -> None:
        """Name what is recorded from here on, as "step 3".

        state: arrays by name whose gradients, with respect to their values here, are what `gradient_norms` logs.
        """
        self.records.append(Mark(name, dict(state or {})))

    def record_func(self, backward: Callable[[], None], arrays: Iterable[array]) -> None:
        """Record a stretch of host code that has just run and that the caller knows the way back through (Warp's name
        and arguments).

        backward: turns the gradients of what the stretch wrote into gradients of what it read; it runs while `arrays`,
        all that it looks
            at, have the values that they have now.
        """
        arrays = list(arrays)
        claims = [self._claims.claim(a, "recorded function", "array") for a in arrays]
        self.records.append(
            FunctionRecord("recorded function", backward, claims, arrays, arrays, list, active_now(arrays))
        )

    def bookmark(self) -> Bookmark | None:
        """The end of what is recorded so far; None where that is nothing."""
        return Bookmark(len(self.records) - 1, self.records[-1]) if self.records else None

    def holds(self, bookmark: Bookmark) -> bool:
        """Whether a bookmark was made on this tape, and `reset` has not forgotten since what was recorded up to it."""
        index, record = bookmark
        return index < len(self.records) and self.records[index] is record

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """`with tape.all_or_nothing():` where the block is left by an exception, the tape knows nothing of what it has
        recorded there."""
        count, cut, before = len(self.records), dict(self._cut), self._claims.present()
        try:
            yield
        except BaseException:
            del self.records[count:]
            self._cut = cut
            self._claims.drop(self._claims.present() - before)
            raise

    def record_function(
        self,
        name: str,
        backward: Callable[[], None],
        reads: Iterable[array],
        writes: Iterable[array],
        memory: Callable[[], list[Remembered]] = list,
        detached: Iterable[array] = (),
    ) -> None:
        """Record a stretch that was or will be run unrecorded.  Call it *before* the stretch writes, unless it writes
        to fresh memory only.

        backward: adds to gradients; it runs while `reads` have the values that they have now.
        writes:   arrays that the stretch writes (their gradients are `backward`'s business).
        memory:   tells what the stretch keeps for `backward`.
        detached: arrays without gradients that it writes with values that depend on what has some: they must not reach
        the loss.
        """
        reads, writes = list(reads), list(writes)
        self._refuse_cut(reads, name, any(a.requires_grad for a in writes))
        graph = capturing()
        if graph is not None:
            graph.recorders.add(self)
        with self.all_or_nothing():
            claims = [self._claims.claim(a, name, "input") for a in reads]
            for a in writes:
                before_write(a, name)
            self._cut |= {a.buffer: Cut.without_gradient(a, f"a result of the {name}") for a in detached}
            self.records.append(
                FunctionRecord(name, backward, claims, [*reads, *writes], writes, memory, active_now([*reads, *writes]))
            )

    # -- backward
    @entry_point
    def backward(self, loss: array | None = None, grads: Mapping[array, array] | None = None) -> None:
        """Add the gradient of `loss`, or of the sum of array * weight over `grads`, to `.grad` of the arrays on the
        tape.

        loss: an array with one element.  grads: final arrays -> weights, arrays or host data like them (never
        changed).  Without
            both, what has been written to `.grad` is the gradient to start from, and what the backward of a later tape
            has left there.
        Seeds that are given are the only ones.  Twice without `zero` the gradients add up. Raises GradientError for a
        tape that recorded nothing, nothing to start from, a loss without gradient, with several elements, or not on
        this tape; where `requires_grad` was changed since; where it is not clear whether what `.grad` holds is a seed
        (docs/decisions/17-seeds.md). Where it raises, or is interrupted, all gradients are as before.  Threads that
        share a gradient go backward one after the other.
        """
        if not self.records:
            raise GradientError(
                "backward on a tape that recorded nothing", hint="launch kernels inside `with tape:` first"
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
        seeds = Seeds.of(loss, grads or {}, self._recorded.update(self.records), self._order)
        self._refuse_cut([target for target, _ in seeds.given], "backward", True)
        before = self._seeded
        seeded = Footprints(before.joined())
        for target, _ in seeds.given:
            seeded.touch(target)
        seeds.memory = self._recorded.joined(seeded)
        outer, graph = recording.current(), capturing()
        if graph is not None:
            graph.on_failure(seeds.abort)
            required = [(found.example, found.example.requires_grad) for found in seeds.memory.values()]
            add_node(partial(_refuse_toggled, required))

        def begin() -> None:
            self._announce_gradients(seeds.memory, "backward")
            seeds.begin()

        try:
            with exclusive(seeds.gradients()):
                try:
                    with recording.paused():
                        add_node(begin)
                        self.sweep()
                        self._seeded = seeded
                        if outer is not None:
                            outer.gradients_change(self.gradients)
                        add_node(seeds.end)
                except BaseException:
                    self._seeded = before
                    seeds.abort()
                    raise
        except BaseException as problem:
            if graph is not None:
                graph.broken = f"{type(problem).__name__} was raised by a backward"
            raise

    def sweep(self, begin: int = 0, end: int | None = None) -> None:
        """Take gradients back through records begin .. end - 1, without seeds: a part of what `backward` does."""
        end = len(self.records) if end is None else end
        for k in range(end - 1, begin - 1, -1):
            try:
                self.records[k].backward()
            except NonFiniteError as problem:  # found when the launch had ended
                raise problem.at(f"backward pass{self._place(k)}, {self.records[k]}") from None
            except BaseException:
                if self.records[k].works_on_kept:
                    self._broken = str(self.records[k])
                raise

    def _place(self, index: int) -> str:
        """Words for the mark before a record."""
        mark = next((r for r in reversed(self.records[: index + 1]) if isinstance(r, Mark)), None)
        return f", {mark.name}" if mark is not None else ""

    def release(self) -> None:
        """Keep what is kept, but let everything else be overwritten: for one who knows that what is claimed stays."""
        self._claims.release()

    def zero(self) -> None:
        """Clear the gradients of all arrays on the tape, and of those that it was seeded with.

        An array is what an operation was given: where that is a slice, the rest of its memory keeps its gradient.
        """
        self._recorded.update(self.records)
        memory = self._recorded.joined(self._seeded)
        add_node(lambda: clear(memory, _before_zero))

    @staticmethod
    def _announce_gradients(memory: Mapping[Buffer, Footprint], writer: str) -> None:
        """Gradients are about to change: another tape may have read them as values."""
        for buffer in memory:
            gradient = buffer.gradient
            if gradient is not None and gradient.watchers:
                before_write(ByteRange(gradient), writer)

    def reset(self) -> None:
        """Forget what was recorded, and clear the gradients."""
        self.zero()
        self.records.clear()
        self._order, self._replayed, self._broken = 0, False, ""
        self._recorded.forget()
        self._seeded.forget()
        self._claims.clear()
        self._watch.seen.clear()
        self._cut.clear()

    @property
    def gradients(self) -> dict[array, array]:
        """Gradient of every array on the tape that requires one."""
        return {a: a.grad for r in self.records for a in r.arrays if a.grad is not None}

    @property
    def bytes_kept(self) -> int:
        """Bytes that the tape keeps beside the arrays themselves: copies of overwritten values, and records per
        thread."""
        return sum(entry.nbytes for entry in self.memory())

    def memory(self) -> TapeMemory:
        """What the tape keeps beside the arrays, and why; prints as a table."""
        copies = [Remembered(k.data.nbytes, "copy", k.reason) for k in self._claims.kept]
        records = [
            Remembered(a.nbytes, "record", f"loads of the {r} that it overwrites itself, per thread")
            for r in self.records
            if isinstance(r, LaunchRecord)
            for a in r.records
        ]
        returned = [
            Remembered(a.nbytes, "record", f"what atomics of the {r} returned, per thread")
            for r in self.records
            if isinstance(r, LaunchRecord)
            for a in r.returned
        ]
        inside = [m for r in self.records if isinstance(r, FunctionRecord) for m in r.memory()]
        return TapeMemory([*copies, *records, *returned, *inside])

    def visualize(self, filename: str | Path | None = None, array_labels: Mapping[array, str] | None = None) -> str:
        """The recorded program as a graph: DOT text, also written to `filename` if given (`.html`: a page for a
        browser).

        array_labels: names of arrays.
        """
        graph = TapeGraph.of(self.records, array_labels or {})
        if filename is not None:
            path = Path(filename)
            path.write_text(graph.page() if path.suffix in (".html", ".htm") else graph.dot(), encoding="utf-8")
        return graph.dot()

    @property
    def launches(self) -> list[Call]:
        """The recorded launches in order."""
        return [r.call for r in self.records if isinstance(r, LaunchRecord)]

    def buffers(self) -> dict[Buffer, array]:
        """The memory that the tape has to do with, and an array there that tells its type."""
        self._recorded.update(self.records)
        return {buffer: found.example for buffer, found in self._recorded.joined(self._seeded).items()}


def _refuse_toggled(required: Iterable[tuple[array, bool]]) -> None:
    """A replay takes gradients back to the arrays that had one when the graph was captured, and to no others."""
    for a, before in required:
        if a.requires_grad != before:
            raise GradientError(
                f"`requires_grad` of an array of shape {a.shape} was changed since a graph with the backward of its"
                " tape was captured",
                hint="capture it again",
            )


def _before_zero(gradient: Buffer, spans: Spans) -> None:
    """Part of a gradient is about to be cleared: another tape may have read it as values."""
    if gradient.watchers:
        for low, high in spans.runs:
            before_write(ByteRange(gradient, low, high), "zero() of a tape")
