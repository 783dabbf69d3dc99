"""The velocities of contacts after a step: rebounds, and friction with them."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.energy import ROUNDING, halfway_of, impulse_work_of, part_that_adds
from sim.constraints.contact.forms import Form, every, sides_of
from sim.constraints.contact.friction import along_both, friction_of
from sim.constraints.contact.geometry import contact_of, slip_rate_of
from sim.constraints.slots.linearization import masses_of, row_functions, velocities_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.launch.kernel import Kernel


@memoize
def impulse_of(slots: Slots) -> Function:
    """`impulse(dlam, x, pulled, G, T, E, dt)` in a kernel: impulses over the movers of a change `dlam` of the normal
    multiplier of a contact, and of those of friction from `pulled` (3,) to x (2,) along T."""
    size = len(slots.particles) + 2 * len(slots.bodies)

    @func
    def impulse(dlam, x, pulled, G, T, E, dt):
        pushed = x - along_both(T, pulled)
        return [(dlam * G[i] + pushed[0] * E[0][i] + pushed[1] * E[1][i]) / dt for i in static(range(size))]

    return impulse


@memoize
def held_back_of(slots: Slots, real: Scalar) -> Function:
    """`held_back(dlam, x, pressed, pulled, away, own, gained, velocity, masses, inertias, gravity, G, T, E, dt)` in a
    kernel: the changes `dlam` and x of a contact that rebounds, or what of them adds no energy; what they add [J]; and
    how far the whole is from adding any, in parts of the energy of its normal impulse.

    Less is a part of the way from no rebound at all, with friction in proportion: both are in the cone, and so is what
    is between.  pressed: the normal multiplier so far; gained [J]: what was added so far.
    """
    halfway, work, part_of = halfway_of(slots), impulse_work_of(slots), part_that_adds(slots)
    impulse, size = impulse_of(slots), len(slots.particles) + 2 * len(slots.bodies)

    @func
    def held_back(dlam, x, pressed, pulled, away, own, gained, velocity, masses, inertias, gravity, G, T, E, dt):
        at, force = halfway(velocity, masses, gravity, dt), impulse(dlam, x, pulled, G, T, E, dt)
        alone = 0.5 * own * ((pressed + dlam) / dt) ** 2
        allowed, added = static(ROUNDING) * alone - gained, work(force, at, masses, inertias)
        beyond = added - allowed
        if beyond > 0.0:
            still = max(-away * dt / own, -pressed)
            y = ((pressed + still) / (pressed + dlam)) * x
            least = impulse(still, y, pulled, G, T, E, dt)
            part = part_of(allowed, least, force, at, masses, inertias)
            dlam, x = still + part * (dlam - still), y + part * (x - y)
            added = work([least[i] + part * (force[i] - least[i]) for i in static(range(size))], at, masses, inertias)
        return dlam, x, added, beyond / alone

    return held_back


@memoize
def make_rebound(c: Constraint, slots: Slots, real: Scalar, first: bool, form: Form) -> Kernel:
    """The velocities after a step of what contacts have pushed: dC/dt = `impacts.rebound`, and the slip as friction
    allows, by impulses `late` [m kg] that count with those of the positions; less, where they would add energy.

    first: `late` is zero before.
    """
    spatial, n_particles, n_bodies = vector(6, real), len(slots.particles), len(slots.bodies)
    sides, masses_at, velocities = sides_of(slots, real), masses_of(slots), velocities_of(slots)
    contact, slip_rate, friction = contact_of(c, slots, real), slip_rate_of(slots), friction_of(slots, real)
    (_, response, product), impulse = row_functions(slots), impulse_of(slots)
    held_back = held_back_of(slots, real)

    @func
    def one(k, contacts, moving, dt):
        if contacts.multiplier[k] > 0.0:
            (p_k, b_k, _, _, _, _, poses), x_p, _, placed_k, data_k = sides(k, contacts, moving)
            rebound, surface = contacts.impacts.rebound[k], contacts.surface
            pressed, pulled = contacts.multiplier[k], contacts.along[k]
            if not first:
                pressed += contacts.late[k]
            masses, inertias = masses_at(p_k, b_k, poses, moving.w, moving.bodies)
            _, G, n, T, E, share, arms = contact(x_p, poses, placed_k, data_k)
            velocity = velocities(p_k, b_k, moving.v, moving.body_qd)
            mu = 0.5 * (surface.friction[k] + surface.other_friction[k])
            M = response(G, masses, inertias)
            own, away = product(G, M), product(G, velocity)
            dlam = max((rebound - away) * dt / own, -pressed)
            u = dt * slip_rate(n, share, arms, velocity)
            for i in static(range(2)):  # what the normal impulse adds to it
                u += (dlam * product(E[i], M)) * T[i]
            x = friction(T, E, masses, inertias, pulled, u, mu * (pressed + dlam))
            if rebound > 0.0:
                gained, gravity = contacts.gained[k], moving.gravity[0]
                dlam, x, added, _ = held_back(
                    dlam, x, pressed, pulled, away, own, gained, velocity, masses, inertias, gravity, G, T, E, dt
                )
                contacts.gained[k] = gained + added
            force = impulse(dlam, x, pulled, G, T, E, dt)
            motion = response(force, masses, inertias)
            for p in static(range(n_particles)):
                moving.v[p_k[p]] += motion[p]
            for g in static(range(n_bodies)):
                d, turned = motion[n_particles + 2 * g], motion[n_particles + 2 * g + 1]
                moving.body_qd[b_k[g]] += spatial(d[0], d[1], d[2], turned[0], turned[1], turned[2])
            contacts.late[k] = pressed - contacts.multiplier[k] + dlam
            contacts.along[k] = x[0] * T[0] + x[1] * T[1]
        else:
            contacts.late[k] = 0.0

    return form.kernel("rebound", one, every, c, slots, real)
