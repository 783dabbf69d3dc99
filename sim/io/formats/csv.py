"""csv: markers as recordings."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from sim.io.formats.base import ExportFormat, ExportJob, Write
from sim.io.recording import Recording
from sim.io.recording_files import write_recording


class Csv(ExportFormat):
    """One file for each experiment and set of markers, as `load_recording` reads it; all particles as `points` where
    the scene has no markers."""

    name = "csv"
    help = "markers"

    def files(self, job: ExportJob) -> dict[str, Write]:
        """A file for each experiment and set of markers."""
        return {
            f"{job.stem}.{name}.{markers}.csv": partial(_write, recording)
            for name, take in job.takes.items()
            for markers, recording in _followed(job, take).items()
        }


def _followed(job: ExportJob, take: Recording) -> dict[str, Recording]:
    """The markers of a take."""
    tables = job.run.scenery.markers
    markers = {name: Recording(places.at(take.positions), take.time) for name, places in tables.items()}
    return markers or {"points": take}


def _write(recording: Recording, path: Path) -> None:
    write_recording(path, points=recording)
