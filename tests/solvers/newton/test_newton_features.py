"""SolverNewton with all that a scene can say: beside XPBD at short steps, and gradients beside differences."""

import numpy as np
import pytest
from tools.physics.newton_models import FEATURES, gradient_errors

import sim

QUICK = ("branches, arm, turned clamp, floor", "springs with branches in the air")
CASES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FEATURES]


@pytest.mark.parametrize("name", CASES)
def test_xpbd_converges_to_it(name):
    """The gap to XPBD with many sweeps falls with the step, in both integrators."""
    model = FEATURES[name]().finalize(dtype=sim.float64)
    begin = model.particle_q.numpy().copy()
    for integrator in ("euler", "bdf2"):
        gaps = []
        for steps in (10, 20, 40):
            ends = [
                sim.rollout(solver, model.state(), steps, 0.04 / steps).final.particle_q.numpy().copy()
                for solver in (
                    sim.SolverXPBD(model, iterations=150, integrator=integrator),
                    sim.SolverNewton(model, integrator=integrator),
                )
            ]
            gaps.append(np.abs(ends[0] - ends[1]).max() / np.abs(ends[1] - begin).max())
        assert gaps[2] < 3e-3 and gaps[2] < 0.7 * gaps[1] < 0.6 * gaps[0], (integrator, gaps)


@pytest.mark.parametrize("integrator", [pytest.param("euler", marks=pytest.mark.slow), "bdf2"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_differences(name, integrator):
    errors = gradient_errors(FEATURES[name](), 6, 0.01, integrator=integrator)
    assert len(errors) > 5
    assert max(errors.values()) < 3e-6, errors  # 1e-7, but for values that hardly matter, whose differences are noise
    assert np.median(list(errors.values())) < 1e-8, errors
