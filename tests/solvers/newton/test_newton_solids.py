"""Solids under SolverNewton: blocks of rows with damping, rows without elasticity, internal variables."""

import pytest
from tools.physics.newton_models import bar, gradient_errors

MATERIALS = {"neo_hookean": {}, "viscoelastic": {"relaxing": 1.0, "time": 0.01}}


@pytest.mark.parametrize("material", MATERIALS)
def test_gradients_are_those_of_differences(material):
    errors = gradient_errors(bar(material, **MATERIALS[material]), 5, 0.01)
    assert max(errors.values()) < 1e-7, errors
