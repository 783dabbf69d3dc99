"""npz: all positions as arrays."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from sim.io.formats.base import ExportFormat, ExportJob, Write
from sim.io.run_folder import npz_bytes, write_atomically


class Npz(ExportFormat):
    """One file: `<experiment>` (frames, particles, 3) [m] and `<experiment>_time` [s]; `<experiment>.<markers>`;
    `<body>.points`, `.weights`, `.triangles`, `.segments` as in `sim.io.Body`."""

    name = "npz"

    def files(self, job: ExportJob) -> dict[str, Write]:
        """The one file."""
        return {f"{job.stem}.npz": partial(_write, job)}


def _write(job: ExportJob, path: Path) -> None:
    scenery, arrays = job.run.scenery, dict[str, np.ndarray]()
    for name, take in job.takes.items():
        arrays |= {name: take.positions, f"{name}_time": take.time}
        arrays |= {f"{name}.{markers}": places.at(take.positions) for markers, places in scenery.markers.items()}
    for b in scenery.bodies:
        arrays |= {f"{b.name}.{key}": getattr(b, key) for key in ("points", "weights", "triangles", "segments")}
    write_atomically(path, npz_bytes(arrays))
