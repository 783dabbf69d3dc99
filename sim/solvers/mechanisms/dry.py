"""Dry friction of joints that come to a stop within a step, and go back: see `sim.constraints.contact.friction`."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from copy import copy
from dataclasses import dataclass

from sim.constraints.base import Constraint
from sim.constraints.contact.friction import turning
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import body_struct, slot_struct
from sim.constraints.slots.linearization import masses_of, row_functions, rows_of, turns, velocities_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.model.model import Model
from sim.solvers.batch import ConstraintBatch
from sim.solvers.bodies import BodyStep


@memoize
def make_turned(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """`turned` of joints `tid()`, between bodies: from dC/dt as this step and the last one began."""
    vec2, spatial, owners = vector(2, real), vector(6, real), tuple(own[0] for own in slots.bodies)
    Data, SlotData, Bodies = parameter_struct(c, real), slot_struct(c, slots, real), body_struct(real)
    masses_at, rows_at, velocities = masses_of(slots), rows_of(c, slots, real), velocities_of(slots)
    _, response, product = row_functions(slots)
    limit_at = tuple(c.parameters).index(c.limited)

    @kernel(name=f"turn_{c.name}_{slots.kinds}")
    def turn_round(
        points: array2d[int],
        placing: SlotData,
        data: Data,
        bodies: Bodies,
        body_qd: array[spatial],
        body_qd_last: array[spatial],
        dt: real,
        turned: array[real],
    ):
        k = tid()
        b_k, values = [points[k, j] for j in static(owners)], fields_at(data, k)
        begun = [(bodies.x[b_k[g]], bodies.q[b_k[g]]) for g in static(range(len(owners)))]
        masses, inertias = masses_at([], b_k, begun, [], bodies)
        _, G = rows_at([], begun, fields_at(placing, k), values)
        easy = product(G[0], response(G[0], masses, inertias))
        rate = vec2(product(G[0], velocities([], b_k, [], body_qd)), 0.0)
        last = vec2(product(G[0], velocities([], b_k, [], body_qd_last)), 0.0)
        turned[k] = turning(rate, last, easy * values[static(limit_at)] * dt)[0]

    return turn_round


@dataclass(eq=False)
class DryJoints:
    """The rows of dry friction of a model's joints, of which a step finds `turned`."""

    model: Model
    bodies: BodyStep
    batches: list[ConstraintBatch]

    def __post_init__(self) -> None:
        self.batches = [b for b in self.batches if turns(b.set.constraint)]
        self._given = [copy(batch.parameters) for batch in self.batches]
        for batch in self.batches:
            batch.parameters.turned = zeros(
                batch.set.count, self.model.dtype, self.model.device, self.model.requires_grad
            )

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        return [batch.parameters.turned for batch in self.batches]

    def find(self, body_qd: array, last: array, dt: float) -> None:
        """For a step that begins with these velocities; last: those one step earlier."""
        for batch, given in zip(self.batches, self._given, strict=True):
            made = batch.set
            inputs = [made.points, batch.placing, given, self.bodies.start, body_qd, last, dt]
            kernel = make_turned(made.constraint, made.slots, self.model.dtype)
            launch(kernel, made.count, inputs, [batch.parameters.turned])
