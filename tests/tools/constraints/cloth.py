"""What tests of the materials of cloth share."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import sim
from sim.core.runtime.arrays.array import array
from tools.physics.steps import central


def check_values_by_element(
    model: sim.Model, run: Callable[[], array], prefix: str, each: Mapping[str, np.ndarray], rng: np.random.Generator
) -> None:
    """The gradients of weighted positions that `run` ends with, by the values of each element, against differences."""
    weights = rng.normal(size=(model.particle_count, 3))
    with sim.Tape() as tape:
        final = run()
    tape.backward(grads={final: sim.array(weights, dtype=sim.vec3d)})
    for key, start in each.items():
        material = model[f"{prefix}.{key}"]
        direction, got = rng.normal(size=len(start)) * start, material.grad.numpy()

        def loss(at, material=material):
            material.assign(at)
            return float((run().numpy() * weights).sum())

        want = central(loss, start, direction, step=1e-4)
        material.assign(start)
        assert got @ direction == pytest.approx(want, rel=1e-6, abs=1e-12), key
