"""A whole search: several starts on the first horizon, then one horizon after the other, from where the last one ended.

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

Log = Callable[[dict[str, Any]], Any]
Save = Callable[[State], Any]
Bounds = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Stage:
    """The loss on one horizon.

    label: of the horizon.  value_and_grad, gauss_newton: of coordinates (n,), see `loop.optimize` and `GaussNewton`.
    describe: what the log says about a point.  approximate, approximate_gauss_newton: as the first two, but cheaper,
    from differences alone.
    """

    label: str
    value_and_grad: ValueAndGrad
    gauss_newton: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    describe: Callable[[np.ndarray], Mapping[str, Any]]
    approximate: ValueAndGrad
    approximate_gauss_newton: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

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
        try:
            last = optimize(
                stage.value_and_grad, x, bounds, method.minimizer(stage.gauss_newton), objective=method.objective,
                iterations=method.limit if iterations is None else iterations,
                stop=method.stop if k == len(stages) - 1 else _coarse(method.stop),
                log=_labelled(log, stage.label) if len(stages) > 1 else log,
                save=_with(known, save),
                resume_state=resume_state, should_stop=should_stop, describe=stage.describe, after=after,
                approach=stage.approach(method))  # fmt: skip
        except NonFinite as error:
            trouble = error
            if error.result is not None:
                last = error.result
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
