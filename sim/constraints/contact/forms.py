"""The kernels of contacts, made of what happens to one: what all of them read and write, and how a launch goes over it.

A kernel is a function `one(k, contacts, moving, dt)` of the language, of contact k.  Its form says which contacts the
threads of a launch take: side by side, or in *lanes*, the contacts of two bodies that are near each other, of a number
that is the same for all pairs of a set.  Lanes of a colour c, lanes[c] to before lanes[c + 1], share no free body.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass
from typing import ClassVar

from sim.constraints.base import Constraint
from sim.constraints.contact.impulses.rows import row_struct
from sim.constraints.contact.surface import impact_struct, surface_struct
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import body_struct, slot_struct
from sim.constraints.slots.linearization import movers_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import min, static, tid
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, Struct, array_type, int32, matrix, quaternion, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel, kernel


@memoize
def contact_struct(c: Constraint, slots: Slots, real: Scalar) -> Struct:
    """Of the contacts of a set, an array each, or a struct of arrays:

    points, placing, data, surface, compliance: as declared, or of the pairs that are near in a step
    impacts:         see `impact_struct`
    pressed, slid:   normal forces [N] and slips (3,) [m] that a step begins with, or ends with
    pulled:          and forces of friction (3,) [N]
    multiplier:      of the positions, normal; along: (3,) of friction; late: of the velocities, and until
                     then how far [m] a first guess is to lead, see `at_once`
    turned:          (3,) friction, over its bound, of what comes to a stop within a step, until then: see `turning`
    cut, rubbed:     where an impact parts a step, see `parted`: normal multipliers (2,) before and after it, and that
                     of friction (3,) before it; lasting: (3,) what lasts after it, so far
    rows:            where they touch as a step ends, see `row_struct`
    """
    vec3 = vector(3, real)
    structs = {
        "placing": slot_struct(c, slots, real),
        "data": parameter_struct(c, real),
        "surface": surface_struct(real),
        "impacts": impact_struct(real),
        "rows": row_struct(real),
    }
    of_step = {"multiplier": real, "late": real, "along": vec3, "turned": vec3}
    of_step |= {"cut": vector(2, real), "rubbed": vec3, "lasting": vec3}
    of_step |= {"given": vec3, "change": vec3, "earlier": vec3}
    kinds = {"compliance": real, "pressed": real, "slid": vec3, "pulled": vec3, **of_step}
    arrays = {"points": array_type(int32, 2), **{name: array_type(kind) for name, kind in kinds.items()}}
    return Struct(f"contacts_{c.name}_{slots.kinds}", {**arrays, **structs})


@memoize
def moving_struct(real: Scalar) -> Struct:
    """Of all that moves in a step: w, inverse masses of particles [1/kg]; x_ref, where they began [m]; `particle`,
    what the step works on of them; v and body_qd, velocities before the step, or after it, v_before and
    body_qd_before those before it, v_last and body_qd_last those before the last step; gains and body_gains, what
    forces add to these (`HeldVelocities`, where joints hold what is touched); carried, lasting, parting, and those
    of bodies: see `parted`; struck, strikes, gram and partner, of bodies: see `at_once`; added and body_added, what
    impacts have added to their energy [J]: see `energy`; bodies: see `body_struct`, with their dx, turn, impulse and
    momentum; inertia: their inverse inertias in the world as the step ends; and gravity (1,)."""
    vec3 = vector(3, real)
    kinds = {
        "w": real,
        "x_ref": vec3,
        "v": vec3,
        "v_before": vec3,
        "v_last": vec3,
        "particle": particle_layout(real).type(real),
        "body_qd": vector(6, real),
        "body_qd_before": vector(6, real),
        "body_qd_last": vector(6, real),
        "gains": vec3,
        "body_gains": vector(6, real),
        "carried": vec3,
        "body_carried": vector(6, real),
        "lasting": vec3,
        "body_lasting": vector(6, real),
        "parting": vec3,
        "body_parting": vec3,
        "struck": vector(6, real),
        "strikes": real,
        "gram": matrix((6, 6), real),
        "partner": matrix((6, 6), real),
        "mechanism": int32,
        "body_mechanism": int32,
        "stretch": real,
        "trend": vector(4, real),
        "body_trend": vector(4, real),
        "reached": int32,
        "since": vector(2, real),
        "body_since": vector(2, real),
        "added": real,
        "body_added": real,
        "dx": vec3,
        "turn": quaternion(real),
        "impulse": vec3,
        "momentum": vec3,
        "inertia": matrix((3, 3), real),
        "gravity": vec3,
    }
    return Struct("moving", {"bodies": body_struct(real), **{name: array_type(kind) for name, kind in kinds.items()}})


@memoize
def sides_of(slots: Slots, real: Scalar) -> Function:
    """`sides(k, contacts, moving)` in a kernel, of contact k: what `movers_of` says of it; where its particles are and
    how far they have come in the step; and its entries of `placing` and `data`."""
    layout = particle_layout(real)
    position, displacement = layout.position, layout.displacement
    n_particles, movers = len(slots.particles), movers_of(slots)

    @func
    def sides(k, contacts, moving):
        found = movers(k, contacts.points, moving.bodies, moving.particle, moving.dx, moving.turn)
        p_k, of_p = found[0], found[2]
        x = [position(of_p[p]) for p in static(range(n_particles))]
        since = [displacement(of_p[p], moving.x_ref[p_k[p]]) for p in static(range(n_particles))]
        return found, x, since, fields_at(contacts.placing, k), fields_at(contacts.data, k)

    return sides


@func
def every(contacts, k: int):
    """Whether lanes take a contact: all of them."""
    return True


@dataclass(frozen=True)
class SideBySide:
    """Contacts `start + tid()`.  exclusive: see `sim.constraints.projection.make_projection`."""

    exclusive: bool = False
    lane: ClassVar[int] = 0

    def kernel(self, name: str, one: Function, live: Function, c: Constraint, slots: Slots, real: Scalar) -> Kernel:
        """The kernel that does `one` to each; `live` is for lanes."""
        Contacts, Moving = contact_struct(c, slots, real), moving_struct(real)

        @kernel(name=f"{name}_{c.name}_{slots.kinds}")
        def all_of_them(start: int, contacts: Contacts, moving: Moving, dt: real):
            one(start + tid(), contacts, moving, dt)

        all_of_them.race_free = True  # the contacts of a launch share what is held only, which does not move
        if self.exclusive:
            held = (
                "w",
                "x_ref",
                "v",
                "v_before",
                "v_last",
                "particle",
                "body_qd",
                "body_qd_before",
                "body_qd_last",
                "dx",
                "turn",
                "impulse",
                "momentum",
                "inertia",
                "carried",
                "body_carried",
                "lasting",
                "body_lasting",
                "parting",
                "body_parting",
                "struck",
                "strikes",
                "gram",
                "partner",
                "added",
                "body_added",
            )
            bodies = (f"moving.bodies.{part}" for part in body_struct(real).fields)
            own = ("multiplier", "late", "along", "turned", "lasting", "rows.vectors", "rows.numbers")
            shared = (*(f"moving.{part}" for part in held), *(f"contacts.{part}" for part in own))
            all_of_them.exclusive = frozenset((*shared, *bodies))
        return all_of_them


@dataclass(frozen=True)
class LanesInTurn:
    """The contacts of lanes of a colour, one after the other: `together` lanes by each thread, there or `back`.

    What is left over without a colour one thread takes.
    """

    lane: int

    def kernel(self, name: str, one: Function, live: Function, c: Constraint, slots: Slots, real: Scalar) -> Kernel:
        """The kernel that does `one` to those that are `live(contacts, k)`."""
        Contacts, Moving, lane = contact_struct(c, slots, real), moving_struct(real), self.lane

        @kernel(name=f"{name}_{c.name}_{slots.kinds}_lanes")
        def lanes_of_color(
            color: int,
            together: int,
            back: int,
            lanes: array[int],
            contacts: Contacts,
            moving: Moving,
            dt: real,
        ):
            first = min(lanes[color] + tid() * together, lanes[color + 1])
            last = min(first + together, lanes[color + 1])
            for i in range((last - first) * lane):
                k = first * lane + i
                if back > 0:
                    k = last * lane - 1 - i
                if live(contacts, k):
                    one(k, contacts, moving, dt)

        lanes_of_color.race_free = True  # as above
        return lanes_of_color


@dataclass(frozen=True)
class OneOfEachLane:
    """The contact with the number `row` in each lane of a colour.

    A reverse sweep likes that better: it keeps no log of what was stored before.
    """

    lane: int

    def kernel(self, name: str, one: Function, live: Function, c: Constraint, slots: Slots, real: Scalar) -> Kernel:
        """The kernel that does `one` to those that are `live(contacts, k)`."""
        Contacts, Moving, lane = contact_struct(c, slots, real), moving_struct(real), self.lane

        @kernel(name=f"{name}_{c.name}_{slots.kinds}_row")
        def row_of_lanes(color: int, row: int, lanes: array[int], contacts: Contacts, moving: Moving, dt: real):
            at = lanes[color] + tid()
            if at < lanes[color + 1]:
                k = at * lane + row
                if live(contacts, k):
                    one(k, contacts, moving, dt)

        row_of_lanes.race_free = True  # as above
        return row_of_lanes


@dataclass(frozen=True)
class WholeLanes:
    """All contacts of lane `tid()`, whatever its colour: for what writes to contacts alone."""

    lane: int

    def kernel(self, name: str, one: Function, live: Function, c: Constraint, slots: Slots, real: Scalar) -> Kernel:
        """The kernel that does `one` to those that are `live(contacts, k)`."""
        Contacts, Moving, lane = contact_struct(c, slots, real), moving_struct(real), self.lane

        @kernel(name=f"{name}_{c.name}_{slots.kinds}_whole")
        def whole_lane(lanes: array[int], contacts: Contacts, moving: Moving, dt: real):
            for k in range(tid() * lane, min(tid() + 1, lanes[lanes.shape[0] - 1]) * lane):
                if live(contacts, k):
                    one(k, contacts, moving, dt)

        whole_lane.race_free = True  # the contacts of a lane are its own
        return whole_lane


Form = SideBySide | LanesInTurn | OneOfEachLane | WholeLanes
"""How a launch goes over contacts."""
