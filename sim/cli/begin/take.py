"""The recording that a new scene is made for: its marks, and what the scene says of it."""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim.cli.begin.layout import Marks, number
from sim.cli.verbs.import_recording import choose_markers
from sim.cli.verbs.modules import UsageError
from sim.io import Recording, load_recording
from sim.io.readers.about import noise, suggested_start

LONGEST = 2.0
"""So much of a take [s] a new scene compares with: longer ones take longer."""
FASTEST = 120.0
"""At most so many frames per second [Hz] are compared."""
LEAST_NOISE = 1e-4
"""No marker is known better [m]."""


@dataclass(frozen=True, eq=False)
class Begun:
    """A recording, from the frame at which its experiment begins.

    recording: the markers that are seen in that frame.  duration [s] and fps [Hz]: of the experiment.  notes: what
    somebody should know of the choice.
    """

    recording: Recording
    frame: int
    duration: float
    fps: float
    notes: tuple[str, ...]

    @classmethod
    def read(cls, options: argparse.Namespace) -> Begun:
        """From `--from FILE` and what is said of it; UsageError or RecordingError where nothing can begin with it."""
        file = options.take
        recording = load_recording(
            file, options.key, rate=options.rate, unit=options.unit, up=options.up, axes=_axes(options),
        )  # fmt: skip
        if options.markers is not None:
            recording = choose_markers(recording, options.markers)
        notes: list[str] = []
        frame = suggested_start(recording)
        if frame is None:
            seen = np.isfinite(recording.positions[..., 0])
            frame = int(np.argmax(seen.sum(axis=1)))
            unseen = [label for label, there in zip(recording.labels, seen[frame], strict=True) if not there]
            recording = recording.select(np.flatnonzero(seen[frame]).tolist())
            notes.append(f"no frame sees all markers; frame {frame} sees the most: without {', '.join(unseen)}")
        left = float(recording.time[-1] - recording.time[frame])
        if left <= 0:
            raise UsageError(
                f"{file}: nothing follows frame {frame}, where an experiment might start: one pose tells no motion"
            )
        rate = recording.rate
        rate = round(rate) if abs(rate - round(rate)) < 1e-3 * rate else rate  # times are often rounded
        fps = rate / np.ceil(rate / FASTEST - 1e-6)
        duration = max(np.floor(min(left, LONGEST) * fps + 1e-6), 1.0) / fps
        if left > LONGEST:
            notes.append(f"the first {LONGEST:g} s of {left:.4g} s are compared: `time.duration` has the rest")
        return cls(recording, frame, float(duration), float(fps), tuple(notes))

    @property
    def marks(self) -> Marks:
        """Where the markers are in the first frame, and how they go on."""
        x = self.recording.positions[self.frame :]
        travel = np.nanmax(np.linalg.norm(x - x[0], axis=2), axis=0)
        return Marks(x[0], travel, float(np.nanmin(self.recording.positions[..., 1])))

    @property
    def noise(self) -> float:
        """The standard deviation of a coordinate to begin with [m]."""
        return max(float(f"{noise(self.recording):.1g}"), LEAST_NOISE)

    def target(self, options: argparse.Namespace, folder: Path, clock: bool = True) -> str:
        """`target` of an experiment, for a scene in `folder`.  clock: whether its offset can be told from the rest."""
        rows = [f"file: {plain(_relative(options.take, folder))}"]
        for name in ("key", "up"):
            rows += [f"{name}: {plain(getattr(options, name))}"] if getattr(options, name) is not None else []
        rows += [f"axes: [{', '.join(_axes(options) or [])}]"] if options.axes is not None else []
        rows += [f"rate: {options.rate:g}"] if options.rate is not None else []
        rows += [f"unit: {options.unit:g}          # m"] if options.unit is not None else []
        rows += [
            f"start: frame {self.frame}                # t = 0: the last one before motion begins",
            f"markers: {{seen: [{', '.join(self._columns())}]}}",
            f"noise: {1e3 * self.noise:g} mm                  # of a coordinate: by the second differences, at most",
        ]
        if clock:
            more = "are its axes off too: {time: true, frame: true}"
            rows.append(f"align: {{time: true}}              # its clock may be late; {more}")
        return "\n".join(rows)

    def _columns(self) -> list[str]:
        """Names for YAML; numbered markers by their number."""
        return [label if label.isdigit() else plain(label) for label in self.recording.labels]


def place_rows(points: np.ndarray, labels: tuple[str, ...]) -> str:
    """A list of places, a line each, with the names of what is there."""
    return "\n".join(
        f"- [{', '.join(number(v) for v in x)}]   # {name}" for x, name in zip(points, labels, strict=True)
    )


def plain(text: str) -> str:
    """A text for YAML: in quotes unless it is a word."""
    word = re.fullmatch(r"[A-Za-z_][\w./-]*", text) and text.lower() not in (
        "y",
        "n",
        "yes",
        "no",
        "on",
        "off",
        "true",
        "false",
        "null",
    )
    return text if word else "'" + text.replace("'", "''") + "'"


def _axes(options: argparse.Namespace) -> list[str] | None:
    return None if options.axes is None else [axis.strip() for axis in options.axes.split(",")]


def _relative(file: Path, folder: Path) -> str:
    """From the folder of the scene, which has to hold it."""
    path = os.path.relpath(file.resolve(), folder.resolve())
    if path.startswith(".."):
        raise UsageError(
            f"{file} lies outside of {folder}, and a scene reads files of its own folder\n"
            f"  write the scene beside the recording: -o {file.parent / 'NAME.yaml'}"
        )
    return Path(path).as_posix()
