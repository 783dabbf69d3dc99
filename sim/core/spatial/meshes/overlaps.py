"""Faces whose boxes overlap a box, and faces that a sphere touches, one after the other."""

from __future__ import annotations

from sim.core.lang.frontend.builtins import max as larger
from sim.core.lang.frontend.builtins import min as smaller
from sim.core.lang.frontend.function import func
from sim.core.lang.types import Struct, bool_, float32, int32
from sim.core.spatial.meshes.layout import MeshParts, vec3
from sim.core.spatial.meshes.triangles import corner, distance_sq_to_triangle
from sim.core.spatial.meshes.walk import behind, distance_sq_to_box

MeshQuery = Struct(
    "MeshQuery",
    {
        **{part: MeshParts.fields[part] for part in ("boxes", "triangles", "faces", "firsts", "trees")},
        "lower": vec3,
        "upper": vec3,
        "radius_sq": float32,
        "node": int32,
        "place": int32,
    },
)
MeshQuery.__doc__ = """A walk over the faces of a mesh, as `mesh_query_aabb` and `mesh_query_sphere` begin it.

radius_sq: of a sphere around `lower`; negative: a box.  node, place: where the walk goes on; place 0: at the node
itself, else behind that many faces of the leaf.
"""


@func
def begin(mesh, lower, upper, radius_sq):
    return MeshQuery(
        boxes=mesh.boxes,
        triangles=mesh.triangles,
        faces=mesh.faces,
        firsts=mesh.firsts,
        trees=mesh.trees,
        lower=lower,
        upper=upper,
        radius_sq=radius_sq,
        node=1,
    )


@func
def query_aabb(mesh, low, high):
    """A walk over the faces whose box overlaps the box from `low` to `high`; `mesh_query_aabb_next` goes on."""
    return begin(mesh, low, high, float32(-1.0))


@func
def query_sphere(mesh, center, radius):
    """A walk over the faces that come as close to `center` as `radius`; `mesh_query_aabb_next` goes on."""
    return begin(mesh, center, center, float32(radius) * float32(radius))


@func
def overlaps(query, low, high):
    x = query.lower[0] <= high[0] and query.upper[0] >= low[0]
    y = query.lower[1] <= high[1] and query.upper[1] >= low[1]
    return x and y and query.lower[2] <= high[2] and query.upper[2] >= low[2]


@func
def touches_box(query, box):
    found = bool_(False)
    if query.radius_sq < 0.0:
        found = overlaps(query, vec3(box[0], box[1], box[2]), vec3(box[3], box[4], box[5]))
    else:
        found = distance_sq_to_box(box, query.lower) <= query.radius_sq
    return found


@func
def touches_face(query, abc):
    a, b, c = corner(abc, 0), corner(abc, 1), corner(abc, 2)
    found = bool_(False)
    if query.radius_sq < 0.0:
        found = overlaps(query, smaller(smaller(a, b), c), larger(larger(a, b), c))
    else:
        found = distance_sq_to_triangle(a, b, c, query.lower) <= query.radius_sq
    return found


@func
def advance(query):
    """The walk behind the next face, that face, and whether there is one."""
    leaves = int32(0)
    if query.trees.shape[0] > 0:
        leaves = query.trees[0][1]
    node, place = query.node, query.place
    face, found = int32(-1), bool_(False)
    going = bool_(leaves > 0 and place >= 0)
    while going:
        inside = bool_(place > 0 or touches_box(query, query.boxes[node]))
        if inside and node < leaves:
            node = 2 * node
        else:
            if inside:
                first, end = query.firsts[node - leaves], query.firsts[node - leaves + 1]
                while not found and first + place < end:
                    if touches_face(query, query.triangles[first + place]):
                        face, found = query.faces[first + place], bool_(True)
                    place += 1
            if not found:
                node, place = behind(node), int32(0)
                if node == 1:
                    place = int32(-1)
            going = bool_(not found and place >= 0)
    query.node, query.place = node, place
    return query, face, found
