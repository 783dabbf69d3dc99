"""Random trees of joints with all that acts on them: every gradient against differences.

`python -m pytest -m slow` runs a hundred more seeds.
"""

import pytest
from joint_trees import FAMILIES, JointTree

SEEDS = 13
"""Of each of the families."""


@pytest.mark.parametrize(
    ("family", "seed"),
    [pytest.param(family, seed, marks=pytest.mark.slow) for family in FAMILIES for seed in range(SEEDS)],
)
@pytest.mark.filterwarnings("ignore::sim.NumericsWarning")
def test_gradients_by_every_value_and_the_state_are_differences(family, seed):
    wrong = JointTree(seed, FAMILIES[family]).check(seed)
    assert not wrong, f"{family}, seed {seed}:\n" + "\n".join(wrong)
