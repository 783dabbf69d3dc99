"""How the movers of a contact answer to a force: alone, or as the mechanisms that hold them let them (`mobility`)."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.slots.linearization import row_functions
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector


@memoize
def answer_of(slots: Slots, real: Scalar, held: bool) -> tuple[Function, Function]:
    """Functions in a kernel: `answer(b_k, row, masses, inertias, moving)`, how a unit multiplier along a row moves the
    movers of a contact, as `response`, with what holds them; and `tell(b_k, row, motion, moving)`, which leaves to
    `pass_on` what has been done."""
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)
    _, response, _ = row_functions(slots)
    vec3, spatial = vector(3, real), vector(6, real)

    @func
    def wrench(row, g):
        f, t = row[n_particles + 2 * g], row[n_particles + 2 * g + 1]
        return spatial(f[0], f[1], f[2], t[0], t[1], t[2])

    @func
    def moved(g, b_k, row, alone, moving):
        at, there = b_k[g], moving.mechanism.tree[b_k[g]]
        d, t = alone[n_particles + 2 * g], alone[n_particles + 2 * g + 1]
        if there >= 0:
            total = spatial()
            for other in static(range(n_bodies)):
                if moving.mechanism.tree[b_k[other]] == there:
                    column = moving.mechanism.column[b_k[other]]
                    total += moving.mechanism.mobility[column + moving.mechanism.local[at]] @ wrench(row, static(other))
            d, t = vec3(total[0], total[1], total[2]), vec3(total[3], total[4], total[5])
        return d, t

    @func
    def answer(b_k, row, masses, inertias, moving):
        alone = response(row, masses, inertias)
        if static(not held):
            return alone
        on = [moved(static(g), b_k, row, alone, moving) for g in static(range(n_bodies))]
        return [alone[p] for p in static(range(n_particles))] + [on[k // 2][k % 2] for k in static(range(2 * n_bodies))]

    @func
    def tell(b_k, row, motion, moving):
        if static(held):
            for g in static(range(n_bodies)):
                if moving.mechanism.tree[b_k[g]] >= 0:
                    moving.wrench[b_k[g]] += wrench(row, static(g))
                    moving.told[b_k[g]] += wrench(motion, static(g))

    return answer, tell
