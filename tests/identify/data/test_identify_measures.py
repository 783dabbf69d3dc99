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
