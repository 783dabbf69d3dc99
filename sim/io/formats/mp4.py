"""mp4: films."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from sim.io.formats.base import ExportFormat, ExportJob, Write
from sim.io.moving import Frames
from sim.io.run_folder import RunFolderError
from sim.io.video import FASTEST, pictures, write_mp4


class Mp4(ExportFormat):
    """A film: one for each experiment, in real time."""

    name = "mp4"
    help = "a film"
    extra = "video"

    def files(self, job: ExportJob) -> dict[str, Write]:
        """A file for each experiment."""
        width, height = job.size
        if width % 2 or height % 2 or min(job.size) < 16:  # H.264 halves the resolution of colours
            raise RunFolderError(
                f"a film of {width} x {height} pixels", "width and height have to be even, and 16 or more"
            )
        return {f"{job.stem}.{name}.mp4": partial(_write, job, name, take) for name, take in job.takes.items()}


def _write(job: ExportJob, name: str, take: Frames, path: Path) -> None:
    fps = 1.0 / take.interval if take.interval > 0 else 1.0
    skip = max(1, int(np.ceil(fps / FASTEST - 1e-6)))
    shown = take.every(skip)

    def frames() -> Iterator[np.ndarray]:
        for done, picture in enumerate(pictures(job.run, name, shown, job.size), start=1):
            yield picture
            if job.progress is not None:
                job.progress(path.name, done, shown.frame_count)

    write_mp4(path, frames(), fps / skip)
