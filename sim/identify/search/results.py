"""What a problem answers: its loss at a point, and the outcome of a search."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim.display import html_table
from sim.identify.search.loop import ENDED, OptimizeResult
from sim.identify.search.search import StageEnd
from sim.identify.search.starts import Chosen
from sim.rollout import AdjointGrowth


def short(value: Any) -> str:
    """A number, a few, or the range of many, as text."""
    flat = np.atleast_1d(np.asarray(value, dtype=np.float64)).ravel()
    if flat.size > 4:
        return f"{flat.min():.5g} ... {flat.max():.5g} ({flat.size} numbers)"
    text = ", ".join(f"{item:.5g}" for item in flat)
    return text if np.ndim(value) == 0 else f"[{text}]"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The loss at one point: value, gradient by coordinates, gradient by physical values, terms, experiments; how the
    gradient grew on its way back, by the first experiment of each rollout."""

    loss: float
    gradient: np.ndarray
    physical: dict[str, np.ndarray]
    terms: dict[str, float]
    experiments: dict[str, float]
    growth: dict[str, AdjointGrowth] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Evaluation(loss {self.loss:.6g}, gradient {short(self.gradient)})"


@dataclass(frozen=True, eq=False)
class Result:
    """What a search found: parameters (physical), loss, its terms, gradient by physical values, and how it ended.

    initial_loss: at the start that the problem states, counted like `loss` on everything.  search: on the last horizon
    that was reached.  chosen: what came of several starts; stages: of every horizon.  growth: see `Evaluation`.
    """

    parameters: dict[str, Any]
    loss: float
    terms: dict[str, float]
    experiments: dict[str, float]
    gradient: dict[str, np.ndarray]
    search: OptimizeResult
    initial_loss: float = float("nan")
    chosen: Chosen | None = None
    stages: tuple[StageEnd, ...] = ()
    growth: dict[str, AdjointGrowth] = field(default_factory=dict)

    def __repr__(self) -> str:
        head = (
            f"Result: loss {self.initial_loss:.6g} -> {self.loss:.6g} in {self.search.iterations} iterations;"
            f" {ENDED[self.search.stopped_because]}"
        )
        return "\n".join([head, *(f"  {name:<16} {short(value)}" for name, value in self.parameters.items())])

    def _repr_html_(self) -> str:
        """In a notebook: what was found."""
        rows = [(name, short(value)) for name, value in self.parameters.items()]
        rows += [("loss", f"{self.initial_loss:.6g} → {self.loss:.6g}"), ("iterations", str(self.search.iterations))]
        return html_table("Result", [*rows, ("ended", ENDED[self.search.stopped_because])])
