"""The kernels of contacts, made of what happens to one: what all of them read and write, and how a launch goes over it.

A kernel is a function `one(k, contacts, moving, dt)` of the language, of contact k.  Its form says which contacts the
threads of a launch take: side by side, one after the other, or those that a step has *listed* of near pairs, of a
colour c from offsets[c] to before offsets[c + 1] (`listing`).
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from sim.constraints.base import Constraint
from sim.constraints.contact.kernels.surface import impact_struct, surface_struct
from sim.constraints.contact.kinematics.rows import row_struct
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import body_struct, slot_struct
from sim.constraints.slots.linearization import movers_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import abs, static, tid
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.vector import dot
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
    averaged:        normal forces as they were in many steps, (2,) [N], see `average`
    multiplier:      of the positions, normal; along: (3,) of friction; late: of the velocities, and until
                     then how far [m] a first guess is to lead, see `at_once`
    turned:          (3,) friction, over its bound, of what comes to a stop within a step, until then: see `turning`
    cut, rubbed:     where an impact parts a step, see `parted`: normal multipliers (2,) before and after it, and that
                     of friction (3,) before it; lasting: (3,) what lasts after it, so far
    given, change,   where joints hold what is touched: the impulses (3,) after a sweep, and how it and the one before
    earlier:         it have changed them, see `extrapolation`
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
    kinds = {"compliance": real, "pressed": real, "averaged": vector(2, real), "slid": vec3, "pulled": vec3, **of_step}
    arrays = {"points": array_type(int32, 2), **{name: array_type(kind) for name, kind in kinds.items()}}
    return Struct(f"contacts_{c.name}_{slots.kinds}", {**arrays, **structs})


@memoize
def moving_struct(real: Scalar) -> Struct:
    """Of all that moves in a step: w, inverse masses of particles [1/kg]; x_ref, where they began [m]; `particle`,
    what the step works on of them; v and body_qd, velocities before the step, or after it, v_before and
    body_qd_before those before it, v_last and body_qd_last those before the last step; gains and body_gains, what
    forces add to these (where joints hold what is touched, or impacts are counted); carried, lasting, parting, and
    those of bodies: see `parted`; struck, strikes, gram and partner, of bodies: see `at_once`; mechanism and
    body_mechanism, the numbers of what joints make of them, and of these reached, see `afterwards`, and stretch, see
    `extrapolation`; since, body_since, trend and body_trend: see these; added and body_added, what impacts have added
    to their energy [J]: see `energy`; bodies: see `body_struct`, with their dx, turn, impulse and momentum; inertia:
    their inverse inertias in the world as the step ends; and gravity (1,)."""
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
        "trend": vector(5, real),
        "body_trend": vector(5, real),
        "reached": int32,
        "since": vector(5, real),
        "body_since": vector(5, real),
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


def alike(made: Kernel, form: "Form") -> Kernel:
    """The kernel of a form.  What is listed mostly goes the same way: a body for eight at once is worth having, of a
    kernel that computes more than it moves."""
    made.alike = isinstance(form, (Listed, AllListed))
    return made


@func
def _always(data, k: int):
    return True


@memoize
def chosen_of(c: Constraint) -> Function:
    """`chosen(data, k)` in a kernel: whether a step has chosen something for row k; without it the row is open."""
    if not c.chosen:
        return _always
    at = list(c.parameters).index(c.chosen)

    @func
    def by_number(data, k: int):
        return abs(fields_at(data, k)[static(at)]) > 0.5

    @func
    def by_vector(data, k: int):
        found = fields_at(data, k)[static(at)]
        return dot(found, found) > 0.5

    return by_number if c.parameters[c.chosen].kind == "float" else by_vector


@func
def every(contacts, k: int):
    """Whether a launch takes a contact of the list: all of them."""
    return True


MOVED = (
    *("w", "x_ref", "v", "v_before", "v_last", "particle", "body_qd", "body_qd_before", "body_qd_last"),
    *("dx", "turn", "impulse", "momentum", "inertia", "carried", "body_carried", "lasting", "body_lasting"),
    *("parting", "body_parting", "struck", "strikes", "gram", "partner", "added", "body_added"),
)
"""What a `moving_struct` has of each mover, and contacts may read or write."""


def _of_movers(real: Scalar) -> tuple[str, ...]:
    """The same, by the names that kernels have for it."""
    return tuple(f"moving.{part}" for part in (*MOVED, *(f"bodies.{name}" for name in body_struct(real).fields)))


def _own(contacts: Struct) -> Iterator[str]:
    """The arrays of a `contact_struct`, which have elements of each contact, by the same names."""
    for name, kind in contacts.fields.items():
        yield from (
            (f"contacts.{name}.{part}" for part in kind.fields) if isinstance(kind, Struct) else (f"contacts.{name}",)
        )


@dataclass(frozen=True)
class SideBySide:
    """Contacts `start + tid()`.  exclusive: see `sim.constraints.projection.make_projection`."""

    exclusive: bool = False
    lane: ClassVar[int] = 0

    def kernel(self, name: str, one: Function, live: Function, c: Constraint, slots: Slots, real: Scalar) -> Kernel:
        """The kernel that does `one` to each; `live` is for lists."""
        Contacts, Moving = contact_struct(c, slots, real), moving_struct(real)

        @kernel(name=f"{name}_{c.name}_{slots.kinds}")
        def all_of_them(start: int, contacts: Contacts, moving: Moving, dt: real):
            one(start + tid(), contacts, moving, dt)

        all_of_them.race_free = True  # the contacts of a launch share what is held only, which does not move
        if self.exclusive:
            own = ("multiplier", "late", "along", "turned", "lasting", "rows.vectors", "rows.numbers")
            all_of_them.exclusive = frozenset((*_of_movers(real), *(f"contacts.{part}" for part in own)))
        return all_of_them


@dataclass(frozen=True)
class InTurn:
    """Contacts `start` to before `start + count` one after the other, there or `back`, by one thread: as side by side,
    colour by colour, to the bit, for one launch.  What is few costs more to launch than to go over."""

    def kernel(self, name: str, one: Function, live: Function, c: Constraint, slots: Slots, real: Scalar) -> Kernel:
        """The kernel that does `one` to each; `live` is for lists."""
        Contacts, Moving = contact_struct(c, slots, real), moving_struct(real)

        @kernel(name=f"{name}_{c.name}_{slots.kinds}_one_by_one")
        def one_by_one(start: int, count: int, back: int, contacts: Contacts, moving: Moving, dt: real):
            for i in range(count):
                k = start + i
                if back > 0:
                    k = start + count - 1 - i
                one(k, contacts, moving, dt)

        one_by_one.race_free = True  # one thread
        return one_by_one


@dataclass(frozen=True)
class Listed:
    """The contacts of a colour, of which no two push the same free body; exclusive: nor stand on the same one that is
    held."""

    exclusive: bool = False

    def kernel(self, name: str, one: Function, live: Function, c: Constraint, slots: Slots, real: Scalar) -> Kernel:
        """The kernel that does `one` to those that are `live(contacts, k)`."""
        Contacts, Moving = contact_struct(c, slots, real), moving_struct(real)

        @kernel(name=f"{name}_{c.name}_{slots.kinds}_listed")
        def contacts_of_color(color: int, offsets: array[int], contacts: Contacts, moving: Moving, dt: real):
            if tid() < offsets[color + 1] - offsets[color]:
                k = offsets[color] + tid()
                if live(contacts, k):
                    one(k, contacts, moving, dt)

        contacts_of_color.race_free = True  # as above
        if self.exclusive:
            contacts_of_color.exclusive = frozenset((*_of_movers(real), *_own(Contacts)))
        return contacts_of_color


@dataclass(frozen=True)
class ListedInTurn:
    """The contacts of a colour one after the other, there or `back`, by one thread: what is left over without any."""

    def kernel(self, name: str, one: Function, live: Function, c: Constraint, slots: Slots, real: Scalar) -> Kernel:
        """The kernel that does `one` to those that are `live(contacts, k)`."""
        Contacts, Moving = contact_struct(c, slots, real), moving_struct(real)

        @kernel(name=f"{name}_{c.name}_{slots.kinds}_in_turn")
        def contacts_in_turn(color: int, back: int, offsets: array[int], contacts: Contacts, moving: Moving, dt: real):
            first, last = offsets[color], offsets[color + 1]
            for i in range(last - first):
                k = first + i
                if back > 0:
                    k = last - 1 - i
                if live(contacts, k):
                    one(k, contacts, moving, dt)

        contacts_in_turn.race_free = True  # one thread
        return contacts_in_turn


@dataclass(frozen=True)
class AllListed:
    """All contacts of the list, whatever their colours: for what writes to contacts alone."""

    def kernel(self, name: str, one: Function, live: Function, c: Constraint, slots: Slots, real: Scalar) -> Kernel:
        """The kernel that does `one` to those that are `live(contacts, k)`."""
        Contacts, Moving = contact_struct(c, slots, real), moving_struct(real)

        @kernel(name=f"{name}_{c.name}_{slots.kinds}_all")
        def all_listed(offsets: array[int], contacts: Contacts, moving: Moving, dt: real):
            if tid() < offsets[offsets.shape[0] - 1]:
                k = tid()
                if live(contacts, k):
                    one(k, contacts, moving, dt)

        all_listed.race_free = True  # each contact is its own
        return all_listed


Form = SideBySide | InTurn | Listed | ListedInTurn | AllListed
"""How a launch goes over contacts."""
