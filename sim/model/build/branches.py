"""The branches of a constraint as a user gives them: `[{"stiffness": 0.2, "time": 0.03}, {"stiffness": 0.1, ...}]`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sim.constraints.base import Constraint, ConstraintError
from sim.constraints.damping.branches import GIVES_WAY, STIFFNESS, branched
from sim.constraints.stencils import Elements
from sim.model.build.blocks import ConstraintBlock, parameter_values
from sim.model.errors import ModelError


def with_branches(
    where: str, block: ConstraintBlock, given: Any, elements: Elements | None = None, kind: str = ""
) -> ConstraintBlock:
    """The same constraints with branches.  elements, kind: those of the object whose material it is."""
    if not given:
        return block
    if not isinstance(given, list | tuple) or not all(isinstance(branch, Mapping) for branch in given):
        raise ModelError(
            f"{where} is {given!r}", "Give a list of branches, each {'stiffness': ..., 'time' or 'yield': ...}"
        )
    gives, values = [], dict(block.values)
    for k, branch in enumerate(given):
        way = [key for key in GIVES_WAY if key in branch]
        if len(way) != 1 or set(branch) != {"stiffness", *way}:
            raise ModelError(
                f"{where}[{k}] has the keys {', '.join(map(repr, branch)) or 'of nothing'}",
                "Give 'stiffness', and either 'time', if it relaxes, or 'yield', if it yields",
            )
        gives += way
        for key, parameter in (("stiffness", STIFFNESS), (way[0], GIVES_WAY[way[0]])):
            values[f"branches.{k}.{key}"] = parameter_values(f"{where}[{k}].{key}", parameter, branch[key], block.count)
    try:
        constraint = branched(block.constraint, tuple(gives))
    except ConstraintError as error:
        raise ModelError(f"{where}: {error}") from None
    scale = _strain_scale(block.constraint, elements, kind, block.count)
    size = block.factor if block.size is None else block.size
    constants = {**block.constants, "scale": scale}
    return replace(block, constraint=constraint, values=values, constants=constants, size=size)


def _strain_scale(constraint: Constraint, elements: Elements | None, kind: str, count: int) -> np.ndarray:
    """C of each element over the strain whose energy density is that of C: strain^2 / (2 c) = C^2 / (2 alpha size).

    1 where C is a strain, and where nothing says how a compliance c of the material becomes alpha = c factor.
    """
    if elements is None or constraint.has_moduli or kind not in constraint.factors:
        return np.ones(count)
    factor = np.asarray(constraint.factors[kind](elements.length, elements.area), np.float64)
    return np.sqrt(factor * elements.area)
