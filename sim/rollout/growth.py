"""How the gradient of a rollout grows on its way back, and up to which horizon it is of use.

The adjoint a(t) = dL/dx(t) goes back by the transposed Jacobians of the steps.  In a chaotic system it grows like
exp(rate * t), and the gradient, though right to the last digit, is that of a loss with structure as fine as 1 / growth:
no step that an optimiser takes is small enough for it (L. Metz, C. D. Freeman, S. S. Schoenholz, T. Kachman, "Gradients
are Not All You Need", 2021), and from 1 / (growth * eps) on not even the trajectory is resolved.  Regular systems grow
too, but as a power of time: neighbouring pendulums drift apart in proportion to it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from sim.core.runtime.arrays.array import array

LIMIT = 1e4
"""Growth from which a gradient is of no use: it foretells the loss only for changes below 1e-4 of the motion."""
RESOLVED = 1e-2
"""Rounding times growth that is still of no matter: in float32 it is this that ends a horizon, from 8e4 on."""
POWER = 4.0
"""Growth by more than t^POWER is not that of a regular system: steady forces give t^2, their sums over frames t^3."""
PER_STEP = 4.0
"""A gradient by velocities becomes one by positions in a step: so many times of it over the step, at most, where what
is rigid turns velocities round.  Where n points are held by one it may be sqrt(n) times that, for which there is room
below the limit."""
FEW = 1 << 15
"""Numbers of which a copy in double precision costs no fresh memory."""
LITTLE, MUCH = 1e-20, 1e30
"""Between these a sum of squares in single precision has lost nothing."""


class ChaoticGradientWarning(UserWarning):
    """A gradient that has grown so much on its way back through a rollout that it is of no use."""


def magnitude(parts: Sequence[np.ndarray]) -> float:
    """Euclidean norm of all numbers."""
    return sqrt(sum(_sum_of_squares(part.reshape(-1)) for part in parts))


def _sum_of_squares(numbers: np.ndarray) -> float:
    """As `squares`, of one row: it is asked for in between steps, where every call of NumPy's is a slow one."""
    if not numbers.any():  # as most of what a loss does not look at
        return 0.0
    if numbers.size >= FEW:
        with np.errstate(over="ignore", under="ignore"):
            found = float(np.add.reduce(np.square(numbers)))
        if LITTLE < found < MUCH:
            return found
    return float(np.add.reduce(np.square(numbers, dtype=np.float64)))


def squares(rows: np.ndarray) -> np.ndarray:
    """(n,) float64 sums of the squares of (n, m) numbers; of many, in their own precision where that has room."""
    if rows.size < FEW:
        return np.square(rows.astype(np.float64)).sum(axis=1)
    with np.errstate(over="ignore", under="ignore"):
        found = np.square(rows).sum(axis=1).astype(np.float64)
    unsure = ~((found > LITTLE) & (found < MUCH))
    if unsure.any() and (again := rows[unsure]).any():
        found[unsure] = np.square(again.astype(np.float64)).sum(axis=1)
    return found


