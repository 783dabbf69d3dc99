"""What it costs to identify a value to 1 % and to 0.1 %, with each solver, integrator and element.

    python benchmarks/truth.py                       # the tables of truth.md: minutes a body
    python benchmarks/truth.py --quick chain         # short ladders, some of the bodies

One value is sought from where markers are at frames.  The twin that they are taken from is the same body, stepped by
SolverNewton with BDF2 in steps so short that half of them changes nothing: what is found, over what is true, is then
what solver, integrator, step and iterations make of the value.  Ladders halve the step until two steps in a row find
it within 0.1 %; a setting counts as good for 1 % (0.1 %) where all shorter steps are as well.

Costs are processor time of one rollout under a tape and of its way back, the median of three, one thread, float64:
XPBD with a checkpoint every 50 steps, Newton with everything stored.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from truth_twins import TWINS, Twin

import sim

GOALS = (0.01, 0.001)
LOST = 3.0
"""Where the logarithm of what is found is farther than this from the truth, no way to it is sought."""
ALIKE = 0.7
"""Where the cosine between how markers move with the value and how they should is less, it is not that value."""


@dataclass(frozen=True)
class Method:
    """A solver with its settings; sweeps: how often it goes over all constraints in a step, None: until converged."""

    name: str
    make: Callable[[sim.Model], sim.Solver]
    sweeps: int | None = None


def xpbd(integrator: str, iterations: int, start: str = "zero") -> Method:
    of_start = ", start: elastic" if start == "elastic" else ""
    name = f"XPBD {integrator}{of_start}, {iterations} sweep{'s'[iterations == 1 :]}"
    return Method(name, lambda m: sim.SolverXPBD(m, iterations, "colored", start, integrator), iterations)


def newton(integrator: str) -> Method:
    return Method(f"Newton {integrator}", lambda m: sim.SolverNewton(m, integrator=integrator))


METHODS = (
    *(xpbd(integrator, n) for integrator in ("euler", "bdf2") for n in (1, 4, 16)),
    *(xpbd(integrator, 1, "elastic") for integrator in ("euler", "bdf2")),
    *(newton(integrator) for integrator in ("euler", "bdf2")),
)


class Identification:
    """The value of one twin, found with one method."""

    def __init__(self, twin: Twin, solver: sim.Solver) -> None:
        self.twin, self.model, self.solver = twin, twin.model, solver
        self.values = [twin.model[path] for path in twin.values]

    def give(self, log_ratio: float) -> None:
        for value in self.values:
            value.fill_(self.twin.true * float(np.exp(log_ratio)))

    def observed(self, log_ratio: float, substeps: int) -> np.ndarray:
        """Markers at frames, flat [m], with the value that is exp(log_ratio) times the true one."""
        twin = self.twin
        self.give(log_ratio)
        steps, dt = twin.frames * substeps, 1.0 / (twin.fps * substeps)
        path = sim.rollout(self.solver, self.model.state(), steps, dt, frame_every=substeps).particle_q.numpy()
        return twin.markers(path).ravel()

    def slope(self, substeps: int, log_ratio: float, y: np.ndarray) -> np.ndarray:
        """dy / d log_ratio."""
        return (self.observed(log_ratio + 1e-2, substeps) - y) / 1e-2

    def found(self, target: np.ndarray, true_slope: np.ndarray, substeps: int, guess: float = 0.0) -> float:
        """log of what fits the target best over the truth: Gauss-Newton, its slope by secants.

        nan: it breaks down, or is farther than LOST, or moves the markers in another way than the true slope does.
        """
        try:
            here, y = guess, self.observed(guess, substeps)
            slope = self.slope(substeps, guess, y)
            if slope @ true_slope < ALIKE * np.linalg.norm(slope) * np.linalg.norm(true_slope):
                return np.nan
            for _ in range(8):
                step = float(np.clip(slope @ (target - y) / (slope @ slope), -1.0, 1.0))
                if abs(here + step) > LOST:
                    break
                if abs(step) < max(2e-4, 0.05 * abs(here + step)):  # the slope is right to some percent
                    return here + step
                moved = self.observed(here + step, substeps)
                slope, here, y = (moved - y) / step, here + step, moved
        except sim.NonFiniteState:
            pass
        return np.nan

    def cost(self, substeps: int, most: int, strategy: sim.StoreAll | sim.Checkpointed) -> float:
        """Seconds of processor for a simulated second and its gradient, from at most so many steps."""
        twin, dt = self.twin, 1.0 / (self.twin.fps * substeps)
        steps = min(twin.frames * substeps, most)
        self.give(0.0)
        taken = []
        for _ in range(4):
            begin = time.process_time()
            with sim.Tape() as tape:
                path = sim.rollout(self.solver, self.model.state(), steps, dt, strategy=strategy)
            tape.backward(grads={path.particle_q: np.ones((1, self.model.particle_count, 3))})
            taken.append(time.process_time() - begin)
        return float(np.median(taken[1:])) / (steps * dt)


@dataclass
class Ladder:
    """What a method finds with shorter and shorter steps; errors: by substeps of a frame."""

    twin: Twin
    method: Method
    errors: dict[int, float] = field(default_factory=dict)
    costs: dict[float, tuple[int, float, float] | None] = field(default_factory=dict)

    def climb(self, truth: Truth, most: int) -> None:
        """Halve the step until two in a row are within the tightest goal; most: sweeps (steps of Newton) of a frame."""
        made = Identification(self.twin, self.method.make(self.twin.model))
        guess, last, substeps = 0.0, np.nan, 1
        while substeps * (self.method.sweeps or 1) <= most:
            found = made.found(truth.target, truth.slope, substeps, guess)
            self.errors[substeps] = float(np.expm1(found))
            fall = float(np.clip(found / last, 0.1, 0.9)) if last else 0.5
            guess, last = float(np.nan_to_num(found * fall)), found  # errors fall as they did
            if len(self.errors) > 1 and all(abs(e) <= GOALS[-1] for e in list(self.errors.values())[-2:]):
                break
            substeps *= 2
        reached = {goal: self._reached(goal) for goal in GOALS}
        taken = {good: self._cost_of(made, good) for good in set(reached.values()) if good is not None}
        self.costs = {goal: taken[good] if good is not None else None for goal, good in reached.items()}

    def _reached(self, goal: float) -> int | None:
        """Substeps from which on all errors are within a goal; None: not reached."""
        good = None
        for substeps, error in reversed(self.errors.items()):
            if not abs(error) <= goal:
                break
            good = substeps
        return good

    def _cost_of(self, made: Identification, good: int) -> tuple[int, float, float]:
        """(substeps, sweeps or solutions of linear systems, seconds) of a simulated second."""
        if isinstance(made.solver, sim.SolverNewton):  # keeps two states a step
            convergence = made.solver.convergence
            convergence.steps = convergence.iterations = 0
            seconds = made.cost(good, 40, sim.StoreAll())
            per_step = convergence.iterations / convergence.steps
        else:
            seconds, per_step = made.cost(good, 1000, sim.Checkpointed(every=50)), self.method.sweeps or 1
        return good, per_step * good * self.twin.fps, seconds


@dataclass(frozen=True)
class Truth:
    """Markers of the twin, extrapolated from two steps (L. F. Richardson), and how they change with the value.

    moved: the change of the value that the extrapolation stands for.
    """

    target: np.ndarray
    slope: np.ndarray
    moved: float


def truth_of(twin: Twin) -> Truth:
    made = Identification(twin, sim.SolverNewton(twin.model, integrator="bdf2"))
    fine, coarse = (made.observed(0.0, substeps) for substeps in (twin.reference, twin.reference // 2))
    target, slope = (4.0 * fine - coarse) / 3.0, made.slope(twin.reference // 2, 0.0, coarse)
    return Truth(target, slope, float(slope @ (target - fine) / (slope @ slope)))


def percent(error: float) -> str:
    return "lost" if np.isnan(error) else f"{100 * error:+.3g} %"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def errors_of(ladders: Sequence[Ladder]) -> str:
    """What is found over what is true, minus 1, by the step."""
    rungs = sorted({s for ladder in ladders for s in ladder.errors})
    fps = ladders[0].twin.fps
    rows = [
        [ladder.method.name, *(percent(ladder.errors[s]) if s in ladder.errors else "" for s in rungs)]
        for ladder in ladders
    ]
    return table(["h [s]", *(f"1/{fps * s}" for s in rungs)], rows)


def costs_of(ladders: Sequence[Ladder]) -> str:
    """The longest step that reaches each goal, and what it costs, relative to the first method where it does."""
    unit = {goal: next((cost[2] for ladder in ladders if (cost := ladder.costs[goal])), 1.0) for goal in GOALS}
    rows = []
    for ladder in ladders:
        cells = [ladder.method.name]
        for goal in GOALS:
            cost = ladder.costs[goal]
            if cost is None:
                cells += [f"not within 1/{ladder.twin.fps * max(ladder.errors)}", "", "", ""]
                continue
            substeps, sweeps, seconds = cost
            taken = ["", ""] if np.isnan(seconds) else [f"{1e3 * seconds:.0f}", f"{seconds / unit[goal]:.2f}"]
            cells += [f"1/{ladder.twin.fps * substeps}", f"{sweeps:.0f}", *taken]
        rows.append(cells)
    head = ["method"]
    for goal in GOALS:
        head += [f"{100 * goal:g} %: h [s]", "sweeps /s", "ms /s", "relative"]
    return table(head, rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bodies", nargs="*", choices=[*TWINS, []], metavar="body", help="all unless named")
    parser.add_argument("--quick", action="store_true", help="ladders of an eighth of the length")
    given = parser.parse_args(arguments)
    sim.set_num_threads(1)
    warnings.simplefilter("ignore")  # the tables tell
    for name in given.bodies or TWINS:
        twin = TWINS[name]()
        truth = truth_of(twin)
        print(f"### {name}\n\n{twin.about}\n")
        print(
            f"Reference: Newton bdf2, h = 1/{twin.fps * twin.reference} and twice that, extrapolated, which moves the"
            f" value by {100 * abs(truth.moved):.1g} %.\n",
            flush=True,
        )
        ladders = [Ladder(twin, method) for method in METHODS]
        for ladder in ladders:
            most = twin.sweeps if ladder.method.sweeps else twin.solves
            ladder.climb(truth, most // (8 if given.quick else 1))
            print(name, ladder.method.name, list(map(percent, ladder.errors.values())), file=sys.stderr, flush=True)
        print(errors_of(ladders))
        print(costs_of(ladders), flush=True)


if __name__ == "__main__":
    main()
