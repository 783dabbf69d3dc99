"""Tables of docs/reference/constraints.md: what materials of cloth are on four meshes, over what they were given as."""

from collections.abc import Sequence

import numpy as np
from sheet_meshes import MESHES, Mesh, equilateral, scattered

import sim
from sim.model.energy import constraint_energy, constraint_forces

SIZE = (1.0, 0.25)
SHAPES = {  # heights over a sheet, and the energy per area over B / 2 without a Poisson's ratio
    "cylinder": (lambda x, y: x * x / 2, 1.0),
    "sphere": (lambda x, y: (x * x + y * y) / 2, 2.0),
    "saddle": (lambda x, y: x * y, 2.0),
}
MEMBRANES = {
    "`distance`, c = 1": {"distance": {"compliance": 1.0}},
    "`membrane_stvk`": {"membrane_stvk": {"young": 1.0, "poisson": 0.3, "thickness": 1.0}},
    "`membrane_neo_hookean`": {"membrane_neo_hookean": {"young": 1.0, "poisson": 0.3, "thickness": 1.0}},
    "`fabric`, weft 1/2, shear 1/10": {"fabric": {"warp": 1.0, "weft": 0.5, "shear": 0.1, "poisson": 0.3}},
}


def sheet(mesh: Mesh, material: dict[str, dict[str, float]], held: np.ndarray | None = None) -> sim.Model:
    """A sheet of 1 kg/m^2 in float64, some of whose points are held."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    group = builder.add_cloth_mesh(vertices=mesh[0], indices=mesh[1], density=1.0, label="sheet", material=material)
    if held is not None:
        builder.add_attachment(group.points[held])
    return builder.finalize(dtype=sim.float64)


def energy(model: sim.Model, q: np.ndarray) -> float:
    """Elastic energy [J] at positions q."""
    state = model.state()
    state.particle_q.assign(q)
    return sum(constraint_energy(model, state, name) for name in model.constraint_sets)


def bending(kind: str, material: dict[str, dict[str, float]]) -> list[float]:
    """Energies of the shapes on a mesh of 16 x 4 cells over those of a plate with B = 1."""
    x, triangles = MESHES[kind]((16, 4), SIZE)
    model, small, area = sheet((x, triangles), material), 1e-4, SIZE[0] * SIZE[1]
    return [
        energy(model, x + [0, 0, small] * height(x[:, :1], x[:, 1:2])) / (area * density / 2 * small**2)
        for height, density in SHAPES.values()
    ]


def strip(kind: str, cells: int) -> Mesh:
    """A strip of length 1, two cells wide, with one more row of cells behind x = 0."""
    step = 1 / cells
    if kind == "equilateral":  # with rows of points along the clamp
        x, triangles = equilateral((2, cells + 1), (2 * step / 0.75**0.5, 1 + step))
        x, triangles = x[:, [1, 0, 2]], triangles[:, ::-1]
    elif kind == "Delaunay":
        x, triangles = scattered((cells + 1, 2), (1 + step, 2 * step), held=2)
    else:
        x, triangles = MESHES[kind]((cells + 1, 2), (1 + step, 2 * step))
    return x - [step, 0, 0], triangles


def deflection(kind: str, cells: int, material: dict[str, dict[str, float]]) -> float:
    """Of the end of a strip that is held up to x = 0, under a small load, over that of a beam with B = 1."""
    x, triangles = strip(kind, cells)
    held = np.flatnonzero(x[:, 0] < 1e-9)
    model, small = sheet((x, triangles), material, held), 1e-7
    state, out, free = model.state(), sim.zeros(len(x), sim.vec3d), np.setdiff1d(np.arange(len(x)), held)
    stiffness = np.empty((len(free), len(free)))
    for column, point in enumerate(free):
        q = x.copy()
        q[point, 2] = small
        state.particle_q.assign(q)
        out.zero_()
        constraint_forces(model, state, out)
        stiffness[:, column] = -out.numpy()[free, 2] / small
    w = np.zeros(len(x))
    w[free] = np.linalg.solve(0.5 * (stiffness + stiffness.T), 8 * model.particle_mass.numpy()[free])
    return float(w[x[:, 0] > 1 - 1e-9].mean())


def moduli(kind: str, material: dict[str, dict[str, float]]) -> list[float]:
    """E along x and along y, the ratio of contraction when pulled along x, and G, per thickness, for small strains."""
    x, triangles = MESHES[kind]((6, 6), (1.0, 1.0))
    model, small = sheet((x, triangles), material), 1e-4
    rest = energy(model, x)

    def second(e: Sequence[float]) -> float:
        deformed = x @ (np.eye(3) + small * np.array([[e[0], e[2], 0], [0, e[1], 0], [0, 0, 0]])).T
        return 2 * (energy(model, deformed) - rest) / small**2

    xx, yy, both, shear = (second(e) for e in ([1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]))
    mixed = 0.5 * (both - xx - yy)
    return [xx - mixed**2 / yy, yy - mixed**2 / xx, mixed / yy, shear]


def tables() -> str:
    """Both, as Markdown."""
    rows = [
        "| mesh, 16 x 4 cells | " + " | ".join(f"{c}: {s}" for c in ("`bend`", "`plate`") for s in SHAPES) + " |",
        "|---|" + "---|" * 6,
    ]
    given = {"bend": {"bend": {"compliance": 1.0}}, "plate": {"plate": {"stiffness": 1.0}}}
    for kind in MESHES:
        found = [value for material in given.values() for value in bending(kind, material)]
        rows.append(f"| {kind} | " + " | ".join(f"{value:.2f}" for value in found) + " |")
    rows += ["", "| droop of a strip, cells | " + " | ".join(f"{c}: {n}" for c in ("`bend`", "`plate`") for n in CELLS)]
    rows[-1] += " |"
    rows.append("|---|" + "---|" * 6)
    for kind in MESHES:
        found = [deflection(kind, n, material) for material in given.values() for n in CELLS]
        rows.append(f"| {kind} | " + " | ".join(f"{value:.2f}" for value in found) + " |")
    rows += ["", "| E along x, E along y, nu, G | " + " | ".join(MESHES) + " |", "|---|" + "---|" * len(MESHES)]
    for name, material in MEMBRANES.items():
        cells = [", ".join(f"{abs(value):.3f}" for value in moduli(kind, material)) for kind in MESHES]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


CELLS = (8, 16, 32)

if __name__ == "__main__":
    print(tables())
