"""The impacts of contacts in a step: found where it is predicted to end, before anything is projected."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.impacts.corners import at_corner_of, facing, has_corners, passing_of
from sim.constraints.contact.impacts.shares import (
    CARRIED,
    RESTING,
    carried_speed_of,
    hard_part,
    resting_speed,
    share_of_impact,
    still_of,
)
from sim.constraints.contact.impacts.time_of_impact import LATER, approach_of, known_since, rebound_of
from sim.constraints.contact.kernels.forms import Form, alike, chosen_of, every, sides_of
from sim.constraints.contact.kinematics.geometry import gap_of, slip_of, slip_rate_of
from sim.constraints.contact.kinematics.hitting import hit_of, hits_of
from sim.constraints.contact.kinematics.spinning import predicted_of
from sim.constraints.contact.solids.carrying import carried_of
from sim.constraints.slots.linearization import (
    masses_of,
    motions_of,
    row_functions,
    rows_of,
    velocities_of,
)
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import max, min, static
from sim.core.lang.frontend.function import func
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.launch.kernel import Kernel

AT_ONCE = 0.05
"""What hits a body by so many steps after its first impact does so with it.  Corners of a face do, and late in a step
some of them are only then to close, or what pushes others out takes them along: they answer the impact all the same."""

FAR = 3.0
"""What is open, and would close after so many further steps like this one, is far: it has no impact in this one."""


@memoize
def make_impact(c: Constraint, slots: Slots, real: Scalar, form: Form, held: bool, crowded: bool) -> Kernel:
    """The impacts of contacts in a step, from where the points of their movers are, and are predicted to be; in lanes,
    of what the step has chosen; held: by joints, which know `gains`; crowded: and of what closes soon after it, which
    other contacts of a body may have hit together with (`make_meeting`)."""
    vec3, n_particles = vector(3, real), len(slots.particles)
    sides, velocities, gap = sides_of(slots, real), velocities_of(slots), gap_of(c, slots, real)
    rows_at, hit, slip = rows_of(c, slots, real), hit_of(c, slots, real), slip_of(slots)
    slip_rate, size = slip_rate_of(slots), n_particles + 2 * len(slots.bodies)
    motions, (_, response, product) = motions_of(slots, real), row_functions(slots)
    predicted, masses_at = predicted_of(slots), masses_of(slots)
    carried_speed = carried_speed_of(slots)
    at_once = crowded and not slots.particles
    carried, chosen, owners = carried_of(c, slots), chosen_of(c), tuple(own[0] for own in slots.bodies)
    cornered = has_corners(c, slots)
    passed_by, along = cornered or bool(slots.bodies), facing(c, slots)
    passing, at_corner = passing_of(c, slots, real), at_corner_of(c, slots, real)

    @func
    def meet(k, contacts, moving, dt):
        (p_k, b_k, of_p, begun, moved, turns, poses), x_1, since, placed_k, data_k = sides(k, contacts, moving)
        x_0, impacts = [moving.x_ref[p_k[p]] for p in static(range(n_particles))], contacts.impacts
        gap_1 = gap(x_1, poses, placed_k, data_k)
        gap_0, resting = gap(x_0, begun, placed_k, data_k), resting_speed(moving.gravity[0], dt)
        near, weightless = resting * dt, resting == 0.0
        if weightless:
            v_last = velocities(p_k, b_k, moving.v_last, moving.body_qd_last)
            resting = carried_speed(velocities(p_k, b_k, moving.v, moving.body_qd), v_last)
            if static(n_particles == 0):  # whose forces are kept: as gravity that changes velocities as much
                near = static(RESTING / CARRIED) * resting * dt
        target, rebound, rests, before, after = real(0.0), real(0.0), still_of(gap_0, near), vec3(), vec3()
        coming, loses = vec3(), real(0.0)
        e = 0.5 * (contacts.surface.restitution[k] + contacts.surface.other_restitution[k])
        hits, time, hit_share, hard = real(0.0), real(0.0), real(0.0), real(1.0)
        if contacts.compliance[k] > 0.0:
            masses, inertias = masses_at(p_k, b_k, begun, moving.w, moving.bodies)
            _, G_0 = rows_at(x_0, begun, placed_k, data_k)
            hard = hard_part(contacts.compliance[k], product(G_0[0], response(G_0[0], masses, inertias)), dt)
        if hard > 0.0 and (gap_1 < 0.0 or gap_1 < FAR * (gap_0 - gap_1)):
            C_0, G_0 = rows_at(x_0, begun, placed_k, data_k)
            v_0 = velocities(p_k, b_k, moving.v, moving.body_qd)
            rate = product(G_0[0], v_0)
            a, s, approach = approach_of(C_0[0], gap_1, rate, dt)
            soon = False
            if static(at_once):
                soon = gap_1 >= 0.0 and gap_1 < static(AT_ONCE) * (gap_0 - gap_1)
                if soon:
                    s += gap_1 / (gap_0 - gap_1)
            pulled = resting
            if static(held):  # what lies on something, pressed by what it hangs on
                pulled += rests * RESTING * max(-a, real(0.0)) * dt
            comes = approach
            if static(n_particles == 0):
                if weightless:  # what this step alone brings back, as two turn about each other, rests
                    comes = min(comes, -rate)
            hit_share = hard * share_of_impact(comes, pulled)
            rests *= 1.0 - hit_share
            if gap_1 < 0.0 or soon:
                hits, time = hit_share * hits_of(rate, (gap_1 - C_0[0]) / dt), s * dt
                if static(passed_by):
                    passes = passing(
                        C_0[0], rate, G_0[0][along], x_1, x_0, poses, begun, v_0, placed_k, data_k, resting, dt
                    )
                    if passes > 0.0:  # at the end of the step, and by what is left as it hits
                        hit_share *= 1.0 - passes
                        either = hits + passes * (1.0 - hits)
                        hits, time = either, ((1.0 - passes) * hits * time + passes * dt) / either
            C, G, n, _, _, share, arms, _, _ = hit(x_1, x_0, poses, begun, v_0, hits, time, placed_k, data_k)
            motion, v = motions(p_k, of_p, moving.x_ref, moved, turns), v_0
            if static(len(slots.bodies) > 0):
                if hits > 0.0:
                    motion, v = predicted(motion, v_0, x_1, x_0, b_k, poses, begun, hits, time, moving, dt)
            u = product(G, motion) / dt
            left = (1.0 - s) * dt
            target = left * e * approach + 0.5 * a * min(left, dt) ** 2
            if hits > 0.0:  # where C is linear, its path is curved by forces alone
                hitting = (0.5 - s) * (u - product(G, v)) - u
                target += hits * (C + (1.0 + e) * hitting * left - target)
            target = hit_share * max(target, 0.0)
            if e > 0.0:
                faster = [motion[i] / dt - v[i] for i in static(range(size))]
                gains = faster
                if static(held):
                    gains = velocities(p_k, b_k, moving.gains, moving.body_gains)
                rebound = hit_share * max(rebound_of(u, product(G, faster), product(G, gains), s, e), 0.0)
                if rebound > 0.0:
                    after = (hit_share * (1.0 - s)) * slip_rate(n, share, arms, gains)
                    if static(held):
                        at_impact = [motion[i] / dt + (known_since(s) - 0.5) * faster[i] for i in static(range(size))]
                        coming, loses = slip_rate(n, share, arms, at_impact), (1.0 - e) * max(approach, 0.0)
            before = (hit_share * s) * slip(n, share, arms, since, moved, turns)
        if hard > 0.0 and e > 0.0 and gap_1 >= 0.0 and rests == 0.0:
            target = real(LATER)
        if static(cornered):
            if rests > 0.0:
                before_it, left, start = at_corner(
                    gap_1, x_1, x_0, poses, begun, p_k, b_k, of_p, moved, turns, moving, placed_k, data_k, dt
                )
                if before_it:
                    hits, time = real(1.0), dt
                elif left > 0.0:  # held up until there
                    hits, time, target, rebound = real(1.0), real(0.0), left * start, left * start / dt
        impacts.target[k], impacts.rebound[k] = target, rebound
        impacts.rests[k], impacts.before[k], impacts.after[k] = rests, before - contacts.slid[k], after
        impacts.hits[k], impacts.time[k], impacts.share[k] = hits, time, hit_share
        impacts.coming[k], impacts.loses[k], impacts.worked[k] = coming, loses, real(0.0)

    @func
    def stay_open(k, contacts):
        impacts, surface, target = contacts.impacts, contacts.surface, real(0.0)
        bounces = surface.restitution[k] + surface.other_restitution[k] > 0.0
        if bounces and not contacts.compliance[k] > 0.0:
            target = real(LATER)
        impacts.target[k], impacts.rebound[k], impacts.rests[k] = target, real(0.0), real(0.0)
        impacts.before[k], impacts.after[k], impacts.coming[k] = vec3() - contacts.slid[k], vec3(), vec3()
        impacts.hits[k], impacts.time[k], impacts.share[k] = real(0.0), real(0.0), real(0.0)
        impacts.loses[k], impacts.worked[k] = real(0.0), real(0.0)

    @func
    def one(k, contacts, moving, dt):
        if chosen(contacts.data, k):
            meet(k, contacts, moving, dt)
        else:  # most rows of boxes
            stay_open(k, contacts)
        if static(len(slots.bodies) == 2):
            inv_mass = [moving.bodies.inv_mass[contacts.points[k, b]] for b in static(owners)]
            contacts.impacts.carried[k] = carried(inv_mass, fields_at(contacts.data, k))

    return alike(form.kernel("impact", one, every, c, slots, real), form)
