"""Recordings of marker positions over time: the targets of an identification, and what a run records."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.files import quoted

ROUNDED = 0.1
"""Intervals that differ by less than this part are those of a steady camera, with rounded times."""
SAME_TIME = 1e-6
"""Two times closer than this part of a frame interval are the same: 1/60 + 1/60 + ... and k/60 differ by rounding."""
EVEN = 2.0
"""How many times longer or shorter than the interval of a time one beside it may be, to be used for that time: of very
uneven ones noise would be made larger."""


class RecordingError(ValueError):
    """A recording that cannot be used: `what` is wrong and a `hint` what to do instead."""

    def __init__(self, what: str, hint: str = "") -> None:
        self.what, self.hint = what, hint
        super().__init__(f"{what}\n  {hint}" if hint else what)


@dataclass(frozen=True)
class Origin:
    """How a recording came from a file.

    format: name of what the file is.  unit: metres of its unit; axes: those of its axes that became our x, y, z;
    unit_from, axes_from: who said so.  notes: what was left out, or should be known.
    """

    format: str
    unit: float
    unit_from: str
    axes: tuple[str, ...]
    axes_from: str
    notes: tuple[str, ...]

    @property
    def told(self) -> str:
        """All of it in a sentence."""
        said = f"{self.format}; unit {self.unit:g} m ({self.unit_from}); axes {', '.join(self.axes)} ({self.axes_from})"
        return "; ".join([said, *self.notes])


@dataclass(frozen=True, eq=False)
class Recording:
    """Marker positions over time, checked when made.

    Attributes:
        positions: (frames, markers, 3) float64 [m]; a marker that was not seen is NaN in all three components.
        time: (frames,) float64 [s], strictly increasing; 0 is the start of the experiment.
        labels: (markers,) names.
        origin: of one that was loaded, how it came from its file.
    """

    positions: np.ndarray
    time: np.ndarray
    labels: tuple[str, ...] = ()
    origin: Origin | None = None

    def __post_init__(self) -> None:
        positions = np.array(self.positions, dtype=np.float64)
        time = np.array(self.time, dtype=np.float64)
        if positions.ndim != 3 or positions.shape[2] != 3:
            raise RecordingError(
                f"positions have the shape {positions.shape}, expected (frames, markers, 3)",
                "one marker over time is (frames, 1, 3)",
            )
        if positions.size == 0:
            raise RecordingError(f"the recording is empty: {positions.shape[0]} frames of {positions.shape[1]} markers")
        if np.isinf(positions).any():
            frame, marker = np.argwhere(np.isinf(positions).any(axis=2))[0]
            raise RecordingError(
                f"marker {marker} is infinite in frame {frame}", "write NaN where a marker was not seen"
            )
        positions[np.isnan(positions).any(axis=2)] = np.nan  # half a position cannot be compared: not seen
        if np.isnan(positions).all():
            raise RecordingError("all positions are NaN: no marker was seen in any frame")
        if time.shape != positions.shape[:1]:
            raise RecordingError(f"{time.size} times (shape {time.shape}) for {len(positions)} frames")
        bad = ~np.isfinite(time)
        bad[1:] |= ~(time[1:] > time[:-1])
        if bad.any():
            frame = int(np.argmax(bad))
            raise RecordingError(f"the time of frame {frame} ({time[frame]:g} s) does not come after the one before it")
        if not np.isfinite(time[-1] - time[0]):
            raise RecordingError(f"the times run from {time[0]:g} to {time[-1]:g} s: too far for numbers")
        labels = tuple(str(label) for label in self.labels) or tuple(str(i) for i in range(positions.shape[1]))
        if len(labels) != positions.shape[1]:
            raise RecordingError(f"{len(labels)} labels for {positions.shape[1]} markers")
        repeated = next((label for label, count in Counter(labels).items() if count > 1), None)
        if repeated is not None:
            raise RecordingError(f"two markers are called {quoted(repeated)}: a marker is chosen by its name")
        unfit = next((label for label in labels if not label or not label.isprintable()), None)
        if unfit is not None:
            raise RecordingError(f"{quoted(unfit)} is not the name of a marker")
        object.__setattr__(self, "positions", positions)
        object.__setattr__(self, "time", time)
        object.__setattr__(self, "labels", labels)

    @property
    def frame_count(self) -> int:
        """Number of frames."""
        return len(self.positions)

    @property
    def marker_count(self) -> int:
        """Number of markers."""
        return self.positions.shape[1]

    @property
    def unseen(self) -> int:
        """How many positions (marker and frame) are missing."""
        return int(np.isnan(self.positions[..., 0]).sum())

    @property
    def interval(self) -> float:
        """Typical time between two frames [s]: their median; 0 for a single frame."""
        return float(np.median(np.diff(self.time))) if self.frame_count > 1 else 0.0

    @property
    def rate(self) -> float:
        """Frames per second [Hz]; 0 for a single frame.  Where frames are even but for the rounding of their times,
        `0.0083, 0.0167, 0.0250`, that of all of them; else by the typical interval."""
        if self.frame_count < 2:
            return 0.0
        steps = np.diff(self.time)
        even = np.ptp(steps) < ROUNDED * self.interval
        return float((self.frame_count - 1) / (self.time[-1] - self.time[0])) if even else 1.0 / self.interval

    def sample(self, times: Any) -> np.ndarray:
        """Positions (len(times), markers, 3) [m] at `times` [s], between frames by the cubic through four of them.

        See `between_frames`.  A marker is NaN where one of the two frames around a time misses it (at a frame's own
        time only that frame counts), and at times up to one frame interval outside of the recording: a take of 120
        frames at 100 Hz may serve an experiment of 1.2 s.  Further outside is an error that names both durations.
        """
        times = np.atleast_1d(np.asarray(times, dtype=np.float64))
        slack = self.interval * (1.0 + SAME_TIME) + 1e-12
        if times.size and times.max() > self.time[-1] + slack:
            raise RecordingError(
                f"the recording ends at {self.time[-1]:g} s, the experiment needs {times.max():g} s",
                "shorten `time.duration`, or start the recording earlier",
            )
        if times.size and times.min() < self.time[0] - slack:
            raise RecordingError(
                f"the recording begins at {self.time[0]:g} s, the experiment needs {times.min():g} s",
                "set `start` to the time or frame of the recording that is t = 0",
            )
        values = between_frames(self.time, self.positions, times)
        tolerance = SAME_TIME * self.interval + 1e-12
        values[(times < self.time[0] - tolerance) | (times > self.time[-1] + tolerance)] = np.nan
        return values

    def off_between_frames(self, times: Any) -> float:
        """By about how much [m] `sample` is off at the middle between frames, root mean square; 0 where all of the
        times are those of frames."""
        return off_between_frames(self.time, self.positions, np.atleast_1d(np.asarray(times, dtype=np.float64)))

    def select(self, markers: Sequence[int | str]) -> Recording:
        """The recording of some markers only, chosen by column or by label, in the given order."""
        columns = [self._column(marker) for marker in markers]
        if not columns:
            raise RecordingError("the choice of markers is empty")
        if len(set(columns)) != len(columns):
            raise RecordingError(f"a marker is chosen twice: {list(markers)}")
        return Recording(self.positions[:, columns], self.time, tuple(self.labels[c] for c in columns))

    def from_time(self, start: float, before: float = 0.0) -> Recording:
        """The recording from `start` [s] on, with that moment as t = 0; a moment between two frames is interpolated.

        before: how long before it [s] frames are kept, at negative times, as far as there are any.
        """
        tolerance = SAME_TIME * self.interval
        if not self.time[0] - tolerance <= start <= self.time[-1] + tolerance:
            raise RecordingError(
                f"start {start:g} s lies outside of the recording ({self.time[0]:g} to {self.time[-1]:g} s)",
                "give a time or a frame of it",
            )
        later = self.time > start + tolerance
        earlier = (self.time < start - tolerance) & (self.time > start - before - self.interval) & (before > 0.0)
        time = np.concatenate([self.time[earlier] - start, [0.0], self.time[later] - start])
        positions = [self.positions[earlier], self.sample([start]), self.positions[later]]
        return Recording(np.concatenate(positions), time, self.labels)

    def _column(self, marker: int | str) -> int:
        if isinstance(marker, str):
            if marker in self.labels:
                return self.labels.index(marker)
            raise RecordingError(f"there is no marker `{marker}`", suggest(marker, self.labels, "markers"))
        if not -self.marker_count <= marker < self.marker_count:
            raise RecordingError(
                f"there is no marker column {marker}: the recording has {self.marker_count} markers",
                f"columns count from 0 to {self.marker_count - 1}",
            )
        return int(marker) % self.marker_count


def suggest(name: str, known: Sequence[str], kind: str) -> str:
    """`did you mean`, else the list of what there is."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    if close:
        return f"did you mean `{close[0]}`?"
    shown = ", ".join(list(known)[:12]) + (", ..." if len(known) > 12 else "")
    return f"{kind}: {shown}" if known and kind else ""


