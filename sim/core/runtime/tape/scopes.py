"""Named parts of what a tape has recorded."""

from __future__ import annotations

from typing import Any

Scope = tuple[int, str | None, dict[str, Any] | None]
"""Where it begins or ends, as a number of records; its name and what is said of it, None for an end."""


class Scopes(list[Scope]):
    """Begins and ends, in order, nested as brackets are."""

    def begin(self, place: int, name: str, metadata: dict[str, Any] | None) -> None:
        self.append((place, name, dict(metadata or {})))

    def end(self, place: int, remove_if_empty: bool) -> None:
        """Ends the innermost open one.  Raises RuntimeError where none is open."""
        if not self.open:
            raise RuntimeError("ended tape scope, but scope not present: record_scope_begin(name) comes first")
        if remove_if_empty and self[-1][1] is not None and self[-1][0] == place:
            self.pop()
        else:
            self.append((place, None, None))

    @property
    def open(self) -> int:
        """How many have no end yet."""
        return sum(1 if name is not None else -1 for _, name, _ in self)

    def around(self, place: int) -> list[str]:
        """The names of those that a record lies in, from the outermost."""
        names: list[str] = []
        for where, name, _ in self:
            if where > place:
                break
            names = names[:-1] if name is None else [*names, name]
        return names
