"""Whether a recording lies where the simulation begins: other units, axes or starts are told from the first frame.

A search from a wrong unit ends somewhere, with a loss that is large for no visible reason; so this is said before.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sim.identify.data.experiments import Experiment, Markers, Target
from sim.identify.losses.terms.match import matches
from sim.identify.problem import Problem

FAR = 3.0
"""Sizes of the object that markers may lie away from their places at the start."""

SCALED = 5.0
"""Factor by which the markers may lie closer together, or further apart, than at the start."""

POWER = 0.15
"""How near the logarithm (base 10) of a ratio of sizes has to be to a whole number for a unit to be suggested."""

BETTER = 0.2
"""Other axes are suggested where they leave this part of a misfit that is larger than half of the markers' spread."""

_UNITS = {"um": 1e-6, "mm": 1e-3, "cm": 1e-2, "dm": 1e-1, "m": 1.0, "km": 1e3}
_SIGNED = [
    (order, signs) for order in itertools.permutations(range(3)) for signs in itertools.product((1, -1), repeat=3)
]
_ROTATIONS = [(order, signs) for order, signs in _SIGNED
              if np.linalg.det(np.diag(signs)[:, list(np.argsort(order))]) > 0]  # fmt: skip


@dataclass(frozen=True)
class FileSpace:
    """How the lengths of a recording's file are read: metres per unit, and which of its axes became our x, y, z."""

    unit: float = 1.0
    axes: tuple[str, ...] = ("x", "y", "z")


def alignment_notes(problem: Problem, spaces: Mapping[str, FileSpace]) -> list[str]:
    """One sentence for every recording that is far from where its markers are at the start of the simulation.

    spaces: experiment -> how its file is read now.
    """
    out = []
    for experiment in (e for e in problem.experiments if e.targets):
        q = problem.start_positions(experiment)
        for name, target in experiment.targets.items():
            time, there = _first_frame(experiment, target)
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # of a start that is too far for numbers: the run says so
                space = spaces.get(experiment.name, FileSpace())
                found = _note(problem, problem.markers[name], q, there, time, space, _span(target.positions))
            if found:
                out.append(f"experiments.{experiment.name}.target: {found}")
    return out


def _first_frame(experiment: Experiment, target: Target) -> tuple[float, np.ndarray]:
    """Time [s] and positions (markers, 3) [m] of the first frame with a marker; that of the start, if it can be."""
    lead = 0 if experiment.registration is None else experiment.registration.lead
    start = np.full(target.positions.shape[1:], np.nan) if target.start is None else target.start
    path = np.concatenate([start[None], target.positions])
    frame = int(np.argmax(np.isfinite(path[..., 0]).any(axis=1)))
    return max(frame - lead, 0) / experiment.schedule.fps, path[frame]


def _note(
    problem: Problem, markers: Markers, q: np.ndarray, there: np.ndarray, time: float, space: FileSpace, span: float
) -> str:
    """What is suspicious about a recording.

    q: all points at the start; there: (markers, 3) at `time`, nan: unseen; span: of the recording [m].
    """
    seen = np.isfinite(there[:, 0])
    here, there = markers.at(q)[seen], there[seen]
    size, what = _size(problem, markers, q), "their object measures"
    if size == 0.0:
        size, what = span, "the recording spans"  # of a single point
    if not len(here) or size == 0.0:
        return ""
    away = float(np.median(np.linalg.norm(there - here, axis=1)))
    moved = _reach(problem, time)
    early = moved < 0.1 * size  # nothing has changed its shape yet
    ratio = _spread(there) / _spread(here) if len(here) > 1 and _spread(here) > 1e-3 * size else 1.0
    far = _absolute(problem, markers.name) and away > FAR * size + moved
    scaled = early and not 1.0 / SCALED < ratio < SCALED
    axes = _axes(here, there, space.axes) if early and not scaled else ""
    if not (far or scaled or axes):
        return ""
    text = (f"the recording's first frame is {away:.3g} m away from the markers `{markers.name}` (median), "
            f"and {what} {size:.3g} m")  # fmt: skip
    if scaled:
        text += f"; it is {ratio:.3g} times as large as they are"
    elif far and len(here) == 1:
        ratio = float(np.linalg.norm(there[0])) / max(float(np.linalg.norm(here[0])), 1e-300)
    better = _unit(ratio, space.unit)
    if axes:
        return f"{text}: with `axes: {axes}` it would lie as they do"
    if better:
        start = ", or is it the start?" if len(here) == 1 else "?"  # a single place cannot tell them apart
        return f"{text}: is the unit of the file {better}{start}"
    return f"{text}: is it the unit, the axes, or the start?"


