"""How several contacts share what they press one body, or two, with: as pressure does that is linear over a face.

Four corners of a face have three rows: what two corners across from each other press more and the other two less moves
nothing.  Sweeps leave of it what their order leads to, the next step goes on from there, and friction differs by it
where corners have another coefficient, or slide another way.  So of all normal multipliers that move the body as those
that sweeps have found the least are taken, those of equal small compliances,

    minimise sum_k lambda_k^2 / 2    with    sum_k lambda_k G_k = w,    lambda_k >= 0

which is lambda = max(G y, 0), with y from as many equations as w has.  Which of them press is found first, whole
numbers, by Newton's method on y; the rest is linear in w.  Nothing moves by it: positions are final then, and friction
is found anew with the velocities.

A step in which something hits is left as it is (see `at_once`), and so is what gives way by as much as a step can tell
(`hard_part`).
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass

from sim.constraints.base import Constraint
from sim.constraints.contact.impacts.shares import hard_part
from sim.constraints.contact.kernels.forms import contact_struct
from sim.constraints.contact.kinematics.rows import kept_of, normal_of, placed_of
from sim.constraints.projection import solve
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import abs, max, min, static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import dot, outer
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, float32, matrix, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel, kernel

LEAST = 3
"""So many contacts of a pair have to press: two do so in one way."""
ROUNDS = 8
"""Of Newton's method, for which of them press.  It ends where that stays as it was, mostly after the first."""


@dataclass(frozen=True)
class SharingKernels:
    """Over groups of contacts, `begin` to `end` of offset (groups + 1,): `choose` finds which press, `share` by how
    much."""

    choose: Kernel
    share: Kernel


@memoize
def make_loads(c: Constraint, slots: Slots, real: Scalar, late: bool) -> tuple[Kernel, Kernel]:
    """Over the contacts `tid()` of a set, with the seat of each in its group, -1 without one: takes its row G over the
    body `side`, what is shared, and the part of it that rests, or minus that which hits; and puts back what has become
    of it.  late: the same between sweeps over velocities, of what these have found by then; rows and parts are known.
    """
    n_bodies, spatial, Contacts = len(slots.bodies), vector(6, real), contact_struct(c, slots, real)
    placed, kept, (gradient, _, _) = placed_of(c, slots, real), kept_of(c, slots, real), normal_of(c, slots, real)

    @func
    def row_of(k, side, contacts):
        n, share, arms = placed(k, contacts.rows)
        G, row = gradient(k, contacts.rows, n, share, arms), spatial()
        for g in static(range(n_bodies)):
            if side == g:
                d, turned = G[2 * g], G[2 * g + 1]
                row = spatial(d[0], d[1], d[2], turned[0], turned[1], turned[2])
        return row

    @kernel(name=f"take_load_{c.name}_{slots.kinds}_{late}")
    def take(
        seats: array[int],
        side: array[int],
        contacts: Contacts,
        dt: real,
        row: array[spatial],
        load: array[real],
        part: array[real],
    ):
        k = tid()
        at = seats[k]
        if at >= 0:
            if static(late):
                load[at] = contacts.multiplier[k] + contacts.late[k] - contacts.cut[k][0]
            else:
                way, force, rests, hard = spatial(), real(0.0), -contacts.impacts.share[k], real(1.0)
                if contacts.compliance[k] > 0.0:
                    _, _, _, own, _, _ = kept(k, contacts.rows)
                    hard = hard_part(contacts.compliance[k], own, dt)
                pushes = contacts.multiplier[k] > 0.0 or contacts.cut[k][0] > 0.0
                if pushes and hard > 0.0 and rests == 0.0 and contacts.impacts.rests[k] > 0.0:
                    # What a contact gives before an impact in any case stays.
                    force, rests = contacts.multiplier[k] - contacts.cut[k][0], hard * contacts.impacts.rests[k]
                    way = row_of(k, side[k], contacts)
                row[at], load[at], part[at] = way, force, rests

    @kernel(name=f"put_load_{c.name}_{slots.kinds}_{late}")
    def put(seats: array[int], contacts: Contacts, part: array[real], shared: array[real]):
        k = tid()
        at = seats[k]
        if at >= 0:
            if part[at] > 0.0:
                given = contacts.cut[k][0] + shared[at] - contacts.multiplier[k]
                if static(late):
                    contacts.late[k] += part[at] * (given - contacts.late[k])
                else:
                    contacts.multiplier[k] += part[at] * given

    take.race_free = put.race_free = True  # each contact is its own
    return take, put


