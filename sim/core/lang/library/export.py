"""`@export`: a public function of the library, under its name in the language and in the documentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.tracing.registry import Builtin, register

F = TypeVar("F", Function, Builtin)
LIBRARY: dict[str, Function | Builtin] = {}
"""Every public function that the library writes in the language, by name."""
RANDOM: dict[str, Function | Builtin] = {}
"""Those that draw random numbers."""


def public(function: F, table: dict[str, Function | Builtin] = LIBRARY) -> F:
    """The function itself, now with a place in a table and among the names of the language."""
    table[function.name] = function
    register({function.name: function})
    return function


def export(python: Callable[..., Any]) -> Function:
    """Decorator: `@func`, and public."""
    return public(Function(python))
