"""What belongs to the cloth does not depend on its mesh, nor on the number of iterations."""

import numpy as np
import pytest
from tools.physics.models import G, relaxed

import sim


def hung(n: int, material: dict, **fixed) -> sim.Model:
    """A square sheet of side 1 and density .2, n x n cells."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    builder.add_cloth_grid(
        dim_x=n, dim_y=n, cell_x=1 / n, cell_y=1 / n, density=0.2, label="sheet", material=material, **fixed
    )
    return builder.finalize(dtype=sim.float64)


@pytest.mark.parametrize("n", [3, 6, 12])
def test_stretch_under_its_own_weight(n):
    """Membrane compliance c: a sheet of length L, hung by its top, grows by c rho g L^2 / 2, whatever the mesh.  (The
    rows below row k weigh rho g L (L - y_k); n columns with links c l^2 / A stretch by c rho g l (n - k + 1/2) each:
    the sum is exact.)  One sweep per step leaves an error of order (n h)^2: 8e-4 at n = 12 here, 3e-3 with twice the
    step."""
    c = 0.05
    model = hung(n, {"distance": {"compliance": c}}, fix_top=True)
    q = relaxed(sim.SolverXPBD(model), model.state(), 1 / 4000, 0.037, 80).particle_q.numpy().reshape(n + 1, n + 1, 3)
    # along each column the weight is shared by stiffness: outer columns stand for half a cell
    share = np.full(n + 1, 1 / n)
    share[[0, -1]] = 0.5 / n
    assert share @ -q[0, :, 1] == pytest.approx(c * 0.2 * G / 2, rel=1e-3)


def test_sag_converges_with_the_mesh():
    """A sheet held by two sides, stretch, shear and bend together: the sag of its middle, at rest, converges with the
    cells."""
    material = {"distance": {"compliance": 0.05}, "shear": {"compliance": 0.05}, "bend": {"compliance": 50.0 / 3.0}}
    sags = []
    for n in (4, 8, 16):
        builder = sim.ModelBuilder(gravity=(0, 0, -G))
        builder.add_cloth_grid(
            dim_x=n, dim_y=n, cell_x=1 / n, cell_y=1 / n, density=0.2, material=material, fix_left=True, fix_right=True
        )
        model = builder.finalize(dtype=sim.float64)
        state = model.state()
        q = relaxed(sim.SolverXPBD(model), state, 1 / 3000, 0.1, 30).particle_q.numpy().reshape(n + 1, n + 1, 3)
        sags.append(-q[n // 2, n // 2, 2])
    print("sags", sags)
    assert sags[0] > 0.05
    assert abs(sags[2] - sags[1]) < 0.6 * abs(sags[1] - sags[0])
    assert sags[1] == pytest.approx(sags[2], rel=0.02)


def test_iterations_do_not_stiffen():
    """Small form of XPBD 2016, section 6.4: at finite compliance 40 and 160 iterations sag alike, within 2 %."""
    material = {"distance": {"compliance": 0.02}, "shear": {"compliance": 0.1}, "bend": {"compliance": 100.0}}
    builder = sim.ModelBuilder(gravity=(0, 0, -G))
    builder.add_cloth_grid(
        dim_x=12, dim_y=12, cell_x=1 / 12, cell_y=1 / 12, density=0.2, material=material, fix_left=True, fix_right=True
    )
    model = builder.finalize(dtype=sim.float64)
    sags = {}
    for iterations in (40, 160):
        q = (
            relaxed(sim.SolverXPBD(model, iterations), model.state(), 1 / 60, 0.1, 12)
            .particle_q.numpy()
            .reshape(13, 13, 3)
        )
        sags[iterations] = -q[6, 6, 2]
    print("sags", sags)
    assert sags[40] == pytest.approx(sags[160], rel=0.02)
    assert sags[160] > 0.05
