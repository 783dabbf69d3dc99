"""THE schema of scene files: one line per key. Loader, JSON Schema and docs/reference/scene.md follow from it.

A line says: name, kind (with SI unit and allowed interval), meaning, default (`REQUIRED`, or absent where none is
given), and whether the number may be a parameter. The tables of materials come from the caller, who knows which
constraints there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sim.identify.search.method import ITERATIONS, MOST_LINEARISED
from sim.schema.containers import Deferred, List, Map, Table, Union
from sim.schema.kinds import (
    Axes,
    Bool,
    Choice,
    File,
    FrameText,
    Int,
    NameOf,
    Number,
    PartOfDuration,
    Text,
    Tuple,
    UnitName,
)
from sim.schema.reading import Default, Kind, SchemaLine
from sim.solvers import SOLVERS, SolverXPBD

REQUIRED = Default.REQUIRED
FORMAT = 1  # the version of the format that this schema describes

POSITIVE = "(0, inf)"
NOT_NEGATIVE = "[0, inf)"
MOST_CELLS = 20_000_000  # points of a chain, cells of a grid or lattice: gigabytes before the first step
MOST_PER_SIDE = 10_000
DEFAULT_SOLVER = SolverXPBD.key
VALUE_TABLE = "a material value that differs from place to place"


@dataclass(frozen=True)
class ParameterSpec:
    """A key of a constraint in `material`: SI unit (empty for plain), default (None: must be given), interval."""

    name: str
    dimension: str
    default: float | None
    doc: str
    may_vary: bool = True
    bounds: str = NOT_NEGATIVE


@dataclass(frozen=True)
class MaterialSpec:
    """A constraint that `material` may name. `objects`: the kinds of object it acts on (none given: all)."""

    name: str
    doc: str
    parameters: Mapping[str, ParameterSpec] = field(default_factory=dict)
    objects: tuple[str, ...] = ()


def key(
    name: str, kind: Kind, doc: str, default: Any = Default.ABSENT, vary: bool = False, only: tuple[str, ...] = ()
) -> SchemaLine:
    """One line of the schema; `only` names the keys of the same table that it belongs to."""
    return SchemaLine(name, kind, doc, default, vary, only)


def value(unit: str, bounds: str, each: bool = False) -> Union:
    """A material value: one number, one per element from a file, one per region; `each` also a constraint's own."""
    number = Number(unit, bounds)
    lines = [
        key("file", File(), "an array in a .npy file, one value per element"),
        key(
            "regions",
            Map(number),
            "region -> value; an element has that of the region (of the object) that holds most of its points",
            vary=True,
        ),
    ]
    if each:
        lines.append(key("each", Number("", bounds), "alpha of every constraint, as the solver uses it", vary=True))
    table = Table(tuple(lines), one_of=(tuple(line.name for line in lines),), title=VALUE_TABLE)
    return Union((number, table), unit)


WHERE = Table((
    key("x", Tuple(2, "m", none=True), "range of x in the rest pose, [low, high]; null is open"),
    key("y", Tuple(2, "m", none=True), "range of y"),
    key("z", Tuple(2, "m", none=True), "range of z"),
    key("boundary", Choice((True,)), "points on the boundary of the surface"),
    key("indices", List(Int(), 1), "points by their index in the file, before merging"),
    key("near", List(Tuple(3, "m"), 1), "the point nearest to each of these"),
    key("all", Choice((True,)), "every point"),
), needs_one=True, title="a choice of points (`x`, `y`, `z`, `boundary`, `indices`, `near`, `all`)")  # fmt: skip

FILE_SPACE = (
    key("unit", UnitName("m"), "unit of the file's lengths", "m"),
    key("axes", Axes(), "file axes that become our x, y, z; a rotation, unless `mirror`", ["x", "y", "z"]),
    key("mirror", Bool(), "allow `axes` to swap left and right", False),
)

PLACEMENT = (
    key("position", Tuple(3, "m"), "moves the object, after rotation and scale", [0, 0, 0], vary=True),
    key("rotation", Table((
        key("axis", Tuple(3, nonzero=True), "direction of the axis, through the object's origin", [0, 0, 1]),
        key("angle", Number("rad"), "angle, right-handed", REQUIRED),
    )), "turns the object", {"angle": 0}),
    key("scale", Number("", POSITIVE), "factor on all lengths", 1),
    key("velocity", Tuple(3, "m/s"), "initial velocity of all points", [0, 0, 0], vary=True),
    key("spin", Tuple(3, "rad/s"), "initial angular velocity about the centre of mass", [0, 0, 0], vary=True),
    key("drag", Number("1/m", NOT_NEGATIVE), "air drag d: every point is slowed down by d times its speed squared", 0, vary=True),
    key("regions", Map(WHERE), "named choices of points, none in two of them, for values that differ from region to region", {}),
)  # fmt: skip


