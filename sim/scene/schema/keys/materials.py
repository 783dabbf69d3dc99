"""What `material` may name in a scene: the registered constraints that hold objects together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sim.constraints import REGISTRY, Constraint
from sim.constraints.damping.branches import may_branch


@dataclass(frozen=True)
class ParameterSpec:
    """A key of a constraint in `material`: SI unit (empty for plain), default (None: must be given), interval."""

    name: str
    dimension: str
    default: float | None
    doc: str
    may_vary: bool = True
    bounds: str = "[0, inf)"


@dataclass(frozen=True)
class MaterialSpec:
    """A constraint that `material` may name. `objects`: the kinds of object it acts on (none given: all); `branches`:
    may it have some?
    """

    name: str
    doc: str
    parameters: Mapping[str, ParameterSpec] = field(default_factory=dict)
    objects: tuple[str, ...] = ()
    branches: bool = False


def registered_materials() -> dict[str, MaterialSpec]:
    """Every constraint of the registry that refers to points alone, with its keys; a user's own too."""
    return {name: _spec(made) for name, made in sorted(REGISTRY.items()) if made.internal and not made.added_by}


def _spec(made: Constraint) -> MaterialSpec:
    text = " ".join(made.doc.split("\n\n")[0].split())
    keys: dict[str, ParameterSpec] = {}
    if made.law is not None:
        keys |= {
            v.name: ParameterSpec(v.name, v.unit, v.default, v.doc, bounds=v.bounds) for v in made.law.values.values()
        }
    else:
        keys["compliance"] = ParameterSpec(
            "compliance", made.units.get("compliance", ""), None, "inverse stiffness of the material; 0 is rigid"
        )
    keys["damping"] = ParameterSpec("damping", "s", 0.0, "ratio of damping to stiffness")
    for p in made.parameters.values():
        if p.kind == "float" and p.name not in (*made.measured, *made.derived, *made.placed):
            keys[p.name] = ParameterSpec(p.name, p.unit, p.default, p.doc or f"`{p.name}` of the constraint", bounds="")
    kinds = (made.law.kind,) if made.law is not None else ("soft",) if set(made.factors) == {"soft"} else ()
    return MaterialSpec(
        name=made.name,
        doc=text or f"the constraint `{made.name}`",
        parameters=keys,
        objects=kinds,
        branches=may_branch(made),
    )
