"""How the gradient of a rollout finds its way back: everything stored, or checkpoints and short segments run again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sim.rollout.budget import CheckpointSchedule, parse_bytes, schedule_within
from sim.rollout.trajectory import Plan


class Strategy(Protocol):
    """Says what is kept for the way back."""

    def schedule(self, plan: Plan) -> CheckpointSchedule:
        """How many steps per segment, and how many states at once."""


@dataclass(frozen=True)
class StoreAll:
    """Everything that the reverse sweep needs is kept."""

    def schedule(self, plan: Plan) -> CheckpointSchedule:
        """How many steps per segment, and how many states at once."""
        return CheckpointSchedule(plan.steps)


@dataclass(frozen=True)
class Checkpointed:
    """The state is kept every `every` steps; the reverse sweep runs each segment again and goes back through it.

    budget: instead of `every`, the memory that the gradient may take, in bytes or as "200 MB".  If everything fits it
    is stored; else checkpoints take as little as they can, and where that is still too much, fewer of them are kept and
    made anew on the way back (for very long rollouts).
    """

    every: int | None = None
    budget: str | float | None = None

    def __post_init__(self) -> None:
        if (self.every is None) == (self.budget is None):
            raise ValueError("Checkpointed takes either every= or budget=")
        if self.every is not None and not hasattr(self.every, "__index__"):
            raise ValueError(f"every={self.every!r}; expected a whole number of steps")
        if self.every is not None and self.every < 1:
            raise ValueError(f"every={self.every}; expected at least 1")
        if self.budget is not None and not parse_bytes(self.budget) > 0:
            raise ValueError(f"budget={self.budget!r}; expected a positive number of bytes")

    def schedule(self, plan: Plan) -> CheckpointSchedule:
        """How many steps per segment, and how many states at once."""
        if self.budget is not None:
            return schedule_within(plan, parse_bytes(self.budget))
        return CheckpointSchedule(plan.steps if self.every is None else min(self.every, plan.steps))
