"""Attachment of a point to a place that may move."""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.core.lang.types import vec3


@constraint(points=1, rows=3, internal=False, units={"target": "m", "hold": ""}, added_by="add_attachment")
def attachment(x, target: vec3, hold: float):
    """Displacement of a point from its target, three rows solved as one block.  C [m]; compliance [m/N].

    hold: 1; 0 once it has let go.

    Attachments without compliance do not come here: their points are pinned, with zero inverse mass.
    """
    d = x[0] - target
    return hold * d[0], hold * d[1], hold * d[2]
