"""From values of a material law (Young's modulus, ...) to compliances and parameters of constraints, on the tape."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from collections.abc import Mapping

import numpy as np

from sim.constraints.base import Constraint
from sim.constraints.projection import value_type
from sim.core.lang.embedding import embed, fields_at
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, Struct, array_type
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.model.derived.arrays import ArrayFactory, source_of
from sim.model.derived.derivation import Derivation


def law_derivations(
    c: Constraint,
    values: Mapping[str, array],
    count: int,
    chosen: np.ndarray,
    target: np.ndarray,
    size: np.ndarray,
    outputs: Mapping[str, array],
    make: ArrayFactory,
) -> list[Derivation]:
    """Derivations of `outputs` (`compliance`, parameters) for rows `target` from elements `chosen` of `count`.

    values: each (1,) for all elements, (worlds,) or (count,); size: of the chosen elements at rest.
    """
    source = np.stack([source_of(chosen, v.size, count) for v in values.values()], axis=1)
    data = value_struct(c, make.real)()
    for name, value in values.items():
        setattr(data, _field(name), value)
    inputs = [
        data,
        make.constant(source, int),
        make.constant(size, make.real),
        make.constant(target.astype(np.int32), int),
    ]
    return [
        Derivation(_law_kernel(c, make.real, name), len(chosen), inputs, [out], values=list(values.values()))
        for name, out in outputs.items()
    ]


@memoize
def value_struct(c: Constraint, real: Scalar) -> Struct:
    """The values of a law: one array each."""
    return Struct(f"{c.name}_values", {_field(name): array_type(real) for name in c.law.values})


def _field(name: str) -> str:
    return name.replace(".", "_")


@memoize
def _law_kernel(c: Constraint, real: Scalar, output: str) -> Kernel:
    """out[target[k]] = what the law says of `output` for element k."""
    Values, names, rows = value_struct(c, real), list(c.law.values), c.rows
    first, width = (0, rows) if output == "compliance" else (rows + c.law.derived.index(output), 1)
    kind = value_type(c, real) if output == "compliance" else real

    law_at = embed(lambda: c.law.traced(real), f"law_of_{c.name}")

    @kernel(name=f"{output}_of_{c.name}")
    def derive(values: Values, source: array2d[int], size: array[real], target: array[int], out: array[kind]):
        k = tid()
        found = law_at(fields_at(values, [source[k, i] for i in static(range(len(names)))]), size[k])
        if width == 1:
            out[target[k]] = found[first]
        else:
            entries = kind()
            for r in static(range(width)):
                entries[r] = found[first + r]
            out[target[k]] = entries

    return derive
