"""Contacts of bodies from step to step: what rests begins with the normal force that it ended the last with.

What is predicted without forces falls, and contacts push it up one after the other: a box on four corners is turned to
and fro, and creeps.  With them, what rests stays where it is, and projections only correct (a warm start, as in E.
Catto, "Iterative Dynamics with Temporal Coherence", GDC 2005).  The forces are part of the state, and of its gradient.
Friction begins anew in each step: from where it ended, stacks sway.

A tenth of that force is its average over many steps.  All of the last one would add up what pushes things out of each
other: sweeps that find little of a slow motion in a step, as of a tower that leans, bring it back late, and it grows.
Without that tenth, what it held sinks in until other forces hold it, by 1 / (sweeps x rate^2), and a pile creeps.  An
average over averages lags by nearly half a turn behind what sways, which makes that only a little slower; a plain one,
by a quarter, pushes it on.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.kernels.forms import Form, alike, every, sides_of
from sim.constraints.contact.kinematics.geometry import contact_of, slip_of
from sim.constraints.contact.laws.friction import unturned
from sim.constraints.contact.laws.restitution import Restitution
from sim.constraints.contact.positions.projection import push_of
from sim.constraints.slots.linearization import masses_of, row_functions
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import max, min, static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.static import scalar_type
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel, kernel

KEPT = 0.9
"""The part of a force that is that of the last step, where what is wrong in it fades; the rest is its average."""
AVERAGED = 300
"""Over so many steps, once and again.  Over 200 a tower of 20 boxes (four sweeps, 600 Hz) sways and falls in 20 s; over
300, and with nothing in the place of the average, it stands."""
FADED = 1e-9
"""A force of less than this part of its average is none: where a corner is nearest to the edge of two triangles, both
contacts are the same, the first holds it all, and what the second has is the rounding of zero, positive or not."""
STILL_NEAR = 4.0
"""A contact begins a step without force where it has opened by more than so many times what that force would move it
by: a length that goes with the size of things, their weight and the step."""


@func
def average(before, force):
    """A force averaged once, and the average of that, (2,) [N], a step later; 0 where it fades, as after an impact."""
    once = before[0] + (force - before[0]) / static(AVERAGED)
    found = vector(2, scalar_type(force))(once, before[1] + (once - before[1]) / static(AVERAGED))
    if force <= static(FADED) * before[0]:
        found *= 0.0
    return found


@func
def _presses(contacts, k: int):
    return contacts.pressed[k] > 0.0


@memoize
def make_contact_start(c: Constraint, slots: Slots, real: Scalar, restitution: Restitution, form: Form) -> Kernel:
    """The multipliers with which contacts begin a step: of the normal forces `pressed` [N] with which the last one
    ended, and their averages, which move what was predicted without them.  In lanes, multipliers that have none are
    zero already."""
    vec3 = vector(3, real)
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)
    size = n_particles + 2 * n_bodies
    sides, masses_at, push = sides_of(slots, real), masses_of(slots), push_of(slots, real, restitution)
    contact, (_, response, product) = contact_of(c, slots, real), row_functions(slots)

    @func
    def one(k, contacts, moving, dt):
        lam = real(0.0)
        # where it pushes along a face behind a corner that it passes
        corner = max(contacts.impacts.hits[k] - contacts.impacts.share[k], real(0.0))
        if contacts.pressed[k] > 0.0 and corner < 1.0:
            (p_k, b_k, _, _, moved, turns, poses), x_p, since, placed_k, data_k = sides(k, contacts, moving)
            masses, inertias = masses_at(p_k, b_k, poses, moving.w, moving.bodies)
            C, G, _, _, _, share, _ = contact(x_p, poses, placed_k, data_k)
            lasts = KEPT * contacts.pressed[k] + static(1.0 - KEPT) * contacts.averaged[k][1]
            given = (1.0 - corner) * (dt * dt) * lasts
            if C[0] < STILL_NEAR * given * product(G, response(G, masses, inertias)):
                lam = given
                force = [lam * G[i] for i in static(range(size))]
                counts = contacts.impacts.rebound[k] > 0.0
                here_p = [0.0 * since[p] for p in static(range(n_particles))]
                here_b = [0.0 * moved[g] for g in static(range(n_bodies))]
                push(
                    p_k, b_k, force, masses, inertias, share, contacts.impacts.carried[k], since, moved, turns, poses,
                    here_p, here_b, moving, dt, counts,
                )  # fmt: skip
        contacts.multiplier[k], contacts.along[k] = lam, vec3()

    return alike(form.kernel("start", one, _presses, c, slots, real), form)


@memoize
def make_slid(c: Constraint, slots: Slots, real: Scalar, form: Form) -> Kernel:
    """What contacts have slid [m] at the end of a step though friction would have held them: the error of the sweeps,
    which the next step takes back.

    It fades towards the edge of the cone, as 1 - |lambda_t|^2 / (mu lambda_n)^2, and towards impacts: what slides does
    so for good, and nothing jumps where it begins to.
    """
    vec3 = vector(3, real)
    sides, contact, slip = sides_of(slots, real), contact_of(c, slots, real), slip_of(slots)

    @func
    def one(k, contacts, moving, dt):
        u, surface = vec3(), contacts.surface
        most = 0.5 * (surface.friction[k] + surface.other_friction[k]) * (contacts.multiplier[k] + contacts.late[k])
        along = contacts.along[k] - most * contacts.turned[k]
        most *= unturned(contacts.turned[k])
        pulled = dot(along, along)
        if pulled < most * most:
            (_, _, _, _, moved, turns, poses), x_p, since, placed_k, data_k = sides(k, contacts, moving)
            _, _, n, _, _, share, arms = contact(x_p, poses, placed_k, data_k)
            u = slip(n, share, arms, since, moved, turns) - contacts.impacts.before[k]
            u *= contacts.impacts.rests[k] * (1.0 - pulled / (most * most))
        contacts.slid[k] = u

    return alike(form.kernel("slid", one, every, c, slots, real), form)


@memoize
def make_contact_end(real: Scalar) -> Kernel:
    """The forces `pressed` [N] of contacts `tid()` at the end of a step, where they rest: an impact presses once."""

    @kernel
    def end(multiplier: array[real], late: array[real], rests: array[real], dt: real, pressed: array[real]):
        k = tid()
        pressed[k] = rests[k] * (multiplier[k] + late[k]) / (dt * dt)

    return end


@func
def _lasts(multiplier, late, along, cut, rubbed, rests, dt):
    """Normal force and friction with which a contact ends a step: what there is after an impact that parts it."""
    part, pulls = rests / (dt * dt), along
    if cut[0] > 0.0:
        pulls -= rubbed
    return part * max(multiplier + late - cut[0], 0.0 * part), part * pulls


@memoize
def make_parted_end(real: Scalar) -> Kernel:
    """The same, and those of friction, `pulled` [N], where impacts part steps: what there is after one."""
    vec2, vec3 = vector(2, real), vector(3, real)

    @kernel
    def end(
        multiplier: array[real],
        late: array[real],
        along: array[vec3],
        cut: array[vec2],
        rubbed: array[vec3],
        rests: array[real],
        dt: real,
        pressed: array[real],
        pulled: array[vec3],
    ):
        k = tid()
        pressed[k], pulled[k] = _lasts(multiplier[k], late[k], along[k], cut[k], rubbed[k], rests[k], dt)

    return end


@memoize
def make_averaged(real: Scalar) -> Kernel:
    """The averages of the forces `pressed` [N] of contacts `tid()`, from those of the step before."""
    vec2 = vector(2, real)

    @kernel
    def average_forces(pressed: array[real], before: array[vec2], averaged: array[vec2]):
        averaged[tid()] = average(before[tid()], pressed[tid()])

    return average_forces


@memoize
def make_recall(real: Scalar) -> Kernel:
    """The forces `pressed` and `pulled`, averages and slips `slid` of contacts `tid()` of the list, by where the key of
    their pair stands among those of the state before: 0 where it was not near then.  order: their rows, of `lane` each.
    """
    vec2, vec3 = vector(2, real), vector(3, real)

    @kernel
    def recall(
        lane: int,
        offsets: array[int],
        order: array[int],
        key: array[int],
        keys: array[int],
        before: array[real],
        averaged_before: array[vec2],
        slid_before: array[vec3],
        pulled_before: array[vec3],
        pressed: array[real],
        averaged: array[vec2],
        slid: array[vec3],
        pulled: array[vec3],
    ):
        if tid() < offsets[offsets.shape[0] - 1]:
            e = order[tid()] // lane
            low, high = 0, keys.shape[0]
            if keys[e] == key[e]:  # as often, where the same pairs are near
                low, high = e, e
            while low < high:
                middle = (low + high) // 2
                if keys[middle] < key[e]:
                    low = middle + 1
                else:
                    high = middle
            at = min(low, keys.shape[0] - 1)
            known = at * lane + order[tid()] % lane
            force, slow, slips, pulls = real(0.0), vec2(), vec3(), vec3()
            if keys[at] == key[e]:
                force, slow = before[known], averaged_before[known]
                slips, pulls = slid_before[known], pulled_before[known]
            pressed[tid()], averaged[tid()], slid[tid()], pulled[tid()] = force, slow, slips, pulls

    own = ("before", "averaged_before", "slid_before", "pulled_before")
    recall.race_free, recall.exclusive = True, frozenset(own)
    return recall


@memoize
def make_keep(real: Scalar) -> Kernel:
    """The forces of rows `tid()` of near pairs at the end of a step, where they rest: what there is after an impact
    that parts it; 0 of what is not in the list.  averaged: as the step began, of what is in it."""
    vec2, vec3 = vector(2, real), vector(3, real)

    @kernel
    def keep(
        lane: int,
        lanes: array[int],
        place: array[int],
        multiplier: array[real],
        late: array[real],
        along: array[vec3],
        cut: array[vec2],
        rubbed: array[vec3],
        rests: array[real],
        dt: real,
        averaged: array[vec2],
        slid: array[vec3],
        pressed: array[real],
        averaged_after: array[vec2],
        slid_after: array[vec3],
        pulled: array[vec3],
    ):
        if tid() < lanes[0] * lane:
            k = place[tid()]
            force, slow, slips, rubs = real(0.0), vec2(), vec3(), vec3()
            if k >= 0:
                slips = slid[k]
                if multiplier[k] > 0.0 or cut[k][0] > 0.0:
                    force, rubs = _lasts(multiplier[k], late[k], along[k], cut[k], rubbed[k], rests[k], dt)
                slow = average(averaged[k], force)
            pressed[tid()], averaged_after[tid()], slid_after[tid()], pulled[tid()] = force, slow, slips, rubs

    own = ("multiplier", "late", "along", "cut", "rubbed", "rests", "averaged", "slid")
    keep.race_free, keep.exclusive = True, frozenset(own)  # each is in the list once
    return keep
