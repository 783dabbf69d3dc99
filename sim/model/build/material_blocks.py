"""From the material of an object to constraints: on which elements, with which compliances."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.constraints.base import Constraint
from sim.constraints.stencils import Elements, Meshed
from sim.geometry import GeometryError
from sim.model.build import checks
from sim.model.build.blocks import ConstraintBlock, constraint_values, registered
from sim.model.build.branches import with_branches
from sim.model.errors import ModelError


def material_blocks(label: str, start: int, material: Any, thing: Meshed) -> list[ConstraintBlock]:
    """The constraints of an object whose first particle is `start`."""
    blocks = []
    material = checks.mapping("material", material)
    for name in material:
        constraint = registered(name, "material: constraint")
        if constraint.added_by:
            raise ModelError(f"material: {name!r} is no material", f"Use {constraint.added_by}")
        if constraint.law is not None and thing.kind != "soft":
            raise ModelError(f"material: {name!r} is for solids", "Use add_soft_grid or add_soft_mesh")
        elements = elements_of(constraint, thing)
        spec = checks.mapping(f"material[{name!r}]", material[name])
        branches, spec = spec.get("branches"), {key: value for key, value in spec.items() if key != "branches"}
        values, each = constraint_values(f"material[{name!r}]", constraint, spec, len(elements.points))
        factor = np.ones(len(elements.points))
        if not each and thing.kind in constraint.factors:
            factor = np.asarray(constraint.factors[thing.kind](elements.length, elements.area), np.float64)
        size = elements.area if constraint.law is not None else None
        points = elements.points + np.int32(start)
        block = ConstraintBlock(label, f"{label}.{name}", constraint, points, factor, values, size=size)
        blocks.append(with_branches(f"material[{name!r}].branches", block, branches, elements, thing.kind))
    return blocks


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
