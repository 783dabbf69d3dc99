"""Bounces and slides of a mass point: closed forms of the motion and of its derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from contact_worlds import coordinate, gradients, mass_point

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


@pytest.mark.slow
def test_three_bounces() -> None:
    _, found = fall(0.8, 1.95, 3840)
    np.testing.assert_allclose(found, [-0.060, -0.033, 0.922, 0.032], atol=0.01)


def test_an_elastic_impact_without_gravity_reflects() -> None:
    """dx/dx_0 = -1, the case of DiffTaichi, at any phase of the step."""
    for height in (0.5, 0.503, 0.5071):
        _, of = gradients(mass_point([0, height, 0], [0, -1, 0], 0.0, 1.0, 0.0), 100, 0.01, HEIGHT)
        assert of["particles.position"][0, 1] == pytest.approx(-1.0, abs=1e-12)


def test_elastic_bounces_keep_the_energy() -> None:
    end, _ = gradients(mass_point([0, 1, 0], [0, 0, 0], 0.0, 1.0), 2400, 1 / 240, HEIGHT)
    height, speed = end.particle_q.numpy()[0, 1], end.particle_qd.numpy()[0, 1]
    middle = speed - 0.5 * 9.81 / 240  # velocities are those of the middle of a step
    assert height + middle**2 / (2 * 9.81) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("restitution, speed", [(0.0, 2.6), (0.5, 2.4)])
def test_an_oblique_impact_is_the_same_at_any_phase_of_the_step(restitution: float, speed: float) -> None:
    """From (3, -2) m/s with friction .2: mu times the whole normal impulse is taken from the sliding."""
    for height in (0.1, 0.1003, 0.1047):
        end, of = gradients(
            mass_point([0, height, 0], [3, -2, 0], 0.2, restitution, 0.0), 12, 1 / 60, coordinate("particle_qd", 0, 0)
        )
        np.testing.assert_allclose(end.particle_qd.numpy()[0], [speed, 2 * restitution, 0], atol=1e-12)
        assert of["floor.friction"][0] == pytest.approx(-2.0 * (1 + restitution), abs=1e-9)


def test_a_sliding_block_stops_where_it_should() -> None:
    """v^2 / (2 mu g) less half a step, and the derivatives by v, mu and g."""
    dt = 1 / 240
    end, of = gradients(mass_point([0, 0, 0], [2, 0, 0], 0.3, 0.0), 240, dt, coordinate("particle_q", 0, 0))
    assert end.particle_q.numpy()[0, 0] - 0.679579 == pytest.approx(-dt * 2 / 2, rel=0.02)
    found = [of["particles.velocity"][0, 0], of["floor.friction"][0], -of["gravity"][0, 1]]
    np.testing.assert_allclose(found, [0.679579, -2.265262, -0.069274], rtol=6e-3)


def test_what_friction_holds_does_not_creep() -> None:
    """60 s on a slope whose tangent is below the coefficient."""
    model = mass_point([0, 0, 0], [0, 0, 0], 0.3, 0.1)
    model.gravity.assign(np.array([[2.0, -9.81, 0.0]]))
    end, _ = gradients(model, 3600, 1 / 60, coordinate("particle_q", 0, 0))
    assert np.abs(end.particle_q.numpy()).max() < 1e-9
