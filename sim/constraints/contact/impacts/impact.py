"""When in a step a contact closes, and what its points are to do afterwards: restitution at the time of impact.

Along C the predicted step is the parabola through C^-, the value as it begins, and C*, the predicted one, with the
acceleration a = (v* - v) / h between the velocities v before and v* = (C* - C^-) / h of the step:

    C(s) = C^- + s h v* - a h^2 s (1 - s) / 2          v_c = v* + a (s - 1/2) h         s = 0 ... 1

From the impact, at the root s, on it moves with -e v_c and the same acceleration.  So the end of the step is a smooth
function of when the impact was, and derivatives are those of the motion: where a velocity is only turned around at the
end of the step in which an impact falls, the time of impact is lost, and with it its derivative (Y. Hu et al.,
"DiffTaichi", ICLR 2020, section 4; Y. D. Zhong, J. Han, G. O. Brikis, "Differentiable Physics Simulations with
Contacts: Do They Have Correct Gradients w.r.t. Position, Velocity and Control?", L4DC 2023).

What approaches at less than twice the speed that gravity gives in a step rests and has no rebound, as in M. Mueller et
al., "Detailed Rigid Body Simulation with Extended Position Based Dynamics", SCA 2020, section 3.6; here the rebound
grows from there to its full size at twice that speed, instead of at once.
What lies on something and is pulled onto it by rigid links that hold it, as a taut rope on a drum, rests as what falls
with that pull beside gravity.
Without gravity bodies rest on each other, too, where the acceleration of a step alone brings them back: their way is
curved.

What has a compliance is a spring: its forces turn around what comes, in as many steps as that takes, and it has no
impacts, nor a restitution.  Where steps are too long to see that, it is as hard as they can tell (`hard_part`).
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.kernels.forms import Form, alike, chosen_of, every, sides_of
from sim.constraints.contact.kinematics.geometry import gap_of, slip_of, slip_rate_of
from sim.constraints.contact.kinematics.hitting import hit_of, hits_of, there_of
from sim.constraints.contact.kinematics.spinning import predicted_of
from sim.constraints.contact.solids.carrying import carried_of
from sim.constraints.slots.linearization import (
    masses_of,
    motions_of,
    points_of,
    row_functions,
    rows_of,
    velocities_of,
)
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import abs, max, min, sqrt, static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.quaternion import quat_rotate, quat_rotate_inv
from sim.core.lang.library.vector import dot, length
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.launch.kernel import Kernel

RESTING = 2.0
"""Up to so many times the speed that gravity gives in a step an impact has no rebound, from twice that on its full."""

CARRIED = 0.1
"""Without gravity: of how the last step changed the velocity of one of both, see `carried_speed_of`."""

LATER, LATEST = -1e30, 8.0
"""What is open and stays so, as it is predicted, others may push in: one impact follows the other there, and a step
knows the first alone.  What may rebound is let through, C >= LATER [m], and hits as it is found inside by the next
step, as long ago as it is deep: impacts that follow each other do so at their own times, up to LATEST steps late.  What
is pressed out at once gives nothing back: of five balls that met at e = 1 a quarter of the energy was left."""

PASSES = 0.5
"""What is in a shape at the end of a step without forces, over what it would be as it approaches: less is no impact,
half of that not at all."""

STEEP = 6.0
"""How far what passes a face goes straight on, over how far it turns away: up to 4 by a parabola that does not come in.
What comes by more is hit, though it may be turned out by the end of the step; from twice this on, all of it."""

NOISE, LIES = 1e-3, 0.05
"""In parts of how far what rests may be: what comes into a shape by less than the first does not, whatever the sign of
a rounding error says; and what begins a step nearer than the second lies on it: of what has no corners it passes
nothing, however what slides along it turns."""

CORNER = 0.5
"""Cosine of the angle between faces with a corner that something leaves at once."""

AT_ONCE = 0.05
"""What hits a body by so many steps after its first impact does so with it.  Corners of a face do, and late in a step
some of them are only then to close, or what pushes others out takes them along: they answer the impact all the same."""

FAR = 3.0
"""What is open, and would close after so many further steps like this one, is far: it has no impact in this one."""


@func
def time_of_impact(start, end, faster):
    """The root s in [-LATEST, 1] of C(s), see above; start = C^-, end = C*, faster = a h^2.

    Where it begins inside the impact was before the step, which came along a line: it is as deep as it came since then,
    at no less than forces make it in half a step.  If it goes out first, the impact is when it comes back.
    1 where it does not reach 0: then others push it in, and it closes at the end of the step.
    """
    s, curve = 0.0 * start, 0.5 * faster
    slope = end - start - curve
    square = slope * slope - 4.0 * curve * start
    if start <= 0.0:
        if slope > 0.0 and curve < 0.0 and square > 0.0:
            s = min(-(slope + sqrt(square)) / (2.0 * curve), s + 1.0)
        else:
            comes = max(curve - slope, abs(curve))  # slope - curve: of the step before
            if comes > 0.0:
                s = max(start / comes, s - LATEST)
            elif start < 0.0:
                s = s - LATEST
    else:
        if end < 0.0:
            root = sqrt(square)
            if slope < 0.0:
                s = 2.0 * start / (root - slope)
            else:  # it still rises at first
                s = -(slope + root) / (2.0 * curve)
        else:
            s = s + 1.0
    return s


@func
def known_since(s):
    """Of a time of impact, or half a step before this one if it was earlier: so far back the acceleration of this step
    leads to the mean velocity of the one before, and no further."""
    return max(s, -0.5 + 0.0 * s)


@func
def approach_of(start, end, rate, dt):
    """Of the predicted step of C, see above: its acceleration a, the root s, and how fast it approaches zero there.

    rate: dC/dt of the velocities before the step.
    """
    mean = (end - start) / dt
    a = (mean - rate) / dt
    s = time_of_impact(start, end, a * (dt * dt))
    return a, s, -(mean + a * (known_since(s) - 0.5) * dt)


@func
def rebound_of(u, faster, gain, s, e):
    """dC/dt after an impact at s; u: that of the predicted step, as it ends; faster: what forces have added to it;
    gain: what they add afterwards too, without those that turn on its way what is held.

    Where C is linear, u = v* and faster = a h: -e v_c + a (1/2 - s) h.  What turns has another gradient as it hits, see
    `hitting`; impulses act along that one, and do no work in all if e = 1 for the velocities u along it.
    """
    return -e * (u + (known_since(s) - 0.5) * faster) - (s - 0.5) * gain


@func
def resting_speed(gravity, dt):
    return RESTING * length(gravity) * dt


@memoize
def carried_speed_of(slots: Slots) -> Function:
    """`carried_speed(velocity, last)` in a kernel: `resting_speed` without gravity, by how much the last step changed
    the velocity of what moves, which was not at rest before.

    A ball that flies into a free cloth is pressed by its threads, and both go on together: by the sign of a rounding
    error it hits or it rests, were all that approaches an impact, and what begins 1e-9 m beside it is 1e-4 m away soon.
    """
    n_particles = len(slots.particles)
    linear = [*range(n_particles), *(n_particles + 2 * g for g in range(len(slots.bodies)))]

    @func
    def carried_speed(velocity, last):
        speed = 0.0 * velocity[0][0]
        for i in static(linear):
            if dot(last[i], last[i]) > 0.0:
                speed = max(speed, static(CARRIED) * length(velocity[i] - last[i]))
        return speed

    return carried_speed


@func
def share_of_impact(approach, resting):
    """0 for what rests, as it approaches no faster than `resting`, 1 for an impact, from twice that on."""
    share = 0.0 * approach
    if approach > resting:
        share = share + 1.0
        if approach < 2.0 * resting:
            share = (approach - resting) / resting
    return share


@func
def hard_part(compliance, own, dt):
    """Of a contact with this compliance [m/N], of what gives way to it by own [1/kg]: 1 for what is as hard as a step
    can tell, 0 for a spring that swings for more than 2 pi steps; smooth between, and flat at both."""
    part, stiff = 0.0 * own, own * dt * dt
    if compliance < stiff:
        softer = compliance / stiff
        part = (1.0 - softer * softer) * (1.0 - softer * softer)
    return part


@func
def still_of(start, near):
    """1 where a contact began a step as `near` as what rests does, or inside, and 0 at twice that: then others have
    pushed it in, at once, and it does not press as hard again."""
    still = 0.0 * start
    if start <= near:
        still = still + 1.0
    elif start < 2.0 * near:
        still = 2.0 - start / near
    return still


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
    on_body = [g for g, own in enumerate(slots.bodies) if 1 in own]
    carried_speed = carried_speed_of(slots)
    at_once = crowded and not slots.particles
    carried, chosen, owners = carried_of(c, slots), chosen_of(c), tuple(own[0] for own in slots.bodies)
    cornered, there_at = c.frames == (0,) and n_particles + len(on_body) == 1, there_of(slots)
    passed_by = cornered or bool(slots.bodies)
    faces_turn, points_at = cornered and any(0 in own for own in slots.bodies), points_of(c, slots, real)
    point = 2 * on_body[0] if cornered and on_body else 0  # of the rows, that which moves beside the frame
    facing = point if cornered else n_particles  # a row of unit length, as long as there are bodies

    @func
    def from_face(n, x_1, x_0, poses, begun, v_0, placed_k, dt):
        """How far a point comes from a face without forces; n: its normal as the step begins, which turns with it."""
        at, there = there_at(x_1, x_0, poses, begun, v_0, real(1.0), dt)
        frame, place = points_at(x_0, begun, placed_k)
        frame_then, place_then = points_at(at, there, placed_k)
        then = quat_rotate(frame.q, quat_rotate_inv(frame_then.q, place_then - frame_then.p))
        return dot(n, then - (place - frame.p))

    @func
    def passing(start, rate, n, x_1, x_0, poses, begun, v_0, placed_k, data_k, resting, dt):
        """Whether what comes to a shape would not be in it at the end of a step without forces, but for how little
        rests, 0 ... 1, though it is seen to approach it: it passes a corner, as at the seam of two boxes, or what it is
        about to roll over: an edge beside a triangle, a place on a rim."""
        found, straight = real(0.0), start + dt * rate
        if static(faces_turn):
            if straight < 0.0:  # what rests on a face is not as deep as that would go straight on, and passes nothing
                straight = max(straight, start + from_face(n, x_1, x_0, poses, begun, v_0, placed_k, dt))
        if straight < 0.0:
            at, there = there_at(x_1, x_0, poses, begun, v_0, real(1.0), dt)
            end, near = gap(at, there, placed_k, data_k), resting * dt
            found = min(max(PASSES - end / straight, real(0.0)) / (0.5 * PASSES), real(1.0))
            if found > 0.0:  # then it turns away, from the same face or to another
                _, G_1 = rows_at(at, there, placed_k, data_k)
                if dot(n, G_1[0][facing]) > CORNER:
                    found *= min(max(2.0 + dt * rate / (STEEP * (end - straight)), real(0.0)), real(1.0))
            comes, least = -straight, static(NOISE) * near
            if static(not cornered):
                comes, least = start, static(LIES) * near
            if comes <= 0.0:
                found = real(0.0)
            elif comes < least:
                found *= comes / least
            least_in = near if cornered else real(0.0)  # what has no corners rolls over nothing that it comes into
            if end < -least_in:
                if end + least_in > -near:
                    found *= 1.0 + (end + least_in) / near
                else:  # near may be 0, without gravity
                    found = real(0.0)
        return found

    @func
    def at_corner(gap_1, x_1, x_0, poses, begun, p_k, b_k, of_p, moved, turns, moving, placed_k, data_k, dt):
        """Of what rests on a face: is another face nearer at the end of the step, whether that is before a corner
        without forces; for what part of the step it is past one, 0 where it is not; and C as if there were none."""
        v_0 = velocities(p_k, b_k, moving.v, moving.body_qd)
        at, there = there_at(x_1, x_0, poses, begun, v_0, real(1.0), dt)
        C_0, G_0 = rows_at(x_0, begun, placed_k, data_k)
        C_in, G_in = rows_at(at, there, placed_k, data_k)
        _, G_1 = rows_at(x_1, poses, placed_k, data_k)
        motion = motions(p_k, of_p, moving.x_ref, moved, turns)
        before, left, n = False, real(0.0), G_in[0][point]
        past, apart = C_in[0], product(G_in[0], v_0) * dt
        start = C_0[0] + product(G_0[0], motion)
        if past > 0.0 and apart > 0.0 and start < 0.0:  # also where the corner is round
            left = (1.0 + dot(G_0[0][point], n)) * past / apart
            if left >= 1.0 or past < 0.5 * left * left * -start:  # not, or it falls faster than the face goes back
                left = 0.0 * left
        if gap_1 < 0.0 and left == 0.0:
            before = dot(n, G_1[0][point]) < CORNER
        return before, left, start

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
                        C_0[0], rate, G_0[0][facing], x_1, x_0, poses, begun, v_0, placed_k, data_k, resting, dt
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
