import pytest
from warp_oracle import agreeing, check


@pytest.mark.parametrize("name", agreeing("indices"))
def test_indices_compute_what_warp_computes(name, tmp_path):
    assert check(name, tmp_path) == ""
