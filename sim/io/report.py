"""The report of a run: one self-contained HTML page with a 3-D player, curves and tables.  It needs no network.

`write_report(path, ReportData(...))`.  All data classes here are plain; whoever ran the job fills them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from sim.io.html import charts, copyable, format_number, name_cell, quantity, section, table, with_code
from sim.io.player import Take, player_data
from sim.io.report_fit import (
    ContactRow,
    Correlation,
    ResidualRow,
    contact_section,
    correlation_section,
    residual_section,
)
from sim.io.report_parameters import ParameterRow, Value, parameter_section
from sim.io.report_search import HorizonRow, StartRow, search_sections
from sim.io.report_tracks import Track, track_data
from sim.io.run_folder import to_json, write_atomically

MOST_LETTERS = 48
"""Of a claim and what it wants, where the expectations share their line of the page with another table."""

STYLES = ("one", "two", "three", "four")
"""Classes of the style sheet for the lines of a chart."""


@dataclass(frozen=True)
class Curve:
    """A number per iteration (or over something else), drawn as one small chart.

    Attributes:
        name: title of the chart.
        iterations: (n,) iteration numbers, or what `over` says.
        values: (n,) values, or (n, lines) of up to four that share the axes; a non-finite one is a gap.
        unit: shown beside the name.
        log: logarithmic axis; taken as linear if a value is not positive.
        reference: a level drawn dashed, such as the true value; one for each line, or one.
        over: what the horizontal axis counts: `iteration`, or a unit.
        labels: a name for each line.
    """

    name: str
    iterations: Sequence[float]
    values: Sequence[float] | np.ndarray
    unit: str = ""
    log: bool = False
    reference: float | Sequence[float] | None = None
    over: str = "iteration"
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class ExpectationRow:
    """A claim of the scene and whether it holds: `path` into result.json, `want` in words, value `got`, unit."""

    path: str
    want: str
    got: Value | str
    ok: bool
    unit: str = ""


@dataclass(frozen=True)
class TermRow:
    """One term of the loss: its value before and after, weight included."""

    name: str
    initial: float | None
    final: float | None


@dataclass(frozen=True)
class MeasureRow:
    """A number of interest: simulated, from the recording, relative error; standard error of the simulated one."""

    simulated: float | None
    measured: float | None = None
    error: float | None = None
    unit: str = ""
    standard_error: float | None = None


@dataclass(frozen=True)
class ExperimentRow:
    """One experiment: `use` is `fit` or `predict`; `measures` by name."""

    name: str
    use: str
    loss: float | None = None
    measures: Mapping[str, MeasureRow] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class JointErrorRow:
    """How far the rigid joints of an experiment come apart: largest and root mean square of distances [m] and angles
    [rad], over all frames; the joint where it is most, and when [s]."""

    experiment: str
    distances: tuple[float, ...]
    angles: tuple[float, ...]
    worst: str
    time: float


@dataclass(frozen=True)
class ReportData:
    """Everything a report shows.  What is empty is left out of the page.

    Attributes:
        title, about: name of the scene and its sentence.
        highlights: (name, text) of what was found, shown large.
        summary: (label, text) of how it was found.
        takes: what the player shows; several can be chosen from.
        tracks: what was measured and simulated over time; one is shown at a time.
        curves: charts over the iterations.
        starts, horizons: of a search that had several.
        results: (title, text) of what was found in forms that can be copied.
        parameters, expectations, terms, experiments: rows of the tables.
        joints: how well rigid joints hold.  contacts: how many push, and are about to switch; how deep the worst is.
        correlation: of the errors of the parameters.
        residuals: rows of the table of residuals; residual_curves: charts below it.
        notes: warnings to read, one sentence each.
        facts: (label, text) of timings, versions, device: the small print.
        status: one of `ok`, `failed`, `interrupted`, or empty: then it follows from the expectations.
    """

    title: str
    about: str = ""
    highlights: Sequence[tuple[str, str]] = ()
    summary: Sequence[tuple[str, str]] = ()
    takes: Sequence[Take] = ()
    tracks: Sequence[Track] = ()
    curves: Sequence[Curve] = ()
    starts: Sequence[StartRow] = ()
    horizons: Sequence[HorizonRow] = ()
    results: Sequence[tuple[str, str]] = ()
    parameters: Sequence[ParameterRow] = ()
    expectations: Sequence[ExpectationRow] = ()
    terms: Sequence[TermRow] = ()
    experiments: Sequence[ExperimentRow] = ()
    joints: Sequence[JointErrorRow] = ()
    contacts: Sequence[ContactRow] = ()
    correlation: Correlation | None = None
    residuals: Sequence[ResidualRow] = ()
    residual_curves: Sequence[Curve] = ()
    notes: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    status: str = ""


def write_report(path: str | os.PathLike[str], data: ReportData) -> Path:
    """Write the page, atomically.  `report.html#40` opens its player paused on frame 40."""
    return write_atomically(path, report_html(data))


def report_html(data: ReportData) -> str:
    """The whole page as text."""
    sections = [
        _notes(data.notes),
        _player(data.takes),
        _tracks(data.tracks),
        parameter_section(data.parameters),
        _results(data.results),
        _curves(data.curves),
        search_sections(data.starts, data.horizons),
        _expectations(data.expectations),
        _terms(data.terms),
        correlation_section(data.correlation),
        _experiments(data.experiments),
        _joints(data.joints),
        contact_section(data.contacts),
        residual_section(data.residuals, len(data.curves), len(data.residual_curves)),
        _facts(data.facts),
    ]
    return Template(asset("report.html")).substitute(
        title=escape(data.title),
        about=f'<p class="about">{escape(data.about)}</p>' if data.about else "",
        badge=_badge(data),
        highlights=_highlights(data.highlights, data.summary),
        sections="\n".join(section for section in sections if section),
        style=asset("report.css"),
        data=_script_json(
            {
                "takes": player_data(data.takes),
                "tracks": [track_data(track) for track in data.tracks],
                "curves": [_curve_data(curve) for curve in (*data.curves, *data.residual_curves)],
            }
        ),
        scripts="\n".join(
            asset(name) for name in ("charts.js", "drawing.js", "renderer.js", "player.js", "tracks.js", "page.js")
        ),
    )


def asset(name: str) -> str:
    return resources.files("sim.io").joinpath("assets", name).read_text(encoding="utf-8")


def _script_json(value: Any) -> str:
    """JSON that may stand inside a `<script>` element: no text in it can close the element or open a comment."""
    text = to_json(value)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _badge(data: ReportData) -> str:
    met = sum(row.ok for row in data.expectations)
    count = len(data.expectations)
    claims = f"{met} of {count} expectation{'s' if count != 1 else ''} met" if count else ""
    status = data.status or (("ok" if met == count else "failed") if count else "")
    if not status:
        return ""
    words = {"ok": claims or "done", "failed": claims or "failed", "interrupted": "interrupted"}
    return f'<span class="badge {escape(status)}">{escape(words.get(status, status))}</span>'


def _highlights(found: Sequence[tuple[str, str]], summary: Sequence[tuple[str, str]]) -> str:
    figures = "".join(
        f"<div><dt><code>{escape(label)}</code></dt><dd>{escape(text)}</dd></div>" for label, text in found
    )
    numbers = " · ".join(f"{escape(label)} <b>{escape(text)}</b>" for label, text in summary)
    return (f'<dl class="highlights">{figures}</dl>' if found else "") + (
        f'<p class="summary">{numbers}</p>' if summary else ""
    )


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    return (
        '<section class="card notes"><ul>'
        + "".join(f"<li>{with_code(note)}</li>" for note in notes)
        + "</ul></section>"
    )


def _player(takes: Sequence[Take]) -> str:
    return asset("player.html") if takes else ""


def _tracks(tracks: Sequence[Track]) -> str:
    if not tracks:
        return ""
    heading = "Measured and simulated" if any(track.measured is not None for track in tracks) else "Motion over time"
    return Template(asset("tracks.html")).substitute(heading=heading)


def _results(results: Sequence[tuple[str, str]]) -> str:
    if not results:
        return ""
    return section(
        "Use this result", "".join(copyable(f"copy{i}", title, text) for i, (title, text) in enumerate(results))
    )


def _expectations(rows: Sequence[ExpectationRow]) -> str:
    if not rows:
        return ""
    marks = {True: '<span class="mark ok">✓ met</span>', False: '<span class="mark failed">✗ not met</span>'}
    lines = [
        [
            name_cell(row.path, ""),
            escape(row.want),
            escape(f"{format_number(row.got)} {row.unit}".strip()),
            marks[bool(row.ok)],
        ]
        for row in rows
    ]
    short = all(len(row.path) + len(row.want) <= MOST_LETTERS for row in rows)
    return section("Expectations", table(["Claim", "Wanted", "#Got", ""], lines), "half" if short else "")


def _curves(curves: Sequence[Curve]) -> str:
    if not curves:
        return ""
    return section("Optimisation", charts(0, len(curves)))


def _curve_data(curve: Curve) -> dict[str, Any]:
    values = np.asarray(curve.values, dtype=np.float64)
    lines = values.reshape(len(values), -1).T
    finite = values[np.isfinite(values)]
    references = (
        [] if curve.reference is None else np.atleast_1d(np.asarray(curve.reference, dtype=np.float64)).tolist()
    )
    names = curve.labels or [""] * len(lines)
    return {
        "name": curve.name,
        "unit": curve.unit,
        "x": [float(value) for value in curve.iterations],
        "series": [
            {"name": name, "y": line, "style": style} for name, line, style in zip(names, lines, STYLES, strict=False)
        ],
        "log": bool(curve.log and finite.size and finite.min() > 0),
        "references": references,
        "band": None,
        "goals": [],
        "over": curve.over,
    }


def _terms(rows: Sequence[TermRow]) -> str:
    if not rows:
        return ""
    lines = [[name_cell(row.name, ""), format_number(row.initial), format_number(row.final)] for row in rows]
    return section("Loss terms", table(["Term", "#Initial", "#Final"], lines), "half")


def _experiments(rows: Sequence[ExperimentRow]) -> str:
    if not rows:
        return ""
    lines = []
    for row in rows:
        first = [name_cell(row.name, row.note), escape(row.use), format_number(row.loss)]
        measures = [
            [
                escape(name),
                escape(
                    quantity(m.simulated, m.unit)
                    + (f" ± {quantity(m.standard_error, m.unit, 2)}" if m.standard_error else "")
                ),
                escape(quantity(m.measured, m.unit)),
                "–" if m.error is None else f"{100 * m.error:+.1f} %".replace("-", "−"),
            ]
            for name, m in row.measures.items()
        ] or [["", "", "", ""]]
        lines.append([*first, *measures[0]])
        lines += [["", "", "", *measure] for measure in measures[1:]]
    head = ["Experiment", "Use", "#Loss", "Measure", "#Simulated", "#Measured", "#Error"]
    if not any(row.measures for row in rows):
        head, lines = head[:3], [line[:3] for line in lines]
    return section("Experiments", table(head, lines))


def _joints(rows: Sequence[JointErrorRow]) -> str:
    if not rows:
        return ""
    lines = [
        [
            escape(row.experiment),
            *(escape(quantity(value, "m", 3)) for value in row.distances),
            *(escape(quantity(value, "rad", 3)) for value in row.angles),
            f"<code>{escape(row.worst)}</code>",
            escape(quantity(row.time, "s", 3)),
        ]
        for row in rows
    ]
    head = ["Experiment", "#Apart, largest", "#rms", "#Turned, largest", "#rms", "Worst joint", "#At"]
    return section("Errors of rigid joints", table(head, lines))


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    if not facts:
        return ""
    items = "".join(f"<div><dt>{escape(label)}</dt><dd>{escape(text)}</dd></div>" for label, text in facts)
    return section("Run", f'<dl class="facts">{items}</dl>')
