"""Where contacts are as a step ends: gaps, places, normals, and the forces of the step."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.kinematics.geometry import contact_of, gap_of
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import body_struct, slot_struct
from sim.constraints.slots.linearization import (
    movers_of,
)  # fmt: skip
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, quaternion, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@memoize
def make_gap(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """C of constraints `tid()` where a step has led to."""
    vec3, Quat = vector(3, real), quaternion(real)
    Data, SlotData, Bodies = parameter_struct(c, real), slot_struct(c, slots, real), body_struct(real)
    layout = particle_layout(real)
    particle_type, position = layout.type(real), layout.position
    n_particles = len(slots.particles)
    movers, gap_at = movers_of(slots), gap_of(c, slots, real)

    @kernel(name=f"gap_{c.name}_{slots.kinds}")
    def find_gap(
        points: array2d[int],
        placing: SlotData,
        data: Data,
        bodies: Bodies,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        gap: array[real],
    ):
        k = tid()
        _, _, of_p, _, _, _, poses = movers(k, points, bodies, particle, dx, turn)
        x = [position(of_p[p]) for p in static(range(n_particles))]
        gap[k] = gap_at(x, poses, fields_at(placing, k), fields_at(data, k))

    return find_gap


@memoize
def make_touched(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """Where contacts `tid()` touch at the end of a step [m], and the forces of the step there on their first point, or
    the one that a frame sees [N]: normal and friction."""
    vec3, Quat = vector(3, real), quaternion(real)
    Data, SlotData, Bodies = parameter_struct(c, real), slot_struct(c, slots, real), body_struct(real)
    layout = particle_layout(real)
    particle_type, position = layout.type(real), layout.position
    particles, n_particles = slots.particles, len(slots.particles)
    on_bodies = tuple((j, g) for g, own in enumerate(slots.bodies) for j in own)
    movers, contact = movers_of(slots), contact_of(c, slots, real)
    first = 1 if c.frames else 0
    at_particle = particles.index(first) if first in particles else -1
    at_arm = next((i for i, (j, _) in enumerate(on_bodies) if j == first or c.points == 2), 0)
    at_body = on_bodies[at_arm][1] if on_bodies else 0
    reach_at = tuple(c.parameters).index(c.reach[first]) if c.reach and c.reach[first] else -1

    @kernel(name=f"touched_{c.name}_{slots.kinds}")
    def touched(
        points: array2d[int],
        placing: SlotData,
        data: Data,
        bodies: Bodies,
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        multiplier: array[real],
        late: array[real],
        along: array[vec3],
        rough: bool,
        place: array[vec3],
        normal: array[vec3],
        friction: array[vec3],
    ):
        k = tid()
        _, _, of_p, _, _, _, poses = movers(k, points, bodies, particle, dx, turn)
        x = [position(of_p[p]) for p in static(range(n_particles))]
        data_k = fields_at(data, k)
        _, _, n, _, _, _, arms = contact(x, poses, fields_at(placing, k), data_k)
        if at_particle >= 0:
            at = x[at_particle]
            if reach_at >= 0:
                at -= data_k[reach_at] * n
        else:
            at = poses[at_body][0] + arms[at_arm][1]
        lam, lam_t = multiplier[k], vec3()
        if rough:
            lam += late[k]
            lam_t = along[k]
        place[k], normal[k], friction[k] = at, (lam / (dt * dt)) * n, lam_t / (dt * dt)

    return touched
