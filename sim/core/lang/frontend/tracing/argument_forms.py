"""What functions of the library take: their parameters have no types, but forms, as "a vec3" or "of the type of `a`".

Without these a function would take whatever its body can work on: of two vectors, say, the components that both have.
"""

from __future__ import annotations

import ast

from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.traced import Keywords, TracedValue, VectorValue, describe, type_of
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.types import Homogeneous, Matrix, Quaternion, Scalar, Transformation, Vector

FAMILIES = {"vector": Vector, "matrix": Matrix, "quaternion": Quaternion, "transform": Transformation}
WORDS = {
    "vector": "a vector",
    "vector3": "a vec3",
    "vector6": "a spatial vector",
    "matrix": "a matrix",
    "matrix22": "a mat22",
    "matrix33": "a mat33",
    "matrix44": "a mat44",
    "square": "a square matrix",
    "quaternion": "a quaternion",
    "transform": "a transform",
}
"""The forms, as messages have them; several in one text, with spaces between, are alternatives.

Beside these "integer"; "=a": of the type of the argument a; "<a": with as many rows as a has columns (a vector has as
many of either as components).
"""


def check_forms(t: Context, function: Function, values: Keywords, node: ast.AST) -> None:
    """Refuses arguments that have not the forms that a function takes."""
    types = {key: x.type for key, x in values.items() if isinstance(x, VectorValue)}
    for name, form in function.takes.items():
        kind = types.get(name)
        if form == "integer":
            _check_integer(t, function, name, values[name], node)
        elif form[0] in "=<":
            _check_beside(t, function, form, types.get(form[1:]), kind, describe(values[name]), node)
        elif kind is None or not any(_has_form(kind, one) for one in form.split()):
            wanted = " or ".join(WORDS[one] for one in form.split())
            raise t.error(node, f"`{function.name}` takes {wanted} for '{name}', got {describe(values[name])}")


def _check_integer(t: Context, function: Function, name: str, given: TracedValue, node: ast.AST) -> None:
    """None is what stands for an argument that is not given."""
    kind = type_of(given, t.real)
    if given is not None and not (isinstance(kind, Scalar) and kind.is_int):
        what = f"`{function.name.lstrip('_')}` takes a whole number for '{name}', got {describe(given)}"
        raise t.error(node, what, f"write int({name}), which drops what is behind the point")


def _check_beside(
    t: Context,
    function: Function,
    form: str,
    other: Homogeneous | None,
    kind: Homogeneous | None,
    given: str,
    node: ast.AST,
) -> None:
    if form[0] == "=" and kind is not other:
        raise t.error(node, f"`{function.name}` takes two of one type, got {other} and {given}")
    if form[0] == "=" or kind is None or other is None:
        return
    if kind.shape[0] != other.shape[-1]:
        columns, rows = other.shape[-1], kind.shape[0]
        raise t.error(node, f"the product of {other} and {kind} is not defined: {columns} columns, {rows} rows")
    if kind.dtype is not other.dtype:
        raise t.error(node, f"* of {other} and {kind}: there is no implicit conversion", "convert one of them")


def _has_form(kind: Homogeneous, form: str) -> bool:
    family = form.rstrip("0123456789")
    if family == "square":
        return isinstance(kind, Matrix) and kind.rows == kind.cols
    shape = tuple(map(int, form[len(family) :]))
    return isinstance(kind, FAMILIES[family]) and shape in ((), kind.shape)
