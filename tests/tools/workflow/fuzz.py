"""Random workflows: recording, failing, interrupting, changing, capturing, going back, in any order.

    PYTHONPATH=tests python -m tools.workflow.fuzz --count 1000 --first 0 --families all

Every program is a list of lines; it runs on `sim` and, line by line, on `reference`, and both have to agree
after each. A program that fails is made small and printed as one that can be run.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tools.workflow import problems as workflow_problems
from tools.workflow import with_torch as workflow_torch
from tools.workflow.generator import FAMILIES, Generator
from tools.workflow.generator_rollouts import SETTINGS, RolloutGenerator
from tools.workflow.models import Fresh
from tools.workflow.run import HEAD, Report, Statement, program_text, run, shrink

WORLDS = {"arrays": 0.45, "rollouts": 0.4, "problems": 0.1, "torch": 0.05}
"""Kinds of programs, and how often they are drawn."""


@dataclass(frozen=True)
class Choice:
    """What programs may have: surprises (families: exactly these), models and scenes by their names, a world."""

    surprises: tuple[str, ...] = FAMILIES
    families: frozenset[str] | None = None
    models: tuple[str, ...] = tuple(SETTINGS)
    scenes: tuple[str, ...] = tuple(workflow_problems.SCENES)
    world: str | None = None


def one(seed: int, fresh: Fresh, choice: Choice) -> Program:
    """The program of a seed, and what became of it."""
    rng = np.random.default_rng(seed)
    families = (
        choice.families
        if choice.families is not None
        else frozenset(f for f in choice.surprises if rng.random() < 0.25)
    )
    drawn = str(rng.choice(list(WORLDS), p=list(WORLDS.values())))
    world = choice.world or drawn
    if world == "problems":
        kind = str(rng.choice(choice.scenes))
        made = workflow_problems.Generator(rng, kind, "interrupt" in families)
        again = partial(workflow_problems.run, fresh=fresh, kind=kind)
        return Program(again(made.statements()), again, f"from tools.workflow.problems import *\np = problem({kind!r})")
    if world == "torch" and workflow_torch.AVAILABLE:
        again = partial(run, fresh=fresh, kind=workflow_torch.TorchRun)
        return Program(again(lambda _: workflow_torch.Generator(rng).statements()), again, workflow_torch.HEAD)
    own = "redefine" in families
    again = partial(run, fresh=fresh, own_kernels=own)

    def statements(names: dict[str, Any]) -> Iterator[Statement]:
        if world == "rollouts":
            yield from RolloutGenerator(rng, families, names, models=choice.models).statements()
        else:
            yield from Generator(rng, families, names).statements()

    return Program(again(statements), again, HEAD + ".fresh()" * own)


@dataclass
class Program:
    """report: of the program; again: runs statements as it did; head: the lines before them."""

    report: Report
    again: Callable[[list[Statement]], Report]
    head: str

    def smallest(self) -> Program:
        """It fails; the smallest one that fails in the same way."""
        return Program(shrink(self.report, self.again), self.again, self.head)

    def text(self) -> str:
        assert self.report.failure is not None
        return f"{program_text(self.report, self.head)}\n# {self.report.failure.what}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--families", default="", help="with commas; drawn for each program where not given; 'none'")
    parser.add_argument("--world", choices=WORLDS, help="the kind of programs; drawn for each where not given")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after that time")
    parser.add_argument("--all", action="store_true", help="go on after a failure")
    given = parser.parse_args()
    families = frozenset(given.families.replace("none", "").strip(",").split(",")) - {""} if given.families else None
    fresh, fates, compared, kinds = Fresh(), Counter(), 0, Counter()
    end, count = time.monotonic() + given.seconds, 0
    for seed in range(given.first, given.first + given.count):
        if time.monotonic() > end:
            break
        count += 1
        program = one(seed, fresh, Choice(families=families, world=given.world))
        fates.update(program.report.fates)
        compared += program.report.compared
        if program.report.failure is None:
            continue
        small = program.smallest()
        kinds[small.report.failure.kind] += 1
        print(f"# seed {seed}\n{small.text()}\n", flush=True)
        if not given.all:
            break
    fresh.close()
    print(f"{count} programs", dict(fates), f"{compared} gradients compared", dict(kinds))


if __name__ == "__main__":
    main()
