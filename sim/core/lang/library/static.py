"""What library code asks about its arguments while it is traced: kind, scalar type, types made from it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

from sim.core.lang.frontend.traced import Keywords, Positional, type_of
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.frontend.tracing.registry import Builtin
from sim.core.lang.types import (
    Matrix,
    Quaternion,
    Scalar,
    Type,
    as_scalar,
    matrix,
    quaternion,
    scalar_of,
    transformation,
    vector,
)


def _question(name: str, answer: Callable[..., Any], doc: str) -> Builtin:
    """A builtin with a static answer.  The first argument is a value (its type counts), a type, `float`, ..."""

    def handler(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> Any:
        first, *rest = args
        kind = first if isinstance(first, Type) else type_of(first, t.real)
        if kind is None:
            kind = t.real if first is float else as_scalar(first)
        return answer(kind, *rest)

    return Builtin(name, handler, doc)


def _scalar(kind: Type) -> Scalar:
    found = scalar_of(kind)
    if found is None:
        raise TypeError(f"{kind} has no scalar type")
    return found


def _epsilon(kind: Type) -> float:
    scalar = _scalar(kind)
    return float(np.finfo(scalar.np).eps) if scalar.is_float else 0.0


is_scalar = _question("is_scalar", lambda kind: isinstance(kind, Scalar), "Whether x is a scalar.")
is_float = _question(
    "is_float", lambda kind: _scalar(kind).is_float, "Whether the components of x are floating-point numbers."
)
is_matrix = _question("is_matrix", lambda kind: isinstance(kind, Matrix), "Whether x is a matrix.")
is_quaternion = _question("is_quaternion", lambda kind: isinstance(kind, Quaternion), "Whether x is a quaternion.")
epsilon = _question("epsilon", _epsilon, "Distance from 1 to the next number of the scalar type of x.")
scalar_type = _question("scalar_type", _scalar, "The scalar type of x.")
vector_type = _question(
    "vector_type", lambda kind, n: vector(n, _scalar(kind)), "The vector type of length n over the scalars of x."
)
matrix_type = _question(
    "matrix_type", lambda kind, n, m: matrix((n, m), _scalar(kind)), "The n x m matrix type over the scalars of x."
)
quaternion_type = _question(
    "quaternion_type", lambda kind: quaternion(_scalar(kind)), "The quaternion type over the scalars of x."
)
transformation_type = _question(
    "transformation_type", lambda kind: transformation(_scalar(kind)), "The transform type over the scalars of x."
)
