"""What `finalize` does: merges the collected blocks, colours the constraints, allocates, and lists the derivations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from sim.constraints.base import REGISTRY
from sim.constraints.projection import make_weighing
from sim.core.lang.types import as_scalar, transformation, vector
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import empty_like
from sim.core.runtime.devices.device import DeviceLike, get_device
from sim.model.build import checks
from sim.model.build.blocks import AttachmentBlock, ConstraintBlock, LoadBlock, PointBlock, refuse_springs_that_rebound
from sim.model.build.bodies import BodyBlock, SiteBlock, derive_bodies
from sim.model.build.joints.blocks import JointBlock
from sim.model.build.joints.derive import derive_joints, joint_arrays, listed_joints
from sim.model.build.joints.starts import derive_starts
from sim.model.build.merge import Movers, build_set, unmeasured
from sim.model.build.motions import Moved, check_released, derive_motions, first_groups, force_arrays, motion_arrays
from sim.model.build.order.tiling import tiling_of
from sim.model.build.rigid.forces import BodyForce, body_force_arrays
from sim.model.build.rigid.inertia import OfShapes
from sim.model.build.self_contact import SelfContactBlock, derive_self_contact, refuse_overlap
from sim.model.build.shapes.blocks import NearBlock, ShapeBlock
from sim.model.build.shapes.contacts import contact_blocks, tied_pairs
from sim.model.build.shapes.cylinders import rim_blocks
from sim.model.build.shapes.derive import listed_shapes, shape_arrays
from sim.model.build.shapes.distances import distance_blocks, watched_faces
from sim.model.build.shapes.facets import facet_blocks
from sim.model.build.shapes.mesh_cylinders import mesh_cylinder_blocks
from sim.model.build.shapes.near import MANY, meeting_shapes, near_contact, near_pairs, rolling_pairs
from sim.model.build.shapes.overlaps import check_apart
from sim.model.build.shapes.pairs import pair_blocks
from sim.model.build.worlds import (
    Numbering,
    copied_attachment,
    copied_constraints,
    copied_group,
    copied_load,
    copied_points,
    copied_sites,
    copied_visual,
)
from sim.model.constraint_set import ConstraintSet
from sim.model.derived.arrays import ArrayFactory, per_element, source_of
from sim.model.derived.derivation import Column, Derivation, Picked, broadcast
from sim.model.derived.kernels import kernels
from sim.model.derived.measure import measure_rest
from sim.model.derived.merging import merged
from sim.model.errors import ModelError
from sim.model.fields import MODEL_FIELDS, allocate
from sim.model.groups import NO_EDGES, NO_TETS, NO_TRIANGLES, Attachment, Group
from sim.model.materials import FINITE, Materials
from sim.model.model import Model
from sim.model.visuals import Visual

_HELD = "(mass 0)"  # label of the attachment of points without mass; no label of a user has parentheses and a blank


@dataclass(frozen=True, eq=False)
class ModelParts:
    """What a builder has collected."""

    gravity: np.ndarray
    groups: Mapping[str, Group]
    points: Sequence[PointBlock]
    constraints: Sequence[ConstraintBlock]
    shapes: Sequence[ShapeBlock]
    attachments: Sequence[AttachmentBlock]
    loads: Sequence[LoadBlock] = ()
    worlds: int = 1
    wind: np.ndarray = field(default_factory=lambda: np.zeros(3))
    air_density: float = 0.0
    bodies: Sequence[BodyBlock] = ()
    sites: Sequence[SiteBlock] = ()
    visuals: Sequence[Visual] = ()
    joints: Sequence[JointBlock] = ()
    contact: SelfContactBlock | None = None
    body_forces: Sequence[BodyForce] = ()
    near: NearBlock | None = None

    @property
    def moved_bodies(self) -> list[BodyBlock]:
        """Held bodies with motions."""
        return [block for block in self.bodies if block.motions]

    @property
    def joined(self) -> set[tuple[int, int]]:
        """Pairs of bodies of the first world with a joint between them, or that of a rod; what is hinged to the world
        collides with its shapes all the same."""
        ends = [(int(block.joint.parents[0]), int(block.joint.children[0])) for block in self.joints]
        for block in self.constraints:
            if block.constraint.added_by == "add_rod" and block.pattern.kinds == "ab":
                ends += [(int(a), int(b)) for a, b in block.points]
        return {(min(pair), max(pair)) for pair in ends if min(pair) >= 0}

    def with_held(self) -> ModelParts:
        """The same, with what constraints want to know of the points that are held."""
        mass = np.concatenate([np.zeros(0), *(block.mass for block in self.points)])
        held = mass == 0
        for attachment in self.attachments:
            held[attachment.points] |= attachment.pinned
        return replace(self, constraints=[block.with_held(held) for block in self.constraints])

    def in_worlds(self, worlds: int) -> ModelParts:
        """The same `worlds` times."""
        number = Numbering([block.group for block in self.points], worlds)
        number_bodies = Numbering([block.group for block in self.bodies], worlds)
        particles = sum(block.group.count for block in self.points)
        sites = [copied_sites(block, number_bodies, particles) for block in self.sites]
        of_sites = {block.group.name: block.group for block in sites}
        groups = {
            name: of_sites[name] if name in of_sites else copied_group(group, number)
            for name, group in self.groups.items()
        }
        return ModelParts(
            self.gravity,
            groups,
            [copied_points(b, groups[b.group.name], worlds) for b in self.points],
            [copied_constraints(b, number, number_bodies) for b in self.constraints],
            [b.copied(number_bodies, worlds) for b in self.shapes],
            [copied_attachment(b, number) for b in self.attachments],
            [copied_load(b, number) for b in self.loads],
            worlds,
            self.wind,
            self.air_density,
            [b.copied(worlds) for b in self.bodies],
            sites,
            [v for visual in self.visuals for v in copied_visual(visual, number_bodies)],
            [b.copied(number_bodies, worlds) for b in self.joints],
            self.contact,
            [force.copied(number_bodies) for force in self.body_forces],
            self.near,
        )


def assemble(parts: ModelParts, device: DeviceLike, requires_grad: bool, dtype: Any) -> Model:
    """The model of these parts."""
    real = as_scalar(dtype)
    if not real.is_float:
        raise ModelError(f"dtype = {real} is no precision", "Use sim.float32 or sim.float64")
    make = ArrayFactory(get_device(device), real, bool(requires_grad))
    with recording.paused():
        return _assemble(parts, make)


def _assemble(parts: ModelParts, make: ArrayFactory) -> Model:
    if not parts.points and not parts.bodies:
        raise ModelError("the model has no points and no bodies", "Add particles, a cloth or a body before finalize")
    _check_weights(parts)
    positions = [block.base + per_element(block.position, len(block.base)) for block in parts.points]
    position = np.concatenate([np.zeros((0, 3)), *positions])
    mass = np.concatenate([np.zeros(0), *(block.mass for block in parts.points)])
    check_released(parts.attachments)
    attachments = _with_massless(parts.attachments, mass)
    free = mass > 0
    for block in attachments:
        if block.pinned:
            free[block.points] = False
    bodies_free = np.concatenate([np.zeros(0, bool), *(b.free for b in parts.bodies)])
    if not free.any() and not bodies_free.any():
        raise ModelError("nothing is free to move: every point or body is held or has mass 0", "Attach fewer points")

    materials = Materials(make.real, make.device, make.requires_grad)
    materials.add("gravity", parts.gravity[None])
    in_wind = any(block.air for block in parts.points)
    if in_wind:
        materials.add("wind", parts.wind[None])
        materials.add("air_density", np.array([parts.air_density]))
    touched = {block.label: _touched(block, parts) for block in parts.shapes}
    may = near_pairs(parts.shapes, parts.joined)
    rolling = may * rolling_pairs(parts.shapes)
    is_near = (may > rolling).any() and (parts.near is not None or may.sum() > MANY)
    thickness, tied = _thickness(parts.points), tied_pairs(parts.constraints)
    blocks = [
        *parts.constraints,
        *_attachment_blocks(attachments, position),
        *contact_blocks(parts.shapes, touched, thickness, tied),
        *facet_blocks(parts.shapes, touched, parts.groups, parts.points, parts.bodies, thickness, tied),
        *pair_blocks(parts.shapes, parts.joined, bool(is_near)),
        *rim_blocks(parts.shapes, parts.joined),
        *mesh_cylinder_blocks(parts.shapes, parts.joined),
        *distance_blocks(parts.shapes, parts.joined),
    ]
    refuse_springs_that_rebound(blocks)
    tiling = tiling_of(position) if parts.worlds == 1 and make.device.is_cpu else None
    movers = Movers.over(free, bodies_free, tiling)
    shape_counts, of_shapes = shape_arrays(parts.shapes)
    vec3, frame = vector(3, make.real), transformation(make.real)
    kinds = {"body_com": (len(bodies_free), vec3), "shape_transform": (shape_counts["shapes"], frame)}
    own = {name: make.zeros(count, kind) for name, (count, kind) in kinds.items()}
    own["shape_scale"] = make.zeros(shape_counts["shapes"], vec3)
    own |= {f"shape_material_{key}": make.zeros(shape_counts["shapes"], make.real) for key in ("mu", "restitution")}
    own["shape_scale"].assign(of_shapes["shape_scale"])
    sets = _build_sets(blocks, movers, materials, make, own, parts.worlds)
    near = None
    if is_near:
        near, of_near = near_contact(parts.near or NearBlock(), parts.shapes, may - rolling, parts.worlds, make)
        sets |= of_near
    counts, values = _geometry(parts, attachments, movers, sets)
    more_counts, of_joints = joint_arrays(parts.joints, parts.worlds, counts["bodies"])
    counts, values = counts | more_counts | shape_counts, values | of_joints | of_shapes
    arrays = allocate(MODEL_FIELDS, counts, values, make.real, make.device, make.requires_grad)
    arrays |= own
    moves = any(block.displaced for block in attachments)
    placed = make.zeros(len(free), vector(3, make.real)) if moves else arrays["particle_q"]
    contact, of_contact = derive_self_contact(
        parts.contact, parts.groups, parts.worlds, _thickness(parts.points), materials, make
    )
    derivations = [
        *derive_bodies(parts.bodies, parts.shapes, arrays, materials, make),
        *_masses(parts.points, parts.loads, arrays, materials, make),
        *_placements(parts.points, placed, arrays["particle_qd"], arrays["particle_free"], materials, make),
        *_displaced(attachments, placed, arrays["particle_q"], materials, make),
        *_carried(parts, arrays, materials, make),
        *_air(parts.points, arrays, materials, make),
        *_anchors(arrays, make),
        *derive_motions([*attachments, *parts.moved_bodies], arrays, materials, make),
        *(d for s in sets.values() for d in (*s.derivations, *_weights(s, arrays["particle_inv_mass"], make))),
        *derive_joints(parts.joints, parts.worlds, arrays, of_joints, materials, make),
        *derive_starts(parts.joints, parts.worlds, arrays, of_joints, materials, make),
        *of_contact,
    ]
    model = Model(
        make,
        arrays,
        materials,
        merged(derivations, make),
        constraint_sets={name: s for name, s in sets.items() if s.count},
        groups=dict(parts.groups),
        shapes=listed_shapes(parts.shapes, touched, materials),
        attachments=[Attachment(b.label, b.points, b.pinned, len(b.motions)) for b in attachments],
        in_air=any(block.drag is not None for block in parts.points),
        worlds=parts.worlds,
        in_wind=in_wind,
        bodies={block.group.name: block.group for block in parts.bodies},
        visuals=parts.visuals,
        joints=listed_joints(parts.joints, of_joints, parts.worlds),
        contact=contact,
        near=near,
        meeting=meeting_shapes(parts.shapes, rolling if is_near else may, parts.worlds, make),
        watched=watched_faces(parts.shapes, parts.joined, make),
        check_start=partial(_check_start, parts),
        along=None if tiling is None else tiling.number,
    )
    model.refresh()
    _measure(model, placed, blocks, parts.bodies)
    model.refresh()
    return model


def _check_start(parts: ModelParts, model: Model) -> None:
    """What `Model.check_start` does."""
    check_apart(model, parts.shapes, parts.joined)
    refuse_overlap(model.contact, model.particle_q, model.particle_qd, parts.groups)


# ------------------------------------------------------------------------------------------ points
def _masses(
    blocks: Sequence[PointBlock],
    loads: Sequence[LoadBlock],
    arrays: dict[str, array],
    materials: Materials,
    make: ArrayFactory,
) -> list[Derivation]:
    """Masses, drags, inverse masses."""
    own, made = kernels(make.real), []
    # the masses of the points alone, then with one load after the other; the last of them are those of the model
    n = arrays["particle_mass"].size
    masses = [*(make.zeros(n, make.real) for _ in loads), arrays["particle_mass"]]
    own_mass = np.zeros(n)
    for block in blocks:
        if block.carried:
            own_mass[block.group.points] = block.mass
    masses[0].assign(own_mass)
    for block in (block for block in blocks if not block.carried):
        group, everyone = block.group, np.arange(block.group.count)
        rows = everyone + group.start
        heavy = "(0, inf)" if block.weight_key == "density" else FINITE
        weight = materials.add(f"{group.name}.{block.weight_key}", block.weight, heavy)
        made.append(broadcast(make, weight, group.count, everyone, rows, masses[0], factor=block.factor))
        if block.drag is not None:
            drag = materials.add(f"{group.name}.drag", np.full(group.worlds, block.drag), FINITE)
            made.append(broadcast(make, drag, group.count, everyone, rows, arrays["particle_drag"]))
    for load, before, after in zip(loads, masses, masses[1:], strict=False):
        value = materials.add(f"{load.label}.mass", load.mass, FINITE)
        part, source, loaded = np.zeros(n), np.zeros(n, np.int32), len(load.points)
        part[load.points] = len(load.mass) / loaded
        source[load.points] = source_of(np.arange(loaded), len(load.mass), loaded)
        inputs = [before, value, make.constant(source, int), make.constant(part, make.real)]
        made.append(Derivation(own.add_load, n, inputs, [after], values=[value], derived=[before]))
    final = [arrays["particle_mass"], arrays["particle_free"]]
    return [*made, Derivation(own.invert, n, final, [arrays["particle_inv_mass"]], derived=final[:1])]


def _weights(made: ConstraintSet, inv_mass: array, make: ArrayFactory) -> list[Derivation]:
    """The inverse masses of the points of constraints."""
    if made.weights is None or not made.count:
        return []
    weigh = make_weighing(made.constraint.points, make.real)
    return [Derivation(weigh, made.count, [made.points, inv_mass], [made.weights], derived=[inv_mass])]


def _placements(
    blocks: Sequence[PointBlock], q: array, qd: array, free: array, materials: Materials, make: ArrayFactory
) -> list[Derivation]:
    """Initial positions and velocities, as far as objects give them."""
    own, vec3, made = kernels(make.real), vector(3, make.real), []
    for block in (block for block in blocks if not block.carried):
        group, count = block.group, block.group.count
        span = slice(group.start, group.start + count)
        picked = [
            Picked.of(materials.add(f"{group.name}.{key}", host), np.arange(count), count)
            for key, host in (("position", block.position), ("rotation", block.rotation),
                              ("velocity", block.velocity), ("spin", block.spin))
        ]  # fmt: skip
        inputs = [Column(block.base, vec3), *picked, vec3(*block.center), free[span]]
        made.append(Derivation(own.place, count, inputs, [q[span], qd[span]]))
    return made


def _displaced(
    attachments: Sequence[AttachmentBlock], placed: array, q: array, materials: Materials, make: ArrayFactory
) -> list[Derivation]:
    """Initial positions of points that attachments hold beside where they are at rest."""
    own, vec3, made = kernels(make.real), vector(3, make.real), []
    blocks = [block for block in attachments if block.displaced]
    stages = [placed, *(make.zeros(q.size, vec3) for _ in blocks[1:]), q]
    for block, before, after in zip(blocks, stages, stages[1:], strict=False):
        offset, turn = (materials.add(f"{block.label}.{key}", block.displaced[key]) for key in ("offset", "turn"))
        worlds, world = offset.size, np.full(q.size, -1)
        rows = block.points.reshape(worlds, -1)
        world[block.points] = np.repeat(np.arange(worlds), rows.shape[1])
        center = make.zeros(worlds, vec3)
        made.append(Derivation(own.middle, worlds, [before, make.constant(rows, int)], [center], derived=[before]))
        inputs = [before, make.constant(world, int), center, offset, turn]
        sources = [before, center]
        made.append(Derivation(own.displace, q.size, inputs, [after], values=[offset, turn], derived=sources))
    return made


def _carried(parts: ModelParts, arrays: dict[str, array], materials: Materials, make: ArrayFactory) -> list[Derivation]:
    """Initial positions and velocities of loads on arms: where their carriers hold them."""
    vec3, made, q, qd = vector(3, make.real), [], arrays["particle_q"], arrays["particle_qd"]
    levers = {b.prefix: b for b in parts.constraints if b.constraint.name == "lever"}
    for group in (block.group for block in parts.points if block.carried):
        lever, rows = levers[group.name], slice(group.start, group.start + group.count)
        inputs = [
            q[: group.start],
            qd[: group.start],
            Column(lever.points[:, 1:], int),
            Picked.of(materials[f"{group.name}.arm"], np.arange(group.count), group.count),
            *(Column(lever.constants[name], vec3) for name in ("shift", "axis_1", "axis_2", "axis_3")),
        ]
        kernel = kernels(make.real).carry
        made.append(Derivation(kernel, group.count, inputs, [q[rows], qd[rows]], derived=[q, qd]))
    return made


def _air(
    blocks: Sequence[PointBlock], arrays: dict[str, array], materials: Materials, make: ArrayFactory
) -> list[Derivation]:
    """Drag coefficients of the triangles."""
    made, begin = [], 0
    for block in blocks:
        faces = np.arange(len(block.group.triangles))
        for key, value in block.air.items():
            given, out = (
                materials.add(f"{block.group.name}.air.{key}", np.full(block.group.worlds, value)),
                arrays[f"tri_air_{key}"],
            )
            made.append(broadcast(make, given, len(faces), faces, begin + faces, out))
        begin += len(faces)
    return made


def _geometry(
    parts: ModelParts, attachments: Sequence[AttachmentBlock], movers: Movers, sets: Mapping[str, ConstraintSet]
) -> tuple[dict[str, int], dict[str, Any]]:
    """Counts and constant content of the model's arrays."""
    groups, free = [block.group for block in parts.points], movers.free[: movers.particles]
    links = [group.edges for group in groups if group.kind == "chain"]
    apart = [b for b in parts.constraints if b.constraint.name == "distance" and b.label not in parts.groups]
    springs = [b.points for b in apart if b.pattern.only_particles]
    moved: list[Moved] = [*attachments, *parts.moved_bodies]
    firsts, (of_motions, motions) = first_groups(moved), motion_arrays(moved)
    bodies = list(zip(firsts[len(attachments) :], parts.moved_bodies, strict=True))
    of_forces, forces = force_arrays(parts.loads, parts.worlds)
    of_thrusts, thrusts = body_force_arrays(parts.body_forces, sum(block.group.count for block in parts.bodies))
    values = {
        "particle_free": free,
        "particle_thickness": _thickness(parts.points),
        "site_body": np.concatenate([np.zeros(0, np.int32), *(b.bodies for b in parts.sites)]),
        "site_at": np.concatenate([np.zeros((0, 3)), *(b.at for b in parts.sites)]),
        "body_free": movers.free[movers.particles : -1],
        "tri_indices": np.concatenate([NO_TRIANGLES, *(g.triangles for g in groups)]),
        "edge_indices": np.concatenate([NO_EDGES, *(g.edges for g in groups if g.kind != "chain")]),
        "spring_indices": np.concatenate([NO_EDGES, *links, *springs]),
        "tet_indices": np.concatenate([NO_TETS, *(g.tets for g in groups)]),
        "attachment_point": np.concatenate([np.zeros(0, np.int32), *(b.points for b in attachments)]),
        "attachment_group": np.concatenate(
            [
                np.zeros(0, int),
                *(
                    first + source_of(np.arange(len(b.points)), b.worlds, len(b.points))
                    for first, b in zip(firsts, attachments, strict=False)
                ),
            ]
        ),
        "attachment_slot": np.concatenate([np.zeros(0, np.int32), *(_slots(b, sets) for b in attachments)]),
        "motion_body": np.concatenate([np.zeros(0, int), *(b.group.bodies for _, b in bodies)]),
        "motion_body_group": np.concatenate([np.zeros(0, int), *(first + np.arange(b.worlds) for first, b in bodies)]),
        **motions,
        **forces,
        **thrusts,
    }
    counts = {
        "particles": len(free), "bodies": len(values["body_free"]), "sites": len(values["site_body"]),
        "triangles": len(values["tri_indices"]), "edges": len(values["edge_indices"]),
        "springs": len(values["spring_indices"]), "tetrahedra": len(values["tet_indices"]),
        "attached": len(values["attachment_point"]), "moved bodies": len(values["motion_body"]), **of_motions,
        **of_forces,
        **of_thrusts,
    }  # fmt: skip
    return counts, values


