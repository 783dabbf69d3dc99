"""Steps that an impact parts in two: contacts that rest press and rub as before it, and then as after it.

What slides comes to a wall slower than it was as the step began, and goes back rubbed the other way; the foot of a
block that rocks carries it until the other one hits.  Taken for the whole step, these forces depend on the end of the
step alone, and when the impact was is lost: of a block that slides into a wall d v / d x was 0, at any step.  So at an
impact at s, with what contacts pressed and rubbed with as the last step ended, F,

    s h F         is there before it: contacts give it in any case, and approaches at the impact are those with it
    (1 - s) h F   of all contacts of a mover is how much of what one gives besides is a force after it, which rebounds
                  have to let act: what slides back leans the other way.  What is more answers the impact

F is off by as much as it changes in a step, which is of no matter to a part of one.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.kernels.forms import Form, chosen_of, moving_struct, sides_of
from sim.constraints.contact.kinematics.geometry import contact_of, slip_rate_of
from sim.constraints.contact.kinematics.hitting import hit_of
from sim.constraints.contact.kinematics.rows import place_of
from sim.constraints.contact.laws.friction import along_both
from sim.constraints.slots.linearization import masses_of, row_functions, velocities_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import max, min, static, tid
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.launch.kernel import Kernel, kernel


@memoize
def make_cleared(real: Scalar) -> Kernel:
    """Sets what `parted` and `rebound` add up over movers `tid()` to zero."""
    vec3, spatial, Moving = vector(3, real), vector(6, real), moving_struct(real)

    @kernel
    def clear(particles: int, bodies: int, moving: Moving):
        i = tid()
        if i < particles:
            moving.carried[i], moving.lasting[i], moving.parting[i] = vec3(), vec3(), vec3()
        if i < bodies:
            moving.body_carried[i], moving.body_lasting[i], moving.body_parting[i] = spatial(), spatial(), vec3()

    return clear


@memoize
def make_parting(c: Constraint, slots: Slots, real: Scalar, form: Form) -> Kernel:
    """Of each mover when it is first hit in a step, (1 - s) times how much of an impact it is, and that: `parting`."""
    n_particles, n_bodies, vec3 = len(slots.particles), len(slots.bodies), vector(3, real)
    particles, owners, chosen = slots.particles, tuple(own[0] for own in slots.bodies), chosen_of(c)

    @func
    def hits(contacts, k: int):
        return chosen(contacts.data, k) and contacts.impacts.share[k] > 0.0

    @func
    def later(before, left, share):
        return vec3(max(before[0], left), max(before[1], share), before[2])

    @func
    def one(k, contacts, moving, dt):
        time = contacts.impacts.time[k]
        closes = (contacts.impacts.hits[k] > 0.0 or time > 0.0) and time < dt  # by itself, in this step
        if hits(contacts, k) and closes:
            share = contacts.impacts.share[k]
            left = share * min(1.0 - time / dt, real(1.0))
            for p in static(range(n_particles)):
                at = contacts.points[k, static(particles[p])]
                if moving.w[at] > 0.0:
                    moving.parting[at] = later(moving.parting[at], left, share)
            for g in static(range(n_bodies)):
                at = contacts.points[k, static(owners[g])]
                if moving.bodies.inv_mass[at] > 0.0:
                    moving.body_parting[at] = later(moving.body_parting[at], left, share)

    return form.kernel("part", one, hits, c, slots, real)


@memoize
def make_carried(c: Constraint, slots: Slots, real: Scalar, form: Form) -> Kernel:
    """Of each mover that is hit how much [N] it was pressed in the last step, in `parting`, and by how much contacts,
    as they pressed and rubbed then, change its velocity in a step: `carried`."""
    n_particles, n_bodies, spatial, vec3 = len(slots.particles), len(slots.bodies), vector(6, real), vector(3, real)
    sides, masses_at, contact = sides_of(slots, real), masses_of(slots), contact_of(c, slots, real)
    particles, owners, chosen = slots.particles, tuple(own[0] for own in slots.bodies), chosen_of(c)
    _, response, _ = row_functions(slots)

    @func
    def presses(contacts, k: int):
        return chosen(contacts.data, k) and contacts.pressed[k] > 0.0

    @func
    def heavier(before, pressed):
        return vec3(before[0], before[1], before[2] + pressed)

    @func
    def one(k, contacts, moving, dt):
        if presses(contacts, k):
            pressed, share = contacts.pressed[k], real(0.0)
            for p in static(range(n_particles)):
                share = max(share, moving.parting[contacts.points[k, static(particles[p])]][1])
            for g in static(range(n_bodies)):
                share = max(share, moving.body_parting[contacts.points[k, static(owners[g])]][1])
            if share > 0.0:
                (p_k, b_k, _, begun, _, _, _), _, _, placed_k, data_k = sides(k, contacts, moving)
                x_0 = [moving.x_ref[p_k[p]] for p in static(range(n_particles))]
                _, G, _, T, E, _, _ = contact(x_0, begun, placed_k, data_k)
                masses, inertias = masses_at(p_k, b_k, begun, moving.w, moving.bodies)
                x = along_both(T, contacts.pulled[k])
                force = [
                    dt * (pressed * G[i] + x[0] * E[0][i] + x[1] * E[1][i])
                    for i in static(range(n_particles + 2 * n_bodies))
                ]
                motion = response(force, masses, inertias)
                for p in static(range(n_particles)):
                    moving.carried[p_k[p]] += motion[p]
                    if masses[p] > 0.0:
                        moving.parting[p_k[p]] = heavier(moving.parting[p_k[p]], pressed)
                for g in static(range(n_bodies)):
                    d, turned = motion[n_particles + 2 * g], motion[n_particles + 2 * g + 1]
                    moving.body_carried[b_k[g]] += spatial(d[0], d[1], d[2], turned[0], turned[1], turned[2])
                    if masses[n_particles + g] > 0.0:
                        moving.body_parting[b_k[g]] = heavier(moving.body_parting[b_k[g]], pressed)

    return form.kernel("carry", one, presses, c, slots, real)


@memoize
def make_approaching(c: Constraint, slots: Slots, real: Scalar, form: Form) -> Kernel:
    """What hits comes to the impact as contacts have pressed and rubbed it until then, `carried`: so is its slip before
    it, against which friction does no work, and so fast it goes back.  A box that hits a ball does not fall meanwhile.
    And of what hits bodies, by how much it is to move them, `late` [m], and where it touches them (`at_once`)."""
    n_particles, sides, hit = len(slots.particles), sides_of(slots, real), hit_of(c, slots, real)
    velocities, (_, _, product), slip_rate = velocities_of(slots), row_functions(slots), slip_rate_of(slots)
    chosen, place = chosen_of(c), place_of(c, slots, real)

    @func
    def hits(contacts, k: int):
        return chosen(contacts.data, k) and contacts.impacts.share[k] > 0.0

    @func
    def one(k, contacts, moving, dt):
        late = real(0.0)
        if hits(contacts, k):
            (p_k, b_k, _, begun, _, _, poses), x_1, _, placed_k, data_k = sides(k, contacts, moving)
            impacts, surface = contacts.impacts, contacts.surface
            t, hit_by = impacts.time[k], impacts.share[k]
            x_0 = [moving.x_ref[p_k[p]] for p in static(range(n_particles))]
            v_0 = velocities(p_k, b_k, moving.v_before, moving.body_qd_before)
            touch = hit(x_1, x_0, poses, begun, v_0, impacts.hits[k], t, placed_k, data_k)
            C, G, n, _, _, share, arms, _, _ = touch
            if t > 0.0:
                carried = velocities(p_k, b_k, moving.carried, moving.body_carried)
                along = slip_rate(n, share, arms, carried)
                impacts.before[k] += hit_by * t * (along - dot(n, along) * n)
                if impacts.rebound[k] > 0.0:
                    e = 0.5 * (surface.restitution[k] + surface.other_restitution[k])
                    slower = (hit_by * t / dt) * product(G, carried)
                    impacts.rebound[k] = max(impacts.rebound[k] - e * slower, real(0.0))
                    impacts.loses[k] = max(impacts.loses[k] - (1.0 - e) * slower, real(0.0))
                    impacts.coming[k] += (hit_by * t / dt) * along
            if static(n_particles == 0):
                late = hit_by * max(impacts.target[k] - C, real(0.0))
                if late > 0.0:
                    place(k, contacts.rows, G, n, share, arms)
        contacts.late[k] = late

    return form.kernel("approach", one, hits, c, slots, real)


@memoize
def cut_of(slots: Slots, real: Scalar) -> Function:
    """`cut(k, contacts, moving, dt)` in a kernel: of the normal multiplier of contact k what is before an impact on
    what it touches, and how much may last after it, by the forces of the last step; zeros where there is none."""
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)
    particles, owners, vec2 = slots.particles, tuple(own[0] for own in slots.bodies), vector(2, real)

    @func
    def cut(k, contacts, moving, dt):
        left, share, weight, found = real(0.0), real(0.0), real(0.0), vec2()
        for p in static(range(n_particles)):
            of = moving.parting[contacts.points[k, static(particles[p])]]
            left, share, weight = max(left, of[0]), max(share, of[1]), max(weight, of[2])
        for g in static(range(n_bodies)):
            of = moving.body_parting[contacts.points[k, static(owners[g])]]
            left, share, weight = max(left, of[0]), max(share, of[1]), max(weight, of[2])
        if share > 0.0:
            whole = contacts.impacts.rests[k] * dt * dt
            found = vec2((share - left) * whole * contacts.pressed[k], left * whole * weight)
        return found

    return cut
