"""What every part of a builder shares: labels, the constraints so far, and whether anything can still be added."""

from __future__ import annotations

from collections.abc import Container

from sim.model.build.blocks import ConstraintBlock
from sim.model.build.bodies import SiteBlock
from sim.model.errors import ModelError

PARTICLES = ("add_particle", "add_particles", "add_chain", "add_cloth_grid", "add_cloth_mesh", "add_soft_grid",
             "add_soft_mesh", "add_load")  # fmt: skip
"""What adds particles.  A load may."""


class Collection:
    """Labels that are taken, and constraints that have been added."""

    def __init__(self) -> None:
        self._labels: set[str] = {"gravity"}
        self._constraints: list[ConstraintBlock] = []
        self._sites: list[SiteBlock] = []
        self._worlds = 1
        self._finalized = False

    def _open(self, method: str) -> None:
        if self._finalized:
            raise ModelError(f"{method} after finalize", "Add everything first, or begin a new ModelBuilder")
        if self._sites and method in PARTICLES:
            raise ModelError(f"{method} after add_sites", "Add particles first: sites are numbered behind them")
        if self._worlds != 1 and method not in ("finalize", "replicate"):
            raise ModelError(f"{method} after replicate", "Add everything first; replicate copies what is there")

    def _label(self, label: str | None, default: str) -> str:
        """A label that is free.  It is taken when the thing is added, so that a failed call leaves nothing behind."""
        return self._label_among(self._labels, label, default)

    @staticmethod
    def _label_among(taken: Container[str], label: str | None, default: str) -> str:
        if label is None:
            number, label = 0, default
            while label in taken:
                number += 1
                label = f"{default}_{number}"
        elif not isinstance(label, str) or not label or "." in label:
            raise ModelError(f"label {label!r} is no name", "Give a text without dots")
        elif label in taken:
            raise ModelError(f"label {label!r} is taken", "Choose another; it names the material values")
        return label
