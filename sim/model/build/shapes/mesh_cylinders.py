"""Contacts of cylinders with meshes: which rows a pair has.

Places of the rims meet the mesh, its vertices the cylinder; the lowest places of the rims meet triangles, and each edge
along which the mesh is bent outward meets side and rims.  What is flat or bent inward meets no edge and no vertex: the
rims are there before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.constraints.contact.solids.cylinders.rim_mesh_choice import SECTORS
from sim.model.build.blocks import ConstraintBlock, FromShapes
from sim.model.build.shapes.blocks import ShapeBlock
from sim.model.build.shapes.cylinders import PLACES, row_block
from sim.model.build.shapes.pairs import PairRows, check_kinds, collide, field_block, pairs_of, pattern_of, surface_of
from sim.model.build.shapes.ridges import ridges_of

RIM_ROWS = np.array(
    [[*place, -1.0] for place in PLACES if place[:2].any()]
    + [[0.0, 0.0, up, sector] for up in (-1.0, 1.0) for sector in range(SECTORS)]
)
"""`corner` and `sector` of eight places of each rim, and of the lowest ones, which move."""


def mesh_cylinder_blocks(shapes: Sequence[ShapeBlock], joined: set[tuple[int, int]]) -> list[ConstraintBlock]:
    """joined: pairs of bodies of the first world with a joint between them."""
    out = []
    for i, j in pairs_of(np.array([shape.kind == "mesh" for shape in shapes], bool)):
        if {shapes[i].kind, shapes[j].kind} == {"mesh", "cylinder"} and collide(shapes[i], shapes[j], joined):
            check_kinds(shapes[i], shapes[j])
            out += _pair(shapes, *((i, j) if shapes[i].kind == "mesh" else (j, i)))
    return out


def _pair(shapes: Sequence[ShapeBlock], mesh: int, cylinder: int) -> list[ConstraintBlock]:
    a, b = shapes[mesh], shapes[cylinder]
    vertices, triangles = surface_of(a)
    ridges = ridges_of(vertices, triangles)
    there, back = pattern_of(a, b), pattern_of(b, a)
    rows, out = PairRows(shapes, [(mesh, cylinder)], len(RIM_ROWS)), []
    sizes = {"radius": FromShapes(0, rows.shapes[1]), "half_height": FromShapes(1, rows.shapes[1])}
    scaled = {"scale": FromShapes("half", rows.shapes[0])}
    given = {"corner": RIM_ROWS[:, :3], "sector": RIM_ROWS[:, 3], "mesh": rows.shapes[0].astype(np.float64)}
    out.append(row_block("contact_rim_mesh", f"rims of {b.label} on {a.label}", there, rows, scaled | sizes, given))
    if len(ridges):
        corners = vertices[np.unique(ridges[:, :2])]
        rows = PairRows(shapes, [(cylinder, mesh)], len(corners))
        out.append(field_block("cylinder", "mesh", back, rows, corners, f"{a.label} in {b.label}"))
        ends = {name: vertices[ridges[:, k]] for k, name in enumerate(("a", "b", "left", "right"))}
        twice = {name: np.repeat(at, 2, axis=0) for name, at in ends.items()}
        twice["root"] = np.tile([1.0, -1.0], len(ridges))
        for name, of, has in (("contact_ridge_side", "side", ends), ("contact_ridge_rim", "rims", twice)):
            rows = PairRows(shapes, [(cylinder, mesh)], len(has["a"]))
            sizes = {"radius": FromShapes(0, rows.shapes[0]), "half_height": FromShapes(1, rows.shapes[0])}
            scaled = {"other_scale": FromShapes("half", rows.shapes[1])}
            out.append(row_block(name, f"edges of {a.label} on {of} of {b.label}", back, rows, sizes | scaled, has))
    return out
