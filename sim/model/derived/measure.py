"""Parameters of constraints that nobody gave, measured on the rest shape."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from collections.abc import Mapping

import numpy as np

from sim.constraints.base import Constraint
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import slot_struct
from sim.constraints.slots.linearization import seen_points
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import embed, fields_at, traced
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.library.quaternion import quat_rotate
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, leaves_of, transformation, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import empty
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch


def measure_rest(
    c: Constraint,
    real: Scalar,
    x: array,
    points: array,
    parameters: Mapping[str, array],
    slots: Slots,
    placing: Mapping[str, array],
    bodies: tuple[array, array],
) -> dict[str, np.ndarray]:
    """Measured parameters by name, (n,) or (n, 3), of n constraints on `points` (n, k) at positions `x`.

    slots, placing: see `ConstraintSet`; bodies: poses and centres of mass.

    `rest` is the value of C where the given `parameters` have rest = 0; a constraint with a function of its own to
    measure them (`@name.rest`) has all parameters measured.
    """
    count = points.shape[0]
    data = parameter_struct(c, real)()
    for name, values in parameters.items():
        setattr(data, name, values)
    names = c.measured
    sizes = [len(leaves_of(c.parameters[name].type(real))) for name in names]
    out = empty((count, sum(sizes)), real, x.device)
    placed = slot_struct(c, slots, real)()
    for name, values in placing.items():
        setattr(placed, name, values)
    launch(_measurement(c, real, slots), dim=count, inputs=[x, points, placed, *bodies, data], outputs=[out])
    host = out.device.numpy(out)
    columns = np.split(host, np.cumsum(sizes)[:-1], axis=1)
    return {n: col[:, 0] if size == 1 else col for n, col, size in zip(names, columns, sizes, strict=True)}


@memoize
def _measurement(c: Constraint, real: Scalar, slots: Slots) -> Kernel:
    vec3, Data, Placed, frame = (
        vector(3, real),
        parameter_struct(c, real),
        slot_struct(c, slots, real),
        transformation(real),
    )
    types = [c.point_types(real)]
    width = c.rows if c.measure is None else len(traced(c.measure, types, real).body.yields)
    points_at, particles, owners = seen_points(c, slots, real), slots.particles, tuple(own[0] for own in slots.bodies)

    own = c.measure is not None
    values_at = embed(lambda: traced(c.measure, types, real) if own else c.traced(real), f"measure_{c.name}")

    @kernel(name=f"measure_{c.name}")
    def measure(
        x: array[vec3],
        points: array2d[int],
        placed: Placed,
        body_q: array[frame],
        com: array[vec3],
        data: Data,
        out: array2d[real],
    ):
        k = tid()
        b_k = [body_q[points[k, j]] for j in static(owners)]
        com_k = [com[points[k, j]] for j in static(owners)]
        poses = [(b_k[g].p + quat_rotate(b_k[g].q, com_k[g]), b_k[g].q) for g in static(range(len(owners)))]
        x_k = points_at([x[points[k, j]] for j in static(particles)], poses, fields_at(placed, k))
        values = values_at(x_k) if own else values_at(x_k, fields_at(data, k))
        for j in static(range(width)):
            out[k, j] = values[j]

    return measure
