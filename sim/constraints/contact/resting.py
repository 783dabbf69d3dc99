"""Contacts of bodies from step to step: what rests begins with most of the normal force that it ended the last with.

What is predicted without forces falls, and contacts push it up one after the other: a box on four corners is turned to
and fro, and creeps.  With them, what rests stays where it is, and projections only correct (a warm start, as in E.
Catto, "Iterative Dynamics with Temporal Coherence", GDC 2005).  The forces are part of the state, and of its gradient.
Friction begins anew in each step: from where it ended, stacks sway.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.geometry import contact_of, gap_of, slip_of
from sim.constraints.contact.projection import lane_span, push_of
from sim.constraints.contact.surface import impact_struct, surface_struct
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import body_struct, slot_struct
from sim.constraints.slots.linearization import masses_of, movers_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import min, static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, quaternion, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.launch.kernel import Kernel, kernel

KEPT = 0.9
"""The part of the force that is kept: what is wrong in it fades."""
STILL_NEAR = 1e-3
"""A contact that has opened by so much [m] begins a step without force."""


@memoize
def make_contact_start(
    c: Constraint, slots: Slots, real: Scalar, exclusive: bool = False, lane: int = 0, single: bool = False
) -> Kernel:
    """The multipliers with which contacts `start + tid()` begin a step: of the normal forces `pressed` [N] with which
    the last one ended, which move what was predicted without them.  lane, single: as in the projection; multipliers
    that have none are zero already."""
    vec3, Quat = vector(3, real), quaternion(real)
    Data, SlotData, Bodies = parameter_struct(c, real), slot_struct(c, slots, real), body_struct(real)
    layout = particle_layout(real)
    particle_type, position, displacement = layout.type(real), layout.position, layout.displacement
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)
    movers, masses_at, push = movers_of(slots), masses_of(slots), push_of(slots, real)
    contact, gap = contact_of(c, slots, real), gap_of(c, slots, real)

    @func
    def one(
        k,
        points,
        placing,
        data,
        pressed,
        w,
        x_ref,
        bodies,
        dt,
        particle,
        dx,
        turn,
        impulse,
        multiplier,
        along,
    ):
        lam = real(0.0)
        if pressed[k] > 0.0:
            p_k, b_k, of_p, _, moved, turns, poses = movers(k, points, bodies, particle, dx, turn)
            x_p, placed_k, data_k = (
                [position(of_p[p]) for p in static(range(n_particles))],
                fields_at(placing, k),
                fields_at(data, k),
            )
            if gap(x_p, poses, placed_k, data_k) < STILL_NEAR:
                masses, inertias = masses_at(p_k, b_k, poses, w, bodies)
                _, G, _, _, _, share, _ = contact(x_p, poses, placed_k, data_k)
                since = [displacement(of_p[p], x_ref[p_k[p]]) for p in static(range(n_particles))]
                lam = KEPT * (dt * dt) * pressed[k]
                force = [lam * G[i] for i in static(range(n_particles + 2 * n_bodies))]
                push(p_k, b_k, force, masses, inertias, share, since, moved, turns, particle, dx, turn, impulse)
        multiplier[k], along[k] = lam, vec3()

    @kernel(name=f"start_{c.name}_{slots.kinds}")
    def begin(
        start: int,
        points: array2d[int],
        placing: SlotData,
        data: Data,
        pressed: array[real],
        w: array[real],
        x_ref: array[vec3],
        bodies: Bodies,
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        impulse: array[vec3],
        multiplier: array[real],
        along: array[vec3],
    ):
        one(
            start + tid(),
            points,
            placing,
            data,
            pressed,
            w,
            x_ref,
            bodies,
            dt,
            particle,
            dx,
            turn,
            impulse,
            multiplier,
            along,
        )

    @kernel(name=f"start_{c.name}_{slots.kinds}_lanes")
    def begin_lanes(
        color: int,
        together: int,
        back: int,
        lanes: array[int],
        points: array2d[int],
        placing: SlotData,
        data: Data,
        pressed: array[real],
        w: array[real],
        x_ref: array[vec3],
        bodies: Bodies,
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        impulse: array[vec3],
        multiplier: array[real],
        along: array[vec3],
    ):
        first, last = lane_span(lanes, color, together, tid())
        for i in range((last - first) * lane):
            k = first * lane + i
            if back > 0:
                k = last * lane - 1 - i
            if pressed[k] > 0.0:
                one(
                    k,
                    points,
                    placing,
                    data,
                    pressed,
                    w,
                    x_ref,
                    bodies,
                    dt,
                    particle,
                    dx,
                    turn,
                    impulse,
                    multiplier,
                    along,
                )

    @kernel(name=f"start_{c.name}_{slots.kinds}_row")
    def begin_row(
        color: int,
        row: int,
        lanes: array[int],
        points: array2d[int],
        placing: SlotData,
        data: Data,
        pressed: array[real],
        w: array[real],
        x_ref: array[vec3],
        bodies: Bodies,
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        impulse: array[vec3],
        multiplier: array[real],
        along: array[vec3],
    ):
        lane_at = lanes[color] + tid()
        if lane_at < lanes[color + 1]:
            k = lane_at * lane + row
            if pressed[k] > 0.0:
                one(
                    k,
                    points,
                    placing,
                    data,
                    pressed,
                    w,
                    x_ref,
                    bodies,
                    dt,
                    particle,
                    dx,
                    turn,
                    impulse,
                    multiplier,
                    along,
                )

    if lane:
        begin_lanes.race_free = True  # as in the projection
        begin_row.race_free = True
        return begin_row if single else begin_lanes
    begin.race_free = True  # as in the projection
    if exclusive:
        written = ("particle", "dx", "turn", "impulse", "multiplier", "along", "x_ref", "w")
        begin.exclusive = frozenset((*written, *(f"bodies.{name}" for name in Bodies.fields)))
    return begin


@memoize
def make_slid(c: Constraint, slots: Slots, real: Scalar, lane: int = 0) -> Kernel:
    """What contacts `tid()`, or those of a lane, have slid [m] at the end of a step though friction would have held
    them: the error of the sweeps, which the next step takes back.

    It fades towards the edge of the cone, as 1 - |lambda_t|^2 / (mu lambda_n)^2, and towards impacts: what slides does
    so for good, and nothing jumps where it begins to.
    """
    vec3, Quat = vector(3, real), quaternion(real)
    Data, SlotData, Bodies = parameter_struct(c, real), slot_struct(c, slots, real), body_struct(real)
    Surface, Impacts = surface_struct(real), impact_struct(real)
    layout = particle_layout(real)
    particle_type, position, displacement = layout.type(real), layout.position, layout.displacement
    n_particles = len(slots.particles)
    movers, contact, slip = movers_of(slots), contact_of(c, slots, real), slip_of(slots)

    @kernel(name=f"slid_{c.name}_{slots.kinds}_{lane}")
    def end(
        lanes: array[int],
        points: array2d[int],
        placing: SlotData,
        data: Data,
        surface: Surface,
        impacts: Impacts,
        x_ref: array[vec3],
        bodies: Bodies,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        multiplier: array[real],
        late: array[real],
        along: array[vec3],
        slid: array[vec3],
    ):
        first, last = tid(), tid() + 1
        if lane:
            first, last = tid() * lane, min(tid() + 1, lanes[lanes.shape[0] - 1]) * lane
        for k in range(first, last):
            u = vec3()
            most = 0.5 * (surface.friction[k] + surface.other_friction[k]) * (multiplier[k] + late[k])
            pulled = dot(along[k], along[k])
            if pulled < most * most:
                p_k, _, of_p, _, moved, turns, poses = movers(k, points, bodies, particle, dx, turn)
                x_p = [position(of_p[p]) for p in static(range(n_particles))]
                _, _, n, _, _, share, arms = contact(x_p, poses, fields_at(placing, k), fields_at(data, k))
                since = [displacement(of_p[p], x_ref[p_k[p]]) for p in static(range(n_particles))]
                u = slip(n, share, arms, since, moved, turns) - impacts.before[k]
                u *= impacts.rests[k] * (1.0 - pulled / (most * most))
            slid[k] = u

    end.race_free = True  # rows are a thread's own
    return end


@memoize
def make_contact_end(real: Scalar) -> Kernel:
    """The forces `pressed` [N] of contacts `tid()` at the end of a step, where they rest: an impact presses once."""

    @kernel
    def end(multiplier: array[real], late: array[real], rests: array[real], dt: real, pressed: array[real]):
        k = tid()
        pressed[k] = rests[k] * (multiplier[k] + late[k]) / (dt * dt)

    return end


@memoize
def make_recall(real: Scalar) -> Kernel:
    """The forces `pressed` and slips `slid` of a lane `tid()`, a near pair, by where its key stands among those of the
    state before: 0 where it was not near then."""
    vec3 = vector(3, real)

    @kernel
    def recall(
        lane: int,
        lanes: array[int],
        key: array[int],
        keys: array[int],
        before: array[real],
        slid_before: array[vec3],
        pressed: array[real],
        slid: array[vec3],
    ):
        e = tid()
        if e < lanes[lanes.shape[0] - 1]:
            low, high = 0, keys.shape[0]
            while low < high:
                middle = (low + high) // 2
                if keys[middle] < key[e]:
                    low = middle + 1
                else:
                    high = middle
            at = min(low, keys.shape[0] - 1)
            for r in range(lane):
                if keys[at] == key[e]:
                    pressed[e * lane + r], slid[e * lane + r] = before[at * lane + r], slid_before[at * lane + r]
                else:
                    pressed[e * lane + r], slid[e * lane + r] = 0.0, vec3()

    return recall


@memoize
def make_keep(real: Scalar) -> Kernel:
    """The forces of a lane `tid()` at the end of a step, where they rest, to where its pair stands among the keys."""

    vec3 = vector(3, real)

    @kernel
    def keep(
        lane: int,
        lanes: array[int],
        rank: array[int],
        multiplier: array[real],
        late: array[real],
        rests: array[real],
        dt: real,
        slid: array[vec3],
        pressed: array[real],
        slid_after: array[vec3],
    ):
        e = tid()
        if e < lanes[lanes.shape[0] - 1]:
            for r in range(lane):
                k = e * lane + r
                force = real(0.0)
                if multiplier[k] > 0.0:
                    force = rests[k] * (multiplier[k] + late[k]) / (dt * dt)
                pressed[rank[e] * lane + r], slid_after[rank[e] * lane + r] = force, slid[k]

    keep.race_free = True  # ranks are all different
    return keep
