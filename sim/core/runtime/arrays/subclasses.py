"""What subclasses of arrays by users take: an instance is not filled until its `__init__` has called ours."""

from __future__ import annotations

from typing import Any

from sim.core.lang.errors import ArrayError


def not_yet_filled(cls: type, *args: Any, **options: Any) -> Any:
    """`__new__` of the subclasses of users."""
    return object.__new__(cls)


def become(made: Any, given: Any, base: type) -> None:
    """An instance of a user's subclass of `base` shows what an array shows."""
    if not isinstance(given, base):
        raise ArrayError(
            f"{type(made).__name__} needs data, a shape or a pointer: annotations are {base.__name__}[...]"
        )
    for name in base.__dict__["__slots__"]:
        if name != "__weakref__":
            setattr(made, name, getattr(given, name))
