"""Errors of the model: which argument, what is wrong with it, and what to do instead."""

from __future__ import annotations

from sim.core.lang.errors import SimError


class ModelError(SimError, ValueError):
    """A model that cannot be built.  ``what`` names the argument and its fault, ``hint`` the cure, ``of`` the label of
    what is at fault, where that is found long after it was added.

    A scene file adds its own line and column.
    """

    def __init__(self, what: str, hint: str = "", of: str = "") -> None:
        self.what, self.hint, self.of = what, hint, of
        super().__init__(f"{what}. {hint}" if hint else what)


class UnknownPathError(ModelError, KeyError):
    """``model[path]`` with a path that names no material value."""

    # KeyError prints the repr of its argument, quotes and escapes included; a message is for reading.
    __str__ = SimError.__str__
