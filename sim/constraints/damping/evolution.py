"""The evolution laws of internal variables: what elements carry from step to step, as viscous strain."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from sim.constraints.base import Constraint
from sim.constraints.projection import parameter_struct
from sim.core.lang.embedding import embed, fields_at
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, leaves_of, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@memoize
def make_evolution(c: Constraint, real: Scalar, name: str) -> Kernel:
    """A kernel, one thread per constraint, that writes the internal variable `name` after a step of dt to `after`.

    x, v: positions and velocities at the start of the step; `data` holds the internal variables there.
    """
    vec3, Data, kind = vector(3, real), parameter_struct(c, real), c.parameters[name].type(real)
    n_points, anticipates = c.points, c.anticipates
    sizes = {m: len(leaves_of(c.parameters[m].type(real))) for m in c.internal_variables}
    begin = sum(sizes[m] for m in c.internal_variables[: c.internal_variables.index(name)])
    width, alone = sizes[name], c.parameters[name].kind == "float"

    evolved = embed(lambda: c.evolved(real), f"evolution_of_{c.name}")

    @kernel(name=f"evolve_{c.name}_{name}")
    def evolve(points: array2d[int], data: Data, x: array[vec3], v: array[vec3], dt: real, after: array[kind]):
        k = tid()
        x_k = [x[points[k, j]] for j in static(range(n_points))]
        if anticipates:
            ahead = [x_k[j] + dt * v[points[k, j]] for j in static(range(n_points))]
            values = evolved(x_k, ahead, fields_at(data, k), dt)
        else:
            values = evolved(x_k, fields_at(data, k), dt)
        if alone:
            after[k] = values[begin]
        else:
            evolved_to = kind()
            for i in static(range(width)):
                evolved_to[i] = values[begin + i]
            after[k] = evolved_to

    return evolve
