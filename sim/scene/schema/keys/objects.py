"""`objects`: what moves, how it is placed, and what it is made of."""

from __future__ import annotations

from collections.abc import Mapping

from sim.constraints.damping.branches import GIVES_WAY, STIFFNESS
from sim.geometry import ELEMENTS
from sim.scene.schema.keys.bodies import BODY, ROD
from sim.scene.schema.keys.common import FILE_SPACE, MOST_CELLS, MOST_PER_SIDE, REQUIRED, WHERE, key, value
from sim.scene.schema.keys.materials import MaterialSpec
from sim.schema.containers import List, Map, Table
from sim.schema.kinds import NOT_NEGATIVE, POSITIVE, Choice, File, Int, Number, Tuple

# Paths in the model: {1} is the object's name, {4} the constraint's, {5} that of its key.
# fmt: off
PLACEMENT = (
    key("position", Tuple(3, "m"), "moves the object, after rotation and scale", [0, 0, 0],
        may_vary=True, may_be_set=True, model_path="{1}.position", per_point=True),
    key("rotation", Table((
        key("axis", Tuple(3, nonzero=True), "direction of the axis, through the object's origin", [0, 0, 1]),
        key("angle", Number("rad"), "angle, right-handed", REQUIRED),
    )), "turns the object", {"angle": 0}, may_be_set=True),
    key("turn", Tuple(3, "rad"), "rotation vector by which it begins turned further, about its origin; what chooses"
        " its places sees it without", [0, 0, 0], may_vary=True, may_be_set=True, model_path="{1}.rotation"),
    key("scale", Number("", POSITIVE), "factor on all lengths", 1),
    key("velocity", Tuple(3, "m/s"), "initial velocity of all points", [0, 0, 0],
        may_vary=True, may_be_set=True, model_path="{1}.velocity", per_point=True),
    key("spin", Tuple(3, "rad/s"), "initial angular velocity about the centre of mass", [0, 0, 0],
        may_vary=True, may_be_set=True, model_path="{1}.spin"),
    key("drag", Number("1/m", NOT_NEGATIVE), "air drag d: every point is slowed down by d times its speed squared", 0,
        may_vary=True, may_be_set=True, model_path="{1}.drag"),
    key("air", Table((
        key("normal", Number("", NOT_NEGATIVE), "drag coefficient across the triangles; of a plate 1.2 to 2", REQUIRED,
            may_vary=True, model_path="{1}.air.normal"),
        key("tangential", Number("", NOT_NEGATIVE), "drag coefficient along them, of both sides together", 0,
            may_vary=True, model_path="{1}.air.tangential"),
    )), "drag of the air on the triangles, in the wind of the world", may_be_set=True),
    key("regions", Map(WHERE),
        "named choices of points, none in two of them, for values that differ from region to region", {}),
)

_CELLS = "number of cells along each side"
_TETRAHEDRALIZE = Table((key("lattice", Int(1, MOST_PER_SIDE), "cells along the longest side", REQUIRED),))


def objects(materials: Mapping[str, MaterialSpec]) -> Table:
    """An object: a body with these materials, and its placement."""
    material = key("material", material_table(materials), "the constraints that hold the object together", {})
    cloth = Table((
        key("mesh", Table((
            key("file", File(), "triangle mesh (obj, ply, stl, off, glb)", REQUIRED),
            *FILE_SPACE,
        )), "mesh"),
        key("grid", Table((
            key("size", Tuple(2, "m", POSITIVE), "width and height", REQUIRED),
            key("cells", List(Int(1, MOST_CELLS), 2, 2), _CELLS, REQUIRED),
        )), "rectangle of triangles in the x-y plane"),
        key("density", value("kg/m^2", POSITIVE), "mass per area, spread over the points", REQUIRED,
            may_vary=True, model_path="{1}.density", per_point=True),
        key("thickness", Number("m", NOT_NEGATIVE), "contact distance", 0),
        material,
    ), one_of=(("mesh", "grid"),))
    soft = Table((
        key("mesh", Table((
            key("file", File(), "tetrahedra (.node with its .ele, or .msh), or a closed surface to fill", REQUIRED),
            *FILE_SPACE,
            key("tetrahedralize", _TETRAHEDRALIZE, "how to fill a closed surface"),
        )), "mesh"),
        key("lattice", Table((
            key("origin", Tuple(3, "m"), "corner with the smallest x, y, z", [0, 0, 0]),
            key("size", Tuple(3, "m", POSITIVE), "lengths of the sides", REQUIRED),
            key("cells", List(Int(1, MOST_CELLS), 3, 3), _CELLS, REQUIRED),
        )), "block of cells, five tetrahedra in each"),
        key("density", value("kg/m^3", POSITIVE), "mass per volume, spread over the points", REQUIRED,
            may_vary=True, model_path="{1}.density", per_point=True),
        key("element", Choice(ELEMENTS), "`tetrahedra` are too stiff on coarse meshes; `hexahedra` (the cells of a"
            " lattice) and `quadratic` tetrahedra (with points in the middles of their edges) bend", "tetrahedra"),
        material,
    ), one_of=(("mesh", "lattice"),))
    chain = Table((
        key("from", Tuple(3, "m"), "first point", REQUIRED),
        key("to", Tuple(3, "m"), "last point", REQUIRED),
        key("points", Int(2, MOST_CELLS), "number of points, both ends included", REQUIRED),
        key("mass", Number("kg", POSITIVE), "mass of the whole chain", REQUIRED,
            may_vary=True, model_path="{1}.mass"),
        material,
    ))
    particles = Table((
        key("positions", List(Tuple(3, "m"), 1), "the points", REQUIRED),
        key("mass", value("kg", POSITIVE), "mass of each point", REQUIRED,
            may_vary=True, model_path="{1}.mass", per_point=True),
        material,
    ))
    return Table((
        key("cloth", cloth, "a surface of triangles"),
        key("soft", soft, "a solid of tetrahedra"),
        key("chain", chain, "points in a line, neighbours linked"),
        key("particles", particles, "loose points"),
        key("body", BODY, "a rigid body"),
        key("rod", ROD, "an elastic rod of rigid segments"),
        *PLACEMENT,
    ), one_of=(("cloth", "soft", "chain", "particles", "body", "rod"),))

_BRANCH = "{1}.{4}.branches.{6}.{7}"
BRANCHES = key("branches", List(Table((
    key("stiffness", Number("", STIFFNESS.bounds), STIFFNESS.doc, REQUIRED, may_vary=True, model_path=_BRANCH),
    *(key(name, Number(way.unit, way.bounds), way.doc, may_vary=True, model_path=_BRANCH)
      for name, way in GIVES_WAY.items()),
), one_of=(tuple(GIVES_WAY),))),
    "stiffness beside the lasting one that relaxes (a Prony series) or yields (internal friction)", [])
# fmt: on


def material_table(materials: Mapping[str, MaterialSpec]) -> Table:
    """Constraint -> its keys."""
    lines = []
    for name, spec in materials.items():
        keys = tuple(
            key(
                p.name,
                value(p.dimension, p.bounds, each=p.name == "compliance"),
                p.doc,
                REQUIRED if p.default is None else p.default,
                may_vary=p.may_vary,
                model_path="{1}.{4}.{5}",
            )
            for p in spec.parameters.values()
        )
        lines.append(key(name, Table((*keys, BRANCHES) if spec.branches else keys), spec.doc))
    return Table(
        tuple(lines),
        noun="constraint",
        title="a mapping: constraint -> its keys",
        unknown="one of your own is known with `simopt --import MODULE ...`",
    )
