"""Atomic updates of array elements: one thread at a time, each gets the old value."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from sim.core.lang.frontend import pointers
from sim.core.lang.frontend.chosen_arrays import by_option
from sim.core.lang.frontend.traced import (
    ArrayRef,
    ChosenArray,
    Keywords,
    LocalArray,
    LValue,
    PointerArray,
    Positional,
    TracedValue,
    describe,
    is_number,
    type_of,
)
from sim.core.lang.frontend.tracing.components import subscript
from sim.core.lang.frontend.tracing.construct import construct
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.frontend.tracing.operators import unary
from sim.core.lang.frontend.tracing.registry import NAMES, Builtin
from sim.core.lang.ir.core import Value
from sim.core.lang.types import Homogeneous, bool_, scalar_of


def element(
    t: Context, name: str, args: Positional, node: ast.AST, values: tuple[str, ...] = ("a value",)
) -> tuple[LValue, Positional]:
    """Array element and values of `atomic_add(array, i, j, value)`."""
    ref = args[0] if args else None
    listed = ", ".join(v.split()[-1] for v in values)
    if not isinstance(ref, ArrayRef):
        raise t.error(
            node,
            f"{name} takes an array, indices and {' and '.join(values)}, got {describe(ref) if args else 'nothing'}",
            f"write {name}(array, i, {listed})",
        )
    if len(args) != 1 + ref.ndim + len(values):
        raise t.error(
            node,
            f"{name} on {type_of(ref)} takes {ref.ndim} ind{'ex' if ref.ndim == 1 else 'ices'} and"
            f" {' and '.join(values)}, got {len(args) - 1} argument{'s' if len(args) != 2 else ''} after the array",
        )
    return subscript(t, ref, args[1 : 1 + ref.ndim], node), args[1 + ref.ndim :]


def _fit(t: Context, place: LValue, value: TracedValue, node: ast.AST) -> list[Value]:
    """The leaves of a value for an element: a number stands for all components."""
    if isinstance(place.type, Homogeneous) and is_number(value):
        value = construct(t, place.type, (value,), {}, node)
    return t.fit_lvalue(place, value, node)


def _by_address(t: Context, how: str, place: LValue, values: list[Value], compared: list[Value]) -> TracedValue:
    """On memory by its address, one step after the other: the threads of such a launch do not run side by side."""
    old = pointers.read(t.b, place)
    if how == "cas":
        same = [t.b.emit("eq", a, c) for a, c in zip(old, compared, strict=True)]
        values = [t.b.emit("select", s, v, a) for s, v, a in zip(same, values, old, strict=True)]
    elif how != "exch":
        values = [t.b.emit(how, a, v) for a, v in zip(old, values, strict=True)]
    pointers.write(t.b, place, values, add=False)
    return t.compose(place.type, iter(old))


def _atomic(name: str, how: str, doc: str) -> None:
    takes = ("a value to compare with", "a value") if how == "cas" else ("a value",)

    def handler(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
        if kwargs:
            raise t.error(node, f"{name} takes no argument '{next(iter(kwargs))}'")
        place, (*expected, value) = element(t, name, args, node, takes)
        if isinstance(place.array, PointerArray) and place.array.constant:
            raise t.error(node, f"`{place.array.name}` is an array of a structure, which kernels only read")
        if isinstance(place.array, LocalArray):
            raise t.error(node, f"{name} on an array of one thread", "no other thread sees it: write a[i] += value")
        scalar = scalar_of(place.type)
        if scalar is None or (scalar is bool_ and how not in ("exch", "cas")):
            raise t.error(node, f"{name} is not defined for elements of type {place.type}")
        if how in ("and", "or", "xor") and not scalar.is_int:
            raise t.error(node, f"{name} is not defined for elements of type {place.type}; it takes integers")
        if name == "atomic_sub":
            value = unary(t, ast.USub(), value, node)
        values = _fit(t, place, value, node)
        compared = [v for e in expected for v in _fit(t, place, e, node)]
        if isinstance(place.array, PointerArray):
            return _by_address(t, how, place, values, compared)
        if how == "add" and t.unused is node:
            t.accumulate(place, values)
            return None
        leaves, array = range(place.first, place.first + len(values)), place.array

        def old(array: Value) -> Sequence[Value]:
            return t.b.atomic(how, array, place.index, leaves, values, None, compared)

        return t.compose(place.type, iter(by_option(t.b, array, old) if isinstance(array, ChosenArray) else old(array)))

    NAMES[name] = Builtin(name, handler, doc)


_atomic("atomic_add", "add", "array[i] += value without races; gives the old value.")
_atomic("atomic_sub", "add", "array[i] -= value without races; gives the old value.")
_atomic("atomic_min", "min", "array[i] = min(array[i], value) without races; gives the old value.")
_atomic("atomic_max", "max", "array[i] = max(array[i], value) without races; gives the old value.")
_atomic("atomic_exch", "exch", "array[i] = value without races; gives the old value.")
_atomic(
    "atomic_cas",
    "cas",
    "atomic_cas(array, i, compare, value): array[i] = value if array[i] == compare, without races; gives the old value."
    " Of vectors and matrices, each component by itself.",
)
_atomic("atomic_and", "and", "array[i] &= value without races; gives the old value.")
_atomic("atomic_or", "or", "array[i] |= value without races; gives the old value.")
_atomic("atomic_xor", "xor", "array[i] ^= value without races; gives the old value.")
