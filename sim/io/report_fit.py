"""The parts of a report that say how well a result holds: correlation of parameters, residuals by marker and time,
contacts about to switch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from sim.io.html import charts, format_number, name_cell, quantity, section, table

BAR, GAP, HEIGHT = 9, 2, 46
"""Width of a bar, space between two, and height of the tallest [pixels]."""


@dataclass(frozen=True, eq=False)
class Correlation:
    """How the errors of the parameters go together: names (n,), matrix (n, n), nan where an error is not known."""

    names: Sequence[str]
    matrix: np.ndarray


@dataclass(frozen=True, eq=False)
class ResidualRow:
    """Distances of markers from where they were seen.

    Attributes:
        experiment, markers: their names.
        use: `fit` or `predict`.
        rms: root mean square of all [m].
        in_noise: the same in units of what the stated noise alone would leave; None: the noise was estimated from it.
        by_marker: (markers,) root mean square of each [m]; nan: never seen.
        noise_level: what the stated noise alone would leave [m].
        note: what is compared, where it is not the position.
        over_time: what they look like over time, in words.
    """

    experiment: str
    markers: str
    use: str
    rms: float
    in_noise: float | None
    by_marker: np.ndarray
    noise_level: float
    note: str = ""
    over_time: str = ""


@dataclass(frozen=True)
class ContactRow:
    """Contacts of an experiment: how many pushed, summed over steps, how many of these were about to switch, in all and
    by kind; how deep the worst was [m], of what, and when [s]."""

    experiment: str
    pushing: int
    switching: int
    kinds: Mapping[str, int]
    depth: float
    worst: str
    time: float


def contact_section(rows: Sequence[ContactRow]) -> str:
    """A line for each experiment; nothing where nothing ever pushed."""
    lines = [
        [
            escape(row.experiment),
            f"{row.pushing:,}".replace(",", " "),
            f"{row.switching:,}".replace(",", " "),
            escape(", ".join(f"{kind}: {count}" for kind, count in row.kinds.items())),
            escape(quantity(row.depth, "m", 3)),
            f"<code>{escape(row.worst)}</code>" if row.worst else "",
            escape(quantity(row.time, "s", 3)) if row.worst else "",
        ]
        for row in rows
        if row.pushing
    ]
    head = ["Experiment", "#Contacts, summed over steps", "#About to switch", "Kinds", "#Deepest", "Of", "#At"]
    return section("Contacts", table(head, lines)) if lines else ""


def correlation_section(correlation: Correlation | None) -> str:
    """A table of the correlations, coloured by sign and strength; nothing for a single parameter."""
    if correlation is None or len(correlation.names) < 2:
        return ""
    rows = []
    for name, line in zip(correlation.names, np.asarray(correlation.matrix, np.float64), strict=True):
        rows.append([name_cell(name, ""), *(_tinted(value) for value in line)])
    text = (
        "Near +1 or −1 the recordings hardly tell two parameters apart: a change of one is made up for by the other, "
        "in the same (+) or the opposite (−) direction."
    )
    head = ["", *(f"#{name}" for name in correlation.names)]
    return section("Correlation of the errors", f'{table(head, rows)}<p class="remark">{text}</p>')


def _tinted(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    color = "var(--accent)" if value > 0 else "var(--bad)"
    share = round(45 * min(abs(value), 1.0))
    text = f"{value:+.2f}".replace("-", "−")
    return f'<span class="tint" style="background: color-mix(in srgb, {color} {share}%, transparent)">{text}</span>'


def residual_section(rows: Sequence[ResidualRow], first_chart: int, chart_count: int) -> str:
    """A row for each set of markers with a bar for each marker, and charts over time."""
    if not rows:
        return ""
    lines = []
    for row in rows:
        worst = int(np.nanargmax(row.by_marker))
        lines.append(
            [
                name_cell(row.experiment, row.note),
                escape(row.use),
                escape(row.markers),
                _millimetres(row.rms),
                "estimated" if row.in_noise is None else format_number(row.in_noise, 3),
                f"{_millimetres(float(row.by_marker[worst]))} (no. {worst})",
                _bars(row),
                escape(row.over_time),
            ]
        )
    head = ["Experiment", "Use", "Markers", "#rms [mm]", "#over noise", "#worst marker [mm]", "by marker", "over time"]
    return section("Residuals", table(head, lines) + charts(first_chart, chart_count))


def _millimetres(metres: float) -> str:
    return format_number(1e3 * metres, 3)


def _bars(row: ResidualRow) -> str:
    """A bar for each marker, and a line where the stated noise alone would end."""
    values = np.asarray(row.by_marker, np.float64)
    top = 1.05 * max(float(np.nanmax(values)), row.noise_level)
    width = len(values) * (BAR + GAP) + GAP
    parts = []
    for i, value in enumerate(values.tolist()):
        x, seen = GAP + i * (BAR + GAP), math.isfinite(value)
        height = HEIGHT * value / top if seen else 0.0
        words = f"marker {i}: {_millimetres(value)} mm" if seen else f"marker {i}: never seen"
        parts.append(
            f'<g><title>{words}</title><rect class="hit" x="{x}" y="0" width="{BAR}" height="{HEIGHT}"/>'
            f'<rect class="bar" x="{x}" y="{HEIGHT - height:.1f}" width="{BAR}" height="{height:.1f}"/></g>'
        )
    level = HEIGHT - HEIGHT * row.noise_level / top
    line = (
        f'<line class="reference" x1="0" x2="{width}" y1="{level:.1f}" y2="{level:.1f}"><title>the stated'
        " noise</title></line>"
    )
    return (
        f'<svg class="bars" width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}"'
        f' role="img">{"".join(parts)}{line}</svg>'
    )
