"""The energy and the forces that follow from C: E = C^T alpha^-1 C / 2 (XPBD eq. 1), f = -dE/dx = -J^T alpha^-1 C.

For solvers that work with forces, for reports, and for tests: XPBD itself never forms alpha^-1, so that it can take
alpha = 0, where the energy is infinite and everything here raises.  Unilateral constraints (C >= 0) have energy
where C < 0 only.
"""

from __future__ import annotations

import numpy as np

from sim.constraints.base import Constraint, ConstraintError
from sim.constraints.projection import constraint_at, parameter_struct, value_type
from sim.core.lang.embedding import embed, fields_at
from sim.core.lang.errors import did_you_mean, entry_point
from sim.core.lang.frontend.builtins import atomic_add, static, tid
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.model.constraint_set import ConstraintSet
from sim.model.model import Model
from sim.model.state import State


@memoize
def make_energy(c: Constraint, real: Scalar) -> Kernel:
    """A kernel, one thread per constraint, that adds C^T alpha^-1 C / 2 [J] to `energy[0]`, and what its internal
    variables hold beside C."""
    vec3, Data, value = vector(3, real), parameter_struct(c, real), value_type(c, real)
    n_points, rows, unilateral, elastic = c.points, c.rows, c.unilateral, c.active(damped=False)
    at = constraint_at(c, real, gradient=False)
    holds, held_at = c.stores_energy, embed(lambda: c.stored(real), f"held_by_{c.name}")

    @kernel(name=f"energy_{c.name}")
    def energy_of(points: array2d[int], data: Data, compliance: array[value], x: array[vec3], energy: array[real]):
        k = tid()
        x_k = [x[points[k, j]] for j in static(range(n_points))]
        C = at(x_k, data, k)
        if holds:
            held = held_at(x_k, fields_at(data, k))
        total = real(0.0)
        for r in static(elastic):
            c_r = min(C[r], real(0.0)) if unilateral else C[r]
            square = c_r * c_r + held[r] if holds else c_r * c_r
            total += 0.5 * square / (compliance[k] if rows == 1 else compliance[k][r])
        atomic_add(energy, 0, total)

    return energy_of


@memoize
def make_force(c: Constraint, real: Scalar) -> Kernel:
    """A kernel, one thread per constraint, that adds -J^T alpha^-1 C [N] to the forces on its points."""
    vec3, Data, value = vector(3, real), parameter_struct(c, real), value_type(c, real)
    n_points, rows, unilateral, elastic = c.points, c.rows, c.unilateral, c.active(damped=False)
    at = constraint_at(c, real, gradient=True)

    @kernel(name=f"force_{c.name}")
    def force_of(points: array2d[int], data: Data, compliance: array[value], x: array[vec3], force: array[vec3]):
        k = tid()
        C, J = at([x[points[k, j]] for j in static(range(n_points))], data, k)
        for r in static(elastic):
            c_r = min(C[r], real(0.0)) if unilateral else C[r]
            multiplier = -c_r / (compliance[k] if rows == 1 else compliance[k][r])
            for j in static(range(n_points)):
                atomic_add(force, points[k, j], multiplier * J[r][j])

    return force_of


@entry_point
def constraint_energy(model: Model, state: State, name: str) -> float:
    """Elastic energy [J] of all constraints of one kind of a model in a state, that of its internal variables too."""
    if name not in model.constraint_sets:
        raise ConstraintError(f"the model has no constraint '{name}'{did_you_mean(name, model.constraint_sets)}")
    made = model.constraint_sets[name]
    total = zeros(1, model.dtype, model.device, requires_grad=False)
    _launch(make_energy(made.constraint, model.dtype), model, made, state, total)
    return float(total.numpy()[0])


@entry_point
def constraint_forces(model: Model, state: State, out: array) -> None:
    """Adds the elastic forces of all constraints of a model in a state to `out`, (n,) vec3 [N]."""
    for made in model.constraint_sets.values():
        _launch(make_force(made.constraint, model.dtype), model, made, state, out)


def _launch(of: Kernel, model: Model, made: ConstraintSet, state: State, out: array) -> None:
    if not made.slots.only_particles:
        raise ConstraintError(f"the constraint '{made.name}' acts on bodies: its energy is not computed yet")
    model.refresh()
    stiff = np.argwhere(made.compliance.device.numpy(made.compliance) == 0.0)
    if len(stiff):
        points = made.points.device.numpy(made.points)[stiff[0][0]].tolist()
        raise ConstraintError(
            f"the constraint '{made.constraint.name}' on points {points} has compliance 0: its energy is infinite off "
            "C = 0; give it a positive compliance"
        )
    data = parameter_struct(made.constraint, model.dtype)()
    internal = made.constraint.internal_variables
    for name, values in made.parameters.items():
        setattr(data, name, state.internal_variables[f"{made.name}.{name}"] if name in internal else values)
    launch(of, made.count, [made.points, data, made.compliance, state.particle_q], [out])
