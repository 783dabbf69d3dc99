"""Joints until `finalize`: where their frames are, and the constraints that are their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sim.constraints.base import REGISTRY
from sim.constraints.joints.drives import FREE
from sim.geometry import rotation_from_quaternion
from sim.model.build import checks
from sim.model.build.blocks import ConstraintBlock
from sim.model.build.bodies import BodyPoint, slots_of_rows
from sim.model.build.worlds import Numbering
from sim.model.errors import ModelError
from sim.model.groups import Joint

AT = "parent_at", "child_at"
"""Names of the material values that say where a joint is on its two bodies."""
FREEDOMS = {
    "revolute": (1, 1),
    "prismatic": (1, 1),
    "ball": (4, 3),
    "free": (7, 6),
    "fixed": (0, 0),
    "distance": (0, 0),
}
"""How many coordinates and velocities a joint of each kind has."""


ANY_SIGN = "target_pos", "target_vel", "limit_lower", "limit_upper"


@dataclass(frozen=True, eq=False)
class JointFrame:
    """Where a joint is on one of its bodies (-1: in the world): at (3,) [m], turn: quaternion (4,)."""

    body: int
    at: np.ndarray
    turn: np.ndarray

    @property
    def point(self) -> BodyPoint:
        """As the slot of a constraint."""
        return BodyPoint(self.body, tuple(self.at.tolist()), tuple(self.turn.tolist()))

    def in_world(self, poses: Mapping[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Place (3,) and axes (3, 3), in columns, with the bodies at `poses`: number -> (7,)."""
        axes = rotation_from_quaternion(self.turn)
        if self.body < 0:
            return self.at, axes
        pose = poses[self.body]
        turn = rotation_from_quaternion(pose[3:])
        return pose[:3] + turn @ self.at, turn @ axes


@dataclass(frozen=True, eq=False)
class TargetKeys:
    """times (k,) [s], values (k,), or (worlds k,), and whether a drive halts at each (`smooth`) between them."""

    times: np.ndarray
    values: np.ndarray
    smooth: bool

    @classmethod
    def read(cls, given: Mapping[str, Any] | None) -> TargetKeys | None:
        """From `{"times": ..., "values": ..., "ease": "linear" | "smooth"}`; None is none."""
        if given is None:
            return None
        for key in given:
            checks.known("target_keys: key", key, ("times", "values", "ease"))
        times, values = (np.atleast_1d(np.asarray(given.get(key, ()), np.float64)) for key in ("times", "values"))
        if times.ndim != 1 or len(times) < 2 or times.shape != values.shape:
            raise ModelError(f"target_keys: times {times.shape}, values {values.shape}", "Give at least two of each")
        if not (np.isfinite(times).all() and np.isfinite(values).all() and (np.diff(times) > 0).all()):
            raise ModelError("target_keys: times do not increase, or something is not finite", "Sort them")
        ease = given.get("ease", "smooth")
        checks.known("target_keys: ease", ease, ("linear", "smooth"))
        return cls(times, values, ease == "smooth")


@dataclass(frozen=True, eq=False)
class JointBlock:
    """A joint, and its rows: `label` is what their blocks are called, and where their material values are.

    targets: `target_pos` and `target_vel` (1,) or (worlds,) of its drive; keys: what is added to its target over time;
    starts: `start_pos` and `start_vel`, the same, where the joint places its child.
    """

    joint: Joint
    parent: JointFrame
    child: JointFrame
    rows: list[ConstraintBlock] = field(default_factory=list)
    targets: dict[str, np.ndarray] = field(default_factory=dict)
    keys: TargetKeys | None = None
    starts: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return self.joint.label

    def listed(self, q_starts: np.ndarray, qd_starts: np.ndarray) -> Joint:
        """As the model lists it, with the places of its coordinates and velocities."""
        sets = tuple(dict.fromkeys(row.set_name for row in self.rows))
        return replace(self.joint, sets=sets, q_starts=q_starts, qd_starts=qd_starts)

    def copied(self, number: Numbering, worlds: int) -> JointBlock:
        """Those of all worlds, one world after the other."""
        parents, children = (
            np.repeat(end, worlds) if end[0] < 0 else number(end) for end in (self.joint.parents, self.joint.children)
        )
        keys = self.keys and replace(self.keys, values=np.concatenate([self.keys.values] * worlds))
        targets, starts = (
            {name: np.repeat(value, worlds) for name, value in given.items()} for given in (self.targets, self.starts)
        )
        joint = replace(self.joint, parents=parents, children=children)
        return replace(self, joint=joint, targets=targets, keys=keys, starts=starts)

    def add(
        self,
        constraint: str,
        values: Mapping[str, float],
        constants: Mapping[str, float] | None = None,
        renamed: Mapping[str, str] | None = None,
        own: str = "",
    ) -> None:
        """A row between the two frames.  own: what its block is called behind the label, where it is not the only one
        of its set."""
        declared = REGISTRY[constraint]
        ends = [[self.parent.point, self.child.point]]
        bodies = max(self.parent.body, self.child.body) + 1
        slots, numbers, places = slots_of_rows(self.label, ends, 2, declared.frames, 0, bodies)
        block = ConstraintBlock(
            f"{self.label}.{own}" if own else self.label,
            self.label,
            declared,
            numbers,
            np.ones(1),
            {key: np.array([value]) for key, value in values.items()},
            constants={key: np.array([value]) for key, value in (constants or {}).items()},
            slots=slots,
            places={j: replace(place, key=AT[j]) for j, place in places.items()},
            renamed=renamed or {},
        )
        self.rows.append(block)


