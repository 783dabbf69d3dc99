"""The scenes that come with the package: which there are, what they read, and copies of them to work with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sim.cli.verbs.modules import UsageError
from sim.io import write_atomically

_PACKAGE = Path(__file__).resolve().parents[2]
FOLDERS = (_PACKAGE / "demos", _PACKAGE.parent / "scenes")
"""Where they are: in a wheel, which takes them from `scenes/` (pyproject.toml says which), and in a checkout."""


@dataclass(frozen=True)
class ShippedScene:
    """A scene with all files that it reads, licences among them.

    about: what it shows, in a sentence; takes: how long about on a laptop.  files: relative to the scene.
    """

    name: str
    about: str
    takes: str
    files: tuple[str, ...]

    @property
    def scene(self) -> str:
        """File name of the scene."""
        return f"{self.name}.yaml"


SHIPPED = (
    ShippedScene(
        "chain", "how much each link of a hanging chain gives; the answer is known", "2 s", ("data/chain_target.npz",)
    ),
    ShippedScene(
        "cloth",
        "how stretchy and how stiff a swung skirt is, from noisy markers",
        "20 s",
        ("assets/skirt1252.obj", "assets/LICENSE-DiffCloth.txt", "data/cloth_markers.npz"),
    ),
    ShippedScene(
        "beam",
        "the modulus of a real silicone beam, measured by cameras; loaded takes are predicted",
        "60 s",
        ("data/dubied2022_beam.npz", "data/LICENSE-diffPD_sim2real.txt"),
    ),
)
"""The demos, the shortest first."""


def source() -> Path:
    """The folder of the shipped scenes; UsageError where an installation lacks them."""
    for folder in FOLDERS:
        if (folder / SHIPPED[0].scene).is_file():
            return folder
    raise UsageError(f"the scenes of the demos are not in {FOLDERS[0]}\n  install the package once more, from a wheel")


def copy(shipped: ShippedScene, folder: Path) -> Path:
    """Copies a scene and its files to a folder, and returns the path of the scene there.

    What is there already and equal stays; UsageError, and nothing written, where something else is in the way.
    """
    if folder.exists() and not folder.is_dir():
        other = f"another one: `simopt demo {shipped.name} -o FOLDER`"
        raise UsageError(f"{folder} is a file, and `-o` names a folder\n  {other}")
    origin = source()
    contents = {name: (origin / name).read_bytes() for name in (shipped.scene, *shipped.files)}
    there = {name: folder / name for name in contents}
    changed = [name for name, path in there.items() if path.exists() and not _holds(path, contents[name])]
    if changed:
        at = folder / shipped.scene
        raise UsageError(
            f"{folder / changed[0]} is there already, and differs from that of the demo: it is left alone\n"
            f"  `simopt run {at}` runs what is there; another folder: `simopt demo {shipped.name} -o FOLDER`"
        )
    for name, path in there.items():
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, contents[name])
    return there[shipped.scene]


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content
