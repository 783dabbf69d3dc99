"""glb: animated 3-D files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from sim.io.formats.base import ExportFormat, ExportJob, Write
from sim.io.gltf import glb
from sim.io.moving import Frames
from sim.io.run_folder import write_atomically


class Glb(ExportFormat):
    """An animated 3-D file (glTF): one for each experiment, with its shapes."""

    name = "glb"
    help = "animated 3-D file"

    def files(self, job: ExportJob) -> dict[str, Write]:
        """A file for each experiment."""
        return {f"{job.stem}.{name}.glb": partial(_write, job, name, take) for name, take in job.takes.items()}


def _write(job: ExportJob, name: str, take: Frames, path: Path) -> None:
    write_atomically(path, glb(job.run.scenery, name, take))
