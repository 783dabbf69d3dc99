"""What a kernel sees of a mesh: its arrays, and the tree of boxes around its faces.

The tree is complete and implicit: node 1 is the root, the children of node k are 2 k and 2 k + 1, and all `leaves`
leaves lie on one level, from node `leaves` on.  So a walk to what is near first needs neither a stack nor pointers: the
way up is a shift, the sibling differs in one bit, and one bit for each level says whether the sibling is still to be
visited (a bit trail: Hapala and others, "Efficient Stack-less BVH Traversal for Ray Tracing", SCCG 2011; Afra and
Szirmay-Kalos, "Stackless Multi-BVH Traversal", CGF 33(1), 2014).

A mesh with groups has a tree for all faces and one for each group, one behind the other: `trees` says where each
begins.
"""

from __future__ import annotations

from sim.core.lang.frontend.tracing.hidden import HandleKind
from sim.core.lang.types import Struct, array_type, bool_, float32, int32, uint64, vector

vec3 = vector(3, float32)
Box = vector(6, float32)
"""Lower and upper corner."""
Triangle = vector(9, float32)
"""Three corners."""
Moments = vector(16, float32)
"""What a node is from afar, for winding numbers (`winding.py`): centre, radius, area vector, first moments."""
LANES = 8
"""Children of a node, and triangles of a block, of the tree for rays (`wide.py`)."""
Lanes = vector(LANES, float32)
LaneNumbers = vector(LANES, int32)
AxisNumbers = vector(3, int32)
TreeRow = vector(5, int32)
"""First node, number of leaves, first entry of `firsts`, group; of the tree for rays the root, as `wide.py` has it."""

MeshParts = Struct(
    "MeshParts",
    {
        "points": array_type(vec3, 1),
        "velocities": array_type(vec3, 1),
        "indices": array_type(int32, 1),
        "boxes": array_type(Box, 1),  # by node
        "triangles": array_type(Triangle, 1),  # corners of the faces, in the order of the leaves
        "faces": array_type(int32, 1),  # number of the face at each place of that order
        "firsts": array_type(int32, 1),  # where each leaf begins in that order, and the end
        "trees": array_type(TreeRow, 1),
        "nodes": array_type(Lanes, 1),  # rows of nodes of the tree for rays
        "blocks": array_type(Lanes, 1),  # rows of its leaves
        "moments": array_type(Moments, 1),  # by node; none without support_winding_number
        "mean_edge": float32,
    },
)
WORDS = {part: 3 * k for k, part in enumerate(MeshParts.fields)}
"""Where the parts stand in the header of a mesh."""
MESH = HandleKind("Mesh", {**MeshParts.fields, "bvh_id": uint64}, WORDS)

MeshQueryPoint = Struct("MeshQueryPoint", {"result": bool_, "sign": float32, "face": int32, "u": float32, "v": float32})
MeshQueryPoint.__doc__ = """Result of `mesh_query_point` and its relatives: a point u p + v q + (1 - u - v) r of `face`.

result: whether there is one.  sign: negative inside of the mesh, else positive.
"""
MeshQueryRay = Struct(
    "MeshQueryRay",
    {"result": bool_, "sign": float32, "face": int32, "t": float32, "u": float32, "v": float32, "normal": vec3},
)
MeshQueryRay.__doc__ = """Result of `mesh_query_ray`: start + t dir = u p + v q + (1 - u - v) r of `face`.

result: whether there is a hit.  sign: positive where the front of the face is hit; its size is twice the area of the
face as seen along the ray, and it has no derivative.  normal: of the face, a unit vector.
"""