def _objects(materials: Mapping[str, MaterialSpec]) -> Table:
    material = key("material", _material(materials), "the constraints that hold the object together", {})
    density = "mass per {}, spread over the points"
    cells = "number of cells along each side"
    tetrahedralize = Table((key("lattice", Int(1, MOST_PER_SIDE), "cells along the longest side", REQUIRED),))
    cloth = Table((
        key("mesh", Table((
            key("file", File(), "triangle mesh (obj, ply, stl, off, glb)", REQUIRED),
            *FILE_SPACE,
        )), "mesh"),
        key("grid", Table((
            key("size", Tuple(2, "m", POSITIVE), "width and height", REQUIRED),
            key("cells", List(Int(1, MOST_CELLS), 2, 2), cells, REQUIRED),
        )), "rectangle of triangles in the x-y plane"),
        key("density", value("kg/m^2", POSITIVE), density.format("area"), REQUIRED, vary=True),
        key("thickness", Number("m", NOT_NEGATIVE), "contact distance", 0),
        material,
    ), one_of=(("mesh", "grid"),))  # fmt: skip
    soft = Table((
        key("mesh", Table((
            key("file", File(), "tetrahedra (.node with its .ele, or .msh), or a closed surface to fill", REQUIRED),
            *FILE_SPACE,
            key("tetrahedralize", tetrahedralize, "how to fill a closed surface"),
        )), "mesh"),
        key("lattice", Table((
            key("origin", Tuple(3, "m"), "corner with the smallest x, y, z", [0, 0, 0]),
            key("size", Tuple(3, "m", POSITIVE), "lengths of the sides", REQUIRED),
            key("cells", List(Int(1, MOST_CELLS), 3, 3), cells, REQUIRED),
        )), "block of cells, five tetrahedra in each"),
        key("density", value("kg/m^3", POSITIVE), density.format("volume"), REQUIRED, vary=True),
        material,
    ), one_of=(("mesh", "lattice"),))  # fmt: skip
    chain = Table((
        key("from", Tuple(3, "m"), "first point", REQUIRED),
        key("to", Tuple(3, "m"), "last point", REQUIRED),
        key("points", Int(2, MOST_CELLS), "number of points, both ends included", REQUIRED),
        key("mass", Number("kg", POSITIVE), "mass of the whole chain", REQUIRED, vary=True),
        material,
    ))  # fmt: skip
    particles = Table((
        key("positions", List(Tuple(3, "m"), 1), "the points", REQUIRED),
        key("mass", value("kg", POSITIVE), "mass of each point", REQUIRED, vary=True),
        material,
    ))  # fmt: skip
    return Table((
        key("cloth", cloth, "a surface of triangles"),
        key("soft", soft, "a solid of tetrahedra"),
        key("chain", chain, "points in a line, neighbours linked"),
        key("particles", particles, "loose points"),
        *PLACEMENT,
    ), one_of=(("cloth", "soft", "chain", "particles"),))  # fmt: skip


def _material(materials: Mapping[str, MaterialSpec]) -> Table:
    lines = []
    for name, spec in materials.items():
        keys = tuple(
            key(p.name, value(p.dimension, p.bounds, each=p.name == "compliance"), p.doc,
                REQUIRED if p.default is None else p.default, vary=p.may_vary)
            for p in spec.parameters.values()
        )  # fmt: skip
        lines.append(key(name, Table(keys), spec.doc))
    return Table(tuple(lines), noun="constraint", title="a mapping: constraint -> its keys")


SHAPES = Table((
    key("sphere", Table((
        key("center", Tuple(3, "m"), "centre", [0, 0, 0], vary=True),
        key("radius", Number("m", POSITIVE), "radius", REQUIRED, vary=True),
    )), "a ball"),
    key("plane", Table((
        key("point", Tuple(3, "m"), "any point of the plane", [0, 0, 0], vary=True),
        key("normal", Tuple(3, nonzero=True), "points to the free side; its length does not matter", REQUIRED),
    )), "a half space"),
    key("compliance", Number("m/N", NOT_NEGATIVE), "of the contact with one point; 0 is hard", 0),
    key("touches", List(NameOf("objects")), "the objects that collide with it; default: all"),
), one_of=(("sphere", "plane"),))  # fmt: skip

