"""The bodies of truth.py: each with one value that is sought, and markers that tell it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

import sim


@dataclass(frozen=True)
class Twin:
    """A body, the paths of the value that is sought and what it is in truth, and what is seen of it.

    markers: (frames, points, 3) to (frames, markers, 3); reference: substeps of a frame in which it is stepped for the
    target; sweeps, solves: where ladders end, in sweeps of XPBD and steps of Newton of a frame.
    """

    about: str
    model: sim.Model
    values: tuple[str, ...]
    true: float
    markers: Callable[[np.ndarray], np.ndarray]
    frames: int
    fps: int = 30
    reference: int = 32
    sweeps: int = 2**13
    solves: int = 32


def chain() -> Twin:
    """Ten links, a hundred times heavier at the end, which swings."""
    links, compliance, light, heavy = 10, 1e-4, 0.01, 1.0
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    points = np.linspace([0.0, 0.0, 0.0], [0.0, -1.0, 0.0], links + 1)
    mass = [0.0, *[light] * (links - 1), heavy]
    builder.add_particles(points, mass=mass, vel=-points[:, [1, 0, 2]])
    pairs = np.stack([np.arange(links), np.arange(1, links + 1)], 1)
    builder.add_constraints("distance", pairs, compliance=compliance, damping=0.02, label="links")
    return Twin(
        "A chain of 1 m, ten links, 10 g at each point and 1 kg at the end, swings with 1 m/s. Sought: the compliance"
        " of the links, 1e-4 m/N (a sag of 10 mm, damping 20 ms), from all points at 30 frames in a second.",
        builder.finalize(dtype=sim.float64, requires_grad=True),
        ("links.compliance",),
        compliance,
        lambda path: path[:, 1:],
        30,
    )


SIZE = np.array([0.015, 0.03, 0.09])
ELEMENTS = {
    "pair": ("tetrahedra", ("deviatoric", "cell_volume")),
    "neo_hookean": ("tetrahedra", ("neo_hookean",)),
    "hexahedra": ("hexahedra", ("neo_hookean",)),
    "quadratic": ("quadratic", ("neo_hookean",)),
}


def solid(kind: str, cells: int = 2) -> Twin:
    """A cantilever with so many cells across, which drops under its weight and rings."""
    element, laws = ELEMENTS[kind]
    young, dims = 2.5e5, (cells // 2, cells, 3 * cells)
    size = dict(zip(("cell_x", "cell_y", "cell_z"), SIZE / dims, strict=True))
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    group = builder.add_soft_grid(
        dim_x=dims[0], dim_y=dims[1], dim_z=dims[2], **size, density=1070.0, element=element, label="block",
        material={law: {"young": young, "poisson": 0.45, "damping": 0.005} for law in laws},
    )  # fmt: skip
    builder.add_attachment(group.choose({"z": [None, 1e-9]}))
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    x = model.particle_q.numpy()
    corners = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0.5, 1)]) * SIZE
    seen = np.array([np.linalg.norm(x - corner, axis=1).argmin() for corner in corners])
    assert np.allclose(x[seen], corners)
    return Twin(
        "A cantilever of rubber, 15 x 30 x 90 mm, 1070 kg/m^3, is let go and rings about its drop. Sought: Young's"
        f" modulus, 2.5e5 Pa (Poisson's ratio .45, damping 5 ms), from its corners at 60 frames in a second."
        f" {kind}, {cells} cells across.",
        model,
        tuple(f"block.{law}.young" for law in laws),
        young,
        lambda path: path[:, seen],
        18,
        fps=60,
        reference=16,
        sweeps=2**9,
        solves=8,
    )


def cloth(young: float) -> Twin:
    """A sheet of this modulus that hangs by its upper side and swings."""
    cells, side = 8, 0.4
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    material = {
        "membrane_neo_hookean": {"young": young, "poisson": 0.3, "thickness": 1e-3, "damping": 0.005},
        "bend": {"compliance": 1e3, "damping": 0.005},
    }
    points = np.mgrid[: cells + 1, : cells + 1][::-1].reshape(2, -1).T * side / cells
    builder.add_cloth_grid(
        dim_x=cells, dim_y=cells, cell_x=side / cells, cell_y=side / cells, density=0.2, fix_top=True, label="sheet",
        material=material, vel=np.outer(side - points[:, 1], [0.0, 0.0, 1.25]),
    )  # fmt: skip
    seen = np.flatnonzero((points[:, 1] < 1e-9) | (np.abs(points[:, 1] - side / 2) < 1e-9))[::4]
    return Twin(
        "A sheet of 40 x 40 cm, 0.2 kg/m^2, 8 x 8 cells, hangs by its upper side and swings with 0.5 m/s. Sought:"
        f" Young's modulus of `membrane_neo_hookean`, {young:.0e} Pa at a thickness of 1 mm (Poisson's ratio .3,"
        " damping 5 ms, `bend`), from six points at 30 frames in a second.",
        builder.finalize(dtype=sim.float64, requires_grad=True),
        ("sheet.membrane_neo_hookean.young",),
        young,
        lambda path: path[:, seen],
        15,
        reference=32,
        sweeps=2**9,
        solves=16,
    )


TWINS: dict[str, Callable[[], Twin]] = {
    "chain": chain,
    "soft cloth": partial(cloth, 2e4),
    "stiff cloth": partial(cloth, 2e5),
    **{f"solid of {kind}": partial(solid, kind) for kind in ELEMENTS},
}
