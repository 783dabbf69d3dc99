"""What bodies are hit by at several places at once: a first guess of the impulses, from which sweeps go on.

A box that falls on a face is hit at four corners.  The first of them alone would turn it, and sweeps over one after the
other take that back slowly: after two of them a box of 60 x 20 x 40 cm came back at 70 to 90 % of its speed, and spun.
With the rows G of all that hit a body added up, S, n of them, each contact begins with

    lambda = (C wanted - C) / sum_bodies S W S^T / n

and with the same of dC/dt for velocities: the minimum of what sweeps go down, along impulses that are the same for all
of them.  That is all there is to find where faces or edges meet flat, and what a contact alone would give.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.forms import Form, sides_of
from sim.constraints.contact.hitting import hit_of
from sim.constraints.contact.impulses.energy import halfway_of, impulse_work_of
from sim.constraints.contact.impulses.restitution import Restitution
from sim.constraints.contact.impulses.rows import inertias_of, kept_of, normal_of
from sim.constraints.contact.projection import push_of
from sim.constraints.slots.linearization import masses_of, row_functions, velocities_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import max, static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.vector import dot, spatial_bottom, spatial_top
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.launch.kernel import Kernel

OPPOSED = 1e-2
"""Rows that are against each other add up to less than this part of one, and say nothing together."""


@func
def _hits(contacts, k: int):
    return contacts.late[k] > 0.0 or contacts.late[k] < 0.0


@memoize
def together_of(slots: Slots) -> Function:
    """`together(b_k, masses, inertias, moving)` in a kernel: how easily what is hit moves, see above, for each of its
    contacts."""
    n_bodies = len(slots.bodies)

    @func
    def of_body(S, count, mass, inertia):
        found = 0.0 * mass
        if mass > 0.0:
            force, torque = spatial_top(S), spatial_bottom(S)
            found = (mass * dot(force, force) + dot(torque, inertia @ torque)) / count
        return found

    @func
    def together(b_k, masses, inertias, moving):
        each = [
            of_body(moving.struck[b_k[g]], moving.strikes[b_k[g]], masses[g], inertias[g])
            for g in static(range(n_bodies))
        ]
        return sum(each)

    return together


@memoize
def make_pushed_at_once(c: Constraint, slots: Slots, real: Scalar, restitution: Restitution, form: Form) -> Kernel:
    """The first guess for positions, of contacts of bodies that are to be moved by `late` [m]."""
    size, together = 2 * len(slots.bodies), together_of(slots)
    sides, masses_at, push = sides_of(slots, real), masses_of(slots), push_of(slots, real, restitution)
    hit, velocities, (_, response, product) = hit_of(c, slots, real), velocities_of(slots), row_functions(slots)

    @func
    def one(k, contacts, moving, dt):
        if _hits(contacts, k):
            (p_k, b_k, _, begun, moved, turns, poses), x_p, since, placed_k, data_k = sides(k, contacts, moving)
            masses, inertias = masses_at(p_k, b_k, poses, moving.w, moving.bodies)
            v_0, impacts = velocities(p_k, b_k, moving.v_before, moving.body_qd_before), contacts.impacts
            touch = hit(x_p, [], poses, begun, v_0, impacts.hits[k], impacts.time[k], placed_k, data_k)
            _, G, _, _, _, share, _, back_p, back_b = touch
            alpha, easily = contacts.compliance[k] / (dt * dt), together(b_k, masses, inertias, moving)
            if easily > OPPOSED * product(G, response(G, masses, inertias)):
                lam, counts = contacts.late[k] / (easily + alpha), impacts.rebound[k] > 0.0
                push(
                    p_k, b_k, [lam * G[i] for i in static(range(size))], masses, inertias, share, since, moved, turns,
                    poses, back_p, back_b, moving, dt, counts,
                )  # fmt: skip
                contacts.multiplier[k] += lam

    return form.kernel("pushed_at_once", one, _hits, c, slots, real)


@memoize
def make_hit_at_once(c: Constraint, slots: Slots, real: Scalar, restitution: Restitution, form: Form) -> Kernel:
    """The same for velocities: `late` [m], a time step of what is to be added to dC/dt, becomes a multiplier."""
    n_bodies, spatial, owners = len(slots.bodies), vector(6, real), tuple(own[0] for own in slots.bodies)
    kept, velocities, (_, response, _) = kept_of(c, slots, real), velocities_of(slots), row_functions(slots)
    masses_at, (gradient, _, _), (_, add) = inertias_of(slots), normal_of(c, slots, real), restitution.budget(slots)
    halfway, work, together = halfway_of(slots), impulse_work_of(slots), together_of(slots)

    @func
    def one(k, contacts, moving, dt):
        if _hits(contacts, k):
            p_k = [contacts.points[k, j] for j in static(slots.particles)]
            b_k = [contacts.points[k, j] for j in static(owners)]
            n, share, arms, own, _, _ = kept(k, contacts.rows)
            masses, inertias = masses_at(p_k, b_k, moving)
            easily, dlam = together(b_k, masses, inertias, moving), real(0.0)
            if easily > OPPOSED * own:
                dlam = max(contacts.late[k] / easily, -contacts.multiplier[k])
                G = gradient(k, contacts.rows, n, share, arms)
                force = [(dlam / dt) * G[i] for i in static(range(2 * n_bodies))]
                if contacts.impacts.rebound[k] > 0.0:
                    velocity = velocities(p_k, b_k, moving.v, moving.body_qd)
                    gained = work(force, halfway(velocity, masses, moving.gravity[0], dt), masses, inertias)
                    add(gained, p_k, b_k, masses, moving)
                motion = response(force, masses, inertias)
                for g in static(range(n_bodies)):
                    d, turned = motion[2 * g], motion[2 * g + 1]
                    moving.body_qd[b_k[g]] += spatial(d[0], d[1], d[2], turned[0], turned[1], turned[2])
            contacts.late[k] = dlam

    return form.kernel("hit_at_once", one, _hits, c, slots, real)
