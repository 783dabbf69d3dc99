"""The part of a report that shows measured and simulated motion over time, marker by marker."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim.io.html import format_number

MOST_MARKERS, MOST_FRAMES = 24, 600
"""Markers (the worst) and frames (evenly) of a track that a page holds."""

PREFIXES = {
    "m": ((1.0, "m"), (1e-3, "mm"), (1e-6, "µm"), (1e-9, "nm")),
    "m/s": ((1.0, "m/s"), (1e-3, "mm/s"), (1e-6, "µm/s")),
    "rad": ((math.pi / 180, "deg"),),
}
"""SI unit -> sizes and names of the units that it may be shown in."""


@dataclass(frozen=True, eq=False)
class Track:
    """Some markers of one experiment over time, measured and simulated.

    Attributes:
        experiment, about: its name, and what is shown of it.
        times: (frames,) [s].
        after: (frames, markers, axes) what is simulated, in `unit`; with `before` given: with what was found.
        before: the same at the start of the search, or None.
        measured: the same as it was seen, nan: not seen; or None.
        counted: (frames, markers) bool, where the loss compares; None: everywhere.
        axes: a name for each axis.
        unit: SI unit of all values.
        noise: stated standard deviation of one measured value; 0: none is stated.
        labels: (markers,) names.
        headings: (markers,) what to say about each; None: how far it is from what was measured.
        goals: (time, (axes,) values) that should be met.
        levels: (axes,) values drawn as lines.
    """

    experiment: str
    about: str
    times: np.ndarray
    after: np.ndarray
    before: np.ndarray | None = None
    measured: np.ndarray | None = None
    counted: np.ndarray | None = None
    axes: Sequence[str] = ("x", "y", "z")
    unit: str = "m"
    noise: float = 0.0
    labels: Sequence[str] = ()
    headings: Sequence[str] | None = None
    goals: Sequence[tuple[float, Sequence[float]]] = field(default_factory=tuple)
    levels: Sequence[Sequence[float]] = field(default_factory=tuple)

    @property
    def residual(self) -> np.ndarray | None:
        """Simulated minus measured (frames, markers, axes), where it counts; nan elsewhere."""
        if self.measured is None:
            return None
        difference = self.after - self.measured
        return difference if self.counted is None else np.where(self.counted[..., None], difference, np.nan)

    @property
    def rms(self) -> np.ndarray:
        """Root mean square distance of each marker (markers,) from where it was seen; nan: never seen."""
        if self.residual is None:
            return np.full(self.after.shape[1], np.nan)
        square = np.sum(self.residual**2, axis=2)
        seen = np.isfinite(square)
        return np.sqrt(np.where(seen, square, 0.0).sum(axis=0) / np.where(seen.any(axis=0), seen.sum(axis=0), np.nan))


def track_data(track: Track) -> dict[str, Any]:
    """A track as a JSON-ready dict: its worst markers first."""
    rms = track.rms
    order = np.argsort(-np.nan_to_num(rms, nan=-1.0), kind="stable")[:MOST_MARKERS]
    stride = max(1, math.ceil(len(track.times) / MOST_FRAMES))
    shown = [track.after, track.before, track.measured]
    scale, unit = shown_unit(max(_largest(values) for values in shown if values is not None), track.unit, least=0.5)
    residual = track.residual
    small, residual_unit = (
        shown_unit(max(_largest(residual), track.noise), track.unit) if residual is not None else (1.0, "")
    )
    measured = skipped = None
    if track.measured is not None:
        counted = np.ones(track.measured.shape[:2], bool) if track.counted is None else track.counted
        measured = np.where(counted[..., None], track.measured, np.nan)
        skipped = np.where(counted[..., None], np.nan, track.measured)
    series = {
        "before": (track.before, scale),
        "measured": (measured, scale),
        "skipped": (skipped, scale),
        "after": (track.after, scale),
        "residual": (residual, small),
    }
    return {
        "name": f"{track.experiment}: {track.about}",
        "experiment": track.experiment,
        "times": [float(f"{t:.9g}") for t in track.times[::stride]],
        "shape": [len(track.times[::stride]), len(order), len(track.axes)],
        "series": {name: _packed(values, size, order, stride) for name, (values, size) in series.items()},
        "axes": list(track.axes),
        "unit": unit,
        "residualUnit": residual_unit,
        "noise": track.noise / small,
        "least": 8 * track.noise / scale,
        "markers": [_heading(track, int(i), float(rms[i])) for i in order],
        "goals": [{"time": time, "values": [value / scale for value in values]} for time, values in track.goals],
        "levels": [[value / scale for value in values] for values in track.levels],
        "words": {
            "before": "before",
            "measured": "measured",
            "skipped": "not in the loss",
            "after": "simulated" if track.before is None else "after",
        },
        "note": _note(len(rms), stride),
    }


def shown_unit(size: float, unit: str, least: float = 1.0) -> tuple[float, str]:
    """Size and name of the unit in which values up to `size` (in the SI unit `unit`) are shown, as `least` or more."""
    choices = PREFIXES.get(unit, ((1.0, unit),))
    fitting = (choice for choice in choices if size >= least * choice[0])
    return next(fitting, choices[0] if size == 0.0 else choices[-1])


def _packed(values: np.ndarray | None, size: float, order: np.ndarray, stride: int) -> str | None:
    """Single precision, base64; None where there is nothing to show."""
    if values is None or not np.isfinite(values).any():
        return None
    kept = values[::stride][:, order] / size
    return base64.b64encode(np.ascontiguousarray(kept, dtype="<f4").tobytes()).decode("ascii")


def _largest(values: np.ndarray | None) -> float:
    return 0.0 if values is None else float(np.nanmax(np.abs(values), initial=0.0))


def _heading(track: Track, i: int, rms: float) -> str:
    if track.headings is not None:
        return track.headings[i]
    name = f"marker {track.labels[i]}" if len(track.labels) else f"marker {i}"
    if not math.isfinite(rms):
        return f"{name}: never seen"
    size, unit = shown_unit(rms, track.unit)
    over = (
        f", {format_number(rms / (math.sqrt(len(track.axes)) * track.noise), 3)} times the noise"
        if track.noise > 0
        else ""
    )
    return f"{name}: {format_number(rms / size, 3)} {unit} rms{over}"


def _note(markers: int, stride: int) -> str:
    """What was left out, and where it is."""
    left_out = ([f"the {MOST_MARKERS} worst of {markers} markers"] if markers > MOST_MARKERS else []) + (
        [f"one frame in {stride}"] if stride > 1 else []
    )
    return f"Shown: {', '.join(left_out)}. All of them: simopt export RUN --to csv." if left_out else ""
