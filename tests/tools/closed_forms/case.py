"""What a case is, and how numbers are read off a run together with their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import sim

G = 9.81
Measure = Callable[..., float]
Seen = Callable[[np.ndarray], float]
"""A number that is seen in a frame (n, ...) of a field."""


@dataclass(frozen=True)
class Figure:
    """A quantity or a derivative, as it is and as it was found."""

    name: str
    exact: float
    found: float

    @property
    def error(self) -> float:
        """Relative; that of a zero as it is."""
        return abs(self.found - self.exact) / (1.0 if abs(self.exact) < 1e-9 else abs(self.exact))

    @property
    def is_derivative(self) -> bool:
        return " / d " in self.name


@dataclass(frozen=True)
class Case:
    """value, derivative: the largest relative errors that are right."""

    key: str
    about: str
    settings: str
    value: float
    derivative: float
    slow: bool
    measure: Callable[[], list[Figure]]


CASES: dict[str, Case] = {}


def case(
    key: str, about: str, settings: str, value: float, derivative: float, slow: bool = False
) -> Callable[[Callable[[], list[Figure]]], Callable[[], list[Figure]]]:
    """Enters a function that measures figures among the cases."""

    def enter(measure: Callable[[], list[Figure]]) -> Callable[[], list[Figure]]:
        CASES[key] = Case(key, about, settings, value, derivative, slow, measure)
        return measure

    return enter


def slope(f: Measure, at: Mapping[str, float], name: str, step: float = 1e-3) -> float:
    """df / d name, by differences of fourth order of a closed form."""
    d = step * (abs(at[name]) or 1.0)
    moved = [f(**{**at, name: at[name] + k * d}) for k in (-2, -1, 1, 2)]
    return (moved[0] - 8 * moved[1] + 8 * moved[2] - moved[3]) / (12 * d)


def compared(
    name: str, exact: Measure, at: Mapping[str, float], found: float, derivatives: Mapping[str, float]
) -> list[Figure]:
    """A quantity and its derivatives beside those of exact(**at)."""
    figures = [Figure(name, exact(**at), found)]
    return figures + [Figure(f"d {name} / d {key}", slope(exact, at, key), d) for key, d in derivatives.items()]


@dataclass
class Reading:
    """A number that a run gives, and its derivative by the frames (f, n, ...) of a field."""

    value: float
    by: np.ndarray

    def __add__(self, other: Reading) -> Reading:
        return Reading(self.value + other.value, self.by + other.by)

    def __sub__(self, other: Reading) -> Reading:
        return self + -1.0 * other

    def __rmul__(self, factor: float) -> Reading:
        return Reading(factor * self.value, factor * self.by)

    def log(self) -> Reading:
        return Reading(float(np.log(np.abs(self.value))), self.by / self.value)


class Watched:
    """A run under a tape, all of whose steps are seen; frame k is at (k + 1) h.  state: where it begins, if not as the
    model says; back: with velocities half a step back, as scenes do."""

    def __init__(
        self, solver: sim.Solver, steps: int, h: float, field: str = "body_q", every: int = 1,
        state: sim.State | None = None, back: bool = False,
    ) -> None:  # fmt: skip
        self.model, self.h, self.start = solver.model, h * every, state
        with sim.Tape() as self.tape:
            begin = state or self.model.state()
            if back:
                sim.LeapfrogStart(solver).apply(begin, h)
            run = sim.rollout(solver, begin, steps, h, frame_every=every)
        self.final, self.frames = run.final, getattr(run, field)
        self.host = self.frames.numpy().astype(np.float64)

    def read(
        self, of: Sequence[Seen], first: int, count: int = 1, f: Callable[[np.ndarray], Any] = lambda a: a[0, 0]
    ) -> Reading:
        """f of the numbers a[frame, j] that are seen in some frames from `first` on.  Its derivative by these is exact
        (the step is imaginary), theirs by the frame is a difference."""
        seen = np.array([[one(frame) for one in of] for frame in self.host[first : first + count]])
        by, step = np.zeros_like(self.host), 1e-6
        for k, j in np.ndindex(*seen.shape):
            nudged = seen.astype(complex)
            nudged[k, j] += 1e-30j
            weight, frame = f(nudged).imag * 1e30, self.host[first + k].copy()
            for where in np.ndindex(*frame.shape):
                given, moved = frame[where], []
                for side in (-1, 1):
                    frame[where] = given + side * step
                    moved.append(of[j](frame))
                frame[where] = given
                by[first + k, *where] += weight * (moved[1] - moved[0]) / (2 * step)
        return Reading(float(f(seen)), by)

    def last(self, seen: Seen) -> Reading:
        """What is seen in the last frame."""
        return self.read([seen], len(self.host) - 1)

    def passage(self, seen: Seen, number: int = 0) -> Reading:
        """The time at which what is seen is zero for the first, second, ... time."""
        series = np.array([seen(frame) for frame in self.host])
        k = int(np.flatnonzero(series[1:] * series[:-1] < 0)[number])
        return self.read([seen], k, 2, lambda a: self.h * (k + 1 + a[0, 0] / (a[0, 0] - a[1, 0])))

    def extreme(self, seen: Seen, number: int = 0, at: Seen | None = None) -> tuple[Reading, Reading]:
        """The time of the first, second, ... extreme of what is seen, and the extreme; or what `at` sees then.  By
        parabolas through three frames."""
        series = np.array([seen(frame) for frame in self.host])
        rate = np.diff(series)
        k = int(np.flatnonzero(rate[1:] * rate[:-1] < 0)[number])

        def place(a: np.ndarray) -> Any:
            return 0.5 * (a[0, 0] - a[2, 0]) / (a[0, 0] - 2 * a[1, 0] + a[2, 0])

        def value(a: np.ndarray) -> Any:
            p, (left, middle, right) = place(a), a[:, -1]
            return middle + 0.5 * p * (right - left) + 0.5 * p * p * (left - 2 * middle + right)

        of = [seen] if at is None else [seen, at]
        return self.read([seen], k, 3, lambda a: self.h * (k + 2 + place(a))), self.read(of, k, 3, value)

    def by(self, reading: Reading, *paths: str) -> list[np.ndarray]:
        """Derivatives of a reading by material values, or by fields of the state at the start ("state.body_f")."""
        self.tape.zero()
        self.tape.backward(grads={self.frames: sim.array(reading.by, dtype=self.frames.dtype)})
        return [self._value(path).grad.numpy().astype(np.float64).copy() for path in paths]

    def _value(self, path: str) -> Any:
        owner, _, name = path.partition(".")
        return getattr(self.start, name) if owner == "state" else self.model[path]


def extrapolated(measure: Callable[[float], list[Figure]], h: float) -> list[Figure]:
    """Figures at steps h and h / 2, to none: of first order."""
    coarse, fine = measure(h), measure(h / 2)
    return [Figure(a.name, a.exact, 2 * b.found - a.found) for a, b in zip(coarse, fine, strict=True)]
