"""Limits of joints in an impact: what they move, and whether they are reached in the same step."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.contact.impulses.held import HeldLayout, held_row_struct
from sim.constraints.slots.linearization import row_functions
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel, kernel

OPEN = 0.01
"""What a limit was open by, over how far it pushes back what comes through it, from which on it counts as reached in
that step: what was less is closed as the step begins."""


@memoize
def make_relieved(joint: HeldLayout, real: Scalar) -> Kernel:
    """What a unit impulse of limits moves, with what their joints, of numbers joints[tid()] (-1: none), answer to it:

        M = W D^T - W J^T (J W J^T)^-1 J W D^T

    J being the rows of the joint.  Else both push each other, and each sweep leaves four fifths of it at a door.
    """
    Rows, m, q = held_row_struct(real), len(joint.active), joint.movers
    (_, _, product) = row_functions(joint.slots)

    @kernel(name=f"relieve_{joint.c.name}_{joint.slots.kinds}")
    def relieve(joints: array[int], of: Rows, rows: Rows):
        k = tid()
        j = joints[k]
        if j >= 0:
            G = [rows.vectors[k, a] for a in static(range(q))]
            M = [rows.vectors[k, q + a] for a in static(range(q))]
            b = [product([of.vectors[j, i * q + a] for a in static(range(q))], M) for i in static(range(m))]
            for i in static(range(m)):
                p = real(0.0)
                for n in static(range(m)):
                    p += of.numbers[j, i * m + n] * b[n]
                for a in static(range(q)):
                    rows.vectors[k, q + a] -= p * of.vectors[j, (m + i) * q + a]
            own = product(G, [rows.vectors[k, q + a] for a in static(range(q))]) + rows.numbers[k, 2]
            if own > 0.0:
                rows.numbers[k, 0] = 1.0 / own

    relieve.race_free = True  # a limit writes what is its own
    return relieve


@memoize
def make_reached(real: Scalar) -> Kernel:
    """In which mechanisms limit tid() is reached in a step: it was open by `begun` before, and pushes."""
    Rows = held_row_struct(real)

    @kernel
    def reached(multiplier: array[real], rows: Rows, begun: array[real], mechanism: array[int], found: array[int]):
        k = tid()
        if multiplier[k] > 0.0 and begun[k] * rows.numbers[k, 0] > static(OPEN) * multiplier[k]:
            found[mechanism[k]] = 1

    reached.race_free = True  # all of them write the same
    return reached
