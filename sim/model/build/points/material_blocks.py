"""From the material of an object to constraints: on which elements, with which compliances."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.constraints.base import REGISTRY, Constraint
from sim.constraints.stencils import Elements, Given, Meshed
from sim.geometry import GeometryError
from sim.model.build import checks
from sim.model.build.blocks import ConstraintBlock, constraint_values, registered
from sim.model.build.branches import with_branches
from sim.model.errors import ModelError

_NOUNS = {"soft": "solids", "cloth": "cloth"}
_ADDED_BY = {"soft": "Use add_soft_grid or add_soft_mesh", "cloth": "Use add_cloth_grid or add_cloth_mesh"}


def material_blocks(label: str, start: int, material: Any, thing: Meshed) -> list[ConstraintBlock]:
    """The constraints of an object whose first particle is `start`.  material: constraint, or its name -> its keys."""
    blocks = []
    material = checks.mapping("material", material)
    for named, given in material.items():
        constraint = named if isinstance(named, Constraint) else registered(named, "material: constraint")
        name = constraint.name
        if constraint.added_by:
            raise ModelError(f"material: {name!r} is no material", f"Use {constraint.added_by}")
        if constraint.law is not None and thing.kind != constraint.law.kind:
            raise ModelError(f"material: {name!r} is for {_NOUNS[constraint.law.kind]}", _ADDED_BY[constraint.law.kind])
        parts = parts_of(constraint, thing)
        spec = checks.mapping(f"material[{name!r}]", given)
        count = len(elements_of(parts[0], thing).points)
        branches, spec = spec.get("branches"), {key: value for key, value in spec.items() if key != "branches"}
        values, each = constraint_values(f"material[{name!r}]", constraint, spec, count)
        for part in parts:
            elements = elements_of(part, thing)
            factor = np.ones(len(elements.points))
            if not each and thing.kind in part.factors:
                factor = np.asarray(part.factors[thing.kind](elements.length, elements.area), np.float64)
            size = elements.area if part.law is not None else None
            points = elements.points + np.int32(start)
            placed = _from(start, elements.given) if elements.given is not None else None
            prefix = f"{label}.{name}"
            block = ConstraintBlock(label, prefix, part, points, factor, values, size=size, given=placed)
            blocks.append(with_branches(f"material[{name!r}].branches", block, branches, elements, thing.kind))
    twice = {b.constraint.name for b in blocks if sum(b.constraint is other.constraint for other in blocks) > 1}
    if twice:
        raise ModelError("material: two laws for the same elements", "Keep one of them")
    return blocks


def parts_of(constraint: Constraint, thing: Meshed) -> tuple[Constraint, ...]:
    """What stands for a constraint on an object: other ones, where its elements are not tetrahedra."""
    if constraint.law is None or thing.element == "tetrahedra":
        return (constraint,)
    if thing.element not in constraint.on_element:
        raise ModelError(
            f"material: {constraint.name!r} is for elements that are tetrahedra, not {thing.element}",
            f"Use {' or '.join(name for name, c in REGISTRY.items() if thing.element in c.on_element)}",
        )
    return constraint.on_element[thing.element]


def _from(start: int, given: Given) -> Given:
    """The same, told about the points of the model instead of those of the object."""
    return lambda held: given(held[start:])


def elements_of(constraint: Constraint, thing: Meshed) -> Elements:
    """The elements of an object that a constraint acts on: by its own stencil, or by its number of points."""
    stencil, what = constraint.stencil, f"material: {constraint.name!r}"
    try:
        found = stencil.find(thing) if stencil is not None else None
        if found is None and (stencil is None or stencil.elsewhere):
            default = thing.default(constraint.points)
            found = default.find(thing) if default is not None else None
    except GeometryError as error:
        raise ModelError(f"{what} {error.what}", error.hint) from None
    if found is not None:
        return found
    if stencil is not None and thing.hint:
        raise ModelError(f"{what} is for {stencil.nouns}", thing.hint)
    raise ModelError(
        f"{what} acts on {constraint.points} points, which {thing.noun} cannot give it",
        "Add it with add_constraints and name the points",
    )
