"""Where things are in the repository, for tests that read files of it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
SKIRT = ROOT / "scenes" / "assets" / "skirt1252.obj"