@memoize
def sharing_kernels(real: Scalar) -> SharingKernels:
    """See there; row, load and part are those of `make_loads`, by seats; takes: which press; shares: of each group 0
    where nothing is to be shared, as there are too few of them."""
    vec3, spatial, mat66 = vector(3, real), vector(6, real), matrix((6, 6), real)
    tiny = 1e-6 if real is float32 else 1e-12  # of the squares of all rows: what is less is rounding
    none = 1e-5 if real is float32 else 1e-10

    @func
    def pressure(begin, end, row, load, part, takes):
        """y with sum_k part_k G_k max(G_k y, 0) = sum_k part_k load_k G_k, over those that press."""
        M, w = mat66(), spatial()
        for m in range(begin, end):
            if part[m] > 0.0:
                w += (part[m] * load[m]) * row[m]
                if takes[m] > 0:
                    M += outer(part[m] * row[m], row[m])
        pushing, turning, A = M[0, 0] + M[1, 1] + M[2, 2], M[3, 3] + M[4, 4] + M[5, 5], M
        for i in static(range(3)):  # what no contact moves
            A[i, i] += static(tiny) * pushing
            A[3 + i, 3 + i] += static(tiny) * (turning + static(tiny) * pushing)
        return solve(A, w)

    @func
    def carried(begin, end, row, load, part, takes, y, whole):
        """Is all that they load carried by what presses?  As sweeps go on some pull, and it cannot always be."""
        left, pushing, turning = spatial(), real(0.0), real(0.0)
        for m in range(begin, end):
            if part[m] > 0.0:
                force, turned = vec3(row[m][0], row[m][1], row[m][2]), vec3(row[m][3], row[m][4], row[m][5])
                pushing, turning = pushing + dot(force, force), turning + dot(turned, turned)
                left += (part[m] * load[m]) * row[m]
                if takes[m] > 0:
                    left -= (part[m] * dot(row[m], y)) * row[m]
        force, turned = vec3(left[0], left[1], left[2]), vec3(left[3], left[4], left[5])
        beyond = dot(force, force) * turning + dot(turned, turned) * pushing
        return beyond <= static(tiny) * whole * whole * turning

    @kernel
    def choose(
        offset: array[int],
        row: array[spatial],
        load: array[real],
        part: array[real],
        takes: array[int],
        shares: array[int],
    ):
        g = tid()
        begin, end = offset[g], offset[g + 1]
        count, whole = 0, real(0.0)
        for m in range(begin, end):
            takes[m] = 0
            if part[m] > 0.0:
                takes[m] = 1
                count += 1
                whole += abs(load[m])
        shares[g] = 0
        going = count >= static(LEAST)
        for _ in range(static(ROUNDS)):
            if going:
                y = pressure(begin, end, row, load, part, takes)
                going = False
                for m in range(begin, end):
                    if part[m] > 0.0:
                        presses, now = dot(row[m], y), takes[m]
                        if presses > static(none) * whole:
                            now = 1
                        elif presses < -static(none) * whole:
                            now = 0
                        if now != takes[m]:
                            takes[m] = now
                            going = True
                if not going and carried(begin, end, row, load, part, takes, y, whole):
                    shares[g] = 1

    @kernel
    def share(
        offset: array[int],
        row: array[spatial],
        load: array[real],
        part: array[real],
        takes: array[int],
        shares: array[int],
        shared: array[real],
    ):
        g = tid()
        begin, end = offset[g], offset[g + 1]
        y, least, whole, calm, fits = spatial(), real(0.0), real(0.0), True, False
        if shares[g] > 0:
            y = pressure(begin, end, row, load, part, takes)
            for m in range(begin, end):
                calm = calm and part[m] >= 0.0
                if takes[m] > 0:
                    least, whole = min(least, dot(row[m], y)), whole + abs(load[m])
            fits = calm and least >= -static(none) * whole
        for m in range(begin, end):
            given = load[m]
            if fits:
                given = real(0.0)
                if takes[m] > 0:
                    given = max(dot(row[m], y), given)
            shared[m] = given

    choose.race_free = share.race_free = True  # each contact is in one group
    return SharingKernels(choose, share)
