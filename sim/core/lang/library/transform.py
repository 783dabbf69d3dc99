"""Rigid transformations (p, q): x -> q x q^-1 + p, and their 4x4 matrices."""

from __future__ import annotations

import ast
from typing import Any

from sim.core.lang.frontend.function import Function, func
from sim.core.lang.frontend.traced import Keywords, Positional
from sim.core.lang.frontend.tracing.calls import call_function
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.frontend.tracing.registry import Builtin, argument_node
from sim.core.lang.library.export import export, public
from sim.core.lang.library.matrix import mat_transform_point, mat_transform_vector
from sim.core.lang.library.quaternion import quat_from_matrix, quat_inverse, quat_multiply, quat_rotate, quat_to_matrix
from sim.core.lang.library.static import is_matrix, matrix_type, quaternion_type, transformation_type, vector_type
from sim.core.lang.library.vector import cross, length, spatial_bottom, spatial_top, spatial_vector


@export
def transform_identity(dtype=float):
    """No translation and no rotation."""
    return transformation_type(dtype)(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


@export
def transform_get_translation(t):
    """The translation p."""
    return vector_type(t, 3)(t[0], t[1], t[2])


@export
def transform_get_rotation(t):
    """The rotation q."""
    return quaternion_type(t)(t[3], t[4], t[5], t[6])


@func
def _transform(p, q):
    return transformation_type(p)(p[0], p[1], p[2], q[0], q[1], q[2], q[3])


@func
def _with_translation(t, p):
    return _transform(p, transform_get_rotation(t))


@func
def _with_rotation(t, q):
    return _transform(transform_get_translation(t), q)


def _setter(name: str, part: str, function: Function, doc: str) -> Builtin:
    """A builtin that assigns `function(t, value)` to the variable t; on the host it changes the part of a value."""

    def on_host(t: Any, value: Any) -> None:
        setattr(t, part, value)

    def handler(t: Context, node: ast.Call, args: Positional, kwargs: Keywords) -> None:
        place = argument_node(node, 0, "xform")
        if not isinstance(place, ast.Name) or place.id not in t.env:
            raise t.error(
                node,
                f"{name} changes a local variable, its first argument",
                "write `t = a[i]`, change t, then `a[i] = t`",
            )
        kwargs = {"t" if key == "xform" else key: value for key, value in kwargs.items()}
        t.env[place.id] = call_function(t, function, args, kwargs, node)

    return public(Builtin(name, handler, doc, host=on_host))


transform_set_translation = _setter("transform_set_translation", "p", _with_translation, "Sets the translation p of t.")
transform_set_rotation = _setter("transform_set_rotation", "q", _with_rotation, "Sets the rotation q of t.")


@export
def transform_multiply(a, b):
    """(p_a + q_a p_b, q_a q_b): applies b first, then a (operator *)."""
    q = transform_get_rotation(a)
    p = transform_get_translation(a) + quat_rotate(q, transform_get_translation(b))
    return _transform(p, quat_multiply(q, transform_get_rotation(b)))


@export
def transform_inverse(t):
    """(-q^-1 p, q^-1)."""
    q = quat_inverse(transform_get_rotation(t))
    return _transform(-quat_rotate(q, transform_get_translation(t)), q)


@export
def transform_point(t, x):
    """p + q x; of a 4x4 matrix: the first three components of m (x, 1)."""
    if is_matrix(t):
        return mat_transform_point(t, x)
    return transform_get_translation(t) + quat_rotate(transform_get_rotation(t), x)


@export
def transform_vector(t, x):
    """q x: without the translation; of a 4x4 matrix: the first three components of m (x, 0)."""
    if is_matrix(t):
        return mat_transform_vector(t, x)
    return quat_rotate(transform_get_rotation(t), x)


@export
def transform_from_matrix(m):
    """The transformation of a 4x4 matrix [[R, p], [0, 1]] with a rotation R."""
    return _transform(vector_type(m, 3)(m[0, 3], m[1, 3], m[2, 3]), quat_from_matrix(m))


@export
def transform_to_matrix(t):
    """The 4x4 matrix [[R, p], [0, 1]]."""
    return _homogeneous(transform_get_translation(t), quat_to_matrix(transform_get_rotation(t)))


@func
def _homogeneous(p, r):
    return matrix_type(p, 4, 4)(
        r[0, 0], r[0, 1], r[0, 2], p[0],
        r[1, 0], r[1, 1], r[1, 2], p[1],
        r[2, 0], r[2, 1], r[2, 2], p[2],
        0.0, 0.0, 0.0, 1.0,
    )  # fmt: skip


@export
def transform_compose(position, rotation, scale):
    """The 4x4 matrix [[R diag(scale), position], [0, 1]]: scales, rotates, then translates."""
    r = quat_to_matrix(rotation)
    for i in range(3):
        for j in range(3):
            r[i, j] = r[i, j] * scale[j]
    return _homogeneous(position, r)


@export
def transform_decompose(m):
    """(position, rotation, scale) of a 4x4 matrix [[R diag(scale), position], [0, 1]] with positive scales."""
    v = vector_type(m, 3)
    r = matrix_type(m, 3, 3)()
    scale = v()
    for j in range(3):
        column = v(m[0, j], m[1, j], m[2, j])
        scale[j] = length(column)
        inverse_size = 1.0
        if scale[j] != 0.0:
            inverse_size = 1.0 / scale[j]
        for i in range(3):
            r[i, j] = column[i] * inverse_size
    return v(m[0, 3], m[1, 3], m[2, 3]), quat_from_matrix(r), scale


@export
def transform_twist(t, x):
    """The twist (w, v) in another frame: (q w, q v + p x q w)."""
    q = transform_get_rotation(t)
    w = quat_rotate(q, spatial_top(x))
    return spatial_vector(w, quat_rotate(q, spatial_bottom(x)) + cross(transform_get_translation(t), w))


@export
def transform_wrench(t, x):
    """The wrench (tau, f) in another frame: (q tau + p x q f, q f)."""
    q = transform_get_rotation(t)
    f = quat_rotate(q, spatial_bottom(x))
    return spatial_vector(quat_rotate(q, spatial_top(x)) + cross(transform_get_translation(t), f), f)
