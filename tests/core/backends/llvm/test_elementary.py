"""Elementary functions that are arithmetic: how exact they are, and their special values."""

import numpy as np

import sim


@sim.kernel
def packed(y: sim.array[float], x: sim.array[float], out: sim.array[float]):
    i = sim.tid()
    out[i] = sim.atan2(y[i], x[i])


@sim.kernel
def in_lanes(y: sim.array[float], x: sim.array[float], spin: sim.array[sim.vec3], out: sim.array[sim.vec3]):
    i = sim.tid()
    out[i] = spin[i] * 0.0 + sim.vec3(sim.atan2(y[i], x[i]), 0.0, 0.0)


def both(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """atan2 as kernels of one and of eight threads compute it, which is the same."""
    given, out = [sim.array(a, dtype=float) for a in (y, x)], sim.zeros(len(y), float)
    sim.launch(packed, len(y), given, [out])
    rows = sim.zeros(len(y), sim.vec3)
    sim.launch(in_lanes, len(y), [*given, sim.zeros(len(y), sim.vec3)], [rows])
    plain = out.numpy()
    np.testing.assert_array_equal(plain + np.float32(0.0), rows.numpy()[:, 0])
    return plain


def test_atan2_is_within_three_units_in_the_last_place():
    rng = np.random.default_rng(3)
    near, (y, x) = (
        rng.normal(size=(2, 100_001)),
        rng.normal(size=(2, 100_001)) * 10.0 ** rng.uniform(-37, 38, (2, 100_001)),
    )
    y, x = (np.concatenate(pair).astype(np.float32) for pair in zip(near, (y, x), strict=True))
    wanted = np.arctan2(y.astype(float), x.astype(float))
    error = np.abs(both(y, x) - wanted) / np.spacing(np.abs(wanted).astype(np.float32))
    assert 1.0 < error.max() < 3.0


def test_atan2_of_zeros_infinities_and_nan():
    """As C99 has them, Annex F.9.1.4, with their signs."""
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 3e38, -2e38, 1e-45, -1e-45], np.float32)
    y, x = (a.ravel() for a in np.meshgrid(special, special))
    found, wanted = both(y, x), np.arctan2(y, x)
    np.testing.assert_allclose(found, wanted, rtol=3e-7)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(wanted[known]))
