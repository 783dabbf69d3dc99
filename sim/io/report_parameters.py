"""The part of a report that says what was found: a row for each number, of many a summary with a histogram."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape

import numpy as np

from sim.io.html import format_number, name_cell, section, table, value_and_error, with_error

Value = float | Sequence[float] | np.ndarray | None

MOST_ROWS = 12
"""Numbers of one parameter that have a row each; more of them are summed up in one."""

BINS, BAR, HEIGHT = 24, 5, 34
"""Of a histogram: bars, width of one, and height of the tallest [pixels]."""


@dataclass(frozen=True)
class ParameterRow:
    """One identified parameter; a value is a number or, of a vector or with one for each element, a sequence of them.

    Attributes:
        name, unit: as in the scene.
        start, final: value before and after.
        gradient: d loss / d value at the end.
        bounds: (low, high), None = open.
        true: the value an expectation gives, if one does.
        error: standard error of `final`, if it was estimated; infinite: the parameter is not identifiable.
        log: whether the search saw the parameter on a logarithmic scale.
        note: one remark, such as "the loss does not depend on it".
        labels: a name for each number, where there are several.
        numerics: its numerical error by cause, in words.
        by_cause: the same as numbers: cause -> in the parameter's shape.
    """

    name: str
    start: Value
    final: Value
    unit: str = ""
    gradient: Value = None
    bounds: tuple[float | None, float | None] = (None, None)
    true: Value = None
    error: Value = None
    log: bool = False
    note: str = ""
    labels: Sequence[str] = ()
    numerics: str = ""
    by_cause: Mapping[str, Value] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return max(np.size(value) for value in (self.start, self.final) if value is not None)

    def numbers(self) -> Iterator[ParameterRow]:
        """A row for each of its numbers, in the order of the labels."""
        names = self.labels or [f"{self.name}[{i}]" for i in range(self.size)]
        told = [i for i, name in enumerate(names) if f"`{name}`" in self.note]
        others = self.numerics.partition("; ")[2]
        for i, name in enumerate(names):
            note = self.note if i in (told or [0]) else ""
            yield replace(
                self,
                name=name,
                start=_of(self.start, i),
                final=_of(self.final, i),
                gradient=_of(self.gradient, i),
                true=_of(self.true, i),
                error=_of(self.error, i),
                note=note,
                labels=(),
                numerics="; ".join(filter(None, (self._moved(i), others))) if self.by_cause else self.numerics,
                by_cause={},
            )

    def _moved(self, i: int) -> str:
        """How far number i would move by each cause, with its unit: a share says nothing of one that may be zero."""
        return ", ".join(f"{cause} {_of(v, i):+.2g} {self.unit}".rstrip() for cause, v in self.by_cause.items())


def _of(value: Value, i: int) -> Value:
    """Number i of a value; that which stands for all."""
    if value is None:
        return None
    flat = np.asarray(value, dtype=np.float64).reshape(-1)
    return float(flat[i] if flat.size > 1 else flat[0])


def _known(value: float, error: float) -> str:
    return f"{with_error(value, error)} (not identifiable)" if math.isinf(error) else with_error(value, error)


def found_text(value: Value, error: Value, unit: str) -> str:
    """What was found, in a few words: with its error, all numbers of a vector, the range of many."""
    numbers, errors = _flat(value), _flat(error)
    if not numbers.size:
        return "–"
    if numbers.size == 1:
        text = _known(float(numbers[0]), float(errors[0])) if errors.size else format_number(numbers[0], 5)
    elif numbers.size <= 4:
        text = ", ".join(
            _known(float(n), float(e))
            for n, e in zip(numbers, errors if errors.size else [math.nan] * numbers.size, strict=True)
        )
        text = f"({text})"
    else:
        return f"{format_number(numbers.min())} … {format_number(numbers.max())} {unit} ({numbers.size} numbers)"
    return f"{text} {unit}".strip()


def parameter_section(rows: Sequence[ParameterRow]) -> str:
    """The table of what was found."""
    if not rows:
        return ""
    has_true = any(row.true is not None for row in rows)
    has_error = any(row.error is not None for row in rows)
    has_numerics = any(row.numerics for row in rows)
    head = ["Parameter", "#Start", "#Found", *(["#Standard error"] if has_error else []), "Unit"]
    head += ["Numerical error"] if has_numerics else []
    head += ["#True value", "#Deviation"] if has_true else []
    head += ["#d loss / d value", "Range"]
    lines = []
    for row in rows:
        for one in [row] if row.size == 1 or row.size > MOST_ROWS else row.numbers():
            cells = _line(one, has_true, has_error) if one.size == 1 else _summary(one, has_true, has_error)
            if has_numerics:
                cells.insert(5 if has_error else 4, _by_cause(one.numerics))
            lines.append(cells)
    many = [row for row in rows if row.size > MOST_ROWS]
    note = "".join(
        f'<p class="remark">All {row.size} numbers of <code>{escape(row.name)}</code> stand in result.json, '
        f"<code>parameters.{escape(row.name)}.final</code>.</p>"
        for row in many
    )
    if has_numerics:
        note += (
            '<p class="remark">Numerical error: how far the value would move with steps, iterations and a mesh'
            " without error.  The standard error does not contain it.</p>"
        )
    return section("Parameters", table(head, lines) + note)


def _by_cause(numerics: str) -> str:
    """Numerical errors, `step -1 %, mesh not estimated; ...`, with a line for each cause."""
    causes, *others = numerics.split("; ")
    lines = [f'<span class="unbroken">{escape(cause)}</span>' for cause in causes.split(", ")]
    return "<br>".join([*lines, *map(escape, others)])


def number_cells(row: ParameterRow) -> tuple[str, str]:
    """What was found for one number and its standard error, as text."""
    final, error = _flat(row.final), _flat(row.error)
    if not final.size:
        return "–", "–"
    value, sigma = value_and_error(float(final[0]), float(error[0]) if error.size else math.nan)
    share = 100 * float(error[0] / abs(final[0])) if error.size and final[0] else math.inf
    percent = f" ({format_number(share, 2)} %)" if share < 100 else ""
    return value, f"{sigma}{percent}" or "–"


def _line(row: ParameterRow, has_true: bool, has_error: bool) -> list[str]:
    value, error = number_cells(row)
    cells = [
        name_cell(row.name, row.note),
        format_number(row.start),
        f"<strong>{value}</strong>",
        *([error] if has_error else []),
    ]
    cells.append(f'<span class="unbroken">{escape(row.unit)}</span>')
    if has_true:
        cells += [format_number(row.true), _deviation(row)]
    return [*cells, format_number(row.gradient, 3), _range(row)]


def _summary(row: ParameterRow, has_true: bool, has_error: bool) -> list[str]:
    """One row for many numbers: their median, their range, how they are spread."""
    cells = [
        name_cell(row.name, f"{row.size} numbers: median, range" + (f"; {row.note}" if row.note else "")),
        _spread(row.start),
        _spread(row.final, strong=True),
    ]
    if has_error:
        errors = _flat(row.error)
        known = errors[np.isfinite(errors)]
        cells.append(
            f"{format_number(np.median(known), 2)} (median)"
            if known.size
            else "not identifiable"
            if np.isinf(errors).any()
            else "–"
        )
    cells.append(f'<span class="unbroken">{escape(row.unit)}</span>')
    cells += ["–", "–"] if has_true else []
    return [*cells, _spread(row.gradient, 3), _histogram(row)]


def _spread(value: Value, digits: int = 4, strong: bool = False) -> str:
    numbers = _flat(value)
    if not numbers.size:
        return "–"
    if np.ptp(numbers) == 0:
        return format_number(numbers[0], digits)
    low, middle, high = (format_number(v, digits) for v in (numbers.min(), np.median(numbers), numbers.max()))
    return f'{f"<strong>{middle}</strong>" if strong else middle}<div class="remark">{low} … {high}</div>'


def _histogram(row: ParameterRow) -> str:
    """How the numbers are spread: before grey, after in colour; on a logarithmic axis where they were sought on one."""
    start, final = _flat(row.start), _flat(row.final)
    shown = final if final.size else start
    both = np.concatenate([start, shown])
    if not np.isfinite(both).all():
        return ""
    log = row.log and bool(both.min() > 0)
    low, high = (np.log10 if log else np.asarray)(np.array([both.min(), both.max()]))
    if high <= low:
        return f"{row.size} × {format_number(both[0])}"
    edges = np.linspace(low, high, BINS + 1)
    bars = []
    for values, style in ((start, "was"), (shown, "bar")):
        counts, _ = np.histogram(np.log10(values) if log else values, edges)
        size = HEIGHT / max(1, counts.max())
        bars += [
            f'<rect class="{style}" x="{i * BAR}" y="{HEIGHT - n * size:.1f}" width="{BAR - 1}"'
            f' height="{n * size:.1f}"/>'
            for i, n in enumerate(counts.tolist())
            if n
        ]
    hint = f"{row.size} numbers; grey: start, blue: found{', log scale' * log}; each scaled to its tallest bar"
    text = f'<span class="bounds">{format_number(both.min(), 3)} … {format_number(both.max(), 3)}</span>'
    return (
        f'<svg class="bars" width="{BINS * BAR}" height="{HEIGHT}" viewBox="0 0 {BINS * BAR} {HEIGHT}" role="img">'
        f"<title>{hint}</title>{''.join(bars)}</svg>{text}"
    )


def _deviation(row: ParameterRow) -> str:
    final, true = _flat(row.final), _flat(row.true)
    if not (final.size == true.size == 1 and true[0] and np.isfinite(final[0])):
        return "–"
    share = 100 * (float(final[0]) / float(true[0]) - 1)
    return (
        f"{share:+.2f} %".replace("-", "−") if abs(share) >= 0.1 else f"{'+' * (share > 0)}{format_number(share, 2)} %"
    )


def _range(row: ParameterRow) -> str:
    """Bounds in numbers and, if both are there, a scale with start (ring), truth (line) and result (disc)."""
    low, high = row.bounds
    text = f"{format_number(low, 3)} … {format_number(high, 3)}" if low is not None or high is not None else "open"
    if low is None or high is None or not high > low or row.final is None:
        return f'<span class="bounds">{text}</span>'
    use_log = row.log and low > 0

    def place(value: Value) -> float | None:
        number = np.nan if value is None else float(_flat(value)[0])
        if not math.isfinite(number) or (use_log and number <= 0):
            return None
        part = math.log(number / low) / math.log(high / low) if use_log else (number - low) / (high - low)
        return 4 + 112 * min(1.0, max(0.0, part))

    marks = '<line class="track" x1="4" x2="116" y1="7" y2="7"/>'
    true, start, end = place(row.true), place(row.start), place(row.final)
    marks += "" if true is None else f'<line class="true" x1="{true:.1f}" x2="{true:.1f}" y1="1" y2="13"/>'
    marks += "" if start is None else f'<circle class="start" cx="{start:.1f}" cy="7" r="3.2"/>'
    marks += "" if end is None else f'<circle class="final" cx="{end:.1f}" cy="7" r="3.7"/>'
    hint = "ring: start, disc: found" + (", line: true value" if true is not None else "") + (", log scale" * use_log)
    picture = f'<svg class="range" viewBox="0 0 120 14" role="img"><title>{hint}</title>{marks}</svg>'
    return f'{picture}<span class="bounds">{text}</span>'


def _flat(value: Value) -> np.ndarray:
    return np.zeros(0) if value is None else np.asarray(value, dtype=np.float64).reshape(-1)
