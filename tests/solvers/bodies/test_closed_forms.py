"""Bodies, joints and rods beside closed forms: the cases of `tests/tools/closed_forms`, and the table of them."""

from pathlib import Path

import numpy as np
import pytest
from make_closed_forms import rows, written
from tools.closed_forms import CASES
from tools.closed_forms.rods import elastica, loaded_rod

TABLE = written((Path(__file__).parents[3] / "benchmarks/closed_forms.md").read_text(encoding="utf-8"))


def numbers(lines: str) -> np.ndarray:
    """Exact and found, (n, 2)."""
    return np.array([[float(cell) for cell in line.split("|")[3:5]] for line in lines.splitlines()])


@pytest.mark.parametrize("key", [pytest.param(k, marks=[pytest.mark.slow] * c.slow) for k, c in CASES.items()])
def test_values_and_derivatives_are_exact(key):
    """Within the bounds of the case, and as the table says."""
    case = CASES[key]
    figures = case.measure()
    for figure in figures:
        assert figure.error <= (case.derivative if figure.is_derivative else case.value), figure
    found, told = rows(case, figures), TABLE[key]
    assert found.splitlines()[0].split("|")[1] == told.splitlines()[0].split("|")[1]
    # derivatives of a coil of 480 segments are rounded to 5e-5
    np.testing.assert_allclose(numbers(found), numbers(told), rtol=2e-4, err_msg=f"make_closed_forms.py {key}")


def test_the_table_has_all_cases():
    assert list(TABLE) == list(CASES)


@pytest.mark.slow
def test_a_cantilever_converges_with_the_square_of_its_segments():
    """D1: of 10 and of 20 segments."""
    exact = np.array(elastica(1.0))
    off = [np.array([f.found for f in loaded_rod(n, 1.0) if not f.is_derivative]) - exact for n in (10, 20)]
    np.testing.assert_allclose((off[0] / off[1])[1], 4.0, rtol=0.03)
    np.testing.assert_allclose((4 * off[1] - off[0]) / 3, 0, atol=3e-6)
