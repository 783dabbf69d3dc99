import pytest
from warp_oracle import agreeing, check


@pytest.mark.parametrize("name", agreeing("arrays"))
def test_arrays_compute_what_warp_computes(name, tmp_path):
    assert check(name, tmp_path) == ""
