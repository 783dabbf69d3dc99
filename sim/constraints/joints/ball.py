"""Two points that stay together: a ball joint, or what ties a particle to a body."""

from __future__ import annotations

from sim.constraints.base import constraint


@constraint(points=2, rows=3, units={"compliance": "m/N"}, added_by="add_joint_ball", from_start=True, meeting=True)
def ball(x):
    """Displacement of the second point from the first, three rows solved as one block.  C [m]; compliance [m/N].

    Never one row along the normalised error: |C| has no derivative at C = 0.
    """
    d = x[1] - x[0]
    return d[0], d[1], d[2]
