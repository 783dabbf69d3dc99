"""usd: scenes for film and robotics tools."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from sim.io.formats.base import ExportFormat, ExportJob, Write
from sim.io.moving import Frames
from sim.io.run_folder import write_atomically
from sim.io.usda import usda


class Usd(ExportFormat):
    """USD as text (.usda) with time samples: one for each experiment, with its shapes."""

    name = "usd"
    help = "animated scene for Blender, Houdini, Omniverse (.usda)"

    def files(self, job: ExportJob) -> dict[str, Write]:
        """A file for each experiment."""
        return {f"{job.stem}.{name}.usda": partial(_write, job, name, take) for name, take in job.takes.items()}


def _write(job: ExportJob, name: str, take: Frames, path: Path) -> None:
    write_atomically(path, usda(job.run.scenery, name, take))
