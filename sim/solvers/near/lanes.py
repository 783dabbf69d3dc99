"""Contacts of bodies that are near each other during a step: looked for as it is predicted, then projected in lanes.

See `sim.model.collision.near` for the kernels.  The rows of a pair are one lane; what a step chooses of them is listed
by colours, and contacts of one colour share no free body (`sim.constraints.contact.kernels.listing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sim.constraints.contact.kernels.forms import AllListed, Form, Listed, ListedInTurn, SideBySide
from sim.constraints.contact.kernels.listing import BITS, make_listing, make_pick, pick_points
from sim.constraints.contact.positions.resting import make_keep, make_recall
from sim.constraints.contact.primitives.shapes import contact_plane
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import slot_struct
from sim.core.lang.types import int32, vector
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.launch.launch import launch
from sim.core.spatial.sorting import Scan
from sim.model.collision.detection import ContactError
from sim.model.collision.near.declared import BodyContact, NearSet
from sim.model.collision.near.filling import filling_kernels
from sim.model.collision.near.kernels import search_kernels
from sim.model.collision.near.separation import separation_kernels
from sim.model.constraint_set import ConstraintSet
from sim.model.fields import Field
from sim.model.model import Model
from sim.model.state import State
from sim.solvers.batch import ConstraintBatch, Rows
from sim.solvers.bodies import BodyStep

MEETING = 4
"""Contacts of a pair that have colours at once, where it may have as many: those of a face on another one."""


REMEMBERED = {
    "pressed": ("real", "N", "normal forces of contacts"),
    "averaged": ("vec2", "N", "normal forces in many steps"),
    "slid": ("vec3", "m", "slips that friction takes back"),
    "pulled": ("vec3", "N", "forces of friction"),
}
"""What contacts keep from step to step, in the state: kind, unit, meaning."""


def kept_field(made: str, what: str, count: int = 0) -> Field:
    """Of a state: what so many contacts of a set keep."""
    kind, unit, doc = REMEMBERED[what]
    return Field(f"{made}.{what}", (count,), kind, unit, doc)


def over_all(made: ConstraintSet) -> tuple[Form, int]:
    """Of a launch over all contacts of a set, or all that are listed: its form, and how many threads it has."""
    return (AllListed() if made.lane else SideBySide()), made.count


@dataclass(eq=False)
class NearLanes:
    """The lanes of one set in a step, and what it does of them.  batch: the contacts that are listed; made: the rows of
    all near pairs, which they are from, and placing and data, structs of arrays of these.

    lanes: (1,) int32, how many there are; first, second, keys: (capacity,) of each, its shapes and its key, which
    ascend; shapes, listed: (rows, 2) those of all rows, and of the contacts of the list; order, offsets, place, count:
    see `make_listing`; kept: of the list, what is `REMEMBERED` from step to step; in_turn: may some be left over
    without a colour?
    """

    model: Model
    of: NearSet
    batch: ConstraintBatch
    kept: Mapping[str, array]
    in_turn: bool

    def __post_init__(self) -> None:
        model = self.model
        assert model.near is not None
        n, device = model.near.capacity, model.device

        def make(count: int | tuple[int, ...]) -> array:
            return zeros(count, int32, device, requires_grad=False)

        rows, colors = n * self.of.lane, model.near.colors * min(self.of.lane, MEETING)
        self.lanes, self.first, self.second, self.keys = make(1), make(n), make(n), make(n)
        self.shapes, self.listed = make((rows, 2)), make((rows, 2))
        self.offsets, self.order, self._place, self._count = make(colors + 2), make(rows), make(rows), make(1)
        self._busy = make((model.body_count, colors // BITS + 1))
        bodies = model.shape_body.numpy()[model.near.solids.numpy()]
        self.alone = bool((model.body_inv_mass.numpy()[bodies[bodies >= 0]] > 0.0).all())
        self.width = min(rows, model.body_count)  # each contact has a free body of its own; what is held may be in many
        self._none = zeros(self.of.lane, vector(3, model.dtype), device, requires_grad=False)
        with recording.paused():
            self.made = made = self.batch.set.with_own_rows()
        self.placing = slot_struct(made.constraint, made.slots, model.dtype)()
        self.data = parameter_struct(made.constraint, model.dtype)()
        for struct, values in ((self.placing, made.placing), (self.data, made.parameters)):
            for name, rows_of in values.items():
                setattr(struct, name, rows_of)

    @property
    def arrays(self) -> list[array]:
        """All that a step writes before it reads it."""
        own = [self.lanes, self.shapes, self.listed, self.first, self.second, self.keys, self.offsets, self.order]
        own += [self._place, self._count, self._busy, *self.kept.values()]
        filled = [*self.batch.set.surface.values(), *(a for pair in self._known for a in pair)]
        return [*own, self.made.points, self.batch.set.points, *filled]

    @property
    def _known(self) -> Iterator[tuple[array, array]]:
        """What is known of rows, beside the bodies that they are on, and of what is listed: an array each."""
        batch, made = self.batch, self.made
        yield from ((getattr(self.data, name), getattr(batch.parameters, name)) for name in made.parameters)
        yield from ((made.placing[name], a) for name, a in batch.set.placing.items())

    @property
    def colors(self) -> int:
        """Of which there may be contacts."""
        return len(self.offsets) - 2

    @property
    def rows(self) -> Iterator[Rows]:
        """The launches that go over all contacts.  `begin` is the colour, `count` the most of it."""
        yield from (Rows(color, self.width, self.alone) for color in range(self.colors))
        if self.in_turn:
            yield Rows(self.colors, self.made.count, False, in_turn=True)

    def form(self, rows: Rows, wide: bool) -> Form:
        """How a launch goes over contacts.  wide: compiled for many side by side."""
        return ListedInTurn() if rows.in_turn else Listed(wide)

    def span(self, rows: Rows) -> list[object]:
        """What its kernels read first."""
        back = [int(rows.back)] if rows.in_turn else []
        return [rows.begin, *back, self.offsets]

    @property
    def history(self) -> tuple[Field, ...]:
        """The keys of the pairs of a state, and the forces of their contacts."""
        made, n = self.made, self.keys.shape
        keys = Field(f"{made.name}.keys", n, "int", "", "pairs that were near", True)
        return keys, *(kept_field(made.name, what, made.count) for what in REMEMBERED)

    def assign(self, total: array, pairs: array, gaps: array, margins: array) -> None:
        """The lanes of these pairs, as far as margins leave them."""
        model = self.model
        near = model.near
        assert near is not None
        found = [near.each, total, pairs, near.solids, near.classes, self.of.roles, model.shape_body]
        written = [self.lanes, self.first, self.second, self.keys]
        launch(search_kernels(model.dtype).assign, 1, [*found, model.body_inv_mass, gaps, margins], written)

    def list_chosen(self, left_over: array) -> None:
        """Lists what the step has chosen, with what is known of it; left_over: (1,) the most without a colour."""
        made, listed = self.made, [self.offsets, self.order]
        kernel = make_listing(made.constraint, made.slots, self.model.dtype, self.of.lane)
        inputs = [int(self.alone), self.lanes, made.points, self.data, self.model.body_inv_mass]
        with recording.paused():
            launch(kernel, 1, inputs, [self._busy, *listed, self._place, self._count, left_over])
            for rows, out in ((made.points, self.batch.set.points), (self.shapes, self.listed)):
                launch(pick_points, made.count, [*listed, rows], [out])
        for rows, out in self._known:
            launch(make_pick(rows.dtype), made.count, [*listed, rows], [out])
        model, near, fill = self.model, self.model.near, filling_kernels(self.model.dtype).coefficients
        assert near is not None
        for name, out in self.batch.set.surface.items():
            rough = "friction" in name
            has, values = (
                (near.rubs, model.shape_material_mu) if rough else (near.bounces, model.shape_material_restitution)
            )
            launch(fill, made.count, [1, self._count, self.listed, int(name.startswith("other")), has, values], [out])

    def fill(self) -> None:
        """What rows know of their shapes."""
        model, near, k, lane = self.model, self.model.near, filling_kernels(self.model.dtype), self.of.lane
        assert near is not None
        made, n, begin = self.made, near.capacity, [lane, self.lanes, self.shapes]
        inputs = [lane, int(self.of.both), self.lanes, self.first, self.second, model.shape_body]
        launch(k.shapes, n, inputs, [self.shapes, made.points])
        for name, out in made.placing.items():
            kind, side = name.split("_")[0], int(name.split("_")[1])
            if kind == "frame":
                launch(k.frames, n, [*begin, side, model.shape_transform], [out])
            else:
                unit = self.of.units if side == 1 and self.of.units is not None else self._none
                shapes = [model.shape_body, model.shape_transform, model.shape_scale, model.body_com]
                launch(k.offsets, n, [*begin, side, unit, self.of.along_z, *shapes], [out])
        for name, (side, part) in self.of.sizes.items():
            kernel = k.sizes if isinstance(part, int) else k.halves
            column = part if isinstance(part, int) else int(part == "spine")
            launch(kernel, n, [*begin, side, column, model.shape_scale], [made.parameters[name]])

    def recall(self, before: State) -> None:
        """The forces with which the pairs ended the last step."""
        keys, *kept = (before.history[field.name] for field in self.history)
        inputs = [self.of.lane, self.offsets, self.order, self.keys, keys, *kept]
        launch(make_recall(self.model.dtype), self.made.count, inputs, [*self.kept.values()])

    def keep(self, contacts: Any, after: State, dt: float) -> None:
        """Keeps the forces with which they end this one; contacts: see `contact_struct`."""
        keys, *kept = (after.history[field.name] for field in self.history)
        keys.assign(self.keys)
        of = contacts
        parted = [of.multiplier, of.late, of.along, of.cut, of.rubbed, of.impacts.rests]
        inputs = [self.of.lane, self.lanes, self._place, *parted, dt, self.kept["averaged"], self.kept["slid"]]
        launch(make_keep(self.model.dtype), self.made.count, inputs, kept)


@dataclass(eq=False)
class NearContacts:
    """The near pairs of a model in a step, by name of their set.

    gaps: (capacity,) [m] how far pairs are apart at least; margins: (worlds,) [m] how far contacts may push shapes.
    """

    model: Model
    bodies: BodyStep
    of: BodyContact
    batches: Mapping[str, ConstraintBatch]

    def __post_init__(self) -> None:
        model, of = self.model, self.of
        real, device, n, grad = model.dtype, model.device, of.solids.size, model.requires_grad

        def make(count: int | tuple[int, ...], kind: object = int32) -> array:
            return zeros(count, kind, device, requires_grad=False)

        self.sets = {
            s.name: NearLanes(
                model,
                s,
                b,
                {what: zeros(b.set.count, kept_field("", what).dtype(real), device, grad) for what in REMEMBERED},
                not grad,
            )
            for s in of.sets
            for b in (self.batches[s.name],)
        }
        self._low, self._high = make(n, vector(3, real)), make(n, vector(3, real))
        self._offset, self.pairs = make(n + 1), make((of.capacity, 2))
        self.total, self.needed, self.beyond = make(1), make(1), make(1, real)
        self.gaps, self.margins = make(of.capacity, real), make(of.planes.shape[0], real)
        alone = all(b.set.name in self.sets or b.set.constraint is contact_plane for b in self.batches.values()
                    if b.set.slots.bodies)  # fmt: skip
        self._least = of.least_margin if alone else of.margin
        self._scan = Scan(n + 1, device)
        self.in_turn = not grad
        self.left_over = make(1)

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them, and what it reports."""
        own = [self._low, self._high, self._offset, self.pairs, self.total, self.needed, self.beyond, self.left_over]
        return [*own, self.gaps, self.margins, *(a for lanes in self.sets.values() for a in lanes.arrays)]

    @property
    def history(self) -> tuple[Field, ...]:
        """What states keep of pairs."""
        return tuple(field for lanes in self.sets.values() for field in lanes.history)

    def looked_for(self, lanes: NearLanes) -> list[object]:
        """What says which contacts of lanes are near: two shapes that touch are predicted within twice the margin of
        their world, beside what they have come in the step, as neither is pushed further beyond that."""
        return [lanes.lanes, lanes.keys, self.of.each, self.margins]

    def begin(self) -> None:
        """Forgets what was reported."""
        self.needed.zero_()
        self.beyond.zero_()
        self.left_over.zero_()

    def _shapes(self) -> list[object]:
        model = self.model
        shapes = [model.shape_body, model.shape_type, model.shape_transform, model.shape_scale, model.body_com]
        return [self.of.solids, *shapes, self.bodies.start, self.bodies.dx, self.bodies.turn]

    def detect(self) -> None:
        """Lists the pairs that may touch in the step that was predicted, and fills their rows."""
        of, k = self.of, search_kernels(self.model.dtype)
        with recording.paused():
            launch(k.bound, of.solids.size, [*self._shapes(), of.margin], [self._low, self._high])
            boxes = [of.each, of.may, self._low, self._high]
            self._offset.zero_()
            launch(k.count, of.solids.size, boxes, [self._offset])
            self._scan.run(self._offset)
            launch(k.list_pairs, of.solids.size, [*boxes, self._offset], [self.pairs])
            launch(k.take_total, 1, [self._offset], [self.total, self.needed])
            self._take_margins()
            for lanes in self.sets.values():
                lanes.assign(self.total, self.pairs, self.gaps, self.margins)
        for lanes in self.sets.values():
            lanes.fill()

    def _take_margins(self) -> None:
        """How far contacts may push shapes in this step."""
        of, k = self.of, separation_kernels(self.model.dtype)
        given = [of.each, *self._shapes(), self._least, of.margin]
        self.margins.fill_(self._least)
        launch(k.of_pairs, of.capacity, [self.total, self.pairs, *given], [self.gaps, self.margins])
        launch(k.of_planes, of.solids.size, [of.planes, *given], [self.margins])

    def check(self) -> None:
        """Notes whether shapes are where they were looked for, as a step ends."""
        with recording.paused():
            inputs = [*self._shapes(), self._low, self._high, self.of.each, self.of.margin, self.margins]
            launch(search_kernels(self.model.dtype).check, self.of.solids.size, inputs, [self.beyond])

    def refuse_incomplete(self) -> None:
        """Raises ContactError where a pair may have been missed since `begin`.  Waits for the device."""
        needed, beyond = int(self.needed.numpy()[0]), float(self.beyond.numpy()[0])
        if needed > self.of.capacity:
            raise ContactError(
                f"contact: {needed} pairs of shapes are near each other, and there is room for {self.of.capacity}",
                f"Call detect_bodies(capacity={2 * needed}), or in a scene say"
                f" `contact: {{bodies: {{capacity: {2 * needed}}}}}`",
            )
        if not self.in_turn and (left := int(self.left_over.numpy()[0])):
            raise ContactError(
                f"contact: {left} contacts are of bodies that have too many at once: where gradients are wanted, those"
                f" of a body are taken in {max(lanes.colors for lanes in self.sets.values())} turns",
                "Use fewer shapes near one body, or a model without requires_grad",
            )
        if not beyond <= 0.0:
            wanted = f"{self.of.margin + 1.5 * beyond:.2g}"
            raise ContactError(
                f"contact: shapes were pushed {beyond:.3g} m further in a step than pairs were looked for, so that some"
                " may have been missed",
                f"Take shorter steps, or detect_bodies(margin={wanted}) or more ({self.of.margin:.2g} m now), or in a"
                f" scene `contact: {{bodies: {{margin: {wanted}}}}}`",
            )
