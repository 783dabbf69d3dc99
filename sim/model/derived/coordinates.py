"""Bodies from the coordinates of joints, and back: the kernels, and the order in which joints place bodies."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from collections.abc import Sequence
from functools import cache

import numpy as np

from sim.constraints.joints.frames import angle_about_axis, apart, axis_of, joint_frame_of, relative_turn
from sim.constraints.slots.bodies import seen_from
from sim.core.lang.frontend.builtins import tid
from sim.core.lang.library.quaternion import quat_from_axis_angle, quat_rotate, quat_rotate_inv
from sim.core.lang.library.transform import transform_inverse, transform_point
from sim.core.lang.library.vector import cross, dot, normalize, spatial_bottom, spatial_top
from sim.core.lang.types import Scalar, quaternion, transformation, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.model.errors import ModelError
from sim.model.fields import BALL, DISTANCE, FREE, PRISMATIC, REVOLUTE


@cache
def kinematic_kernels(real: Scalar) -> tuple[Kernel, Kernel]:
    """From coordinates to bodies, a thread for each tree, and back, a thread for each joint."""
    vec3, frame, spatial, Quat = vector(3, real), transformation(real), vector(6, real), quaternion(real)

    @kernel
    def forward(
        offset: array[int],
        order: array[int],
        kind: array[int],
        parent: array[int],
        child: array[int],
        X_p: array[frame],
        X_c: array[frame],
        q_start: array[int],
        qd_start: array[int],
        com: array[vec3],
        joint_q: array[real],
        joint_qd: array[real],
        body_q: array[frame],
        body_qd: array[spatial],
    ):
        tree = tid()
        for m in range(offset[tree], offset[tree + 1]):
            j = order[m]
            p, c, a, b = parent[j], child[j], q_start[j], qd_start[j]
            on_parent = joint_frame_of(p, X_p[j], body_q)
            place, turn, sliding, spinning = vec3(), Quat(0.0, 0.0, 0.0, 1.0), vec3(), vec3()
            if kind[j] == REVOLUTE:
                turn = quat_from_axis_angle(vec3(1.0, 0.0, 0.0), joint_q[a])
                spinning = vec3(joint_qd[b], 0.0, 0.0)
            elif kind[j] == PRISMATIC:
                place, sliding = vec3(joint_q[a], 0.0, 0.0), vec3(joint_qd[b], 0.0, 0.0)
            elif kind[j] == BALL:
                turn = normalize(Quat(joint_q[a], joint_q[a + 1], joint_q[a + 2], joint_q[a + 3]))
                spinning = vec3(joint_qd[b], joint_qd[b + 1], joint_qd[b + 2])
            elif kind[j] == FREE:
                place = vec3(joint_q[a], joint_q[a + 1], joint_q[a + 2])
                turn = normalize(Quat(joint_q[a + 3], joint_q[a + 4], joint_q[a + 5], joint_q[a + 6]))
                sliding = vec3(joint_qd[b], joint_qd[b + 1], joint_qd[b + 2])
                spinning = vec3(joint_qd[b + 3], joint_qd[b + 4], joint_qd[b + 5])
            on_child = on_parent * frame(place, turn)
            pose = on_child * transform_inverse(X_c[j])
            center = transform_point(pose, com[c])
            # where the child moves with the parent, but for `sliding`
            carried = center if kind[j] == FREE else on_child.p
            v, omega = quat_rotate(on_parent.q, sliding), quat_rotate(on_parent.q, spinning)
            if p >= 0:
                around = spatial_bottom(body_qd[p])
                v += spatial_top(body_qd[p]) + cross(around, carried - transform_point(body_q[p], com[p]))
                omega += around
            v += cross(omega, center - carried)
            body_q[c] = frame(pose.p, normalize(pose.q))
            body_qd[c] = spatial(v[0], v[1], v[2], omega[0], omega[1], omega[2])

    @kernel
    def inverse(
        kind: array[int],
        parent: array[int],
        child: array[int],
        X_p: array[frame],
        X_c: array[frame],
        q_start: array[int],
        qd_start: array[int],
        com: array[vec3],
        body_q: array[frame],
        body_qd: array[spatial],
        joint_q: array[real],
        joint_qd: array[real],
    ):
        j = tid()
        p, c, a, b = parent[j], child[j], q_start[j], qd_start[j]
        on_parent, on_child = joint_frame_of(p, X_p[j], body_q), joint_frame_of(c, X_c[j], body_q)
        seen = seen_from(on_parent, on_child)
        center = transform_point(body_q[c], com[c])
        carried = center if kind[j] == FREE else on_child.p
        omega = spatial_bottom(body_qd[c])
        v = spatial_top(body_qd[c]) + cross(omega, carried - center)
        if p >= 0:
            around = spatial_bottom(body_qd[p])
            v -= spatial_top(body_qd[p]) + cross(around, carried - transform_point(body_q[p], com[p]))
            omega -= around
        if kind[j] == REVOLUTE:
            joint_q[a] = angle_about_axis(seen, 0.0)
            joint_qd[b] = dot(omega, axis_of(on_parent.q, 0))
        elif kind[j] == PRISMATIC:
            joint_q[a] = apart(seen)[0]
            joint_qd[b] = dot(v, axis_of(on_parent.q, 0))
        elif kind[j] == BALL:
            turn, w = relative_turn(seen), quat_rotate_inv(on_parent.q, omega)
            joint_q[a], joint_q[a + 1], joint_q[a + 2], joint_q[a + 3] = turn[0], turn[1], turn[2], turn[3]
            joint_qd[b], joint_qd[b + 1], joint_qd[b + 2] = w[0], w[1], w[2]
        elif kind[j] == FREE:
            turn, d = relative_turn(seen), apart(seen)
            joint_q[a], joint_q[a + 1], joint_q[a + 2] = d[0], d[1], d[2]
            joint_q[a + 3], joint_q[a + 4], joint_q[a + 5], joint_q[a + 6] = turn[0], turn[1], turn[2], turn[3]
            u, w = quat_rotate_inv(on_parent.q, v), quat_rotate_inv(on_parent.q, omega)
            joint_qd[b], joint_qd[b + 1], joint_qd[b + 2] = u[0], u[1], u[2]
            joint_qd[b + 3], joint_qd[b + 4], joint_qd[b + 5] = w[0], w[1], w[2]

    inverse.race_free = True  # every joint has coordinates of its own
    forward.race_free = True  # every tree has bodies of its own, or bodies that it does not place
    return forward, inverse


def joint_trees(kind: np.ndarray, parent: np.ndarray, child: np.ndarray, labels: Sequence[str]) -> list[list[int]]:
    """Trees of joints (n,) that place bodies, parents first.  Raises ModelError where joints close a loop."""
    above: dict[int, int] = {}
    for j in np.flatnonzero(kind != DISTANCE).tolist():
        if child[j] in above:
            raise ModelError(
                f"the joints {labels[above[child[j]]]!r} and {labels[j]!r} both place body {child[j]}: joints that"
                " close a loop have no coordinates of their own",
                "Place the bodies by add_body; of a tree of joints every body is the child of one at most",
            )
        above[int(child[j])] = j
    trees: dict[int, list[tuple[int, int]]] = {}
    for j in above.values():
        steps, top = 0, j
        while int(parent[top]) in above:
            top, steps = above[int(parent[top])], steps + 1
            if top == j:
                raise ModelError(f"joint {labels[j]!r} is in a cycle of joints", "Take one of them out, or turn it")
        # what hangs on one body that nobody places is one tree; what hangs on the world, one each
        trees.setdefault(int(parent[top]) if parent[top] >= 0 else -1 - top, []).append((steps, j))
    return [[j for _, j in sorted(joints)] for joints in trees.values()]
