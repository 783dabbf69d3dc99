"""`ModelBuilder`: collects objects, shapes, attachments and constraints, and makes a `Model` of them.

All arguments beyond the first few are keywords.  Everything that is added is checked at once; `finalize` merges,
colours and allocates.  Lengths in m, masses in kg, times in s, angles in rad.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.constraints.base import Constraint
from sim.core.lang.errors import entry_point
from sim.core.lang.types import float32
from sim.core.runtime.devices.device import DeviceLike
from sim.model.build import checks
from sim.model.build.assembly import ModelParts, assemble
from sim.model.build.blocks import (
    ConstraintBlock,
    LoadBlock,
    constraint_values,
    registered,
    springs,
    surface_paths,
)
from sim.model.build.bodies import BodyPoint, SiteBlock, SlotPlace, slots_of_rows
from sim.model.build.branches import with_branches
from sim.model.build.motions import read_force, read_motions
from sim.model.build.points import levers
from sim.model.build.points.object_builder import ObjectBuilder
from sim.model.build.points.objects import ORIGIN
from sim.model.build.shapes.blocks import ShapeConfig
from sim.model.derived.arrays import per_element
from sim.model.errors import ModelError
from sim.model.groups import BodyGroup, Group
from sim.model.model import Model

AIR_DENSITY = 1.2
"""[kg/m^3], of dry air at sea level and 21 degrees Celsius."""


class ModelBuilder(ObjectBuilder):
    """Collects what a model consists of.  gravity: (3,) [m/s^2]; wind: (3,) [m/s], and the density of the air [kg/m^3],
    for objects that have been given `set_air`.

    A label names a thing and its material values (`model["sheet.distance.compliance"]`); it is used once.  Things
    without one are numbered: `cloth`, `cloth_1`, ...
    """

    ShapeConfig = ShapeConfig

    def __init__(
        self,
        gravity: Sequence[float] = (0.0, -9.81, 0.0),
        wind: Sequence[float] = (0.0, 0.0, 0.0),
        air_density: float = AIR_DENSITY,
    ) -> None:
        super().__init__()
        self.gravity = checks.vec3("gravity", gravity)
        self.wind = checks.vec3("wind", wind)
        self.air_density = checks.number("air_density", air_density)
        self._loads: list[LoadBlock] = []
        self._springs: list[tuple[int, int, float, float, float]] = []

    def __repr__(self) -> str:
        movers = f"{self.particle_count} particles" + f", {self.body_count} bodies" * bool(self.body_count)
        labels = ", ".join(sorted(self._labels - {"gravity"}))
        return f"ModelBuilder({movers}; {labels or 'nothing added'})"

    # ------------------------------------------------------------------------------------------ constraints
    def add_spring(
        self,
        i: int,
        j: int,
        compliance: float = 0.0,
        damping: float = 0.0,
        rest_length: float | None = None,
        label: str | None = None,
    ) -> None:
        """A `distance` constraint between particles i and j: compliance [m/N], damping [s], rest length (default: now).

        Springs without a label are one group, `springs`, with values for each: `springs.compliance` has shape (n,).
        """
        self._open("add_spring")
        checks.point_table("i, j", [[i, j]], 2, self._count)
        row = (
            int(i),
            int(j),
            checks.number("compliance", compliance),
            checks.number("damping", damping),
            np.nan if rest_length is None else checks.number("rest_length", rest_length),
        )
        if label is None:
            self._springs.append(row)
        else:
            block = springs(self._label(label, ""), [row])
            self._labels.add(block.label)
            self._constraints.append(block)

    @entry_point
    def add_constraints(
        self,
        constraint: Constraint | str,
        points: Any,
        compliance: Any,
        damping: Any = 0.0,
        label: str | None = None,
        branches: Any = None,
        **parameters: Any,
    ) -> str:
        """Constraints of one kind on rows of `points` (n, k), particles or points of bodies (`point_of`).  Returns
        their label.

        compliance: alpha of each, damping [s], and the constraint's own parameters: one value or (n,) of them.  A
        parameter that the constraint measures (`rest`) may be left out.  Their paths are `label.compliance`, ...  One
        of C >= 0 takes coefficients `friction` and `restitution`, the last one without a compliance.
        branches: what relaxes or yields beside it, `[{"stiffness": 0.2, "time": 0.03}, {"stiffness": 0.1, "yield":
        1e-3}]`: stiffness over the lasting one, time [s], yield in the unit of C; paths `label.branches.0.time`, ...
        """
        self._open("add_constraints")
        if isinstance(constraint, str):
            constraint = registered(constraint, "constraint")
        if not isinstance(constraint, Constraint):
            raise ModelError(f"constraint is a {type(constraint).__name__}", "Pass what @sim.constraint made")
        slots, places = None, dict[int, SlotPlace]()
        if isinstance(points, Sequence) and any(isinstance(entry, BodyPoint) for row in points for entry in row):
            rows = [list(row) for row in points]
            counts = self._count, self.body_count
            slots, table, places = slots_of_rows("points", rows, constraint.points, constraint.frames, *counts)
        else:
            if constraint.frames:
                raise ModelError(f"the points of {constraint.name!r} are frames", "Give points of bodies, by point_of")
            table = checks.point_table("points", points, constraint.points, self._count)
        spec = {"compliance": compliance, "damping": damping, **parameters}
        values, _ = constraint_values(f"add_constraints({constraint.name})", constraint, spec, len(table))
        label = self._label(label, constraint.name)
        self._labels.add(label)
        block = ConstraintBlock(
            label, label, constraint, table, np.ones(len(table)), values, slots=slots, places=places,
            borrowed=surface_paths(label, label),
        )  # fmt: skip
        self._constraints.append(with_branches("branches", block, branches))
        return label

    def add_attachment(
        self,
        points: Any,
        motion: Sequence[Mapping[str, Any]] | None = None,
        compliance: Any = 0.0,
        label: str | None = None,
        *,
        offset: Sequence[float] | None = None,
        turn: Sequence[float] | None = None,
    ) -> str:
        """Holds points (n,), or a Group, where they are, or moves them.  Returns the label.

        compliance [m/N]: 0 pins them (inverse mass 0, position prescribed), one number or (n,).
        motion: displacements that are added up: `{"move": (3,), "start": 0, "end": s, "ease": "smooth" | "linear"}`,
        `{"swing": (3,), "frequency": Hz}`, `{"follow": ...}`, `{"release": s}`: `sim.model.build.motions.read_motions`.
        offset (3,) [m], turn: rotation vector (3,) [rad], about the middle of the points: they are held, and begin,
        beside where they are at rest, turned first; the others begin where they are.  Paths: `label.offset`,
        `label.turn`, both or none.
        """
        self._open("add_attachment")
        table = checks.point_list("points", points.points if isinstance(points, Group) else points, self._count)
        stiff = checks.values("compliance", compliance, len(table))
        if stiff.any() and not stiff.all():
            raise ModelError(
                "compliance: some of the points have 0 and others not",
                "Attach the pinned ones (0) and the others by an attachment each",
            )
        motions = read_motions(motion)
        given = {"offset": offset, "turn": turn} if offset is not None or turn is not None else {}
        displaced = {key: checks.vec3(key, ORIGIN if value is None else value)[None] for key, value in given.items()}
        return self._attach(self._label(label, "attachment"), table, stiff, motions, displaced)

    def set_rotation(self, of: Group | BodyGroup, rotation: Sequence[float]) -> None:
        """Turns an object where it begins, further than its shape was placed: a rotation vector [rad] about its origin.

        Its path is `label.rotation`.  The segments of a rod cannot be turned: each would turn about its own origin.
        """
        self._open("set_rotation")
        turn = checks.vec3("rotation", rotation)[None]
        if isinstance(of, Group):
            self._block_of(of).rotation = turn
        elif of.lengths is None:
            next(block for block in self._bodies if block.group is of).rotation = turn
        else:
            raise ModelError(f"the rod {of.name!r} cannot be turned as one", "Turn the points that it is made of")

    def add_load(
        self,
        points: Any,
        mass: float,
        label: str | None = None,
        *,
        arm: Sequence[float] | None = None,
        compliance: float = 0.0,
        force: tuple[Any, Any] | None = None,
    ) -> str:
        """Additional mass [kg], shared equally by points (n,), or by all of a Group.  Returns the label.

        Its path is `label.mass`.  It has weight and inertia; 0 is allowed, to be changed later.
        arm: (3,) [m], at rest, from the mean of the points to where the mass is: one particle more, of a group `label`,
        which a rigid arm (of a `compliance` [m/N], if wanted) holds in a frame that turns with four of the points, far
        apart (see the constraint `lever`).  Its path is `label.arm`.
        force: times (k,) [s] and forces (k, 3) [N], shared equally too; linear between them, held before and behind.
        """
        self._open("add_load")
        table = checks.point_list("points", points.points if isinstance(points, Group) else points, self._count)
        value = np.array([checks.number("mass", mass)])
        label = self._label(label, "load")
        if arm is not None:
            table = self._add_lever(table, checks.vec3("arm", arm), checks.number("compliance", compliance), label)
        elif compliance:
            raise ModelError("compliance is that of an arm, and there is none", "Give arm, or leave it out")
        self._labels.add(label)
        self._loads.append(LoadBlock(label, table, value, read_force(force)))
        return label

    def _add_lever(self, points: np.ndarray, arm: np.ndarray, compliance: float, label: str) -> np.ndarray:
        """A particle on an arm that `points` carry; returns its number, (1,)."""
        self._close_loose()
        blocks = self._points
        position = np.concatenate([b.base + per_element(b.position, len(b.base)) for b in blocks])
        carried = position[points].mean(axis=0) + arm
        constants, carriers = levers.rest_of(position, points)
        block = levers.point_on_arm(label, self._count, carried, np.concatenate([b.mass for b in blocks])[carriers])
        values = {"compliance": np.array([compliance]), "arm": arm[None]}
        row = np.concatenate([block.group.points, carriers])[None]
        constraint = registered("lever", "constraint")
        # In front of all others: what they hold at rest stays exactly there, if the arm is rigid.
        self._constraints.insert(0, ConstraintBlock(label, label, constraint, row, np.ones(1), values, constants))
        self._points.append(block)
        self.groups[label] = block.group
        self._count += 1
        return block.group.points

    def add_sites(self, bodies: int | Sequence[int], at: Any, label: str | None = None, *, edges: Any = None) -> Group:
        """Points of bodies that are observed: at (n, 3) [m] in the frame of a body, or of each its own.  Returns their
        group, whose points are numbered behind all particles: add these first.

        edges (m, 2): pairs of them that are drawn as lines.  See `sim.model.sites.point_positions`.
        """
        self._open("add_sites")
        self._close_loose()
        rows = [bodies] * len(checks.vec3s("at", at)) if isinstance(bodies, int) else list(bodies)
        group = self._sites_of(rows, at, edges, self._count, label)
        self._labels.add(group.name)
        self.groups[group.name] = group
        self._sites.append(SiteBlock(group, np.asarray(rows, np.int32), checks.vec3s("at", at)))
        return group

    # ------------------------------------------------------------------------------------------ the model
    def replicate(self, worlds: int) -> ModelBuilder:
        """Makes the model hold `worlds` copies of everything, which do not touch.  Comes last; returns the builder.

        A material value that was one number becomes (worlds,), one for each element (worlds n,): every world has
        parameters, motions and shapes of its own, and gradients.  `gravity` is one for all.  Particles of a group in
        world w: `model.groups[label].of_world(w)`.  A launch works on a colour of all worlds.
        """
        self._open("replicate")
        count = checks.whole("worlds", worlds)
        if self._worlds != 1:
            raise ModelError("replicate is called twice", "Call it once, with the number of all worlds")
        self._worlds = count
        return self

    @entry_point
    def finalize(self, device: DeviceLike = None, requires_grad: bool = False, dtype: Any = float32) -> Model:
        """The model, on a device, in float32 or float64.  Nothing can be added afterwards.

        requires_grad: material values, initial states and everything derived from them carry gradients.
        Raises ModelError with what is missing or contradicts itself, and where `Model.check_start` does.
        """
        model = self.assembled(device, requires_grad, dtype)
        model.check_start()
        return model

    def assembled(self, device: DeviceLike = None, requires_grad: bool = False, dtype: Any = float32) -> Model:
        """As `finalize`, for who places things afterwards, by material values, and calls `Model.check_start` then."""
        self._open("finalize")
        self._close_loose()
        if self._springs:
            self._constraints.append(springs(self._label(None, "springs"), self._springs))
        self._finalized = True
        # what holds joints comes last in a sweep: drives and limits may not pull them apart
        # dry friction answers what pulls: it comes behind drives and springs, which one sweep is to know
        constraints = sorted(self._constraints, key=lambda block: (block.constraint.from_start, block.constraint.dry))
        parts = ModelParts(
            self.gravity, self.groups, self._points, constraints, self._shapes, self._attachments, self._loads,
            wind=self.wind, air_density=self.air_density, bodies=self._bodies,
            sites=self._sites, visuals=self._visuals, joints=self._joints, contact=self._self_contact,
            body_forces=self._body_forces,
            near=self._near,
        ).with_held()  # fmt: skip
        return assemble(parts if self._worlds == 1 else parts.in_worlds(self._worlds), device, requires_grad, dtype)
