"""csv: markers as recordings, poses of rigid bodies."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sim.io.formats.base import ExportFormat, ExportJob, Write
from sim.io.moving import Frames
from sim.io.recording import Recording
from sim.io.recording_files import write_recording
from sim.io.run_folder import write_atomically

QUATERNION = ("qx", "qy", "qz", "qw")


class Csv(ExportFormat):
    """One file for each experiment and set of markers, as `load_recording` reads it; all particles as `points` where
    the scene has no markers.  Where there are rigid bodies one file more, `bodies`: their poses."""

    name = "csv"
    help = "markers, poses of bodies"

    def files(self, job: ExportJob) -> dict[str, Write]:
        """A file for each experiment and set of markers."""
        out: dict[str, Write] = {}
        for name, take in job.takes.items():
            for markers, recording in _followed(job, take).items():
                out[f"{job.stem}.{name}.{markers}.csv"] = partial(_write, recording)
            if take.body_q.size:
                out[f"{job.stem}.{name}.bodies.csv"] = partial(_write_poses, job.run.scenery.labels, take)
        return out


def _followed(job: ExportJob, take: Frames) -> dict[str, Recording]:
    """The markers of a take."""
    tables = job.run.scenery.markers
    markers = {name: Recording(places.over(take), take.time) for name, places in tables.items()}
    return markers or ({"points": Recording(take.positions, take.time)} if take.positions.size else {})


def _write(recording: Recording, path: Path) -> None:
    write_recording(path, points=recording)


def _write_poses(labels: Sequence[str], take: Frames, path: Path) -> None:
    """`time, <body>.x, .y, .z, .qx, .qy, .qz, .qw`: origins [m] and unit quaternions, a row for each frame."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["time", *(f"{label}.{key}" for label in labels for key in ("x", "y", "z", *QUATERNION))])
    for time, poses in zip(take.time.tolist(), take.body_q, strict=True):
        writer.writerow([repr(time), *map(repr, poses.ravel().tolist())])
    write_atomically(path, buffer.getvalue())
