"""`MarchingCubes`: areas, volumes and gradients of surfaces in closed form; no gaps, whatever the field."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import sim


def grid(n: int, half: float) -> np.ndarray:
    """Coordinates (n, n, n, 3) of nodes from -half to half."""
    line = np.linspace(-half, half, n)
    return np.stack(np.meshgrid(line, line, line, indexing="ij"), axis=-1)


def volume(verts: np.ndarray, indices: np.ndarray) -> float:
    a, b, c = (verts[indices.reshape(-1, 3)[:, k]] for k in range(3))
    return float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6)


def area(verts: np.ndarray, indices: np.ndarray) -> float:
    a, b, c = (verts[indices.reshape(-1, 3)[:, k]] for k in range(3))
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


def test_a_sphere() -> None:
    field = np.linalg.norm(grid(49, 1.2), axis=-1)
    verts, indices = sim.MarchingCubes.extract(
        sim.array(field, dtype=float), 1.0, lower=(-1.2, -1.2, -1.2), upper=(1.2, 1.2, 1.2)
    )
    found = verts.numpy(), indices.numpy()
    np.testing.assert_allclose(np.linalg.norm(found[0], axis=1), 1.0, atol=4e-4)
    assert volume(*found) == pytest.approx(4 * np.pi / 3, rel=3e-3)
    assert area(*found) == pytest.approx(4 * np.pi, rel=3e-3)


def test_one_node_below_the_threshold() -> None:
    field = np.full((3, 4, 5), 1.0, np.float32)
    field[1, 2, 3] = -3.0
    cubes = sim.MarchingCubes(3, 4, 5, sim.vec3(1.0, 2.0, 3.0), (5.0, 8.0, 11.0))  # nodes are 2 apart
    cubes.surface(sim.array(field), 0.0)
    centre, arm = np.array([3.0, 6.0, 9.0]), 2 * 0.75
    expected = {tuple(centre + sign * arm * axis) for sign in (-1, 1) for axis in np.eye(3)}
    assert set(map(tuple, cubes.verts.numpy().tolist())) == expected
    assert cubes.indices.size == 24
    assert volume(cubes.verts.numpy(), cubes.indices.numpy()) == pytest.approx(4 / 3 * arm**3)
    cubes.surface(sim.array(-field), 0.0)  # the other side is the inner one
    assert volume(cubes.verts.numpy(), cubes.indices.numpy()) == pytest.approx(-4 / 3 * arm**3)


def test_there_are_no_gaps() -> None:
    """Of noise, which has every case: each edge of a triangle has another one on its other side."""
    field = np.full((16, 17, 18), 1.0, np.float32)
    field[1:-1, 1:-1, 1:-1] = np.random.default_rng(3).normal(size=(14, 15, 16))
    verts, indices = sim.MarchingCubes.extract(sim.array(field))
    triangles = indices.numpy().reshape(-1, 3)
    edges = Counter((int(t[k]), int(t[(k + 1) % 3])) for t in triangles for k in range(3))
    assert set(edges.values()) == {1}
    assert all((b, a) in edges for a, b in edges)
    assert set(triangles.ravel()) == set(range(verts.size))
    below = field < 0.0
    cases = sum(
        below[x : x + 15, y : y + 16, z : z + 17] * (1 << n)
        for n, (x, y, z) in enumerate((n & 1, n >> 1 & 1, n >> 2) for n in range(8))
    )
    assert len(np.unique(cases)) == 256


@sim.kernel
def spans(verts: sim.array[sim.vec3], indices: sim.array[int], total: sim.array[float]):
    t = sim.tid()
    a, b, c = verts[indices[3 * t]], verts[indices[3 * t + 1]], verts[indices[3 * t + 2]]
    sim.atomic_add(total, 0, sim.dot(a, sim.cross(b, c)) / 6.0)


def test_the_gradient_is_that_of_differences() -> None:
    values = (np.linalg.norm(grid(9, 1.5) - [0.1, 0.05, -0.03], axis=-1) - 1.03).astype(np.float32)
    values += 0.02 * np.random.default_rng(8).normal(size=values.shape).astype(np.float32)

    def run(values: np.ndarray) -> tuple[float, np.ndarray]:
        field, total = sim.array(values, requires_grad=True), sim.zeros(1, dtype=float, requires_grad=True)
        with sim.Tape() as tape:
            verts, indices = sim.MarchingCubes.extract(field, 0.0)
            sim.launch(spans, indices.size // 3, [verts, indices, total])
        tape.backward(total)
        return float(total.item()), field.grad.numpy()

    _, gradient = run(values)
    assert np.count_nonzero(gradient) > 100
    rng = np.random.default_rng(9)
    for _ in range(4):
        move = rng.normal(size=values.shape).astype(np.float32)
        h = np.float32(2e-4)
        slope = (run(values + h * move)[0] - run(values - h * move)[0]) / (2 * h)
        assert slope == pytest.approx(float((gradient * move).sum()), rel=2e-2)


def test_nothing_crosses() -> None:
    verts, indices = sim.MarchingCubes.extract(sim.ones((2, 3, 4), dtype=float), 1.0)
    assert verts.shape == indices.shape == (0,)


def test_refused() -> None:
    extract = sim.MarchingCubes.extract
    with pytest.raises(ValueError, match="three dimensions, not the shape"):
        extract(sim.zeros((3, 3), dtype=float))
    with pytest.raises(ValueError, match="two nodes or more"):
        extract(sim.zeros((3, 1, 3), dtype=float))
    with pytest.raises(TypeError, match="of float32, not float64"):
        extract(sim.zeros((3, 3, 3), dtype=sim.float64))
    with pytest.raises(TypeError, match="an array, not a ndarray; pass"):
        extract(np.zeros((3, 3, 3)))
    with pytest.raises(ValueError, match=r"the grid has \(2, 2, 2\) nodes; call resize"):
        sim.MarchingCubes(2, 2, 2).surface(sim.zeros((3, 3, 3), dtype=float), 0.0)
    for older in ("domain_bounds_lower_corner", "domain_bounds_upper_corner"):
        both = {older.split("_")[2]: (0.0, 0.0, 0.0), older: (1.0, 1.0, 1.0)}
        with pytest.raises(TypeError, match=f"got both '{older.split('_')[2]}' and '{older}'"):
            sim.MarchingCubes(2, 2, 2, **both)
    field = sim.zeros((3, 3, 3), dtype=float)
    with pytest.raises(NotImplementedError, match="cannot be used during a capture"), sim.ScopedCapture():
        extract(field)


def test_older_names_of_the_corners() -> None:
    cubes = sim.MarchingCubes(2, 2, 2, domain_bounds_lower_corner=(1.0, 1.0, 1.0), upper=(2.0, 2.0, 2.0))
    assert (cubes.lower, cubes.domain_bounds_upper_corner) == ((1.0, 1.0, 1.0), (2.0, 2.0, 2.0))
    cubes.domain_bounds_lower_corner, cubes.domain_bounds_upper_corner = (0.0, 0.0, 0.0), (4.0, 4.0, 4.0)
    cubes.surface(sim.array([[[-1.0, 1.0]] * 2] * 2, dtype=float), 0.0)
    np.testing.assert_allclose(cubes.verts.numpy()[:, 2], 2.0)
    np.testing.assert_allclose(cubes.verts.numpy().max(0), [4.0, 4.0, 2.0])


def test_names_of_warps_geometry() -> None:
    """`wp.geometry` of a program of Warp, with `import sim as wp` and with `import sim.core as wp`."""
    for geometry in (sim.geometry, sim.core.geometry):
        assert geometry.IsoSurfaceMarchingCubes is sim.MarchingCubes
        with pytest.raises(sim.NotSupportedError, match=r"geometry.IsoSurfaceNets .* write sim.MarchingCubes"):
            geometry.IsoSurfaceNets(4, 4, 4)
        with pytest.raises(sim.NotSupportedError, match=r"geometry.swept_volume_sdf .* query a sim.Mesh"):
            geometry.swept_volume_sdf(0)
        with pytest.raises(AttributeError, match="no attribute 'isosurface'"):
            geometry.isosurface(0)