# ------------------------------------------------------------------------------------------ attachments
def _with_massless(attachments: Sequence[AttachmentBlock], mass: np.ndarray) -> list[AttachmentBlock]:
    """Points of mass 0 that nobody attached are held where they are."""
    loose = mass == 0
    for block in attachments:
        loose[block.points] = False
    held = np.flatnonzero(loose).astype(np.int32)
    return [*attachments, AttachmentBlock(_HELD, held, np.zeros(1), [])] if len(held) else list(attachments)


def _attachment_blocks(attachments: Sequence[AttachmentBlock], position: np.ndarray) -> list[ConstraintBlock]:
    return [
        ConstraintBlock(b.label, b.label, REGISTRY["attachment"], b.points[:, None], np.ones(len(b.points)),
                        {"compliance": b.compliance},
                        constants={"target": position[b.points], "hold": np.ones(len(b.points))})
        for b in attachments if not b.pinned
    ]  # fmt: skip


def _slots(block: AttachmentBlock, sets: Mapping[str, ConstraintSet]) -> np.ndarray:
    if block.pinned:
        return np.full(len(block.points), -1)
    return sets["attachment"].index_of[block.label]


def _anchors(arrays: dict[str, array], make: ArrayFactory) -> list[Derivation]:
    """Anchors of attachments follow the initial positions."""
    inputs = [arrays["particle_q"], arrays["attachment_point"]]
    if not inputs[1].size:
        return []
    own = kernels(make.real)
    return [Derivation(own.gather, inputs[1].size, inputs, [arrays["attachment_anchor"]], derived=inputs[:1])]


