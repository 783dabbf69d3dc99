"""Bounces of a mass point: closed forms of the motion and of its derivatives, at any step and phase of one.

Sliding and rolling: `tests/tools/closed_forms/contacts.py`.
"""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import coordinate, gradients, mass_point

HEIGHT, RATE = coordinate("particle_q", 0, 1), coordinate("particle_qd", 0, 1)


def fall(restitution: float, seconds: float, hertz: float) -> tuple[float, np.ndarray]:
    """Height after a drop from 1 m, and its derivatives by height, velocity, restitution and gravity."""
    steps = round(seconds * hertz)
    end, of = gradients(mass_point([0, 1, 0], [0, 0, 0], 0.0, restitution), steps, seconds / steps, HEIGHT)
    found = [of["particles.position"][0, 1], of["particles.velocity"][0, 1], of["floor.restitution"][0]]
    return end.particle_q.numpy()[0, 1], np.array([*found, -of["gravity"][0, 1]])


def test_a_bounce_has_the_derivatives_of_the_motion() -> None:
    """x = .602654 m, 0.9 s after a drop from 1 m with e = .8; of first order in the step."""
    exact = np.array([0.987852, 0.087257, 1.986502, -0.039266])
    coarse, fine = fall(0.8, 0.9, 240), fall(0.8, 0.9, 960)
    assert fine[0] == pytest.approx(0.602654, abs=1e-3)
    np.testing.assert_allclose(fine[1], exact, rtol=1e-2)
    errors = [np.abs(found - exact) / np.abs(exact) for _, found in (coarse, fine)]
    assert (errors[1] < 0.3 * errors[0] + 1e-4).all()


def test_an_elastic_impact_without_gravity_reflects() -> None:
    """dx/dx_0 = -1, the case of DiffTaichi, at any phase of the step."""
    for height in (0.5, 0.503, 0.5071):
        _, of = gradients(mass_point([0, height, 0], [0, -1, 0], 0.0, 1.0, 0.0), 100, 0.01, HEIGHT)
        assert of["particles.position"][0, 1] == pytest.approx(-1.0, abs=1e-12)
