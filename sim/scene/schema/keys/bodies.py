"""Rigid bodies and rods among the `objects` of a scene."""

from __future__ import annotations

from sim.constraints.joints.rod import CURVATURE_2, CURVATURE_3, TWIST_RATE
from sim.constraints.tetrahedron import POISSON
from sim.scene.schema.keys.common import FILE_SPACE, MOST_PER_SIDE, REQUIRED, key
from sim.scene.schema.keys.motions import motion
from sim.schema.containers import List, Map, Table, Union
from sim.schema.kinds import NOT_NEGATIVE, POSITIVE, Bool, Choice, File, Int, NameOf, Number, Tuple
from sim.schema.reading import Kind, SchemaLine

FORMS = ("box", "sphere", "capsule", "cylinder", "mesh")


def _form(sought: bool) -> tuple[SchemaLine, ...]:
    """What a shape or a visual is, and where; sought: its sizes may be parameters."""

    def size(name: str, kind: Kind, doc: str) -> SchemaLine:
        path = f"{{1}}.{{4}}.{name}" if sought else ""
        return key(name, kind, doc, REQUIRED, may_vary=sought, model_path=path)

    radius = size("radius", Number("m", POSITIVE), "radius")
    half_height = size("half_height", Number("m", POSITIVE), "half of its length along z, round ends not counted")
    what = "a closed surface that looks outward" if sought else "a surface"
    return (
        key("box", Table((size("half", Tuple(3, "m", POSITIVE), "half of its lengths along x, y, z"),)), "a box"),
        key("sphere", Table((radius,)), "a ball"),
        key("capsule", Table((radius, half_height)), "round ends on a cylinder along z"),
        key("cylinder", Table((radius, half_height)), "a cylinder along z"),
        key("mesh", Table((key("file", File(), what, REQUIRED), *FILE_SPACE)), what),
        key(
            "at",
            Tuple(3, "m"),
            "its middle (origin of a mesh) in the frame of the body",
            [0, 0, 0],
            may_vary=sought,
            model_path="{1}.{4}.at" if sought else "",
        ),
        key("turn", Tuple(3, "rad"), "rotation vector of its axes in the frame of the body", [0, 0, 0]),
    )


def surface(of: str) -> tuple[SchemaLine, ...]:
    """Keys of what a surface does in contact; of: the path of whose it is."""
    rule = "of two surfaces the mean counts, one without takes that of the other"
    return (
        key("friction", Number("", NOT_NEGATIVE), f"coefficient of friction; {rule}; default: contact without friction",
            may_vary=True, model_path=f"{of}.mu"),
        key("restitution", Number("", "[0, 1]"), f"speed after a collision over that before; {rule}; default: 0",
            may_vary=True, model_path=f"{of}.restitution"),
    )  # fmt: skip


# Paths in the model: {1} is the object's name, {4} that of the shape.
# fmt: off
SHAPE = Table((
    *_form(sought=True),
    key("density", Number("kg/m^3", POSITIVE), "mass per volume", may_vary=True, model_path="{1}.{4}.density"),
    key("mass", Number("kg", POSITIVE), "instead of its density", may_vary=True, model_path="{1}.{4}.mass"),
    *surface("{1}.{4}"),
), one_of=(FORMS,), at_most_one=(("density", "mass"),), title="a shape: `box`, `sphere`, `capsule`, `cylinder` or "
   "`mesh`, with `at`, `turn`, `density`, ...")
VISUAL = Table(_form(sought=False), one_of=(FORMS,),
               title="a visual: `box`, `sphere`, `capsule`, `cylinder` or `mesh`, with `at` and `turn`")

