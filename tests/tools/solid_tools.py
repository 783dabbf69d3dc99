"""Blocks and beams that tests of solids share."""

from __future__ import annotations

from typing import Any

import fem
import numpy as np

import sim
from sim.model import Group

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
