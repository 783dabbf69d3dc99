"""Tables and numbers as text, for a terminal or a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on standard output; plain text where that is no terminal."""
    from rich import box
    from rich.text import Text

    shown = console()
    if not shown.is_terminal:
        shown = console(width=160)
    table = make_table(title, head, box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    shown.print(table)


def print_columns(title: str, rows: Iterable[Any], *columns: tuple[str, Callable[[Any], str]]) -> None:
    """A table with a line for each row; a column is its head, and what it shows of a row."""
    print_table(title, [head for head, _ in columns], [[cell(row) for _, cell in columns] for row in rows])


def make_table(title: str, head: Sequence[str], style: Any) -> Any:
    """An empty table of rich's: columns of numbers to the right, those of words to the left."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, box=style, title_justify="left", show_header=any(head))
    for k, name in enumerate(head):
        numeric = k > 0 and name not in ("unit", "want", "")
        # As a Text: `[s]` would be read as markup, and be gone.
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    return table


def console(**options: Any) -> Any:
    """A console for standard output, which leaves a reader that went away to the command: rich would exit by itself."""
    from rich.console import Console

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Ours(highlight=False, **options)


def number_text(value: Any) -> str:
    """A number or a few of them for a table; the lowest and highest of more than four; a dash for what is missing."""
    if value is None:
        return "-"
    flat = np.asarray(value, dtype=np.float64).ravel()
    if flat.size > 4:
        return f"{flat.min():.5g} ... {flat.max():.5g} ({flat.size})"
    return ", ".join(f"{item:.5g}" for item in flat)


def few_digits(value: Any) -> str:
    """A number or a few of them in a line of text; the lowest and highest of more than four, with fewer digits."""
    flat = np.asarray(value, dtype=np.float64).ravel()
    if flat.size > 4:
        return f"{flat.min():.4g} ... {flat.max():.4g}"
    return ", ".join(f"{item:.5g}" for item in flat)


def size_text(nbytes: float) -> str:
    """Bytes for people: `24 MB`."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= size:
            return f"{nbytes / size:.3g} {unit}"
    return f"{nbytes:.0f} B"
