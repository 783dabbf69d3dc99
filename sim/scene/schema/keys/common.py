"""What lines of several parts of a scene have in common: intervals, choices of points, material values, files."""

from __future__ import annotations

from sim.schema.containers import List, Map, Table, Union
from sim.schema.kinds import POSITIVE, Axes, Bool, Choice, File, FrameText, Int, Number, Text, Tuple, UnitName
from sim.schema.reading import Default, SchemaLine

key = SchemaLine  # what most lines of this folder begin with

REQUIRED = Default.REQUIRED
MOST_CELLS = 20_000_000  # points of a chain, cells of a grid or lattice: gigabytes before the first step
MOST_PER_SIDE = 10_000

# fmt: off
WHERE = Table((
    key("x", Tuple(2, "m", none=True), "range of x in the rest pose, [low, high]; null is open"),
    key("y", Tuple(2, "m", none=True), "range of y"),
    key("z", Tuple(2, "m", none=True), "range of z"),
    key("boundary", Choice((True,)), "points on the boundary of the surface"),
    key("indices", List(Int(), 1), "points by their index in the file, before merging"),
    key("near", List(Tuple(3, "m"), 1), "the point nearest to each of these"),
    key("group", Text(), "points of a physical group of a .msh file, by its name, or number where it has none"),
    key("all", Choice((True,)), "every point"),
), needs_one=True, title="a choice of points (`x`, `y`, `z`, `boundary`, `indices`, `near`, `group`, `all`)")

FILE_SPACE = (
    key("unit", UnitName("m"), "unit of the file's lengths", "m"),
    key("axes", Axes(), "file axes that become our x, y, z; a rotation, unless `mirror`", ["x", "y", "z"]),
    key("mirror", Bool(), "allow `axes` to swap left and right", False),
)

# How a recording is read: what every table has that names one, beside which of its markers are meant.
RECORDING = (
    key("file", File(), "a recording: .npz, .csv, .trc or .c3d (see docs/recordings.md)", REQUIRED),
    key("key", Text(), "array in an npz file, (frames, markers, 3)"),
    key("rate", Number("Hz", POSITIVE), "frames per second, where the file has no times"),
    key("unit", UnitName("m"), "unit of the file's lengths; default: as the file says, metres in sim's own"),
    key("axes", Axes(), "file axes that become our x, y, z; a rotation, unless `mirror`; default: by `up`"),
    key("up", Choice(("x", "y", "z", "-x", "-y", "-z")),
        "the file's axis that points against gravity; default: as the file says; sim's own have our axes"),
    key("mirror", Bool(), "allow `axes` to swap left and right", False),
    key("start", Union((FrameText(), Table((key("frame", Int(), "frame number from 0", REQUIRED),)), Number("s"))),
        "the moment of the recording that is t = 0: a time of its clock, or `frame 71`; default: 0 s of its clock"),
)
AXES_OR_UP = (("axes", "up"),)
# fmt: on


def value(unit: str, bounds: str, each: bool = False) -> Union:
    """A material value: one number, one per element from a file, one per region; `each` also a constraint's own."""
    number = Number(unit, bounds)
    by_region = "region -> value; an element has that of the region (of the object) that holds most of its points"
    lines = [
        key("file", File(), "an array in a .npy file, one value per element"),
        key("regions", Map(number), by_region, may_vary=True),
    ]
    if each:
        lines.append(key("each", Number("", bounds), "alpha of every constraint, as the solver uses it", may_vary=True))
    one_of = (tuple(line.name for line in lines),)
    title = "a material value that differs from place to place"
    return Union((number, Table(tuple(lines), one_of, title=title, short="a material value")), unit)
