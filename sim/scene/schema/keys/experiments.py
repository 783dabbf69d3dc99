"""`markers`, `measures` and `experiments`: what is observed, and the recordings to compare with."""

from __future__ import annotations

from dataclasses import replace

from sim.identify.data.measures import MEASURE_SPECS, measure_lines
from sim.identify.losses.noise import GROUPINGS
from sim.scene.schema.keys.common import AXES_OR_UP, RECORDING, REQUIRED, WHERE, key
from sim.schema.containers import Deferred, List, Map, Table, Union
from sim.schema.kinds import POSITIVE, Bool, Choice, File, Int, NameOf, Number, Text, Tuple, UnitName
from sim.schema.reading import Default

_MEASURES_DOC = "; ".join(
    f"{name}: {spec.doc}" + (f" [{spec.unit}]" if spec.unit else "") for name, spec in MEASURE_SPECS.items()
)

# fmt: off
MARKERS = Table((
    key("on", NameOf("objects"), "the object", REQUIRED),
    key("farthest", Int(1), "so many of the free points, by farthest-point sampling from the lowest index"),
    key("at", List(Tuple(3, "m"), 1), "rest positions, carried by the nearest element"),
    key("where", WHERE, "these points of the object"),
), one_of=(("farthest", "at", "where"),))

MEASURES = Table((
    key("of", NameOf("markers"), "the markers; their mean position is used, or how they turn", REQUIRED),
    key("along", Union((Choice(("gravity",)), Tuple(3, nonzero=True))), "direction; not of a rotation", "gravity"),
    key("kind", Choice(tuple(MEASURE_SPECS)), _MEASURES_DOC, REQUIRED),
    *measure_lines(),
))

_NOISE = (Number("m", POSITIVE), Tuple(3, "m", POSITIVE))

_ESTIMATED_DOC = "of each set of markers: " + "; ".join(f"{name}: {doc}" for name, doc in GROUPINGS.items())

_OF_A_FILE = tuple(
    replace(line, default=Default.ABSENT) if line.name == "file" else replace(line, only_with=("file",))
    for line in RECORDING
)

TARGET = Table((
    *_OF_A_FILE,
    key("planned", Table((
        key("markers", List(NameOf("markers"), 1), "those that would be seen; default: all of the scene"),
        key("rate", Number("Hz", POSITIVE), "frames per second of the camera; default: `time.fps`"),
    )), "instead of a `file`: nothing has been recorded yet, and `simopt rehearse` and `simopt design` say what a"
        " recording would tell"),
    key("markers", Map(List(Union((Int(), Text("a marker's name in the recording"))), 1), keys="markers"),
        "markers -> columns of the recording, by number from 0 or by name; default: all columns are the one set of "
        "markers", only_with=("file",)),
    key("duration", Number("s", POSITIVE), "how much of the recording is used; default: as long as the experiment"),
    key("noise", Union((
        Choice(("estimated",)), *_NOISE,
        Table((
            key("estimated", Choice(tuple(GROUPINGS)), _ESTIMATED_DOC, REQUIRED),
            key("guess", Number("m", POSITIVE), "what it may be: the unit of the loss, and the noise of `rehearse` and "
                "`design`", "1 mm"),
        ), only_if="estimated"),
        Table((key("each", List(Union(_NOISE), 1), "for each marker, in the order of `markers`", REQUIRED),)),
    )), "standard deviation of one coordinate, or of each axis of ours; makes the loss dimensionless; estimated: found"
        " with the parameters", "1 mm"),
    key("align", Table((
        key("time", Union((Bool(), Number("s", POSITIVE))),
            "an offset of its clock, of at most so long either way; true: five frames of the experiment", False),
        key("frame", Bool(), "rotation and shift of its axes", False),
    )), "what is not known of how the recording lies in time and space: found with the parameters at every evaluation,"
        " and told with standard errors"),
), one_of=(("file", "planned"),), at_most_one=AXES_OR_UP)

ANGLES = Table((
    key("file", File(), "recording, .csv: `time, <name>, ...`, whole turns counted or not", REQUIRED),
    key("columns", Map(Text("a column of the file"), keys="markers"),
        "markers of an `angle` of the loss -> column; default: columns that are called like markers"),
    key("unit", UnitName("rad"), "unit of the file's angles", "rad"),
    key("start", Number("s"), "the time of the recording that is t = 0", 0),
    key("noise", Number("rad", POSITIVE), "standard deviation; makes the loss dimensionless", REQUIRED),
))

START = Choice(("given", "equilibrium"))
START_DOC = (
    "equilibrium: all points begin at rest under gravity, loads and attachments as they are at t = 0, and then have the"
    " velocities of their objects"
)

EXPERIMENTS = Table((
    key("start", START, "as `start` of the scene, which is the default"),
    key("use", Choice(("fit", "predict")), "whether the loss counts it, or only the report shows it", "fit"),
    key("target", TARGET, "the recording to compare with"),
    key("angles", ANGLES, "recorded angles to compare with"),
    key("set", Map(Deferred("a value for the path", any_value=True), keys="path"),
        "path -> value: what differs from the scene in this experiment", {}),
))
# fmt: on
