"""Checkpoints of loops in bounded storage: how the reverse sweep gets back to the start of any trip.

A thread has `SLOTS` checkpoints per carried value that the reverse sweep looks at, nothing for the others.

* Trip count known on entry: every `stride`-th trip is checkpointed (Griewank & Walther, "Evaluating Derivatives", 2nd
  ed., ch. 12: multilevel checkpointing, with two levels).
* Unknown (`while`): when the slots are full every second checkpoint is dropped and the stride doubles, hence SLOTS is
  even (online checkpointing; Stumm & Walther 2010 drop more cleverly, but need the numbers of trips in the slots).

The reverse sweep restores a checkpoint, runs forward to the end of its segment into a second level of checkpoints, one
per trip, and goes back from there: full speed up to SLOTS^2 trips, slower but right beyond.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from sim.core.lang.autodiff.undo_log import Cursor, positions_of, rewind_all
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.clone import Env
from sim.core.lang.ir.core import Block, Op, TapeType, Value, emit
from sim.core.lang.types import Scalar, int32

SLOTS = 512
"""Checkpoints per value of a loop; even, because thinning keeps every second one."""


@dataclass
class ThreadTapes:
    """Storage of one thread for checkpoints.  declared: all of it, for the top of the function."""

    b: Builder
    slots: int = field(default_factory=lambda: SLOTS)
    declared: list[Op] = field(default_factory=list)

    def new(self, scalar: Scalar, slots: int) -> Value:
        op = Op("tape", [], [Value(TapeType(scalar, slots))], {"slots": slots, "scalar": scalar})
        op.results[0].op = op
        self.declared.append(op)
        return op.results[0]

    def load(self, tapes: Sequence[Value], at: Value) -> list[Value]:
        return [self.b.leaf_op("tape_load", (tape, at), _scalar(tape)) for tape in tapes]

    def store(self, tapes: Sequence[Value], at: Value, values: Sequence[Value]) -> None:
        for tape, v in zip(tapes, values, strict=True):
            self.b.append(Op("tape_store", [tape, at, v], []))


def _scalar(tape: Value) -> Scalar:
    assert isinstance(tape.type, TapeType)
    return tape.type.scalar


@dataclass
class LoopCheckpoints:
    """What the forward sweep left of one loop: its trip count, and checkpoints of the start of its trips.

    carried: the carried values that are kept (parameters of the body).
    cursors: those whose positions are kept too.
    tapes:   one per carried value, then one per cursor; none in loops that store to replayed arrays: they push frames.
    stride:  trips between two checkpoints; None: there is one of every trip.
    """

    count: Value
    carried: list[Value] = field(default_factory=list)
    cursors: list[Cursor] = field(default_factory=list)
    tapes: list[Value] = field(default_factory=list)
    stride: Value | None = None


@dataclass
class CheckpointWriter:
    """Takes the checkpoints of one loop while it runs forward."""

    storage: ThreadTapes
    body: Block
    carried: list[Value]
    cursors: list[Cursor]
    slots: int

    def __post_init__(self) -> None:
        kinds = [p.type for p in self.carried] + [int32 for _ in self.cursors]
        self.tapes = [self.storage.new(kind, self.slots) for kind in kinds]  # type: ignore[arg-type]

    def checkpoints(self, count: Value, stride: Value | None) -> LoopCheckpoints:
        return LoopCheckpoints(count, self.carried, self.cursors, self.tapes, stride)

    def stride_for(self, n: Value) -> Value | None:
        """Trips between two checkpoints of a loop of `n` trips."""
        slots, fits = self.storage.slots, n.const is not None and n.const <= self.storage.slots
        return emit("max", emit("div", n + (slots - 1), slots), 1) if self.tapes and not fits else None

    def keep_every(self, stride: Value | None, at: Value, params: Sequence[Value]) -> None:
        """At the start of trip `at`, whose body has the parameters `params`: a checkpoint if it is the turn of one."""
        now = self._now(params)
        if stride is None:
            self.storage.store(self.tapes, at, now)
        else:
            slot = emit("div", at, stride)
            hit = emit("eq", slot * stride, at)
            self.storage.b.if_(hit, lambda: self.storage.store(self.tapes, slot, now), lambda: None)

    def keep_thinning(self, stride: Value, at: Value, params: Sequence[Value]) -> Value:
        """The same in a loop of unknown length; returns the stride from here on: doubled once the slots are full."""
        if not self.tapes:
            return stride
        slot = emit("div", at, stride)
        now = self._now(params)

        def checkpoint() -> list[Value]:
            (wider,) = self.storage.b.if_(emit("eq", slot, self.slots), lambda: self._thin(stride), lambda: [stride])
            self.storage.store(self.tapes, emit("div", at, wider), now)
            return [wider]

        return self.storage.b.if_(emit("eq", slot * stride, at), checkpoint, lambda: [stride])[0]

    def _now(self, params: Sequence[Value]) -> list[Value]:
        """What there is to keep, of a trip that runs with these parameters."""
        given = dict(zip(self.body.params, params, strict=True))
        return [*(given[p] for p in self.carried), *positions_of(self.cursors)]

    def _thin(self, stride: Value) -> list[Value]:
        """Keep every second checkpoint, in the first half of the slots."""
        b = self.storage.b

        def move(k: Value) -> list[Value]:
            for tape in self.tapes:
                self.storage.store([tape], k, self.storage.load([tape], k * 2))
            return []

        b.for_(b.const(self.slots // 2, int32), [], move)
        return [stride * 2]


def trip_env(loop: Op, env: Env, count: Value, at: Value, known: Mapping[Value, Value]) -> Env:
    """The environment of trip number `at` of `count`, of whose carried values these are `known`."""
    inner = dict(env)
    if loop.name == "for":
        inner[loop.regions[0].params[0]] = count - 1 - at if loop.reverse else at
    inner.update((p, known.get(p) or Value(p.type, "not kept")) for p in loop.carried_params)
    return inner


class TripRestorer:
    """Gets the reverse sweep to the start of a trip: the carried values that were kept, the cursors where they were.

    The sweep takes the trips from the last to the first.
    Invariant: when trip `at` is asked for, the second level holds the starts of the trips of its segment, as many as
    there are slots.  It is filled on entering a segment from behind.

    recompute: emits the body of the loop once more, for an environment.
    """

    def __init__(
        self, storage: ThreadTapes, loop: Op, env: Env, kept: LoopCheckpoints, recompute: Callable[[Block, Env], None]
    ) -> None:
        self.storage, self.loop, self.env, self.kept, self.recompute = storage, loop, env, kept, recompute
        if kept.stride is not None:
            self.last = kept.count - 1
            self.second_level = [storage.new(_scalar(tape), storage.slots) for tape in kept.tapes]

    def __call__(self, at: Value) -> Env:
        """The environment of trip `at`."""
        tapes, stride, load = self.kept.tapes, self.kept.stride, self.storage.load
        if stride is None:
            return self._enter(at, load(tapes, at))
        slot = emit("div", at, stride)
        segment = slot * stride
        place = at - segment
        every, some = partial(load, tapes, at), partial(self._from_segment, at, slot, segment, place, stride)
        return self._enter(at, self.storage.b.if_(emit("eq", stride, 1), every, some))

    def _from_segment(self, at: Value, slot: Value, segment: Value, place: Value, stride: Value) -> list[Value]:
        """The start of trip `at`, number `place` of the segment that begins with trip `segment`, checkpoint `slot`."""
        b, load, last_slot = self.storage.b, self.storage.load, self.storage.slots - 1
        entered = emit("or", emit("eq", at, self.last), emit("eq", place, stride - 1))
        b.if_(entered, lambda: self._refill(segment, slot, at + 1), lambda: None)

        def beyond() -> list[Value]:
            """Behind the second level: from its last entry forward, for every trip anew."""
            return self._advance(segment + last_slot, at, load(self.second_level, b.const(last_slot, int32)))

        return b.if_(emit("lt", place, self.storage.slots), partial(load, self.second_level, place), beyond)

    def _refill(self, segment: Value, slot: Value, stop: Value) -> None:
        """Fill the second level: run from the checkpoint of a segment up to trip `stop`."""

        def keep(at: Value, now: Sequence[Value]) -> None:
            place, everything = at - segment, [*now, *positions_of(self.kept.cursors)]
            self.storage.b.if_(
                emit("lt", place, self.storage.slots),
                lambda: self.storage.store(self.second_level, place, everything),
                lambda: None,
            )

        self._advance(segment, stop, self.storage.load(self.kept.tapes, slot), keep)

    def _advance(
        self,
        start: Value,
        stop: Value,
        kept: Sequence[Value],
        keep: Callable[[Value, Sequence[Value]], None] | None = None,
    ) -> list[Value]:
        """Run the body from trip `start`, with checkpoint `kept`, to `stop`; returns what a checkpoint there holds."""
        body, carried = self.loop.regions[-1], self.kept.carried
        ends = [end for p, end in zip(self.loop.carried_params, body.yields, strict=True) if p in carried]
        self._rewind(kept)

        def trip(k: Value, *now: Value) -> list[Value]:
            at = start + k
            if keep is not None:
                keep(at, now)
            inner = self._environment(at, now)
            self.recompute(body, inner)
            return [inner.get(end, end) for end in ends]

        results = self.storage.b.for_(stop - start, kept[: len(carried)], trip)
        return [*results, *positions_of(self.kept.cursors)]

    def _enter(self, at: Value, kept: Sequence[Value]) -> Env:
        self._rewind(kept)
        return self._environment(at, kept[: len(self.kept.carried)])

    def _environment(self, at: Value, carried: Sequence[Value]) -> Env:
        return trip_env(self.loop, self.env, self.kept.count, at, dict(zip(self.kept.carried, carried, strict=True)))

    def _rewind(self, kept: Sequence[Value]) -> None:
        rewind_all(self.kept.cursors, kept[len(self.kept.carried) :])
