"""The part of `ModelBuilder` that adds joints, with Newton's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from sim.core.lang.errors import did_you_mean
from sim.geometry import quaternion_between, quaternion_inverse, quaternion_product, rotation_from_quaternion
from sim.model.build import checks
from sim.model.build.bodies import pose
from sim.model.build.body_builder import WORLD
from sim.model.build.joints.blocks import (
    FREEDOMS,
    FreeAxis,
    JointBlock,
    JointFrame,
    Softness,
    TargetKeys,
    add_free_axis,
)
from sim.model.build.joints.redundancy import refuse_redundant
from sim.model.build.rigid.rod_builder import RodBuilder
from sim.model.errors import ModelError
from sim.model.groups import Joint

X_AXIS = (1.0, 0.0, 0.0)
NOT_DONE = {
    "armature": ((None, 0), "Add the inertia of the rotor to that of the child"),
    "velocity_limit": ((None,), "target_kd slows a joint down, limit_lower and limit_upper stop it"),
    "actuator_mode": ((None,), "target_ke and target_kd say how a joint is driven; 0 is not at all"),
    "enabled": ((None, True), "Leave the joint out"),
    "collision_filter_parent": ((None, True), "Bodies do not collide with each other so far"),
    "custom_attributes": ((None,), "Keep them beside the model, by the label of the joint"),
    "stiffness": ((None, 0), "target_ke with target_pos is a spring"),
    "rest_q": ((None, 0), "target_ke with target_pos is a spring"),
    "target_q": ((None,), "It is called target_pos here"),
    "target_qd": ((None,), "It is called target_vel here"),
}
"""Options of Newton's joints that are refused: values that ask for nothing, and what to do instead."""


