"""`prior`: a parameter that should stay near a value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sim.identify.losses.residuals import Residuals, single
from sim.identify.losses.terms.base import REQUIRED, Draft, Penalty, TermContext, Values, line
from sim.schema.containers import Deferred
from sim.schema.kinds import NameOf, Number
from sim.schema.reading import SchemaLine


@dataclass(frozen=True)
class Prior(Penalty):
    """A parameter near `value`: (log(p / value) / log(factor))^2, or ((p - value) / sd)^2, mean over its numbers."""

    parameter: str = ""
    value: float = 0.0
    factor: float | None = None
    sd: float | None = None
    key: ClassVar[str] = "prior"
    lines: ClassVar[tuple[SchemaLine, ...]] = (
        line("prior", NameOf("parameters"), "a parameter that should stay near `value`. A `match` is a mean: with "
             "weight 1 a prior counts as much as all observations together; by Bayes' rule its weight were "
             "1 / (3 x markers x frames)"),
        line("value", Deferred("a value in the unit of the parameter"), "the expected value", REQUIRED,
             only_with=("prior",)),
        line("factor", Number("", "(1, inf)"), "(log(p / value) / log(factor))^2", only_with=("prior",)),
        line("sd", Deferred("a number in the unit of the parameter"), "standard deviation", only_with=("prior",)),
    )  # fmt: skip

    @classmethod
    def check(cls, draft: Draft) -> None:
        """Value and width in the unit of the parameter; one width."""
        entry = draft.entry
        if (unit := draft.units.get(entry["prior"])) is not None:
            expected = draft.read_deferred("value", Number(unit))
            draft.read_deferred("sd", Number(unit, "(0, inf)"))
            if "factor" in entry and expected is not None and expected <= 0:
                draft.problem("the logarithm needs a positive value", "use `sd` instead of `factor`", at=("value",))
        if ("factor" in entry) == ("sd" in entry) and not draft.reading.is_broken((*draft.steps, "sd")):
            what = "`factor` and `sd` exclude each other: a prior has one width" if "sd" in entry else ""
            draft.problem(
                what or "a prior needs one of `factor` (in the logarithm) and `sd`", "keep one" if what else ""
            )

    @classmethod
    def build(cls, entry: Mapping[str, Any], name: str, context: TermContext) -> Sequence[Prior]:
        """One for the parameter; one for each region of it, which share the weight."""
        own = context.parts_of(entry["prior"])
        return [
            cls(
                name=name + p.name.removeprefix(entry["prior"]),
                weight=entry["weight"] / len(own),
                parameter=p.name,
                value=entry["value"],
                factor=entry.get("factor"),
                sd=entry.get("sd"),
            )
            for p in own
        ]

    def value_and_grad(self, values: Values) -> tuple[float, dict[str, np.ndarray]]:
        p = values[self.parameter]
        r = self._off(p)
        if self.factor is not None:
            slope = 1.0 / (p * math.log(self.factor))
        else:
            assert self.sd is not None
            slope = np.full(np.shape(p), 1.0 / self.sd)
        return float(np.mean(r * r)), {self.parameter: 2.0 * r * slope / np.size(p)}

    def residuals(self, values: Values) -> Residuals:
        """How many widths the parameter is off."""
        p = values[self.parameter]
        return single(self.name, "", self._off(p), 1.0 / np.size(p))

    def _off(self, p: np.ndarray) -> np.ndarray:
        if self.factor is not None:
            return np.log(p / self.value) / math.log(self.factor)
        assert self.sd is not None
        return (p - self.value) / self.sd
