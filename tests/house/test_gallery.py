"""The tour and the examples of the gallery run as they stand, and print what their pages show."""

import importlib.util

import pytest
from gallery import cells, differences, examples, execute, printed_on

NEEDS = {"torch_layer": "torch"}
EXAMPLES = examples()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_its_page_shows(path, tmp_path):
    """What was found is within three standard errors of the truth, by an assertion in each."""
    if path.stem in NEEDS and importlib.util.find_spec(NEEDS[path.stem]) is None:
        pytest.skip(f"no {NEEDS[path.stem]}")
    printed, _ = execute(path, tmp_path)
    shown = printed_on(path.with_suffix(".md").read_text(encoding="utf-8"))
    assert len(printed) == len(shown)
    found = [difference for now, then in zip(printed, shown, strict=True) for difference in differences(now, then)]
    assert found == [], "scripts/make_gallery.py writes the pages anew"


def test_every_example_of_the_folder_is_on_the_site():
    folder = EXAMPLES[-1].parent
    assert sorted(folder.glob("*.py")) == sorted(path for path in EXAMPLES if path.parent == folder)
    assert all(path.with_suffix(".png").exists() for path in EXAMPLES if path.parent == folder)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_has_text_and_code(path):
    assert path.name == "tour.py" or len(path.read_text(encoding="utf-8").splitlines()) <= 120
    kinds = [cell.is_code for cell in cells(path)]
    assert not kinds[0] and any(kinds)


@pytest.mark.parametrize(
    "now, then, alike",
    [
        ("a 1.00 b", "a 1.01 b", True),
        ("a 1.00 b", "a 1.10 b", False),
        ("off by -0.3", "off by +0.2", False),
        ("off by -0.1", "off by +0.0", True),
        ("found 3e-05", "found 4e-05", True),
        ("  a   1\n ────", "a 1\n ──", True),
        ("a 1", "b 1", False),
        ("a 1 2", "a 1", False),
    ],
)
def test_outputs_are_alike_up_to_rounding(now, then, alike):
    assert (differences(now, then) == []) == alike
