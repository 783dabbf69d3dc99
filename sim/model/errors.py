"""Errors of the model: which argument, what is wrong with it, and what to do instead."""

from __future__ import annotations

from collections.abc import Sequence

from sim.core.lang.errors import SimError


class ModelError(SimError, ValueError):
    """A model that cannot be built.  ``what`` names the argument and its fault, ``hint`` the cure, ``of`` the label of
    what is at fault, where that is found long after it was added; ``others`` what was found with it, to be mended too.

    A scene file adds its own line and column.
    """

    def __init__(self, what: str, hint: str = "", of: str = "", others: Sequence[ModelError] = ()) -> None:
        self.what, self.hint, self.of, self.others = what, hint, of, tuple(others)
        super().__init__("\n".join([f"{what}. {hint}" if hint else what, *map(str, others)]))


class UnknownPathError(ModelError, KeyError):
    """``model[path]`` with a path that names no material value."""

    # KeyError prints the repr of its argument, quotes and escapes included; a message is for reading.
    __str__ = SimError.__str__
