"""Random trees of joints with all that acts on them: every gradient against differences.

`python -m pytest -m slow` runs all of it: minutes for the gradients, half an hour of compiling for the second ones.
"""

import pytest
from tools.bodies.joint_trees import FAMILIES, JointTree, second_derivatives

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


@pytest.mark.slow
@pytest.mark.parametrize(("family", "seed"), [("hinges", 0), ("plain", 2), ("direct", 0)])
@pytest.mark.filterwarnings("ignore::sim.NumericsWarning")
def test_second_derivatives_are_differences_of_gradients(family, seed):
    found = second_derivatives(JointTree(seed, FAMILIES[family]), seed)
    largest = max(size for n, (_, _, size) in found.items() if n != "slope")
    wrong = [
        f"{n}: {got:.10g}, {want:.10g}"
        for n, (got, want, size) in found.items()
        if not abs(got - want) <= 1e-6 * size + 1e-9 * largest
    ]
    assert not wrong, f"{family}, seed {seed}:\n" + "\n".join(wrong)
