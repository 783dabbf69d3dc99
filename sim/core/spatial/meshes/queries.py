"""The names by which kernels ask a mesh, with Warp's arguments; `id` is that of a `Mesh`.

Queries give their result as a struct, or, in Warp's older form, assign it to variables that they are given and say
whether there was one; where there was none the variables stay as they are.
"""

from __future__ import annotations

import ast

from sim.core.lang.frontend.function import Function, func
from sim.core.lang.frontend.traced import Keywords, Positional, TracedValue, flatten, rebuild, type_of
from sim.core.lang.frontend.tracing.assignments import assign
from sim.core.lang.frontend.tracing.calls import call_function
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.frontend.tracing.hidden import opened, part_of
from sim.core.lang.frontend.tracing.registry import Builtin, builtin, register, takes
from sim.core.lang.types import Struct, int32
from sim.core.spatial.handles import advancing
from sim.core.spatial.meshes import closest, overlaps, rays, signs
from sim.core.spatial.meshes.layout import MESH, MeshParts, MeshQueryPoint, MeshQueryRay, vec3


def _of_mesh(name: str, function: Function, results: Struct | None = None) -> Builtin:
    """A builtin `name(id, ...)` that calls `function(mesh, ...)`.

    results: what the older form `name(id, x, y, z, *results, ...)` assigns: the fields of this struct but `result`.
    """
    code = function.python.__code__  # the source is not read before a kernel calls it
    parameters = code.co_varnames[1 : code.co_argcount]
    fields = [] if results is None else _order_of_results(name, results)
    inputs = code.co_argcount - len(function.python.__defaults__ or ())

    def handler(t: Context, node: ast.Call, args: Positional, kwargs: Keywords) -> TracedValue:
        if "id" in kwargs:
            args = (kwargs.pop("id"), *args)
        if not args:
            raise t.error(node, f"{name} needs the id of a Mesh", f"its parameters: id, {', '.join(parameters)}")
        mesh = opened(t, MESH, MeshParts, args[0], node)
        places = node.args[inputs : inputs + len(fields)] if len(args) >= inputs + len(fields) and fields else []
        given = (*args[1:inputs], *args[inputs + len(places) :])
        found = call_function(t, function, (mesh, *given), kwargs, node)
        if not places:
            return found
        for place, field, before in zip(places, fields, args[inputs:], strict=False):
            assign(t, place, _chosen(t, found.values["result"], found.values[field], before, place))
        return found.values["result"]

    shown = ["id", *parameters[: inputs - 1]]
    shown += [f"{p}={x}" for p, x in zip(parameters[inputs - 1 :], function.python.__defaults__ or (), strict=True)]
    made = Builtin(name, handler, f"{name}({', '.join(shown)}): {function.__doc__}")
    register({name: made})
    return made


def _order_of_results(name: str, results: Struct) -> list[str]:
    """In which order the older form names its results."""
    if results is MeshQueryRay:
        return ["t", "u", "v", "sign", "normal", "face"]
    return ["face", "u", "v"] if name.endswith("no_sign") else ["sign", "face", "u", "v"]


def _chosen(t: Context, found: TracedValue, new: TracedValue, before: TracedValue, node: ast.AST) -> TracedValue:
    """The new value of a variable where something was found, else the one before."""
    kind = type_of(new)
    assert kind is not None
    old = flatten(t.fit_or_error(before, kind, "a variable for a result", node))
    values = [t.b.emit("select", found, a, b) for a, b in zip(flatten(new), old, strict=True)]
    return rebuild(new, iter(values))


