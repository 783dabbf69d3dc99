"""How much memory the gradient of a rollout takes, and the schedule of checkpoints that fits a budget.

Segments of k steps need n / k states between them and the records of one segment: least where k^2 is about n times the
size of a state over that of the records of a step.  Where that is too much, fewer states are kept at once, and made
again on the way back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil, sqrt

from sim.core.lang.types import size_of, vector
from sim.rollout.trajectory import Plan


@dataclass(frozen=True)
class CheckpointSchedule:
    """Segments of `every` steps are recorded at once; at most `states` states are kept (None: one per segment)."""

    every: int
    states: int | None = None

    def gap(self, count: int, states: int | None) -> int:
        """Steps between kept states in `count` steps: as many segments as it takes to need about half the states."""
        if states is None:
            return self.every
        return self.every * max(1, ceil(count / (self.every * max(2, states // 2))))


def parse_bytes(budget: str | float) -> float:
    """Bytes from a number or text like "200 MB"."""
    if not isinstance(budget, str):
        return float(budget)
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kMG]?)i?B?\s*", budget)
    if not match:
        raise ValueError(f"budget={budget!r}; expected bytes, or text like '200 MB'")
    return float(match[1]) * {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}[match[2]]


def bytes_per_step(plan: Plan) -> float:
    """Bytes that a tape keeps for one step: what it records of every projection, and copies of velocities.

    Of a constraint whose forces add up to nothing only differences of points are recorded, unless damping looks at
    their motion.
    """
    model = plan.solver.model
    recorded = 0
    for p in plan.solver.batches:
        c = p.set.constraint
        apart = c.internal and p.set.damping is None and plan.solver.sweeps == 1
        recorded += p.set.count * 3 * (c.points - apart) * model.dtype.size
    return plan.solver.sweeps * recorded + model.particle_count * size_of(vector(3, model.dtype))


def bytes_per_state(plan: Plan) -> float:
    """Bytes of a kept state."""
    return float(sum(a.nbytes for a in plan.start.moving) + plan.start.clock.nbytes)


def gradient_bytes(plan: Plan, every: int) -> float:
    """Memory of a gradient with segments of `every` steps: the states between them, and one segment at a time."""
    return bytes_per_state(plan) * ceil(plan.steps / every) + bytes_per_step(plan) * every


def schedule_within(plan: Plan, budget: float) -> CheckpointSchedule:
    """Everything at once if it fits; else the segment of least memory; if that is too much, fewer states at once."""
    step, state = bytes_per_step(plan), bytes_per_state(plan)
    if gradient_bytes(plan, plan.steps) <= budget:
        return CheckpointSchedule(plan.steps)
    least = min(plan.steps, max(1, round(sqrt(plan.steps * state / step))))
    if gradient_bytes(plan, least) <= budget:
        return CheckpointSchedule(least)
    return CheckpointSchedule(min(plan.steps, max(1, int(budget / 2 / step))), max(4, int(budget / 2 / state)))
