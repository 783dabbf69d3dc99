"""A run in other formats, and the page to look at it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from sim.io.formats import FORMATS
from sim.io.formats.base import ExportJob
from sim.io.moving import Frames
from sim.io.report import ReportData, write_report
from sim.io.run_folder import RunFolderError
from sim.io.scenery import Shown

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
    """Write a run in a format of `sim.io.formats`: `glb`, `npz`, `csv` or `mp4`; returns the files.

    out: a file, where there is one to write, or a folder; default: the run folder.  experiments: which; default all.
    every: only each so-many-th recorded frame.  size: of an mp4, (width, height) in pixels.
    progress: told of every frame of an mp4: name of the file, frames done, frames in all.
    """
    chosen = FORMATS.get(kind)
    if chosen is None:
        *names, last = FORMATS
        raise RunFolderError(f"there is no format `{kind}`", f"choose {', '.join(names)} or {last}")
    names = list(experiments) or list(run.takes)
    for name in names:
        if name not in run.takes:
            raise RunFolderError(f"the run has no experiment `{name}`", f"there are: {', '.join(run.takes)}")
    files = chosen.files(ExportJob(run, {name: _thinned(run, name, every) for name in names}, size, progress))
    paths = _places(run, kind, out, list(files))
    for path, write in zip(paths, files.values(), strict=True):
        write(path)
    return paths


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


def _thinned(run: Shown, name: str, every: int) -> Frames:
    """The frames of an experiment that are wanted, up to where the simulation broke down."""
    whole = run.takes[name]
    if not whole.finite_frames:
        raise RunFolderError(f"`{name}` has no finite frame: the simulation broke down", "there is nothing to export")
    return whole.first(whole.finite_frames).every(every)