def _size(problem: Problem, markers: Markers, q: np.ndarray) -> float:
    """Diagonal [m] of the object that carries the markers, at the start; of everything, where that is a point."""
    points, _ = markers.table
    group = problem.model.groups.get(markers.of)
    own = q[group.points] if group is not None else q[np.unique(points)]
    return float(np.linalg.norm(np.ptp(own, axis=0))) or float(np.linalg.norm(np.ptp(q, axis=0)))


def _span(positions: np.ndarray) -> float:
    """Diagonal [m] of the box around all places (frames, markers, 3) where something was seen; 0 where nothing was."""
    seen = positions[np.isfinite(positions).all(axis=-1)]
    return float(np.linalg.norm(np.ptp(seen, axis=0))) if len(seen) else 0.0


def _spread(x: np.ndarray) -> float:
    """Root mean square distance [m] of points (n, 3) from their middle."""
    return float(np.sqrt(((x - x.mean(axis=0)) ** 2).sum(axis=1).mean()))


def _reach(problem: Problem, time: float) -> float:
    """How far [m] something comes until a time by its speed and by gravity."""
    speed = float(np.linalg.norm(problem.model.particle_qd.numpy(), axis=1).max(initial=0.0))
    gravity = float(np.linalg.norm(problem.model.gravity.numpy()))
    return speed * time + 0.5 * gravity * time**2


def _absolute(problem: Problem, name: str) -> bool:
    """Whether places count, and not only displacements or velocities; and whether no parameter moves them."""
    moved = any(b.path.rpartition(".")[2] in ("position", "rotation") for p in problem.sought for b in p.bindings)
    own = matches(problem.terms, name)
    return not moved and (not own or any(term.compare == "position" for term in own))


def _unit(ratio: float, unit: float) -> str:
    """The unit of the file, if lengths are off by a power of ten that is one.  ratio: the recording's to ours, read in
    `unit`."""
    power = math.log10(ratio) if 1e-30 < ratio < 1e30 else 0.0
    whole = round(power)
    if whole == 0 or abs(power - whole) > POWER:
        return ""
    right = unit * 10.0**-whole
    name = next((name for name, size in _UNITS.items() if math.isclose(size, right, rel_tol=1e-6)), "")
    return f"{name} (`unit: {name}`)" if name else ""


def _axes(here: np.ndarray, there: np.ndarray, axes: Sequence[str]) -> str:
    """The axes `[z, -y, x]` that bring the recording to the markers, where they fit far better than `axes`."""
    spread = _spread(here)
    if len(here) < 3 or np.linalg.matrix_rank(here - here.mean(axis=0), tol=0.05 * spread * math.sqrt(len(here))) < 2:
        return ""

    def misfit(x: np.ndarray) -> float:
        return float(np.sqrt((((x - x.mean(axis=0)) - (here - here.mean(axis=0))) ** 2).sum(axis=1).mean()))

    now = misfit(there)
    if now < 0.5 * spread:
        return ""
    order, signs = min(_ROTATIONS, key=lambda turn: misfit(there[:, turn[0]] * turn[1]))
    if misfit(there[:, order] * signs) > BETTER * now:
        return ""
    names = [("-" if sign < 0 else "") + axes[axis] for axis, sign in zip(order, signs, strict=True)]
    return f"[{', '.join(name.replace('--', '') for name in names)}]"