def between_frames(time: np.ndarray, x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """x (frames, columns, components) at `at` (n,), from the frames at `time` (frames,), by Lagrange's interpolation.

    A straight line cuts corners, by a h^2 / 8 of an acceleration a and an interval h: .5 mm at 50 Hz and 1 g.

    At the time of a frame the frame itself.  NaN where one of the two frames around is; of the two beside these only
    what is there counts.  Outside of the frames the first or last one.
    """
    place = _places(time, at)
    low = np.minimum(np.floor(place).astype(np.int64), max(len(time) - 2, 0))
    index = low[:, None] + np.arange(-1, 3)
    used = (index >= 0) & (index < len(time))
    index = np.clip(index, 0, len(time) - 1)
    t = time[index] - np.clip(at, time[0], time[-1])[:, None]
    apart = np.diff(t, axis=1)
    even = (EVEN * apart[:, [0, 2]] >= apart[:, [1]]) & (apart[:, [0, 2]] <= EVEN * apart[:, [1]])
    used[:, [0, 3]] &= even
    nodes = used[..., None] & ~np.isnan(x[index, :, 0])  # (n, 4, columns)
    nodes[:, 1] = True  # where one of the two is not seen, the place is not known
    nodes[:, 2] = used[:, [2]]
    out = np.zeros((len(at), *x.shape[1:]))
    for j in range(4):
        weight = np.ones(nodes[:, j].shape)
        for k in range(4):
            if k != j:
                step = t[:, j] - t[:, k]
                factor = np.divide(-t[:, k], step, out=np.ones_like(step), where=step != 0.0)
                weight *= np.where(nodes[:, k], factor[:, None], 1.0)
        out += np.where(nodes[:, j, :, None], weight[..., None] * x[index[:, j]], 0.0)
    exact = place == np.rint(place)
    out[exact] = x[place[exact].astype(np.int64)]
    return out


def off_between_frames(time: np.ndarray, x: np.ndarray, at: np.ndarray) -> float:
    """By about how much `between_frames` is off at the middle between frames, root mean square over all that is seen; 0
    where all times `at` are those of frames, or there are too few to tell.

    Every frame is compared with the cubic through those one and three before and after it.  Of what moves smoothly that
    is off by 2^4 times as much as with half the interval.
    """
    place = _places(time, at)
    if len(x) < 7 or np.array_equal(place, np.rint(place)):
        return 0.0
    off = x[3:-3] - (9.0 * (x[2:-4] + x[4:-2]) - x[:-6] - x[6:]) / 16.0
    seen = off[~np.isnan(off)]
    return float(np.sqrt(np.mean(seen**2))) / 16.0 if seen.size else 0.0


def _places(time: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Numbers of the frames at some times, between two of them a fraction."""
    place = np.interp(at, time, np.arange(len(time)))
    nearest = np.rint(place)
    return np.where(np.abs(place - nearest) < SAME_TIME, nearest, place)
