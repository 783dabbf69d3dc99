"""A whole scene: its top-level keys."""

from __future__ import annotations

from collections.abc import Mapping

from sim.identify.losses.terms import LOSS
from sim.scene.schema.keys.common import REQUIRED, key
from sim.scene.schema.keys.contact import CONTACT
from sim.scene.schema.keys.expectations import EXPECT
from sim.scene.schema.keys.experiments import EXPERIMENTS, MARKERS, MEASURES, START, START_DOC
from sim.scene.schema.keys.joints import JOINTS
from sim.scene.schema.keys.materials import MaterialSpec
from sim.scene.schema.keys.objects import objects
from sim.scene.schema.keys.optimize import OPTIMIZE
from sim.scene.schema.keys.parameters import PARAMETERS
from sim.scene.schema.keys.surroundings import ATTACHMENTS, LOADS, SHAPES, WORLD
from sim.schema.containers import List, Map, Table
from sim.schema.kinds import POSITIVE, Bool, Choice, File, Int, Number, Text
from sim.schema.reading import SchemaLine
from sim.solvers import SOLVERS, SolverXPBD

FORMAT = 2  # the version of the format that this schema describes
FORMATS = (1, FORMAT)

# fmt: off
TIME = Table((
    key("duration", Number("s", POSITIVE), "simulated time", REQUIRED),
    key("fps", Number("Hz", POSITIVE), "frames per second; markers are compared at frames", REQUIRED),
    key("substeps", Int(1, 1_000_000), "steps of the solver per frame", REQUIRED),
))

# The default comes first; settings are said by the classes.
SOLVER_NAMES = tuple(sorted(SOLVERS, key=lambda name: name != SolverXPBD.key))
SOLVER = Table(tuple(
    key(name, Table(SOLVERS[name].schema), SOLVERS[name].about) for name in SOLVER_NAMES
), one_of=(SOLVER_NAMES,))

OUTPUT = Table((
    key("record", Table((key("every", Int(1), "frames", 1),)), "writes the trajectory", {}),
    key("report", Bool(), "writes report.html", True),
))


def scene_schema(materials: Mapping[str, MaterialSpec]) -> SchemaLine:
    """The line of the whole file, with these constraints as materials."""
    lines = (
        key("format", Choice(FORMATS), "version of the format, `2` in new scenes; in 1 `bend.compliance` is three times"
            " that of 2 (`simopt convert` brings a scene to 2)", REQUIRED),
        key("name", Text("a name (letters, digits, `_`, `-`)", r"[A-Za-z0-9_-]+"), "default: the file's name"),
        key("about", Text(), "one sentence for people", ""),
        key("include", List(File()), "scene files merged first; this file wins, lists are replaced", []),
        key("world", WORLD, "what surrounds the objects", {}, may_be_set=True),
        key("time", TIME, "time steps", REQUIRED, may_be_set=True),
        key("start", START, START_DOC, "given"),
        key("solver", SOLVER, "time integration", {SolverXPBD.key: {}}),
        key("reference", SOLVER, "another solver, which simulates the result once more, to compare"),
        key("objects", Map(objects(materials), table="objects"), "what moves", REQUIRED),
        key("joints", Map(JOINTS, table="joints"), "what holds bodies together", {}, may_be_set=True),
        key("shapes", Map(SHAPES, table="shapes"), "what is collided with", {}, may_be_set=True),
        key("contact", CONTACT, "what collides with itself", {}, may_be_set=True),
        key("attachments", Map(ATTACHMENTS, table="attachments"), "points that are held or moved", {}, may_be_set=True),
        key("loads", Map(LOADS, table="loads"), "additional masses", {}, may_be_set=True),
        key("markers", Map(MARKERS, table="markers"), "points that are observed", {}),
        key("measures", Map(MEASURES, table="measures"), "numbers taken alike from simulation and recording", {}),
        key("experiments", Map(EXPERIMENTS, table="experiments"), "one model, several takes", {"main": {}}),
        key("parameters", Map(PARAMETERS, table="parameters"), "what is sought", {}),
        key("loss", List(LOSS), "why: terms that are added up", []),
        key("optimize", OPTIMIZE, "how", {}),
        key("output", OUTPUT, "what the run writes", {}),
        key("expect", Map(EXPECT, keys="path"), "path in result.json -> what it should be; not met: exit 1", {}),
    )
    return SchemaLine("", Table(lines, title="a scene: keys and values"), "a scene")
# fmt: on
