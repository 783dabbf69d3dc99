"""When something has hit, and how fast it came: whatever the sign of a rounding error."""

import numpy as np
import pytest

import sim
from sim.constraints.contact.impact import approach_of

STEP = 1 / 240


@sim.kernel
def find_approach(
    start: sim.array[sim.float64],
    end: sim.array[sim.float64],
    rate: sim.array[sim.float64],
    dt: sim.float64,
    found: sim.array[sim.float64],
):
    k = sim.tid()
    _, _, approach = approach_of(start[k], end[k], rate[k], dt)
    found[k] = approach


@pytest.mark.parametrize("way", [(1.0, 0.0), (0.0, 1.0)], ids=["where", "how fast"])
@pytest.mark.parametrize("start", [0.0, -1e-6, -5e-4, -0.05])
@pytest.mark.parametrize("rate", [0.0, -0.01, 0.01, 0.4])
@pytest.mark.parametrize("pull", [-40.0, -9.81, -0.01])
def test_how_fast_something_comes_is_no_matter_of_rounding(start, rate, pull, way):
    """What rests half a millimetre inside of a capsule, as others press it, had an impact or none by the sign of 1e-18
    m/s of the step before: it flew away at .3 m/s, or did not."""
    beside = np.array([-1e-12, 0.0, 1e-12])
    starts, rates = start + way[0] * beside, rate + way[1] * beside
    ends = starts + STEP * rates + pull * STEP * STEP
    given, found = [sim.array(a, dtype=sim.float64) for a in (starts, ends, rates)], sim.zeros(3, dtype=sim.float64)
    sim.launch(find_approach, 3, inputs=[*given, STEP], outputs=[found])
    assert np.abs(np.diff(found.numpy())).max() < 1e-7


@pytest.mark.parametrize("deep", [0.0, 1e-6, 1e-4])
def test_what_goes_out_and_comes_back_hits_then(deep):
    """It begins inside, comes out with 1 m/s, and is pulled back by 500 m/s^2: it hits as fast as it comes out."""
    pull, rate = -500.0, 1.0 + 0.5 * 500.0 * STEP  # in the middle of the step before
    end = -deep + STEP * rate + pull * STEP * STEP
    given = [sim.array([a], dtype=sim.float64) for a in (-deep, end, rate)]
    found = sim.zeros(1, dtype=sim.float64)
    sim.launch(find_approach, 1, inputs=[*given, STEP], outputs=[found])
    assert found.numpy()[0] == pytest.approx(np.sqrt(1.0 + 2.0 * deep * pull), rel=1e-9)
