"""The one exception of this package: geometry that cannot be used, said in words a user can act on."""

from collections.abc import Iterable


class GeometryError(ValueError):
    """A mesh, a grid, a choice of points or a placement that cannot be used.

    ``what`` says what is wrong and where, ``hint`` what to do instead; a scene file adds its own line and column.
    """

    def __init__(self, what: str, hint: str = "") -> None:
        self.what = what
        self.hint = hint
        super().__init__(f"{what}. {hint}" if hint else what)


def listed(items: Iterable[object], limit: int = 5) -> str:
    """The first few entries of a list of indices as text: ``3, 4, 8, 9, 11 and 20 more``."""
    entries = [str(item) for item in items]
    shown = ", ".join(entries[:limit])
    return shown if len(entries) <= limit else f"{shown} and {len(entries) - limit} more"
