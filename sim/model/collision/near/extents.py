"""Where shapes of bodies are, boxes around them in their own axes, and how far they reach along a direction."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.core.lang.frontend.builtins import abs, max, sqrt
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import quat_rotate
from sim.model.fields import BOX, CAPSULE, CYLINDER, SPHERE


@func
def placed(transform, place, q, com):
    """The pose of a shape of a body that is turned by q, with its centre of mass at a place."""
    return type(transform)(place + quat_rotate(q, transform.p - com), q * transform.q)


@func
def extent(kind: int, size):
    """Half lengths (3,) [m] of a box around a shape, in its own axes; size: as in `shape_scale`."""
    half = size
    if kind != BOX:
        high = size[1]
        if kind == SPHERE:
            high = size[0]
        if kind == CAPSULE:
            high = size[0] + size[1]
        half = type(size)(size[0], size[0], high)
    return half


@func
def reach_along(kind: int, size, d):
    """How far [m] a shape, or a box around it, reaches from its middle along the unit direction d in its own axes."""
    half = extent(kind, size)
    far = half[0] * abs(d[0]) + half[1] * abs(d[1]) + half[2] * abs(d[2])
    if kind == SPHERE:
        far = size[0]
    if kind == CAPSULE:
        far = size[0] + size[1] * abs(d[2])
    if kind == CYLINDER:
        far = size[0] * sqrt(max(1.0 - d[2] * d[2], 0.0 * d[2])) + size[1] * abs(d[2])
    return far
