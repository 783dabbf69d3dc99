"""What a recording holds, in numbers: gaps, noise, when motion begins, and where an experiment might start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.io.recording import Recording

MOVED = 8.0
"""Motion begins where a marker is so many standard deviations of its noise from where it began."""
LEAST_MOVED = 1e-3
"""And this part of the extent of the recording at least."""


@dataclass(frozen=True)
class Gaps:
    """Of one marker: in how many frames it was not seen, and the longest time [s] between two frames that saw it, with
    a frame without it between them; of all the recording where no frame saw it on one of the sides."""

    label: str
    missing: int
    longest: float


def gaps(recording: Recording) -> list[Gaps]:
    """Of every marker that was not seen in every frame."""
    unseen = np.isnan(recording.positions[..., 0])
    return [
        Gaps(label, int(column.sum()), longest_gap(column, recording.time))
        for label, column in zip(recording.labels, unseen.T, strict=True)
        if column.any()
    ]


def longest_gap(unseen: np.ndarray, time: np.ndarray) -> float:
    """The longest time [s] from a frame that is there to the next one, where frames (n,) bool between them are not."""
    seen = np.flatnonzero(~unseen)
    ends = np.concatenate([[0], seen, [len(unseen) - 1]])
    skipped = np.diff(ends) > np.concatenate([[0], np.ones(max(len(seen) - 1, 0)), [0]])
    return float((time[ends[1:]] - time[ends[:-1]])[skipped].max(initial=0.0))


def noise(recording: Recording) -> float:
    """At most so large is the standard deviation of one coordinate [m]: by the median of the second differences, which
    hold what accelerates too; 0 where there are too few frames."""
    second = np.abs(np.diff(recording.positions, n=2, axis=0))
    second = second[np.isfinite(second)]
    return float(np.median(second) / (0.6745 * np.sqrt(6.0))) if second.size else 0.0


def complete_frames(recording: Recording) -> np.ndarray:
    """Numbers of the frames in which all markers are seen."""
    return np.flatnonzero(np.isfinite(recording.positions[..., 0]).all(axis=1))


def motion_begins(recording: Recording) -> int | None:
    """The first frame in which a marker has left the place where it was first seen; None if none does."""
    x = recording.positions
    seen = np.isfinite(x[..., 0])
    first = x[np.argmax(seen, axis=0), np.arange(recording.marker_count)]
    moved = np.linalg.norm(x - first, axis=2)
    known = x[seen]
    least = max(MOVED * noise(recording), LEAST_MOVED * float(np.ptp(known, axis=0).max()))
    away = np.where(seen, moved, 0.0).max(axis=1) > least
    return int(np.argmax(away)) if away.any() else None


def suggested_start(recording: Recording) -> int | None:
    """The last frame before motion begins in which all markers are seen, else the first such frame; None: there is
    none."""
    complete = complete_frames(recording)
    if not len(complete):
        return None
    before = complete[complete < (motion_begins(recording) or 0)]
    return int(before[-1] if len(before) else complete[0])
