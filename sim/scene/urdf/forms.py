"""What links look like and what they collide with: `visual` and `collision`, as forms of a scene."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from sim.files import near, quoted
from sim.geometry import UNPLACED, Placed
from sim.geometry.meshfile import FORMATS

TABLES = {"visual": "visuals", "collision": "shapes"}
"""Element of a link -> the key of a body."""

PACKAGE, FILE = "package://", "file://"


@dataclass(frozen=True, eq=False)
class UrdfForm:
    """A form on a link: the key of the body that it belongs to, its name there, place on the link, kind and sizes as in
    a scene; file: of a mesh."""

    table: str
    name: str
    kind: str
    size: str = ""
    origin: Placed = field(default_factory=lambda: UNPLACED)
    file: Path | None = None

    def sizes(self, folder: Path) -> str:
        """What a scene in a folder says of it."""
        if self.file is None:
            return self.size
        name = Path(os.path.relpath(self.file, folder)).as_posix().replace("\\", "\\\\").replace('"', '\\"')
        return f'file: "{name}"{self.size}'


def mesh_file(name: str, folder: Path, packages: Sequence[Path]) -> tuple[Path | None, str, str]:
    """The file that a URDF in a folder names; None, what is wrong and what to do.  packages: folders of packages, or
    folders that hold them."""
    if name.startswith(PACKAGE):
        package, _, rest = name.removeprefix(PACKAGE).partition("/")
        places = [root / rest if root.name == package else root / package / rest for root in packages]
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            hint = "`--packages FOLDER` says where packages are" if not packages else "look at the folders of packages"
            return None, f"{quoted(name)} is not found in a package", hint
    elif "://" in name and not name.startswith(FILE):
        return None, f"{quoted(name)} is no file", "name a file of this computer"
    else:
        found = folder / PurePosixPath(name.removeprefix(FILE))
        if not found.is_file():
            return None, f"there is no file {quoted(name)}", near(found)
    if found.suffix.lower() not in FORMATS:
        what = f"{quoted(name)}: scenes read {', '.join(FORMATS)}"
        return None, what, "convert it in a mesh editor"
    return found, "", ""