MOTION = Table((
    key("move", Tuple(3, "m"), "displacement reached at `end`", vary=True),
    key("start", Number("s", NOT_NEGATIVE), "begin of the move", 0, only=("move",)),
    key("end", Number("s", NOT_NEGATIVE), "end of the move", REQUIRED, only=("move",)),
    key("ease", Choice(("smooth", "linear")), "smooth: 3 s^2 - 2 s^3 of the elapsed part s", "smooth", only=("move",)),
    key("swing", Tuple(3, "m"), "displacement d of d (1 - cos(2 pi f t)) / 2", vary=True),
    key("frequency", Number("Hz", POSITIVE), "f of the swing", REQUIRED, only=("swing",)),
), one_of=(("move", "swing"),))  # fmt: skip

ATTACHMENTS = Table((
    key("on", NameOf("objects"), "the object", REQUIRED),
    key("where", WHERE, "its points", REQUIRED),
    key("compliance", Number("m/N", NOT_NEGATIVE), "0: pinned (zero inverse mass, position prescribed)", 0),
    key("motion", List(MOTION), "displacements of the attached points, added up; none: held still", []),
))  # fmt: skip

LOADS = Table((
    key("on", NameOf("objects"), "the object", REQUIRED),
    key("where", WHERE, "the points that carry it", REQUIRED),
    key("mass", Number("kg", NOT_NEGATIVE), "additional mass, shared equally by the points", REQUIRED, vary=True),
))  # fmt: skip

MARKERS = Table((
    key("on", NameOf("objects"), "the object", REQUIRED),
    key("farthest", Int(1), "so many of the free points, by farthest-point sampling from the lowest index"),
    key("at", List(Tuple(3, "m"), 1), "rest positions, carried by the nearest element"),
    key("where", WHERE, "these points of the object"),
), one_of=(("farthest", "at", "where"),))  # fmt: skip

MEASURES = Table((
    key("of", NameOf("markers"), "the markers; their mean position is used", REQUIRED),
    key("along", Union((Choice(("gravity",)), Tuple(3, nonzero=True))), "direction", "gravity"),
    key("kind", Choice(("settled", "frequency", "damping_ratio")),
        "settled: mean displacement at the end [m]; frequency [Hz] and damping_ratio: of the oscillation", REQUIRED),
    key("last", Number("s", POSITIVE), "the time at the end over which `settled` is averaged"),
))  # fmt: skip

TARGET = Table((
    key("file", File(), "recording, .npz or .csv", REQUIRED),
    key("key", Text(), "array in an npz file, (frames, markers, 3)"),
    key("markers", Map(List(Union((Int(), Text("a marker's name in the recording"))), 1), keys="markers"),
        "markers -> columns of the recording, by number from 0 or by name; default: all columns are the one set of markers"),
    key("rate", Number("Hz", POSITIVE), "frames per second, where the file has no times"),
    *FILE_SPACE,
    key("start", Union((FrameText(), Table((key("frame", Int(), "frame number from 0", REQUIRED),)), Number("s"))),
        "the moment of the recording that is t = 0: a time, or `frame 71`; default: its first frame"),
    key("duration", Number("s", POSITIVE), "how much of the recording is used; default: as long as the experiment"),
    key("noise", Number("m", POSITIVE), "standard deviation of one coordinate; makes the loss dimensionless", "1 mm"),
))  # fmt: skip

EXPERIMENTS = Table((
    key("use", Choice(("fit", "predict")), "whether the loss counts it, or only the report shows it", "fit"),
    key("target", TARGET, "the recording to compare with"),
    key("set", Map(Deferred("a value for the path", any_value=True), keys="path"),
        "path -> value: what differs from the scene in this experiment", {}),
))  # fmt: skip

_OF_TARGET = "in the unit of what `of` names"
PARAMETERS = Table((
    key("of", Union((Text("a path"), List(Text("a path"), 1), Map(Number(), keys="path"))),
        "path of a number; a list of paths (all get the same value), or path -> factor", REQUIRED),
    key("per", Choice(("scene", "region", "element", "point", "experiment")), "what has its own value; "
        "each region is a parameter `name.region`", "scene"),
    key("transform", Choice(("none", "log", "logit")), "the scale that the optimiser sees", "none"),
    key("bounds", Deferred(f"[low, high], {_OF_TARGET}; null is open"), f"[low, high], {_OF_TARGET}; null is open"),
    key("start", Deferred(f"a value {_OF_TARGET}"), f"first guess, {_OF_TARGET}; default: the value in the scene; one that an experiment sets goes before"),
    key("scale", Deferred(f"a number {_OF_TARGET}"), f"size of a typical change, {_OF_TARGET}; with a transform a plain number, 1 (the default) "
        "being a factor of e"),
))  # fmt: skip

