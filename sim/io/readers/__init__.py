"""Formats that recordings are read from: a file each, and a line here."""

from sim.io.readers.base import SAY_UNIT as SAY_UNIT
from sim.io.readers.base import SAY_UP as SAY_UP
from sim.io.readers.base import UNITS as UNITS
from sim.io.readers.base import Raw as Raw
from sim.io.readers.base import RecordingFormat
from sim.io.readers.base import Source as Source
from sim.io.readers.base import unit_of as unit_of
from sim.io.readers.c3d import C3D
from sim.io.readers.deeplabcut import DEEPLABCUT
from sim.io.readers.long_csv import LONG_CSV
from sim.io.readers.motive import MOTIVE
from sim.io.readers.npz import NPZ
from sim.io.readers.trc import TRC
from sim.io.readers.wide_csv import WIDE_CSV

FORMATS: tuple[RecordingFormat, ...] = (NPZ, C3D, TRC, MOTIVE, DEEPLABCUT, LONG_CSV, WIDE_CSV)

SUFFIXES = tuple(dict.fromkeys(suffix for one in FORMATS for suffix in one.suffixes if suffix != ".npy"))


def find_format(source: Source) -> RecordingFormat | None:
    """The first format that has the file's suffix and whose beginning it has; None if there is none."""
    named = [one for one in FORMATS if source.path.suffix.lower() in one.suffixes]
    return next((one for one in named if one.fits is None or one.fits(source)), None)
