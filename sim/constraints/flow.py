"""The memory of constraints: variables of each element that flow with its deformation, as viscous strain does."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
import ast
from typing import Any

from sim.constraints.base import Constraint
from sim.constraints.projection import parameter_struct
from sim.core.lang.frontend.builtins import Builtin, static, tid
from sim.core.lang.frontend.context import Context
from sim.core.lang.frontend.traced import flatten
from sim.core.lang.frontend.tracer import traced
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, leaves_of, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@memoize
def make_flow(c: Constraint, real: Scalar, name: str) -> Kernel:
    """A kernel, one thread per constraint, that writes the memory `name` after a step of dt to `after`.

    x: positions at the start of the step; `data` holds the memory there.
    """
    vec3, Data, kind = vector(3, real), parameter_struct(c, real), c.parameters[name].type(real)
    n_points = c.points
    types = [(vec3,) * n_points, *(p.type(real) for p in c.parameters.values()), real]
    sizes = {m: len(leaves_of(c.parameters[m].type(real))) for m in c.memory}
    begin = sum(sizes[m] for m in c.memory[: c.memory.index(name)])
    width = sizes[name]

    def handler(t: Context, node: ast.AST, args: tuple, kwargs: dict) -> Any:
        points, data, k, dt = args
        flat = flatten(points)
        for parameter in c.parameters:
            flat = [*flat, *flatten(t.load(t.item(data.values[parameter], (k,), node)))]
        return tuple(t.inline(traced(c.flow, types, real), [*flat, *flatten(dt)])[begin : begin + width])

    flow_at = Builtin(f"flow_of_{c.name}", handler)

    @kernel(name=f"flow_{c.name}_{name}")
    def flow(points: array2d[int], data: Data, x: array[vec3], dt: real, after: array[kind]):
        k = tid()
        values = flow_at([x[points[k, j]] for j in static(range(n_points))], data, k, dt)
        if width == 1:
            after[k] = values[0]
        else:
            after[k] = kind(values[0], values[1], values[2])

    return flow
