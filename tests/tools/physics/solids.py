"""Blocks and beams that tests of solids share."""

from __future__ import annotations

from typing import Any

import numpy as np

import sim
from sim.geometry import solid_grid
from sim.model import Group
from tools.physics import fem

YOUNG, POISSON, DENSITY = 263_824.0, 0.45, 1070.0
MATERIALS = ("neo_hookean", "stvk")
MEAN = "deviatoric, cell_volume"
"""Change of shape for each tetrahedron, of volume for each cell of the lattice."""


def block(
    material: str,
    cells: tuple[int, int, int] = (2, 2, 2),
    size: tuple[float, float, float] = (0.1, 0.1, 0.1),
    *,
    young: float = YOUNG,
    poisson: float = POISSON,
    damping: float = 0.0,
    gravity: tuple[float, float, float] = (0, 0, 0),
    clamp: bool = False,
    grad: bool = False,
    **more: Any,
) -> tuple[sim.Model, Group]:
    """A block of this material in float64; `clamp` pins the points at z = 0."""
    builder = sim.ModelBuilder(gravity=gravity)
    values = {"young": young, "poisson": poisson, "damping": damping}
    group = builder.add_soft_grid(
        dim_x=cells[0],
        dim_y=cells[1],
        dim_z=cells[2],
        cell_x=size[0] / cells[0],
        cell_y=size[1] / cells[1],
        cell_z=size[2] / cells[2],
        density=DENSITY,
        label="block",
        material=_of(material, values),
        **more,
    )
    if clamp:
        builder.add_attachment(group.choose({"z": [None, 1e-9]}), label="clamp")
    return builder.finalize(dtype=sim.float64, requires_grad=grad), group


def _of(material: str, values: dict[str, float]) -> dict[str, dict[str, float]]:
    if material != MEAN:
        return {material: values}
    return {"deviatoric": values, "cell_volume": {key: values[key] for key in ("young", "poisson")}}


def stiffness(group: Group, material: str, poisson: float = POISSON) -> np.ndarray:
    """Stiffness matrix (3n, 3n) [N/m] of small strains, by finite elements."""
    return fem.stiffness(group.positions, group.tets - group.start, YOUNG, poisson, 5 if material == MEAN else 1)


def beam(
    material: str,
    cells: tuple[int, int, int] = (3, 3, 10),
    g: float = 9.81,
    damping: float = 0.0,
    poisson: float = POISSON,
) -> tuple[sim.Model, Group]:
    """The silicone beam, 30 x 30 x 100 mm, clamped at z = 0, gravity along -x."""
    return block(material, cells, (0.03, 0.03, 0.1), damping=damping, poisson=poisson, gravity=(-g, 0, 0), clamp=True)


def tip(group: Group, q: np.ndarray) -> np.ndarray:
    """Mean drop of the end face [m] at positions q (..., n, 3)."""
    end = np.isclose(group.positions[:, 2], group.positions[:, 2].max())
    return (group.positions[end, 0] - q[..., end, 0]).mean(axis=-1)


def at(model: sim.Model, q: np.ndarray) -> sim.State:
    """A state at rest with positions q."""
    state = model.state()
    state.particle_q.assign(q)
    return state


BOX = solid_grid(2, 3, 4, 0.1, 0.2, 0.3)


def sphere(level=3, radius=0.5):
    """A closed surface: a cube's grid blown up to a ball."""
    n = 2**level
    points, triangles = {}, []

    def number(p):
        return points.setdefault(tuple(np.round(p, 9)), len(points))

    for axis in range(3):
        for side in (-1.0, 1.0):
            for i in range(n):
                for j in range(n):
                    corners = []
                    for a, b in ((0, 0), (1, 0), (1, 1), (0, 1)):
                        p = np.zeros(3)
                        p[axis], p[(axis + 1) % 3], p[(axis + 2) % 3] = side, 2 * (i + a) / n - 1, 2 * (j + b) / n - 1
                        corners.append(number(p))
                    corners = corners if side > 0 else corners[::-1]
                    triangles += [(corners[0], corners[1], corners[2]), (corners[0], corners[2], corners[3])]
    x = np.array(list(points))
    return radius * x / np.linalg.norm(x, axis=1)[:, None], np.array(triangles, np.int32)


def write_tetgen(folder, x, tets, base, comments=True):
    note = "# made by hand\n" if comments else ""
    rows = "\n".join(f"{k + base}  {a!r} {b!r} {c!r}" for k, (a, b, c) in enumerate(x.tolist()))
    (folder / "body.node").write_text(f"{note}{len(x)}  3  0  0\n{rows}\n{note}")
    rows = "\n".join(f" {k + base} " + " ".join(str(p + base) for p in row) for k, row in enumerate(tets.tolist()))
    (folder / "body.ele").write_text(f"{len(tets)} 4 0\n{note}{rows}\n{note}")
    return folder / "body.node"
