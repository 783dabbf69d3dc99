"""How to search: the method, which one it is where nobody names one, its settings, starts and horizons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sim.core.optim import Minimizer
from sim.core.optim.base import NormalEquations, ObjectiveTraits
from sim.core.optim.registry import MINIMIZERS
from sim.identify.losses.terms.base import Term
from sim.identify.search.horizon import Horizon
from sim.identify.search.loop import Stop

MOST_LINEARISED = 16
"""Numbers of one experiment up to which Gauss-Newton is the default: a step of it costs a rollout for each of them, and
about a dozen steps do where L-BFGS needs 30 gradients, of two to three rollouts each, and more where parameters make up
for each other."""

MAX_STEP, NOISE = 4.0, 1e-7
"""The longest first step in coordinates, and changes of the objective that count as rounding."""


@dataclass(frozen=True)
class Method:
    """How to search.

    name: one of `MINIMIZERS`, or "default": see `chosen`.  iterations: at most so many steps on every horizon; None: as
    the minimiser declares.  settings: of the minimiser, by name.  objective: "log" or "plain", where noise is
    estimated "likelihood".  horizons: how far into
    the recordings the search looks, one after the other, the last of them all the way.
    """

    name: str = "default"
    iterations: int | None = None
    settings: Mapping[str, float] = field(default_factory=dict)
    objective: str = "log"
    stop: Stop = field(default_factory=Stop)
    starts: int = 1
    seed: int = 0
    horizons: tuple[Horizon, ...] = (Horizon(),)

    @property
    def limit(self) -> int:
        """How many iterations there may be."""
        return MINIMIZERS[self.name].iterations if self.iterations is None else self.iterations

    @property
    def approaches(self) -> bool:
        """Whether far from the minimum gradients made of the residuals' differences will do.  Where noise is estimated
        they do not: the loss is no sum of squares."""
        return MINIMIZERS[self.name].linearises and self.objective != "likelihood"

    def chosen(self, terms: Sequence[Term], size: int) -> Method:
        """With a name.

        The default is Gauss-Newton where every term is a sum of squared residuals and up to `MOST_LINEARISED` numbers
        are sought, L-BFGS elsewhere.  size: how many of the numbers one experiment depends on.
        """
        name = self.name
        if name == "default":
            name = "gauss_newton" if all(term.has_residuals for term in terms) and size <= MOST_LINEARISED else "lbfgs"
        return replace(self, name=name)

    def minimizer(self, normal_equations: NormalEquations) -> Minimizer:
        """A fresh optimiser.  normal_equations: of the residuals, for those that linearise them."""
        traits = ObjectiveTraits(normal_equations, MAX_STEP, NOISE)
        return MINIMIZERS[self.name].make(traits, self.settings)
