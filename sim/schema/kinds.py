"""The kinds of single values that a schema line can ask for: numbers with units, words, file names, references."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.files import LARGEST_WHOLE
from sim.schema.errors import word_hint
from sim.schema.reading import BROKEN, Json, Kind, Reading, SchemaLine, Steps, described
from sim.schema.units import UnitError, expected, is_in, parse_unit, to_si, units_of
from sim.schema.yaml_marks import YamlNode

LARGEST = {"m": 1e9, "s": 1e9}
"""Lengths, as of a recording: beyond them float64 has no micrometres; times, 30 years."""
LARGEST_NUMBER = 1e30
"""Of other quantities, and one over the least but zero: their squares and products are numbers still."""

POSITIVE = "(0, inf)"
NOT_NEGATIVE = "[0, inf)"

_QUANTITY = r"^\s*[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\s*(?:[A-Za-z%µμ1(].*)?$"
"""What editors take for a number with a unit; `to_si` is stricter."""


def inside(value: float, bounds: str) -> bool:
    """Whether a number lies in an interval such as `(0, inf)`; an empty text allows every finite number."""
    if not bounds or not math.isfinite(value):
        return math.isfinite(value)
    low, high = (float(end) for end in bounds[1:-1].split(","))
    above = low < value if bounds[0] == "(" else low <= value
    return above and (value < high if bounds[-1] == ")" else value <= high)


def bounds_words(bounds: str) -> str:
    """The interval in words."""
    return {"": "finite", POSITIVE: "positive", NOT_NEGATIVE: "zero or positive"}.get(bounds, f"in {bounds}")


def _json_interval(bounds: str) -> Json:
    number: Json = {"type": "number"}
    if bounds:
        low, high = (float(end) for end in bounds[1:-1].split(","))
        number["exclusiveMinimum" if bounds[0] == "(" else "minimum"] = low
        if high != math.inf:
            number["exclusiveMaximum" if bounds[-1] == ")" else "maximum"] = high
    return number


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class Number(Kind):
    """A quantity: a number in SI, or a text with a unit. `bounds` is an interval such as `[0, inf)`, in SI."""

    unit: str = ""
    bounds: str = ""

    def words(self) -> str:
        return expected(self.unit)

    def cell(self) -> str:
        return f"{self.words()}, {bounds_words(self.bounds)}" if self.bounds else self.words()

    def json_schema(self) -> Json:
        return {"anyOf": [_json_interval(self.bounds), {"type": "string", "pattern": _QUANTITY}]}

    def fits(self, value: Any) -> bool:
        return _is_number(value) or isinstance(value, str)

    def take(self, node: YamlNode, steps: Steps, reading: Reading) -> Any:
        try:
            number = to_si(node.value, self.unit) if isinstance(node.value, str) else float(node.value)
        except UnitError as error:
            return reading.fail(steps, error.what, error.hint)
        if not inside(number, self.bounds):
            return reading.fail(steps, f"{node.value} is not {bounds_words(self.bounds)}")
        largest = LARGEST.get(self.unit, LARGEST_NUMBER)
        if abs(number) > largest:
            what = f"{node.value} is beyond {largest:g} {self.unit}".rstrip()
            return reading.fail(steps, what, "nothing that is simulated is as large: check its unit")
        if 0.0 < abs(number) < 1.0 / LARGEST_NUMBER:
            return reading.fail(steps, f"{node.value} is no number to compute with", "write 0, or check its unit")
        return number


@dataclass(frozen=True)
class Tuple(Kind):
    """A list of `count` quantities of one dimension; `none` allows `null` for an end that is open."""

    count: int
    unit: str = ""
    bounds: str = ""
    none: bool = False
    nonzero: bool = False

    def words(self) -> str:
        what = "numbers" if not self.unit else f"numbers, each {expected(self.unit)}"
        return f"a list of {self.count} {what}" + (" or null" if self.none else "")

    def json_schema(self) -> Json:
        item = Number(self.unit, self.bounds).json_schema()
        if self.none:
            item["anyOf"].append({"type": "null"})
        return {"type": "array", "items": item, "minItems": self.count, "maxItems": self.count}

    def fits(self, value: Any) -> bool:
        return isinstance(value, list) and len(value) == self.count

    def hint(self, value: Any) -> str:
        return f"it has {len(value)} items" if isinstance(value, list) else ""

    def take(self, node: YamlNode, steps: Steps, reading: Reading) -> Any:
        number = Number(self.unit, self.bounds)
        values = []
        for i, child in enumerate(node.value):
            place = (*steps, str(i))
            reading.marks[place] = child.mark
            values.append(None if self.none and child.value is None else number.read(child, place, reading))
        if BROKEN in values:
            return BROKEN
        if self.nonzero and not any(values):
            return reading.fail(steps, "a direction of length zero")
        if self.none and None not in values and values[0] > values[1]:  # type: ignore[operator]
            what = f"the low end {values[0]:g} is above the high end {values[1]:g}"
            return reading.fail(steps, what, "write [low, high]")
        return values

    def children(self, line: SchemaLine, value: Any) -> Mapping[str, SchemaLine]:
        number = Number(self.unit, self.bounds)
        return {str(i): SchemaLine(str(i), number, line.doc, may_vary=line.may_vary) for i in range(self.count)}


@dataclass(frozen=True)
class Int(Kind):
    """A whole number from `least` to `most`."""

    least: int = 0
    most: int = LARGEST_WHOLE

    def words(self) -> str:
        return f"a whole number from {self.least}" + (f" to {self.most:,}" if self.most != LARGEST_WHOLE else "")

    def json_schema(self) -> Json:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}

    def fits(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    def take(self, node: YamlNode, steps: Steps, reading: Reading) -> Any:
        if node.value < self.least:
            return reading.fail(steps, f"{node.value} is below {self.least}")
        if node.value > self.most:
            return reading.fail(steps, f"{node.value:,} is above {self.most:,}, the most that is taken")
        return node.value


@dataclass(frozen=True)
class Text(Kind):
    """A text; `pattern` (with `form`, its description) restricts it."""

    form: str = "a text"
    pattern: str = ""

    def words(self) -> str:
        return self.form

    def json_schema(self) -> Json:
        return {"type": "string", "pattern": f"^(?:{self.pattern})$"} if self.pattern else {"type": "string"}

    def fits(self, value: Any) -> bool:
        return isinstance(value, str) and (not self.pattern or re.fullmatch(self.pattern, value) is not None)


@dataclass(frozen=True)
class Bool(Kind):
    """`true` or `false`."""

    def words(self) -> str:
        return "`true` or `false`"

    def json_schema(self) -> Json:
        return {"type": "boolean"}

    def fits(self, value: Any) -> bool:
        return isinstance(value, bool)


@dataclass(frozen=True)
class Choice(Kind):
    """One of a few values, mostly words."""

    options: tuple[str | int | bool, ...]

    def words(self) -> str:
        return " or ".join(described(option) for option in self.options)

    def json_schema(self) -> Json:
        return {"enum": list(self.options)}

    def fits(self, value: Any) -> bool:
        return any(type(value) is type(option) and value == option for option in self.options)

    def hint(self, value: Any) -> str:
        words = [option for option in self.options if isinstance(option, str)]
        return word_hint(value, words, list_up_to=0) if isinstance(value, str) else ""


@dataclass(frozen=True)
class UnitName(Kind):
    """The unit of the numbers in a file: a name (`mm`), kept as its factor to SI; or that factor."""

    of: str

    def words(self) -> str:
        return f"a unit of {expected(self.of)} ({', '.join(units_of(self.of))}), or its size in {self.of}"

    def json_schema(self) -> Json:
        factor = {"type": "number", "exclusiveMinimum": 0}
        return {"anyOf": [{"enum": units_of(self.of)}, {"type": "string"}, factor]}

    def fits(self, value: Any) -> bool:
        return _is_number(value) or isinstance(value, str)

    def take(self, node: YamlNode, steps: Steps, reading: Reading) -> Any:
        if _is_number(node.value):
            return Number("", POSITIVE).take(node, steps, reading)
        try:
            factor, dimension = parse_unit(node.value)
        except UnitError as error:
            return reading.fail(steps, error.what, error.hint)
        if dimension != parse_unit(self.of)[1]:
            return reading.fail(steps, f"`{node.value}` is not a unit of {expected(self.of)}")
        return float(factor)


@dataclass(frozen=True)
class Axes(Kind):
    """Which axes of a file become our x, y and z, as in `[z, -y, x]`."""

    def words(self) -> str:
        return "three file axes that become our x, y, z, such as `[z, -y, x]`"

    def json_schema(self) -> Json:
        axis = {"enum": [sign + axis for axis in "xyz" for sign in ("", "-", "+")]}
        return {"type": "array", "items": axis, "minItems": 3, "maxItems": 3, "uniqueItems": True}

    def fits(self, value: Any) -> bool:
        names = [str(axis).lstrip("+").removeprefix("-") for axis in value] if isinstance(value, list) else []
        return sorted(names) == ["x", "y", "z"]

    def take(self, node: YamlNode, steps: Steps, reading: Reading) -> Any:
        return [child.value.lstrip("+") for child in node.value]

    @staticmethod
    def is_rotation(axes: list[str]) -> bool:
        """Whether the axes keep left and right: an even permutation with an even number of signs, or both odd."""
        order = [axis.removeprefix("-") for axis in axes]
        swaps = sum(order[i] > order[j] for i in range(3) for j in range(i + 1, 3))
        return (swaps + sum(axis.startswith("-") for axis in axes)) % 2 == 0


@dataclass(frozen=True)
class FrameText(Kind):
    """`frame 71`, kept as `{frame: 71}`."""

    def words(self) -> str:
        return "`frame <number>`"

    def json_schema(self) -> Json:
        return {"type": "string", "pattern": "^frame +[0-9]+$"}

    def fits(self, value: Any) -> bool:
        return isinstance(value, str) and re.fullmatch(r"frame\s+[0-9]{1,9}", value) is not None

    def take(self, node: YamlNode, steps: Steps, reading: Reading) -> Any:
        return {"frame": int(node.value.split()[1])}


@dataclass(frozen=True)
class PartOfDuration(Kind):
    """The first part of an experiment: a fraction of its duration (plain, or in %), a time from its start, or `all`.

    The data is the fraction, or {"time": seconds}.
    """

    def words(self) -> str:
        return "a fraction of the duration (0.1, 10 %), a time with its unit (0.2 s), or `all`"

    def json_schema(self) -> Json:
        fraction = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
        return {"anyOf": [fraction, {"type": "string", "pattern": f"^all$|{_QUANTITY}"}]}

    def fits(self, value: Any) -> bool:
        return _is_number(value) or isinstance(value, str)

    def take(self, node: YamlNode, steps: Steps, reading: Reading) -> Any:
        if node.value == "all":
            return 1.0
        try:
            if isinstance(node.value, str) and is_in(node.value, "s"):
                time = to_si(node.value, "s")
                wrong = f"{node.value} is not {bounds_words(POSITIVE)}"
                return {"time": time} if time > 0.0 else reading.fail(steps, wrong)
            fraction = to_si(node.value, "") if isinstance(node.value, str) else float(node.value)
        except UnitError as error:
            return reading.fail(steps, f"expected {self.words()}, got `{node.value}`", error.hint)
        if not 0.0 < fraction <= 1.0:
            what = f"{node.value} is no fraction of the duration: it must lie in (0, 1]"
            return reading.fail(steps, what, f"for a time write its unit: `{node.value} s`")
        return fraction


LEAVES_FOLDER = "leaves the folder of the scene"
ALLOW_OUTSIDE = "copy the file beside the scene, or allow it with --allow-outside"


@dataclass(frozen=True)
class File(Kind):
    """A file name, relative to the scene file that names it; kept relative to the folder of the main scene file."""

    def words(self) -> str:
        return "a file name, relative to the scene file"

    def json_schema(self) -> Json:
        return {"type": "string"}

    def fits(self, value: Any) -> bool:
        return isinstance(value, str) and value.strip() != "" and "\0" not in value

    def take(self, node: YamlNode, steps: Steps, reading: Reading) -> Any:
        path = Path(os.path.abspath(node.mark.source.folder / node.value))
        base = Path(os.path.abspath(reading.base))
        # Links are followed for the check only: the data keeps the name that was written.
        if not reading.allow_outside and not path.resolve().is_relative_to(base.resolve()):
            return reading.fail(steps, f"`{node.value}` {LEAVES_FOLDER}", ALLOW_OUTSIDE)
        return Path(os.path.relpath(path, base)).as_posix()


@dataclass(frozen=True)
class NameOf(Kind):
    """The name of an entry of a top-level table (`objects`, `markers`, ...)."""

    table: str

    def words(self) -> str:
        return f"the name of one of the `{self.table}`"

    def json_schema(self) -> Json:
        return {"type": "string"}

    def fits(self, value: Any) -> bool:
        return isinstance(value, str)

    def take(self, node: YamlNode, steps: Steps, reading: Reading) -> Any:
        reading.references.append((steps, self.table, node.value))
        return node.value
