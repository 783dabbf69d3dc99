"""What to know about a result: where the search ended and what to do next, bounds, what the loss does not see.

What the standard errors say is in `uncertainty`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sim.core.lang.types import float32
from sim.identify.assess.misfit import Misfit
from sim.identify.assess.uncertainty import FROM_FRAME_TO_FRAME, Uncertainty, coordinate_names
from sim.identify.numerics.numerical_error import NumericalError
from sim.identify.problem import Problem
from sim.identify.search.horizon import Horizon
from sim.identify.search.loop import OptimizeResult
from sim.identify.search.results import Result

FAR = 0.5
"""Standard errors from the optimum from which a search counts as unfinished."""

LARGE, SMOOTH = 1.5, 1.2
"""Residuals over noise from which something is off, and the same where they are alike from frame to frame, as noise is
not: a stated noise may be a third too small, a motion that is another one leaves residuals in a row."""

MOST_SHOWN = 4
"""Coordinates of one parameter that a note lists."""

COARSE = {
    "step": ("steps are too long", "shorter steps (`time.substeps`)"),
    "iterations": ("iterations are too few", "more sweeps (`iterations`)"),
    "mesh": ("the mesh is too coarse", "a finer mesh"),
}
"""Causes of numerical error as causes of a misfit, and what helps."""

ALONE, FEW, NAMED = 8.0, 0.05, 3
"""Residuals that are so many times the median one lie alone, where they are at most this share of all; so many are
named."""

WORTH_LINEARISING = 100
"""Numbers up to which Gauss-Newton is proposed: a step costs a rollout for each of them."""


def notes_on(
    problem: Problem,
    found: Result,
    known: Uncertainty | None,
    misfit: Sequence[Misfit],
    limit: int,
    folder: str,
    numerics: NumericalError | None = None,
) -> list[str]:
    """Everything to know about a result that has a finite loss.

    known: its standard errors, if there are any; misfit: of what was found; limit: iterations that it was given;
    folder: of the run; numerics: its numerical error, if that was estimated.
    """
    notes = (
        _chaos(found)
        + _starts(found)
        + _horizons(found)
        + _unseen(problem, found, known)
        + _bounds(problem, found, known)
    )
    unfinished = _unfinished(problem, found.search, known, limit, folder)
    return notes + unfinished + _too_far(problem, found, known, misfit, numerics)


def inside_notes(problem: Problem, x: np.ndarray) -> list[str]:
    """What begins inside of something else at coordinates x (n,), and did not at the start of the search: in between
    nobody looks, and contacts push it out."""
    out = []
    for e in problem.experiments:
        with problem.holding(problem.start, e):
            before = problem.inside()
        with problem.holding(x, e):
            now = problem.inside()
        out += [
            f"experiment `{e.name}`: with the values found, {text}: how the contact pushes them out is in the fit;"
            " bound the parameters that place them"
            for pair, text in now.items()
            if pair not in before
        ]
    return out


def _chaos(found: Result) -> list[str]:
    """Rollouts whose gradient has grown beyond use."""
    return [f"experiment `{name}`: {g.message}" for name, g in found.growth.items() if not g.useful]


def _starts(found: Result) -> list[str]:
    """What came of several starts, in a sentence."""
    chosen = found.chosen
    if chosen is None or not np.isfinite(chosen.reached[chosen.index]):
        return []
    which = "the scene's own" if chosen.index == 0 else f"number {chosen.index + 1}"
    text = (
        f"of {len(chosen.losses)} starts {which} was the best: its loss fell from {chosen.losses[chosen.index]:.4g} to "
        f"{chosen.reached[chosen.index]:.4g} in the tournament of {chosen.evaluations} evaluations"
    )
    if len(found.stages) > 1:
        text += f", on the horizon {found.stages[0].label}"
    return [text]


def _horizons(found: Result) -> list[str]:
    """How the loss fell on each of several horizons; the losses of two of them are not of the same thing."""
    if len(found.stages) < 2:
        return []
    shown = ", ".join(
        f"{s.label} ({s.initial_loss:.4g} -> {s.loss:.4g}, up to iteration {s.iteration})" for s in found.stages
    )
    return [f"the search went over growing horizons, and the loss of each counts only what lies within: {shown}"]


# ------------------------------------------------------------------------------------------------ parameters
def _unseen(problem: Problem, found: Result, known: Uncertainty | None) -> list[str]:
    """Numbers on which the loss does not depend where the search ended."""
    notes = []
    for p in problem.sought:
        part, shape = problem.space.slices[p.name], problem.space.shapes[p.name]
        if known is not None:
            unseen = known.unseen[part].reshape(shape)
        elif found.loss == 0.0:
            continue  # the gradient is zero in any case
        else:
            unseen = np.asarray(found.gradient[p.name]) == 0.0
        foreseen = np.zeros(shape, bool)
        for k, name in enumerate(p.experiments):
            if all(e.name != name for e in problem.fitted):
                foreseen[k] = True
                notes.append(f"`{p.name}[{name}]` keeps its start: `{name}` is only predicted, or no loss counts it")
        rest = unseen & ~foreseen
        if not rest.any():
            continue
        what = f"`{p.name}`" if rest.all() else _listed(problem, p.name, rest)
        first, last = (np.asarray(values[p.name])[rest] for values in (problem.physical(), found.parameters))
        moved = not np.allclose(last, first, rtol=1e-9, atol=0.0)
        notes.append(
            f"the loss no longer depends on {what} where the search ended: its value is that of an earlier step"
            if moved
            else (
                f"the loss does not depend on {what}: its gradient is zero; leave it out, give it a prior, or record"
                " what depends on it"
            )
        )
    return notes


def _bounds(problem: Problem, found: Result, known: Uncertainty | None) -> list[str]:
    """Parameters that ended on a bound."""
    notes = []
    given = {p.name: p.bounds for p in problem.sought}
    for name, transform in problem.space.transforms.items():
        side = transform.side(np.asarray(found.parameters[name]))
        for sign, word, end in ((-1, "lower", transform.lower), (1, "upper", transform.upper)):
            held = side == sign
            if not held.any():
                continue
            what = f"`{name}`" if held.all() else _listed(problem, name, held)
            text = f"{what} ended on its {word} bound, {float(np.max(end)) if sign > 0 else float(np.min(end)):.5g}"
            if given[name][0 if sign < 0 else 1] is None:
                text += ", beyond which it means nothing: ask what pulls it there"
            else:
                text += ": the best value may lie beyond; widen the bound, or ask what pulls it there"
            if known is not None and np.isnan(np.asarray(known.errors[name])[held]).any():
                text += ". It has no standard error, and those of the others hold for this value of it"
            notes.append(text)
    return notes


def _listed(problem: Problem, name: str, chosen: np.ndarray) -> str:
    """Some numbers of a parameter: `v.x`, `v.z`."""
    part = problem.space.slices[name]
    names = [coordinate_names(problem)[part.start + int(i)] for i in np.flatnonzero(chosen)]
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return ", ".join(f"`{text}`" for text in names[:MOST_SHOWN]) + more


# ------------------------------------------------------------------------------------------------ the search
def _unfinished(
    problem: Problem, search: OptimizeResult, known: Uncertainty | None, limit: int, folder: str
) -> list[str]:
    """Where the search ended before its optimum, and how to go on."""
    why, method = search.stopped_because, problem.method
    if why in ("interrupted", "non_finite"):
        return []
    if known is not None and known.away > FAR:
        distance = f"about {known.away:.2g} standard errors away from the optimum"
    elif why == "iterations" and search.falling and (known is None or known.scatter > LARGE):
        # Far from the optimum the standard errors are as large as the residuals, and the distance in them is small.
        distance = "while the loss was still falling"
    else:
        return []
    gauss_newton = (
        "`optimize: {gauss_newton: {}}`, which takes far fewer steps on residuals"
        if method.name != "gauss_newton"
        and all(t.has_residuals for t in problem.terms)
        and problem.space.size <= WORTH_LINEARISING
        else ""
    )
    advice = {
        "iterations": f"go on with `--resume {folder} --iterations {2 * limit}`",
        "gradient": "lower `optimize.stop.gradient`",
        "patience": "raise `optimize.stop.patience`",
        "loss": "lower `optimize.stop.loss`",
    }.get(why, "" if gauss_newton else _further(problem))
    ended = {
        "iterations": f"its {limit} iterations were used up",
        "line_search": "no step lowered the loss any further",
    }.get(why, f"`optimize.stop.{why}` was met")
    advice = ", or try ".join(text for text in (advice, gauss_newton) if text)
    return [f"the search ended {distance}, because {ended}: {advice if advice != gauss_newton else f'try {advice}'}"]


def _further(problem: Problem) -> str:
    """What may help where no step lowers the loss: in single precision its digits end, in double it has a kink."""
    if problem.model.dtype is float32:
        return "a smaller `scale` of the parameters, or `--dtype float64`, may bring it further"
    kink = "or another start, where things touch and the loss has a kink there (`--starts 8`)"
    return f"a smaller `scale` of the parameters may bring it further, {kink}"


def _too_far(
    problem: Problem,
    found: Result,
    known: Uncertainty | None,
    misfit: Sequence[Misfit],
    numerics: NumericalError | None,
) -> list[str]:
    """Residuals that are much larger than the noise: what may be the cause, and how to find out."""
    fitted = [m.in_noise for m in misfit if m.estimated is None and any(e.name == m.experiment for e in problem.fitted)]
    ratio = known.scatter if known is not None else max(fitted, default=0.0)
    alike = known is not None and known.alike > FROM_FRAME_TO_FRAME
    if not ratio > (SMOOTH if alike else LARGE):
        return []
    causes, tries = [], []
    for cause, (fault, remedy) in COARSE.items():
        shift = numerics.shifts.get(cause) if numerics is not None else None
        # Compared before parameters are fitted anew: half of what is left over is enough to be looked at first.
        if shift is not None and shift.whole * shift.compared > 0.5 * np.sqrt(ratio**2 - 1.0):
            by = f"{shift.whole * shift.compared:.2g} times the noise"
            causes.append(f"{fault} (without that error what is compared would be elsewhere by {by}), ")
            tries.append(remedy)
    if known is not None and (alone := _alone(problem, known)):
        causes.append(alone)
        tries.append("without them (empty cells of the recording), or with `norm: {huber: 3}` of the `match`")
    if problem.method.starts == 1:
        tries.append("`optimize: {starts: 8}`")
    if problem.method.horizons == (Horizon(),):
        tries.append("a growing horizon, `optimize: {horizon: [0.1, 0.3, all]}`")
    if problem.method.name == "gauss_newton" and found.search.stopped_because == "iterations":
        tries.append("`optimize: {lbfgs: {}}`, which is faster where residuals stay large")
    ask = f"try {' or '.join(tries)}" if tries else "try more starts, or a shorter first horizon"
    allowed = "; the standard errors allow for its size, and hold for this minimum" if known is not None else ""
    return [
        f"the misfit is {ratio:.2g} times the noise: {''.join(causes)}the model misses something, the noise is larger"
        f" than stated, or this is another minimum than the best ({ask}){allowed}"
    ]


def _alone(problem: Problem, known: Uncertainty) -> str:
    """Few positions that lie far beside all others of their markers, in words; empty where there are none."""
    places, count, total = [], 0, 0
    for part in known.linearised.residuals if known.linearised is not None else []:
        used = part.weight > 0
        if not (part.markers and used.any()) or math.isfinite(part.huber):
            continue
        far = np.where(used, np.linalg.norm(part.values, axis=2), 0.0)
        beside = np.argwhere(far > ALONE * np.median(far[used]))
        if not 0 < len(beside) <= FEW * used.sum():
            continue
        times = next(e.schedule.times for e in problem.experiments if e.name == part.experiment)
        count, total = count + len(beside), total + int(used.sum())
        worst = sorted(beside.tolist(), key=lambda at: -far[tuple(at)])
        places += [f"`{part.markers}` at {times[part.frames[f]]:.4g} s in `{part.experiment}`" for f, _ in worst]
    if not count:
        return ""
    listed = ", ".join(places[:NAMED]) + (", ..." if len(places) > NAMED else "")
    return (
        f"{count} of {total} positions lie far beside where all others would have them ({listed}), as where a tracker"
        " takes one thing for another, or where something is hit that the model has elsewhere; else "
    )
