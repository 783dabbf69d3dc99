"""The arrays of a model and a state, declared once: name, shape, type, unit, meaning.

Allocation, the attributes of `Model` and `State`, and the reference pages all follow from these rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sim.core.lang.types import Scalar, Type, float64, int32, matrix, transformation, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.devices.device import DeviceLike


@dataclass(frozen=True)
class Field:
    """One array.

    shape: extents, each the name of a count (`particles`, ...) or a number; kind: `real` (the model's precision),
    `vec2`, `vec3` (two, three of them), `mat33`, `transform`, `spatial` (six), `double` (float64) or `int`; unit: SI;
    constant: never has a gradient; points: its elements are numbers of particles.
    """

    name: str
    shape: tuple[str | int, ...]
    kind: str
    unit: str
    doc: str
    constant: bool = False
    points: bool = False

    def dtype(self, real: Scalar) -> Type:
        """The element type in a model of precision `real`."""
        kinds: dict[str, Type] = {
            "real": real, "vec2": vector(2, real), "vec3": vector(3, real), "mat33": matrix((3, 3), real),
            "transform": transformation(real), "spatial": vector(6, real), "int": int32,
            "double": float64,
        }  # fmt: skip
        return kinds[self.kind]


JOINT_KINDS = "revolute", "prismatic", "ball", "fixed", "distance", "free"
REVOLUTE, PRISMATIC, BALL, FIXED, DISTANCE, FREE = range(len(JOINT_KINDS))
"""Kinds of joints, in the order of their numbers in `joint_kind`."""

PLANE, SPHERE, CAPSULE, CYLINDER, BOX, MESH, SDF = 1, 3, 4, 6, 7, 8, 9
SHAPE_TYPES = {
    "plane": PLANE, "sphere": SPHERE, "capsule": CAPSULE, "cylinder": CYLINDER, "box": BOX, "mesh": MESH, "sdf": SDF
}  # fmt: skip
"""Kinds of shapes, and their numbers in `shape_type`: those of Newton's `GeoType`."""

MODEL_FIELDS: tuple[Field, ...] = (
    Field("particle_q", ("particles",), "vec3", "m", "initial positions; from `<label>.position` and `.rotation`"),
    Field("particle_qd", ("particles",), "vec3", "m/s", "initial velocities; derived from `.velocity` and `.spin`"),
    Field("particle_mass", ("particles",), "real", "kg", "masses; derived from `.mass` or `.density`"),
    Field("particle_inv_mass", ("particles",), "real", "1/kg", "1 / mass; 0 for pinned points"),
    Field("particle_free", ("particles",), "real", "",
          "1 for points that the solver may move, 0 for pinned ones", True),
    Field("particle_thickness", ("particles",), "real", "m", "distance from a shape at which contact begins", True),
    Field("particle_drag", ("particles",), "real", "1/m",
          "drag d: deceleration d |v| v by the air; derived from `.drag`"),
    Field("body_q", ("bodies",), "transform", "m",
          "initial poses of the origins of the bodies; derived from `<label>.position` and `.rotation`"),
    Field("body_qd", ("bodies",), "spatial", "m/s, rad/s",
          "initial velocities: of the centre of mass, then angular, in the world; from `.velocity` and `.spin`"),
    Field("body_mass", ("bodies",), "real", "kg", "masses; derived from `<label>.mass`"),
    Field("body_inv_mass", ("bodies",), "real", "1/kg", "1 / mass; 0 for bodies that are held"),
    Field("body_free", ("bodies",), "real", "", "1 for bodies that the solver may move, 0 for those that are held",
          True),
    Field("body_com", ("bodies",), "vec3", "m", "centres of mass in the frames of the bodies; from `<label>.com`"),
    Field("body_inertia", ("bodies",), "mat33", "kg m^2",
          "inertia about the centre of mass, in the axes of the body; derived from `<label>.inertia`"),
    Field("body_inv_inertia", ("bodies",), "mat33", "1/(kg m^2)", "its inverse; 0 for bodies that are held"),
    Field("site_body", ("sites",), "int", "", "the bodies of sites, points that are observed"),
    Field("site_at", ("sites",), "vec3", "m", "where they are, in the frames of their bodies", True),
    Field("joint_kind", ("joints",), "int", "",
          "number in `JOINT_KINDS`; joints in the order they were added in, of each one those of all worlds"),
    Field("joint_parent", ("joints",), "int", "", "body, -1 the world"),
    Field("joint_child", ("joints",), "int", "", "body"),
    Field("joint_X_p", ("joints",), "transform", "m",
          "frame in that of the parent, its x axis along the free one; from `<label>.parent_at`"),
    Field("joint_X_c", ("joints",), "transform", "m", "frame in that of the child; from `<label>.child_at`"),
    Field("joint_q_start", ("joints",), "int", "", "first of its coordinates"),
    Field("joint_qd_start", ("joints",), "int", "", "first of its velocities, and of its forces"),
    Field("joint_target_pos", ("joint coordinates",), "real", "rad or m",
          "targets of drives; derived from `<label>.target_pos`"),
    Field("joint_target_vel", ("joint velocities",), "real", "rad/s or m/s", "derived from `<label>.target_vel`"),
    Field("target_key_offset", ("joints + 1",), "int", "", "keys of the target of joint j: [j] to [j + 1]"),
    Field("target_key_smooth", ("joints",), "int", "", "1 where they are gone between with a halt at each, 0 linearly"),
    Field("target_key_time", ("target keys",), "real", "s", "when", True),
    Field("target_key_value", ("target keys",), "real", "rad or m",
          "what is added to the target then; derived from `<label>.target_keys`"),
    Field("body_joint_offset", ("bodies + 1",), "int", "", "joints of body i: [i] to [i + 1] of `body_joint`"),
    Field("body_joint", ("joint ends",), "int", "", "2 j where it is the child of joint j, 2 j + 1 where the parent"),
    Field("shape_type", ("shapes",), "int", "",
          "number in `SHAPE_TYPES`; shapes in the order they were added in, of each one those of all worlds"),
    Field("shape_body", ("shapes",), "int", "", "body, -1 the world"),
    Field("shape_transform", ("shapes",), "transform", "m",
          "pose in the frame of the body; the free side of a plane is along z, round things are about z; from "
          "`<label>.at`, of shapes in the world `.center`, `.point`, `.normal`"),
    Field("shape_scale", ("shapes",), "vec3", "m",
          "half lengths of a box; radius and half height of what is round; factors of a mesh; what a signed "
          "distance takes; width and length of a plane as drawn; from `<label>.half`, `.radius`, "
          "`.half_height`, `.scale`"),
    Field("shape_density", ("shapes",), "real", "kg/m^3", "from `<label>.density` or `.mass`; 0 where it adds none"),
    Field("shape_material_mu", ("shapes",), "real", "", "coefficient of friction; from `<label>.mu`"),
    Field("shape_material_restitution", ("shapes",), "real", "", "from `<label>.restitution`"),
    Field("shape_triangles", ("shapes", 2), "int", "",
          "rows of `mesh_triangles`: the first of a mesh, and behind its last"),
    Field("shape_corners", ("shapes", 2), "vec3", "m", "of the box around a mesh, before it is scaled", True),
    Field("shape_hinges", ("shapes", 2), "int", "", "the same rows of `mesh_hinges`"),
    Field("mesh_vertices", ("mesh vertices",), "vec3", "m", "of all meshes, before they are scaled", True),
    Field("mesh_triangles", ("mesh triangles", 3), "int", "", "vertices of the triangles of all meshes"),
    Field("mesh_beside", ("mesh triangles", 3), "int", "",
          "third corners of the triangles beside those, across from their corners"),
    Field("mesh_hinges", ("mesh hinges", 4), "int", "",
          "vertices of the edges of all meshes that look outward: both ends, third corners of the triangles left and "
          "right"),
    Field("tri_indices", ("triangles", 3), "int", "", "points of the triangles", points=True),
    Field("tri_air_normal", ("triangles",), "real", "", "drag coefficient across; derived from `<label>.air.normal`"),
    Field("tri_air_tangential", ("triangles",), "real", "", "along the triangle; from `<label>.air.tangential`"),
    Field("edge_indices", ("edges", 2), "int", "", "points of the edges of the surfaces", points=True),
    Field("spring_indices", ("springs", 2), "int", "", "points of springs and of the links of chains",
          points=True),
    Field("tet_indices", ("tetrahedra", 4), "int", "", "points of the tetrahedra", points=True),
    Field("attachment_point", ("attached",), "int", "", "the attached points; each at most once", points=True),
    Field("attachment_anchor", ("attached",), "vec3", "m", "where they are held at displacement 0; derived"),
    Field("attachment_group", ("attached",), "int", "", "the attachment that each belongs to"),
    Field("attachment_slot", ("attached",), "int", "",
          "its row in the set of `attachment` constraints; -1 where the point is pinned and its position prescribed"),
    Field("motion_offset", ("moved groups + 1",), "int", "",
          "motions of group g, an attachment or a held body: motion_offset[g] to [g + 1]"),
    Field("motion_kind", ("motions",), "int", "", "0 a move that eases, 1 a move at constant speed, 2 a swing; 3, 4: "
          "turns like 0, 1; 6 a recording"),
    Field("motion_vector", ("motions",), "vec3", "m or rad",
          "displacement or rotation vector; derived from `<label>.motion.<k>.move|swing|turn`"),
    Field("motion_a", ("motions",), "real", "s or Hz", "start of a move [s], frequency of a swing [Hz]", True),
    Field("motion_b", ("motions",), "real", "s", "end of a move [s]; 0 for a swing", True),
    Field("push_point", ("pushed",), "int", "", "points that loads push with forces over time; each at most once",
          points=True),
    Field("push_load", ("pushed",), "int", "", "the number of that load"),
    Field("push_share", ("pushed",), "real", "", "part of the force that the point gets", True),
    Field("push_offset", ("pushing loads + 1",), "int", "", "forces of load g: push_offset[g] to [g + 1]"),
    Field("push_time", ("forces",), "double", "s", "when they act; linear between two", True),
    Field("push_force", ("forces",), "vec3", "N", "forces over time", True),
    Field("thrust_begin", ("bodies + 1",), "int", "", "forces over time on body i: `thrust_...` [i] to [i + 1]"),
    Field("thrust_placed", ("thrusts",), "int", "", "1 for a force with a place, 0 for one at the centre of mass"),
    Field("thrust_at", ("thrusts",), "vec3", "m", "that place, in the frame of the body", True),
    Field("thrust_offset", ("thrusts + 1",), "int", "", "samples of force g: thrust_offset[g] to [g + 1]"),
    Field("thrust_time", ("thrust samples",), "double", "s", "when they act; linear between two", True),
    Field("thrust_force", ("thrust samples",), "vec3", "N", "forces over time, along the axes of the world", True),
    Field("thrust_torque", ("thrust samples",), "vec3", "N m", "torques over time", True),
    Field("release_time", ("moved groups",), "double", "s", "when an attachment lets go; infinite: never", True),
    Field("track_offset", ("moved groups + 1",), "int", "",
          "samples of the recording that group g follows: track_offset[g] to [g + 1]"),
    Field("track_about", ("moved groups",), "vec3", "m", "the place that a recording moves, and turns about", True),
    Field("track_free", ("moved groups",), "int", "", "1 where clock and axes of the recording may vary"),
    Field("track_delay", ("moved groups",), "real", "s",
          "how much later in the recording the motion begins; derived from `<label>.motion.<k>.delay`"),
    Field("track_frame", ("moved groups",), "vec3", "rad",
          "rotation vector of the recording's axes; derived from `<label>.motion.<k>.frame`"),
    Field("track_time", ("samples",), "double", "s", "times of the samples of recordings", True),
    Field("track_move", ("samples",), "vec3", "m", "displacements", True),
    Field("track_turn", ("samples",), "vec3", "rad", "rotation vectors", True),
    Field("track_move_rate", ("samples",), "vec3", "m/s", "derivatives of the displacements there", True),
    Field("track_turn_rate", ("samples",), "vec3", "rad/s", "derivatives of the rotation vectors there", True),
    Field("motion_body", ("moved bodies",), "int", "", "the held bodies that have motions"),
    Field("motion_body_group", ("moved bodies",), "int", "", "the group of motions of each"),
)  # fmt: skip

STATE_FIELDS: tuple[Field, ...] = (
    Field("particle_q", ("particles",), "vec3", "m", "positions"),
    Field("particle_qd", ("particles",), "vec3", "m/s", "velocities"),
    Field("particle_f", ("particles",), "vec3", "N", "external forces of the coming step"),
    Field("body_q", ("bodies",), "transform", "m", "poses of the origins of the bodies"),
    Field("body_qd", ("bodies",), "spatial", "m/s, rad/s", "velocities of the centres of mass, then angular ones"),
    Field(
        "body_f",
        ("bodies",),
        "spatial",
        "N, N m",
        "external forces at the centres of mass, then torques, of the coming step; in the world",
    ),
)

HISTORY_FIELDS: tuple[Field, ...] = (
    Field("particle_q_low", ("particles",), "vec3", "m",
          "float32: what positions have no room for; the position is the sum", True),
    Field("particle_dq", ("particles",), "vec3", "m", "bdf2: displacement by the last step"),
    Field("particle_qd_last", ("particles",), "vec3", "m/s", "bdf2: velocities one step before"),
    Field("particle_qd_known", ("particles",), "vec3", "m/s", "bdf2: the velocities that the history belongs to", True),
    Field("particle_dt", ("particles",), "real", "s", "bdf2: the last step; 0 where the history begins", True),
    Field("body_q_low", ("bodies",), "vec3", "m",
          "float32: what the places of bodies have no room for; the place is the sum", True),
    Field("particle_qd_before", ("particles",), "vec3", "m/s", "with friction: velocities one step before"),
    Field("body_qd_before", ("bodies",), "spatial", "m/s, rad/s", "the same of bodies"),
)  # fmt: skip
"""What integrators and friction carry from step to step in `State.history`."""


def allocate(
    fields: Iterable[Field],
    counts: Mapping[str, int],
    values: Mapping[str, Any],
    real: Scalar,
    device: DeviceLike,
    requires_grad: bool,
) -> dict[str, array]:
    """An array for every field: from `values` where given, else zero.  Those that are not constant carry a gradient."""
    made: dict[str, array] = {}
    for field in fields:
        shape = tuple(counts[n] if isinstance(n, str) else n for n in field.shape)
        dtype, grad = field.dtype(real), requires_grad and field.kind != "int" and not field.constant
        out = made[field.name] = zeros(shape, dtype, device, grad)
        if field.name in values and out.size:
            out.assign(values[field.name])
    return made
