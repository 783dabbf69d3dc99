"""Numbers of interest, taken alike from a simulation and from a recording: where it settles, how it rings, how it
decays.

A measure is a row of `MEASURE_SPECS`, all that there is to say about it; to add one, add a row and its function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from sim.schema.kinds import Number
from sim.schema.reading import Reading, SchemaLine, Steps

LEAST_CYCLES = 1.5
"""A frequency is given only where at least so many periods fit into the record."""

Settings = Mapping[str, float]


@dataclass(frozen=True)
class MeasureSpec:
    """One kind of measure.

    take(t, y, end, settings): the number for the mean displacement y (frames,) [m] at times t (frames,) of the frames
    in which all markers are seen, of a record that ends at `end` [s]; None where it cannot be told.
    is_level: whether it is a displacement, drawn as a line in charts.  lines: the keys of a scene that it needs, all
    numbers; they are its `settings`.
    """

    unit: str
    doc: str
    take: Callable[[np.ndarray, np.ndarray, float, Settings], float | None]
    is_level: bool = False
    lines: tuple[SchemaLine, ...] = ()


@dataclass(frozen=True)
class Measure:
    """A number about the mean position of some markers along a direction.

    kind: its name in `MEASURE_SPECS`.  direction: (3,) of unit length.  settings: what this kind needs to know.
    """

    name: str
    markers: str
    direction: tuple[float, float, float]
    kind: str
    settings: Settings = field(default_factory=dict)

    @property
    def spec(self) -> MeasureSpec:
        """What there is to know about its kind."""
        return MEASURE_SPECS[self.kind]

    @property
    def unit(self) -> str:
        """Its unit."""
        return self.spec.unit

    def take(self, times: np.ndarray, positions: np.ndarray, start: np.ndarray) -> float | None:
        """The number for marker positions (frames, markers, 3) at times (frames,); None where it cannot be told.

        start: (markers, 3), where the markers are at t = 0.  Frames in which a marker is not seen are left out.
        """
        along = (positions - start) @ np.asarray(self.direction)
        seen = np.isfinite(along).all(axis=1)
        return self.spec.take(times[seen], along[seen].mean(axis=1), float(times[-1]), self.settings)


def check_measure(steps: Steps, entry: Mapping[str, object], reading: Reading) -> None:
    """Notes keys of an entry of a scene that its kind needs and has not, or has and does not know."""
    for name, spec in MEASURE_SPECS.items():
        for line in spec.lines:
            if entry.get("kind") == name and line.name not in entry and not reading.is_broken((*steps, line.name)):
                reading.problem(steps, f"missing key `{line.name}`: {line.doc}", key=True)
            if entry.get("kind", name) != name and line.name in entry:
                reading.problem((*steps, line.name), f"`{line.name}` belongs to `kind: {name}`", "remove it", key=True)


def _settled(t: np.ndarray, y: np.ndarray, end: float, settings: Settings) -> float | None:
    last = t > end - settings["last"] + 1e-9
    return float(y[last].mean()) if last.any() else None


def _frequency(t: np.ndarray, y: np.ndarray, end: float, settings: Settings) -> float | None:
    ring = fit_ring(t, y)
    return None if ring is None else ring[0] / (2.0 * np.pi)


def _damping_ratio(t: np.ndarray, y: np.ndarray, end: float, settings: Settings) -> float | None:
    ring = fit_ring(t, y)
    return None if ring is None else ring[1] / float(np.hypot(*ring))


def fit_ring(t: np.ndarray, y: np.ndarray) -> tuple[float, float] | None:
    """Angular frequency and decay rate [1/s] of y = c + exp(-decay t)(a cos omega t + b sin omega t), by least squares.

    For each pair of the two, a, b and c follow from a linear fit (variable projection: G. Golub, V. Pereyra, 1973); the
    pair is found on grids that close in on it, from the peak of the spectrum.  None where nothing rings.
    """
    if len(t) < 8 or np.ptp(y) == 0.0:
        return None
    span = t[-1] - t[0]
    even = np.linspace(t[0], t[-1], 8 * len(t))
    tail = y[t > t[-1] - 0.25 * span].mean()
    wave = np.interp(even, t, y - tail) * np.hanning(2 * len(even))[len(even) :]
    padded = np.abs(np.fft.rfft(wave, 8 * len(even)))
    frequencies = np.fft.rfftfreq(8 * len(even), even[1] - even[0])
    possible = (frequencies > LEAST_CYCLES / span) & (frequencies < 0.5 * (len(t) - 1) / span)
    if not possible.any():
        return None
    omega = 2.0 * np.pi * frequencies[possible][np.argmax(padded[possible])]
    decay, wide, deep = 0.1 * omega, 0.4 * omega, 0.1 * omega

    def misfit(w: float, d: float) -> float:
        fall = np.exp(-d * (t - t[0]))
        basis = np.stack([np.ones_like(t), fall * np.cos(w * t), fall * np.sin(w * t)], axis=1)
        rest = y - basis @ np.linalg.lstsq(basis, y, rcond=None)[0]
        return float(rest @ rest)

    for _ in range(24):
        options = [
            (misfit(omega + a * wide, max(decay + b * deep, 0.0)), omega + a * wide, max(decay + b * deep, 0.0))
            for a in (-1.0, -0.5, 0.0, 0.5, 1.0)
            for b in (-1.0, -0.5, 0.0, 0.5, 1.0)
            if omega + a * wide > 0.0
        ]
        _, omega, decay = min(options)
        wide, deep = 0.6 * wide, 0.6 * deep
    cycles = omega * span / (2.0 * np.pi)
    return (omega, decay) if cycles >= LEAST_CYCLES and decay < omega else None


LAST = SchemaLine("last", Number("s", "(0, inf)"), "over which time at the end `settled` is averaged")

MEASURE_SPECS = {
    "settled": MeasureSpec("m", "mean displacement at the end", _settled, is_level=True, lines=(LAST,)),
    "frequency": MeasureSpec("Hz", "of the oscillation", _frequency),
    "damping_ratio": MeasureSpec("", "of the oscillation", _damping_ratio),
}
"""The kinds that a scene may write."""
