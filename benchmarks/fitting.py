"""What an identification costs, in forward rollouts, beside SciPy's optimisers on the same problem from the same start.

    python benchmarks/fitting.py [--scenes cloth,beam,cable,wave] [--limit 200]

Each search is followed until its loss on everything is within 1 % of the least that any of them has found (within 0.01
below a loss of one, which is the noise of a recording), and until it ends by itself.  Rollouts are counted as they
happen: one of a part of a recording as its share, one with a gradient as many times as it takes longer, which is
measured first.  SciPy's `least_squares` gets the residuals: with the finite differences of its own, and with steps of
0.01 (float64: 1e-4) in the coordinates, as Gauss-Newton takes them here.  `L-BFGS-B` and `SLSQP` get loss and gradient.
All have the bounds of the scene.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares, minimize

import sim
from sim.identify.data.experiments import Experiment, Simulation, group_by_rollout
from sim.identify.losses.jacobian import linearise
from sim.identify.problem import Problem
from sim.identify.search.search import Stage, search

SCENES = Path(__file__).parents[1] / "scenes"
NEAR = 0.01


class Enough(Exception):
    """A search has cost as much as it may."""


@dataclass
class Ledger:
    """What a search has cost so far [forward rollouts], and the losses on everything that it has seen: (cost, loss)."""

    limit: float
    cost: float = 0.0
    seen: list[tuple[float, float]] = field(default_factory=list)

    def pay(self, cost: float) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise Enough

    def reached(self, loss: float) -> float | None:
        """The cost after which a loss no larger was seen."""
        return next((cost for cost, found in self.seen if found <= loss), None)

    @property
    def least(self) -> float:
        return min((loss for _, loss in self.seen), default=np.inf)


class Counted:
    """A problem, or that of the first part of its recordings, whose rollouts are entered in a ledger."""

    def __init__(self, problem: Problem, whole: Problem, ledger: Ledger, ratio: float) -> None:
        self.problem = replace(problem, onlooker=self)
        self.ledger, self.ratio, self.is_whole = ledger, ratio, problem is whole
        self.all = sum(float(group[0].schedule.frames) for group in rollouts(whole))
        self.with_gradient = False

    def wants(self) -> bool:
        """As an onlooker of the problem."""
        return True

    def saw(self, simulations: Sequence[Simulation]) -> None:
        """Experiments that share a rollout."""
        cost = self.ratio if self.with_gradient else 1.0
        self.ledger.pay(cost * simulations[0].experiment.schedule.frames / self.all)

    def value_and_grad(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        self.with_gradient = True
        found = self.problem.evaluate(x)
        self.with_gradient = False
        self._saw(found.loss)
        return found.loss, found.gradient.copy()

    def approximate(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        before = self.ledger.cost
        found = self.problem.approximate(x)
        if self.is_whole:  # the loss comes first: one rollout
            self.ledger.seen.append((before + 1.0, found[0]))
        return found

    def numbers(self, x: np.ndarray) -> np.ndarray:
        """The residuals (n,) whose squares add up to the loss."""
        found = self.problem.residuals(x, self.problem.simulate(x, self.problem.fitted))
        self._saw(sum(part.loss for part in found))
        return np.concatenate([(np.sqrt(part.weight)[..., None] * part.values).ravel() for part in found])

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """Their derivatives (n, parameters), by differences as those of this package."""
        found = linearise(self.problem, x)
        parts = zip(found.residuals, found.jacobians, strict=True)
        return np.concatenate([(np.sqrt(p.weight)[..., None, None] * j).reshape(-1, len(x)) for p, j in parts])

    def _saw(self, loss: float) -> None:
        if self.is_whole:
            self.ledger.seen.append((self.ledger.cost, loss))


def rollouts(problem: Problem) -> list[list[Experiment]]:
    """The fitted experiments of a problem, those that share a rollout together."""
    return group_by_rollout(problem.fitted, own=any(p.experiments for p in problem.sought))


def ours(problem: Problem, ledger: Ledger, ratio: float) -> None:
    """The search that the scene asks for."""
    stages, memories = [], ExitStack()
    for horizon in problem.method.horizons:
        part = Counted(problem.up_to(horizon), problem, ledger, ratio)
        memories.enter_context(part.problem.remembering())
        own = part.problem
        stages.append(
            Stage(
                horizon.label,
                part.value_and_grad,
                own.gauss_newton,
                problem.describe,
                part.approximate,
                own.approximate_gauss_newton,
            )  # fmt: skip
        )
    starts = problem.space.starts(problem.method.starts, problem.method.seed)
    with memories:
        search(stages, starts, problem.bounds, problem.method)


def squares(own: bool) -> Callable[[Problem, Ledger, float], None]:
    """`least_squares`, with differences of its own."""

    def run(problem: Problem, ledger: Ledger, ratio: float) -> None:
        counted = Counted(problem, problem, ledger, ratio)
        least_squares(
            counted.numbers, problem.start, jac="2-point" if own else counted.slopes, bounds=problem.bounds, x_scale=1.0
        )

    return run


def by_gradient(method: str) -> Callable[[Problem, Ledger, float], None]:
    """An optimiser that takes loss and gradient."""

    def run(problem: Problem, ledger: Ledger, ratio: float) -> None:
        counted = Counted(problem, problem, ledger, ratio)
        bounds = np.stack(problem.bounds, axis=1)
        minimize(counted.value_and_grad, problem.start, jac=True, method=method, bounds=bounds)

    return run


METHODS: dict[str, Callable[[Problem, Ledger, float], None]] = {
    "ours": ours,
    "least_squares": squares(True),
    "least_squares, our steps": squares(False),
    "L-BFGS-B": by_gradient("L-BFGS-B"),
    "SLSQP": by_gradient("SLSQP"),
}


def gradient_cost(problem: Problem) -> tuple[float, float]:
    """Processor seconds of a forward rollout, and the cost of a gradient in those."""
    seconds: dict[str, list[float]] = {"forward": [], "gradient": []}
    for _ in range(4):
        for name, run in (("forward", problem.value), ("gradient", problem.value_and_grad)):
            start = time.process_time()
            run(problem.start)
            seconds[name].append(time.process_time() - start)
    forward, gradient = (min(found[1:]) for found in seconds.values())
    return forward, gradient / forward


def compare(name: str, limit: float) -> None:
    """The searches of one scene."""
    problem = sim.load_scene(SCENES / f"{name}.yaml").build()
    forward, ratio = gradient_cost(problem)
    ledgers, ends = {key: Ledger(limit) for key in METHODS}, dict[str, str]()
    for key, run in METHODS.items():
        try:
            run(problem, ledgers[key], ratio)
            ends[key] = f"{ledgers[key].cost:.0f}"
        except Enough:
            ends[key] = "-"
        except FloatingPointError:
            ends[key] = "broke down"
    least = min(ledger.least for ledger in ledgers.values())
    enough = least + NEAR * max(least, 1.0)
    print(
        f"\n{name}: {len(problem.start)} numbers, {problem.method.name}, a forward rollout {forward:.2f} s, a gradient"
        f" {ratio:.1f} of them; least loss {least:.4g}"
    )
    print(f"    {'':26}{'to the floor':>14}{'to its end':>12}{'least loss':>13}")
    for key, ledger in ledgers.items():
        reached = ledger.reached(enough)
        to = "never" if reached is None else f"{reached:.1f}"
        print(f"    {key:26}{to:>14}{ends[key]:>12}{ledger.least:13.4g}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", default="cloth,beam,cable,wave")
    parser.add_argument("--limit", type=float, default=200.0, help="forward rollouts that a search may cost")
    given = parser.parse_args()
    warnings.simplefilter("ignore", sim.NumericsWarning)
    for name in given.scenes.split(","):
        compare(name, given.limit)


if __name__ == "__main__":
    main()
