"""Coordinates of joints: poses and velocities of bodies from them, and back.  Both are differentiable.

Newton's names and meanings.  A hinge has one coordinate [rad], a slider one [m], a ball joint a quaternion (x, y, z, w)
and an angular velocity along the axes of the parent's frame, a weld none, a free joint a position, a quaternion and,
along the axes of the parent's frame, the velocity of the child's centre of mass and an angular velocity.  A joint of
distances has none: it places nothing.  `Joint.q_starts` and `qd_starts` say where those of a joint begin.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from sim.core.lang.errors import entry_point
from sim.core.lang.types import int32
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.launch import launch
from sim.model.derived.coordinates import joint_trees, kinematic_kernels
from sim.model.errors import ModelError
from sim.model.model import Model
from sim.model.state import State


@entry_point
def eval_fk(model: Model, joint_q: array, joint_qd: array, state: State) -> None:
    """Places the bodies of `state`, and gives them their velocities, by the coordinates of joints, (joint_coord_count,)
    and (joint_dof_count,).  Bodies that are the child of no joint stay as they are.  Differentiable.

    Raises ModelError where joints close a loop.
    """
    offset, order = _trees(model)
    _check_coordinates(model, joint_q, joint_qd, state)
    inputs = [offset, order, *_frames(model), joint_q, joint_qd]
    launch(kinematic_kernels(model.dtype)[0], offset.size - 1, inputs, [state.body_q, state.body_qd])


@entry_point
def eval_ik(model: Model, state: State, joint_q: array, joint_qd: array) -> None:
    """The coordinates of joints, into (joint_coord_count,) and (joint_dof_count,), from the bodies of `state`: as the
    joints see them, whether or not they hold.  Angles lie in (-pi, pi].  Differentiable."""
    _check_coordinates(model, joint_q, joint_qd, state)
    inputs = [*_frames(model), state.body_q, state.body_qd]
    launch(kinematic_kernels(model.dtype)[1], model.joint_count, inputs, [joint_q, joint_qd])


def _frames(model: Model) -> list[array]:
    """What both kernels read of a model."""
    model.refresh()
    joints = [model.joint_kind, model.joint_parent, model.joint_child, model.joint_X_p, model.joint_X_c]
    return [*joints, model.joint_q_start, model.joint_qd_start, model.body_com]


def _check_coordinates(model: Model, joint_q: array, joint_qd: array, state: State) -> None:
    if state.model is not model:
        raise ModelError("the state belongs to another model", "Make it with model.state()")
    for name, given, count in (
        ("joint_q", joint_q, model.joint_coord_count),
        ("joint_qd", joint_qd, model.joint_dof_count),
    ):
        if given.shape != (count,) or given.dtype is not model.dtype:
            raise ModelError(
                f"{name} is {given.dtype} of shape {given.shape}", f"The model's joints take {model.dtype} ({count},)"
            )


_ordered: WeakKeyDictionary[Model, tuple[array, array]] = WeakKeyDictionary()


def _trees(model: Model) -> tuple[array, array]:
    """Joints of each tree, parents first: those of tree t are `order[offset[t]:offset[t + 1]]`."""
    if model not in _ordered:
        kind, parent, child = (a.device.numpy(a) for a in (model.joint_kind, model.joint_parent, model.joint_child))
        order = joint_trees(kind, parent, child, [label for label in model.joints for _ in range(model.worlds)])
        offset = np.cumsum([0, *map(len, order)])
        flat = np.array([j for joints in order for j in joints], np.int32)
        offsets, joints = (array(a, dtype=int32, device=model.device) for a in (offset, flat))
        _ordered[model] = offsets, joints
    return _ordered[model]
