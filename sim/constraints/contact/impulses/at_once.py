"""What bodies are hit by at several places at once: a first guess of the impulses, from which sweeps go on.

A box that falls on a face is hit at four corners.  The first of them alone would turn it, and sweeps over one after the
other take that back slowly: after two of them a box of 60 x 20 x 40 cm came back at 70 to 90 % of its speed, and spun.
With the rows G (n, 6) of all that hits a body, by how much they are to move it, r = C wanted - C, and its inverse
inertia W (6, 6), each contact begins with

    lambda = G y          (G^T G) W (G^T G) y = G^T r

the least impulses that come as near to r as any, in the mean over all rows; and with the same of dC/dt for velocities.
Where what it is hit by moves, too, W is the sum of both, seen from one of them.  So two bodies have the impulses that
they need, wherever on them their faces meet; where there are more it is the mean of what each of both would need.  It
is linear in r: derivatives are right also where what is hit in its middle does not turn.

Contacts can only push.  Where two of them a few degrees apart on a rim are to move by what does not fit together, one
would have to push and the other to pull, ten times what either needs.  Without what pulls that is far too much: a
cylinder that slapped down from its rim jumped up with two fifths more energy.  So none begins with more than twice what
it would need alone (`TOGETHER`).
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.kernels.forms import Form, moving_struct, sides_of
from sim.constraints.contact.kinematics.hitting import there_of
from sim.constraints.contact.kinematics.rows import RowLayout, inertias_of, normal_of, placed_of
from sim.constraints.contact.laws.energy import impulse_work_of
from sim.constraints.contact.laws.restitution import Restitution
from sim.constraints.contact.positions.projection import push_of
from sim.constraints.projection import solve
from sim.constraints.slots.linearization import masses_of, row_functions, velocities_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import max, min, sqrt, static, tid
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.matrix import transpose
from sim.core.lang.library.vector import dot, outer, skew, spatial_bottom, spatial_top
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, matrix, vector
from sim.core.runtime.launch.kernel import Kernel, kernel

SINGULAR = 1e-6
"""Squares of singular values of G W G^T below this part of the square of their sum count as none: four corners of a
face have three rows, to rounding, and float32 tells no smaller ones apart."""

TOGETHER = 2.0
"""So many times what it would need alone a contact may give, as others push against it: the ends of a rod that falls
flat give twice that, each corner of a square plate 7/4.  With four times one of 6,000 drops still gained energy."""


@func
def _hits(contacts, k: int):
    return contacts.late[k] > 0.0 or contacts.late[k] < 0.0


@memoize
def make_unstruck(real: Scalar) -> Kernel:
    """Sets what `make_struck` adds up over the contacts of bodies `tid()` to zero."""
    spatial, mat66, Moving = vector(6, real), matrix((6, 6), real), moving_struct(real)

    @kernel
    def clear(moving: Moving):
        i = tid()
        moving.struck[i], moving.strikes[i], moving.gram[i], moving.partner[i] = spatial(), real(0.0), mat66(), mat66()

    return clear


@memoize
def transported_of(real: Scalar) -> Function:
    """`transported(r, mass, inertia)` in a kernel: the inverse inertia (6, 6) of a body, for forces at the centre of
    another one, which is at r from its own, and torques about it."""
    spatial, mat66 = vector(6, real), matrix((6, 6), real)

    @func
    def transported(r, mass, inertia):
        R, W = skew(r), mat66()
        turning = inertia @ R
        moving, turned = transpose(R) @ turning, transpose(turning)
        for i in static(range(3)):
            W[i] = spatial(moving[i][0], moving[i][1], moving[i][2], turned[i][0], turned[i][1], turned[i][2])
            W[3 + i] = spatial(turning[i][0], turning[i][1], turning[i][2], inertia[i][0], inertia[i][1], inertia[i][2])
            W[i, i] += mass
        return W

    return transported


@memoize
def make_struck(c: Constraint, slots: Slots, real: Scalar, form: Form) -> Kernel:
    """Adds up over what hits each body, of contacts that are to move it by `late`, weighed by how much of an impact
    they are: G^T r, `struck`; their number, `strikes`; G^T G, `gram`; and W of what they hit it with, `partner`."""
    n_bodies, spatial, owners = len(slots.bodies), vector(6, real), tuple(own[0] for own in slots.bodies)
    placed, (gradient, _, _), transported = placed_of(c, slots, real), normal_of(c, slots, real), transported_of(real)
    masses_at, acting = inertias_of(slots), RowLayout(c, slots).arms
    first = tuple(next(a for a, (_, own) in enumerate(acting) if own == g) for g in range(n_bodies))

    @func
    def one(k, contacts, moving, dt):
        if _hits(contacts, k):
            b_k = [contacts.points[k, j] for j in static(owners)]
            n, share, arms = placed(k, contacts.rows)
            masses, inertias = masses_at([], b_k, moving)
            G, part = gradient(k, contacts.rows, n, share, arms), contacts.impacts.share[k]
            for g in static(range(n_bodies)):
                if masses[g] > 0.0:
                    d, turned = G[2 * g], G[2 * g + 1]
                    row = spatial(d[0], d[1], d[2], turned[0], turned[1], turned[2])
                    moving.struck[b_k[g]] += (part * contacts.late[k]) * row
                    moving.gram[b_k[g]] += outer(part * row, row)
                    moving.strikes[b_k[g]] += part
                    if static(n_bodies > 1):
                        if masses[1 - g] > 0.0:
                            r = arms[first[1 - g]][1] - arms[first[g]][1]
                            moving.partner[b_k[g]] += part * transported(r, masses[1 - g], inertias[1 - g])

    return form.kernel("strike", one, _hits, c, slots, real)


@memoize
def make_answer(real: Scalar) -> Kernel:
    """y of bodies `tid()`, in the place of G^T r in `struck`."""
    spatial, Moving = vector(6, real), moving_struct(real)

    @kernel
    def answer(moving: Moving):
        b = tid()
        if moving.strikes[b] > 0.0:
            W, M, unit = moving.partner[b] / moving.strikes[b], moving.gram[b], spatial()
            for i in static(range(3)):
                W[i, i] += moving.bodies.inv_mass[b]
                for j in static(range(3)):
                    W[3 + i, 3 + j] += moving.inertia[b][i, j]
            easily, turning = sqrt(W[0, 0] + W[1, 1] + W[2, 2]), sqrt(W[3, 3] + W[4, 4] + W[5, 5])
            for i in static(range(6)):  # forces and torques that move it alike
                unit[i] = easily if i < 3 else turning
            struck = moving.struck[b]
            for i in static(range(6)):
                struck[i] *= unit[i]
                for j in static(range(6)):
                    W[i, j] /= unit[i] * unit[j]
                    M[i, j] *= unit[i] * unit[j]
            A, size = M @ W @ M, real(0.0)
            for i in static(range(6)):
                size += M[i, i]
            for i in static(range(6)):
                A[i, i] += static(SINGULAR) * size * size
            y = solve(A, struck)
            for i in static(range(6)):
                y[i] *= unit[i]
            moving.struck[b] = y

    return answer


@memoize
def wanted_of(slots: Slots) -> Function:
    """`wanted(b_k, G, masses, moving)` in a kernel: the multiplier of a contact, as both bodies answer in the mean."""
    n_bodies = len(slots.bodies)

    @func
    def wanted(b_k, G, masses, moving):
        lam, count = 0.0 * masses[0], 0.0 * masses[0]
        for g in static(range(n_bodies)):
            if masses[g] > 0.0:
                y = moving.struck[b_k[g]]
                lam += dot(G[2 * g], spatial_top(y)) + dot(G[2 * g + 1], spatial_bottom(y))
                count += 1.0
        return lam / max(count, 1.0)

    return wanted


@memoize
def make_pushed_at_once(c: Constraint, slots: Slots, real: Scalar, restitution: Restitution, form: Form) -> Kernel:
    """The first guess for positions, of contacts of bodies that are to be moved by `late` [m]."""
    n_bodies, placed, (gradient, _, _) = len(slots.bodies), placed_of(c, slots, real), normal_of(c, slots, real)
    sides, masses_at, push = sides_of(slots, real), masses_of(slots), push_of(slots, real, restitution)
    there_at, velocities, wanted = there_of(slots), velocities_of(slots), wanted_of(slots)
    _, response, product = row_functions(slots)

    @func
    def one(k, contacts, moving, dt):
        if _hits(contacts, k):
            (p_k, b_k, _, begun, moved, turns, poses), x_p, since, _, _ = sides(k, contacts, moving)
            masses, inertias = masses_at(p_k, b_k, poses, moving.w, moving.bodies)
            v_0, impacts = velocities(p_k, b_k, moving.v_before, moving.body_qd_before), contacts.impacts
            n, share, arms = placed(k, contacts.rows)
            G = gradient(k, contacts.rows, n, share, arms)
            alone = contacts.late[k] / product(G, response(G, masses, inertias))
            lam = impacts.share[k] * min(wanted(b_k, G, masses, moving), static(TOGETHER) * alone)
            counts = impacts.rebound[k] > 0.0
            if lam > 0.0:
                _, there = there_at(x_p, [], poses, begun, v_0, impacts.hits[k], impacts.time[k])
                back = [there[g][0] - poses[g][0] for g in static(range(n_bodies))]
                push(
                    p_k, b_k, [lam * G[i] for i in static(range(2 * n_bodies))], masses, inertias, [],
                    impacts.carried[k], since, moved, turns, poses, [], back, moving, dt, counts,
                )  # fmt: skip
                contacts.multiplier[k] += lam

    return form.kernel("pushed_at_once", one, _hits, c, slots, real)


@memoize
def make_hit_at_once(c: Constraint, slots: Slots, real: Scalar, restitution: Restitution, form: Form) -> Kernel:
    """The same for velocities: `late` [m], a time step of what is to be added to dC/dt, becomes a multiplier."""
    n_bodies, spatial, owners = len(slots.bodies), vector(6, real), tuple(own[0] for own in slots.bodies)
    placed, velocities, (_, response, _) = placed_of(c, slots, real), velocities_of(slots), row_functions(slots)
    masses_at, (gradient, _, _), (_, add) = inertias_of(slots), normal_of(c, slots, real), restitution.budget(slots)
    halfway, work, wanted = restitution.halfway(slots), impulse_work_of(slots), wanted_of(slots)

    @func
    def one(k, contacts, moving, dt):
        if _hits(contacts, k):
            p_k = [contacts.points[k, j] for j in static(slots.particles)]
            b_k = [contacts.points[k, j] for j in static(owners)]
            n, share, arms = placed(k, contacts.rows)
            masses, inertias = masses_at(p_k, b_k, moving)
            G = gradient(k, contacts.rows, n, share, arms)
            dlam = max(contacts.impacts.share[k] * wanted(b_k, G, masses, moving), -contacts.multiplier[k])
            force = [(dlam / dt) * G[i] for i in static(range(2 * n_bodies))]
            if contacts.impacts.rebound[k] > 0.0:
                velocity = velocities(p_k, b_k, moving.v, moving.body_qd)
                gained = work(force, halfway(velocity, p_k, b_k, moving), masses, inertias)
                add(gained, p_k, b_k, masses, moving)
            motion = response(force, masses, inertias)
            for g in static(range(n_bodies)):
                d, turned = motion[2 * g], motion[2 * g + 1]
                moving.body_qd[b_k[g]] += spatial(d[0], d[1], d[2], turned[0], turned[1], turned[2])
            contacts.late[k] = dlam

    return form.kernel("hit_at_once", one, _hits, c, slots, real)
