"""The arrays of a model that say what its shapes are, and what they add to the mass of bodies, from material values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.core.lang.types import matrix, quaternion, vector
from sim.core.runtime.arrays.array import array
from sim.model.build.shapes.blocks import ShapeBlock
from sim.model.build.shapes.ridges import beside_of, ridges_of
from sim.model.derived.arrays import ArrayFactory
from sim.model.derived.body_kernels import body_derivations
from sim.model.derived.derivation import Column, Derivation, Picked, broadcast
from sim.model.derived.shape_kernels import CAPPED, ROUND, SCALED, shape_derivations
from sim.model.fields import SHAPE_TYPES
from sim.model.groups import CollisionShape
from sim.model.materials import FINITE, Materials

ALLOWED = {
    **dict.fromkeys(("mu", "restitution", "half_height"), FINITE),
    **dict.fromkeys(("radius", "half", "density", "mass"), "(0, inf)"),
}
"""Intervals of material values of shapes: see `Materials`."""
FAMILIES = {"box": SCALED, "mesh": SCALED, "cylinder": ROUND, "capsule": CAPPED, "sphere": CAPPED}


def shape_arrays(blocks: Sequence[ShapeBlock]) -> tuple[dict[str, int], dict[str, Any]]:
    """Counts and constant content of the arrays of shapes."""
    worlds = [len(block.bodies) for block in blocks]
    values = {
        "shape_type": np.repeat([SHAPE_TYPES[block.kind] for block in blocks], worlds),
        "shape_body": np.concatenate([np.zeros(0, np.int32), *(block.bodies for block in blocks)]),
        "shape_scale": np.repeat(np.array([[*block.extent, 0.0] for block in blocks]).reshape(-1, 3), worlds, axis=0),
    }
    counts = {"shapes": len(values["shape_body"])}
    of_meshes, meshes = _mesh_arrays(blocks, worlds)
    return counts | of_meshes, values | meshes


def _mesh_arrays(blocks: Sequence[ShapeBlock], worlds: Sequence[int]) -> tuple[dict[str, int], dict[str, Any]]:
    """The triangles of meshes, which all worlds have in common."""
    vertices, triangles = [np.zeros((0, 3))], [np.zeros((0, 3), np.int32)]
    rows, corners = np.zeros((len(blocks), 2), np.int32), np.zeros((len(blocks), 2, 3))
    beside = [np.zeros((0, 3), np.int32)]
    hinges, of_hinges = [np.zeros((0, 4), np.int32)], np.zeros((len(blocks), 2), np.int32)
    points, faces, bent = 0, 0, 0
    for k, block in enumerate(blocks):
        if block.mesh is None:
            continue
        own = np.asarray(block.mesh.vertices, np.float64)
        vertices.append(own)
        triangles.append(np.asarray(block.mesh.triangles, np.int32) + points)
        rows[k], corners[k] = (faces, faces + len(triangles[-1])), (own.min(axis=0), own.max(axis=0))
        beside.append(beside_of(np.asarray(block.mesh.triangles)) + points)
        hinges.append(ridges_of(own, np.asarray(block.mesh.triangles)) + points)
        of_hinges[k] = bent, bent + len(hinges[-1])
        points, faces, bent = points + len(own), rows[k, 1], of_hinges[k, 1]
    values = {
        "mesh_vertices": np.concatenate(vertices),
        "mesh_triangles": np.concatenate(triangles),
        "mesh_beside": np.concatenate(beside),
        "mesh_hinges": np.concatenate(hinges),
        "shape_triangles": np.repeat(rows, worlds, axis=0),
        "shape_hinges": np.repeat(of_hinges, worlds, axis=0),
        "shape_corners": np.repeat(corners, worlds, axis=0),
    }
    return {"mesh vertices": points, "mesh triangles": int(faces), "mesh hinges": int(bent)}, values


def derive_shapes(
    blocks: Sequence[ShapeBlock], arrays: Mapping[str, array], materials: Materials, make: ArrayFactory
) -> list[Derivation]:
    """Poses, sizes and materials of shapes."""
    made, none = [], Column(np.zeros(1), make.real)
    for number, block in enumerate(blocks):
        worlds = len(block.bodies)
        everyone = np.arange(worlds)
        rows = number * worlds + everyone
        target = Column(rows, int)
        values = {key: _value(block, key, materials) for key in block.values}
        picked = {key: Picked.of(value, everyone, worlds) for key, value in values.items()}
        own, at = shape_derivations(make.real), picked[block.place]
        if block.kind == "plane" and "normal" in values:
            kernel, inputs = own.plane_frame, [at, picked["normal"], target]
        else:
            turn = Column(np.tile(block.turn, (worlds, 1)), quaternion(make.real))
            kernel, inputs = body_derivations(make.real).joint_frame, [at, turn, target]
        made.append(Derivation(kernel, worlds, inputs, [arrays["shape_transform"]]))
        size = values.get("half", values.get("scale"))
        if size is not None:
            made.append(broadcast(make, size, worlds, everyone, rows, arrays["shape_scale"]))
        elif "radius" in values:
            height = picked.get("half_height", Picked(none, np.zeros(worlds, np.int32)))
            made.append(Derivation(own.round_size, worlds, [picked["radius"], height, target], [arrays["shape_scale"]]))
        for key in (key for key in ("mu", "restitution") if key in values):
            made.append(broadcast(make, values[key], worlds, everyone, rows, arrays[f"shape_material_{key}"]))
    return made


def derive_weights(
    blocks: Sequence[ShapeBlock],
    own: Mapping[str, array],
    arrays: Mapping[str, array],
    materials: Materials,
    make: ArrayFactory,
) -> list[Derivation]:
    """Mass, centre and inertia of bodies: what they have of their `own`, and their shapes."""
    real, kernels = make.real, shape_derivations(make.real)
    vec3, mat33 = vector(3, real), matrix((3, 3), real)
    worlds = len(blocks[0].bodies)
    rows = [(body, number * worlds + world, block)
            for number, block in enumerate(blocks) if block.weighs
            for world, body in enumerate(block.bodies.tolist())]  # fmt: skip
    rows.sort(key=lambda row: row[0])  # those of a body stand together
    bodies, shapes, solids = zip(*rows, strict=True)
    count = len(rows)
    amount, made = make.zeros(count, real), []
    place = {number: k for k, number in enumerate(shapes)}
    for number, block in enumerate(blocks):
        if not block.weighs:
            continue
        value = _value(block, "density" if "density" in block.values else "mass", materials)
        slots = np.array([place[number * worlds + world] for world in range(worlds)])
        made.append(broadcast(make, value, worlds, np.arange(worlds), slots, amount))
    mass, com, inertia = (make.zeros(count, kind) for kind in (real, vec3, mat33))
    moments = [block.moments for block in solids]
    constants = [
        make.constant(np.array(shapes, np.int32), int),
        make.constant(np.array([FAMILIES[block.kind] for block in solids], np.int32), int),
        make.constant(np.array([m.volume for m in moments]), real),
        make.constant(np.array([m.centre for m in moments]), vec3),
        make.constant(np.array([m.second for m in moments]), mat33),
    ]
    by_mass = make.constant(np.array(["mass" in block.values for block in solids], np.int32), int)
    read = [amount, arrays["shape_scale"], arrays["shape_transform"]]
    inputs = [*constants, amount, by_mass, *read[1:]]
    outputs = [arrays["shape_density"], mass, com, inertia]
    made.append(Derivation(kernels.weigh, count, inputs, outputs, derived=read))
    n = arrays["body_mass"].size
    first = make.constant(np.cumsum([0, *np.bincount(bodies, minlength=n)]).astype(np.int32), int)
    parts = [own[name] for name in ("body_mass", "body_com", "body_inertia")]
    inputs, outputs = [*parts, first, mass, com, inertia], [arrays[name] for name in own]
    return [*made, Derivation(kernels.gather, n, inputs, outputs, derived=[*parts, mass, com, inertia])]


def listed_shapes(
    blocks: Sequence[ShapeBlock], touched: Mapping[str, np.ndarray], materials: Materials
) -> list[CollisionShape]:
    """The shapes of a model."""
    out = []
    for number, block in enumerate(blocks):
        worlds = len(block.bodies)
        numbers = (number * worlds + np.arange(worlds)).astype(np.int32)
        values = {key: materials[block.path(key)] for key in block.values}
        surface = None if block.mesh is None else (block.mesh.vertices, block.mesh.triangles)
        out.append(
            CollisionShape(block.label, block.kind, numbers, block.bodies, values, touched.get(block.label), surface)
        )
    return out


def _value(block: ShapeBlock, key: str, materials: Materials) -> array:
    path = block.path(key)
    return materials[path] if path in materials else materials.add(path, block.values[key], ALLOWED.get(key, ""))
