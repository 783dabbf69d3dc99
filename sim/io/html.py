"""Pieces of HTML that the sections of a report share."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np


def format_number(value: Any, digits: int = 4) -> str:
    """A number for a table: `digits` significant ones, a dash for what is missing, the range of more than four."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    values = np.asarray(value, dtype=np.float64).reshape(-1)
    if values.size == 0:
        return "–"
    if 1 < values.size <= 4:
        return ", ".join(format_number(value, digits) for value in values)
    if values.size > 1:
        low, high = format_number(values.min(), digits), format_number(values.max(), digits)
        return f"{low} … {high} ({values.size} values)"
    number = float(values[0])
    if not math.isfinite(number):
        return "not finite"
    text = f"{number:.{digits}g}"
    if "e" in text:
        mantissa, _, exponent = text.partition("e")
        text = f"{mantissa}e{int(exponent)}"
    return text.replace("-", "−")


def quantity(value: float | None, unit: str, digits: int = 4) -> str:
    """A number with its unit, `12.3 mm`: lengths and speeds below 0.1 in thousandths, angles in degrees; a dash if
    missing."""
    if value is None:
        return "–"
    if unit in ("m", "m/s") and 0.0 < abs(value) < 0.1:
        return f"{format_number(1e3 * value, digits)} m{unit}"
    if unit == "rad":
        return f"{format_number(math.degrees(value), digits)} deg"
    return f"{format_number(value, digits)} {unit}".strip()


LOST = 0.1
"""Part of its standard error below which two digits of this leave none of a value."""


def value_and_error(value: float, error: float) -> tuple[str, str]:
    """Value and standard error, to two digits of the error: (`0.010003`, `0.000074`), (`2.810e5`, `0.012e5`); a value
    of which these would leave nothing to two digits of its own: (`0.16`, `20`)."""
    if not (math.isfinite(value) and math.isfinite(error) and error > 0):
        return format_number(value, 5), (
            "" if math.isnan(error) else "not identifiable" if math.isinf(error) else format_number(error, 2)
        )
    if 0.0 < abs(value) < LOST * error:
        return format_number(value, 2), format_number(error, 2)
    power = math.floor(math.log10(max(abs(value), error)))
    if -4 <= power < 5:
        power = 0
    decimals = max(0, 1 - math.floor(math.log10(error / 10.0**power)))
    first, second = (
        f"{number / 10.0**power:.{decimals}f}{f'e{power}' if power else ''}".replace("-", "−")
        for number in (value, error)
    )
    return first, second


def with_error(value: float, error: float) -> str:
    """`value ± error`, to two digits of the error: `0.010003 ± 0.000074`, `(2.810 ± 0.012)e5`."""
    first, second = value_and_error(value, error)
    if not math.isfinite(error) or error <= 0:
        return first
    (a, _, power), (b, _, other) = first.partition("e"), second.partition("e")
    return f"({a} ± {b})e{power}" if power and power == other else f"{first} ± {second}"


def section(title: str, body: str, kind: str = "") -> str:
    """A card of the page; `kind` is a class of the style sheet, such as `half`."""
    return f'<section class="card {kind}"><h2>{escape(title)}</h2>\n{body}\n</section>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of finished HTML cells; `head` is text, a leading `#` marks a column of numbers."""
    kinds = [' class="number"' if title.startswith("#") else "" for title in head]
    titles = "".join(f"<th{kind}>{escape(title.lstrip('#'))}</th>" for kind, title in zip(kinds, head, strict=True))
    lines = [
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    ]
    body = "\n".join(lines)
    return f'<div class="scroll"><table><thead><tr>{titles}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def with_code(text: str) -> str:
    """Words in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def name_cell(name: str, note: str) -> str:
    """A name and, below it, a remark."""
    return f"<code>{escape(name)}</code>" + (f'<div class="remark">{with_code(note)}</div>' if note else "")


def copyable(identifier: str, title: str, text: str) -> str:
    """A text with a button that copies it."""
    button = f'<button type="button" class="copy" data-of="{identifier}">Copy</button>'
    return (
        f'<div class="copyable"><div class="headline"><h3>{escape(title)}</h3>{button}</div>'
        f'<pre id="{identifier}">{escape(text)}</pre></div>'
    )


def charts(first: int, count: int) -> str:
    """Places for the page's charts number `first` to `first + count - 1`."""
    if not count:
        return ""
    places = "".join(f'<figure class="chart" data-curve="{i}"></figure>' for i in range(first, first + count))
    return f'<div class="charts">{places}</div><noscript>The charts need JavaScript.</noscript>'
