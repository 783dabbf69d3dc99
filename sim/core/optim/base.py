"""What a minimiser says of itself, as data: its name, its settings, and how to make one.

Whoever offers minimisers to users (the schema of scenes, its reference page, the search) reads these declarations, so
that a new one is a file with its class and a `MinimizerSpec`, and a line in `registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from sim.core.optim.minimizer import Minimizer

NormalEquations = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""x (n,) -> J' W J (n, n) and -J' W r (n,), both up to one common factor; may raise FloatingPointError."""


@dataclass(frozen=True)
class Setting:
    """A number that a user may choose.  bounds: an interval such as `(0, inf)` or `[1, inf)`; "": every finite one."""

    name: str
    type: type[int] | type[float]
    default: float
    doc: str
    bounds: str = ""


@dataclass(frozen=True)
class ObjectiveTraits:
    """What is known of the objective before the first step.

    normal_equations: of the residuals, for those that linearise them.
    max_step: no component moves further in the first step.
    noise: changes of the value below noise * max(1, |value|) are rounding.
    """

    normal_equations: NormalEquations
    max_step: float
    noise: float


@dataclass(frozen=True)
class MinimizerSpec:
    """A minimiser as users see it.

    iterations: how many steps it gets where nobody says.  build: a fresh one, from traits and a value by setting.
    linearises: whether it uses the normal equations, and so may begin with gradients that are made of them.
    """

    name: str
    doc: str
    iterations: int
    build: Callable[[ObjectiveTraits, Mapping[str, float]], Minimizer]
    settings: tuple[Setting, ...] = ()
    linearises: bool = False

    def make(self, traits: ObjectiveTraits, values: Mapping[str, float]) -> Minimizer:
        """A fresh minimiser; settings without a value have their default."""
        unknown = [name for name in values if name not in {s.name for s in self.settings}]
        if unknown:
            raise TypeError(f"{self.name} has no setting '{unknown[0]}'; it has {[s.name for s in self.settings]}")
        return self.build(traits, {s.name: values.get(s.name, s.default) for s in self.settings})
