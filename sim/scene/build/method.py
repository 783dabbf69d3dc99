"""How a scene is searched, and what is claimed of the result: its `optimize` and `expect`."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from sim.core.optim.registry import MINIMIZERS
from sim.identify.data.expectations import Expectation
from sim.identify.data.experiments import Experiment
from sim.identify.losses.terms.base import Term, trajectory_terms
from sim.identify.search.horizon import Horizon
from sim.identify.search.loop import Stop
from sim.identify.search.method import Method
from sim.rollout import Checkpointed, StoreAll
from sim.scene.build.context import BuildContext


def make_method(context: BuildContext, experiments: Sequence[Experiment], terms: Sequence[Term]) -> Method:
    """How to search."""
    optimize = context.data["optimize"]
    name = next((name for name in MINIMIZERS if name in optimize), "default")
    settings = dict(optimize.get(name, {}))
    iterations = settings.pop("iterations", None)
    horizons = tuple(Horizon(**part) if isinstance(part, dict) else Horizon(part) for part in optimize["horizon"])
    _check_horizons(context, horizons, [e for e in experiments if e.fit], terms)
    stop, objective = Stop(**optimize["stop"]), optimize["objective"]
    return Method(name, iterations, settings, objective, stop, optimize["starts"], optimize["seed"], horizons)


def _check_horizons(
    context: BuildContext, horizons: Sequence[Horizon], fitted: Sequence[Experiment], terms: Sequence[Term]
) -> None:
    """Each horizon is longer than the one before, finds something to compare, and the last one leaves nothing out."""
    if not fitted:
        return
    complete = not context.problems
    frames = [[h.frames(e.schedule) for e in fitted] for h in horizons]
    for k, horizon in enumerate(horizons):
        path = f"optimize.horizon.{k}"
        if k and not (all(np.greater_equal(frames[k], frames[k - 1])) and frames[k] != frames[k - 1]):
            what = f"the horizon {horizon.label} is not longer than the one before"
            context.problem(path, what, "let them grow, by a frame at least")
        elif complete and k < len(horizons) - 1 and not trajectory_terms(horizon.terms(terms, fitted)):
            what = f"nothing that the loss compares lies within the horizon {horizon.label}"
            context.problem(path, what, "begin with a longer one")
    if horizons[-1] != Horizon():
        what = "the last horizon leaves out a part of the recordings"
        hint = "end with `all`; a shorter `time.duration`, or `at` in the loss, leaves out the rest for good"
        context.problem(f"optimize.horizon.{len(horizons) - 1}", what, hint)


def make_strategy(data: dict[str, Any], experiments: Sequence[Experiment]) -> StoreAll | Checkpointed:
    """How the gradient finds its way back.

    Where nothing is said: states are kept every few frames, as many as there are steps between two of them.  A launch
    that is recorded takes longer than most that are run, and one segment is recorded for all.
    """
    chosen = data["optimize"].get("rollout")
    if chosen is None:
        longest = max((e.schedule for e in experiments), key=lambda schedule: schedule.steps)
        frames = max(1, round(sqrt(longest.steps) / longest.substeps))
        return Checkpointed(every=frames * longest.substeps)
    return Checkpointed(**chosen["checkpointed"]) if "checkpointed" in chosen else StoreAll()


def make_expectations(context: BuildContext) -> list[Expectation]:
    """The claims to check after a run."""
    out = []
    for path, entry in context.data["expect"].items():
        claims = {key: entry.get(key) for key in ("value", "within", "below", "above")}
        between = tuple(entry["between"]) if "between" in entry else None
        out.append(Expectation(path, **claims, between=between, measured="measured" in entry))
    return out
