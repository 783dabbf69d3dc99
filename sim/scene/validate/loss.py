"""Checks of `loss`: every term by what it says itself, and that there is one where parameters are sought."""

from __future__ import annotations

from functools import partial
from typing import Any

from sim.identify.losses.terms import TERMS
from sim.identify.losses.terms.base import Draft
from sim.scene.validate.parameters import Targets
from sim.schema.reading import Reading


def check_loss(data: dict[str, Any], targets: Targets, reading: Reading) -> None:
    """Reads the values of terms whose unit is that of a parameter."""
    units = {name: own[0].kind.unit for name, own in targets.items() if own}
    for i, entry in enumerate(data.get("loss", [])):
        steps = ("loss", str(i))
        draft = Draft(steps, entry, data, units, reading, partial(reading.read_deferred, steps, entry))
        for key in TERMS.keys() & entry.keys():
            TERMS[key].check(draft)
    weights = [entry.get("weight", 1.0) for entry in data.get("loss", [])]
    if reading.names.get("parameters") and weights and not any(weights) and "loss" not in reading.broken:
        reading.problem(("loss",), "every term has weight 0, so that nothing is sought", "give one a weight", key=True)
    if reading.names.get("parameters") and data.get("loss") == [] and "loss" not in reading.broken:
        reading.problem(("parameters",), "nothing says what the parameters should achieve", "add a `loss`", key=True)
