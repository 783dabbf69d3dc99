"""Several starts: short searches from all of them, of which the better half goes on, until one is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sim.core.optim import Minimizer
from sim.identify.loop import NonFinite, OptimizeResult, State, ValueAndGrad, optimize

ROUND = 3
"""Iterations that a start gets before it is compared with the others again."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """The start to go on from.

    x: (n,) how far its search came.  index: which of the starts.  losses: of the starts; reached: how low each of them
    came (nan: the simulation breaks down there); evaluations: how many it took.
    """

    x: np.ndarray
    index: int
    losses: list[float]
    reached: list[float]
    evaluations: int


def choose_start(value_and_grad: ValueAndGrad, starts: Sequence[np.ndarray], bounds: tuple[np.ndarray, np.ndarray] | None,
                 method: Callable[[], Minimizer], objective: str = "log", should_stop: Callable[[], bool] | None = None
                 ) -> Chosen:
    """Try several starts (see `ParameterSpace.starts`) by successive halving.

    All are evaluated; the better half (two at least) gets `ROUND` iterations each, the better half of these as many more,
    until one is left.  So a start that begins low and ends in a false minimum does not win.  method: makes a minimiser.  should_stop:
    a true answer ends the tournament with the best so far.  Raises NonFinite if the loss is finite at none of them.
    """
    found: dict[int, OptimizeResult] = {}
    losses, cause = [float("nan")] * len(starts), ""
    evaluations = 0

    def go_on(k: int, iterations: int) -> None:
        nonlocal evaluations, cause
        state: State | None = found[k].state if k in found else None
        before = found[k].evaluations if k in found else 0
        try:
            result = optimize(value_and_grad, starts[k], bounds, method(), iterations=iterations, objective=objective,
                              resume_state=state, should_stop=should_stop)
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
            return Chosen(np.array(starts[0], np.float64), 0, losses, losses, evaluations)
        raise NonFinite(f"the loss is finite at none of the {len(starts)} starts{cause}: narrow the bounds")
    alive, done = sorted(found, key=lambda k: found[k].loss), 0
    alive = alive[:max(2, (len(alive) + 1) // 2)]
    while len(alive) > 1 and not (should_stop is not None and should_stop()):
        done += ROUND
        for k in alive:
            go_on(k, done)
        alive = sorted(alive, key=lambda k: found[k].loss)[:(len(alive) + 1) // 2 if len(alive) > 2 else 1]
    best = alive[0]
    reached = [found[k].loss if k in found else float("nan") for k in range(len(starts))]
    return Chosen(found[best].x.copy(), best, losses, reached, evaluations)
