"""Steps of a walk through the tree of a mesh (`layout.py`), and boxes against points."""

from __future__ import annotations

from sim.core.lang.frontend.builtins import max, where
from sim.core.lang.frontend.function import func
from sim.core.lang.types import int32
from sim.core.spatial.meshes.layout import TreeRow


@func
def tree_of(mesh, root):
    """The row of a tree: that of a group by its root, as `mesh_get_group_root` gives it; -1 is that of all faces.

    Without faces a tree has no leaves.
    """
    row = TreeRow()
    if mesh.trees.shape[0] > 0:
        row = mesh.trees[where(root < 0, 0, root)]
    return row


@func
def descend(node, trail, left, right, best):
    """The nearer child, whose sibling is marked in `trail` where it may hold something below `best` too; or the node
    itself, and that the way down ends here, where neither may."""
    near, far = where(right < left, right, left), where(right < left, left, right)
    going_down = near < best
    if going_down:
        node = 2 * node + int32(right < left)
        trail = 2 * trail + int32(far < best)
    return node, trail, not going_down


@func
def pop(node, trail):
    """The nearest sibling of this node or of those above it that is still to be visited, where `trail` is not 0."""
    while (trail & 1) == 0:
        trail = trail >> 1
        node = node >> 1
    return node ^ 1, trail ^ 1


@func
def behind(node):
    """The node behind the subtree of a node, from left to right; 1, the root, where there is none."""
    while (node & 1) == 1 and node > 1:
        node = node >> 1
    return where(node <= 1, int32(1), node + 1)


@func
def distance_sq_to_box(box, p):
    x = max(max(box[0] - p[0], p[0] - box[3]), 0.0)
    y = max(max(box[1] - p[1], p[1] - box[4]), 0.0)
    z = max(max(box[2] - p[2], p[2] - box[5]), 0.0)
    return x * x + y * y + z * z


@func
def furthest_sq_in_box(box, p):
    """Squared distance of p from the corner that is furthest away."""
    x, y, z = max(p[0] - box[0], box[3] - p[0]), max(p[1] - box[1], box[4] - p[1]), max(p[2] - box[2], box[5] - p[2])
    return x * x + y * y + z * z