# ------------------------------------------------------------------------------------------ shapes
def _touched(shape: ShapeBlock, parts: ModelParts) -> np.ndarray:
    """The points that may touch a shape."""
    carried = {block.group.name for block in parts.points if block.carried}
    untouched = carried | {block.group.name for block in parts.sites}
    names = [name for name in parts.groups if name not in untouched] if shape.touches is None else shape.touches
    if shape.touches is not None:
        known = {**parts.groups, **{block.label: block for block in parts.bodies}}
        for name in names:
            checks.known(f"touches of {shape.label!r}: object", name, known)
    touching = [parts.groups[name] for name in dict.fromkeys(names) if name in parts.groups and name not in untouched]
    return np.concatenate([np.zeros(0, np.int32), *(g.of_world(w) for w in range(parts.worlds) for g in touching)])


def _check_weights(parts: ModelParts) -> None:
    """Raises where a body that should move has no mass."""
    for block in parts.bodies:
        if isinstance(block.inertia, OfShapes) and not (block.weighed or block.held):
            raise ModelError(
                f"the body {block.label!r} has no mass",
                "Give it mass and inertia, or shapes with a density; mass=0 or held=True hold it",
            )
        if block.motions and block.free.any():
            raise ModelError("motion of a body that is free", "Hold it: held=True")
        for name in ("velocity", "spin"):
            if getattr(block, name).any() and not block.free.any():
                raise ModelError(
                    f"the body {block.label!r} is held: its {name} would move nothing",
                    "Give it a motion: motion=[{'move': ...}] or [{'turn': ...}], with 'ease': 'linear'",
                )


