"""The parts of a report that say how a search went where it had several starts, or several horizons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from sim.io.html import format_number, section, table


@dataclass(frozen=True)
class StartRow:
    """One of several starts: parameters there and where it ended, in words; loss before and after; iterations; whether
    the search went on from its end."""

    start: str
    loss: float | None
    end: str
    reached: float | None
    iterations: int
    chosen: bool = False


@dataclass(frozen=True)
class HorizonRow:
    """One of several horizons: its label, its loss before and after (up to it alone), last iteration, why it ended."""

    label: str
    initial: float | None
    final: float | None
    iteration: int
    ended: str = ""


def search_sections(starts: Sequence[StartRow], horizons: Sequence[HorizonRow]) -> str:
    """A table of the starts and one of the horizons, where there are several."""
    out = []
    if starts:
        lines = [
            [
                f"<code>{i}</code>" + (' <span class="mark ok">went on</span>' if row.chosen else ""),
                escape(row.start),
                format_number(row.loss),
                escape(row.end),
                format_number(row.reached),
                str(row.iterations),
            ]
            for i, row in enumerate(starts, start=1)
        ]
        out.append(
            section("Starts", table(["Start", "From", "#Loss there", "To", "#Loss reached", "#Iterations"], lines))
        )
    if horizons:
        head = ["Horizon", "#Loss before", "#Loss after", "#Last iteration", "Ended because"]
        lines = []
        for row in horizons:
            losses = format_number(row.initial), format_number(row.final)
            lines.append([f"<code>{escape(row.label)}</code>", *losses, str(row.iteration), escape(row.ended)])
        note = (
            '<p class="remark">Each loss counts what lies within its horizon alone: those of two horizons cannot be'
            " compared.</p>"
        )
        out.append(section("Horizons", table(head, lines) + note))
    return "\n".join(out)
