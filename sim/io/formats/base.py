"""What an export format is, and what it is given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sim.io.moving import Frames
from sim.io.scenery import Shown

Write = Callable[[Path], None]
"""Writes one file there."""


@dataclass(frozen=True, eq=False)
class ExportJob:
    """What is asked for: of a run the `takes` of some experiments, thinned and up to where they are finite.

    size: of pictures, (width, height) in pixels.  progress: told of slow files, see `export_run`.
    """

    run: Shown
    takes: Mapping[str, Frames]
    size: tuple[int, int]
    progress: Callable[[str, int, int], None] | None = None

    @property
    def stem(self) -> str:
        """What the names of all files begin with."""
        return self.run.scenery.name


class ExportFormat(ABC):
    """A format that a run can be written in.

    name: as on the command line, and the suffix of its files.  help: a few words for the command line; empty: the name
    says it.  extra: the extra of our package that it needs.
    """

    name: str
    help: str = ""
    extra: str = ""

    @abstractmethod
    def files(self, job: ExportJob) -> Mapping[str, Write]:
        """Name of each file -> how it is written.  Raises RunFolderError for what the format cannot hold."""

    @property
    def described(self) -> str:
        """`name: help`, with the extra that it needs."""
        return f"{self.name}: {self.help}" + (f" (needs the extra [{self.extra}])" if self.extra else "")
