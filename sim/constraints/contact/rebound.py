"""The velocities of contacts after a step: rebounds, and friction with them."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.energy import halfway_of, held_back_of
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
def impulse_of(slots: Slots, real: Scalar) -> Function:
    """`impulse(rebound, away, own, pressed, pulled, slip, mu, dt, G, T, E, M, masses, inertias)` in a kernel: what
    takes the velocity `away` of a contact along C to `rebound`, and its slip [m] where friction takes it: the change of
    the normal multiplier, the multipliers of friction (2,) along T, and impulses over the movers.

    pressed, pulled (3,): the multipliers so far; M = W G, own = G M.
    """
    size, friction = len(slots.particles) + 2 * len(slots.bodies), friction_of(slots, real)
    _, _, product = row_functions(slots)

    @func
    def impulse(rebound, away, own, pressed, pulled, slip, mu, dt, G, T, E, M, masses, inertias):
        dlam = max((rebound - away) * dt / own, -pressed)
        u = slip
        for i in static(range(2)):  # what the normal impulse adds to it
            u = u + (dlam * product(E[i], M)) * T[i]
        x = friction(T, E, masses, inertias, pulled, u, mu * (pressed + dlam))
        pushed = x - along_both(T, pulled)
        force = [(dlam * G[i] + pushed[0] * E[0][i] + pushed[1] * E[1][i]) / dt for i in static(range(size))]
        return dlam, x, force

    return impulse


@memoize
def make_rebound(c: Constraint, slots: Slots, real: Scalar, first: bool, form: Form) -> Kernel:
    """The velocities after a step of what contacts have pushed: dC/dt = `impacts.rebound`, and the slip as friction
    allows, by impulses `late` [m kg] that count with those of the positions; less, where they would add energy.

    first: `late` is zero before.
    """
    spatial, n_particles, n_bodies = vector(6, real), len(slots.particles), len(slots.bodies)
    sides, masses_at, velocities = sides_of(slots, real), masses_of(slots), velocities_of(slots)
    contact, slip_rate, impulse = contact_of(c, slots, real), slip_rate_of(slots), impulse_of(slots, real)
    (_, response, product), size = row_functions(slots), n_particles + 2 * n_bodies
    halfway, held_back = halfway_of(slots), held_back_of(slots, real)

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
            slip = dt * slip_rate(n, share, arms, velocity)

            dlam, x, force = impulse(rebound, away, own, pressed, pulled, slip, mu, dt, G, T, E, M, masses, inertias)
            if rebound > 0.0:
                still, y, least = impulse(
                    real(0.0), away, own, pressed, pulled, slip, mu, dt, G, T, E, M, masses, inertias
                )
                at = halfway(velocity, masses, moving.gravity[0], dt)
                alone = 0.5 * own * ((pressed + dlam) / dt) ** 2
                part, gained, _ = held_back(contacts.gained[k], alone, least, force, at, masses, inertias)
                if part < 1.0:
                    dlam, x = still + part * (dlam - still), y + part * (x - y)
                    force = [least[i] + part * (force[i] - least[i]) for i in static(range(size))]
                contacts.gained[k] = gained
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
