"""What an optimiser minimises in place of the plain loss: dimensionless, whatever the unit of the loss."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sim.core.lang.errors import SimError


class ObjectiveError(SimError, ValueError):
    """A loss that the objective cannot take: a search that stayed away would end beside the minimum and not tell."""


@dataclass(frozen=True)
class Objective:
    """An increasing function of the loss.

    reference: the one number that it takes from the loss at the start.
    """

    reference: float
    name: ClassVar[str]
    least: ClassVar[float] = -np.inf
    """A loss that cannot be undercut: no search goes on from there."""

    def __call__(self, loss: float, gradient: np.ndarray) -> tuple[float, np.ndarray]:
        """Objective and its gradient, from the plain loss and its gradient."""
        raise NotImplementedError(f"{type(self).__name__} defines no objective")


@dataclass(frozen=True)
class LogObjective(Objective):
    """log(loss + reference): a step is judged by the factor that it gains, so that a far start is no steep wall.

    The reference is a small share of the first loss.  Where the loss goes to zero a plain logarithm is a bottomless
    funnel, nowhere convex; with the reference added, its bottom is the parabola of the loss itself.
    """

    name = "log"
    least = 0.0
    share: ClassVar[float] = 1e-2

    def __call__(self, loss: float, gradient: np.ndarray) -> tuple[float, np.ndarray]:
        """Objective and its gradient.  Raises ObjectiveError where the loss is negative."""
        if loss < 0:
            raise ObjectiveError(f"the loss is {loss:g} and has no logarithm: use `optimize: {{objective: plain}}`")
        return float(np.log(loss + self.reference)), gradient / (loss + self.reference)


@dataclass(frozen=True)
class PlainObjective(Objective):
    """The loss itself, over its size at the start."""

    name = "plain"

    def __call__(self, loss: float, gradient: np.ndarray) -> tuple[float, np.ndarray]:
        """Objective and its gradient."""
        return loss / self.reference, gradient / self.reference


@dataclass(frozen=True)
class LikelihoodObjective(Objective):
    """The loss as it is: where noise is estimated it is a logarithm already, and its size means nothing."""

    name = "likelihood"

    def __call__(self, loss: float, gradient: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss and gradient."""
        return loss, gradient


OBJECTIVES: dict[str, type[Objective]] = {
    "log": LogObjective,
    "plain": PlainObjective,
    "likelihood": LikelihoodObjective,
}
"""By name; a scene may write the first two."""


def make_objective(name: str, initial_loss: float) -> Objective:
    """The objective of a search that starts at this loss."""
    if name == "likelihood":
        return LikelihoodObjective(1.0)
    if name == "plain":
        return PlainObjective(abs(initial_loss) or 1.0)
    if name == "log":
        if initial_loss < 0:
            raise ObjectiveError(
                f"the loss at the start is {initial_loss:g} and has no logarithm: use `optimize: {{objective: plain}}`"
            )
        return LogObjective(LogObjective.share * initial_loss or 1.0)
    near = difflib.get_close_matches(str(name), OBJECTIVES, n=1)
    instead = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(OBJECTIVES)}"
    raise ValueError(f"unknown objective {name!r}: {instead}")
