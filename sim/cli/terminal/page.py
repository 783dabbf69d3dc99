"""A run on a page while it goes on: what the terminal is told, and what is simulated."""

from __future__ import annotations

import sys
import time
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sim.identify.data.experiments import Simulation
from sim.identify.problem import Problem
from sim.identify.report.takes import as_seen, at_start
from sim.identify.run import Watcher
from sim.io import LivePage, RunFolder

SHARE = 0.01
"""Of the processor time of a run goes into copies for the page and their encoding, and no more."""
OFTEN = 0.5
"""And no copy sooner than this [s] after the last."""


class PageWatcher(Watcher):
    """Shows a run on a `LivePage`, and tells another watcher all that it is told."""

    def __init__(self, problem: Problem, other: Watcher) -> None:
        self.problem, self.other = problem, other
        self.page: LivePage | None = None
        self.spent, self.begun, self.last = 0.0, time.process_time(), float("-inf")

    def begin(self, problem: Problem, folder: RunFolder, iterations: int) -> None:
        """Opens the page, with everything where it begins."""
        self.page = LivePage(problem.description.name, problem.description.about)
        self.page.show([at_start(problem, e) for e in problem.experiments])
        print(f"live: {self.page.url}", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            webbrowser.open(self.page.url)
        self.problem.onlooker = self
        self.other.begin(problem, folder, iterations)

    def wants(self) -> bool:
        """Not too often; and after the first time only where somebody watches."""
        if self.page is None or self.last == float("-inf"):
            return self.page is not None
        used = time.process_time() - self.begun
        late = time.monotonic() - self.last > OFTEN
        return self.page.watched and late and self.spent + self.page.spent < SHARE * used

    def saw(self, simulations: Sequence[Simulation]) -> None:
        """Puts them on the page."""
        assert self.page is not None
        before = time.thread_time()
        self.page.show([as_seen(self.problem, simulation) for simulation in simulations])
        self.last = time.monotonic()
        self.spent += time.thread_time() - before

    def iteration(self, entry: Mapping[str, Any]) -> None:
        """Adds it to the page."""
        assert self.page is not None
        self.page.say({key: entry[key] for key in ("iteration", "loss", "parameters")})
        self.other.iteration(entry)

    def note(self, text: str) -> None:
        """For the other."""
        self.other.note(text)

    def stage(self, what: str) -> None:
        """For the other."""
        self.other.stage(what)

    def interrupted(self) -> None:
        """For the other."""
        self.other.interrupted()

    def end(self) -> None:
        """What follows is no search."""
        self.problem.onlooker = None
        self.other.end()

    def close(self, report: Path | None) -> None:
        """Hands over the report, and stops serving."""
        self.problem.onlooker = None
        if self.page is not None:
            self.page.close(report)
        self.other.close(report)
