"""Whether what is left of a fit looks like noise: autocorrelation and spectrum of residuals, and a line about them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sim.identify.losses.residuals import Residuals

LAGS = 10
"""Frames over which the residuals are compared with themselves."""

SURE = 3.0
"""Standard errors from which a correlation counts."""

PEAKED = 0.4
"""Share of the power near the strongest frequency from which residuals are said to vibrate there."""


@dataclass(frozen=True)
class Whiteness:
    """Residuals over time, of all markers and axes together.

    next_frame: their correlation from frame to frame.  frames: over how many they are alike, 1 for white noise (the
    integrated autocorrelation time).  numbers: how many there are; effective: as how many independent ones they count.
    frequency: the strongest [Hz], and its share of the power.  verdict: one line.
    """

    next_frame: float
    frames: float
    numbers: int
    effective: float
    frequency: float
    share: float
    verdict: str


def whiteness(part: Residuals, fps: float) -> Whiteness | None:
    """That of one term in one experiment; fps [Hz]: of its frames.  None below four frames, or without a residual."""
    used = part.weight > 0
    count = int(used.sum())
    r = np.where(used[..., None], part.score, 0.0).reshape(len(part.values), -1)
    length = len(r)
    if length < 4 or not np.any(r):
        return None
    padded = np.abs(np.fft.rfft(r, 2 * length, axis=0)) ** 2
    products = np.fft.irfft(padded.sum(axis=1), 2 * length)[:length]
    seen = np.repeat(used[..., None], part.values.shape[2], axis=2).reshape(length, -1).astype(float)
    pairs = np.fft.irfft((np.abs(np.fft.rfft(seen, 2 * length, axis=0)) ** 2).sum(axis=1), 2 * length)[:length]
    covariance = np.divide(products, pairs, out=np.zeros(length), where=pairs > 0.5)
    correlation = covariance / covariance[0]
    frames = integrated_time(correlation)
    numbers = part.values.shape[2] * count
    lags = correlation[1 : 1 + min(LAGS, length // 4)]
    white = bool(np.all(np.abs(lags) < SURE / math.sqrt(numbers)))
    power = np.abs(np.fft.rfft(r - r.mean(axis=0), axis=0)) ** 2
    power = power.sum(axis=1)
    peak = 1 + int(np.argmax(power[1:])) if len(power) > 1 else 0
    near = power[max(peak - 1, 1) : peak + 2].sum()
    whole = float((r**2).sum()) * length
    share = float(2.0 * near / whole) if whole else 0.0
    constant = float((r.mean(axis=0) ** 2).sum() * length**2 / whole)
    frequency = peak * fps / length
    verdict = _verdict(white, frames, correlation, frequency, share, constant, peak)
    return Whiteness(float(correlation[1]), frames, numbers, numbers / frames, frequency, share, verdict)


def integrated_time(correlation: np.ndarray) -> float:
    """1 + 2 sum of a correlation (lags,) over lags, up to where neighbouring pairs of them no longer add up to
    something positive (C. Geyer, "Practical Markov Chain Monte Carlo", 1992); 1 at least."""
    pairs = correlation[: len(correlation) // 2 * 2].reshape(-1, 2).sum(axis=1)
    end = int(np.argmax(pairs <= 0)) if np.any(pairs <= 0) else len(pairs)
    return max(1.0, 2.0 * float(pairs[:end].sum()) - 1.0)


def _verdict(
    white: bool, frames: float, correlation: np.ndarray, frequency: float, share: float, constant: float, peak: int
) -> str:
    if white:
        return "like noise"
    alike = f"alike over {frames:.2g} frames" if frames > 1.5 else f"correlated ({correlation[1]:+.2f})"
    if constant > PEAKED:
        return f"{alike}: they keep their sign, something is displaced"
    if share > PEAKED and peak <= 1:
        return f"{alike}: they drift, something slow is missing"
    if share > PEAKED:
        return f"{alike}: they vibrate at {frequency:.3g} Hz, its frequency or damping is off"
    if correlation[1] < 0:
        return f"{alike}: they alternate, as differences of noise do"
    return f"{alike}: of no one frequency"
