"""The formats that a run can be exported to, a file for each; to add one, write its file and name its class here."""

from sim.io.formats.base import ExportFormat
from sim.io.formats.csv import Csv as Csv
from sim.io.formats.glb import Glb as Glb
from sim.io.formats.mp4 import Mp4 as Mp4
from sim.io.formats.npz import Npz as Npz
from sim.io.formats.usd import Usd as Usd

FORMATS: dict[str, ExportFormat] = {known.name: known for known in (Glb(), Usd(), Npz(), Csv(), Mp4())}
"""Name on the command line -> format."""

FORMATS_HELP = "; ".join(known.described for known in FORMATS.values() if known.help)
"""A line for the command's help."""
