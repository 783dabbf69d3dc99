"""Contacts of bodies from step to step: what rests begins with most of the normal force that it ended the last with.

What is predicted without forces falls, and contacts push it up one after the other: a box on four corners is turned to
and fro, and creeps.  With them, what rests stays where it is, and projections only correct (a warm start, as in E.
Catto, "Iterative Dynamics with Temporal Coherence", GDC 2005).  The forces are part of the state, and of its gradient.
Friction begins anew in each step: from where it ended, stacks sway.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.geometry import contact_of, gap_of
from sim.constraints.contact.projection import push_of
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import body_struct, slot_struct
from sim.constraints.slots.linearization import masses_of, movers_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, quaternion, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.launch.kernel import Kernel, kernel

KEPT = 0.9
"""The part of the force that is kept: what is wrong in it fades."""
STILL_NEAR = 1e-3
"""A contact that has opened by so much [m] begins a step without force."""


@memoize
def make_contact_start(c: Constraint, slots: Slots, real: Scalar, exclusive: bool = False) -> Kernel:
    """The multipliers with which contacts `start + tid()` begin a step: of the normal forces `pressed` [N] with which
    the last one ended, which move what was predicted without them."""
    vec3, Quat = vector(3, real), quaternion(real)
    Data, SlotData, Bodies = parameter_struct(c, real), slot_struct(c, slots, real), body_struct(real)
    layout = particle_layout(real)
    particle_type, position, displacement = layout.type(real), layout.position, layout.displacement
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)
    movers, masses_at, push = movers_of(slots), masses_of(slots), push_of(slots, real)
    contact, gap = contact_of(c, slots, real), gap_of(c, slots, real)

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
        k = start + tid()
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

    begin.race_free = True  # as in the projection
    if exclusive:
        written = ("particle", "dx", "turn", "impulse", "multiplier", "along", "x_ref", "w")
        begin.exclusive = frozenset((*written, *(f"bodies.{name}" for name in Bodies.fields)))
    return begin


@memoize
def make_contact_end(real: Scalar) -> Kernel:
    """The forces `pressed` [N] of contacts `tid()` at the end of a step, where they rest: an impact presses once."""

    @kernel
    def end(multiplier: array[real], rests: array[real], dt: real, pressed: array[real]):
        k = tid()
        pressed[k] = rests[k] * multiplier[k] / (dt * dt)

    return end
