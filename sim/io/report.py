"""The report of a run: one self-contained HTML page with a 3-D player, curves and tables.  It needs no network.

`write_report(path, ReportData(...))`.  All data classes here are plain; whoever ran the job fills them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from sim.io.html import charts, format_number, name_cell, section, table
from sim.io.player import Take, player_data
from sim.io.report_fit import Correlation, ResidualRow, correlation_section, residual_section
from sim.io.report_tracks import Track, track_data
from sim.io.run_folder import to_json, write_atomically

STYLES = ("one", "two", "three", "four")
"""Classes of the style sheet for the lines of a chart."""

Value = float | Sequence[float] | np.ndarray | None


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
class ParameterRow:
    """One identified parameter; a value is a number or, for one per element, a sequence of them.

    Attributes:
        name, unit: as in the scene.
        start, final: value before and after.
        gradient: d loss / d value at the end.
        bounds: (low, high), None = open.
        true: the value an expectation gives, if one does.
        error: standard error of `final`, if it was estimated; infinite: the parameter is not identifiable.
        log: whether the parameter was sought on a logarithmic scale.
        note: one remark, such as "the loss does not depend on it".
    """

    name: str
    start: Value
    final: Value
    unit: str = ""
    gradient: Value = None
    bounds: tuple[float | None, float | None] = (None, None)
    true: float | None = None
    error: Value = None
    log: bool = False
    note: str = ""


@dataclass(frozen=True)
class ExpectationRow:
    """A claim of the scene and whether it holds: `path` into result.json, `want` in words, the value `got`."""

    path: str
    want: str
    got: Value | str
    ok: bool


@dataclass(frozen=True)
class TermRow:
    """One term of the loss: its value before and after, weight included."""

    name: str
    initial: float | None
    final: float | None


@dataclass(frozen=True)
class ExperimentRow:
    """One experiment: `use` is `fit` or `predict`; `measures` maps a name to (simulated, measured, relative error)."""

    name: str
    use: str
    loss: float | None = None
    measures: Mapping[str, tuple[float | None, float | None, float | None]] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class ReportData:
    """Everything a report shows.  What is empty is left out of the page.

    Attributes:
        title, about: name of the scene and its sentence.
        highlights: (label, text) of a few key figures, shown large.
        takes: what the player shows; several can be chosen from.
        tracks: what was measured and simulated over time; one is shown at a time.
        curves: charts over the iterations.
        parameters, expectations, terms, experiments: rows of the tables.
        correlation: of the errors of the parameters.
        residuals: rows of the table of residuals; residual_curves: charts below it.
        notes: warnings to read, one sentence each.
        facts: (label, text) of timings, versions, device: the small print.
        status: one of `ok`, `failed`, `interrupted`, or empty: then it follows from the expectations.
    """

    title: str
    about: str = ""
    highlights: Sequence[tuple[str, str]] = ()
    takes: Sequence[Take] = ()
    tracks: Sequence[Track] = ()
    curves: Sequence[Curve] = ()
    parameters: Sequence[ParameterRow] = ()
    expectations: Sequence[ExpectationRow] = ()
    terms: Sequence[TermRow] = ()
    experiments: Sequence[ExperimentRow] = ()
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
        _asset("tracks.html") if data.tracks else "",
        _parameters(data.parameters),
        _curves(data.curves),
        _expectations(data.expectations),
        _terms(data.terms),
        correlation_section(data.correlation),
        _experiments(data.experiments),
        residual_section(data.residuals, len(data.curves), len(data.residual_curves)),
        _facts(data.facts),
    ]
    return Template(_asset("report.html")).substitute(
        title=escape(data.title),
        about=f'<p class="about">{escape(data.about)}</p>' if data.about else "",
        badge=_badge(data),
        highlights=_highlights(data.highlights),
        sections="\n".join(section for section in sections if section),
        style=_asset("report.css"),
        data=_script_json({"takes": player_data(data.takes),
                           "tracks": [track_data(track) for track in data.tracks],
                           "curves": [_curve_data(curve) for curve in (*data.curves, *data.residual_curves)]}),
        scripts="\n".join(_asset(name) for name in ("charts.js", "drawing.js", "renderer.js", "player.js", "tracks.js", "page.js")),
    )


def _asset(name: str) -> str:
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


def _highlights(items: Sequence[tuple[str, str]]) -> str:
    if not items:
        return ""
    figures = "".join(f"<div><dt>{escape(label)}</dt><dd>{escape(text)}</dd></div>" for label, text in items)
    return f'<dl class="highlights">{figures}</dl>'


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    return (
        '<section class="card notes"><ul>' + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul></section>"
    )


def _player(takes: Sequence[Take]) -> str:
    return _asset("player.html") if takes else ""


def _parameters(rows: Sequence[ParameterRow]) -> str:
    if not rows:
        return ""
    has_true = any(row.true is not None for row in rows)
    has_error = any(row.error is not None for row in rows)
    head = ["Parameter", "#Start", "#Final"]
    head += ["#Standard error"] if has_error else []
    head += ["#True value", "#Deviation"] if has_true else []
    head += ["Unit", "#d loss / d value", "Range"]
    lines = []
    for row in rows:
        cells = [name_cell(row.name, row.note), format_number(row.start), f"<strong>{format_number(row.final)}</strong>"]
        if has_error:
            cells.append(_error(row))
        if has_true:
            cells += [format_number(row.true), _deviation(row)]
        lines.append([*cells, escape(row.unit), format_number(row.gradient, 3), _range(row)])
    return section("Parameters", table(head, lines))


def _error(row: ParameterRow) -> str:
    """The standard error, also in percent where that means something."""
    error = np.asarray(np.nan if row.error is None else row.error, dtype=np.float64)
    if not np.isfinite(error).all():
        return "not identifiable" if np.isinf(error).any() else "–"
    if row.final is None or error.size != 1 or not np.asarray(row.final).any():
        return f"± {format_number(error, 2)}"
    share = 100 * float(error.reshape(-1)[0]) / abs(float(np.asarray(row.final, dtype=np.float64).reshape(-1)[0]))
    return f"± {format_number(error, 2)} ({format_number(share, 2)} %)"


def _deviation(row: ParameterRow) -> str:
    final = None if row.final is None else np.asarray(row.final, dtype=np.float64)
    if row.true is None or not row.true or final is None or final.size != 1 or not np.isfinite(final).all():
        return "–"
    return f"{(float(final.reshape(-1)[0]) / row.true - 1) * 100:+.2f} %".replace("-", "−")


def _range(row: ParameterRow) -> str:
    """Bounds in numbers and, if both are there, a scale with start (ring), truth (line) and result (disc)."""
    low, high = row.bounds
    text = f"{format_number(low, 3)} … {format_number(high, 3)}" if low is not None or high is not None else "open"
    final = None if row.final is None else np.asarray(row.final, dtype=np.float64)
    if low is None or high is None or not high > low or final is None or final.size != 1:
        return f'<span class="bounds">{text}</span>'
    use_log = row.log and low > 0

    def place(value: Any) -> float | None:
        number = np.nan if value is None else float(np.asarray(value, dtype=np.float64).reshape(-1)[0])
        if not math.isfinite(number) or (use_log and number <= 0):
            return None
        part = math.log(number / low) / math.log(high / low) if use_log else (number - low) / (high - low)
        return 4 + 112 * min(1.0, max(0.0, part))

    marks = '<line class="track" x1="4" x2="116" y1="7" y2="7"/>'
    true, start, end = place(row.true), place(row.start), place(row.final)
    marks += "" if true is None else f'<line class="true" x1="{true:.1f}" x2="{true:.1f}" y1="1" y2="13"/>'
    marks += "" if start is None else f'<circle class="start" cx="{start:.1f}" cy="7" r="3.2"/>'
    marks += "" if end is None else f'<circle class="final" cx="{end:.1f}" cy="7" r="3.7"/>'
    hint = "ring: start, disc: final" + (", line: true value" if true is not None else "") + (", log scale" * use_log)
    picture = f'<svg class="range" viewBox="0 0 120 14" role="img"><title>{hint}</title>{marks}</svg>'
    return f'{picture}<span class="bounds">{text}</span>'


def _expectations(rows: Sequence[ExpectationRow]) -> str:
    if not rows:
        return ""
    marks = {True: '<span class="mark ok">✓ met</span>', False: '<span class="mark failed">✗ not met</span>'}
    lines = [
        [name_cell(row.path, ""), escape(row.want), escape(format_number(row.got)), marks[bool(row.ok)]] for row in rows
    ]
    return section("Expectations", table(["Claim", "Wanted", "#Got", ""], lines), "half")


def _curves(curves: Sequence[Curve]) -> str:
    if not curves:
        return ""
    return section("Optimisation", charts(0, len(curves)))


def _curve_data(curve: Curve) -> dict[str, Any]:
    values = np.asarray(curve.values, dtype=np.float64)
    lines = values.reshape(len(values), -1).T
    finite = values[np.isfinite(values)]
    references = [] if curve.reference is None else np.atleast_1d(np.asarray(curve.reference, dtype=np.float64)).tolist()
    names = curve.labels or [""] * len(lines)
    return {
        "name": curve.name,
        "unit": curve.unit,
        "x": [float(value) for value in curve.iterations],
        "series": [{"name": name, "y": line, "style": style} for name, line, style in zip(names, lines, STYLES, strict=False)],
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
                format_number(simulated),
                format_number(measured),
                "–" if error is None else f"{100 * error:+.1f} %".replace("-", "−"),
            ]
            for name, (simulated, measured, error) in row.measures.items()
        ] or [["", "", "", ""]]
        lines.append([*first, *measures[0]])
        lines += [["", "", "", *measure] for measure in measures[1:]]
    head = ["Experiment", "Use", "#Loss", "Measure", "#Simulated", "#Measured", "#Error"]
    if not any(row.measures for row in rows):
        head, lines = head[:3], [line[:3] for line in lines]
    return section("Experiments", table(head, lines))


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    if not facts:
        return ""
    items = "".join(f"<div><dt>{escape(label)}</dt><dd>{escape(text)}</dd></div>" for label, text in facts)
    return section("Run", f'<dl class="facts">{items}</dl>')