TIME_OR_LAST = Union((Choice(("last",)), Number("s", NOT_NEGATIVE)))
HUBER = Table((key("huber", Number("", POSITIVE), "in units of noise", REQUIRED),))
LOSS = Table((
    key("match", NameOf("markers"), "markers that should follow the recording"),
    key("compare", Choice(("position", "displacement", "velocity")),
        "displacement: from the first frame that is used", "position", only=("match",)),
    key("at", Union((Choice(("all", "last")), Tuple(2, "s", NOT_NEGATIVE))),
        "frames that count: all, last, or [t0, t1]", "all", only=("match",)),
    key("norm", Union((Choice(("square",)), HUBER)),
        "square, or {huber: 3}: linear beyond three times the noise", "square", only=("match",)),
    key("reach", Table((
        key("marker", NameOf("markers"), "markers; their mean position is used", REQUIRED),
        key("point", Tuple(3, "m"), "where it should be", REQUIRED),
        key("at", TIME_OR_LAST, "when: a time, or last", "last"),
        key("scale", Number("m", POSITIVE), "the distance that counts as 1", REQUIRED),
    )), "markers that should arrive at a point"),
    key("slow", Table((
        key("marker", NameOf("markers"), "markers; the velocity of their mean position is used", REQUIRED),
        key("at", TIME_OR_LAST, "when: a time, or last", "last"),
        key("scale", Number("m/s", POSITIVE), "the speed that counts as 1", REQUIRED),
    )), "markers that should be slow"),
    key("experiments", List(NameOf("experiments"), 1), "the experiments that count; default: all that are fitted",
        only=("match", "reach", "slow", "custom")),
    key("prior", NameOf("parameters"), "a parameter that should stay near `value`. A `match` is a mean: with weight 1 a prior counts as much "
        "as all observations together; by Bayes' rule its weight were 1 / (3 x markers x frames)"),
    key("value", Deferred("a value in the unit of the parameter"), "the expected value", REQUIRED, only=("prior",)),
    key("factor", Number("", "(1, inf)"), "(log(p / value) / log(factor))^2", only=("prior",)),
    key("smooth", NameOf("parameters"), "a parameter per element, point or region whose neighbours should be alike: "
        "the mean over pairs of ((v_i - v_j) / sd)^2, v the value as `transform` shows it (its logarithm, say)"),
    key("sd", Deferred("a number in the unit of the parameter"), "standard deviation; with `smooth` and a transform a plain number: "
        "0.1 of a logarithm is 10 %", only=("prior", "smooth")),
    key("custom", Text("`module:function`", r"[\w.]+:\w+"), "own loss, from a module named with --import: function(take) launches kernels "
        "on `take.positions` (frames, points) and returns an array of one float64 (below)"),
    key("weight", Number("", NOT_NEGATIVE), "factor of the term", 1),
), one_of=(("match", "reach", "slow", "prior", "smooth", "custom"),))  # fmt: skip


def _iterations(method: str) -> SchemaLine:
    return key("iterations", Int(1), "at most so many steps (on every horizon)", ITERATIONS[method])


