import pytest
from warp_oracle import agreeing, check


@pytest.mark.parametrize("name", agreeing("derivatives"))
def test_rules_of_derivatives_compute_what_warp_computes(name, tmp_path):
    assert check(name, tmp_path) == ""
