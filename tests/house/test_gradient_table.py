"""Rows of docs/gradients.md that no other test measures: uses of memory, and what is refused."""

import numpy as np
import pytest
from tools.adjoints.gradient_rows import MEMORY, program_error, weighted

import sim


@pytest.mark.parametrize("name", [name for name, case in MEMORY.items() if case.status == "yes"])
def test_uses_of_memory(name):
    assert program_error(MEMORY[name]) < 1e-8


@pytest.mark.parametrize("name", [name for name, case in MEMORY.items() if case.status != "yes"])
def test_what_has_no_derivative(name):
    case, x = MEMORY[name], sim.array(np.array([0.7, 0.4, 0.9, 0.55]), requires_grad=True)
    with sim.Tape() as tape:
        if case.status == "refused":
            with pytest.raises(sim.GradientError):
                case.program(x)
            return
        loss = weighted(case.program(x))
    tape.backward(loss)
    assert not x.grad.numpy().any()
