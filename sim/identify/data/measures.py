"""Numbers of interest, taken alike from a simulation and from a recording: where it settles, how it rings, how it
decays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

KINDS = {"settled": "m", "frequency": "Hz", "damping_ratio": ""}
"""Kinds of measures and their units."""
LEAST_CYCLES = 1.5
"""A frequency is given only where at least so many periods fit into the record."""


@dataclass(frozen=True)
class Measure:
    """A number about the mean position of some markers along a direction.

    kind: "settled": mean displacement from the start over the last `last` seconds [m]; "frequency" [Hz] and
    "damping_ratio" of the free oscillation about where it settles.  direction: (3,) of unit length.
    """

    name: str
    markers: str
    direction: tuple[float, float, float]
    kind: str
    last: float = 0.0

    @property
    def unit(self) -> str:
        """Its unit."""
        return KINDS[self.kind]

    def take(self, times: np.ndarray, positions: np.ndarray, start: np.ndarray) -> float | None:
        """The number for marker positions (frames, markers, 3) at times (frames,); None where it cannot be told.

        start: (markers, 3), where the markers are at t = 0.  Frames in which a marker is not seen are left out.
        """
        along = (positions - start) @ np.asarray(self.direction)
        seen = np.isfinite(along).all(axis=1)
        t, y = times[seen], along[seen].mean(axis=1)
        if self.kind == "settled":
            end = t > times[-1] - self.last + 1e-9
            return float(y[end].mean()) if end.any() else None
        fitted = fit_ring(t, y)
        if fitted is None:
            return None
        omega, decay = fitted
        return omega / (2.0 * np.pi) if self.kind == "frequency" else decay / float(np.hypot(omega, decay))


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
