"""Assignments: to names, tuples of targets, components of values, elements of arrays."""

from __future__ import annotations

import ast

from sim.core.lang.frontend.traced import (
    ArrayRef,
    LValue,
    Members,
    Positional,
    StructValue,
    TracedValue,
    VectorValue,
    describe,
    is_traced,
    name_values,
)
from sim.core.lang.frontend.tracing.components import get_attribute, iterate, subscript, with_component
from sim.core.lang.frontend.tracing.context import Context


def assign(t: Context, target: ast.expr, value: TracedValue) -> None:
    """`target = value` for a name, a tuple of targets, a component, an array element."""
    if isinstance(target, ast.Name):
        t.env[target.id] = value
        name_values(value, target.id)
    elif isinstance(target, (ast.Tuple, ast.List)):
        items = _unpacked(t, target, value)
        for part, item in zip(target.elts, items, strict=True):
            assign(t, part, item)
    else:
        assign_path(t, target, target_path(t, target), value)


def _unpacked(t: Context, target: ast.Tuple | ast.List, value: TracedValue) -> list[TracedValue]:
    starred = next((part for part in target.elts if isinstance(part, ast.Starred)), None)
    if starred is not None:
        raise t.error(starred, "a starred name is not supported in kernels", "name the items one by one")
    if isinstance(value, VectorValue):
        value = tuple(iterate(t, value, target))
    if not isinstance(value, tuple):
        raise t.error(target, f"{describe(value)} cannot be unpacked")
    if len(value) != len(target.elts):
        raise t.error(
            target,
            f"{len(value)} values for {len(target.elts)} names",
            value.what if isinstance(value, Members) else "",
        )
    return list(value)


def target_path(t: Context, target: ast.expr) -> tuple[str | None, list[tuple[str, TracedValue]], list[TracedValue]]:
    """What `a.b[i].c` goes through: the variable, the keys, and (lazily) the values from variable to target."""
    steps: list[ast.expr] = []
    node = target
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        steps.append(node)
        node = node.value
    values = [t.lazy(node)]
    keys: list[tuple[str, TracedValue]] = []
    for step in reversed(steps):
        if isinstance(step, ast.Attribute):
            keys.append(("attribute", step.attr))
            if step is target and isinstance(values[-1], StructValue) and step.attr in values[-1].values:
                values.append(values[-1].values[step.attr])  # an array that was not set may be set now
                continue
            values.append(get_attribute(t, values[-1], step.attr, step))
        else:
            assert isinstance(step, ast.Subscript)
            keys.append(("item", subscript_keys(t, step.slice)))
            values.append(subscript(t, values[-1], keys[-1][1], step))
    return (node.id if isinstance(node, ast.Name) else None), keys, values


def assign_path(
    t: Context,
    target: ast.expr,
    path: tuple[str | None, list[tuple[str, TracedValue]], list[TracedValue]],
    value: TracedValue,
) -> None:
    name, keys, values = path
    t.at(target)
    last = values[-1]
    if isinstance(last, LValue):
        t.write(last, t.fit_lvalue(last, value, target), t.b.store)
        return
    place = next((k for k in range(len(keys) - 1, 0, -1) if isinstance(values[k], LValue)), 0)
    if place:  # a slice of what lies in an array
        for k in range(len(keys) - 1, place - 1, -1):
            value = with_component(t, t.load(values[k]), keys[k], value, target)
        t.write(values[place], t.fit_lvalue(values[place], value, target), t.b.store)
        return
    if isinstance(values[-2], ArrayRef):
        if keys[-1][0] == "attribute":
            raise t.error(
                target,
                f"the {keys[-1][1]} of an array cannot be assigned to",
                "make the array that you need outside of the kernel",
            )
        raise t.error(
            target,
            f"a row of an array cannot be assigned to: it has {last.ndim} more dimension{'s' if last.ndim > 1 else ''}",
            "assign to its elements",
        )
    if name is None or name not in t.env or not is_traced(values[0]):
        what = (
            f"a part of `{name}`,"
            f" {'which is from outside of the kernel' if name not in t.env else describe(values[0])},"
        )
        raise t.error(target, f"{what if name else 'this'} cannot be assigned to", "copy it into a variable first")
    for k in range(len(keys) - 1, -1, -1):
        value = with_component(t, values[k], keys[k], value, target)
    t.env[name] = value


def subscript_keys(t: Context, node: ast.expr) -> Positional:
    """The indices between brackets."""
    return tuple(t.eval(e) for e in node.elts) if isinstance(node, ast.Tuple) else (t.eval(node),)
