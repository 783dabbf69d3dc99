"""The contacts of near pairs that a step is about, listed by colours: which of them do not push the same body.

Of the rows of a pair most are open: nothing was chosen for them.  The others are listed once in a step, and what is
known of them is brought together in the order of the list: that is all that sweeps read.  The contacts of each pair in
turn have the first colours, one after the other, that neither of its bodies has yet; what finds none is left over, and
comes last.  With colours here and there, as they are free, a pyramid of 200 boxes was pressed together a quarter more.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.kernels.forms import chosen_of
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, Type
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel

BITS = 31
"""Colours for which an int32 says whether a body has them."""


@memoize
def make_listing(c: Constraint, slots: Slots, real: Scalar, lane: int) -> Kernel:
    """The list of a set.  order: the rows that were chosen, by colours; offsets (colors + 2,): where each begins, and
    what is left over; count (1,): how many there are; left_over (1,): the most so far; place: where each row is in the
    list, -1 if it is not.  busy (bodies, words): scratch.

    alone: bodies that are held have colours too, so that no two of a colour stand on the same one.
    """
    Data, live, owners = parameter_struct(c, real), chosen_of(c), tuple(own[0] for own in slots.bodies)
    one, other = owners[0], owners[-1]

    @func
    def takes(body: int, alone: int, inv_mass):
        """A body, -1 where it does not matter who else is on it."""
        if alone == 0 and inv_mass[body] <= 0.0:
            body = -1
        return body

    @func
    def has(busy, body: int, color: int):
        found = 0
        if body >= 0:
            found = (busy[body, color // static(BITS)] >> (color % static(BITS))) & 1
        return found

    @func
    def take(busy, body: int, color: int):
        if body >= 0:
            word = color // static(BITS)
            busy[body, word] = busy[body, word] | (1 << (color % static(BITS)))

    @kernel(name=f"list_{c.name}_{slots.kinds}")
    def list_chosen(
        alone: int,
        lanes: array[int],
        points: array2d[int],
        data: Data,
        inv_mass: array[real],
        busy: array2d[int],
        offsets: array[int],
        order: array[int],
        place: array[int],
        count: array[int],
        left_over: array[int],
    ):
        colors = offsets.shape[0] - 2
        for i in range(busy.shape[0]):
            for word in range(busy.shape[1]):
                busy[i, word] = 0
        for i in range(offsets.shape[0]):
            offsets[i] = 0
        for e in range(lanes[0]):
            a = takes(points[e * lane, static(one)], alone, inv_mass)
            b = takes(points[e * lane, static(other)], alone, inv_mass)
            size = 0
            for k in range(e * lane, (e + 1) * lane):
                if live(data, k):
                    size += 1
            at, free = 0, 0  # the first colours that follow each other and neither body has
            while at < colors and free < size:
                free += 1
                if (has(busy, a, at) | has(busy, b, at)) == 1:
                    free = 0
                at += 1
            at -= free
            if free < size:
                at = colors
            for k in range(e * lane, (e + 1) * lane):
                place[k] = -1
                if live(data, k):
                    if at < colors:
                        take(busy, a, at)
                        take(busy, b, at)
                    place[k] = at
                    offsets[at + 1] = offsets[at + 1] + 1
                    at = min(at + 1, colors)
        left_over[0] = max(left_over[0], offsets[colors + 1])
        for i in range(colors + 1):
            offsets[i + 1] = offsets[i + 1] + offsets[i]
        count[0] = offsets[colors + 1]
        for k in range(lanes[0] * lane):  # offsets[c] goes on to where the next colour begins
            if place[k] >= 0:
                at = offsets[place[k]]
                offsets[place[k]] = at + 1
                order[at], place[k] = k, at
        for i in range(colors + 1):
            offsets[colors + 1 - i] = offsets[colors - i]
        offsets[0] = 0

    list_chosen.race_free = True  # one thread
    return list_chosen


@memoize
def make_pick(kind: Type) -> Kernel:
    """What is known of rows, to where they are in the list."""

    @kernel
    def pick(offsets: array[int], order: array[int], rows: array[kind], out: array[kind]):
        if tid() < offsets[offsets.shape[0] - 1]:
            out[tid()] = rows[order[tid()]]

    pick.race_free, pick.exclusive = True, frozenset({"rows"})  # each row is in the list once
    return pick


@kernel
def pick_points(offsets: array[int], order: array[int], rows: array2d[int], out: array2d[int]):
    """The same of the bodies that they are on."""
    if tid() < offsets[offsets.shape[0] - 1]:
        for j in range(rows.shape[1]):
            out[tid(), j] = rows[order[tid()], j]
