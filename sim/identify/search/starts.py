"""Several starts: short searches from all of them, of which the better half goes on, until one is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from sim.core.optim import Minimizer
from sim.identify.search.loop import NonFinite, OptimizeResult, State, ValueAndGrad, optimize

ROUND = 3
"""Iterations that a start gets before it is compared with the others again."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """The start to go on from.

    index: which of the starts.  starts, ends: (k, n) coordinates where each began and how far it came; losses, reached:
    (k,) the losses there (nan: the simulation breaks down); iterations: (k,) of each; evaluations: of all.
    """

    index: int
    starts: np.ndarray
    ends: np.ndarray
    losses: np.ndarray
    reached: np.ndarray
    iterations: np.ndarray
    evaluations: int

    @property
    def x(self) -> np.ndarray:
        """Coordinates (n,) that the search of the best start reached."""
        return self.ends[self.index].copy()

    def state(self) -> State:
        """Everything as a flat dictionary, for `from_state`."""
        return {f"starts.{name}": value for name, value in vars(self).items()}

    @classmethod
    def from_state(cls, state: Mapping[str, object]) -> Self | None:
        """The opposite of `state`; None where there was one start."""
        if "starts.index" not in state:
            return None
        index, evaluations = (int(np.asarray(state[f"starts.{name}"])) for name in ("index", "evaluations"))
        starts, ends, losses, reached, iterations = (
            np.array(state[f"starts.{name}"]) for name in ("starts", "ends", "losses", "reached", "iterations")
        )
        return cls(index, starts, ends, losses, reached, iterations, evaluations)


def choose_start(
    value_and_grad: ValueAndGrad,
    starts: Sequence[np.ndarray],
    bounds: tuple[np.ndarray, np.ndarray] | None,
    method: Callable[[], Minimizer],
    objective: str = "log",
    should_stop: Callable[[], bool] | None = None,
) -> Chosen:
    """Try several starts (see `ParameterSpace.starts`) by successive halving.

    All are evaluated; the better half (two at least) gets `ROUND` iterations each, the better half of these as many
    more, until one is left.  So a start that begins low and ends in a false minimum does not win.  method: makes a
    minimiser.  should_stop: a true answer ends the tournament with the best so far.  Raises NonFinite if the loss is
    finite at none of them.
    """
    found: dict[int, OptimizeResult] = {}
    losses, cause = np.full(len(starts), np.nan), ""
    evaluations = 0

    def chosen(index: int) -> Chosen:
        ends = np.array([found[k].x if k in found else np.asarray(x, np.float64) for k, x in enumerate(starts)])
        reached = np.array([found[k].loss if k in found else np.nan for k in range(len(starts))])
        iterations = np.array([found[k].iterations if k in found else 0 for k in range(len(starts))])
        return Chosen(index, np.array(starts, np.float64), ends, losses, reached, iterations, evaluations)

    def go_on(k: int, iterations: int) -> None:
        nonlocal evaluations, cause
        state: State | None = found[k].state if k in found else None
        before = found[k].evaluations if k in found else 0
        try:
            result = optimize(
                value_and_grad, starts[k], bounds, method(), iterations=iterations, objective=objective,
                resume_state=state, should_stop=should_stop,
            )  # fmt: skip
        except NonFinite as error:
            cause = f" ({error})"
            if error.result is None:
                return
            result = error.result
        evaluations += result.evaluations - before
        if np.isfinite(result.loss):
            found[k] = result
            losses[k] = result.initial_loss

    for k in range(len(starts)):
        go_on(k, 0)
    if not found:
        stopped = should_stop is not None and should_stop()
        if stopped:
            return chosen(0)
        raise NonFinite(f"the loss is finite at none of the {len(starts)} starts{cause}: narrow the bounds")
    alive, done = sorted(found, key=lambda k: found[k].loss), 0
    alive = alive[: max(2, (len(alive) + 1) // 2)]
    while len(alive) > 1 and not (should_stop is not None and should_stop()):
        done += ROUND
        for k in alive:
            go_on(k, done)
        alive = sorted(alive, key=lambda k: found[k].loss)[: (len(alive) + 1) // 2 if len(alive) > 2 else 1]
    return chosen(alive[0])
