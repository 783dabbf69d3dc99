"""Numbers of interest, taken alike from a simulation and from a recording: where it settles, how far it has turned, how
it rings, how it decays.

A measure is a row of `MEASURE_SPECS`, all that there is to say about it; to add one, add a row and its function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from sim.schema.kinds import Number, Tuple
from sim.schema.reading import Reading, SchemaLine, Steps

LEAST_CYCLES = 1.5
"""A frequency is given only where at least so many periods fit into the record."""

LEAST_SPREAD = 1e-8
"""Markers on one line, or on the axis, tell no angle: squared distances from it are a smaller part of all than this."""

Settings = Mapping[str, Any]
Signal = Callable[[np.ndarray, np.ndarray, np.ndarray, Settings], np.ndarray]


def displacement(positions: np.ndarray, start: np.ndarray, direction: np.ndarray, settings: Settings) -> np.ndarray:
    """Mean displacement of markers (frames, markers, 3) from `start` (markers, 3) along a unit vector, (frames,)."""
    return ((positions - start) @ direction).mean(axis=1)


def turned(positions: np.ndarray, start: np.ndarray, direction: np.ndarray, settings: Settings) -> np.ndarray:
    """Angle (frames,) [rad] by which markers have turned as a rigid body that fits them best, from `start`.

    With an `about` in the settings that about this axis, right-handed, in (-pi, pi]: the least-squares rotation in the
    plane across it.  Else the whole angle of the least-squares rotation, in [0, pi] (W. Kabsch, "A solution for the
    best rotation to relate two sets of vectors", 1976).  nan where the markers do not determine it: on one line.
    """
    before, after = start - start.mean(axis=0), positions - positions.mean(axis=1, keepdims=True)
    if "about" in settings:
        axis = np.asarray(settings["about"], np.float64)
        axis = axis / np.linalg.norm(axis)
        before = before - np.outer(before @ axis, axis)
        after = after - (after @ axis)[..., None] * axis
        sine, cosine = np.cross(before, after).sum(axis=1) @ axis, np.einsum("mi,fmi->f", before, after)
        return np.where(np.hypot(sine, cosine) > LEAST_SPREAD * (before**2).sum(), np.arctan2(sine, cosine), np.nan)
    spread = np.linalg.svd(before, compute_uv=False)
    if len(spread) < 2 or spread[1] ** 2 <= LEAST_SPREAD * spread[0] ** 2:
        return np.full(len(positions), np.nan)
    u, _, vt = np.linalg.svd(np.einsum("mi,fmj->fij", before, after))
    u[..., -1] *= np.sign(np.linalg.det(u) * np.linalg.det(vt))[:, None]
    rotation = u @ vt
    sine = 0.5 * np.linalg.norm(np.stack([rotation[:, i, j] - rotation[:, j, i] for i, j in ((0, 1), (1, 2), (2, 0))]),
                                axis=0)  # fmt: skip
    return np.arctan2(sine, 0.5 * (np.trace(rotation, axis1=1, axis2=2) - 1.0))


@dataclass(frozen=True)
class MeasureSpec:
    """One kind of measure.

    take(t, y, end, settings): the number for the signal y (frames,) at times t (frames,) of the frames in which all
    markers are seen, of a record that ends at `end` [s]; None where it cannot be told.
    signal(positions, start, direction, settings): what y is, in `signal_unit`.  is_level: whether the number is a level
    of the signal, drawn as a line in charts.  lines: the keys of a scene that it needs; options: those that it may
    have.  Both are its `settings`.
    """

    unit: str
    doc: str
    take: Callable[[np.ndarray, np.ndarray, float, Settings], float | None]
    is_level: bool = False
    lines: tuple[SchemaLine, ...] = ()
    options: tuple[SchemaLine, ...] = ()
    signal: Signal = displacement
    signal_unit: str = "m"

    @property
    def keys(self) -> list[str]:
        """The keys of a scene that belong to it."""
        return [line.name for line in (*self.lines, *self.options)]


@dataclass(frozen=True)
class Measure:
    """A number about how some markers move: their mean position along a direction, or their rotation.

    kind: its name in `MEASURE_SPECS`.  direction: (3,) of unit length; a rotation does not look at it.  settings: what
    this kind needs to know.
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
        y = self.signal(positions, start)
        seen = np.isfinite(y)
        return self.spec.take(times[seen], y[seen], float(times[-1]), self.settings)

    def signal(self, positions: np.ndarray, start: np.ndarray) -> np.ndarray:
        """What the number is taken of, (frames,), of markers (frames, markers, 3) that were at start (markers, 3).

        nan in frames in which a marker is not seen.
        """
        out = np.full(len(positions), np.nan)
        seen = np.isfinite(positions).all(axis=(1, 2))
        if seen.any() and np.isfinite(start).all():
            out[seen] = self.spec.signal(positions[seen], start, np.asarray(self.direction), self.settings)
        return out


def measure_lines() -> tuple[SchemaLine, ...]:
    """The keys that kinds of measures have beside the common ones, each once."""
    lines = {line.name: line for spec in MEASURE_SPECS.values() for line in (*spec.lines, *spec.options)}
    return tuple(lines.values())


def check_measure(steps: Steps, entry: Mapping[str, object], reading: Reading) -> None:
    """Notes keys of an entry of a scene that its kind needs and has not, or has and does not know."""
    if "kind" not in entry:
        return
    spec = MEASURE_SPECS[str(entry["kind"])]
    for line in spec.lines:
        if line.name not in entry and not reading.is_broken((*steps, line.name)):
            reading.problem(steps, f"missing key `{line.name}`: {line.doc}", key=True)
    for line in measure_lines():
        if line.name in entry and line.name not in spec.keys:
            owners = ", ".join(f"`kind: {name}`" for name, other in MEASURE_SPECS.items() if line.name in other.keys)
            reading.problem((*steps, line.name), f"`{line.name}` belongs to {owners}", "remove it", key=True)


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
    # Several numbers are taken of the same signal, and each of them for the run, its report and its comparisons.
    return _fitted_ring(np.asarray(t, np.float64).tobytes(), np.asarray(y, np.float64).tobytes())


@lru_cache(maxsize=128)
def _fitted_ring(times: bytes, values: bytes) -> tuple[float, float] | None:
    t, y = np.frombuffer(times), np.frombuffer(values)
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
    omega = float(2.0 * np.pi * frequencies[possible][np.argmax(padded[possible])])
    decay, wide, deep = 0.1 * omega, 0.4 * omega, 0.1 * omega
    steps = np.linspace(-1.0, 1.0, 5)
    for _ in range(24):
        w, d = omega + wide * steps, np.maximum(decay + deep * steps, 0.0)
        w = w[w > 0.0]
        best = np.argmin(_misfits(t - t[0], y, w, d))
        omega, decay = float(w[best // len(d)]), float(d[best % len(d)])
        wide, deep = 0.6 * wide, 0.6 * deep
    cycles = omega * span / (2.0 * np.pi)
    return (omega, decay) if cycles >= LEAST_CYCLES and decay < omega else None


def _misfits(t: np.ndarray, y: np.ndarray, w: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Sums of squares of what is left of y by the best c, a and b of each pair of w (m,) and d (n,), (m * n,)."""
    fall, phase = np.exp(-np.outer(d, t)), np.outer(w, t)[:, None]
    basis = np.ones((len(w), len(d), len(t), 3))
    np.multiply(fall, np.cos(phase), out=basis[..., 1])
    np.multiply(fall, np.sin(phase), out=basis[..., 2])
    orthogonal, _ = np.linalg.qr(basis.reshape(-1, len(t), 3))
    rest = y - np.einsum("nti,ni->nt", orthogonal, np.einsum("nti,t->ni", orthogonal, y))
    return np.square(rest).sum(axis=1)


LAST = SchemaLine("last", Number("s", "(0, inf)"), "over which time at the end it is averaged")
ABOUT = SchemaLine("about", Tuple(3, nonzero=True), "axis of a rotation, right-handed; default: the whole angle")

MEASURE_SPECS = {
    "settled": MeasureSpec("m", "mean displacement at the end", _settled, is_level=True, lines=(LAST,)),
    "rotation": MeasureSpec("rad", "angle at the end by which they have turned as a rigid body, of at least three, or"
                            " of two `about` an axis", _settled, is_level=True, lines=(LAST,), options=(ABOUT,),
                            signal=turned, signal_unit="rad"),
    "frequency": MeasureSpec("Hz", "of the oscillation", _frequency),
    "damping_ratio": MeasureSpec("", "of the oscillation", _damping_ratio),
}  # fmt: skip
"""The kinds that a scene may write."""