class JointBuilder(RodBuilder):
    """Collects joints between bodies, and between a body and the world (-1)."""

    def __init__(self) -> None:
        super().__init__()
        self._joints: list[JointBlock] = []

    @property
    def joint_count(self) -> int:
        """Number of joints so far."""
        return len(self._joints)

    def add_joint_revolute(
        self,
        parent: int,
        child: int,
        parent_xform: Any = None,
        child_xform: Any = None,
        axis: Any = X_AXIS,
        *,
        target_pos: float = 0.0,
        target_vel: float = 0.0,
        target_ke: float | None = None,
        target_kd: float | None = None,
        limit_lower: float | None = None,
        limit_upper: float | None = None,
        limit_ke: float | None = None,
        limit_kd: float = 0.0,
        friction: float | None = None,
        effort_limit: float | None = None,
        target_keys: Mapping[str, Any] | None = None,
        start_pos: float | None = None,
        start_vel: float | None = None,
        compliance: float = 0.0,
        linear_compliance: float | None = None,
        angular_compliance: float | None = None,
        damping: float | None = None,
        label: str | None = None,
        **not_done: Any,
    ) -> str:
        """A hinge: the child turns about one axis.  Returns its label.

        parent, child: numbers of bodies, -1 the world; parent_xform, child_xform: the joint's frame in theirs, a
        transform or a position, None their origin; axis: (3,) in that frame.  At angle 0 both frames coincide.
        target_pos [rad], target_vel [rad/s], target_ke [N m/rad], target_kd [N m s/rad]: a drive pulls by
        ke (target_pos - angle) + kd (target_vel - speed), by effort_limit [N m] at most; kd alone is viscous friction.
        target_keys: `{"times": (k,) [s], "values": (k,), "ease": "smooth" | "linear"}`, added to target_pos, and how
        fast it changes to target_vel: eased with a halt at each key, or straight between them; constant outside.
        limit_lower, limit_upper [rad]: within less than a turn of each other; hard, or a spring and a damper limit_ke,
        limit_kd.  friction [N m]: dry.  compliance: of all rows that hold the joint, [m/N] and [1/(N m)]; or
        linear_compliance and angular_compliance, of lengths and of angles; damping [s]: of those, if they have one.
        start_pos [rad], start_vel [rad/s]: where and how fast the joint begins.  With one of them it is the joint that
        places its child and gives it a velocity, and joints below do so too, at 0 and at rest if nothing else is said;
        positions, rotations and velocities of these bodies do not count.
        Paths: `label.parent_at`, `.child_at` [m], `.compliance` or the two others, `.damping`, `.target_pos`,
        `.target_vel`, `.target_keys`, `.target_ke`, `.target_kd`, `.effort_limit`, `.limit_lower`, `.limit_upper`,
        `.limit_compliance`, `.limit_damping`, `.friction`, `.start_pos`, `.start_vel`: of what was given, 0 too.
        Raises ModelError for options that are not done: armature, velocity_limit, ...
        """
        soft = Softness(compliance, damping, linear_compliance, angular_compliance)
        free = FreeAxis(target_pos, target_vel, target_ke, target_kd, limit_lower, limit_upper, limit_ke, limit_kd,
                        friction, effort_limit, TargetKeys.read(target_keys), start_pos, start_vel)  # fmt: skip
        return self._add_axis_joint(
            "revolute", parent, child, parent_xform, child_xform, axis, free, soft, label, not_done
        )

    def add_joint_prismatic(
        self,
        parent: int,
        child: int,
        parent_xform: Any = None,
        child_xform: Any = None,
        axis: Any = X_AXIS,
        *,
        target_pos: float = 0.0,
        target_vel: float = 0.0,
        target_ke: float | None = None,
        target_kd: float | None = None,
        limit_lower: float | None = None,
        limit_upper: float | None = None,
        limit_ke: float | None = None,
        limit_kd: float = 0.0,
        friction: float | None = None,
        effort_limit: float | None = None,
        target_keys: Mapping[str, Any] | None = None,
        start_pos: float | None = None,
        start_vel: float | None = None,
        compliance: float = 0.0,
        linear_compliance: float | None = None,
        angular_compliance: float | None = None,
        damping: float | None = None,
        label: str | None = None,
        **not_done: Any,
    ) -> str:
        """A slider: the child moves along one axis and does not turn.  Otherwise as `add_joint_revolute`, with lengths
        [m] and forces [N] in place of angles and torques."""
        soft = Softness(compliance, damping, linear_compliance, angular_compliance)
        free = FreeAxis(target_pos, target_vel, target_ke, target_kd, limit_lower, limit_upper, limit_ke, limit_kd,
                        friction, effort_limit, TargetKeys.read(target_keys), start_pos, start_vel)  # fmt: skip
        return self._add_axis_joint(
            "prismatic", parent, child, parent_xform, child_xform, axis, free, soft, label, not_done
        )

    def add_joint_ball(
        self,
        parent: int,
        child: int,
        parent_xform: Any = None,
        child_xform: Any = None,
        *,
        compliance: float = 0.0,
        damping: float | None = None,
        label: str | None = None,
        **not_done: Any,
    ) -> str:
        """A ball joint: the origins of both frames stay together.  Otherwise as `add_joint_revolute`."""
        block = self._joint("ball", parent, child, parent_xform, child_xform, label, not_done)
        return self._hold(block, "ball", Softness(compliance, damping))

    def add_joint_fixed(
        self,
        parent: int,
        child: int,
        parent_xform: Any = None,
        child_xform: Any = None,
        *,
        compliance: float = 0.0,
        linear_compliance: float | None = None,
        angular_compliance: float | None = None,
        damping: float | None = None,
        label: str | None = None,
        **not_done: Any,
    ) -> str:
        """A weld: both frames stay together.  Otherwise as `add_joint_revolute`."""
        block = self._joint("fixed", parent, child, parent_xform, child_xform, label, not_done)
        return self._hold(block, "fixed", Softness(compliance, damping, linear_compliance, angular_compliance))

    def add_joint_distance(
        self,
        parent: int,
        child: int,
        parent_xform: Any = None,
        child_xform: Any = None,
        *,
        min_distance: float = -1.0,
        max_distance: float = 1.0,
        compliance: float = 0.0,
        damping: float | None = None,
        label: str | None = None,
        **not_done: Any,
    ) -> str:
        """The distance of the origins of both frames stays between two values [m]; a negative one is no limit.

        Both the same: a massless rod, path `label.distance`; else `label.min_distance`, `label.max_distance`, of ropes
        and the like.  Otherwise as `add_joint_revolute`.
        """
        block = self._joint("distance", parent, child, parent_xform, child_xform, label, not_done)
        low, high = (
            float(checks.vec3(name, (value, 0.0, 0.0))[0])
            for name, value in (("min_distance", min_distance), ("max_distance", max_distance))
        )
        if max(low, high) <= 0.0 or 0.0 <= high < low:
            raise ModelError(
                f"min_distance = {low:g}, max_distance = {high:g} leave nothing to hold",
                "Give a positive distance, the larger as max_distance; for none at all use a ball joint",
            )
        soft = Softness(compliance, damping).values
        if low == high:
            block.add("span", {"distance": low, **soft})
            return self._add_joint(block)
        for name, value, sign in (("min_distance", low, 1.0), ("max_distance", high, -1.0)):
            if value >= 0.0:
                block.add("limit_span", {"limit": value, **soft}, {"sign": sign}, {"limit": name}, own=name)
        return self._add_joint(block)

    def add_joint_free(
        self,
        child: int,
        parent_xform: Any = None,
        child_xform: Any = None,
        parent: int = WORLD,
        label: str | None = None,
    ) -> str:
        """Coordinates of a body that moves freely: it has no rows, and is placed by `eval_fk`.  Returns its label.

        Seven coordinates: position and quaternion of the child's frame in the parent's; six velocities: of the centre
        of mass, and angular, along the axes of the parent's frame.
        """
        return self._add_joint(self._joint("free", parent, child, parent_xform, child_xform, label, {}))

    def joint_frames(self, parent: int, child: int, at: Any, rot: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """(parent_xform, child_xform), (7,) each, of a joint at the place `at` (3,) [m] in the world, its frame turned
        by the quaternion `rot` there, with the bodies where they begin."""
        place = checks.vec3("at", at)
        turn = pose("rot", None if rot is None else np.concatenate([place, np.ravel(rot)]))[3:]
        made = []
        for body in (parent, child):
            if self._body(body) == WORLD:
                made.append(np.concatenate([place, turn]))
                continue
            own = self._poses()[body]
            made.append(np.concatenate([rotation_from_quaternion(own[3:]).T @ (place - own[:3]),
                                        quaternion_product(quaternion_inverse(own[3:]), turn)]))  # fmt: skip
        return made[0], made[1]

    # ------------------------------------------------------------------------------------------ inside
    def _add_axis_joint(
        self,
        kind: str,
        parent: int,
        child: int,
        parent_xform: Any,
        child_xform: Any,
        axis: Any,
        free: FreeAxis,
        soft: Softness,
        label: str | None,
        not_done: dict[str, Any],
    ) -> str:
        along = checks.vec3("axis", axis)
        if not np.linalg.norm(along) > 0.0:
            raise ModelError(f"axis is {axis!r}", "Give a direction in the frame of the joint, of any length but 0")
        block = self._joint(
            kind, parent, child, parent_xform, child_xform, label, not_done, _from_x(along), free.target_keys
        )
        add_free_axis(block, free, angular=kind == "revolute")
        return self._hold(block, kind, soft)

    def _joint(
        self,
        kind: str,
        parent: int,
        child: int,
        parent_xform: Any,
        child_xform: Any,
        label: str | None,
        not_done: dict[str, Any],
        axis: np.ndarray | None = None,
        keys: TargetKeys | None = None,
    ) -> JointBlock:
        """A joint without rows.  axis: quaternion that turns the x axis of its frames to where the user's axis is."""
        self._open(f"add_joint_{kind}")
        _refuse(kind, not_done)
        parent, child = self._body(parent), self._body(child)
        if parent == child:
            raise ModelError(
                f"body {child} is its own parent", "A joint is between two bodies, or a body and the world"
            )
        if child == WORLD:
            raise ModelError("the child is the world", f"Give the body {parent} as the child, and -1 as the parent")
        label = self._label(label, kind)
        frames = []
        for body, name, xform in ((parent, "parent_xform", parent_xform), (child, "child_xform", child_xform)):
            own = pose(name, xform)
            turn = own[3:] if axis is None else quaternion_product(own[3:], axis)
            frames.append(JointFrame(body, own[:3], turn))
        joint = Joint(label, kind, np.array([parent], np.int32), np.array([child], np.int32), *FREEDOMS[kind])
        block = JointBlock(joint, frames[0], frames[1], keys=keys)
        if parent_xform is None and child_xform is None and kind not in ("distance", "free"):
            poses = self._poses()
            apart = np.linalg.norm(frames[1].in_world(poses)[0] - frames[0].in_world(poses)[0])
            if apart > 1e-9:
                raise ModelError(
                    f"{label}: no frames are given, and the origins of parent and child are {apart:.3g} m apart",
                    "Give parent_xform and child_xform, as from joint_frames(parent, child, at)",
                )
        return block

    def _hold(self, block: JointBlock, kind: str, soft: Softness) -> str:
        """Adds a joint with the rows that hold it."""
        block.add(kind, soft.values)
        return self._add_joint(block)

    def _add_joint(self, block: JointBlock) -> str:
        refuse_redundant(block, self._joints, self._poses())
        self._labels.add(block.label)
        self._joints.append(block)
        self._constraints += block.rows
        return block.label

    def _body(self, body: Any) -> int:
        return self.point_of(body).body

    def _poses(self) -> dict[int, np.ndarray]:
        """Where the bodies begin: number -> (7,)."""
        return {block.group.start + k: row for block in self._bodies for k, row in enumerate(block.poses)}


def _refuse(kind: str, options: dict[str, Any]) -> None:
    """Raises ModelError for options that ask for what is not done, or that nobody knows."""
    for name, value in options.items():
        if name in {option.name for option in fields(FreeAxis)}:
            raise ModelError(
                f"add_joint_{kind}: {name} is not done",
                "Hinges and sliders have drives, limits and friction: put some of them in a row",
            )
        if name not in NOT_DONE:
            known = list(getattr(JointBuilder, f"add_joint_{kind}").__annotations__)
            raise ModelError(f"add_joint_{kind} has no option {name!r}{did_you_mean(name, known)}", "See its docstring")
        nothing, hint = NOT_DONE[name]
        if value not in nothing:
            raise ModelError(f"add_joint_{kind}: {name} = {value!r} is not done", hint)


def _from_x(axis: np.ndarray) -> np.ndarray:
    """The quaternion of the shortest turn of the x axis to `axis`; half a turn about z, where that is opposite."""
    turn = quaternion_between(np.eye(3)[0], axis / np.linalg.norm(axis))
    return np.array([0.0, 0.0, 1.0, 0.0]) if turn is None else turn
