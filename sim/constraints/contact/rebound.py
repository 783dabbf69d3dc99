"""The velocities of contacts after a step: rebounds, and friction with them."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
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
def impact_work_of(slots: Slots) -> Function:
    """`work(G, E, lam, lam_t, dt, velocity, masses, inertias)` in a kernel: what the impulses F of a contact have added
    to the energy [J] of what now moves with `velocity`, as if they were alone, F v - F W F / 2; and the last term.

    lam, lam_t (2,): its multipliers, those of friction along the rows E.
    """
    size, (_, response, product) = len(slots.particles) + 2 * len(slots.bodies), row_functions(slots)

    @func
    def work(G, E, lam, lam_t, dt, velocity, masses, inertias):
        F = [(lam * G[i] + lam_t[0] * E[0][i] + lam_t[1] * E[1][i]) / dt for i in static(range(size))]
        alone = 0.5 * product(F, response(F, masses, inertias))
        return product(F, velocity) - alone, alone

    return work


@func
def held_back(rebound, away, gained, own):
    """The rebound of a contact that has gained energy: a step of Newton's method towards none, by the normal impulse.

    Newton's law of restitution and friction together add energy where what presses also turns (T. R. Kane, D. A.
    Levinson, "Dynamics: Theory and Applications", 1985, section 5.8): an impact that would gives back less.
    """
    if gained > 0.0 and away > 0.0:
        rebound = max(rebound - own * gained / away, 0.0)
    return rebound


@memoize
def make_rebound(c: Constraint, slots: Slots, real: Scalar, first: bool, form: Form) -> Kernel:
    """The velocities after a step of what contacts have pushed: dC/dt = `impacts.rebound`, and the slip as friction
    allows, by impulses `late` [m kg] that count with those of the positions.

    first: `late` is zero before.
    """
    spatial, n_particles, n_bodies = vector(6, real), len(slots.particles), len(slots.bodies)
    sides, masses_at, velocities = sides_of(slots, real), masses_of(slots), velocities_of(slots)
    contact, slip_rate, friction = contact_of(c, slots, real), slip_rate_of(slots), friction_of(slots, real)
    (_, response, product), work_of = row_functions(slots), impact_work_of(slots)

    @func
    def one(k, contacts, moving, dt):
        if contacts.multiplier[k] > 0.0:
            (p_k, b_k, _, _, _, _, poses), x_p, _, placed_k, data_k = sides(k, contacts, moving)
            impacts, surface = contacts.impacts, contacts.surface
            pressed, pulled = contacts.multiplier[k], contacts.along[k]
            masses, inertias = masses_at(p_k, b_k, poses, moving.w, moving.bodies)
            _, G, n, T, E, share, arms = contact(x_p, poses, placed_k, data_k)
            velocity = velocities(p_k, b_k, moving.v, moving.body_qd)
            mu = 0.5 * (surface.friction[k] + surface.other_friction[k])
            M = response(G, masses, inertias)
            own = product(G, M)
            before = real(0.0)
            if not first:
                before = contacts.late[k]
                if mu > 0.0 and impacts.rebound[k] > 0.0:
                    lam_t = along_both(T, pulled)
                    gained, _ = work_of(G, E, pressed + before, lam_t, dt, velocity, masses, inertias)
                    impacts.rebound[k] = held_back(impacts.rebound[k], product(G, velocity), gained, own)
            dlam = max((impacts.rebound[k] - product(G, velocity)) * dt / own, -(pressed + before))
            u = dt * slip_rate(n, share, arms, velocity)
            for i in static(range(2)):
                u += (dlam * product(E[i], M)) * T[i]
            x = friction(T, E, masses, inertias, pulled, u, mu * (pressed + before + dlam))
            pushed = x - along_both(T, pulled)
            force = [
                (dlam * G[i] + pushed[0] * E[0][i] + pushed[1] * E[1][i]) / dt
                for i in static(range(n_particles + 2 * n_bodies))
            ]
            motion = response(force, masses, inertias)
            for p in static(range(n_particles)):
                moving.v[p_k[p]] += motion[p]
            for g in static(range(n_bodies)):
                d, turned = motion[n_particles + 2 * g], motion[n_particles + 2 * g + 1]
                moving.body_qd[b_k[g]] += spatial(d[0], d[1], d[2], turned[0], turned[1], turned[2])
            contacts.late[k] = before + dlam
            contacts.along[k] = x[0] * T[0] + x[1] * T[1]
        else:
            contacts.late[k] = 0.0

    return form.kernel("rebound", one, every, c, slots, real)
