"""The minimisers that users choose by name: what each declares is enough to offer and to make one."""

import numpy as np
import pytest

from sim.core.optim.base import ObjectiveTraits
from sim.core.optim.registry import MINIMIZERS

TRAITS = ObjectiveTraits(lambda x: (np.eye(x.size), 1.0 - x), max_step=4.0, noise=1e-7)


def parabola(x):
    return 0.5 * float((x - 1) @ (x - 1)), x - 1


@pytest.mark.parametrize("name", MINIMIZERS)
def test_each_is_made_from_its_declaration_and_descends(name):
    spec = MINIMIZERS[name]
    assert spec.name == name and spec.doc and spec.iterations > 0
    minimizer = spec.make(TRAITS, {})
    minimizer.begin(parabola, np.zeros(2))
    before = minimizer.value
    assert minimizer.step(parabola).stopped is None and minimizer.value < before


@pytest.mark.parametrize("setting", [s for spec in MINIMIZERS.values() for s in spec.settings], ids=lambda s: s.name)
def test_a_default_is_of_its_type_and_within_its_bounds(setting):
    low, high = (float(end) for end in setting.bounds[1:-1].split(","))
    assert isinstance(setting.default, setting.type) and low <= setting.default <= high and setting.doc


def test_settings_reach_the_minimizer_and_unknown_ones_are_refused():
    fast = MINIMIZERS["adam"].make(TRAITS, {"rate": 0.5})
    fast.begin(parabola, np.zeros(1))
    assert fast.step(parabola).length == pytest.approx(0.5)
    with pytest.raises(TypeError, match="adam has no setting 'speed'"):
        MINIMIZERS["adam"].make(TRAITS, {"speed": 1.0})
