"""What contacts do in a result: how many push, how many are about to switch, how deep they are, what never met."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from sim.identify.evaluate.evaluator import ContactLook
from sim.identify.problem import Problem
from sim.io import Layer
from sim.solvers import Touched

LENGTH = 0.25
"""Of the line of the largest force, over the size of what is looked at."""
SHALLOW = 1e-3
"""Of that size: up to this depth all contacts have one colour."""
MOST_DRAWN = 4000
"""Contacts of one frame up to which they are drawn."""
DEPTHS = "#2f9e63", "#e99a2c", "#d6336c"
"""Colours of contacts by thirds of the largest depth."""
FORCES = {"normal forces": "#7048c8", "friction": "#c2410c"}


def contact_rows(looks: Iterable[ContactLook]) -> dict[str, dict[str, Any]]:
    """Experiment -> what its contacts did: how many pushed, summed over steps, how many of these were within a relative
    1e-6 of a switch, the worst penetration, and by label in how many steps any pushed, slipped, and hit; those that
    share a rollout have the same."""
    out: dict[str, dict[str, Any]] = {}
    for look in looks:
        steps, contacts = look.does.shape
        row = {**asdict(look.count), "steps": steps, "contacts": contacts, "message": look.count.message}
        out |= {e.name: row for e in look.experiments}
    return out


def contact_notes(problem: Problem, rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What to know of them: switches in experiments that the loss counts, and coefficients that nothing depends on."""
    fitted = [e.name for e in problem.fitted]
    notes = [f"experiment `{name}`: {rows[name]['message']}" for name in fitted if rows.get(name, {}).get("message")]
    counted = [row["used"] for name, row in rows.items() if name in fitted]
    for p in problem.sought:
        for path in p.bindings:
            label, _, value = path.path.rpartition(".")
            of = [used[contact] for used in counted for contact in used if label in (contact, *contact.split("/"))]
            if of and (reason := _unused(value, np.sum(of, axis=0).tolist())):
                notes.append(
                    f"`{p.name}` has no effect: of the contacts of `{label}` {reason} in the experiments that the loss"
                    " counts; record what shows it, or leave it out"
                )
    return notes


def _unused(value: str, seen: Sequence[int]) -> str:
    """Why nothing depends on a coefficient of contacts that were seen to push, slip and hit so often; "" if it does."""
    if value in ("mu", "friction", "restitution") and not seen[0]:
        return "none ever touches"
    if value in ("mu", "friction") and not seen[1]:
        return (
            "none ever slips, so that any larger friction gives the same (where the recording slides, begin with less)"
        )
    if value == "restitution" and not seen[2]:
        return "none hits faster than what rests"
    return ""


# ------------------------------------------------------------------------------------------------ pictures
def contact_layers(name: str, frames: Sequence[Touched], size: float, side: str = "") -> list[Layer]:
    """What a player shows of contacts that push at the ends of frames: their places, redder the deeper they are where
    that is worth seeing, and the forces there, lines of which the longest is `LENGTH` of the size [m] of what moves."""
    count = max((len(f.depth) for f in frames), default=0)
    if not 0 < count <= MOST_DRAWN:
        return []
    places, normal, friction, depth = (
        np.stack([_filled(getattr(f, key), count) for f in [Touched.nothing(), *frames]])
        for key in ("places", "normal", "friction", "depth")
    )
    where, worst = f"{name}, " if name else "", float(np.nanmax(depth))
    shades = len(DEPTHS) if worst > SHALLOW * size else 1
    out = []
    for k, color in enumerate(DEPTHS[:shades]):
        own = (depth >= k / shades * worst) & ((depth < (k + 1) / shades * worst) | (k + 1 == shades))
        title = f"{where}contacts{f' deeper than {1e3 * k / shades * worst:.2g} mm' if k else ''}"
        seen = np.where(own[..., None], places, np.nan)
        out.append(Layer(title, seen, point_size=7, color=color, behind=0.8, visible=False, side=side))
    sizes = {what: np.linalg.norm(a, axis=2) for what, a in (("normal forces", normal), ("friction", friction))}
    force = max(float(np.nanpercentile(s, 99.0)) for s in sizes.values()) or 1.0
    begin = np.where(np.isfinite(places), places, np.nanmean(places, axis=(0, 1)))  # lines are drawn in all frames
    pairs = np.stack([np.arange(count), count + np.arange(count)], axis=1)
    for (what, s), values in zip(sizes.items(), (normal, friction), strict=True):
        if np.nanmax(s) > 1e-6 * force:
            lines = np.concatenate([begin, begin + LENGTH * size / force * np.nan_to_num(values)], axis=1)
            title = f"{where}{what} of contacts, up to {np.nanpercentile(s, 99.0):.3g} N"
            out.append(Layer(title, lines, None, pairs, color=FORCES[what], visible=False, side=side))
    return out


def _filled(values: np.ndarray, count: int) -> np.ndarray:
    """With nan up to so many."""
    return np.concatenate([values, np.full((count - len(values), *values.shape[1:]), np.nan)])
