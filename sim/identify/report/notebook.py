"""What a notebook shows of a trajectory: the player of the report."""

from __future__ import annotations

import numpy as np

from sim.display import html_frame
from sim.identify.report.takes import motion
from sim.io import Frames, ReportData
from sim.io.report import report_html
from sim.model import Model
from sim.rollout import Trajectory

MOST_FRAMES = 240
"""Of longer ones frames are left out evenly: a notebook keeps all that it shows."""


def trajectory_html(trajectory: Trajectory) -> str:
    """A frame with the player; times count from the start of the rollout."""
    model = trajectory.final.model
    assert isinstance(model, Model)
    count = trajectory.particle_q.shape[0]
    if not count or not model.point_count + model.body_count:
        return f"<code>{trajectory!r}</code>"
    every = -(-count // MOST_FRAMES)
    time = trajectory.interval * np.arange(1, count + 1)
    poses = trajectory.body_q.numpy().astype(np.float64)
    frames = Frames(trajectory.particle_q.numpy().astype(np.float64), time, poses).every(every)
    title = repr(trajectory).removeprefix("Trajectory(").removesuffix(")")
    return html_frame(report_html(ReportData(title="Trajectory", about=title, takes=[motion(model, "motion", frames)])))
