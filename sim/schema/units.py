"""Quantities with units: `5 mm`, `1070 kg/m^3`, `33 1/(N m)`, `5 %` become SI numbers; a wrong dimension is an error.

A dimension is the exponents of (m, kg, s, rad, B). Angles and bytes have exponents of their own, so that `30 deg` is
not a plain number and `200 MB` not a count.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import cache

from sim.schema.errors import word_hint

Dimension = tuple[int, int, int, int, int]
PLAIN: Dimension = (0, 0, 0, 0, 0)

_LENGTH: Dimension = (1, 0, 0, 0, 0)
_MASS: Dimension = (0, 1, 0, 0, 0)
_TIME: Dimension = (0, 0, 1, 0, 0)
_ANGLE: Dimension = (0, 0, 0, 1, 0)
_FREQUENCY: Dimension = (0, 0, -1, 0, 0)
_FORCE: Dimension = (1, 1, -2, 0, 0)
_PRESSURE: Dimension = (-1, 1, -2, 0, 0)
_BYTES: Dimension = (0, 0, 0, 0, 1)

# Factors are fractions: `13 cm` is then exactly the double that 0.13 is.
# fmt: off
_UNITS: dict[str, tuple[Fraction, Dimension]] = {
    name: (Fraction(size), dimension)
    for dimension, sizes in (
        (_LENGTH, {"m": "1", "km": "1e3", "dm": "1e-1", "cm": "1e-2", "mm": "1e-3", "um": "1e-6", "µm": "1e-6",
                   "μm": "1e-6", "in": "0.0254"}),
        (_MASS, {"kg": "1", "g": "1e-3", "mg": "1e-6", "t": "1e3"}),
        (_TIME, {"s": "1", "ms": "1e-3", "us": "1e-6", "µs": "1e-6", "μs": "1e-6", "min": "60", "h": "3600"}),
        (_ANGLE, {"rad": 1, "deg": math.pi / 180}),
        (_FREQUENCY, {"Hz": "1", "kHz": "1e3"}),
        (_FORCE, {"N": "1", "mN": "1e-3", "kN": "1e3"}),
        (_PRESSURE, {"Pa": "1", "kPa": "1e3", "MPa": "1e6", "GPa": "1e9"}),
        (_BYTES, {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}),
        (PLAIN, {"%": "1/100"}),
    )
    for name, size in sizes.items()
}
# fmt: on

_NAMES: dict[str, str] = {
    "": "a plain number", "m": "a length", "kg": "a mass", "s": "a time", "rad": "an angle", "Hz": "a frequency",
    "m/s": "a velocity", "rad/s": "an angular velocity", "m/s^2": "an acceleration", "kg/m": "a mass per length",
    "kg/m^2": "a mass per area", "kg/m^3": "a density", "N": "a force", "Pa": "a pressure", "N/m": "a stiffness",
    "m/N": "a compliance", "1/(N m)": "a bending compliance", "N m": "a torque", "1/Pa": "an inverse pressure",
    "m^2": "an area", "m^3": "a volume", "B": "an amount of memory",
}  # fmt: skip

_NUMBER = re.compile(r"([-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)(.*)", re.DOTALL)
_FORM = "units look like `mm`, `kg/m^3` or `1/(N m)`"
_TOKEN = re.compile(r"\s*([A-Za-zµμ%]+|1|\^-?[0-9]|[*/()·])")


LONGEST_UNIT = 100
"""Characters: nobody writes a longer one, and parentheses without end would be followed."""


class UnitError(ValueError):
    """A text that is not a quantity of the expected dimension: `what` is wrong, and a `hint` what to write."""

    def __init__(self, what: str, hint: str = ""):
        super().__init__(what)
        self.what = what
        self.hint = hint


@cache
def parse_unit(text: str) -> tuple[Fraction, Dimension]:
    """Factor to SI and dimension of a unit such as `kg/m^3`, `1/(N m)` or `` (a plain number)."""
    if len(text) > LONGEST_UNIT:
        raise UnitError(f"`{text[:LONGEST_UNIT]}...` is not a unit", _FORM)
    tokens = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if not match:
            raise UnitError(f"`{text}` is not a unit", _FORM)
        tokens.append(match.group(1))
        position = match.end()
    factor, dimension, rest = _product(tokens, text)
    if rest:
        raise UnitError(f"`{text}` is not a unit: unexpected `{rest[0]}`", _FORM)
    return factor, dimension


def _product(tokens: list[str], text: str) -> tuple[Fraction, Dimension, list[str]]:
    """Reads factors joined by a space, `*` or `/`, up to the end or a closing parenthesis."""
    factor, dimension = Fraction(1), PLAIN
    divide = divided = False
    while tokens and tokens[0] != ")":
        token, *tokens = tokens
        if token in ("/", "*", "·"):
            if not tokens or tokens[0] in ("/", "*", "·", ")"):
                raise UnitError(f"`{text}` is not a unit: nothing follows `{token}`")
            divide = token == "/"
            continue
        if divided and not divide:
            raise UnitError(f"`{text}` can be read in two ways", "put the divisor in parentheses, as in `1/(N m)`")
        if token == "(":
            f, d, tokens = _product(tokens, text)
            if not tokens:
                raise UnitError(f"`{text}` is not a unit: a parenthesis is open")
            tokens = tokens[1:]
        elif token == "1":
            f, d = Fraction(1), PLAIN
        elif token in _UNITS:
            f, d = _UNITS[token]
        else:
            known = ", ".join(name for name in _UNITS if name.isascii())
            raise UnitError(
                f"unknown unit `{token}`", word_hint(token, _UNITS, list_up_to=0) or f"these are known: {known}"
            )
        power = 1
        if tokens and tokens[0].startswith("^"):
            power, tokens = int(tokens[0][1:]), tokens[1:]
        power = -power if divide else power
        factor *= f**power
        dimension = tuple(a + power * b for a, b in zip(dimension, d, strict=True))  # type: ignore[assignment]
        divided, divide = divided or divide, False
    return factor, dimension, tokens


@cache
def _names_by_dimension() -> dict[Dimension, str]:
    return {parse_unit(unit)[1]: name for unit, name in _NAMES.items()}


def dimension_name(dimension: Dimension) -> str:
    """`a length`, `a pressure`, ...; the SI base units where a dimension has no name."""
    known = _names_by_dimension().get(dimension)
    if known:
        return known
    parts = zip(("m", "kg", "s", "rad", "B"), dimension, strict=True)
    return "a quantity in " + " ".join(base if power == 1 else f"{base}^{power}" for base, power in parts if power)


def expected(unit: str) -> str:
    """What to write for a value in `unit`: `a mass [kg]`, or `a number` for plain ones."""
    return f"{dimension_name(parse_unit(unit)[1])} [{unit}]" if unit else "a number"


def units_of(unit: str) -> list[str]:
    """Names of the simple units that have the dimension of `unit`."""
    dimension = parse_unit(unit)[1]
    return [name for name, (_, d) in _UNITS.items() if d == dimension and name.isascii()]


def is_in(text: str, unit: str) -> bool:
    """Whether a text is a number with a unit of the dimension of `unit`, as `200 ms` is in `s`."""
    match = _NUMBER.match(text)
    try:
        return match is not None and match.group(2) != "" and parse_unit(match.group(2))[1] == parse_unit(unit)[1]
    except UnitError:
        return False


def to_si(text: str, unit: str) -> float:
    """The SI number of a quantity such as `5 mm`, whose dimension must be that of the SI unit `unit`."""
    match = _NUMBER.fullmatch(text.strip())
    if not match:
        raise UnitError(f"`{text}` is not {expected(unit)}", "write a number, or a number and a unit")
    number, written = float(match.group(1)), match.group(2).strip()
    factor, dimension = parse_unit(written)
    wanted = parse_unit(unit)[1]
    if written and dimension != wanted:
        same = [name for name in units_of(unit) if name != unit][:3]
        hint = "" if not unit else f"write it in {', '.join([unit, *same])}"
        raise UnitError(f"`{text}` is {dimension_name(dimension)}, expected {expected(unit)}", hint)
    try:
        value = float(Fraction(repr(number)) * factor) if written else number
    except (OverflowError, ValueError):  # of 1e308 km, and of an infinite number
        value = math.inf
    if not math.isfinite(value):
        raise UnitError(f"`{text}` is too large for a number")
    return value
