"""Values beside their standard errors, as reports and the terminal show them."""

from __future__ import annotations

import math

import pytest

from sim.io.html import value_and_error, with_error


@pytest.mark.parametrize(("value", "error", "shown"), [
    (0.0100031, 0.0000741, "0.010003 ± 0.000074"),
    (281_004.0, 1_234.0, "(2.810 ± 0.012)e5"),
    (-0.3, 0.02, "−0.300 ± 0.020"),
    (1.4e-3, 0.02, "0.0014 ± 0.02"),
    (0.158103, 20.1, "0.16 ± 20"),
    (0.54955, 118.0, "0.55 ± 1.2e2"),
    (-3.2e-9, 0.5, "−3.2e−9 ± 0.5"),
    (0.0, 20.0, "0 ± 20"),
])  # fmt: skip
def test_two_digits_of_the_error_and_never_none_of_the_value(value: float, error: float, shown: str) -> None:
    """A mass of .158 +- 20 kg was shown as 0 +- 20 kg, a restitution of .55 +- 120 as 1."""
    assert with_error(value, error) == shown
    assert " ± ".join(value_and_error(value, error)) == shown or "(" in shown


def test_without_an_error() -> None:
    assert value_and_error(0.5, math.nan) == ("0.5", "")
    assert value_and_error(0.5, math.inf) == ("0.5", "not identifiable")
