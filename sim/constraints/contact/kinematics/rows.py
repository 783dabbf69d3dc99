"""What sweeps over velocities need of contacts: found once in a step, when all positions are final.

A contact acts at one place along three directions, n and two across it, and a force d there is b_i d at point i (see
`geometry`).  So its rows are n, the arm of that place on each body, the shares b, and how easily all that moves:

    own = G W G^T      coupled = E W G^T (2,)      K = E W E^T (2, 2)

A sweep then takes one cross product for the velocity at each body and one for the torque on it.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass

from sim.constraints.base import Constraint
from sim.constraints.contact.kinematics.geometry import across, place_shares
from sim.constraints.contact.kinematics.hitting import two_sided
from sim.constraints.slots.linearization import row_functions
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.vector import cross, dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, Struct, array_type, matrix, vector


@memoize
def row_struct(real: Scalar) -> Struct:
    """Of each contact: vectors (n, ...) and numbers (n, ...), see `RowLayout`."""
    kinds = {"vectors": array_type(vector(3, real), 2), "numbers": array_type(real, 2)}
    return Struct("contact_rows", kinds)


@dataclass(frozen=True)
class RowLayout:
    """Where the rows of contacts of a set are.

    vectors: n, an arm for each point on a body that takes part, G over the movers where it is not one direction, how
    far the sides have come `apart` since the impact where there are two, and by how much each body is to turn to where
    it was hit (`spinning`).
    numbers: own, coupled (2), K (3), and the shares b; where the constraint says itself where it touches shares are
    known, and the last number is the size of the whole force.
    """

    c: Constraint
    slots: Slots

    @property
    def particles(self) -> int:
        """How many of them take part."""
        return len(self.slots.particles)

    @property
    def known(self) -> tuple[float, ...] | None:
        """The shares of all points on bodies, where they are numbers."""
        return None if self.c.place is None else place_shares(self.c, self.slots)

    @property
    def arms(self) -> tuple[tuple[int, int], ...]:
        """Of each arm: its number among all points on bodies, and the body."""
        owners, known = [g for g, own in enumerate(self.slots.bodies) for _ in own], self.known
        return tuple((i, g) for i, g in enumerate(owners) if known is None or known[i] != 0.0)

    @property
    def one_direction(self) -> bool:
        """Are the gradients of C at all points along one direction, whatever C is?  Of one point, of two that push
        each other, and where there is a place of contact."""
        c = self.c
        return c.place is not None or c.points == 1 or bool(c.frames) or (c.points == 2 and c.internal)

    @property
    def shape(self) -> tuple[int, int]:
        """How many vectors and numbers a contact has."""
        gradient = 0 if self.one_direction else self.particles + 2 * len(self.slots.bodies)
        shares = 1 if self.known is not None else self.particles + len(self.arms)
        return 1 + len(self.arms) + gradient + two_sided(self.slots) + len(self.slots.bodies), 6 + shares

    @property
    def turns(self) -> int:
        """The first of the vectors of turns; `apart` is before them."""
        return self.shape[0] - len(self.slots.bodies)


@memoize
def inertias_of(slots: Slots) -> Function:
    """`masses(p_k, b_k, moving)` in a kernel: see `masses_of`, as a step ends."""
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)

    @func
    def masses(p_k, b_k, moving):
        inverse = [moving.w[p_k[p]] for p in static(range(n_particles))]
        inverse = inverse + [moving.bodies.inv_mass[b_k[g]] for g in static(range(n_bodies))]
        return inverse, [moving.inertia[b_k[g]] for g in static(range(n_bodies))]

    return masses


@memoize
def spread_of(c: Constraint, slots: Slots) -> Function:
    """`spread(force, share, arms)` in a kernel: a force (3,) at the place of contact over the movers; share of each
    particle, and arms, of each that takes part, (b, arm)."""
    layout, n_bodies = RowLayout(c, slots), len(slots.bodies)
    of_body = tuple(tuple(a for a, (_, g) in enumerate(layout.arms) if g == body) for body in range(n_bodies))

    @func
    def on_body(g, force, arms):
        parts = [arms[a][0] * force for a in static(of_body[g])]
        turning = [cross(arms[a][1], arms[a][0] * force) for a in static(of_body[g])]
        return sum(parts), sum(turning)

    @func
    def spread(force, share, arms):
        on = [on_body(static(g), force, arms) for g in static(range(n_bodies))]
        return [share[p] * force for p in static(range(layout.particles))] + [
            on[k // 2][k % 2] for k in static(range(2 * n_bodies))
        ]

    return spread


@memoize
def rate_of(c: Constraint, slots: Slots) -> Function:
    """`rate(n, share, arms, velocity)` in a kernel: the velocity between the places that touch, along n too, with what
    `spread` takes and `velocities_of` gives."""
    layout = RowLayout(c, slots)
    owners, count = tuple(g for _, g in layout.arms), layout.particles

    @func
    def rate(n, share, arms, velocity):
        total = 0.0 * n
        for p in static(range(count)):
            total += share[p] * velocity[p]
        for a in static(range(len(owners))):
            at = count + 2 * owners[a]
            total += arms[a][0] * (velocity[at] + cross(velocity[at + 1], arms[a][1]))
        return total

    return rate


@memoize
def place_of(c: Constraint, slots: Slots, real: Scalar) -> Function:
    """`place(k, rows, G, n, share, arms)` in a kernel: writes of the rows of contact k where it touches; `contact_of`
    says what they are."""
    layout = RowLayout(c, slots)
    known, acting, n_particles = layout.known, layout.arms, layout.particles
    n_arms, size = len(acting), n_particles + 2 * len(slots.bodies)

    @func
    def place(k, rows, G, n, share, arms):
        rows.vectors[k, 0] = n
        for a in static(range(n_arms)):
            rows.vectors[k, 1 + a] = arms[acting[a][0]][1]
        if not layout.one_direction:
            for i in static(range(size)):
                rows.vectors[k, 1 + n_arms + i] = G[i]
        if static(known is not None):
            rows.numbers[k, 6] = arms[acting[0][0]][0] * dot(G[n_particles + 2 * acting[0][1]], n)
        else:
            for p in static(range(n_particles)):
                rows.numbers[k, 6 + p] = share[p]
            for a in static(range(n_arms)):
                rows.numbers[k, 6 + n_particles + a] = arms[acting[a][0]][0]

    return place


@memoize
def keep_of(c: Constraint, slots: Slots, real: Scalar) -> Function:
    """`keep(k, rows, G, n, share, arms, apart, masses, inertias)` in a kernel: writes the rows of contact k."""
    layout, (_, response, product) = RowLayout(c, slots), row_functions(slots)
    spread, place, acting = spread_of(c, slots), place_of(c, slots, real), layout.arms
    pair, last = two_sided(slots), layout.turns - 1

    @func
    def keep(k, rows, G, n, share, arms, apart, masses, inertias):
        T, on = across(n), [arms[acting[a][0]] for a in static(range(len(acting)))]
        E = [spread(T[side], share, on) for side in static(range(2))]
        M = response(G, masses, inertias)
        M_0, M_1 = response(E[0], masses, inertias), response(E[1], masses, inertias)
        place(k, rows, G, n, share, arms)
        if static(pair):
            rows.vectors[k, last] = apart
        rows.numbers[k, 0] = product(G, M)
        rows.numbers[k, 1], rows.numbers[k, 2] = product(E[0], M), product(E[1], M)
        rows.numbers[k, 3], rows.numbers[k, 4] = product(E[0], M_0), product(E[0], M_1)
        rows.numbers[k, 5] = product(E[1], M_1)

    return keep


@memoize
def placed_of(c: Constraint, slots: Slots, real: Scalar) -> Function:
    """`placed(k, rows)` in a kernel, of contact k: n, share and arms."""
    layout, known, n_arms = RowLayout(c, slots), RowLayout(c, slots).known, len(RowLayout(c, slots).arms)
    acting, n_particles = layout.arms, layout.particles

    @func
    def share_of(k, a, rows):
        if static(known is None):
            return rows.numbers[k, 6 + n_particles + a]
        return real(known[acting[a][0]])

    @func
    def placed(k, rows):
        share = [rows.numbers[k, 6 + p] for p in static(range(n_particles if known is None else 0))]
        arms = [(share_of(k, static(a), rows), rows.vectors[k, 1 + a]) for a in static(range(n_arms))]
        return rows.vectors[k, 0], share, arms

    return placed


@memoize
def kept_of(c: Constraint, slots: Slots, real: Scalar) -> Function:
    """`kept(k, rows)` in a kernel, of contact k: n, share, arms; own, coupled and K."""
    placed, vec2, mat22 = placed_of(c, slots, real), vector(2, real), matrix((2, 2), real)

    @func
    def kept(k, rows):
        n, share, arms = placed(k, rows)
        coupled, mixed = vec2(rows.numbers[k, 1], rows.numbers[k, 2]), rows.numbers[k, 4]
        K = mat22(rows.numbers[k, 3], mixed, mixed, rows.numbers[k, 5])
        return n, share, arms, rows.numbers[k, 0], coupled, K

    return kept


@memoize
def normal_of(c: Constraint, slots: Slots, real: Scalar) -> tuple[Function, Function, Function]:
    """Functions of the normal row of contact k in a kernel: its gradient `G(k, rows, n, share, arms)` over the movers;
    `rate_along(k, rows, n, velocity, between)`, dC/dt where that is the velocity between the places; and
    `force(k, rows, n, share, arms, dlam, along)`, dlam times G and a force (3,) across n, over the movers."""
    layout, spread = RowLayout(c, slots), spread_of(c, slots)
    known, n_arms, one_direction = layout.known, len(layout.arms), layout.one_direction
    size = layout.particles + 2 * len(slots.bodies)

    @func
    def pull(k, rows, n):
        if static(known is not None):
            return rows.numbers[k, 6] * n
        return n

    @func
    def G(k, rows, n, share, arms):
        if one_direction:
            return spread(pull(k, rows, n), share, arms)
        return [rows.vectors[k, 1 + n_arms + i] for i in static(range(size))]

    @func
    def rate_along(k, rows, n, velocity, between):
        if one_direction:
            return dot(pull(k, rows, n), between)
        return sum([dot(rows.vectors[k, 1 + n_arms + i], velocity[i]) for i in static(range(size))])

    @func
    def force(k, rows, n, share, arms, dlam, along):
        if one_direction:
            return spread(dlam * pull(k, rows, n) + along, share, arms)
        besides = spread(along, share, arms)
        return [dlam * rows.vectors[k, 1 + n_arms + i] + besides[i] for i in static(range(size))]

    return G, rate_along, force
