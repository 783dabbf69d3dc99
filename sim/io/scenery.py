"""What a run looks like, as plain data in its folder: bodies, shapes, recordings.  Players and exports need no model.

`geometry.npz` holds what does not move from frame to frame, `trajectory.npz` where the particles are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from sim.files import Archive, read_bytes
from sim.io.player import COLORS, Layer, Shape, Take
from sim.io.recording import Recording
from sim.io.run_folder import RunFolder, RunFolderError, to_json

GEOMETRY, TRAJECTORY, RESULT = "geometry.npz", "trajectory.npz", "result.json"
MALFORMED = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
"""What reading a spoilt file may raise; FileError and RecordingError are ValueErrors."""

NO_TRIANGLES = np.zeros((0, 3), np.int32)
NO_SEGMENTS = np.zeros((0, 2), np.int32)


@dataclass(frozen=True, eq=False)
class Body:
    """Something to draw: place k is the sum over j of weights[k, j] times the position of particle points[k, j].

    points: (n, width) int32; weights: (n, width) float64; triangles (m, 3) and segments (k, 2) int32, of places.
    """

    name: str
    points: np.ndarray
    weights: np.ndarray
    triangles: np.ndarray = field(default_factory=NO_TRIANGLES.copy)
    segments: np.ndarray = field(default_factory=NO_SEGMENTS.copy)

    def at(self, positions: np.ndarray) -> np.ndarray:
        """Places (..., n, 3) from positions of all particles (..., particles, 3)."""
        return np.einsum("nk,...nkx->...nx", self.weights, positions[..., self.points, :])


def body(
    name: str, particles: np.ndarray, triangles: np.ndarray = NO_TRIANGLES, segments: np.ndarray = NO_SEGMENTS
) -> Body:
    """A body of particles themselves: their numbers (n,); triangles and segments count from the first of them."""
    points = np.asarray(particles, np.int32).reshape(-1, 1)
    return Body(name, points, np.ones(points.shape), triangles.astype(np.int32), segments.astype(np.int32))


@dataclass(frozen=True, eq=False)
class Scenery:
    """What does not move from frame to frame.

    up: (3,) of unit length.  shapes: experiment -> what is collided with.  markers: name -> the places that are
    observed.  targets: experiment -> markers -> where they were seen (frames, markers, 3) [m].  fps: experiment ->
    frames per second of the targets.
    """

    name: str
    bodies: Sequence[Body]
    up: tuple[float, float, float] = (0.0, 1.0, 0.0)
    shapes: Mapping[str, Sequence[Shape]] = field(default_factory=dict)
    markers: Mapping[str, Body] = field(default_factory=dict)
    targets: Mapping[str, Mapping[str, Recording]] = field(default_factory=dict)

    def arrays(self) -> dict[str, np.ndarray]:
        """The content of geometry.npz."""
        out: dict[str, np.ndarray] = {}
        for kind, things in (("body", self.bodies), ("markers", list(self.markers.values()))):
            for thing in things:
                for key in ("points", "weights", "triangles", "segments"):
                    out[f"{kind}.{thing.name}.{key}"] = getattr(thing, key)
        for experiment, recordings in self.targets.items():
            for name, recording in recordings.items():
                out[f"target.{experiment}.{name}"] = recording.positions
                out[f"target.{experiment}.{name}.time"] = recording.time
        about = {
            "name": self.name,
            "up": self.up,
            "bodies": [b.name for b in self.bodies],
            "markers": list(self.markers),
            "shapes": {e: [asdict(s) for s in shapes] for e, shapes in self.shapes.items()},
            "targets": {e: list(names) for e, names in self.targets.items()},
        }
        out["about"] = np.array(to_json(about))
        return out


def read_scenery(arrays: Archive) -> Scenery:
    """The opposite of `Scenery.arrays`.  Raises KeyError or ValueError for what is no geometry.npz."""
    about = json.loads(str(arrays["about"]))

    def thing(kind: str, name: str) -> Body:
        return Body(name, *(arrays[f"{kind}.{name}.{key}"] for key in ("points", "weights", "triangles", "segments")))

    targets = {
        e: {name: Recording(arrays[f"target.{e}.{name}"], arrays[f"target.{e}.{name}.time"]) for name in names}
        for e, names in about["targets"].items()
    }
    shapes = {e: [Shape(**shape) for shape in shapes] for e, shapes in about["shapes"].items()}
    x, y, z = about["up"]
    return Scenery(
        about["name"],
        [thing("body", name) for name in about["bodies"]],
        (x, y, z),
        shapes,
        {name: thing("markers", name) for name in about["markers"]},
        targets,
    )


@dataclass(frozen=True, eq=False)
class Shown:
    """A run as it is shown: its scenery, for each experiment positions of all particles (frames, n, 3) and times."""

    folder: Path
    scenery: Scenery
    takes: Mapping[str, Recording]

    def take(self, experiment: str) -> Take:
        """One experiment for the player."""
        positions = self.takes[experiment].positions
        layers = []
        for b in self.scenery.bodies:
            surface, links = len(b.triangles) > 0, len(b.segments) > 0
            triangles, segments = b.triangles if surface else None, b.segments if links else None
            size, color = 0.0 if surface else 6.0, COLORS["after"]
            layers.append(Layer(b.name, b.at(positions), triangles, segments, point_size=size, color=color))
        layers += [
            Layer(f"target {name}", self.target(experiment, name), point_size=7, color=COLORS["target"], trail=True)
            for name in self.scenery.targets.get(experiment, {})
        ]
        times = self.takes[experiment].time.tolist()
        return Take(experiment, layers, self.scenery.shapes.get(experiment, ()), times, self.scenery.up)

    def target(self, experiment: str, markers: str) -> np.ndarray:
        """Where markers were seen, at the frames of the trajectory (frames, markers, 3) [m]; nan: not seen."""
        return self.scenery.targets[experiment][markers].sample(self.takes[experiment].time)


def load_run(path: str | os.PathLike[str]) -> Shown:
    """A run folder, or the newest run below a folder of runs.  Raises RunFolderError where there is none."""
    folder = find_run(path)
    scenery_file, trajectory_file = folder / GEOMETRY, folder / TRAJECTORY
    missing = next((file.name for file in (scenery_file, trajectory_file) if not file.exists()), None)
    if missing is not None:
        raise RunFolderError(
            f"{folder} has no {missing}", "only a run that came to its end can be shown; run the scene again"
        )
    try:
        scenery = read_scenery(Archive(read_bytes(scenery_file)))
        archive = Archive(read_bytes(trajectory_file))
        names = [name for name in archive.names if f"{name}_time" in archive]
        takes = {name: Recording(archive[name], archive[f"{name}_time"]) for name in names}
    except MALFORMED as error:
        what = f"{folder}: {GEOMETRY} or {TRAJECTORY} cannot be read: {error}"
        raise RunFolderError(what, "run the scene again") from error
    return Shown(folder, scenery, takes)


def find_run(path: str | os.PathLike[str]) -> Path:
    """The run folder at a path: itself, or the newest of those one or two levels below (`runs/cloth`, `runs`)."""
    path = Path(path)
    if not path.is_dir():
        raise RunFolderError(f"there is no run folder {path}", "simopt run SCENE makes one below runs/")
    if (path / RESULT).is_file():
        return path
    results = [*path.glob(f"*/{RESULT}"), *path.glob(f"*/*/{RESULT}")]
    if not results:
        raise RunFolderError(f"there is no finished run in {path}", "name the folder that `simopt run` printed")
    return max(results, key=lambda file: file.stat().st_mtime_ns).parent


def write_scenery(folder: RunFolder, scenery: Scenery) -> Path:
    """Write geometry.npz."""
    return folder.write_npz(GEOMETRY, scenery.arrays())
