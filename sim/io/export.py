"""A run in other formats: glTF, npz, csv, mp4."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from sim.io.gltf import finite_frames, glb
from sim.io.recording import Recording
from sim.io.recording_files import write_recording
from sim.io.report import ReportData, write_report
from sim.io.run_folder import RunFolderError, npz_bytes, write_atomically
from sim.io.scenery import Shown
from sim.io.video import FASTEST, pictures, write_mp4

PLAYER, REPORT = "player.html", "report.html"


def page(run: Shown) -> Path:
    """The page to look at a run: its report, or one with nothing but the player."""
    report = run.folder / REPORT
    if report.is_file():
        return report
    return write_report(run.folder / PLAYER, ReportData(run.scenery.name, takes=[run.take(name) for name in run.takes]))


def export_run(
    run: Shown,
    kind: str,
    out: str | os.PathLike[str] | None = None,
    experiments: Sequence[str] = (),
    every: int = 1,
    size: tuple[int, int] = (640, 480),
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Path]:
    """Write a run as `glb`, `npz`, `csv` or `mp4`; returns the files.

    out: a file, where there is one to write, or a folder; default: the run folder.  experiments: which; default all.
    every: only each so-many-th recorded frame.  size: of an mp4, (width, height) in pixels.
    progress: told of every frame of an mp4: name of the file, frames done, frames in all.

    * glb: one file for each experiment, with shapes and an animation.
    * npz: one file: `<experiment>` (frames, particles, 3) [m] and `<experiment>_time` [s]; `<experiment>.<markers>`;
      `<body>.points`, `.weights`, `.triangles`, `.segments` as in `sim.io.Body`.
    * csv: for each experiment and set of markers one file, as `load_recording` reads it; all particles as `points`
      where the scene has no markers.
    * mp4: one film for each experiment, in real time.
    """
    names = list(run.takes) if not experiments else list(experiments)
    for name in names:
        if name not in run.takes:
            raise RunFolderError(f"the run has no experiment `{name}`", f"there are: {', '.join(run.takes)}")
    if kind == "mp4" and (size[0] % 2 or size[1] % 2 or min(size) < 16):
        raise RunFolderError(
            f"a film of {size[0]} x {size[1]} pixels", "width and height have to be even, and 16 or more"
        )
    takes = {name: _thinned(run, name, every) for name in names}
    stem = run.scenery.name
    writers: dict[str, Callable[[Path], None]]
    if kind == "npz":
        writers = {f"{stem}.npz": partial(_npz, run, takes)}
    elif kind == "csv":
        writers = {
            f"{stem}.{name}.{markers}.csv": partial(_csv, recording)
            for name, take in takes.items()
            for markers, recording in _followed(run, take).items()
        }
    elif kind == "glb":
        writers = {f"{stem}.{name}.glb": partial(_glb, run, name, take) for name, take in takes.items()}
    elif kind == "mp4":
        writers = {f"{stem}.{name}.mp4": partial(_mp4, run, name, take, size, progress) for name, take in takes.items()}
    else:
        raise RunFolderError(f"there is no format `{kind}`", "choose glb, npz, csv or mp4")
    files = _places(run, kind, out, list(writers))
    for path, write in zip(files, writers.values(), strict=True):
        write(path)
    return files


def _places(run: Shown, kind: str, out: str | os.PathLike[str] | None, names: list[str]) -> list[Path]:
    """Where the files go; makes the folder."""
    place = run.folder if out is None else Path(out)
    single = place.suffix == f".{kind}"
    if single and len(names) > 1:
        raise RunFolderError(
            f"{len(names)} files do not fit into {place}: {', '.join(names)}",
            "name a folder, or choose one with --experiment",
        )
    folder = place.parent if single else place
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFolderError(
            f"cannot write into {folder}: {error.strerror or error}", "choose another --out"
        ) from error
    return [place] if single else [folder / name for name in names]


def _thinned(run: Shown, name: str, every: int) -> Recording:
    """The frames of an experiment that are wanted, up to where the simulation broke down."""
    whole = run.takes[name]
    positions = finite_frames(whole.positions)[::every]
    if not len(positions):
        raise RunFolderError(f"`{name}` has no finite frame: the simulation broke down", "there is nothing to export")
    return Recording(positions, whole.time[::every][: len(positions)])


def _followed(run: Shown, take: Recording) -> dict[str, Recording]:
    markers = {name: Recording(places.at(take.positions), take.time) for name, places in run.scenery.markers.items()}
    return markers or {"points": take}


def _npz(run: Shown, takes: dict[str, Recording], path: Path) -> None:
    arrays: dict[str, np.ndarray] = {}
    for name, take in takes.items():
        arrays |= {name: take.positions, f"{name}_time": take.time}
        arrays |= {f"{name}.{markers}": places.at(take.positions) for markers, places in run.scenery.markers.items()}
    for b in run.scenery.bodies:
        arrays |= {f"{b.name}.{key}": getattr(b, key) for key in ("points", "weights", "triangles", "segments")}
    write_atomically(path, npz_bytes(arrays))


def _csv(recording: Recording, path: Path) -> None:
    write_recording(path, points=recording)


def _glb(run: Shown, name: str, take: Recording, path: Path) -> None:
    write_atomically(path, glb(run.scenery, name, take))


def _mp4(
    run: Shown,
    name: str,
    take: Recording,
    size: tuple[int, int],
    progress: Callable[[str, int, int], None] | None,
    path: Path,
) -> None:
    fps = 1.0 / take.interval if take.interval > 0 else 1.0
    skip = max(1, int(np.ceil(fps / FASTEST - 1e-6)))
    shown = Recording(take.positions[::skip], take.time[::skip])

    def frames() -> Iterator[np.ndarray]:
        for done, picture in enumerate(pictures(run, name, shown, size), start=1):
            yield picture
            if progress is not None:
                progress(path.name, done, shown.frame_count)

    write_mp4(path, frames(), fps / skip)
