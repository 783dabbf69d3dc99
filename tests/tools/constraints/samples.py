"""What the tests of constraints, solvers and rollouts share: constraints of our own, random states, differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import sim
from sim.constraints import REGISTRY, Constraint
from sim.constraints.contact.primitives.shapes import UPRIGHT
from sim.constraints.projection import make_weighing, parameter_struct, value_type, weight_type
from tools.geometry.distances import edge_edge_distance, point_triangle_distance

SEED = 20261121


# ------------------------------------------------------------------------------------------ constraints of our own
@sim.constraint(points=3)
def own_area(x, rest: float):
    """Area of a triangle minus its rest value.  C [m^2]."""
    return 0.5 * sim.length(sim.cross(x[1] - x[0], x[2] - x[0])) - rest


@sim.constraint(points=3, rows=2)
def own_pair(x, rest: float):
    """Two rows: the lengths of two edges of a triangle; the second is to be twice the first.  C [m]."""
    return sim.length(x[1] - x[0]) - rest, sim.length(x[2] - x[0]) - 2.0 * rest


@sim.constraint(points=4, rows=6)
def own_tetrahedron(x, near: sim.vec3, far: sim.vec3):
    """Six rows: half the squares of the six edges of a tetrahedron minus theirs at rest.  C [m^2]."""
    a, b, c = x[1] - x[0], x[2] - x[0], x[3] - x[0]
    d, e, f = x[2] - x[1], x[3] - x[1], x[3] - x[2]
    return (
        0.5 * sim.dot(a, a) - near[0],
        0.5 * sim.dot(b, b) - near[1],
        0.5 * sim.dot(c, c) - near[2],
        0.5 * sim.dot(d, d) - far[0],
        0.5 * sim.dot(e, e) - far[1],
        0.5 * sim.dot(f, f) - far[2],
    )


OWN = ("own_area", "own_pair", "own_tetrahedron")
# Other test modules declare constraints too, some of them on purpose bad: ours, and all of the project.
NAMES = sorted(
    name
    for name, c in REGISTRY.items()
    if name in OWN
    or (
        c.function.__module__.startswith("sim.constraints") and not c.frames and ".joints." not in c.function.__module__
    )
)


# ------------------------------------------------------------------------------------------ C on the host
CELL = ((0, 4, 5, 6), (1, 5, 4, 7), (2, 6, 7, 4), (3, 7, 6, 5), (4, 5, 6, 7))
"""Corners of the tetrahedra of a lattice cell, as `sim.geometry.lattice_cells` orders them."""


EDGES = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))


def trilinear_gradient(x: np.ndarray, at: np.ndarray, size: np.ndarray) -> np.ndarray:
    """dx/dX (3, 3) of a box with corners (8, 3) at `at` in [-1, 1]^3."""
    shapes = np.zeros((8, 3))
    for corner in range(8):
        sign = np.array([2 * (corner >> axis & 1) - 1 for axis in range(3)])
        for axis in range(3):
            others = [(1 + sign[k] * at[k]) / 2 for k in range(3) if k != axis]
            shapes[corner, axis] = sign[axis] / size[axis] * others[0] * others[1]
    return x.T @ shapes


def values(c: Constraint, x: np.ndarray, parameters: dict[str, np.ndarray]) -> np.ndarray:
    """C of one constraint by NumPy, (rows,): x (points, 3).  An independent statement of every C that is tested."""
    p = parameters

    def angle() -> float:
        n0, n1 = np.cross(x[2] - x[0], x[3] - x[0]), np.cross(x[3] - x[1], x[2] - x[1])
        axis = (x[3] - x[2]) / np.linalg.norm(x[3] - x[2])
        return np.arctan2(np.cross(n0, n1) @ axis, n0 @ n1)

    def halves() -> np.ndarray:
        return np.array(
            [0.5 * (x[j] - x[i]) @ (x[j] - x[i]) for i, j in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))]
        )

    def strain() -> tuple[np.ndarray, np.ndarray]:
        f = (x[1:] - x[0]).T @ np.stack([p["g1"], p["g2"], p["g3"]])
        return f, 0.5 * (f.T @ f - np.eye(3))

    def deviator(e: np.ndarray) -> list[float]:
        return [
            (e[0, 0] - e[1, 1]) / 2**0.5,
            (e[0, 0] + e[1, 1] - 2 * e[2, 2]) / 6**0.5,
            *(2**0.5 * e[[0, 1, 2], [1, 2, 0]]),
        ]

    def neo_hookean() -> list[float]:
        return neo_hookean_of(strain()[0])

    def viscoelastic() -> list[float]:
        e = strain()[1]
        return [np.trace(e) / 3**0.5, *(np.array(deviator(e)) - p["share"] * np.array([*p["normal"][:2], *p["shear"]]))]

    def sheet() -> np.ndarray:
        i, a, b = p["inverse"], x[1] - x[0], x[2] - x[0]
        return np.stack([a, b], axis=1) @ np.array([[i[0], i[1]], [0.0, i[2]]])

    def sheet_strain() -> list[float]:
        e = 0.5 * (sheet().T @ sheet() - np.eye(2))
        return [np.trace(e) / 2**0.5, (e[0, 0] - e[1, 1]) / 2**0.5, 2**0.5 * e[0, 1]]

    def thinned() -> list[float]:
        gram, m = sheet().T @ sheet(), p["softness"]
        return [np.trace(gram) ** 0.5, (1 + m) / np.sqrt(m + np.linalg.det(gram)), *sheet_strain()]

    def fabric() -> list[float]:
        turn = p["along"] + p["angle"]
        u, v = (sheet() @ np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])).T
        stretch = np.linalg.norm([u, v], axis=1) - 1
        return [stretch[0] + p["coupling"] * stretch[1], stretch[1], u @ v]

    def curvatures() -> np.ndarray:
        normal = np.cross(x[1] - x[0], x[2] - x[0])
        heights = (x[3:] - x[0]) @ normal / np.linalg.norm(normal)
        return heights @ np.stack([p[f"w{k}"] for k in range(3, 12)]) - p["curvature"] * p["rest"]

    def woven_curvatures() -> list[float]:
        k, turn = curvatures(), p["along"] + p["angle"]
        xx, yy, xy = (k[0] + k[1]) / 2**0.5, (k[0] - k[1]) / 2**0.5, k[2] / 2**0.5
        u, v = np.array([np.cos(turn), np.sin(turn)]), np.array([-np.sin(turn), np.cos(turn)])
        tensor = np.array([[xx, xy], [xy, yy]])
        across = v @ tensor @ v - p["curl_weft"]
        return [u @ tensor @ u - p["curl_warp"] + p["coupling"] * across, across, 2 * u @ tensor @ v]

    def strain_rows(f: np.ndarray, h: np.ndarray | None = None) -> list[float]:
        """Of the Green strain, or of how it changes with F by H."""
        e = 0.5 * (f.T @ f - np.eye(3)) if h is None else 0.5 * (f.T @ h + h.T @ f)
        return [np.trace(e) / 3**0.5, *deviator(e)]

    def neo_hookean_of(f: np.ndarray) -> list[float]:
        squares = np.sum(f * f)
        stretch = np.sqrt(squares - 0.1 * np.log1p(10 * squares))
        return [stretch, np.linalg.det(f) - 1 - p["softness"], *deviator(0.5 * (f.T @ f - np.eye(3)))]

    def brick() -> tuple[np.ndarray, np.ndarray]:
        """The mean F, and d2u_i / dX_i dX_j by finite differences of the trilinear map, in the frame of F."""
        f = trilinear_gradient(x, np.zeros(3), p["size"])
        return f, np.array(
            [
                f[:, i] @ (trilinear_gradient(x, unit, p["size"]) - f)[:, i] if i != j else 0.0
                for i in range(3)
                for j, unit in enumerate(np.eye(3))
            ]
        ).reshape(3, 3)

    def bending() -> list[float]:
        _, b = brick()
        pairs = (b[0, 1], b[2, 1]), (b[0, 2], b[1, 2]), (b[1, 0], b[2, 0])
        return [value for a, c in pairs for value in ((a + c) / 2**0.5, (a - c) / 2**0.5)]

    def twist() -> list[float]:
        f, _ = brick()
        own = [trilinear_gradient(x, unit, p["size"]) - f for unit in np.eye(3)]
        shear = [f[:, i] @ own[k][:, j] + f[:, j] @ own[k][:, i] for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1))]
        corner = [np.ones(3) - unit for unit in np.eye(3)]  # the part with the product of the two other coordinates
        warp = [
            f[:, i] @ (trilinear_gradient(x, corner[i], p["size"]) - f - own[(i + 1) % 3] - own[(i + 2) % 3])[:, i]
            for i in range(3)
        ]
        return [*(np.array(shear) / 2**0.5), *warp]

    def quadratic() -> tuple[np.ndarray, np.ndarray]:
        """The mean F, and its part that is 1, 1, -1, -1 at the Gauss points."""
        g = np.stack([-p["g1"] - p["g2"] - p["g3"], p["g1"], p["g2"], p["g3"]])
        at = []
        for point in range(4):
            share = np.full(4, (5 - 5**0.5) / 20)
            share[point] = (5 + 3 * 5**0.5) / 20
            shapes = [(4 * share[a] - 1) * g[a] for a in range(4)]
            shapes += [4 * (share[a] * g[b] + share[b] * g[a]) for a, b in EDGES]
            at.append(x.T @ np.array(shapes))
        return sum(at) / 4, (at[0] + at[1] - at[2] - at[3]) / 4

    def lever() -> np.ndarray:
        u, v = ((q - p) / np.linalg.norm(q - p) for p, q in ((x[1], x[2]), (x[3], x[4])))
        s, d = ((w) / np.linalg.norm(w) for w in (u + v, u - v))
        rest = np.stack([p["axis_1"], p["axis_2"], p["axis_3"]]) @ (p["arm"] + p["shift"])
        return np.stack([s, d, np.cross(s, d)]) @ (x[0] - x[1:].mean(axis=0)) - rest

    def lowered(axis: np.ndarray, normal: np.ndarray) -> float:
        u = np.linalg.norm(np.cross(axis / np.linalg.norm(axis), normal)) / UPRIGHT
        return UPRIGHT * u * (u * (2 - u) if u < 1 else 1.0)

    edge = np.linalg.norm(x[1] - x[0]) if len(x) > 1 else 0.0
    formulas: dict[str, Callable[[], object]] = {
        "distance": lambda: edge - p["rest"],
        "shear": lambda: edge - p["rest"],
        "lever": lever,
        "bend": lambda: np.remainder(angle() - p["rest"] + np.pi, 2 * np.pi) - np.pi,
        "attachment": lambda: p["hold"] * (x[0] - p["target"]),
        "contact_plane": lambda: (x[0] - p["point"]) @ p["normal"] - p["thickness"],
        "contact_rim": lambda: (x[0] - p["point"]) @ p["normal"] - p["radius"] * lowered(x[0] - x[1], p["normal"]),
        "contact_sphere": lambda: np.linalg.norm(x[0] - p["center"]) - p["radius"] - p["thickness"],
        "contact_points": lambda: edge - p["radius"] - p["other_radius"],
        "contact_point_triangle": lambda: point_triangle_distance(x, p["side"]) - p["thickness"],
        "contact_edge_edge": lambda: edge_edge_distance(x, p["side"]) - p["thickness"],
        "contact_ball_triangle": lambda: point_triangle_distance(x, p["side"]) - p["radius"] - p["thickness"],
        "contact_capsule_edge": lambda: edge_edge_distance(x, p["side"]) - p["radius"] - p["thickness"],
        "volume": lambda: np.linalg.det(x[1:] - x[0]) / (6 * p["rest"]) - 1,
        "neo_hookean": neo_hookean,
        "stvk": lambda: [np.trace(strain()[1]) / 3**0.5, *deviator(strain()[1])],
        "viscoelastic": viscoelastic,
        "viscoelastic_shape": lambda: viscoelastic()[1:],
        "deviatoric": lambda: deviator(strain()[1]),
        "cell_volume": lambda: sum(np.linalg.det(x[list(t[1:])] - x[t[0]]) for t in CELL) / (6 * p["rest"]) - 1,
        "membrane_stvk": sheet_strain,
        "membrane_neo_hookean": thinned,
        "fabric": fabric,
        "plate": curvatures,
        "fabric_bend": woven_curvatures,
        "stvk_hexahedron": lambda: strain_rows(brick()[0]),
        "neo_hookean_hexahedron": lambda: neo_hookean_of(brick()[0]),
        "hexahedron_bending": bending,
        "hexahedron_twist": twist,
        "stvk_quadratic": lambda: strain_rows(quadratic()[0]),
        "neo_hookean_quadratic": lambda: neo_hookean_of(quadratic()[0]),
        "quadratic_modes": lambda: strain_rows(*quadratic()),
        "own_area": lambda: 0.5 * np.linalg.norm(np.cross(x[1] - x[0], x[2] - x[0])) - p["rest"],
        "own_pair": lambda: [edge - p["rest"], np.linalg.norm(x[2] - x[0]) - 2 * p["rest"]],
        "own_tetrahedron": lambda: halves() - np.concatenate([p["near"], p["far"]]),
    }
    return np.atleast_1d(np.asarray(formulas[c.name](), np.float64))


@dataclass
class Sample:
    """n constraints of one kind on points of their own, in a random state; everything float64.

    Every fourth point is pinned.  Those that act one way only are violated in every second constraint.
    """

    c: Constraint
    x: np.ndarray
    parameters: dict[str, np.ndarray]
    points: np.ndarray
    w: np.ndarray
    compliance: np.ndarray

    @property
    def count(self) -> int:
        return len(self.points)

    def of(self, k: int, x: np.ndarray | None = None) -> np.ndarray:
        """C of constraint k by NumPy."""
        at = (self.x if x is None else x)[self.points[k]]
        return values(self.c, at, {name: v[k] for name, v in self.parameters.items()})

    def arrays(self, **replaced: np.ndarray) -> dict[str, object]:
        """What the kernels of a constraint take, all with gradients; `parameters` as their struct."""
        host = {"x": self.x, "w": self.w, "compliance": self.compliance, **self.parameters, **replaced}
        kinds = {
            "x": sim.vec3d,
            "w": sim.float64,
            "compliance": value_type(self.c, sim.float64),
            **{p.name: p.type(sim.float64) for p in self.c.parameters.values()},
        }
        made = {n: sim.array(v, dtype=kinds[n], requires_grad=True) for n, v in host.items()}
        data = parameter_struct(self.c, sim.float64)()
        for name in self.c.parameters:
            setattr(data, name, made[name])
        points, kind = sim.array(self.points, dtype=sim.int32), weight_type(self.c.points, sim.float64)
        weights = sim.zeros(self.count, kind, requires_grad=True)
        sim.launch(make_weighing(self.c.points, sim.float64), self.count, [points, made["w"]], [weights])
        return {**made, "data": data, "points": points, "weights": weights}


def sample(name: str, count: int = 8, seed: int = SEED) -> Sample:
    """Random constraints of this name."""
    c = REGISTRY[name]
    rng = np.random.default_rng([seed, *map(ord, name)])  # the same whatever else is registered
    points = rng.permutation(count * c.points).reshape(count, c.points).astype(np.int32)
    x = rng.normal(size=(count * c.points, 3))
    parameters = {}
    for p in c.parameters.values():
        low, high = (0.5, 3.0) if p.name == "rest" else (0.2, 1.0)  # C of both signs
        if name in ("volume", "cell_volume"):
            low, high = 0.01, 0.2
        parameters[p.name] = rng.uniform(low, high, size=(count, 3) if p.kind == "vec3" else count)
    if "normal" in parameters:
        parameters["normal"] /= np.linalg.norm(parameters["normal"], axis=1)[:, None]
    w = rng.uniform(0.5, 2.0, size=len(x))
    w[rng.permutation(len(x))[: len(x) // 4]] = 0.0
    if c.points == 1:
        w[points[0, 0]] = 0.0
    compliance = rng.uniform(0.1, 1.0, size=count if c.rows == 1 else (count, c.rows))
    made = Sample(c, x, parameters, points, w, compliance)
    if c.unilateral:  # shift the thickness so that C is -0.3, +0.3, -0.3, ...: far from where the contact switches
        wanted = np.where(np.arange(count) % 2, 0.3, -0.3)
        outside = "thickness" if "thickness" in parameters else "radius"
        parameters[outside] += np.array([made.of(k)[0] for k in range(count)]) - wanted
    return made
