"""The XPBD projection of contacts with Coulomb friction (`friction`): positions."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.kernels.forms import Form, alike, chosen_of, every, sides_of
from sim.constraints.contact.kinematics.geometry import gap_of, slip_of, slip_rate_of
from sim.constraints.contact.kinematics.hitting import hit_of, moved_together, two_sided
from sim.constraints.contact.laws.friction import (
    along_both,
    coulomb,
    mobility_of,
    pressed_and_rubbed,
    turning,
    unturned,
)
from sim.constraints.contact.laws.restitution import Restitution
from sim.constraints.particles import particle_layout
from sim.constraints.slots.linearization import masses_of, row_functions, velocities_of
from sim.constraints.slots.pattern import Slots
from sim.constraints.slots.rotations import exponential, logarithm
from sim.core.lang.frontend.builtins import max, static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.vector import cross
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.launch.kernel import Kernel


@memoize
def push_of(slots: Slots, real: Scalar, restitution: Restitution) -> Function:
    """`push(p_k, b_k, force, masses, inertias, share, carried, since, moved, turns, poses, back_p, back_b, moving, dt,
    counts)` in a kernel: moves what a contact is between by multipliers times their rows, `force`, and counts the
    energy that this adds, if `counts`; carried: see `carried_of`; back_p, back_b: how far it is to where they act, see
    `hit_of`."""
    moved_by = particle_layout(real).moved_by
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)
    _, response, _ = row_functions(slots)
    together, pair = moved_together(slots), two_sided(slots)
    count = restitution.push_work(slots, real)

    @func
    def torque_on(g, force, masses, share, carried, since, moved):
        torque = force[n_particles + 2 * g + 1]
        if static(pair):
            way = together(masses, share, carried, since, moved)
            torque = torque + cross(moved[g] - way, force[n_particles + 2 * g])
        return torque

    @func
    def push(
        p_k, b_k, force, masses, inertias, share, carried, since, moved, turns, poses, back_p, back_b, moving, dt,
        counts,
    ):  # fmt: skip
        motion = response(force, masses, inertias)
        acts_p = [since[p] + back_p[p] for p in static(range(n_particles))]
        acts_b = [moved[g] + back_b[g] for g in static(range(n_bodies))]
        torques = [torque_on(static(g), force, masses, share, carried, acts_p, acts_b) for g in static(range(n_bodies))]
        if counts:
            count(p_k, b_k, force, torques, motion, masses, since, moved, turns, poses, moving, dt)
        for p in static(range(n_particles)):
            moving.particle[p_k[p]] += moved_by(motion[p])
        for g in static(range(n_bodies)):
            moving.dx[b_k[g]] += motion[n_particles + 2 * g]
            moving.turn[b_k[g]] = exponential(motion[n_particles + 2 * g + 1]) * turns[g]
            if masses[n_particles + g] > 0.0:
                moving.impulse[b_k[g]] += torques[g]

    return push


@memoize
def before_that_of(slots: Slots) -> Function:
    """`before_that(last, v_0, masses, since, moved, turns, dt)` in a kernel: the velocities of all movers before the
    last step, from which `turning` goes on straight; of what is held those from which it leads to this step's own."""
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)

    @func
    def of_one(last, v, mass, motion, dt):
        if mass == 0.0:  # a tray that swings is not as fast as before: what turns round on it would do so too late
            last = 2.0 * v - motion / dt
        return last

    @func
    def before_that(last, v_0, masses, since, moved, turns, dt):
        motions = [since[p] for p in static(range(n_particles))] + [
            moved[k // 2] if k % 2 == 0 else logarithm(turns[k // 2]) for k in static(range(2 * n_bodies))
        ]
        return [of_one(last[p], v_0[p], masses[p], motions[p], dt) for p in static(range(n_particles))] + [
            of_one(last[n_particles + k], v_0[n_particles + k], masses[n_particles + k // 2], motions[n_particles + k],
                   dt)
            for k in static(range(2 * n_bodies))
        ]  # fmt: skip

    return before_that


@memoize
def make_contact_projection(
    c: Constraint, slots: Slots, real: Scalar, first: bool, restitution: Restitution, form: Form
) -> Kernel:
    """One projection of contacts: the normal row, to C = `impacts.target` or above, then friction.

    first: the multipliers are zero before.
    """
    vec3, vec2 = vector(3, real), vector(2, real)
    size = len(slots.particles) + 2 * len(slots.bodies)
    sides, masses_at, push = sides_of(slots, real), masses_of(slots), push_of(slots, real, restitution)
    hit, slip, slip_rate = hit_of(c, slots, real), slip_of(slots), slip_rate_of(slots)
    velocities, mobility, n_particles = velocities_of(slots), mobility_of(slots, real), len(slots.particles)
    gap, (_, response, product) = gap_of(c, slots, real), row_functions(slots)
    before_that, chosen = before_that_of(slots), chosen_of(c)

    @func
    def push_apart(k, contacts, moving, dt, lam, lam_t):
        (p_k, b_k, _, begun, moved, turns, poses), x_p, since, placed_k, data_k = sides(k, contacts, moving)
        impacts, surface = contacts.impacts, contacts.surface
        leaves = impacts.hits[k] > 0.0 and impacts.target[k] < 0.0  # see `impact`
        if gap(x_p, poses, placed_k, data_k) < impacts.target[k] or lam > 0.0 or leaves:
            masses, inertias = masses_at(p_k, b_k, poses, moving.w, moving.bodies)
            x_0 = [moving.x_ref[p_k[p]] for p in static(range(n_particles))]
            v_0, t = velocities(p_k, b_k, moving.v_before, moving.body_qd_before), impacts.time[k]
            touch = hit(x_p, x_0, poses, begun, v_0, impacts.hits[k], t, placed_k, data_k)
            C, G, n, T, E, share, arms, back_p, back_b = touch
            alpha = contacts.compliance[k] / (dt * dt)
            M = response(G, masses, inertias)
            own, R = product(G, M) + alpha, impacts.target[k] - C - alpha * lam
            if leaves:  # what others hold up from then on has been held up by it before
                R = max(R, real(0.0))
            dlam, mu = max(R / own, -lam), 0.5 * (surface.friction[k] + surface.other_friction[k])
            K, before = mobility(E, masses, inertias), along_both(T, lam_t)
            u = along_both(T, slip(n, share, arms, since, moved, turns) - impacts.before[k])
            v_last = before_that(velocities(p_k, b_k, moving.v_last, moving.body_qd_last), v_0, masses, since, moved,
                                 turns, dt)  # fmt: skip
            rates = [along_both(T, slip_rate(n, share, arms, v)) for v in (v_0, v_last)]
            easy = sum([masses[n_particles + g] for g in static(range(len(slots.bodies)))]) + real(0.0)
            for p in static(range(n_particles)):
                easy += share[p] * share[p] * masses[p]
            turned = impacts.rests[k] * turning(rates[0], rates[1], easy * mu * (lam + dlam) / dt)
            given, left = (mu * (lam + dlam)) * turned, mu * unturned(turned)
            coupled = vec2(product(E[0], M), product(E[1], M))  # what the normal push adds to the slip
            b = K @ (before - given) - u
            if static(len(slots.bodies) > 0):
                hit_by = impacts.share[k]
                if leaves:
                    hit_by = real(0.0)
                dlam, x = pressed_and_rubbed(R, b, given - before, lam, real(0.0), own, coupled, hit_by, K, left)
            else:
                x = coulomb(K, b - dlam * coupled, left * (lam + dlam))
            x += given
            contacts.turned[k] = turned[0] * T[0] + turned[1] * T[1]
            pushed = x - before
            force = [dlam * G[i] + pushed[0] * E[0][i] + pushed[1] * E[1][i] for i in static(range(size))]
            push(
                p_k, b_k, force, masses, inertias, share, impacts.carried[k], since, moved, turns, poses, back_p,
                back_b, moving, dt, impacts.rebound[k] > 0.0,
            )  # fmt: skip
            lam, lam_t = lam + dlam, x[0] * T[0] + x[1] * T[1]
        return lam, lam_t

    @func
    def one(k, contacts, moving, dt):
        lam, lam_t = real(0.0), vec3()
        if not first:
            lam, lam_t = contacts.multiplier[k], contacts.along[k]
        if chosen(contacts.data, k) or lam > 0.0:  # most rows of boxes are open
            lam, lam_t = push_apart(k, contacts, moving, dt, lam, lam_t)
        contacts.multiplier[k], contacts.along[k] = lam, lam_t

    return alike(form.kernel("project", one, every, c, slots, real), form)
