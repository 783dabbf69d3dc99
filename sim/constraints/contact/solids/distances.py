"""Contact of a point with what a function of the user says the distance from: C >= 0 outside.

C is the function itself, seen from the frame of the shape, so that derivatives are those of its text.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from collections.abc import Callable

from sim.constraints.base import REGISTRY, Constraint, constraint
from sim.constraints.contact.solids.row_kernels import make_passing
from sim.constraints.slots.linearization import seen_points
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import embed, fields_at
from sim.core.lang.frontend.builtins import min, static, tid
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.frontend.tracing.registry import Builtin
from sim.core.lang.library.vector import length
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, float32, float64, vec3, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel, kernel

PLACES = 32
"""Of the way of a point in a step, where it is looked how deep it is."""
DEEP = 0.05
"""So deep, in parts of its way, a point has to have been that is outside as a step begins and as it ends."""
ROUNDING = {float64: 1e-14, float32: 1e-5}
"""The same in parts of where it is: what rests is as deep as rounding says."""

DISTANCES: dict[Callable[..., object], Constraint] = {}
"""The constraint of every function so far."""
FUNCTIONS: dict[Constraint, Function] = {}
"""The function of every one of these, and of their `PATCHES`."""


def contact_with(distance: Function | Callable[..., object]) -> Constraint:
    """The constraint of a function `distance(p, scale)` of the language: the same one for the same function.

    Two functions of one name have constraints of different names: sets of a model are told apart by them.
    """
    given = distance if isinstance(distance, Function) else func(distance)
    key = given.python
    if key not in DISTANCES:
        name, count = f"contact_sdf_{given.name}", 1
        while name in REGISTRY:
            count += 1
            name = f"contact_sdf_{given.name}_{count}"
        DISTANCES[key] = _declared(given, name)
        FUNCTIONS[DISTANCES[key]] = given
    return DISTANCES[key]


def _declared(distance: Function, name: str) -> Constraint:
    @constraint(
        points=2,
        unilateral=True,
        name=name,
        units={"scale": "", "thickness": "m"},
        added_by="add_shape_sdf",
        frames=(0,),
        reach=("", "thickness"),
    )
    def contact_sdf(x, scale: vec3, thickness: float = 0.0):
        """What a function says a point is away from a shape, minus the thickness.  C [m]."""
        return distance(x, scale) - thickness

    return contact_sdf


def passes_of(value: Function | Builtin, real: Scalar) -> Function:
    """`passes(a, b, parameters)` in a kernel: whether a point has come through between two places, with the results of
    `value(p, parameters)`.

    What a point is away from cannot be met before it has come as far: only where its way is longer than the distances
    at both ends together it is looked at, at `PLACES` of it.
    """

    @func
    def passes(a, b, parameters):
        come, C_0, C_1, found = length(b - a), value(a, parameters)[0], value(b, parameters)[0], False
        if C_0 + C_1 < come:
            deepest = min(C_0, C_1)
            for i in range(1, PLACES):
                s = real(i) / real(PLACES)
                deepest = min(deepest, value((1.0 - s) * a + s * b, parameters)[0])
            least = static(DEEP) * come + static(ROUNDING[real]) * (length(a) + length(b))
            found = deepest < min(min(C_0, C_1), real(0.0)) - least
        return found

    return passes


@memoize
def make_distance_passing(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """Of the constraints `tid()` of a point and one of `DISTANCES`: those that have been come through, by the greatest
    number, from 1 on."""
    passes = passes_of(embed(lambda: c.traced(real), f"{c.name}_at"), real)

    @func
    def passed(a, b, k, data, meshes):
        return passes(a, b, fields_at(data, k))

    return make_passing(c, slots, real, seen_points(c, slots, real), passed)


@memoize
def make_measure(distance: Function) -> Kernel:
    """What a function says that places `tid()` are away, seen by its own frame."""
    kind = vector(3, float64)

    @kernel(name=f"measure_{distance.name}")
    def measure(places: array[kind], scale: kind, out: array[float64]):
        out[tid()] = distance(places[tid()], scale)

    return measure
