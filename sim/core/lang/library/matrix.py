"""Matrices of any shape; inverse and determinant up to 4x4."""

from __future__ import annotations

import ast
from typing import Any

from sim.core.lang.frontend.builtins import where
from sim.core.lang.frontend.function import func
from sim.core.lang.frontend.traced import VectorValue
from sim.core.lang.frontend.tracing.registry import Builtin
from sim.core.lang.library.export import export, public
from sim.core.lang.library.static import matrix_type, scalar_type, vector_type
from sim.core.lang.library.vector import dot
from sim.core.lang.types import Vector, matrix


@func
def mat_mat(a, b):
    """The product a b: c_ij = sum_k a_ik b_kj (operators * and @)."""
    c = matrix_type(a, len(a), len(b[0]))()
    for i in range(len(a)):
        for j in range(len(b[0])):
            total = a[i, 0] * b[0, j]
            for k in range(1, len(b)):
                total += a[i, k] * b[k, j]
            c[i, j] = total
    return c


@func
def mat_vec(a, x):
    """The product a x: y_i = sum_k a_ik x_k (operators * and @)."""
    y = vector_type(a, len(a))()
    for i in range(len(a)):
        y[i] = dot(a[i], x)
    return y


@func
def vec_mat(x, a):
    """The product x^T a: y_j = sum_k x_k a_kj (operators * and @)."""
    y = a[0] * x[0]
    for k in range(1, len(a)):
        y += a[k] * x[k]
    return y


@export
def transpose(m):
    """m^T."""
    t = matrix_type(m, len(m[0]), len(m))()
    for i in range(len(m)):
        for j in range(len(m[0])):
            t[j, i] = m[i, j]
    return t


def _from_lines(name: str, columns: bool) -> Builtin:
    def handler(tracer: Any, node: ast.AST, args: tuple, kwargs: dict[str, Any]) -> VectorValue:
        kinds = {a.type if isinstance(a, VectorValue) else None for a in args}
        kind = kinds.pop() if len(kinds) == 1 and not kwargs else None
        if not isinstance(kind, Vector):
            raise tracer.error(node, f"{name} takes vectors of one type", f"write {name}(a, b, c)")
        n, m = len(args), kind.length
        if columns:
            return VectorValue(matrix((m, n), kind.dtype), tuple(args[j].leaves[i] for i in range(m) for j in range(n)))
        return VectorValue(matrix((n, m), kind.dtype), tuple(leaf for a in args for leaf in a.leaves))

    return public(Builtin(name, handler, f"The matrix whose {'columns' if columns else 'rows'} are the given vectors."))


matrix_from_cols = _from_lines("matrix_from_cols", True)
matrix_from_rows = _from_lines("matrix_from_rows", False)


@export
def trace(m):
    """sum_i m_ii."""
    total = m[0, 0]
    for i in range(1, len(m)):
        total += m[i, i]
    return total


@export
def get_diag(m):
    """The diagonal of a square matrix."""
    d = vector_type(m, len(m))()
    for i in range(len(m)):
        d[i] = m[i, i]
    return d


@export
def ddot(a, b):
    """sum_ij a_ij b_ij."""
    total = dot(a[0], b[0])
    for i in range(1, len(a)):
        total += dot(a[i], b[i])
    return total


@export
def determinant(m):
    """det(m) of a 1x1 to 4x4 matrix."""
    if len(m) == 1:
        return m[0, 0]
    if len(m) == 2:
        return m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
    return dot(m[0], _cofactors(m)[0])


@func
def _cofactors(m):
    """c_ij = (-1)^(i+j) times the minor without row i and column j; m^-1 = c^T / det(m)."""
    c = type(m)()
    if len(m) == 1:
        c[0, 0] = scalar_type(m)(1)
    elif len(m) == 2:
        c = type(m)(m[1, 1], -m[1, 0], -m[0, 1], m[0, 0])
    elif len(m) == 3:
        for i in range(3):
            for j in range(3):
                r, s, t, u = (i + 1) % 3, (i + 2) % 3, (j + 1) % 3, (j + 2) % 3
                c[i, j] = m[r, t] * m[s, u] - m[r, u] * m[s, t]
    else:
        for i in range(4):
            for j in range(4):
                # the three rows and the three columns that are left, in ascending order
                r, s, t = 0 if i > 0 else 1, 1 if i > 1 else 2, 2 if i > 2 else 3
                u, v, w = 0 if j > 0 else 1, 1 if j > 1 else 2, 2 if j > 2 else 3
                minor = (
                    m[r, u] * (m[s, v] * m[t, w] - m[s, w] * m[t, v])
                    - m[r, v] * (m[s, u] * m[t, w] - m[s, w] * m[t, u])
                    + m[r, w] * (m[s, u] * m[t, v] - m[s, v] * m[t, u])
                )
                c[i, j] = minor if (i + j) % 2 == 0 else -minor
    return c


@export
def inverse(m):
    """m^-1 of a 1x1 to 4x4 matrix; the zero matrix where det(m) = 0.  Derivative -m^-T ct m^-T."""
    c = _cofactors(m)
    det = dot(m[0], c[0])
    inverse_det = 1.0 / where(det != 0.0, det, 1.0)
    return transpose(c) * where(det != 0.0, inverse_det, 0.0)


@inverse.vjp
def _inverse_vjp(m, result, ct):
    t = transpose(result)
    return -(t * ct * t)


@export
def inverse_approx(m):
    """As `inverse` (Warp's name for a variant with fast division)."""
    return inverse(m)


@func
def mat_transform_point(m, p):
    """The first three components of m (p, 1)."""
    return type(p)(
        m[0, 0] * p[0] + m[0, 1] * p[1] + m[0, 2] * p[2] + m[0, 3],
        m[1, 0] * p[0] + m[1, 1] * p[1] + m[1, 2] * p[2] + m[1, 3],
        m[2, 0] * p[0] + m[2, 1] * p[1] + m[2, 2] * p[2] + m[2, 3],
    )


@func
def mat_transform_vector(m, v):
    """The first three components of m (v, 0)."""
    return type(v)(
        m[0, 0] * v[0] + m[0, 1] * v[1] + m[0, 2] * v[2],
        m[1, 0] * v[0] + m[1, 1] * v[1] + m[1, 2] * v[2],
        m[2, 0] * v[0] + m[2, 1] * v[1] + m[2, 2] * v[2],
    )


@export
def spatial_adjoint(r, s):
    """The 6x6 matrix [[r, 0], [s, r]] of 3x3 blocks."""
    m = matrix_type(r, 6, 6)()
    for i in range(3):
        for j in range(3):
            m[i, j] = r[i, j]
            m[i + 3, j] = s[i, j]
            m[i + 3, j + 3] = r[i, j]
    return m
