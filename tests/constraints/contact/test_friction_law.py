"""The multiplier of friction alone, at every size: squares of what is all but at rest are below the least float32."""

import numpy as np
import pytest

import sim
from sim.constraints.contact.laws.friction import coulomb

CASES = 200


def exact(K: np.ndarray, b: np.ndarray, most: float) -> np.ndarray:
    """(K + s)^-1 b of at most this length, by bisection in the spectrum of K."""
    values, axes = np.linalg.eigh(K)
    along = axes.T @ b
    if np.linalg.norm(along / values) <= most:
        return axes @ (along / values)
    low, high = 0.0, np.linalg.norm(b) / most
    for _ in range(200):
        s = 0.5 * (low + high)
        low, high = (s, high) if np.linalg.norm(along / (values + s)) > most else (low, s)
    x = axes @ (along / (values + high))
    return x * most / np.linalg.norm(x)


def law(real: type) -> sim.Kernel:
    mat22, vec2 = sim.types.matrix((2, 2), real), sim.types.vector(2, real)

    @sim.kernel
    def solve(
        K: sim.array(dtype=mat22), b: sim.array(dtype=vec2), most: sim.array(dtype=real), x: sim.array(dtype=vec2)
    ):
        i = sim.tid()
        x[i] = coulomb(K[i], b[i], most[i])

    return solve


def cases(size: float, reach: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random mobilities, impulses of about a size that they ask for, and bounds of `reach` of that."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(CASES, 2, 2))
    K = (A @ A.transpose(0, 2, 1) + 0.2 * np.eye(2)) * 10.0 ** rng.uniform(-2, 3, size=(CASES, 1, 1))
    b = np.einsum("nij,nj->ni", K, rng.normal(size=(CASES, 2))) * size
    return K, b, size * reach * 10.0 ** rng.uniform(-1, 1, size=CASES)


@pytest.mark.parametrize("size", [1e-34, 1e-26, 1e-21, 1e-10, 1.0, 1e8])
@pytest.mark.parametrize("reach", [1.0, 1e-3, 1e-7, 1e-12])
def test_friction_of_every_size_in_single_precision(size: float, reach: float) -> None:
    if size * reach < 1e-34:
        pytest.skip("no float32 has the digits")
    K, b, most = (a.astype(np.float32) for a in cases(size, reach, seed=7))
    arrays = [
        sim.array(K, dtype=sim.mat22, requires_grad=True),
        sim.array(b, dtype=sim.vec2, requires_grad=True),
        sim.array(most, dtype=sim.float32, requires_grad=True),
    ]
    x = sim.zeros(CASES, dtype=sim.vec2, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(law(sim.float32), dim=CASES, inputs=arrays, outputs=[x])
    wanted = np.array([exact(*(np.float64(a[i]) for a in (K, b, most))) for i in range(CASES)])
    near = np.linalg.norm(x.numpy() - wanted, axis=1) / np.linalg.norm(wanted, axis=1)
    assert near.max() < 2e-5, (near.argmax(), near.max())
    tape.backward(grads={x: sim.ones_like(x)})
    for a in arrays[1:]:
        assert np.isfinite(a.grad.numpy()).all()


@pytest.mark.parametrize("reach", [1.0, 1e-3, 1e-7, 1e-10])
def test_its_derivatives_are_those_of_the_law(reach: float) -> None:
    """In float64, against central differences of the bisection."""
    K, b, most = cases(1.0, reach, seed=8)
    arrays = [
        sim.array(K, dtype=sim.mat22d, requires_grad=True),
        sim.array(b, dtype=sim.vec2d, requires_grad=True),
        sim.array(most, dtype=sim.float64, requires_grad=True),
    ]
    x = sim.zeros(CASES, dtype=sim.vec2d, requires_grad=True)
    weight = np.random.default_rng(9).normal(size=(CASES, 2))
    with sim.Tape() as tape:
        sim.launch(law(sim.float64), dim=CASES, inputs=arrays, outputs=[x])
    tape.backward(grads={x: sim.array(weight, dtype=sim.vec2d)})
    by_K, by_b, by_most = (a.grad.numpy() for a in arrays)
    rng, compared = np.random.default_rng(10), 0
    for i in range(0, CASES, 4):
        dK = rng.normal(size=(2, 2))
        dK, db, d_most = dK + dK.T, rng.normal(size=2), rng.normal()
        scales = np.linalg.norm(K[i]), np.linalg.norm(b[i]), most[i]
        way = [1e-6 * s * d for s, d in zip(scales, (dK, db, d_most), strict=True)]
        ahead, back = (exact(K[i] + k * way[0], b[i] + k * way[1], most[i] + k * way[2]) for k in (1, -1))
        held = [np.linalg.norm(np.linalg.solve(K[i] + k * way[0], b[i] + k * way[1])) > most[i] for k in (-1, 1)]
        if held[0] != held[1]:
            continue
        difference = weight[i] @ (ahead - back) / 2
        derivative = np.sum(by_K[i] * way[0]) + by_b[i] @ way[1] + by_most[i] * way[2]
        assert derivative == pytest.approx(difference, rel=1e-5, abs=1e-15 * most[i]), i
        compared += 1
    assert compared > 40  # of 50: others are at the cone's edge
