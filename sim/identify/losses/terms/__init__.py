"""The terms of a loss, a file for each; to add one, write its file and name its class here."""

from collections.abc import Iterable
from dataclasses import replace

from sim.identify.losses.terms.angle import Angle
from sim.identify.losses.terms.base import Term, line
from sim.identify.losses.terms.custom import Custom
from sim.identify.losses.terms.match import Match
from sim.identify.losses.terms.prior import Prior
from sim.identify.losses.terms.reach import Reach
from sim.identify.losses.terms.slow import Slow
from sim.identify.losses.terms.smooth import Smooth
from sim.schema.containers import List, Table
from sim.schema.kinds import NOT_NEGATIVE, NameOf, Number
from sim.schema.reading import SchemaLine

OF_MARKERS: tuple[type[Term], ...] = (Match, Angle, Reach, Slow)
OF_PARAMETERS: tuple[type[Term], ...] = (Prior, Smooth)
TERMS: dict[str, type[Term]] = {term.key: term for term in (*OF_MARKERS, *OF_PARAMETERS, Custom)}
"""The words that a scene may write, and what they stand for."""


def _lines(terms: Iterable[type[Term]]) -> list[SchemaLine]:
    """Their keys; one that several have stands behind the last, and belongs to all."""
    found: dict[str, SchemaLine] = {}
    for own in (own for term in terms for own in term.lines):
        earlier = found.pop(own.name, None)
        found[own.name] = own if earlier is None else replace(own, only_with=(*earlier.only_with, *own.only_with))
    return list(found.values())


LOSS = Table((
    *_lines(OF_MARKERS),
    line("experiments", List(NameOf("experiments"), 1), "the experiments that count; default: all that are fitted",
         only_with=tuple(term.key for term in (*OF_MARKERS, Custom))),
    *_lines((*OF_PARAMETERS, Custom)),
    line("weight", Number("", NOT_NEGATIVE), "factor of the term", 1),
), one_of=(tuple(TERMS),))  # fmt: skip
"""The schema of an entry of `loss`."""