@dataclass(frozen=True)
class Softness:
    """How the rows that hold a joint give way: one compliance for all, or one for lengths and one for angles; damping
    None: none."""

    compliance: float = 0.0
    damping: float | None = None
    linear_compliance: float | None = None
    angular_compliance: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                checks.number(name, value)
        if self.compliance and self._parts:
            raise ModelError(
                f"compliance = {self.compliance:g} of all rows, and {' and '.join(self._parts)}",
                "Give one compliance, or the two of lengths and angles",
            )
        if self.damping and not all(self._compliances.values()):
            raise ModelError(
                f"damping = {self.damping:g} s of rows without compliance",
                "It damps what gives way; target_kd is viscous friction of a joint, friction a dry one",
            )

    @property
    def _parts(self) -> list[str]:
        given = {"linear_compliance": self.linear_compliance, "angular_compliance": self.angular_compliance}
        return [name for name, value in given.items() if value is not None]

    @property
    def _compliances(self) -> dict[str, float]:
        if not self._parts:
            return {"compliance": self.compliance}
        parts = {"linear_compliance": self.linear_compliance, "angular_compliance": self.angular_compliance}
        return {name: value or 0.0 for name, value in parts.items()}

    @property
    def values(self) -> dict[str, float]:
        """Of the block of these rows."""
        damped = self.damping is not None and all(self._compliances.values())
        return {**self._compliances, **({"damping": self.damping or 0.0} if damped else {})}


@dataclass(frozen=True)
class FreeAxis:
    """What there is along the free coordinate of a hinge [rad, N m] or a slider [m, N]; see `add_joint_revolute`."""

    target_pos: float = 0.0
    target_vel: float = 0.0
    target_ke: float | None = None
    target_kd: float | None = None
    limit_lower: float | None = None
    limit_upper: float | None = None
    limit_ke: float | None = None
    limit_kd: float = 0.0
    friction: float | None = None
    effort_limit: float | None = None
    target_keys: TargetKeys | None = None
    start_pos: float | None = None
    start_vel: float | None = None

    def __post_init__(self) -> None:
        for name, value in ((name, value) for name, value in vars(self).items() if name != "target_keys"):
            if value is not None and not np.isfinite(value):
                raise ModelError(f"{name} is {value!r}", "Give a finite number; leave it out where there is no limit")
            if (
                name in ("target_ke", "target_kd", "limit_ke", "limit_kd", "friction", "effort_limit")
                and (value or 0) < 0
            ):
                raise ModelError(f"{name} = {value:g} is negative", "Check its sign")
        if self.limit_ke == 0.0 or (self.limit_kd and not self.limit_ke):
            raise ModelError(
                f"limit_ke = {self.limit_ke!r} with limit_kd = {self.limit_kd:g}",
                "A soft limit has a positive limit_ke, and perhaps a limit_kd; a hard one has neither",
            )
        lower, upper = self.limits
        if lower is not None and upper is not None and lower > upper:
            raise ModelError(f"limit_lower = {lower:g} is above limit_upper = {upper:g}", "Exchange them")

    @property
    def limits(self) -> tuple[float | None, float | None]:
        return self.limit_lower, self.limit_upper

    @property
    def driven(self) -> bool:
        """Is there anything that pulls or dampens?"""
        given = self.target_ke, self.target_kd, self.effort_limit, self.target_keys
        return any(one is not None for one in given) or self.target_pos != 0.0 or self.target_vel != 0.0

    def middle(self) -> float:
        """Between the limits of an angle, half a turn from where it is cut."""
        lower, upper = self.limits
        if lower is not None and upper is not None:
            if upper - lower >= 2 * np.pi:
                raise ModelError(
                    f"the limits {lower:g} and {upper:g} of an angle are a turn apart or more",
                    "The angle is known up to whole turns only: leave them out",
                )
            return 0.5 * (lower + upper)
        for one in (x for x in (lower, upper) if x is not None):
            if abs(one) >= np.pi:
                raise ModelError(f"the limit {one:g} of an angle is half a turn or more", "Give both limits")
        return 0.0


def add_free_axis(block: JointBlock, axis: FreeAxis, angular: bool) -> None:
    """The rows along the free coordinate of a joint: friction, drive, limits, as far as there are any."""
    kind = "angle" if angular else "distance"
    if axis.start_pos is not None or axis.start_vel is not None:
        block.starts.update({name: np.array([getattr(axis, name) or 0.0]) for name in ("start_pos", "start_vel")})
    middle = {"middle": axis.middle()} if angular else {}
    bounded = {"bounded": float(any(x is not None for x in axis.limits))} if angular else {}
    if axis.friction is not None:
        # it only resists motion: as much as `friction` lets it, whatever the damping
        block.add(f"friction_{kind}", {"friction": axis.friction}, {"damping": 1.0, "turned": 0.0})
    if axis.driven:
        block.targets.update({name: np.array([getattr(axis, name)]) for name in ("target_pos", "target_vel")})
        values = {"target_ke": axis.target_ke or 0.0, "target_kd": axis.target_kd or 0.0}
        constants = {"compliance": 1.0, **middle, **bounded}
        if axis.effort_limit is None:
            constants["effort_limit"] = FREE
        else:
            values["effort_limit"] = axis.effort_limit
        block.add(f"drive_{kind}", values, constants)
    for name, sign in (("limit_lower", 1.0), ("limit_upper", -1.0)):
        limit = getattr(axis, name)
        if limit is None:
            continue
        values = {"limit": limit, "compliance": 1.0 / axis.limit_ke if axis.limit_ke else 0.0}
        if axis.limit_kd and axis.limit_ke:
            values["damping"] = axis.limit_kd / axis.limit_ke
        renamed = {"limit": name, "compliance": "limit_compliance", "damping": "limit_damping"}
        block.add(f"limit_{kind}", values, {"sign": sign, **middle}, renamed, own=name)
