"""Steps of a segment that are alike: a few are recorded, and stand for all.

After the first steps, a step does what the one a *period* before it did, with what it keeps for the gradient further on
in memory.  The names are those of software pipelining (M. Lam, "Software Pipelining", PLDI 1988): after a *prologue*
the *kernel*, two periods that are compared and then run for all others by relocation (`devices/relocation`), and the
*epilogue*, the last period, whose way back finds in the states what it finds in copies elsewhere.

That they are alike is not assumed but seen, forward and backward, word for word; where they are not, all are recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import lcm

from sim.core.runtime.ambient import observers
from sim.core.runtime.devices.graph import Graph, capture, capture_only
from sim.core.runtime.devices.relocation import Relocatable, Strip, moved_between, words_of
from sim.core.runtime.memory.host_memory import address_of
from sim.core.runtime.tape.arena import aligned
from sim.core.runtime.tape.memory_report import Remembered
from sim.core.runtime.tape.tape import Tape
from sim.model.state import State

Frames = Mapping[int, Callable[[State], None]]
"""What to do with the state after a step, by step."""
TakeStep = Callable[[State, State, bool], None]
"""Takes a step from a state to another, and looks before it for pairs that may touch, where the last one is True."""


RECORDED_PERIODS = 3
"""Behind one that says how much a period keeps: two that are compared, and one that nothing comes after."""


def detects(step: int, every: int) -> bool:
    """Does a step, counted from the first of a run of steps, look for pairs first?  every: steps between; 0 for never.

    The first one does in any case: lists are of other steps before it."""
    return every > 0 and step % every == 0


@dataclass(eq=False)
class StepRecorder:
    """Records steps between two states, one behind the other.

    One tape for all: a step may need what an earlier one has kept.  One graph for each: a frame may be kept between any
    two.  begins[k]: where step k begins on the tape.
    """

    states: tuple[State, State]
    step: TakeStep
    every: int
    tape: Tape = field(default_factory=Tape)
    graphs: list[Graph] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        # The model may be that of other threads, which derive from its values what is derived already.  What the steps
        # read there is an input of the rollout: the tape of the user keeps it, and a replay would not copy it again.
        self.tape.hear_no_other_thread()

    def take(self, count: int, frames: Frames) -> None:
        """Take and record so many steps more.  frames: not kept, since they know whose rollout it is."""
        for step in range(len(self.graphs), len(self.graphs) + count):
            self.begins.append(len(self.tape.records))
            with capture(self.graphs[-1] if self.graphs else None) as graph, self.tape:
                self.step(self.states[step % 2], self.states[1 - step % 2], detects(step, self.every))
            self.graphs.append(graph)
            if step in frames:
                frames[step](self.states[1 - step % 2])

    def take_back(self, step: int) -> Graph:
        """Go back through a step, and capture that."""
        with capture() as graph:
            self._sweep(step)
        return graph

    def way_back(self, step: int) -> Graph:
        """The way back through a step, without going it."""
        with capture_only() as graph:
            self._sweep(step)
        return graph

    def _sweep(self, step: int) -> None:
        self.tape.sweep(self.begins[step], [*self.begins, len(self.tape.records)][step + 1])


@dataclass(frozen=True, eq=False)
class StepSeries:
    """One graph for each of `count` steps.

    first, last: the graphs of so many steps at both ends.  kernel: of a period; those in between do what it does.
    """

    count: int
    first: list[Graph]
    kernel: list[Relocatable] = field(default_factory=list)
    last: list[Graph] = field(default_factory=list)

    def __getitem__(self, step: int) -> Graph:
        if step < len(self.first):
            return self.first[step]
        if step >= self.count - len(self.last):
            return self.last[step - self.count]
        period, k = divmod(step - len(self.first), len(self.kernel))
        return self.kernel[k].moved_by(period)

    def shared(self, stop: int) -> bool:
        """Whether the steps before step `stop`, which is not the end, are taken as by series of other lengths."""
        return stop < self.count and stop <= self.count - len(self.last)

    def ends(self) -> list[Graph]:
        """Of the first two steps: all others go between the same states, by the same code."""
        return [self[step] for step in range(min(2, self.count))]


@dataclass(frozen=True, eq=False)
class SteadyState:
    """Steps that do what the first of them did, which were recorded: as many as there is memory for, or fewer.

    first, kernel: of both ways, forward and back; epilogue: the way back through the third period, for the last one.
    kept: by what was recorded, and by each period more.
    """

    longest: int
    first: tuple[list[Graph], list[Graph]]
    kernel: tuple[list[Relocatable], list[Relocatable]]
    epilogue: list[Relocatable]
    kept: tuple[Counter[Remembered], Counter[Remembered]]

    def serves(self, count: int) -> bool:
        """Whether it has so many steps: the prologue takes what whole periods leave."""
        missing = self.longest - count
        return missing >= 0 and missing % len(self.epilogue) == 0 and self._periods(count) >= RECORDED_PERIODS

    def forward(self, count: int) -> StepSeries:
        """The way forward through so many steps."""
        return StepSeries(count, self.first[0], self.kernel[0])

    def backward(self, count: int) -> StepSeries:
        """The way back through so many steps."""
        last = [graph.moved_by(self._periods(count) - RECORDED_PERIODS) for graph in self.epilogue]
        return StepSeries(count, self.first[1], self.kernel[1], last)

    def memory(self, count: int) -> list[Remembered]:
        """What so many steps keep."""
        recorded, one = self.kept
        more = self._periods(count) - RECORDED_PERIODS
        return [*recorded.elements(), *(entry for entry in one.elements() for _ in range(more))]

    def _periods(self, count: int) -> int:
        return (count - len(self.first[0])) // len(self.epilogue)


def steady_state(recorder: StepRecorder, count: int, frames: Frames) -> SteadyState | None:
    """Record the first of `count` steps; all of them, where these are alike; else None, and it has to go on."""
    period = lcm(2, recorder.every) if recorder.every else 2
    prologue = period + count % period  # the first steps find nothing of earlier ones to keep
    recorded = prologue + (1 + RECORDED_PERIODS) * period
    if count < recorded + period or observers.current() is not None:
        return None
    recorder.take(prologue, frames)
    if any(graph.rows is None for graph in recorder.graphs):
        return None
    # 1. A period says how much one keeps; the others keep as much, one behind the other.
    tape, arena = recorder.tape, recorder.tape.arena
    before = arena.taken
    recorder.take(period, frames)
    begin, stride, periods = prologue + period, arena.taken - before, (count - prologue) // period - 1
    block, kept = aligned(periods * stride), list[Counter[Remembered]]()
    strip = Strip(address_of(block), stride, periods)
    for k in range(RECORDED_PERIODS):
        arena.fill(block[k * stride : (k + 1) * stride])
        recorder.take(period, frames)
        kept.append(Counter(tape.memory()))
    # 2. Are they alike?
    steps = [range(begin + k * period, begin + (k + 1) * period) for k in range(RECORDED_PERIODS)]
    forward = [[recorder.graphs[step] for step in of_period] for of_period in steps]
    backward = [[recorder.way_back(step) for step in of_period] for of_period in steps]
    kernel = _kernel(forward, strip)
    kernel_back, epilogue = _kernel(backward[:2], strip), _epilogue(backward[2], strip)
    if kernel is None or kernel_back is None or epilogue is None:
        return None
    first = [recorder.way_back(step) for step in range(begin)]
    both = (recorder.graphs[:begin], first), (kernel, kernel_back)
    return SteadyState(count, *both, epilogue, (kept[2], kept[1] - kept[0]))


def _kernel(periods: list[list[Graph]], strip: Strip) -> list[Relocatable] | None:
    """The graphs of the first of some periods, for any of them; None if these are not alike."""
    found = list[Relocatable]()
    for graphs in zip(*periods, strict=True):
        moved = [moved_between(a, b, strip) for a, b in zip(graphs, graphs[1:], strict=False)]
        if moved[0] is None or any(m is None for m in moved):
            return None
        found.append(Relocatable(graphs[0], moved[0], strip.stride))
    return found


def _epilogue(period: list[Graph], strip: Strip) -> list[Relocatable] | None:
    """The graphs of the third period, for any of them; None if they look at what earlier ones have kept."""
    found = list[Relocatable]()
    for graph in period:
        if graph.rows is None:
            return None
        words = words_of(graph.rows)
        own = strip.of_part(2, words)
        if (strip.holds(words) != own).any():
            return None
        found.append(Relocatable(graph, own, strip.stride))
    return found
