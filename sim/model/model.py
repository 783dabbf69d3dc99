"""`Model`: everything about a scene that a step does not change."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter, itemgetter

import numpy as np

from sim.core.lang.errors import did_you_mean
from sim.core.lang.types import Scalar
from sim.core.runtime.ambient import observers, recording
from sim.core.runtime.ambient.recording import Bookmark
from sim.core.runtime.arrays.array import array, clone
from sim.core.runtime.arrays.creation import zeros_like
from sim.core.runtime.devices.device import Device
from sim.core.runtime.devices.graph import Graph, capturing
from sim.display import html_table
from sim.model.collision.detection import PairLists
from sim.model.collision.near.declared import BodyContact, MeetingShapes, WatchedFaces
from sim.model.collision.surfaces import SelfContact
from sim.model.constraint_set import ConstraintSet
from sim.model.control import Contacts, Control
from sim.model.derived.arrays import ArrayFactory
from sim.model.derived.derivation import Update
from sim.model.errors import ModelError
from sim.model.fields import MODEL_FIELDS
from sim.model.groups import Attachment, BodyGroup, CollisionShape, Group, Joint
from sim.model.materials import Materials
from sim.model.state import State
from sim.model.visuals import Visual

_NAMES = tuple(field.name for field in MODEL_FIELDS)
_ARRAYS = itemgetter(*_NAMES)
_BUFFER = attrgetter("buffer")


class Model:
    """Made by `ModelBuilder.finalize`.  Its arrays are those of `MODEL_FIELDS`.

    materials: path -> array, the values that the user wrote; change them by `assign`, `fill_` or kernels.  Masses,
    compliances and all other derived arrays follow at the next `refresh`, which `state` and the solvers call; writing
    to derived arrays is of no use.
    constraint_sets: name of the constraint -> its constraints; groups: label -> points of an object;
    bodies: label -> its rigid bodies; joints: label -> the joint; visuals: what is drawn of them.
    device, dtype (float32 or float64), requires_grad: of all arrays.  in_air: has any object a drag?  in_wind: have
    faces of any?
    worlds: how many copies of everything there are, see `ModelBuilder.replicate`.
    contact: the surfaces that collide with themselves and each other, None for none; near: the shapes of bodies that
    every step looks for, None where all pairs of them are constraints from the beginning; meeting: those pairs, and
    those with balls of the world; watched: faces of meshes that signed distances may come into.
    along: (particles,) numbers that go along memory where those of the particles do not, None else; user_numbers: those
    of the user where this is the model under such numbers (`sim.model.renumbered`), None else.
    """

    def __init__(
        self,
        make: ArrayFactory,
        arrays: Mapping[str, array],
        materials: Materials,
        derivations: Sequence[Update],
        constraint_sets: dict[str, ConstraintSet],
        groups: dict[str, Group],
        shapes: list[CollisionShape],
        attachments: list[Attachment],
        in_air: bool,
        worlds: int = 1,
        in_wind: bool = False,
        bodies: dict[str, BodyGroup] | None = None,
        visuals: Sequence[Visual] = (),
        joints: dict[str, Joint] | None = None,
        contact: SelfContact | None = None,
        near: BodyContact | None = None,
        meeting: MeetingShapes | None = None,
        watched: Sequence[WatchedFaces] = (),
        check_start: Callable[[Model], None] = lambda model: None,
        along: np.ndarray | None = None,
    ) -> None:
        self.__dict__.update(arrays)
        self.device: Device = make.device
        self.dtype: Scalar = make.real
        self.requires_grad: bool = make.requires_grad
        self.materials, self.constraint_sets, self.groups = materials, constraint_sets, groups
        self.shapes, self.attachments, self.in_air, self.worlds = shapes, attachments, in_air, worlds
        self.in_wind, self.bodies, self.visuals = in_wind, bodies or {}, list(visuals)
        self.joints, self.contact, self.near, self.meeting = joints or {}, contact, near, meeting
        self.watched = list(watched)
        self._derivations: Sequence[Update] = list(derivations)
        self._check_start = check_start
        self.along = along
        self.user_numbers: np.ndarray | None = None
        self._recorded: Bookmark | None = None  # on a tape: derived data is recorded before it
        self._captured: weakref.ref[Graph] | None = None  # the graph in which derived data was captured last
        self._left: list[tuple[int, int]] | None = None  # the content of derived data after the last `renew`
        self.held = False
        """Does derived data stay as it is?"""
        self._narrowed = 0  # open blocks of `gradients_of`

    # ------------------------------------------------------------------------------------------ what it is
    def __getattr__(self, name: str) -> array:
        # Only called for what is not there.
        raise AttributeError(f"a model has no {name!r}{did_you_mean(name, (f.name for f in MODEL_FIELDS))}")

    def __getitem__(self, path: str) -> array:
        """A material value: `model["sheet.distance.compliance"]`, shape (1,) or (n,)."""
        return self.materials[path]

    @property
    def gravity(self) -> array:
        """(1,) vec3 [m/s^2]."""
        return self.materials["gravity"]

    @property
    def wind(self) -> array:
        """Velocity of the air, (1,) vec3 [m/s].  Raises UnknownPathError where nothing is `in_wind`."""
        return self.materials["wind"]

    @property
    def air_density(self) -> array:
        """(1,) [kg/m^3].  Raises UnknownPathError where nothing is `in_wind`."""
        return self.materials["air_density"]

    @property
    def particle_count(self) -> int:
        """Number of particles."""
        return self.particle_q.size

    @property
    def point_count(self) -> int:
        """Number of particles and sites: of what markers may observe."""
        return self.particle_count + self.site_body.size

    @property
    def body_count(self) -> int:
        """Number of rigid bodies."""
        return self.body_q.size

    @property
    def joint_count(self) -> int:
        """Number of joints."""
        return self.joint_kind.size

    @property
    def joint_coord_count(self) -> int:
        """Number of their coordinates."""
        return self.joint_target_pos.size

    @property
    def joint_dof_count(self) -> int:
        """Number of their velocities."""
        return self.joint_target_vel.size

    @property
    def shape_count(self) -> int:
        """Number of shapes."""
        return self.shape_body.size

    @property
    def shape_label(self) -> list[str]:
        """The label of each shape; of one in several worlds each time."""
        return [shape.label for shape in self.shapes for _ in range(self.worlds)]

    @property
    def tri_count(self) -> int:
        """Number of triangles."""
        return self.tri_indices.shape[0]

    @property
    def arrays(self) -> dict[str, array]:
        """The arrays of `MODEL_FIELDS` by name."""
        return dict(zip(_NAMES, _ARRAYS(self.__dict__), strict=True))

    @property
    def internal_variables(self) -> dict[str, array]:
        """Those of a state: "constraint.parameter" -> the array of the model in whose place it comes."""
        return {
            f"{s.name}.{name}": s.parameters[name]
            for s in self.constraint_sets.values()
            for name in s.constraint.internal_variables
        }

    # ------------------------------------------------------------------------------------------ derived data
    def refresh(self, force: bool = False) -> None:
        """Brings everything that follows from material values up to date: masses, compliances, initial positions, ...

        Launches what is due: where a value has changed, and all of it where a tape or a graph is open that has not seen
        it yet.  force: all of it in any case.
        """
        if self.held:
            return
        tape = recording.current() if self.requires_grad else None
        observer, graph = observers.current(), capturing()
        everything = (
            force
            or (tape is not None and (self._recorded is None or not tape.holds(self._recorded)))
            or (observer is not None and observer.first_meets(self))
            or (graph is not None and (self._captured is None or self._captured() is not graph))
        )
        self._derive(everything)

    def _derive(self, everything: bool = False, carried: bool = False) -> None:
        """Launches derivations, in order, each asked for when its turn comes: it may depend on an earlier one.

        Those that are due, or everything.  carried: those that are not due, but that a gradient flows through, are
        recorded.
        """
        tape, graph = recording.current() if self.requires_grad else None, capturing()
        ran = False
        for derivation in self._derivations:
            due = everything or derivation.due()
            if due and not ran and graph is None and not self.device.is_cuda:  # whose launches a look would wait for
                self.materials.refuse_meaningless()
            if due or (carried and derivation.carries):
                # until all is done: what breaks off here is due again, on the same tape too
                self._recorded = self._left = None
                (derivation.run if due else derivation.record)()
                ran = True
        if ran:
            self._recorded = None if tape is None else tape.bookmark()
        if graph is not None:
            self._captured = weakref.ref(graph)

    def renew(self) -> None:
        """Before many steps: as `refresh`, and all of it where others have written to derived data since; all of it in
        forward mode and in a graph too, which take up what these steps begin with, and on an open tape all that a
        gradient flows through."""
        if self.held:
            return
        if observers.current() is not None or capturing() is not None:
            self.refresh(force=True)
        elif self._left is None or self._left != self._derived_content():
            self.refresh(force=True)
        elif recording.current() is not None and self.requires_grad:
            self._derive(carried=True)
        else:
            self.refresh()
        self._left = self._derived_content()

    def _derived_content(self) -> list[tuple[int, int]] | None:
        """Stands for what derived data holds: equal again only if nobody has written there; None: others may."""
        buffers = [a.buffer for derivation in self._derivations for a in derivation.outputs]
        if any([buffer.shared for buffer in buffers]):  # all are asked: it raises the epoch of those that were
            return None
        return [(buffer.version, buffer.epoch) for buffer in buffers]

    def check_start(self) -> None:
        """Looks at where everything begins, with material values as they are.

        Raises ModelError where shapes that collide begin inside of each other, in the first world, or surfaces that do
        are closer than their thickness: the first steps would throw them apart.
        """
        with recording.paused():
            self.refresh()
            self._check_start(self)

    def bound(self) -> Model:
        """The same arrays, as they are now, under another object, whose `refresh` does nothing.

        For a rollout that runs segments again: derived data was recorded once, before them.
        """
        made = copy.copy(self)
        made.materials, made.held = copy.copy(self.materials), True
        made.constraint_sets = {name: copy.copy(s) for name, s in self.constraint_sets.items()}
        for s in made.constraint_sets.values():
            s.parameters = dict(s.parameters)
        return made

    def renumbered(self, user_numbers: np.ndarray, derivations: Sequence[Update]) -> Model:
        """The same content under another object, whose arrays the caller replaces; these derivations fill them."""
        made = copy.copy(self)
        made.along, made.user_numbers = None, user_numbers
        made._derivations, made._recorded, made._captured, made._left = derivations, None, None, None
        return made

    def user_number(self, particle: int) -> int:
        """The number by which the user knows a particle."""
        return int(particle if self.user_numbers is None else self.user_numbers[particle])

    @contextmanager
    def gradients_of(self, paths: Iterable[str]) -> Iterator[None]:
        """`with model.gradients_of(["net.compliance"]):` only these values, and what follows from them, have gradients.

        What only the other values need is then neither kept nor computed.  States made inside have gradients too, but
        external forces have none.  Go backward inside the block as well.  Gradients of the other values stay as they
        are.  Raises UnknownPathError.
        """
        wanted = {self.materials[path].buffer for path in paths}
        derived = [a for d in self._derivations for a in d.outputs]
        measured = [s.parameters[name] for s in self.constraint_sets.values() for name in s.constraint.measured]
        known = (*self.materials.values(), *_ARRAYS(self.__dict__), *derived, *measured)
        before = {buffer for buffer in map(_BUFFER, known) if buffer.requires_grad}
        narrowed = self._narrowed

        def put_back() -> None:
            self._narrowed = narrowed
            for buffer in before:
                buffer.requires_grad = True

        try:
            try:
                self._narrowed = narrowed + 1
                for buffer in before:
                    buffer.requires_grad = buffer in wanted
                for d in self._derivations:
                    if any([a.buffer.requires_grad for a in d.sources]):
                        for a in d.outputs:
                            a.buffer.requires_grad = a.buffer in before
                yield
            finally:
                put_back()
        except BaseException:
            put_back()  # also where the user interrupts it
            raise

    # ------------------------------------------------------------------------------------------ what goes with it
    def state(self) -> State:
        """A new state: the initial positions and velocities, no forces, time 0.  Differentiable."""
        self.refresh()
        grad = self.requires_grad
        internal = {name: zeros_like(a, requires_grad=grad) for name, a in self.internal_variables.items()}
        forced = grad and not self._narrowed
        moving = (self.particle_q, self.particle_qd, self.body_q, self.body_qd)
        q, qd, body_q, body_qd = (clone(a, requires_grad=grad or None) for a in moving)
        f, body_f = (zeros_like(a, requires_grad=forced) for a in (self.particle_qd, self.body_qd))
        made = State(self, q, qd, f, body_q, body_qd, body_f, internal_variables=internal)
        if capturing() is not None:
            with recording.paused():  # as without a graph, where fresh memory has these values and keeps its gradient
                for a in (*made.forces, *internal.values()):
                    a.zero_()  # a replay begins with it too
        return made

    def control(self) -> Control:
        """New inputs for a step, as the model has them."""
        return Control(self, self.motion_vector, self.joint_target_pos, self.joint_target_vel)

    def collide(self, state: State, contacts: Contacts | None = None, interval: float = 0.0) -> Contacts | None:
        """The pairs that may touch in this state; None where none can.

        Of shapes, which are few and fixed so far, all free points that they touch are candidates.  Surfaces that
        collide with themselves (`add_self_contact`) are searched: their pairs hold as long as no point moves by more
        than half of the margin, beside the mean of all and what its velocity says for `interval` [s], the time until
        the next call; steps check that.  contacts: what an earlier call has returned, to be filled again.
        """
        if state.model is not self:
            raise ModelError("collide: the state belongs to another model", "Use a state of this model")
        if contacts is not None and contacts.pairs is not None:
            contacts.pairs.detect(state.particle_q, state.particle_qd, interval)
            return contacts
        free = self.device.numpy(self.particle_free) > 0
        touched = {shape.label: shape.points for shape in self.shapes if shape.points is not None}
        if self.contact is None and not touched:
            return None
        pairs = None if self.contact is None else PairLists(self.contact)
        if pairs is not None:
            pairs.detect(state.particle_q, state.particle_qd, interval)
        return Contacts(self, {label: points[free[points]] for label, points in touched.items()}, pairs)

    def __repr__(self) -> str:
        sets = ", ".join(f"{s.count} {name}" for name, s in self.constraint_sets.items())
        movers = f"{self.particle_count} particles" + f", {self.body_count} bodies" * bool(self.body_count)
        return f"Model({movers}; {sets or 'no constraints'}; {self.dtype} on {self.device})"

    def _repr_html_(self) -> str:
        """In a notebook: what it consists of."""
        rows = [("particles", str(self.particle_count)), ("bodies", str(self.body_count))]
        rows += [
            (name, f"{s.count} constraints of {s.color_count} colours") for name, s in self.constraint_sets.items()
        ]
        rows += [(name, f"{group.kind} of {group.count} points") for name, group in self.groups.items()]
        rows += [(label, f"{joint.kind} joint") for label, joint in self.joints.items()]
        return html_table("Model", [*rows, ("numbers", f"{self.dtype} on {self.device}")])
