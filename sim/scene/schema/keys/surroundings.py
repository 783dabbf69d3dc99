"""`world`, `shapes`, `attachments` and `loads`: what acts on the objects."""

from __future__ import annotations

from sim.scene.schema.keys.bodies import surface
from sim.scene.schema.keys.common import AXES_OR_UP, RECORDING, REQUIRED, WHERE, key
from sim.scene.schema.keys.motions import motion
from sim.schema.containers import List, Table, Union
from sim.schema.kinds import NOT_NEGATIVE, POSITIVE, Int, NameOf, Number, Text, Tuple, UnitName

# Paths in the model: {1} is the name of the shape, attachment or load.
# fmt: off
WORLD = Table((
    key("gravity", Tuple(3, "m/s^2"), "its opposite is `up` in the report", [0, -9.81, 0],
        may_vary=True, model_path="gravity"),
    key("wind", Tuple(3, "m/s"), "velocity of the air, for objects with `air`", [0, 0, 0],
        may_vary=True, model_path="wind"),
    key("air_density", Number("kg/m^3", NOT_NEGATIVE), "density of the air, for objects with `air`", 1.2,
        may_vary=True, model_path="air_density"),
))

SHAPES = Table((
    key("sphere", Table((
        key("center", Tuple(3, "m"), "centre", [0, 0, 0], may_vary=True, model_path="{1}.center"),
        key("radius", Number("m", POSITIVE), "radius", REQUIRED, may_vary=True, model_path="{1}.radius"),
    )), "a ball"),
    key("plane", Table((
        key("point", Tuple(3, "m"), "any point of the plane", [0, 0, 0], may_vary=True, model_path="{1}.point"),
        key("normal", Tuple(3, nonzero=True), "points to the free side; its length does not matter", REQUIRED,
            model_path="{1}.normal"),
    )), "a half space"),
    key("compliance", Number("m/N", NOT_NEGATIVE), "of the contact with one point; 0 is hard", 0,
        model_path="{1}.compliance"),
    key("touches", List(NameOf("objects")), "the objects that collide with it; default: all"),
    *surface("{1}"),
), one_of=(("sphere", "plane"),))

ATTACHMENTS = Table((
    key("on", NameOf("objects"), "the object", REQUIRED),
    key("where", WHERE, "its points", REQUIRED),
    key("to", NameOf("objects"), "a body that carries the points, at the places that they begin with"),
    key("compliance", Number("m/N", NOT_NEGATIVE), "0: pinned (zero inverse mass, position prescribed), or rigid", 0),
    key("offset", Tuple(3, "m"), "from where its points are at rest to where it holds them from the start, the others "
        "beginning at rest; with it or `turn` both may be sought", may_vary=True, model_path="{1}.offset"),
    key("turn", Tuple(3, "rad"), "rotation vector, about the middle of its points, of how it holds them; then `offset`",
        may_vary=True, model_path="{1}.turn"),
    key("motion", List(motion(3), alone=True), "displacements of the attached points, added up; none: held still", []),
    key("release", Number("s", NOT_NEGATIVE), "when the points are let go; takes a compliance; default: never"),
))

def _series(of: str, unit: str) -> Table:
    """A recording of forces or torques."""
    return Table((
    *(line for line in RECORDING if line.name != "unit"),
    key("unit", UnitName(unit), f"unit of the file's {of}", unit),
    key("markers", List(Union((Int(), Text("a name in the recording"))), 1, 1), "which, if the file has several"),
    key("bridge", Number("s", NOT_NEGATIVE), "gaps of up to this are bridged by a line; others are an error", 0),
    ), at_most_one=AXES_OR_UP)

LOADS = Table((
    key("on", NameOf("objects"), "the object", REQUIRED),
    key("where", WHERE, "the points that carry it; of a body nothing", {"all": True}),
    key("mass", Number("kg", NOT_NEGATIVE), "additional mass, shared equally by the points, or at the end of `arm`",
        0, may_vary=True, model_path="{1}.mass"),
    key("arm", Tuple(3, "m"), "at rest, from the middle of the points to the mass; it turns with four of them, which "
        "lie far apart, as a rigid arm", may_vary=True, model_path="{1}.arm"),
    key("compliance", Number("m/N", NOT_NEGATIVE), "of the arm; 0 is rigid", 0, only_with=("arm",),
        model_path="{1}.compliance"),
    key("force", _series("forces", "N"), "a force over time, shared equally by the points: a recording of forces,"
        " `time, NAME.x, NAME.y, NAME.z`, linear between its samples"),
    key("torque", _series("torques", "N m"), "a torque over time on a body, a recording as well"),
    key("at", Tuple(3, "m"), "where a force on a body acts, at rest; default: its centre of mass",
        only_with=("force",)),
))
# fmt: on
