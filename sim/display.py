"""How objects look in a notebook: small tables, and pages of what moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from typing import Any

Draw = Callable[[Any], str]
"""An object as HTML."""


class Painter:
    """Draws what moves.  Rollouts stand below the player that shows them, so that `sim` says who draws.

    trajectory: the page of a trajectory; None: nobody does.
    """

    def __init__(self) -> None:
        self.trajectory: Draw | None = None


painter = Painter()


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """A heading, and rows of two texts."""
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in rows
    )
    return f"<div><strong>{escape(title)}</strong><table>{cells}</table></div>"


def html_frame(page: str, height: int = 560) -> str:
    """A whole page in a frame of its own, `height` pixels tall."""
    style = f"width:100%;height:{height}px;border:0"
    return f'<iframe srcdoc="{escape(page)}" style="{style}"></iframe>'
