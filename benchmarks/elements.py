"""Which Young's modulus gives a beam its measured drop, with each element and mesh: one number, or that of the mesh?

The silicone beam of scenes/beam.yaml (30 x 30 x 100 mm, clamped, under its own weight) has n cells across; E is such
that its markers drop by 6.40 mm, in the linear statics of the constraints themselves: K = sum of J^T J / alpha at rest.

    python benchmarks/elements.py              # n = 2, 3, 4, 6 of every element: minutes
    python benchmarks/elements.py --cells 2 4 --elements hexahedra
"""

import argparse
from collections.abc import Sequence

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

import sim
from sim.constraints.projection import constraint_at, parameter_struct
from sim.core.lang.frontend.builtins import static, tid
from sim.geometry import embed, solid_grid, with_elements
from sim.geometry.tetrahedra import TetMesh
from sim.model import Model
from sim.model.constraint_set import ConstraintSet

SIZE = np.array([0.03, 0.03, 0.1])
MARKERS = np.array([[36.0, 15.0, 99.8], [24.6, 35.4, 100.5], [7.1, -6.2, 95.6]]) * 1e-3
DROP, GRAVITY, DENSITY, YOUNG = 6.40e-3, 9.81, 1070.0, 2.64e5
PAIR = "deviatoric, cell_volume"
ELEMENTS = {
    "stvk": ("tetrahedra", ("stvk",)),
    PAIR: ("tetrahedra", ("deviatoric", "cell_volume")),
    "hexahedra": ("hexahedra", ("stvk",)),
    "quadratic": ("quadratic", ("stvk",)),
    "quadratic, distorted": ("quadratic", ("stvk",)),
}


def jacobian(made: ConstraintSet, x: sim.array) -> np.ndarray:
    """J (constraints, rows, points, 3) in float64."""
    c = made.constraint
    n_points, rows, at = c.points, c.rows, constraint_at(c, sim.float64, gradient=True)
    data = parameter_struct(c, sim.float64)()
    for name, values in made.parameters.items():
        setattr(data, name, values)
    Data, vec3 = parameter_struct(c, sim.float64), sim.vec3d

    @sim.kernel(name=f"jacobian_{c.name}")
    def gradients(points: sim.array2d[int], data: Data, x: sim.array[vec3], out: sim.array3d[vec3]):
        k = tid()
        C, J = at([x[points[k, j]] for j in static(range(n_points))], data, k)
        for r in static(range(rows)):
            for j in static(range(n_points)):
                out[k, r, j] = J[r][j]

    out = sim.zeros((made.count, rows, n_points), vec3)
    sim.launch(gradients, made.count, [made.points, data, x], [out])
    return out.numpy()


def stiffness(model: Model) -> scipy.sparse.csr_matrix:
    """K (3n, 3n) [N/m] at rest, where every C of these materials is 0."""
    size = 3 * model.particle_count
    total = scipy.sparse.csr_matrix((size, size))
    state = model.state()
    for made in model.constraint_sets.values():
        alpha = made.compliance.numpy().reshape(made.count, -1)
        J = jacobian(made, state.particle_q).reshape(made.count, made.constraint.rows, -1)
        elastic = np.array(made.constraint.elastic)
        block = np.einsum("kri,kr,krj->kij", J[:, elastic], 1.0 / alpha[:, elastic], J[:, elastic])
        place = (3 * made.points.numpy()[:, :, None] + np.arange(3)).reshape(made.count, -1)
        rows, columns = np.repeat(place, place.shape[1], 1).ravel(), np.tile(place, (1, place.shape[1])).ravel()
        total = total + scipy.sparse.csr_matrix((block.ravel(), (rows, columns)), shape=(size, size))
    return total


def static_displacement(model: Model) -> np.ndarray:
    """Small displacements (n, 3) [m] under gravity."""
    free = np.repeat(model.particle_inv_mass.numpy() > 0, 3)
    force = (model.particle_mass.numpy()[:, None] * model["gravity"].numpy()).ravel()[free]
    out = np.zeros(len(free))
    out[free] = scipy.sparse.linalg.spsolve(stiffness(model)[free][:, free].tocsc(), force)
    return out.reshape(-1, 3)


def beam(kind: str, cells: int, poisson: float) -> tuple[Model, TetMesh]:
    """The beam with n cells across, clamped at z = 0; distorted: inner points of the lattice moved by up to 20 %."""
    element, laws = ELEMENTS[kind]
    dims = cells, cells, round(10 * cells / 3)
    mesh = solid_grid(*dims, *(SIZE / dims)).mesh
    if "distorted" in kind:
        inner = (mesh.positions > 1e-9) & (mesh.positions < SIZE - 1e-9)
        moved = np.random.default_rng(1).uniform(-0.2, 0.2, mesh.positions.shape) * SIZE / dims * inner
        mesh = TetMesh(mesh.positions + moved, mesh.tets, mesh.triangles)
    builder = sim.ModelBuilder(gravity=(-GRAVITY, 0, 0))
    material = {law: {"young": YOUNG, "poisson": poisson} for law in laws}
    group = builder.add_soft_mesh(mesh=mesh, density=DENSITY, element=element, material=material)
    builder.add_attachment(group.choose({"z": [None, 1e-9]}))
    return builder.finalize(dtype=sim.float64), with_elements(mesh, element)


def young_found(kind: str, cells: int, poisson: float) -> float:
    """E [Pa] that gives the drop."""
    model, mesh = beam(kind, cells, poisson)
    displacement = static_displacement(model)
    markers = embed(MARKERS, mesh.positions, mesh.tets)
    return float(-markers.at(displacement)[:, 0].mean() / DROP * YOUNG)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, nargs="+", default=[2, 3, 4, 6])
    parser.add_argument("--poisson", type=float, nargs="+", default=[0.3, 0.45, 0.499])
    parser.add_argument("--elements", nargs="+", choices=ELEMENTS, default=list(ELEMENTS))
    given = parser.parse_args(arguments)
    head = ["element", "nu", *(f"n = {n}" for n in given.cells), "spread"]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for kind in given.elements:
        for poisson in given.poisson:
            found = [young_found(kind, n, poisson) for n in given.cells]
            spread = 100 * (max(found) / min(found) - 1)
            print(
                f"| {kind} | {poisson:g} | " + " | ".join(f"{e / 1e5:.3f}" for e in found) + f" | {spread:.1f} % |",
                flush=True,
            )


if __name__ == "__main__":
    main()
