"""The loop around a minimiser: logging, best-so-far, early stop, interruption, saving and resuming to the bit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim.core.optim import LBFGS, Minimizer
from sim.identify.search.objectives import OBJECTIVES, Objective, make_objective

ValueAndGrad = Callable[[np.ndarray], tuple[float, np.ndarray]]
State = dict[str, Any]

SETTLED = 0.05
"""An approach is over when a step of it lowered the loss by less than this share."""

WORTHWHILE = 1e-4
"""`patience` counts the iterations that lowered the best loss by less than this share."""

ENDED = {
    "loss": "the loss is low enough",
    "gradient": "the gradient is small enough",
    "patience": "the loss hardly falls any more",
    "iterations": "all iterations were used up",
    "line_search": "no step lowers the loss any further",
    "interrupted": "interrupted",
    "non_finite": "the simulation breaks down wherever the search turns",
}
"""Reasons to end a search, in words."""

FEW = 3
"""Iterations without a worthwhile improvement after which a loss no longer counts as falling."""


@dataclass(frozen=True)
class Stop:
    """When the search may end early.

    loss: at or below this loss.  gradient: when no component of the (projected) gradient of the objective is larger.
    patience: after so many iterations in a row without a worthwhile improvement.  None: never for that reason.
    """

    loss: float | None = None
    gradient: float | None = 1e-7
    patience: int | None = None


@dataclass(frozen=True)
class Progress:
    """What was done before a search begins: the number of its first log entry, evaluations and seconds so far."""

    iteration: int = 0
    evaluations: int = 0
    wall_s: float = 0.0


@dataclass(frozen=True)
class Approach:
    """How a search goes on far from the minimum, where a gradient that is roughly right will do and is cheap to have.

    value_and_grad: coordinates (n,) -> the plain loss as it is, its gradient (n,) about.  method: a minimiser for them.
    """

    value_and_grad: ValueAndGrad
    method: Minimizer


@dataclass(frozen=True)
class OptimizeResult:
    """What the search found.

    x: the best coordinates (n,).  loss, gradient: the plain loss there and its gradient by x.  stopped_because: "loss",
    "gradient", "patience", "iterations", "line_search" (no step lowers the loss any further) or "interrupted".
    state: for `resume_state`; empty if not even the start was evaluated (then the loss is nan).
    falling: whether one of the last few iterations still lowered the loss by a worthwhile share.
    """

    x: np.ndarray
    loss: float
    gradient: np.ndarray
    initial_loss: float
    best_iteration: int
    iterations: int
    evaluations: int
    stopped_because: str
    wall_s: float
    state: State
    falling: bool = False

    def __repr__(self) -> str:
        return (
            f"OptimizeResult(loss {self.initial_loss:.6g} -> {self.loss:.6g} in {self.iterations} iterations; "
            f"{ENDED.get(self.stopped_because, self.stopped_because)})"
        )


class NonFinite(FloatingPointError):
    """The loss or its gradient is not finite: at the start (no result), or wherever the search turns (its best)."""

    def __init__(self, message: str, result: OptimizeResult | None = None):
        super().__init__(message)
        self.result = result


def optimize(
    value_and_grad: ValueAndGrad,
    start: Any,
    bounds: tuple[Any, Any] | None = None,
    method: Minimizer | None = None,
    *,
    iterations: int = 50,
    objective: str = "log",
    stop: Stop | None = None,
    log: Callable[[dict[str, Any]], Any] | None = None,
    save: Callable[[State], Any] | None = None,
    resume_state: Mapping[str, Any] | None = None,
    should_stop: Callable[[], bool] | None = None,
    describe: Callable[[np.ndarray], Mapping[str, Any]] | None = None,
    after: Progress | None = None,
    approach: Approach | None = None,
) -> OptimizeResult:
    """Minimise a loss, step by step, in a way that can be watched, interrupted and resumed.

    value_and_grad: coordinates x (n,) -> plain loss, gradient (n,).  Where the simulation breaks down it may return nan
    or raise FloatingPointError: the search then backs off.  start, bounds = (lower, upper): in the same coordinates
    (see `ParameterSpace`).  method: `LBFGS(...)` (default) or `Descent(Adam, lr=...)`.  objective: "log" or "plain".
    iterations: at most so many, those before a resume included.
    log(entry): called with one dictionary per iteration (0 = the start): iteration, loss, gradient_norm (of the
    objective, projected), step (max-norm, in coordinates), evaluations (so far), wall_s, and what describe(x) says;
    parameters = x without it.
    save(state): called after every iteration with a flat dictionary of arrays and scalars; given back as `resume_state`
    (to a method with the same settings), the search goes on as if it had not been interrupted, to the bit.
    should_stop(): asked before every evaluation; a true answer ends the search, as Ctrl-C does, with the last complete
    iteration saved.
    after: counts go on from there; the iterations that count are those of this search.
    approach: steps are taken by it until one hardly lowers the loss or none does; `method` goes on from there, and no
    search ends without having seen `value_and_grad` at its last point (unless it is interrupted); where that is not
    finite, the search has broken down.
    """
    method = LBFGS(max_step=4.0, noise=1e-7) if method is None else method
    exact = Approach(value_and_grad, method)
    run = _SearchState(
        [exact] if approach is None else [approach, exact],
        bounds,
        Stop() if stop is None else stop,
        should_stop,
        Progress() if after is None else after,
    )
    report = _reporter(run, log, save, describe)
    try:
        if resume_state is not None:
            run.resume(resume_state, np.size(start), objective)
        else:
            run.begin(np.array(start, dtype=np.float64), objective)
            report(0.0)
        why = run.verdict(iterations)
        while why is None:
            length, why = run.iterate()
            if why is None:
                report(length)
                why = run.verdict(iterations)
    except (_Interrupted, KeyboardInterrupt):
        why = "interrupted"
        if save is not None and run.saved:
            save(run.saved)
    result = run.result(why, np.array(start, dtype=np.float64))
    if why == "non_finite":
        if np.isfinite(result.gradient).all():
            what = f"every trial step from iteration {result.iterations} met a non-finite loss or gradient"
        else:
            what = f"where gradients by differences led, at iteration {result.iterations}, the exact one is not finite"
        raise NonFinite(
            f"{what}{run.evaluator.cause()}; the best loss so far is {result.loss:.6g} "
            f"(iteration {result.best_iteration})",
            result,
        )
    return result


class _Interrupted(Exception):
    """Somebody asked to stop while an iteration was under way."""


@dataclass
class _Evaluator:
    """Calls the user's function: asks whether to stop, counts, remembers results, turns breakdowns into nan."""

    function: ValueAndGrad
    should_stop: Callable[[], bool] | None
    evaluations: int = 0
    objective: Objective | None = None
    known: dict[bytes, tuple[float, np.ndarray]] = field(default_factory=dict)
    breakdown: FloatingPointError | None = None

    def plain(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Plain loss and gradient at x."""
        key = x.tobytes()
        if key not in self.known:
            if self.should_stop is not None and self.should_stop():
                raise _Interrupted
            try:
                loss, gradient = self.function(x.copy())
            except FloatingPointError as error:
                self.breakdown = error
                loss, gradient = np.nan, np.full(x.shape, np.nan)
            self.evaluations += 1
            self.known[key] = (float(loss), np.array(gradient, dtype=np.float64))
        return self.known[key]

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Objective and its gradient at x."""
        assert self.objective is not None
        return self.objective(*self.plain(x))

    def keep_only(self, x: np.ndarray) -> None:
        """Forget all results but the one at x; what is remembered must not depend on where a run was resumed."""
        self.known = {x.tobytes(): self.known[x.tobytes()]}

    def cause(self) -> str:
        """The last breakdown, for a message."""
        return f" ({self.breakdown})" if self.breakdown is not None else ""


@dataclass
class _Best:
    """The best point so far."""

    x: np.ndarray
    loss: float
    gradient: np.ndarray
    iteration: int


class _SearchState:
    """The state of one search, and what happens to it in one iteration."""

    def __init__(
        self,
        phases: Sequence[Approach],
        bounds: tuple[Any, Any] | None,
        stop: Stop,
        should_stop: Callable[[], bool] | None,
        after: Progress,
    ):
        self.phase, self.later = phases[0], list(phases[1:])
        self.evaluator = _Evaluator(self.phase.value_and_grad, should_stop, after.evaluations)
        self.bounds = bounds
        self.stop = stop
        self.gained = float("inf")  # share of the loss that the last step took away
        self.first = self.iteration = after.iteration
        self.initial_loss = float("nan")
        self.best: _Best | None = None
        self.mark = float("nan")  # the best loss at the last worthwhile improvement ...
        self.stale = 0  # ... and the iterations since
        self.saved: State = {}
        self._since = time.perf_counter()
        self._wall_before = after.wall_s

    @property
    def method(self) -> Minimizer:
        """The minimiser of the present phase."""
        return self.phase.method

    @property
    def wall_s(self) -> float:
        """Seconds spent, those before a resume included."""
        return self._wall_before + time.perf_counter() - self._since

    @property
    def loss(self) -> float:
        """The plain loss at the present point."""
        return self.evaluator.known[self.method.x.tobytes()][0]

    def begin(self, start: np.ndarray, objective: str) -> None:
        """Evaluate the start."""
        loss, gradient = self.evaluator.plain(start)
        if self.later and not (np.isfinite(loss) and np.isfinite(gradient).all()):  # it broke down beside the start
            self._turn()
            loss, gradient = self.evaluator.plain(start)
        if gradient.shape != start.shape:
            raise ValueError(f"value_and_grad returned a gradient {gradient.shape} for x of shape {start.shape}")
        if not (np.isfinite(loss) and np.isfinite(gradient).all()):
            what = f"loss is {loss}" if not np.isfinite(loss) else f"gradient is {gradient}"
            raise NonFinite(
                f"the {what} at the start{self.evaluator.cause()}: choose another start, or smaller time steps"
            )
        self.evaluator.objective = make_objective(objective, loss)
        self.method.begin(self.evaluator, start, self.bounds)
        self.initial_loss = self.mark = loss
        self.best = _Best(start, loss, gradient, self.iteration)

    def iterate(self) -> tuple[float, str | None]:
        """One step of the method: its length, and why it was none."""
        before = self.loss
        step = self.method.step(self.evaluator)
        if step.stopped and self.later:
            self._turn()
            if not self._stands():
                return 0.0, "non_finite"
            step = self.method.step(self.evaluator)
        if step.stopped:
            return 0.0, step.stopped
        self.iteration += 1
        self.evaluator.keep_only(self.method.x)
        loss, gradient = self.evaluator.plain(self.method.x)
        self.gained = (before - loss) / abs(before) if before else 0.0
        assert self.best is not None
        if loss < self.best.loss:
            self.best = _Best(self.method.x.copy(), loss, gradient, self.iteration)
        self.stale += 1
        if self.best.loss < self.mark - WORTHWHILE * abs(self.mark):
            self.mark, self.stale = self.best.loss, 0
        return step.length, None

    def verdict(self, iterations: int) -> str | None:
        """Why to stop at the present point, if so; an approach ends here, and the question is asked anew."""
        why = self._reason(iterations)
        if self.later and (why is not None or self.gained < SETTLED):
            self._turn()
            why = self._reason(iterations) if self._stands() else "non_finite"
        return why

    def _stands(self) -> bool:
        """Whether loss and gradient of the present phase are finite where the last one ended."""
        loss, gradient = self.evaluator.plain(self.method.x)
        return bool(np.isfinite(loss) and np.isfinite(gradient).all())

    def _turn(self) -> None:
        """From the approach to what is exact, at the present point; before any step was taken, at the start."""
        phase = self.later[0]
        self.evaluator.function, known = phase.value_and_grad, self.evaluator.known
        self.evaluator.known = {}
        if self.best is None:
            self.phase = self.later.pop(0)
            return
        x = self.method.x.copy()
        try:
            loss, gradient = self.evaluator.plain(x)
        except (_Interrupted, KeyboardInterrupt):
            self.evaluator.known = known
            raise
        phase.method.begin(self.evaluator, x, self.bounds)
        self.phase = self.later.pop(0)
        if not np.isfinite(loss):  # the approach has seen one; its gradient is not what a search may end with
            loss, gradient = known[x.tobytes()][0], np.full(x.shape, np.nan)
        self.best = _Best(x, loss, gradient, self.iteration)

    def _reason(self, iterations: int) -> str | None:
        assert self.evaluator.objective is not None
        target = self.evaluator.objective.least if self.stop.loss is None else self.stop.loss
        if self.loss <= target:
            return "loss"
        if self.stop.gradient is not None and self.method.stationarity() <= self.stop.gradient:
            return "gradient"
        if self.stop.patience is not None and self.stale >= self.stop.patience:
            return "patience"
        return "iterations" if self.iteration - self.first >= iterations else None

    def result(self, why: str, start: np.ndarray) -> OptimizeResult:
        """The outcome; without a single evaluation the start, with a loss of nan."""
        best = self.best or _Best(start, float("nan"), np.full(start.shape, np.nan), 0)
        return OptimizeResult(
            best.x.copy(), best.loss, best.gradient.copy(), self.initial_loss, best.iteration, self.iteration,
            self.evaluator.evaluations, why, self.wall_s, self.saved, self.stale < FEW,
        )  # fmt: skip

    def snapshot(self) -> State:
        """Everything that the rest of the search depends on, flat."""
        best, objective = self.best, self.evaluator.objective
        assert best is not None and objective is not None
        loss, gradient = self.evaluator.plain(self.method.x)
        own: State = {
            "method": type(self.method).__name__,
            "objective": objective.name,
            "reference": objective.reference,
            "iteration": self.iteration,
            "first": self.first,
            "evaluations": self.evaluator.evaluations,
            "initial_loss": self.initial_loss,
            "loss": loss,
            "gradient": gradient.copy(),
            "best_x": best.x.copy(),
            "best_loss": best.loss,
            "best_gradient": best.gradient.copy(),
            "best_iteration": best.iteration,
            "mark": self.mark,
            "stale": self.stale,
            "wall_s": self.wall_s,
            "gained": self.gained,
            "phases_left": len(self.later),
        }
        return own | {f"method.{key}": item for key, item in self.method.state_dict().items()}

    def resume(self, state: Mapping[str, Any], n: int, objective: str) -> None:
        """The opposite of `snapshot`; NumPy scalars and 0-d arrays, as from a file, are as good as Python's."""
        for what, mine in (("method", type(self.method).__name__), ("objective", objective)):
            saved = str(np.asarray(state[what]))
            if saved != mine:
                raise ValueError(f"cannot resume: the saved run's {what} is {saved}, this run's is {mine}")
        count = np.size(state["best_x"])
        if count != n:
            raise ValueError(f"cannot resume: the saved run has {count} coordinates, this run has {n}")
        while len(self.later) > int(np.asarray(state.get("phases_left", 0))):
            self.phase = self.later.pop(0)
            self.evaluator.function = self.phase.value_and_grad
        self.method.load_state_dict({k.removeprefix("method."): v for k, v in state.items() if k.startswith("method.")})
        self.evaluator.objective = OBJECTIVES[objective](float(state["reference"]))
        self.evaluator.evaluations = int(state["evaluations"])
        known = float(state["loss"]), np.array(state["gradient"], dtype=np.float64)
        self.evaluator.known = {self.method.x.tobytes(): known}
        self.iteration, self.first, self.stale = (int(state[key]) for key in ("iteration", "first", "stale"))
        self.initial_loss, self.mark = float(state["initial_loss"]), float(state["mark"])
        x, gradient = (np.array(state[key], dtype=np.float64) for key in ("best_x", "best_gradient"))
        self.best = _Best(x, float(state["best_loss"]), gradient, int(state["best_iteration"]))
        self.gained = float(state.get("gained", 0.0))
        self._wall_before = float(state["wall_s"])
        self.saved = dict(state)


def _reporter(
    run: _SearchState,
    log: Callable[[dict[str, Any]], Any] | None,
    save: Callable[[State], Any] | None,
    describe: Callable[[np.ndarray], Mapping[str, Any]] | None,
) -> Callable[[float], None]:
    """What to do after every iteration: the log line first, so that a saved state never lacks its line."""

    def report(length: float) -> None:
        x = run.method.x
        if log is not None:
            words = {"parameters": x.tolist()} if describe is None else describe(x.copy())
            log({
                "iteration": run.iteration, "loss": run.loss, "gradient_norm": run.method.stationarity(),
                "step": length, "evaluations": run.evaluator.evaluations, "wall_s": run.wall_s, **words,
            })  # fmt: skip
        run.saved = run.snapshot()
        if save is not None:
            save(run.saved)

    return report
