"""The velocities of contacts after a step: rebounds, and friction with them.

All positions are final then: where contacts touch is found once (`make_meeting`), and sweeps read it (`rows`).
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from collections.abc import Callable

from sim.constraints.base import Constraint
from sim.constraints.contact.impacts.impact import AT_ONCE
from sim.constraints.contact.impacts.parted import cut_of
from sim.constraints.contact.impacts.shares import hard_part
from sim.constraints.contact.kernels.forms import Form, chosen_of, every, sides_of
from sim.constraints.contact.kinematics.geometry import across
from sim.constraints.contact.kinematics.hitting import meeting_of, rate_at_impact, shifts_of, two_sided
from sim.constraints.contact.kinematics.rows import (
    RowLayout,
    inertias_of,
    keep_of,
    kept_of,
    normal_of,
    rate_of,
    spread_of,
)
from sim.constraints.contact.kinematics.spinning import spins_of, turned_of
from sim.constraints.contact.laws.friction import along_both, coulomb, pressed_and_rubbed, unturned
from sim.constraints.contact.laws.restitution import Restitution
from sim.constraints.slots.bodies import body_struct, matrix_in_world
from sim.constraints.slots.linearization import row_functions, velocities_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import max, static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, matrix, quaternion, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel, kernel


@func
def _pushes(contacts, k: int):
    return contacts.multiplier[k] > 0.0


@func
def _pushed(contacts, k: int):
    pushes = contacts.multiplier[k] > 0.0 or contacts.cut[k][0] > 0.0 or contacts.impacts.share[k] > 0.0
    return pushes and contacts.rows.numbers[k, 0] > 0.0  # something is chosen


def pushed_of(crowded: bool) -> Callable:
    """`pushed(contacts, k)` in a kernel: is contact k one that velocities after a step are found of?  Where nothing has
    two contacts, what impacts part is not kept, nor asked for."""
    return _pushed if crowded else _pushes


@memoize
def make_inertias(real: Scalar) -> Kernel:
    """Inverse inertias of bodies `tid()` in the axes of the world, as a step ends."""
    mat33, Bodies = matrix((3, 3), real), body_struct(real)

    @kernel
    def turn_inertias(bodies: Bodies, turn: array[quaternion(real)], out: array[mat33]):
        i = tid()
        out[i] = matrix_in_world(turn[i] * bodies.q[i], bodies.inv_inertia[i])

    return turn_inertias


@memoize
def make_meeting(c: Constraint, slots: Slots, real: Scalar, form: Form, crowded: bool) -> Kernel:
    """Where contacts that push touch as a step ends, `contacts.rows`; `late` is zero from here on.  crowded: and what
    impacts part, see `parted`; and of what hits bodies without a push all but what does so `AT_ONCE` is no impact."""
    sides, masses_at = sides_of(slots, real), inertias_of(slots)
    meeting, keep, velocities = meeting_of(c, slots, real), keep_of(c, slots, real), velocities_of(slots)
    n_particles, cut, vec3 = len(slots.particles), cut_of(slots, real), vector(3, real)
    (_, _, product), pair, shifts = row_functions(slots), two_sided(slots), shifts_of(slots)
    _, along_there = rate_at_impact(slots, ())
    n_bodies, turned, turns = len(slots.bodies), turned_of(slots, real), RowLayout(c, slots).turns
    chosen, owners = chosen_of(c), tuple(own[0] for own in slots.bodies)

    @func
    def at_once(k, contacts, moving, dt):
        """Does a contact hit with the first ones of its bodies?"""
        share, found = contacts.impacts.share[k], False
        if share > 0.0 and contacts.impacts.hits[k] > 0.0 and chosen(contacts.data, k):
            left, found = share * (1.0 - contacts.impacts.time[k] / dt), True
            for g in static(range(n_bodies)):
                b = contacts.points[k, static(owners[g])]
                if moving.bodies.inv_mass[b] > 0.0:
                    first = moving.body_parting[b]
                    found = found and first[1] > 0.0 and left > first[0] - static(AT_ONCE)
        return found

    @func
    def one(k, contacts, moving, dt):
        impacts, late = contacts.impacts, real(0.0)
        pushes = contacts.multiplier[k] > 0.0
        if static(crowded):
            if not pushes:
                if static(n_particles == 0):
                    pushes = at_once(k, contacts, moving, dt)
                if not pushes:
                    impacts.share[k] = 0.0
        if static(crowded):
            parts = cut(k, contacts, moving, dt)
            if parts[0] > 0.0:
                pushes = True
                contacts.rubbed[k] = (parts[0] / contacts.pressed[k]) * contacts.pulled[k]
            if parts[1] > 0.0:
                contacts.lasting[k] = vec3()
            contacts.cut[k] = parts
        if pushes:
            (p_k, b_k, _, begun, _, _, poses), x_p, _, placed_k, data_k = sides(k, contacts, moving)
            masses, inertias = masses_at(p_k, b_k, moving)
            x_0 = [moving.x_ref[p_k[p]] for p in static(range(n_particles))]
            v_0 = velocities(p_k, b_k, moving.v_before, moving.body_qd_before)
            hits, t = impacts.hits[k], impacts.time[k]
            met = meeting(x_p, x_0, poses, begun, v_0, hits, t, placed_k, data_k, masses, impacts.carried[k])
            n, _, G, _, share, arms, apart = met
            if static(n_bodies > 0):
                by = [vec3() for _ in static(range(n_bodies))]
                if hits > 0.0:
                    by, inertias = turned(x_p, x_0, poses, begun, v_0, hits, t, inertias)
                for g in static(range(n_bodies)):
                    contacts.rows.vectors[k, turns + g] = by[g]
            keep(k, contacts.rows, G, n, share, arms, apart, masses, inertias)
            if static(crowded and n_particles == 0):  # see `at_once`
                v = velocities(p_k, b_k, moving.v, moving.body_qd)
                away = product(G, v)
                if static(pair):
                    away += along_there(G, v, shifts(impacts.carried[k], apart))
                late = dt * impacts.share[k] * (impacts.rebound[k] - away)
        contacts.late[k] = late

    return form.kernel("meet", one, every, c, slots, real)


@memoize
def make_rebound(
    c: Constraint, slots: Slots, real: Scalar, restitution: Restitution, form: Form, crowded: bool
) -> Kernel:
    """The velocities after a step of what contacts have pushed: dC/dt = `impacts.rebound`, and the slip as friction
    allows, by impulses `late` [m kg] that count with those of the positions; less, where they would add energy.
    crowded: what rests has pressed and rubbed before an impact, and rebounds from one let go on what lasts."""
    spatial, n_particles, n_bodies = vector(6, real), len(slots.particles), len(slots.bodies)
    masses_at, velocities, kept = inertias_of(slots), velocities_of(slots), kept_of(c, slots, real)
    rate, spread, (_, response, _) = rate_of(c, slots), spread_of(c, slots), row_functions(slots)
    gradient, rate_along, force = normal_of(c, slots, real)
    held_back, (added, add) = restitution.held_back(slots, real), restitution.budget(slots)
    slower, halfway = restitution.slower(slots), restitution.halfway(slots)
    particles, owners = slots.particles, tuple(own[0] for own in slots.bodies)
    layout = RowLayout(c, slots)
    pair, last, shifts = two_sided(slots), layout.turns - 1, shifts_of(slots)
    between_there, along_there = rate_at_impact(slots, tuple(g for _, g in layout.arms))
    one_direction, live = layout.one_direction, pushed_of(crowded)
    spins, turns = spins_of(slots), layout.turns

    @func
    def outlast(k, contacts, moving, n, share, arms, T, post, along, masses, inertias, dt):
        """What lasts of what is given after an impact: as much as the force before it would give."""
        whole = contacts.cut[k][1]
        if whole > 0.0:
            part = real(0.0)  # what presses no more takes back what it gave
            if post > 0.0:
                part = min(whole / post, real(1.0))
            now = (part * post) * n + (part * along[0]) * T[0] + (part * along[1]) * T[1]
            more = now - contacts.lasting[k]
            pressing = dot(more, n)
            given = force(k, contacts.rows, n, share, arms, pressing / dt, (more - pressing * n) / dt)
            motion = response(given, masses, inertias)
            for p in static(range(n_particles)):
                moving.lasting[contacts.points[k, static(particles[p])]] += motion[p]
            for g in static(range(n_bodies)):
                d, turned = motion[n_particles + 2 * g], motion[n_particles + 2 * g + 1]
                moving.body_lasting[contacts.points[k, static(owners[g])]] += spatial(
                    d[0], d[1], d[2], turned[0], turned[1], turned[2]
                )
            contacts.lasting[k] = now

    @func
    def one(k, contacts, moving, dt):
        if live(contacts, k):
            p_k = [contacts.points[k, j] for j in static(particles)]
            b_k = [contacts.points[k, j] for j in static(owners)]
            n, share, arms, own, coupled, K = kept(k, contacts.rows)
            rebound, surface, T = contacts.impacts.rebound[k], contacts.surface, across(n)
            pressed, pulled = contacts.multiplier[k] + contacts.late[k], contacts.along[k]
            masses, inertias = masses_at(p_k, b_k, moving)
            velocity = velocities(p_k, b_k, moving.v, moving.body_qd)
            mu = 0.5 * (surface.friction[k] + surface.other_friction[k])
            hitting = velocity
            if static(n_bodies > 0):
                if contacts.impacts.hits[k] > 0.0:
                    by = [contacts.rows.vectors[k, turns + g] for g in static(range(n_bodies))]
                    hitting = spins(velocity, masses, inertias, by)
            between, before = rate(n, share, arms, hitting), along_both(T, pulled)
            if static(pair):
                shifted = shifts(contacts.impacts.carried[k], contacts.rows.vectors[k, last])
                between += between_there(arms, hitting, shifted)
            away = rate_along(k, contacts.rows, n, hitting, between)
            if static(pair and not one_direction):
                away += along_there(gradient(k, contacts.rows, n, share, arms), hitting, shifted)
            least, turned, free = real(0.0), along_both(T, contacts.turned[k]), contacts.impacts.after[k]
            rubbed = (mu * pressed) * turned
            mu *= unturned(turned)
            if static(crowded):
                least = contacts.cut[k][0]
                if least > 0.0:
                    rubbed = along_both(T, contacts.rubbed[k])
                if rebound > 0.0:
                    lasting = velocities(p_k, b_k, moving.lasting, moving.body_lasting)
                    more = rate(n, share, arms, lasting)
                    free += more
                    rebound = max(rebound + rate_along(k, contacts.rows, n, lasting, more), real(0.0))
            if rebound > 0.0:
                slips = along_both(T, contacts.impacts.coming[k] + between - free)
                rebound -= slower(k, contacts, moving, p_k, b_k, masses, rebound, pressed, before, slips)
            wanted, slip = (rebound - away) * dt, dt * along_both(T, between - free)
            if rebound < 0.0:  # what it leaves falls as far as that, and may be held up by others
                wanted = max(wanted, real(0.0))
            if contacts.compliance[k] > 0.0:  # a spring has no more to say of how fast it is pressed
                hard = hard_part(contacts.compliance[k], own, dt)
                wanted, coupled = hard * wanted - (1.0 - hard) * own * contacts.late[k], hard * coupled
            if static(n_bodies > 0):
                given, hit = rubbed - before, contacts.impacts.share[k]
                b = -(K @ given) - slip
                dlam, x = pressed_and_rubbed(wanted, b, given, pressed, least, own, coupled, hit, K, mu)
            else:
                dlam = max(wanted / own, least - pressed)
                x = coulomb(K, K @ (before - rubbed) - slip - dlam * coupled, mu * (pressed + dlam - least))
            if least == 0.0 and dlam < 0.0:  # what is let go of is not held by friction either
                rubbed *= (pressed + dlam) / pressed
            x += rubbed
            if rebound > 0.0:
                gained, at = added(p_k, b_k, masses, moving), halfway(velocity, p_k, b_k, moving)
                G = gradient(k, contacts.rows, n, share, arms)
                E = [spread(T[side], share, arms) for side in static(range(2))]
                dlam, x, more, _ = held_back(
                    dlam, x, pressed, pulled, away, own, gained, at, masses, inertias, G, T, E, dt
                )
                add(more, p_k, b_k, masses, moving)
            if static(crowded):
                outlast(
                    k, contacts, moving, n, share, arms, T, pressed + dlam - least, x - rubbed, masses, inertias, dt
                )
            pushed = (x - before) / dt
            along = pushed[0] * T[0] + pushed[1] * T[1]
            motion = response(force(k, contacts.rows, n, share, arms, dlam / dt, along), masses, inertias)
            for p in static(range(n_particles)):
                moving.v[p_k[p]] += motion[p]
            for g in static(range(n_bodies)):
                d, turned = motion[n_particles + 2 * g], motion[n_particles + 2 * g + 1]
                moving.body_qd[b_k[g]] += spatial(d[0], d[1], d[2], turned[0], turned[1], turned[2])
            contacts.late[k] = pressed - contacts.multiplier[k] + dlam
            contacts.along[k] = x[0] * T[0] + x[1] * T[1]

    return form.kernel("rebound", one, live, c, slots, real)