def _thickness(blocks: Sequence[PointBlock]) -> np.ndarray:
    return np.concatenate([np.zeros(0), *(np.full(b.group.count, b.thickness) for b in blocks)])


# ------------------------------------------------------------------------------------------ constraints
def _build_sets(
    blocks: Sequence[ConstraintBlock],
    movers: Movers,
    materials: Materials,
    make: ArrayFactory,
    arrays: Mapping[str, array],
    worlds: int,
) -> dict[str, ConstraintSet]:
    merged: dict[str, list[ConstraintBlock]] = {}
    for block in blocks:
        merged.setdefault(block.set_name, []).append(block)
    return {name: build_set(own, movers, materials, make, arrays, worlds) for name, own in merged.items()}


def _measure(model: Model, rest: array, blocks: Sequence[ConstraintBlock], bodies: Sequence[BodyBlock]) -> None:
    """Parameters that nobody gave: C of the rest shape, the initial one before attachments displace it and bodies are
    turned further, with those parameters 0."""
    poses = _before_turned(model, bodies)
    for name, made in model.constraint_sets.items():
        own = [block for block in blocks if block.set_name == name]
        wanted = [(p, block, unmeasured(block, p)) for p in made.constraint.measured for block in own]
        if not any(mask.any() for _, _, mask in wanted):
            continue
        placed = made.slots, made.placing, (poses, model.body_com)
        measured = measure_rest(made.constraint, model.dtype, rest, made.points, made.parameters, *placed)
        for parameter, block, mask in wanted:
            rows = made.index_of[block.label]
            chosen = np.flatnonzero(mask & (rows >= 0))
            # Given for some of the constraints: their values are completed.  For none: it is no material value.
            given = parameter in block.values
            target = model[f"{block.prefix}.{parameter}"] if given else made.parameters[parameter]
            host = target.device.numpy(target).copy()
            host[chosen if given else rows[chosen]] = measured[parameter][rows[chosen]]
            target.assign(host)


def _before_turned(model: Model, bodies: Sequence[BodyBlock]) -> array:
    """Poses of bodies as they were placed, as joints see them: a turn may be sought, and what is at rest does not
    depend on its guess."""
    turned = [block for block in bodies if block.rotation.any()]
    if not turned:
        return model.body_q
    host = model.body_q.device.numpy(model.body_q).copy()
    for block in turned:
        host[block.group.start : block.group.start + block.group.count] = block.poses
    out = empty_like(model.body_q)
    out.assign(host)
    return out
