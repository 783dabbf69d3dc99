"""A whole search: several starts on the first horizon, then one horizon after the other, from where the last one ended.

Where contacts switch, a loss may be rough: no step along its gradient lowers it, and a few steps by secants of a wide
stretch lead out (a detour), from where the search goes on.

It can be interrupted and resumed to the bit anywhere behind the tournament of the starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from sim.identify.search.loop import (
    Approach,
    NonFinite,
    OptimizeResult,
    Progress,
    State,
    Stop,
    ValueAndGrad,
    optimize,
)
from sim.identify.search.method import Method
from sim.identify.search.starts import Chosen, choose_start

COARSE = 1e-2
"""Gradient of the objective at which an earlier horizon is left: the next one moves the optimum anyway."""

DETOURS, DETOUR, WORTH = 3, 10, 0.01
"""How many detours on each horizon, their iterations at most, and the share of the loss that one has to take away for
the search to go on from its end."""

Log = Callable[[dict[str, Any]], Any]
Save = Callable[[State], Any]
Bounds = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Stage:
    """The loss on one horizon.

    label: of the horizon.  value_and_grad, gauss_newton: of coordinates (n,), see `loop.optimize` and `GaussNewton`.
    describe: what the log says about a point.  approximate, approximate_gauss_newton: as the first two, but cheaper,
    from differences alone.  secant, secant_gauss_newton: the same from secants of a wide stretch, where contacts may
    switch.
    """

    label: str
    value_and_grad: ValueAndGrad
    gauss_newton: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    describe: Callable[[np.ndarray], Mapping[str, Any]]
    approximate: ValueAndGrad
    approximate_gauss_newton: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    secant: ValueAndGrad | None = None
    secant_gauss_newton: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None

    def approach(self, method: Method) -> Approach | None:
        """How far from the minimum, where the method has a way."""
        if not method.approaches:
            return None
        return Approach(self.approximate, method.minimizer(self.approximate_gauss_newton))


@dataclass(frozen=True)
class StageEnd:
    """How the search on one horizon went: the loss on it alone, before and after; last log entry; why it ended."""

    label: str
    initial_loss: float
    loss: float
    iteration: int
    stopped_because: str


@dataclass(frozen=True, eq=False)
class Search:
    """How a search went.

    last: the result on the last horizon that was reached, with the counts of all.  stages: of every horizon up to it.
    chosen: what came of several starts.
    """

    last: OptimizeResult
    stages: tuple[StageEnd, ...]
    chosen: Chosen | None


class BrokenSearch(NonFinite):
    """Wherever the search turns, the simulation breaks down; `found` is how far it came."""

    def __init__(self, message: str, found: Search) -> None:
        super().__init__(message, found.last)
        self.found = found


def search(
    stages: Sequence[Stage],
    starts: Sequence[np.ndarray],
    bounds: Bounds,
    method: Method,
    *,
    iterations: int | None = None,
    log: Log | None = None,
    save: Save | None = None,
    resume_state: Mapping[str, Any] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Search:
    """Search on all horizons.

    starts: coordinates (n,) each; the best of several is found on the first horizon (`choose_start`).  iterations: at
    most so many on each horizon, instead of the method's.  log, save, resume_state, should_stop: as in `loop.optimize`;
    log entries say which `horizon` they are of where there are several, and the first one on a horizon has a number of
    its own.
    Raises NonFinite where the first start cannot be evaluated, BrokenSearch where the search comes no further.
    """
    ended, chosen, x = _ended(resume_state), None, starts[0]
    after = Progress()
    if resume_state is not None:
        chosen = Chosen.from_state(resume_state)
    elif len(starts) > 1:
        begun = time.perf_counter()
        chosen = choose_start(
            stages[0].value_and_grad,
            starts,
            bounds,
            lambda: method.minimizer(stages[0].gauss_newton),
            method.objective,
            should_stop,
        )
        x, after = chosen.x, Progress(0, chosen.evaluations, time.perf_counter() - begun)
    last: OptimizeResult | None = None
    for k in range(len(ended), len(stages)):
        stage, known, before = stages[k], _state_of(ended, chosen), last
        trouble: NonFinite | None = None
        shown = _labelled(log, stage.label) if len(stages) > 1 else log
        stop = method.stop if k == len(stages) - 1 else _coarse(method.stop)
        detours, first = _detours(resume_state)
        try:
            while True:
                found = optimize(
                    stage.value_and_grad, x, bounds, method.minimizer(stage.gauss_newton), objective=method.objective,
                    iterations=method.limit if iterations is None else iterations, stop=stop, log=shown,
                    save=_with({**known, "detours.count": detours, "detours.first": first}, save),
                    resume_state=resume_state, should_stop=should_stop, describe=stage.describe, after=after,
                    approach=stage.approach(method) if not detours else None)  # fmt: skip
                if detours and found.stopped_because == "interrupted" and not found.state and last is not before:
                    assert last is not None
                    last = replace(last, stopped_because="interrupted")  # before the end of the detour was evaluated
                    break
                first = found.initial_loss if np.isnan(first) else first
                last, resume_state = replace(found, initial_loss=first), None
                out = None if detours == DETOURS else _detour(stage, last, bounds, method, shown, should_stop)
                if out is None:
                    break
                if out.stopped_because == "interrupted":
                    last = replace(last, stopped_because="interrupted")
                    break
                x, after = out.x, Progress(out.iterations + 1, out.evaluations, out.wall_s)
                detours += 1
        except NonFinite as error:
            trouble = error
            if error.result is not None:
                last = error.result if np.isnan(first) else replace(error.result, initial_loss=first)
            elif (
                last is not None
            ):  # not even the start of this horizon works, which is where the search on the last one ended
                last = replace(last, stopped_because="non_finite")
            else:
                raise
        if last.stopped_because == "interrupted" and not last.state and before is not None:
            last = replace(before, stopped_because="interrupted")
            break
        resume_state = None
        ended = (*ended, StageEnd(stage.label, last.initial_loss, last.loss, last.iterations, last.stopped_because))
        if trouble is not None:
            where = f"on the horizon {stage.label}: " if len(stages) > 1 else ""
            raise BrokenSearch(f"{where}{trouble}", Search(last, ended, chosen)) from trouble
        if last.stopped_because == "interrupted":
            break
        x, after = last.x, Progress(last.iterations + 1, last.evaluations, last.wall_s)
    assert last is not None
    return Search(last, ended, chosen)


def _detour(
    stage: Stage,
    last: OptimizeResult,
    bounds: Bounds,
    method: Method,
    log: Log | None,
    should_stop: Callable[[], bool] | None,
) -> OptimizeResult | None:
    """A search by secants from where no step along the gradient lowered the loss; None where that is not so, nobody has
    secants, or they lead no further.  What is saved stays that of before: a resumed search takes the same one."""
    if last.stopped_because != "line_search" or stage.secant is None or not method.approaches:
        return None
    assert stage.secant_gauss_newton is not None
    entries: list[dict[str, Any]] = []
    try:
        out = optimize(
            stage.secant, last.x, bounds, method.minimizer(stage.secant_gauss_newton), objective=method.objective,
            iterations=DETOUR, stop=replace(method.stop, gradient=COARSE), log=entries.append, should_stop=should_stop,
            describe=stage.describe, after=Progress(last.iterations, last.evaluations, last.wall_s))  # fmt: skip
    except NonFinite:
        return None
    if out.stopped_because != "interrupted" and not out.loss < (1.0 - WORTH) * last.loss:
        return None
    if log is not None:
        for entry in entries[1:]:  # the first is where the search ended
            log(entry)
    return out


def _detours(state: Mapping[str, Any] | None) -> tuple[int, float]:
    """How many there were on this horizon, and its first loss (nan: not known yet)."""
    if state is None:
        return 0, float("nan")
    return int(np.asarray(state.get("detours.count", 0))), float(np.asarray(state.get("detours.first", np.nan)))


def _labelled(log: Log | None, label: str) -> Log | None:
    return None if log is None else lambda entry: log({**entry, "horizon": label})


def _with(known: State, save: Save | None) -> Save | None:
    return None if save is None else lambda state: save({**state, **known})


def _coarse(stop: Stop) -> Stop:
    """When an earlier horizon may end."""
    return stop if stop.gradient is None else replace(stop, gradient=max(stop.gradient, COARSE))


def _state_of(ended: Sequence[StageEnd], chosen: Chosen | None) -> State:
    """What a resumed search has to know beside the state of the loop, flat."""
    state: State = {} if chosen is None else chosen.state()
    for k, end in enumerate(ended):
        state |= {f"horizon.{k}.{name}": value for name, value in vars(end).items()}
    return state


def _ended(state: Mapping[str, Any] | None) -> tuple[StageEnd, ...]:
    """The horizons that a saved search has left behind; NumPy scalars, as from a file, are as good as Python's."""
    out: list[StageEnd] = []
    while state is not None and f"horizon.{len(out)}.label" in state:
        label, initial, loss, iteration, why = (
            np.asarray(state[f"horizon.{len(out)}.{name}"]).item() for name in (f.name for f in fields(StageEnd))
        )
        out.append(StageEnd(label, initial, loss, iteration, why))
    return tuple(out)
