"""Attachment of a point to a place that may move."""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.core.lang.types import vec3


@constraint(points=1, rows=3, internal=False, units={"target": "m"}, added_by="add_attachment")
def attachment(x, target: vec3):
    """Displacement of a point from its target, three rows solved as one block.  C [m]; compliance [m/N].

    Attachments without compliance do not come here: their points are pinned, with zero inverse mass.
    """
    d = x[0] - target
    return d[0], d[1], d[2]
