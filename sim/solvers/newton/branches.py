"""Constraints with branches that have relaxed: what lasts of them, and what they remember then."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from dataclasses import replace

from sim.constraints.damping.branches import BranchedConstraint
from sim.constraints.projection import parameter_struct, value_type
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, float64
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros_like
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.model.state import State
from sim.solvers.batch import ConstraintBatch, placing_of
from sim.solvers.bodies import BodyStep

LONG = 1e12
"""A time [s] after which every branch has relaxed."""


class RelaxedBranches:
    """A set of constraints with branches at rest.

    lasting: the same constraints without branches, of the lasting stiffness: alpha of a row with branches is that of
    the set over 1 - sum of the shares (see `sim.constraints.damping.branches`).
    """

    def __init__(self, batch: ConstraintBatch, bodies: BodyStep) -> None:
        self.batch, self.bodies = batch, bodies
        made, c = batch.set, batch.set.constraint
        own = {name: made.parameters[name] for name in c.own.parameters}
        parameters = parameter_struct(c.own, float64)()
        for name, values in own.items():
            setattr(parameters, name, values)
        alpha = zeros_like(made.compliance, requires_grad=made.compliance.requires_grad)
        lasting = replace(made, constraint=c.own, parameters=own, compliance=alpha)
        self.lasting = ConstraintBatch(lasting, parameters, batch.multiplier, {}, placing_of(lasting, float64))

    def derive(self) -> None:
        """The compliance of what lasts; recorded."""
        made = self.batch.set
        inputs = [self.batch.parameters, made.compliance]
        launch(_lasting(made.constraint, float64), made.count, inputs, [self.lasting.set.compliance])

    def relax(self, before: State, x: array, still: array, made: State) -> None:
        """What the branches remember at positions x, in internal variables of a state; recorded."""
        batch = self.batch
        for name, evolution in batch.evolutions.items():
            start = [x, still, self.bodies.start, before.body_qd]
            inputs = [batch.set.points, batch.placing, batch.parameters_in(before), *start, LONG]
            launch(evolution, batch.set.count, inputs, [made.internal_variables[f"{batch.set.name}.{name}"]])


@memoize
def _lasting(c: BranchedConstraint, real: Scalar) -> Kernel:
    Data, value, branching = parameter_struct(c, real), value_type(c, real), c.branching
    first, end = (list(c.parameters).index(f"share_{k}") for k in (0, len(c.gives) - 1))

    @kernel(name=f"lasting_{c.name}")
    def lasting(data: Data, alpha: array[value], out: array[value]):
        k = tid()
        values = fields_at(data, k)
        lasts = 1.0 - sum([values[i] for i in static(range(first, end + 1))])
        if static(c.rows == 1):
            out[k] = alpha[k] / lasts
        else:
            found = value()
            for r in static(range(c.rows)):
                found[r] = alpha[k][r] / lasts if r in branching else alpha[k][r]
            out[k] = found

    return lasting
