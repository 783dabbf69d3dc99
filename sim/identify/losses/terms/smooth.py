"""`smooth`: neighbours that should have alike values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sim.geometry import neighbours
from sim.identify.losses.residuals import Residuals, single
from sim.identify.losses.terms.base import Draft, Penalty, TermContext, Values, line
from sim.identify.parameters.parameters import Parameter
from sim.identify.parameters.transforms import Transform
from sim.model import Model
from sim.schema.containers import Deferred
from sim.schema.kinds import NameOf, Number
from sim.schema.reading import SchemaLine


@dataclass(frozen=True, eq=False)
class Smooth(Penalty):
    """Neighbours should be alike: mean over pairs of ((v_i - v_j) / sd)^2, v the values as the transform shows them.

    transforms: parameter -> its transform; v: log(p) for `log`, log((p - low) / (high - p)) for `logit`, p for `none`.
    pairs: (m, 2) numbers of elements, counted through the parameters, each of which has as many as its first axis is
    long, a plain number one.  Of vectors every component counts.
    """

    transforms: Mapping[str, Transform] = field(default_factory=dict)
    pairs: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), int))
    sd: float = 1.0
    key: ClassVar[str] = "smooth"
    lines: ClassVar[tuple[SchemaLine, ...]] = (
        line("smooth", NameOf("parameters"), "a parameter per element, point or region whose neighbours should be "
             "alike: the mean over pairs of ((v_i - v_j) / sd)^2, v the value as `transform` shows it "
             "(its logarithm, say)"),
        line("sd", Deferred("a number in the unit of the parameter"), "standard deviation; with `smooth` and a "
             "transform a plain number: 0.1 of a logarithm is 10 %", only_with=("smooth",)),
    )  # fmt: skip

    @classmethod
    def check(cls, draft: Draft) -> None:
        """A width, in the unit of what the transform shows; several numbers."""
        name = draft.entry["smooth"]
        parameter = draft.data.get("parameters", {}).get(name, {})
        if (unit := draft.units.get(name)) is not None:
            shown = unit if parameter.get("transform") == "none" else ""  # differences of logarithms
            draft.read_deferred("sd", Number(shown, "(0, inf)"))
        if draft.lacks("sd"):
            draft.problem("missing key `sd`: standard deviation")
        if parameter.get("per") in ("scene", "experiment"):
            draft.problem(f"`{name}` is one number without neighbours", "give it `per: element`", at=("smooth",))

    @classmethod
    def build(cls, entry: Mapping[str, Any], name: str, context: TermContext) -> Sequence[Smooth]:
        """One for all regions of a parameter together."""
        own = context.parts_of(entry["smooth"])
        if not own or context.model is None:
            return []
        pairs = np.unique(np.concatenate([_pairs(context.model, own, k) for k in range(len(own[0].bindings))]), axis=0)
        if not len(pairs):
            what = f"nothing that `{entry['smooth']}` reaches has a neighbour"
            context.problem("smooth", what, "leave the term out, or use a `prior`")
            return []
        transforms = {p.name: p.transform for p in own}
        return [cls(name=name, weight=entry["weight"], transforms=transforms, pairs=pairs, sd=entry["sd"])]

    def value_and_grad(self, values: Values) -> tuple[float, dict[str, np.ndarray]]:
        r = self._off(values)
        slope = np.zeros((int(self.pairs.max()) + 1, r.shape[1]))
        for end, sign in ((0, 2.0), (1, -2.0)):
            np.add.at(slope, self.pairs[:, end], sign * r / (self.sd * r.size))
        gradients, begin = {}, 0
        for name, transform in self.transforms.items():
            p = values[name]
            count = len(np.atleast_1d(p))
            u = transform.to_coordinates(p)
            rate = transform.pull_back(u, np.ones(p.shape)) / transform.scale  # dp / dv
            own = np.zeros((count, r.shape[1]))
            part = slope[begin : begin + count]
            own[: len(part)] = part  # elements behind the last pair have no neighbours
            gradients[name] = own.reshape(p.shape) / rate
            begin += count
        return float(np.mean(r * r)), gradients

    def residuals(self, values: Values) -> Residuals:
        """The differences, in units of `sd`."""
        r = self._off(values)
        return single(self.name, "", r, 1.0 / r.size)

    def _off(self, values: Values) -> np.ndarray:
        """(pairs, components)."""
        shown = [t.to_coordinates(values[name]) * t.scale for name, t in self.transforms.items()]
        v = np.concatenate([one.reshape(len(np.atleast_1d(one)), -1) for one in shown])
        return (v[self.pairs[:, 0]] - v[self.pairs[:, 1]]) / self.sd


def _pairs(model: Model, own: Sequence[Parameter], k: int) -> np.ndarray:
    """Pairs (m, 2) of neighbouring elements of the value of binding k: their numbers, or those of their regions, where
    each of several parameters has one."""
    label, _, key = own[0].bindings[k].path.partition(".")
    group = model.groups[label]
    elements = group.elements[key.partition(".")[0]] if "." in key else group.points[:, None]
    pairs = neighbours(elements, group.edges)
    if own[0].per != "region":
        return pairs
    inside = np.array([p.bindings[k].elements for p in own])
    of = np.argmax(inside, axis=0)[pairs]
    return np.unique(np.sort(of[of[:, 0] != of[:, 1]], axis=1), axis=0)
