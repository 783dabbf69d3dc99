"""How far a simulation is from a recording, marker by marker and frame by frame."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from sim.identify.assess.whiteness import Whiteness, whiteness
from sim.identify.data.experiments import Simulation
from sim.identify.losses.noise import groups_of
from sim.identify.losses.residuals import Residuals
from sim.identify.losses.terms.match import compared_by
from sim.identify.problem import Problem

APART = 2.0
"""Estimated noises of the same markers in two takes that differ by more are told."""

MOST_SHOWN = 4
"""Estimated noises that a sentence lists; of more it says the range."""


@dataclass(frozen=True, eq=False)
class Misfit:
    """The distances of one set of markers from where they were seen, as root mean squares over what is left out.

    compare: what is compared, as in the loss (position, displacement, velocity: the step from frame to frame).
    rms [m]: of all.  by_marker (markers,) [m]; by_frame (frames,) [m] at `times` [s]; nan where nothing was seen.
    noise: the stated one of what is compared, one coordinate [m]: that of a displacement is sqrt(2) times that of a
    position.  The rms of pure noise is sqrt(3) times as large.
    numbers: how many residuals there are; colour: whether they look like noise.
    deviations: (markers, 3) [m] of one coordinate, stated or estimated.  estimated: what was, if anything.
    """

    experiment: str
    markers: str
    compare: str
    rms: float
    by_marker: np.ndarray
    by_frame: np.ndarray
    times: np.ndarray
    noise: float
    numbers: int = 0
    colour: Whiteness | None = None
    deviations: np.ndarray = field(default_factory=lambda: np.ones((1, 3)))
    estimated: NoiseFound | None = None

    @property
    def in_noise(self) -> float:
        """The rms in units of what the stated noise alone would leave: 1 = down to the noise."""
        return self.rms / (np.sqrt(3.0) * self.noise)

    def summary(self) -> dict[str, Any]:
        """What stands in result.json."""
        worst = int(np.nanargmax(self.by_marker))
        return {
            "compare": self.compare,
            "rms": self.rms,
            "in_noise": self.in_noise if self.estimated is None else None,
            "worst_marker": worst,
            "by_marker": self.by_marker,
            "numbers": self.numbers,
            "noise": {
                "typical": float(np.exp(np.mean(np.log(self.deviations)))),
                **(asdict(self.estimated) if self.estimated is not None else {}),
            },
            **({"over_time": asdict(self.colour)} if self.colour is not None else {}),
        }


@dataclass(frozen=True, eq=False)
class NoiseFound:
    """Noise that was estimated: of what (a key of `GROUPINGS`), the standard deviations of a coordinate [m], and their
    standard errors, by as many residuals as count as independent."""

    estimated: str
    value: list[float]
    standard_error: list[float]

    @property
    def words(self) -> str:
        """For people."""
        pairs = [
            f"{1e3 * v:.3g} ± {1e3 * error:.2g} mm" for v, error in zip(self.value, self.standard_error, strict=True)
        ]
        if self.estimated == "axes":
            return ", ".join(f"{axis} {pair}" for axis, pair in zip("xyz", pairs, strict=True))
        if self.estimated == "markers" and len(pairs) > MOST_SHOWN:
            return f"{1e3 * min(self.value):.3g} to {1e3 * max(self.value):.3g} mm"
        return ", ".join(pairs)


def given_up(misfit: Sequence[Misfit]) -> list[str]:
    """A sentence for markers whose noise was estimated to be far larger in one take than in another: the fit has given
    that take up, for it weighs by that noise."""
    out = []
    for markers in dict.fromkeys(m.markers for m in misfit if m.estimated is not None):
        sizes = {m.experiment: m.noise for m in misfit if m.markers == markers and m.estimated is not None}
        most, least = max(sizes, key=sizes.__getitem__), min(sizes, key=sizes.__getitem__)
        if sizes[most] > APART * sizes[least]:
            out.append(
                f"the estimated noise of `{markers}` is {sizes[most] / sizes[least]:.2g} times as large in `{most}` as"
                f" in `{least}`: either it was recorded worse, or the fit has given it up, because the model does not"
                " meet both; a `noise` that is stated weighs them alike"
            )
    return out


def noise_notes(misfit: Sequence[Misfit]) -> list[str]:
    """A sentence for each recording whose noise was estimated, and for those that were given up."""
    return [
        f"experiment `{m.experiment}`: the noise of `{m.markers}` is estimated: {m.estimated.words}; what the model"
        " misses counts as noise in it"
        for m in misfit
        if m.estimated is not None
    ] + given_up(misfit)


def _noise_found(part: Residuals, by: str, colour: Whiteness | None) -> NoiseFound:
    group = groups_of(by, part.values.shape[1:])
    units = part.observation_noise * np.broadcast_to(part.noise, part.values.shape[1:])
    alike = 1.0 if colour is None else colour.frames
    values, errors = [], []
    for k in range(int(group.max()) + 1):
        own = group == k
        numbers = float(np.sum((part.weight > 0) @ own))
        values.append(float(units[own][0]))
        errors.append(values[-1] * math.sqrt(0.5 * alike / numbers) if numbers else math.inf)
    return NoiseFound(by, values, errors)


def misfits(problem: Problem, simulations: Mapping[str, Simulation]) -> list[Misfit]:
    """For every experiment, counted or not, and every set of markers that its recording has."""
    out = []
    for e in (e for e in problem.experiments if e.name in simulations):
        found = problem.alignment(simulations[e.name])
        for name in e.targets:
            term = compared_by(problem.terms, e, name)
            part = problem.residuals_of(term, simulations[e.name], found)
            used = part.weight > 0
            square = np.where(used, np.sum((part.values * part.noise) ** 2, axis=2), np.nan)
            units = np.broadcast_to(part.noise, part.values.shape[1:])
            noise = float(np.sqrt(np.mean((part.own_variance[..., None] * units**2)[used])))
            times = e.schedule.times[part.frames]
            roots = _root(square), _root(square, 0), _root(square, 1)
            colour = whiteness(part, e.schedule.fps)
            by = e.targets[name].estimated
            out.append(
                Misfit(
                    e.name, name, term.compare, *roots, times, noise, part.values.shape[2] * int(used.sum()), colour,
                    part.observation_noise * units, _noise_found(part, by, colour) if by else None,
                )
            )  # fmt: skip
    return out


def _root(square: np.ndarray, axis: int | None = None) -> Any:
    """Root of the mean of what is not nan, along an axis."""
    seen = np.isfinite(square)
    count = seen.sum(axis=axis)
    with np.errstate(invalid="ignore", divide="ignore"):
        out = np.sqrt(np.where(seen, square, 0.0).sum(axis=axis) / count)
    return float(out) if axis is None else out
