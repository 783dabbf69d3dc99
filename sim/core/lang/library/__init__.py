"""The standard library of the kernel language, written in the language, with Warp's names and argument orders.

`LIBRARY` has every public function by name (`@export` puts it there), `RANDOM` those that draw random numbers.  The
primitives of the op table (sin, sqrt, floor, ...) need no entry here.
"""

from __future__ import annotations

from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.tracing.operators import OPERATORS
from sim.core.lang.library import (
    decompose,
    dense,
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
from sim.core.lang.library.forms import FORMS

__all__ = [
    "LIBRARY",
    "RANDOM",
    "decompose",
    "dense",
    "intersect",
    "noise",
    "rand",
    "scalar",
    "search",
    "special",
    "vector",
]

INNER = {f.name: f for f in (matrix.mat_mat, matrix.mat_vec, matrix.vec_mat, rand._randi, rand._randu)}
"""Functions with forms that are called by an operator or a builtin."""
OPERATORS.update(
    {
        ("mul", "matrix", "matrix"): matrix.mat_mat,
        ("mul", "matrix", "vector"): matrix.mat_vec,
        ("mul", "vector", "matrix"): matrix.vec_mat,
        ("mul", "quat", "quat"): quaternion.quat_multiply,
        ("mul", "transform", "transform"): transform.transform_multiply,
    }
)

SYNONYMS = {
    "determinant inverse inverse_approx trace transpose": {"a": "m"},
    "diag": {"vec": "d"},
    "skew": {"vec": "a"},
    "get_diag quat_from_matrix transform_from_matrix": {"mat": "m"},
    "eig3 qr3 svd2 svd3": {"A": "a"},
    "erfinv erfcinv": {"x": "p"},
    "isfinite isinf isnan": {"a": "x"},
    "smoothstep": {"a": "edge0", "b": "edge1"},
    "spatial_bottom spatial_top": {"svec": "a"},
    "noise pnoise curlnoise": {"xy": "x", "xyz": "x", "xyzt": "x"},
    "quat_inverse quat_to_axis_angle quat_to_matrix quat_rotate quat_rotate_inv": {"quat": "q", "vec": "x"},
    "transform_get_rotation transform_get_translation transform_inverse transform_to_matrix": {"xform": "t"},
    "transform_point": {"xform": "t", "mat": "t", "point": "x"},
    "transform_vector": {"xform": "t", "mat": "t", "vec": "x"},
}
"""What Warp calls parameters, where that is not our name."""
OUTPUTS = {"eig3": 2, "qr3": 2, "quat_to_axis_angle": 2, "svd2": 3, "svd3": 3}
"""Functions that Warp has in a second form too, `svd3(a, u, s, v)`: how many variables they assign to."""

_every = {**RANDOM, **LIBRARY, **INNER}
for _names, _forms in FORMS.items():
    for _name in _names.split():
        _function = _every[_name]
        assert isinstance(_function, Function)
        _function.takes = _forms
for _names, _synonyms in SYNONYMS.items():
    for _name in _names.split():
        _function = LIBRARY[_name]
        assert isinstance(_function, Function)
        _function.synonyms = _synonyms
for _name, _count in OUTPUTS.items():
    _function = LIBRARY[_name]
    assert isinstance(_function, Function)
    _function.outputs = _count
