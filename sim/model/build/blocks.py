"""What a builder collects until `finalize`: plain NumPy, checked when it was added.

A *value* is an array (1,) or (n,) (with a last axis of 3 for vectors): what the user wrote, later an entry of
`Model.materials`.  `factor` holds the geometry that it is multiplied by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sim.constraints.base import REGISTRY, Constraint, ConstraintParameter
from sim.constraints.contact.kernels.surface import OF_SURFACES
from sim.constraints.slots.pattern import Slots
from sim.constraints.stencils import Given
from sim.core.lang.errors import did_you_mean
from sim.model.build import checks
from sim.model.build.bodies import SlotPlace
from sim.model.build.motions import PrescribedMotion
from sim.model.derived.arrays import per_element
from sim.model.errors import ModelError
from sim.model.groups import Group
from sim.model.materials import check_interval


@dataclass(eq=False)
class PointBlock:
    """The points of a group: base (n, 3) [m] before `position` is added; mass of point k = weight x factor[k] [kg];
    drag [1/m], None without any; air: drag coefficients of its faces by name.  position, rotation (a rotation vector
    about the origin of `base`), spin (1, 3) and the others are one for all, one for each world or one for each point.
    carried: by a load's lever, which says where they are; they have no values of their own.
    """

    group: Group
    base: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    spin: np.ndarray
    weight_key: str
    weight: np.ndarray
    factor: np.ndarray
    thickness: float = 0.0
    drag: float | None = None
    air: Mapping[str, float] = field(default_factory=dict)
    carried: bool = False
    rotation: np.ndarray = field(default_factory=lambda: np.zeros((1, 3)))

    @property
    def mass(self) -> np.ndarray:
        """(n,) [kg]."""
        return per_element(self.weight, len(self.factor)) * self.factor

    def set_values(self, key: str, values: Any) -> None:
        """A weight for each point (n,) instead of what they were added with."""
        if key == self.weight_key:
            self.weight = checks.values(f"{self.group.name}.{key}", values, len(self.base), positive=key == "density")
        else:
            raise ModelError(
                f"{self.group.name} has no {key!r} of its elements",
                f"It has {self.weight_key!r}, and the keys of its material",
            )

    def give_each(self, key: str) -> None:
        """A `position` or `velocity` of its own for each point, the same to begin with."""
        setattr(self, key, per_element(getattr(self, key), len(self.base)))

    @property
    def center(self) -> np.ndarray:
        """What `spin` turns about (3,) in `base`: the centre of mass while the weight is one for all; of each world."""
        count = len(self.base) // self.group.worlds
        factor, base = self.factor[:count], self.base[:count]
        total = factor.sum()
        return factor @ base / total if total > 0 else base.mean(axis=0)


@dataclass(frozen=True, eq=False)
class FromShapes:
    """A parameter that each constraint of a block has from a shape: of `shapes` (n,), -1 for 0, the `part`, a column of
    `shape_scale` by number, `half` of a box, `spine` of a capsule, `round`
    of a cylinder, radius twice and half height, or `mu`, `restitution`."""

    part: int | str
    shapes: np.ndarray


@dataclass(eq=False)
class ConstraintBlock:
    """Constraints of one kind that were added together.

    label: whom they belong to; prefix: of their paths in `materials`; points (n, k); factor (n,): compliance of the
    k-th constraint = value x factor[k]; values: `compliance`, perhaps `damping`, and the parameters that were given.
    constants: parameters, compliance or damping that are no material values, (n,) or (n, 3); directions: parameters
    that are made unit vectors; size: (n,) of the elements at rest, for a material law, whose values then stand in
    `values` instead of a compliance; given: constants that depend on which points of the model (particles,) are held.
    slots: to what the points belong, None where all are particles; then `points` are numbers of particles and bodies.
    places: slot -> where on its bodies, or in the world.  renamed: keys of values that have another name in their path.
    borrowed: keys of values that are those of something else, by their whole path.  from_shapes: parameters that are
    sizes and coefficients of shapes.
    """

    label: str
    prefix: str
    constraint: Constraint
    points: np.ndarray
    factor: np.ndarray
    values: dict[str, np.ndarray]
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    directions: tuple[str, ...] = ()
    size: np.ndarray | None = None
    given: Given | None = None
    slots: Slots | None = None
    places: Mapping[int, SlotPlace] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    borrowed: Mapping[str, str] = field(default_factory=dict)
    from_shapes: Mapping[str, FromShapes] = field(default_factory=dict)

    def path(self, key: str) -> str:
        """Of a value in `materials`."""
        return self.borrowed.get(key, f"{self.prefix}.{self.renamed.get(key, key)}")

    @property
    def pattern(self) -> Slots:
        """To what the points belong."""
        return self.slots or Slots.of_particles(self.constraint.points)

    @property
    def set_name(self) -> str:
        """Of the set that these constraints are in."""
        return self.pattern.key(self.constraint)

    @property
    def count(self) -> int:
        return len(self.points)

    def with_held(self, held: np.ndarray) -> ConstraintBlock:
        """The block with all of its constants."""
        if self.given is None:
            return self
        return replace(self, constants={**self.constants, **self.given(held)}, given=None)

    def set_values(self, key: str, values: Any) -> None:
        """A value for each constraint (n,) instead of what they were added with."""
        name = f"{self.prefix}.{key}"
        _known_keys(self.prefix, {key: values}, self.keys)
        if key in ("compliance", "damping"):
            host = checks.values(name, values, self.count)
        else:
            law = self.constraint.law
            parameter = law.values[key] if law is not None else self.constraint.parameters[key]
            host = _parameter(name, parameter, values, self.count)
            check_interval(name, host, parameter.bounds)
        if key != "damping" or host.any():  # a damping of 0 is left out
            self.values[key] = host

    @property
    def keys(self) -> list[str]:
        """What of these constraints has a value."""
        law = self.constraint.law
        return [*law.values, "damping"] if law is not None else ["compliance", "damping", *self.constraint.parameters]


@dataclass(eq=False)
class AttachmentBlock:
    """Attached points (n,) and their motions.

    displaced: `offset` and `turn` (1, 3) of each world, how the points are held beside where they are at rest; or
    nothing.
    """

    label: str
    points: np.ndarray
    compliance: np.ndarray
    motions: list[PrescribedMotion]
    displaced: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def worlds(self) -> int:
        """In how many worlds the motions are given; 1 where nothing moves."""
        return len(self.motions[0][1]) if self.motions else 1

    @property
    def pinned(self) -> bool:
        return not self.compliance.any()


@dataclass(eq=False)
class LoadBlock:
    """Additional mass (1,) [kg], of each world, shared equally by its points; points (n,) are those of all worlds.

    force: times (k,) [s] and forces (k, 3) [N] that they share too, linear between them.
    """

    label: str
    points: np.ndarray
    mass: np.ndarray
    force: tuple[np.ndarray, np.ndarray] | None = None


def registered(name: str, what: str) -> Constraint:
    """The registered constraint called `name`; `what` names the argument in the error."""
    checks.known(what, name, REGISTRY)
    return REGISTRY[name]


def constraint_values(
    where: str, constraint: Constraint, spec: Mapping[str, Any], count: int
) -> tuple[dict[str, np.ndarray], bool]:
    """The values of `count` constraints from what the user wrote, and whether the compliance holds for each as it is.

    `where` names the argument; `spec` has `compliance`, optionally `damping` and the constraint's own parameters.
    """
    if constraint.law is not None:
        return _law_values(where, constraint, spec, count), False
    surface = OF_SURFACES if constraint.unilateral else ()
    _known_keys(where, spec, ["compliance", "damping", *surface, *constraint.parameters])
    if spec.get("compliance") is None:
        raise ModelError(f"{where} needs a compliance", "0 is inextensible; see scene-format for the unit")
    compliance, each = spec["compliance"], False
    if isinstance(compliance, Mapping):
        if set(compliance) != {"each"}:
            raise ModelError(
                f"{where}.compliance has the keys {', '.join(map(str, compliance))}",
                "Give a number, an array, or {'each': alpha of every constraint}",
            )
        compliance, each = compliance["each"], True
    out = {"compliance": checks.values(f"{where}.compliance", compliance, count)}
    out |= _damping(where, spec, count) | surface_values(where, spec, count)
    for name, parameter in constraint.parameters.items():
        given = spec.get(name, parameter.default)
        if given is not None:
            out[name] = _parameter(f"{where}.{name}", parameter, given, count)
        elif name not in constraint.measured:
            unit = f" [{parameter.unit}]" if parameter.unit else ""
            raise ModelError(
                f"{where} needs the parameter {name!r}{unit} of constraint {constraint.name!r}",
                f"{parameter.doc or 'Give it by keyword'}",
            )
    return out, each


def surface_values(where: str, spec: Mapping[str, Any], count: int) -> dict[str, np.ndarray]:
    """Coefficients of friction and restitution of both sides, the same; nothing where none is given."""
    if all(spec.get(key) is None for key in OF_SURFACES):
        return {}
    if np.any(spec.get("damping") or 0.0):
        raise ModelError(
            f"{where} has damping beside friction or restitution", "Leave it out: restitution takes energy"
        )
    out = {}
    for key, interval in OF_SURFACES.items():
        given = spec.get(key)
        values = checks.values(f"{where}.{key}", 0.0 if given is None else given, count)
        check_interval(f"{where}.{key}", values, interval)
        out[key] = out[f"other_{key}"] = values
    return out


def refuse_springs_that_rebound(blocks: Iterable[ConstraintBlock]) -> None:
    """Raises ModelError where contacts have a compliance beside a restitution: one of them says what comes back."""
    for block in blocks:
        rebounds = any(np.any(block.values.get(key, 0.0)) for key in ("restitution", "other_restitution"))
        if rebounds and np.any(block.values.get("compliance", 0.0)):
            raise ModelError(
                f"contacts of {block.prefix!r} have a compliance beside a restitution",
                "Leave one of them out: what is compliant is a spring, and gives back what it has taken",
                of=block.prefix,
            )


def surface_paths(of: str, other: str) -> dict[str, str]:
    """Whose coefficients the two sides of a contact have, for `ConstraintBlock.borrowed`."""
    own = {key: f"{of}.{key}" for key in OF_SURFACES}
    return own | {f"other_{key}": f"{other}.{key}" for key in OF_SURFACES}


def _known_keys(where: str, spec: Mapping[str, Any], known: list[str]) -> None:
    for key in spec:
        if key not in known:
            near = did_you_mean(str(key), known)
            raise ModelError(f"{where}: unknown key {key!r}{near}", "" if near else f"Known keys: {', '.join(known)}")


def _damping(where: str, spec: Mapping[str, Any], count: int) -> dict[str, np.ndarray]:
    damping = spec.get("damping")
    return (
        {"damping": checks.values(f"{where}.damping", damping, count)}
        if damping is not None and np.any(damping)
        else {}
    )


def _law_values(where: str, constraint: Constraint, spec: Mapping[str, Any], count: int) -> dict[str, np.ndarray]:
    """The values of a material law instead of a compliance."""
    assert constraint.law is not None
    _known_keys(where, spec, [*constraint.law.values, "damping"])
    out = {}
    for name, value in constraint.law.values.items():
        given = spec.get(name, value.default)
        if given is None:
            raise ModelError(f"{where} needs {name!r}{f' [{value.unit}]' if value.unit else ''}", f"It is {value.doc}")
        out[name] = parameter_values(f"{where}.{name}", value, given, count)
    return out | _damping(where, spec, count)


def parameter_values(name: str, parameter: ConstraintParameter, given: Any, count: int) -> np.ndarray:
    """One value or one for each, as `_parameter`, inside of its interval."""
    out = _parameter(name, parameter, given, count)
    check_interval(name, out, parameter.bounds)
    return out


def _parameter(name: str, parameter: ConstraintParameter, given: Any, count: int) -> np.ndarray:
    """One value or one for each, (1,) or (n,), with a last axis of 3 for a vector."""
    inner = () if parameter.kind == "float" else (3,)
    try:
        out = np.full(count, float(given)) if isinstance(given, checks.Each) else np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise ModelError(f"{name} is {given!r}", "Give numbers") from None
    if out.shape == inner:
        out = out.reshape((1, *inner))
    if out.shape not in ((1, *inner), (count, *inner)):
        one = "one number" if not inner else "one vector of 3"
        raise ModelError(f"{name} has shape {out.shape}", f"Give {one}, or {count} of them")
    endless = parameter.bounds.endswith("inf]")
    if not np.all(np.isfinite(out) | (endless & (out == np.inf))):
        raise ModelError(
            f"{name} is not finite",
            (
                "Give finite numbers, or leave it out to have it measured"
                if name.rsplit(".", 1)[-1] == "rest"
                else "Give finite numbers"
            ),
        )
    return out


def springs(label: str, rows: list[tuple[int, int, float, float, float]]) -> ConstraintBlock:
    """Springs (i, j, compliance, damping, rest length or NaN: measured) as one block with values for each."""
    points = np.array([row[:2] for row in rows], np.int32)
    compliance, damping, rest = (np.array([row[k] for row in rows]) for k in (2, 3, 4))
    values = {"compliance": compliance}
    if damping.any():
        values["damping"] = damping
    if not np.isnan(rest).all():
        values["rest"] = rest
    return ConstraintBlock(label, label, registered("distance", "constraint"), points, np.ones(len(rows)), values)