INERTIA = Union((Tuple(3, "kg m^2", POSITIVE), Tuple(6, "kg m^2")), "kg m^2")
BODY_MASS = Number("kg", NOT_NEGATIVE)
BODY = Table((
    key("mass", BODY_MASS, "mass, beside that of its shapes, which may be all of it; 0 holds the body",
        may_vary=True, model_path="{1}.mass"),
    key("inertia", INERTIA,
        "about the centre of mass, in the axes of the body: principal moments, or xx yy zz xy xz yz",
        may_vary=True, model_path="{1}.inertia"),
    key("com", Tuple(3, "m"), "centre of mass, in the frame of the body", [0, 0, 0],
        may_vary=True, model_path="{1}.com"),
    key("held", Bool(), "it does not move, but by `motion`", False),
    key("motion", List(motion(4, of_body=True), alone=True), "of a held body: displacements and turns, added up", []),
    key("shapes", Map(SHAPE), "what it is made of: with `density` or `mass` they give its mass, centre of mass and "
        "inertia, or add to them", {}),
    key("touches", List(NameOf("objects")), "the objects that its shapes collide with, both ways; default: all, but "
        "bodies that a joint holds to it"),
    key("visuals", Map(VISUAL), "how it is drawn; default: as its shapes, else as a body of equal inertia", {}),
    key("sites", Map(Tuple(3, "m")), "named points of the body, for markers; default: its origin", {}),
))

CLAMPED = Union((Choice(("world",)), NameOf("objects")))

STIFFNESS = Table((
    key("stretch", Number("N", POSITIVE), "E A; default: does not stretch", may_vary=True, model_path="{1}.stretch"),
    key("shear", Number("N", POSITIVE), "k G A; default: does not shear", may_vary=True, model_path="{1}.shear"),
    key("torsion", Number("N m^2", POSITIVE), "G J", REQUIRED, may_vary=True, model_path="{1}.torsion"),
    key("bend_2", Number("N m^2", POSITIVE), "E I about axis 2", REQUIRED, may_vary=True, model_path="{1}.bend_2"),
    key("bend_3", Number("N m^2", POSITIVE), "E I about axis 3", REQUIRED, may_vary=True, model_path="{1}.bend_3"),
))

ROD = Table((
    key("points", List(Tuple(3, "m"), 2), "the line of the rod at rest", REQUIRED),
    key("segments", Int(1, MOST_PER_SIDE), "rigid segments of equal length; default: one between two points"),
    key("radius", Number("m", POSITIVE), "of the round section; of others what gives mass and spin", REQUIRED,
        may_vary=True, model_path="{1}.radius"),
    key("density", Number("kg/m^3", POSITIVE), "mass per volume", REQUIRED,
        may_vary=True, model_path="{1}.density"),
    key("young", Number("Pa", POSITIVE), "Young's modulus", may_vary=True, model_path="{1}.young"),
    key("poisson", Number("", POISSON.bounds), POISSON.doc, 0.3, only_with=("young",),
        may_vary=True, model_path="{1}.poisson"),
    key("stiffness", STIFFNESS, "instead of `young`: the stiffness of any section"),
    key("damping", Number("s", NOT_NEGATIVE), "ratio of damping to stiffness", 0,
        may_vary=True, model_path="{1}.damping"),
    *(key(v.name, Number(v.unit), v.doc, 0, may_vary=True, model_path=f"{{1}}.{v.name}")
      for v in (TWIST_RATE, CURVATURE_2, CURVATURE_3)),
    key("normal", Tuple(3, nonzero=True), "axis 2 of the first segment; default: any across it"),
    key("closed", Bool(), "the last segment joins the first", False),
    key("clamp", Table((
        key("start", CLAMPED, "what holds the first end"),
        key("end", CLAMPED, "what holds the last end"),
    )), "`world`, or a body, in which an end is clamped", {}),
    key("surface", Table((
        *surface("{1}"),
        key("touches", List(NameOf("objects")), "the objects that it collides with, both ways, the rod itself if it is "
            "named; default: all others, but bodies that a joint holds to it"),
    )), "it collides, each segment as a capsule of its `radius`; default: nothing touches it"),
), one_of=(("young", "stiffness"),))
# fmt: on
