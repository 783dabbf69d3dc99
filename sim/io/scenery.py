"""What a run looks like, as plain data in its folder: bodies, shapes, recordings.  Players and exports need no model.

`geometry.npz` holds what does not move from frame to frame, `trajectory.npz` where particles and rigid bodies are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sim.files import Archive, read_bytes
from sim.io.moving import Body, Drawn, Frames, Rigid, read_frames
from sim.io.moving import body as body
from sim.io.player import COLORS, Layer, Shape, Take
from sim.io.recording import Recording
from sim.io.run_folder import RunFolder, RunFolderError, to_json

GEOMETRY, TRAJECTORY, RESULT = "geometry.npz", "trajectory.npz", "result.json"
BODY_KEYS, RIGID_KEYS = ("points", "weights", "triangles", "segments"), ("bodies", "points", "triangles", "segments")
MALFORMED = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
"""What reading a spoilt file may raise; FileError and RecordingError are ValueErrors."""


@dataclass(frozen=True, eq=False)
class Scenery:
    """What does not move from frame to frame.

    up: (3,) of unit length.  shapes: experiment -> what is collided with.  markers: name -> the places that are
    observed.  targets: experiment -> markers -> where they were seen (frames, markers, 3) [m].
    rigid: what is drawn on rigid bodies; joints: the places and axes where they are joined; labels: the name of each
    rigid body.
    """

    name: str
    bodies: Sequence[Body]
    up: tuple[float, float, float] = (0.0, 1.0, 0.0)
    shapes: Mapping[str, Sequence[Shape]] = field(default_factory=dict)
    markers: Mapping[str, Body] = field(default_factory=dict)
    targets: Mapping[str, Mapping[str, Recording]] = field(default_factory=dict)
    rigid: Sequence[Rigid] = ()
    joints: Rigid | None = None
    labels: Sequence[str] = ()

    @property
    def drawn(self) -> list[Drawn]:
        """All that is drawn, the joints last."""
        return [*self.bodies, *self.rigid, *([] if self.joints is None else [self.joints])]

    def arrays(self) -> dict[str, np.ndarray]:
        """The content of geometry.npz."""
        out: dict[str, np.ndarray] = {}
        joints = [] if self.joints is None else [self.joints]
        kinds: dict[str, Sequence[Drawn]] = {
            "body": self.bodies, "markers": list(self.markers.values()), "rigid": self.rigid, "joints": joints,
        }  # fmt: skip
        for kind, things in kinds.items():
            for thing in things:
                for key in RIGID_KEYS if isinstance(thing, Rigid) else BODY_KEYS:
                    out[f"{kind}.{thing.name}.{key}"] = getattr(thing, key)
        for experiment, recordings in self.targets.items():
            for name, recording in recordings.items():
                out[f"target.{experiment}.{name}"] = recording.positions
                out[f"target.{experiment}.{name}.time"] = recording.time
        about: dict[str, Any] = {
            "name": self.name,
            "up": self.up,
            "bodies": [b.name for b in self.bodies],
            "markers": list(self.markers),
            "shapes": {e: [asdict(s) for s in shapes] for e, shapes in self.shapes.items()},
            "targets": {e: list(names) for e, names in self.targets.items()},
        }
        if self.labels or self.rigid:
            about |= {"rigid": [r.name for r in self.rigid], "joints": [r.name for r in joints], "labels": self.labels}
        out["about"] = np.array(to_json(about))
        return out


def read_scenery(arrays: Archive) -> Scenery:
    """The opposite of `Scenery.arrays`.  Raises KeyError or ValueError for what is no geometry.npz."""
    about = json.loads(str(arrays["about"]))

    def thing(kind: str, name: str) -> Body:
        return Body(name, *(arrays[f"{kind}.{name}.{key}"] for key in BODY_KEYS))

    def rigid(kind: str, name: str) -> Rigid:
        return Rigid(name, *(arrays[f"{kind}.{name}.{key}"] for key in RIGID_KEYS))

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
        [rigid("rigid", name) for name in about.get("rigid", [])],
        next((rigid("joints", name) for name in about.get("joints", [])), None),
        about.get("labels", []),
    )


@dataclass(frozen=True, eq=False)
class Shown:
    """A run as it is shown: its scenery, and for each experiment where everything is."""

    folder: Path
    scenery: Scenery
    takes: Mapping[str, Frames]

    def take(self, experiment: str) -> Take:
        """One experiment for the player."""
        positions, body_q = self.takes[experiment].positions, self.takes[experiment].body_q
        layers = []
        for b in self.scenery.bodies:
            surface, links = len(b.triangles) > 0, len(b.segments) > 0
            triangles, segments = b.triangles if surface else None, b.segments if links else None
            size, color = 0.0 if surface else 6.0, COLORS["after"]
            layers.append(Layer(b.name, b.at(positions), triangles, segments, point_size=size, color=color))
        layers += [rigid_layer(r.name, r, body_q) for r in self.scenery.rigid]
        if self.scenery.joints is not None:
            layers.append(rigid_layer("joints", self.scenery.joints, body_q, color=COLORS["joint"]))
        layers += [
            Layer(f"target {name}", self.target(experiment, name), point_size=7, color=COLORS["target"], trail=True)
            for name in self.scenery.targets.get(experiment, {})
        ]
        times = self.takes[experiment].time.tolist()
        return Take(experiment, layers, self.scenery.shapes.get(experiment, ()), times, self.scenery.up)

    def target(self, experiment: str, markers: str) -> np.ndarray:
        """Where markers were seen, at the frames of the trajectory (frames, markers, 3) [m]; nan: not seen."""
        return self.scenery.targets[experiment][markers].sample(self.takes[experiment].time)


def rigid_layer(name: str, rigid: Rigid, body_q: np.ndarray, **look: Any) -> Layer:
    """A layer of what is drawn on rigid bodies, from poses of all bodies (frames, bodies, 7); look: as of `Layer`."""
    own = np.unique(rigid.bodies[rigid.bodies >= 0])
    owners = np.where(rigid.bodies >= 0, np.searchsorted(own, rigid.bodies), -1)
    surface, links = len(rigid.triangles) > 0, len(rigid.segments) > 0
    return Layer(
        name,
        rigid.points[None],
        rigid.triangles if surface else None,
        rigid.segments if links else None,
        **{"point_size": 0.0 if surface or links else 6.0, **look},
        poses=body_q[:, own],
        owners=owners,
    )


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
        takes = read_frames(Archive(read_bytes(trajectory_file)))
        for take in takes.values():
            for thing in scenery.drawn:
                thing.over(take.first(1))  # every point and body that is drawn has to be there
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
