"""Boxes around shapes, in their own axes."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.core.lang.frontend.function import func
from sim.model.fields import BOX, CAPSULE, SPHERE


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
