import pytest
from warp_oracle import PENDING, check, different, expected


@pytest.mark.parametrize("name", different())
def test_what_differs_from_warp_still_does(name, tmp_path):
    assert check(name, tmp_path) != ""


def test_what_is_not_there_yet_was_recorded():
    assert set(PENDING.read_text().split()) <= set(expected())
