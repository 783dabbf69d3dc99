"""Measures: of made-up oscillations whose numbers are known, with gaps, and where there is nothing to tell."""

import numpy as np
import pytest

from sim.identify.data.measures import Measure, fit_ring

TIMES = np.arange(1, 401) / 100


def record(omega, decay, settled=0.01, amplitude=-0.01, noise=0.0, phase=0.0):
    """Three markers that oscillate along -x about `settled`."""
    y = settled + amplitude * np.exp(-decay * TIMES) * np.cos(omega * TIMES + phase)
    out = np.zeros((len(TIMES), 3, 3))
    out[:, :, 0] = -y[:, None]
    return out + [1.0, 2.0, 3.0] + noise * np.random.default_rng(3).normal(size=out.shape)


def take(kind, positions, last=0.5):
    return Measure("m", "tip", (-1.0, 0.0, 0.0), kind, {"last": last}).take(
        TIMES, positions, np.full((3, 3), [1.0, 2.0, 3.0])
    )


@pytest.mark.parametrize(("omega", "decay"), [(48.0, 2.5), (20.0, 1.4), (9.0, 0.1), (150.0, 3.0)])
@pytest.mark.parametrize("phase", [0.0, 1.0])
def test_an_oscillation_with_known_numbers(omega, decay, phase):
    x = record(omega, decay, phase=phase)
    assert take("frequency", x) == pytest.approx(omega / (2 * np.pi), rel=1e-5)
    assert take("damping_ratio", x) == pytest.approx(decay / np.hypot(omega, decay), rel=1e-3)
    if decay > 1:
        assert take("settled", x) == pytest.approx(0.01, rel=0.02)


def test_noise_and_gaps():
    x = record(48.0, 2.5, noise=3e-4)
    x[50:70, 1] = np.nan
    assert take("frequency", x) == pytest.approx(48 / (2 * np.pi), rel=3e-3)
    assert take("damping_ratio", x) == pytest.approx(2.5 / 48, rel=0.1)
    assert take("settled", x) == pytest.approx(0.01, rel=0.01)


def test_where_nothing_can_be_told():
    still = np.zeros((400, 3, 3)) + [1.0, 2.0, 3.0]
    assert take("frequency", still) is None
    assert take("settled", still) == 0.0
    assert take("settled", np.full((400, 3, 3), np.nan)) is None
    assert take("damping_ratio", record(1.5, 1.4)) is None  # less than two periods in the record
    assert fit_ring(TIMES[:5], TIMES[:5]) is None


# ------------------------------------------------------------------------------------------ rotations
BODY = np.array([[0.03, 0.01, 0.0], [-0.02, 0.04, 0.01], [0.0, -0.03, 0.02], [0.01, 0.0, -0.05]])


def rotation_of(axis, angle):
    """Rodrigues' formula."""
    n = np.asarray(axis) / np.linalg.norm(axis)
    k = np.array([[0, -n[2], n[1]], [n[2], 0, -n[0]], [-n[1], n[0], 0]])
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k


def turn(body, axis, angle, **settings):
    """What the measure says of a body that turns by up to `angle` within the first second, and moves away."""
    angles = angle * np.minimum(TIMES, 1.0)
    moved = np.stack([body @ rotation_of(axis, a).T + [a, 2.0, -a] for a in angles])
    measure = Measure("m", "tip", (-1.0, 0.0, 0.0), "rotation", {"last": 0.5, **settings})
    return measure, moved, body


@pytest.mark.parametrize("angle", [1e-6, 0.3, -0.3, 2.0, 3.1])
@pytest.mark.parametrize("points", [3, 4])
def test_the_angle_of_a_rigid_body(angle, points):
    axis = np.array([1.0, 2.0, -0.5])
    measure, moved, body = turn(BODY[:points], axis, angle)
    assert measure.take(TIMES, moved, body) == pytest.approx(abs(angle), rel=1e-9, abs=1e-12)
    measure, moved, body = turn(BODY[:points], axis, angle, about=(3 * axis).tolist())
    assert measure.take(TIMES, moved, body) == pytest.approx(angle, rel=1e-9)
    assert measure.take(TIMES, moved[:, :2], body[:2]) == pytest.approx(angle, rel=1e-9)


def test_the_least_squares_rotation_of_markers_that_are_no_rigid_body():
    """Noise leaves of the angle what the fit leaves; the two ways to fit agree about the axis; gaps are left out."""
    measure, moved, body = turn(BODY, (0.0, 1.0, 0.0), 0.25)
    moved = moved + 3e-4 * np.random.default_rng(5).normal(size=moved.shape)
    moved[350:360, 2] = np.nan
    about = Measure("m", "tip", (-1.0, 0.0, 0.0), "rotation", {"last": 0.5, "about": (0.0, 1.0, 0.0)})
    assert measure.take(TIMES, moved, body) == pytest.approx(0.25, rel=5e-3)
    assert about.take(TIMES, moved, body) == pytest.approx(0.25, rel=5e-3)
    assert np.isnan(about.signal(moved, body)[350:360]).all()


def test_markers_that_tell_no_rotation():
    line = np.outer(np.arange(3.0), [1.0, 0.0, 0.0])
    measure, moved, body = turn(line, (0.0, 0.0, 1.0), 0.3)
    assert measure.take(TIMES, moved, body) is None  # about itself the line may have turned by any angle
    measure, moved, body = turn(line, (1.0, 0.0, 0.0), 0.3, about=(1.0, 0.0, 0.0))
    assert measure.take(TIMES, moved, body) is None
    measure, moved, body = turn(line, (0.0, 0.0, 1.0), 0.3, about=(0.0, 0.0, 1.0))
    assert measure.take(TIMES, moved, body) == pytest.approx(0.3)