OPTIMIZE = Table((
    key("lbfgs", Table((_iterations("lbfgs"),)), "L-BFGS with bounds: the default where losses have no residuals (`custom`), "
        f"or more than {MOST_LINEARISED} numbers are sought"),
    key("adam", Table((
        _iterations("adam"),
        key("rate", Number("", POSITIVE), "step in the scale of `transform`", 0.1),
    )), "Adam"),
    key("gauss_newton", Table((_iterations("gauss_newton"),)),
        "Gauss-Newton with damping: few steps, each with one more rollout for every number that is sought; the default where all losses "
        f"have residuals and up to {MOST_LINEARISED} numbers are sought"),
    key("objective", Choice(("log", "plain")), "minimise the logarithm of the loss, or the loss", "log"),
    key("rollout", Table((
        key("store_all", Table(()), "keep everything for the gradient"),
        key("checkpointed", Table((
            key("every", Int(1), "substeps between two kept states"),
            key("budget", Number("B", POSITIVE), "memory that may be used"),
        ), one_of=(("every", "budget"),)), "keep some states and recompute between them"),
    ), one_of=(("store_all", "checkpointed"),)), "how the gradient remembers the motion", {"store_all": {}}),
    key("stop", Table((
        key("loss", Number("", NOT_NEGATIVE), "stop below this loss"),
        key("gradient", Number("", NOT_NEGATIVE), "stop below this norm of the gradient, in the optimiser's scale"),
        key("patience", Int(1), "stop after so many iterations without a better loss"),
    )), "when to stop early", {}),
    key("starts", Int(1), "number of starts, the first from the scene, others drawn within the bounds; tried on the first horizon", 1),
    key("horizon", List(Union((PartOfDuration(), Table((key("time", Number("s", POSITIVE), "from the start", REQUIRED),)))), 1),
        "fit the first part of every experiment, then go on from there with more: `[0.1, 0.3, all]`, or `[0.2 s, 0.5 s, all]`. Losses count "
        "what lies within; those at a later moment, and `custom` ones, only on the last, which is `all`", ["all"]),
    key("seed", Int(), "of everything drawn at random", 0),
), at_most_one=(("lbfgs", "adam", "gauss_newton"),))  # fmt: skip

EXPECT = Table((
    key("value", Deferred("a value in the unit of the result"), "should be this, up to `within`"),
    key("between", Deferred("[low, high] in the unit of the result"), "should lie between the two"),
    key("below", Deferred("a number in the unit of the result"), "should be smaller"),
    key("above", Deferred("a number in the unit of the result"), "should be larger"),
    key("measured", Choice((True,)), "should be what the recording gives, up to `within`"),
    key("within", Number("", POSITIVE), "relative tolerance", REQUIRED, only=("value", "measured")),
), one_of=(("value", "between", "below", "above", "measured"),))  # fmt: skip


def _solver() -> Table:
    """A key for each solver, the default first; its settings are said by its class."""
    names = sorted(SOLVERS, key=lambda name: name != DEFAULT_SOLVER)
    lines = tuple(key(name, Table(SOLVERS[name].schema), SOLVERS[name].about) for name in names)
    return Table(lines, one_of=(tuple(names),))


def scene_schema(materials: Mapping[str, MaterialSpec]) -> SchemaLine:
    """The line of the whole file."""
    objects = _objects(materials)
    lines = (
        key("format", Choice((FORMAT,)), "version of the scene format", REQUIRED),
        key("name", Text("a name (letters, digits, `_`, `-`)", r"[A-Za-z0-9_-]+"), "default: the file's name"),
        key("about", Text(), "one sentence for people", ""),
        key("include", List(File()), "scene files merged first; this file wins, lists are replaced", []),
        key("world", Table((
            key("gravity", Tuple(3, "m/s^2"), "its opposite is `up` in the report", [0, -9.81, 0], vary=True),
        )), "what surrounds the objects", {}),
        key("time", Table((
            key("duration", Number("s", POSITIVE), "simulated time", REQUIRED),
            key("fps", Number("Hz", POSITIVE), "frames per second; markers are compared at frames", REQUIRED),
            key("substeps", Int(1, 1_000_000), "steps of the solver per frame", REQUIRED),
        )), "time steps", REQUIRED),
        key("solver", _solver(), "time integration", {DEFAULT_SOLVER: {}}),
        key("objects", Map(objects, table="objects"), "what moves", REQUIRED),
        key("shapes", Map(SHAPES, table="shapes"), "what is collided with", {}),
        key("attachments", Map(ATTACHMENTS, table="attachments"), "points that are held or moved", {}),
        key("loads", Map(LOADS, table="loads"), "additional masses", {}),
        key("markers", Map(MARKERS, table="markers"), "points that are observed", {}),
        key("measures", Map(MEASURES, table="measures"), "numbers taken alike from simulation and recording", {}),
        key("experiments", Map(EXPERIMENTS, table="experiments"), "one model, several takes", {"main": {}}),
        key("parameters", Map(PARAMETERS, table="parameters"), "what is sought", {}),
        key("loss", List(LOSS), "why: terms that are added up", []),
        key("optimize", OPTIMIZE, "how", {}),
        key("output", Table((
            key("record", Table((key("every", Int(1), "frames", 1),)), "writes the trajectory", {}),
            key("report", Bool(), "writes report.html", True),
        )), "what the run writes", {}),
        key("expect", Map(EXPECT, keys="path"), "path in result.json -> what it should be; not met: exit 1", {}),
    )  # fmt: skip
    return SchemaLine("", Table(lines, title="a scene: keys and values"), "a scene")
