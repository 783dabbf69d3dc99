"""The standard library of the kernel language, written in the language, with Warp's names and argument orders.

`LIBRARY` has every public function by name (`@export` puts it there), `RANDOM` those that draw random numbers.  The
primitives of the op table (sin, sqrt, floor, ...) need no entry here.
"""

from __future__ import annotations

from sim.core.lang.frontend.tracing.operators import OPERATORS
from sim.core.lang.library import (
    decompose,
    intersect,
    matrix,
    noise,
    quaternion,
    rand,
    scalar,
    search,
    special,
    transform,
    vector,
)
from sim.core.lang.library.export import LIBRARY, RANDOM

__all__ = ["LIBRARY", "RANDOM", "decompose", "intersect", "noise", "rand", "scalar", "search", "special", "vector"]

OPERATORS.update(
    {
        ("mul", "matrix", "matrix"): matrix.mat_mat,
        ("mul", "matrix", "vector"): matrix.mat_vec,
        ("mul", "vector", "matrix"): matrix.vec_mat,
        ("mul", "quat", "quat"): quaternion.quat_multiply,
        ("mul", "transform", "transform"): transform.transform_multiply,
    }
)
