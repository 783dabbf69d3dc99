"""Constraints evaluated by the compiler, and their projection by NumPy."""

import numpy as np

import sim
from sim.constraints.projection import constraint_at, parameter_struct
from sim.core.lang.frontend.builtins import static, tid
from tools.constraints.samples import SEED, Sample


def evaluate(s: Sample, x: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """C (n, rows) and J (n, rows, points, 3), by the compiler."""
    c, rows, n_points = s.c, s.c.rows, s.c.points
    Data, vec3, at = parameter_struct(c, sim.float64), sim.vec3d, constraint_at(c, sim.float64, gradient=True)

    @sim.kernel(name=f"evaluate_{c.name}")
    def kernel(
        points: sim.array2d[int],
        data: Data,
        x: sim.array[vec3],
        C_out: sim.array2d[sim.float64],
        J_out: sim.array3d[vec3],
    ):
        k = tid()
        C, J = at([x[points[k, j]] for j in static(range(n_points))], data, k)
        for r in static(range(rows)):
            C_out[k, r] = C[r]
            for j in static(range(n_points)):
                J_out[k, r, j] = J[r][j]

    a = s.arrays() if x is None else s.arrays(x=x)
    C, J = sim.zeros((s.count, rows), sim.float64), sim.zeros((s.count, rows, n_points), vec3)
    sim.launch(kernel, s.count, [a["points"], a["data"], a["x"]], [C, J])
    return C.numpy(), J.numpy()


def reference(
    s: Sample, host: dict[str, np.ndarray], variant: tuple[bool, bool, bool], dt: float
) -> tuple[np.ndarray, np.ndarray]:
    """The projection by NumPy, with the compiler's J (which is tested above): x after it, multipliers after it."""
    first, damped, averaged = variant
    c, x_out, multiplier = s.c, host["x"].copy(), np.atleast_2d(host["multiplier"].T).T.copy()
    C, J = evaluate(s, host["x"])
    for k, rows in enumerate(s.points):
        w = np.repeat(host["w"][rows], 3)
        split = w * np.repeat(host["split"][rows], 3) if averaged else w
        G, gamma = J[k].reshape(c.rows, -1), np.array(c.damped) * (host["damping"][k] / dt if damped else 0.0)
        alpha, elastic = np.diag(np.atleast_1d(host["compliance"][k])) / dt**2, np.array(c.elastic, float)
        before = np.zeros(c.rows) if first else multiplier[k]
        residual = elastic * C[k] + alpha @ before + gamma * (G @ (host["x"][rows] - host["x_before"][rows]).ravel())
        acts = np.flatnonzero(elastic + gamma)
        step = np.zeros(c.rows)
        block = (elastic + gamma)[:, None] * ((G * split) @ G.T) + alpha
        step[acts] = -np.linalg.solve(block[np.ix_(acts, acts)], residual[acts])
        if c.unilateral:
            step = np.maximum(step, -before)
        if c.rows > 1 and not w.any():
            step[:] = 0
        x_out[rows] += (w * (step @ G)).reshape(-1, 3)
        multiplier[k] = before + step
    return x_out, multiplier.reshape(host["multiplier"].shape)


def projection_inputs(s: Sample, seed: int = SEED) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    multiplier = rng.uniform(-0.02, 0.02, size=s.compliance.shape)
    return {
        "x": s.x,
        "x_before": s.x + 0.1 * rng.normal(size=s.x.shape),
        "compliance": s.compliance,
        "w": s.w,
        "damping": rng.uniform(0.01, 0.1, size=s.count),
        "split": rng.integers(1, 5, size=len(s.x)).astype(float),
        "multiplier": np.abs(multiplier) if s.c.unilateral else multiplier,
        **s.parameters,
    }