mesh_query_point = _of_mesh("mesh_query_point", signs.query_point, MeshQueryPoint)
mesh_query_point_no_sign = _of_mesh("mesh_query_point_no_sign", closest.query_point_no_sign, MeshQueryPoint)
mesh_query_point_sign_normal = _of_mesh("mesh_query_point_sign_normal", signs.query_point_sign_normal, MeshQueryPoint)
mesh_query_point_sign_parity = _of_mesh("mesh_query_point_sign_parity", signs.query_point_sign_parity, MeshQueryPoint)
mesh_query_point_sign_winding_number = _of_mesh(
    "mesh_query_point_sign_winding_number", signs.query_point_sign_winding_number, MeshQueryPoint
)
mesh_query_furthest_point_no_sign = _of_mesh(
    "mesh_query_furthest_point_no_sign", closest.query_furthest_point_no_sign, MeshQueryPoint
)
mesh_query_ray = _of_mesh("mesh_query_ray", rays.query_ray, MeshQueryRay)
mesh_query_ray_anyhit = _of_mesh("mesh_query_ray_anyhit", rays.query_ray_anyhit)
mesh_query_ray_count_intersections = _of_mesh("mesh_query_ray_count_intersections", rays.query_ray_count_intersections)
mesh_query_aabb = _of_mesh("mesh_query_aabb", overlaps.query_aabb)
mesh_query_sphere = _of_mesh("mesh_query_sphere", overlaps.query_sphere)
_NEXT = "Whether there is another face; then the variable `index` gets its number: `while {}(query, index):`."
mesh_query_aabb_next = advancing(
    "mesh_query_aabb_next", overlaps.MeshQuery, overlaps.advance, _NEXT.format("mesh_query_aabb_next")
)
mesh_query_next = advancing("mesh_query_next", overlaps.MeshQuery, overlaps.advance, _NEXT.format("mesh_query_next"))


@func
def _eval_position(mesh, face, bary_u, bary_v):
    """The point u p + v q + (1 - u - v) r of a face with corners p, q, r."""
    p, q, r = closest.corners_of(mesh, face)
    return p * bary_u + q * bary_v + r * (1.0 - bary_u - bary_v)


@func
def _eval_velocity(mesh, face, bary_u, bary_v):
    """The velocity at the point (u, v) of a face; 0 of a mesh without velocities."""
    found = vec3()
    if mesh.velocities:
        p = mesh.velocities[mesh.indices[3 * face]]
        q = mesh.velocities[mesh.indices[3 * face + 1]]
        r = mesh.velocities[mesh.indices[3 * face + 2]]
        found = p * bary_u + q * bary_v + r * (1.0 - bary_u - bary_v)
    return found


@func
def _get_point(mesh, index):
    """The point of entry `index` of the indices: corner `index` % 3 of face `index` // 3."""
    return mesh.points[mesh.indices[index]]


@func
def _get_velocity(mesh, index):
    """The velocity of entry `index` of the indices; 0 of a mesh without velocities."""
    found = vec3()
    if mesh.velocities:
        found = mesh.velocities[mesh.indices[index]]
    return found


@func
def _get_index(mesh, index):
    """Entry `index` of the indices: the number of a point."""
    return mesh.indices[index]


@func
def _get_group_root(mesh, group):
    """What queries take as `root` to see the faces of a group only; -1, all faces, if there is no such group."""
    low, high = int32(1), mesh.trees.shape[0]
    while low < high:
        middle = (low + high) // 2
        if mesh.trees[middle][3] < group:
            low = middle + 1
        else:
            high = middle
    root = int32(-1)
    if low < mesh.trees.shape[0]:
        if mesh.trees[low][3] == group:
            root = low
    return root


@func
def _get(mesh):
    """The mesh as a struct with the arrays `points`, `velocities` and `indices`."""
    return mesh


mesh_eval_position = _of_mesh("mesh_eval_position", _eval_position)
mesh_eval_velocity = _of_mesh("mesh_eval_velocity", _eval_velocity)
mesh_eval_face_normal = _of_mesh("mesh_eval_face_normal", closest.face_normal)
mesh_get_point = _of_mesh("mesh_get_point", _get_point)
mesh_get_velocity = _of_mesh("mesh_get_velocity", _get_velocity)
mesh_get_index = _of_mesh("mesh_get_index", _get_index)
mesh_get_group_root = _of_mesh("mesh_get_group_root", _get_group_root)
mesh_get = _of_mesh("mesh_get", _get)


@builtin("mesh_get_bvh")
def mesh_get_bvh(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """mesh_get_bvh(id): the id of a `Bvh` of the boxes around the faces, for `bvh_query_ray` and others."""
    takes(t, node, "mesh_get_bvh", args, kwargs, 1)
    return part_of(t, MESH, args[0], "bvh_id", node)
