"""How far a simulation is from a recording, marker by marker and frame by frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sim.identify.assess.whiteness import Whiteness, whiteness
from sim.identify.data.experiments import Simulation
from sim.identify.losses.terms.match import compared_by
from sim.identify.problem import Problem


@dataclass(frozen=True, eq=False)
class Misfit:
    """The distances of one set of markers from where they were seen, as root mean squares over what is left out.

    compare: what is compared, as in the loss (position, displacement, velocity: the step from frame to frame).
    rms [m]: of all.  by_marker (markers,) [m]; by_frame (frames,) [m] at `times` [s]; nan where nothing was seen.
    noise: the stated one of what is compared, one coordinate [m]: that of a displacement is sqrt(2) times that of a
    position.  The rms of pure noise is sqrt(3) times as large.
    numbers: how many residuals there are; colour: whether they look like noise.
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
            "in_noise": self.in_noise,
            "worst_marker": worst,
            "by_marker": self.by_marker,
            "numbers": self.numbers,
            **({"over_time": asdict(self.colour)} if self.colour is not None else {}),
        }


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
            own = part.observation_noise**2 * (1 + (part.reference >= 0))
            units = np.broadcast_to(part.noise, part.values.shape[1:])
            noise = float(np.sqrt(np.mean((own[..., None] * units**2)[used])))
            times = e.schedule.times[part.frames]
            roots = _root(square), _root(square, 0), _root(square, 1)
            colour = whiteness(part, e.schedule.fps)
            out.append(
                Misfit(e.name, name, term.compare, *roots, times, noise, part.values.shape[2] * int(used.sum()), colour)
            )
    return out


def _root(square: np.ndarray, axis: int | None = None) -> Any:
    """Root of the mean of what is not nan, along an axis."""
    seen = np.isfinite(square)
    count = seen.sum(axis=axis)
    with np.errstate(invalid="ignore", divide="ignore"):
        out = np.sqrt(np.where(seen, square, 0.0).sum(axis=axis) / count)
    return float(out) if axis is None else out