@dataclass(eq=False)
class AdjointGrowth:
    """Growth of the gradient by the positions on the last way back through a rollout (`Trajectory.adjoint_growth`).

    times: (n,) [s] since the start of the rollout, ascending; empty before `backward`.
    norms, gains: (n,) norm of dL/dx at these times; the same over the largest gradient that the loss has put in at a
           later one: at most the norm of the Jacobian from there on, times the number of frames that the loss looks at.
    eps:   spacing of the precision.  quiet: whoever ran it says himself what there is to say.
    """

    eps: float
    times: np.ndarray = field(default_factory=lambda: np.zeros(0))
    gains: np.ndarray = field(default_factory=lambda: np.zeros(0))
    norms: np.ndarray = field(default_factory=lambda: np.zeros(0))
    quiet: bool = False

    def __repr__(self) -> str:
        if not self.times.size:
            return "AdjointGrowth(no way back yet)"
        return f"AdjointGrowth({self.growth:.3g} over {self.span:.4g} s, {'of use' if self.useful else 'of no use'})"

    @property
    def span(self) -> float:
        """Length of the rollout [s]."""
        return float(self.times[-1]) if self.times.size else 0.0

    @property
    def growth(self) -> float:
        """The largest gain: how far a disturbance of the positions moves the result, over itself."""
        return float(self._envelope().max(initial=1.0))

    @property
    def rate(self) -> float:
        """Finite-time Lyapunov exponent [1/s]: ln(growth) / span."""
        return float(np.log(self.growth)) / self.span if self.span else 0.0

    @property
    def limit(self) -> float:
        """Growth from which the gradient is of no use in this precision."""
        return min(LIMIT, RESOLVED / self.eps)

    @property
    def useful(self) -> bool:
        """False where the growth is beyond `limit`, and faster than a power of time; or is not finite."""
        gains = self._envelope()
        if not gains.size or gains[0] <= self.limit:
            return True
        if not np.isfinite(gains[0]):
            return False
        back = self.span - self.times
        half = np.exp(np.interp(-0.5 * back, -back, np.log(gains)))
        return bool((gains / half).max() < 2.0**POWER)

    @property
    def horizon(self) -> float:
        """Length [s] of a rollout from the same start up to which the gradient is of use; all of it if it is."""
        if self.useful:
            return self.span
        with np.errstate(divide="ignore", invalid="ignore"):
            over = self.norms[0] / self.norms
        beyond = np.flatnonzero(~(over <= self.limit))
        first = int(beyond[0]) if beyond.size else over.size - 1
        if first == 0:
            return 0.0
        low, high = np.log(over[first - 1]), np.log(over[first])
        part = (np.log(self.limit) - low) / (high - low) if np.isfinite(high) else 0.0
        return float(self.times[first - 1] + part * (self.times[first] - self.times[first - 1]))

    @property
    def message(self) -> str:
        """A sentence for people; empty where the gradient is of use."""
        if self.useful:
            return ""
        return (
            f"the gradient of this rollout grew {self.growth:.1e}-fold on its way back over {self.span:.3g} s: the"
            f" motion is chaotic (rate {self.rate:.2g}/s), or its steps are, and the gradient foretells the loss for"
            f" changes below {1.0 / self.growth:.0e} of the motion alone; up to {self.horizon:.2g} s it is of use: end"
            " the rollout there, compare with shorter pieces of the data, or search without gradients; where more"
            " iterations, shorter steps or a little compliance change the rate, it is that of the steps"
        )

    def _envelope(self) -> np.ndarray:
        """The largest gain at this time or later; where it is nan, infinity."""
        gains = np.where(np.isnan(self.gains), np.inf, self.gains)
        return np.maximum.accumulate(np.maximum(gains, 1.0)[::-1])[::-1]


@dataclass(eq=False)
class GrowthMeter:
    """Looks at the gradient on its way back.  dt [s]; frame_after: the steps after which there are frames; put_in,
    of_end: norms of the gradients of these, and of the final positions, velocities and all else that there is at the
    end.

    looks: (steps done, norm), from the last step to the first.
    """

    dt: float
    frame_after: Sequence[int]
    put_in: np.ndarray
    of_end: tuple[float, float, float]
    looks: list[tuple[int, float]] = field(default_factory=list)

    def look(self, step: int, gradients: Sequence[array]) -> None:
        """The gradients by the positions, of particles and of bodies, after so many steps."""
        self.looks.append((step, magnitude([a.device.numpy(a) for a in gradients])))

    def tell(self, found: AdjointGrowth) -> None:
        """The way back is over."""
        steps, norms = (np.array(part) for part in zip(*reversed(self.looks), strict=True))
        later = np.append(np.maximum.accumulate(self.put_in[::-1])[::-1], 0.0)
        largest = later[np.searchsorted(self.frame_after, steps)]
        by_positions, by_velocities, by_others = self.of_end
        if by_velocities or not max(by_positions, self.put_in.max(initial=0.0)):
            # put in by velocities or multipliers: it shows in the positions some steps before the end
            shown = norms[-max(4, len(norms) // 16) :].max()
            if not by_others:  # what is more than that has grown already, from the first look to the next
                shown = min(shown, PER_STEP * by_velocities / self.dt)
            by_positions = max(by_positions, shown)
            # what slides does so alike wherever it is: a velocity is at least that of its way in all of the time
            by_positions = max(by_positions, by_velocities / (max(steps[-1], 1) * self.dt))
        found.times, found.norms = steps * self.dt, norms
        scale = np.maximum(largest, by_positions)
        found.gains = norms / np.where(scale > 0.0, scale, 1.0)
        if not found.useful and not found.quiet:
            warn_user(found.message)


def warn_user(message: str) -> None:
    """Warn, on the line of the user's that led here."""
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "sim":
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, ChaoticGradientWarning, stacklevel=depth)
