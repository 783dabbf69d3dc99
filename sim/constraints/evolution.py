"""The evolution laws of internal variables: what elements carry from step to step, as viscous strain."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from sim.constraints.base import Constraint
from sim.constraints.projection import parameter_struct
from sim.core.lang.embedding import embed, fields_at, traced
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, leaves_of, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@memoize
def make_evolution(c: Constraint, real: Scalar, name: str) -> Kernel:
    """A kernel, one thread per constraint, that writes the internal variable `name` after a step of dt to `after`.

    x: positions at the start of the step; `data` holds the internal variables there.
    """
    vec3, Data, kind = vector(3, real), parameter_struct(c, real), c.parameters[name].type(real)
    n_points = c.points
    types = [(vec3,) * n_points, *(p.type(real) for p in c.parameters.values()), real]
    sizes = {m: len(leaves_of(c.parameters[m].type(real))) for m in c.internal_variables}
    begin = sum(sizes[m] for m in c.internal_variables[: c.internal_variables.index(name)])
    width = sizes[name]

    evolved = embed(lambda: traced(c.evolution, types, real), f"evolution_of_{c.name}")

    @kernel(name=f"evolve_{c.name}_{name}")
    def evolve(points: array2d[int], data: Data, x: array[vec3], dt: real, after: array[kind]):
        k = tid()
        values = evolved([x[points[k, j]] for j in static(range(n_points))], fields_at(data, k), dt)
        if width == 1:
            after[k] = values[begin]
        else:
            after[k] = kind(values[begin], values[begin + 1], values[begin + 2])

    return evolve
