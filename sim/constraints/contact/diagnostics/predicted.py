"""What the predicted step says of one-sided constraints: how far they come, impacts, and switches near those."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.diagnostics.switches import CLOSING, GROWS, REBOUNDS, THRESHOLD, near
from sim.constraints.contact.impacts.shares import hard_part, resting_speed
from sim.constraints.contact.impacts.time_of_impact import approach_of, rebound_of
from sim.constraints.contact.kernels.surface import surface_struct
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import body_struct, slot_struct
from sim.constraints.slots.linearization import (
    masses_of,
    motions_of,
    movers_of,
    row_functions,
    rows_of,
    velocities_of,
)  # fmt: skip
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import abs, static, tid
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, quaternion, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@memoize
def make_foresight(c: Constraint, slots: Slots, real: Scalar, rough: bool) -> Kernel:
    """What the predicted step says of one-sided constraints `tid()`: how far C comes in it, the time of an impact (-1:
    none), what kind of impact, and which of its branches are near a switch.

    rough: of contacts with friction or restitution.
    """
    vec3, spatial, Quat = vector(3, real), vector(6, real), quaternion(real)
    Data, SlotData, Bodies = parameter_struct(c, real), slot_struct(c, slots, real), body_struct(real)
    Surface = surface_struct(real)
    layout = particle_layout(real)
    particle_type, position = layout.type(real), layout.position
    n_particles = len(slots.particles)
    movers, motions, velocities = movers_of(slots), motions_of(slots, real), velocities_of(slots)
    rows_at, masses_at, (_, response, product) = rows_of(c, slots, real), masses_of(slots), row_functions(slots)

    @kernel(name=f"foresee_{c.name}_{slots.kinds}")
    def foresee(
        points: array2d[int],
        placing: SlotData,
        data: Data,
        surface: Surface,
        compliance: array[real],
        w: array[real],
        x_ref: array[vec3],
        v: array[vec3],
        bodies: Bodies,
        body_qd: array[spatial],
        gravity: array[vec3],
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        travel: array[real],
        impact: array[real],
        kind: array[int],
        switching: array[int],
    ):
        k = tid()
        p_k, b_k, of_p, begun, moved, turns, poses = movers(k, points, bodies, particle, dx, turn)
        placed_k, data_k = fields_at(placing, k), fields_at(data, k)
        x_0 = [x_ref[p_k[p]] for p in static(range(n_particles))]
        x = [position(of_p[p]) for p in static(range(n_particles))]
        C_0, G_0 = rows_at(x_0, begun, placed_k, data_k)
        C, G = rows_at(x, poses, placed_k, data_k)
        come = abs(C[0] - C_0[0])
        at, what, found = real(-1.0), 0, 0
        hard = False
        if rough:
            masses, inertias = masses_at(p_k, b_k, begun, w, bodies)
            own = product(G_0[0], response(G_0[0], masses, inertias))
            hard = compliance[k] == 0.0 or hard_part(compliance[k], own, dt) > 0.0
        if hard:
            v_0 = velocities(p_k, b_k, v, body_qd)
            a, s, approach = approach_of(C_0[0], C[0], product(G_0[0], v_0), dt)
            resting = resting_speed(gravity[0], dt)
            if resting > 0.0 and (near(approach, resting, resting) or near(approach, 2.0 * resting, 2.0 * resting)):
                found = found | static(THRESHOLD)
            if approach > resting:
                what = static(GROWS) if approach < 2.0 * resting else static(REBOUNDS)
                if C_0[0] > 0.0:
                    at = s
                if near(C_0[0], real(0.0), come):
                    found = found | static(CLOSING)
                e = 0.5 * (surface.restitution[k] + surface.other_restitution[k])
                away, left = e * approach, 0.5 * a * (1.0 - s) * dt
                u = product(G[0], motions(p_k, of_p, x_ref, moved, turns)) / dt
                rebound = rebound_of(u, u - product(G[0], v_0), u - product(G[0], v_0), s, e)
                if away > 0.0 and (near(away, -left, away) or near(rebound, real(0.0), away)):
                    found = found | static(THRESHOLD)
        travel[k], impact[k], kind[k], switching[k] = come, at, what, found

    return foresee
