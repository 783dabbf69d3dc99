"""`order="jacobi"` with bodies: constraints that share a body act at once, each on a part of its mass and inertia."""

import numpy as np
import pytest
from tools.bodies.models import momenta

import sim

CORNERS = np.array([[x, 0.0, z] for x in (-0.3, 0.3) for z in (-0.2, 0.2)])


def board(grad: bool = False) -> sim.Model:
    """A board on four springs to the ceiling, at their rest lengths."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    body = builder.add_body((0, 0, 0), 2.0, (0.03, 0.08, 0.06), label="board")
    rows = [[builder.point_of(body, at), builder.point_of(-1, at + [0, 0.5, 0])] for at in CORNERS]
    builder.add_constraints("distance", rows, compliance=1e-4, label="springs")
    return builder.finalize(dtype=sim.float64, requires_grad=grad)


def arms(bodies: int, hung: bool = True, grad: bool = False) -> sim.Model:
    """Bars on ball joints, which turn; hung: the first on the world."""
    builder = sim.ModelBuilder(gravity=(0, -9.81 * hung, 0))
    above = -1
    for k in range(bodies):
        spin = (0.3, 0.2, 2.0) if hung else (0.0, 0.0, 0.0)
        body = builder.add_body(
            (0.3 * k + 0.15, 0, 0), 1.0 - 0.1 * k, (0.01, 0.012, 0.011), spin=spin, label=f"b{k}"
        )  # fmt: skip
        if hung or k:
            at = (0.15 if k else 0.0, 0, 0)
            builder.add_joint_ball(above, body, at, (-0.15, 0, 0), label=f"j{k}")
        above = body
    return builder.finalize(dtype=sim.float64, requires_grad=grad)


def final(model: sim.Model, order: str, iterations: int, steps: int = 40, dt: float = 1 / 240) -> sim.State:
    return sim.rollout(sim.SolverXPBD(model, order=order, iterations=iterations), model.state(), steps, dt).final


def test_one_constraint_is_projected_as_ever():
    model = arms(1)
    one, other = (final(model, order, 2) for order in ("colored", "jacobi"))
    np.testing.assert_allclose(one.body_q.numpy(), other.body_q.numpy(), atol=1e-13)
    np.testing.assert_allclose(one.body_qd.numpy(), other.body_qd.numpy(), atol=1e-11)


def test_what_is_symmetric_stays_so():
    """After a sweep that has an order the board leans; after one that has none it does not."""
    model = board()
    leaning, level = (np.abs(final(model, order, 1).body_q.numpy()[0, 3:6]).max() for order in ("colored", "jacobi"))
    assert leaning > 1e-5 and level < 1e-14


def test_both_orders_end_at_one_place():
    """Converged, they differ by less the shorter the steps: turns about different axes come in another order."""
    off = []
    for rate in (240, 480):
        one, other = (final(arms(2), order, 100, rate // 20, 1 / rate) for order in ("colored", "jacobi"))
        off.append(np.abs(one.body_q.numpy() - other.body_q.numpy()).max())
    print("off by", off)
    assert off[0] < 1e-5 and off[1] < 0.6 * off[0]


def test_momenta_stay():
    """Of free bars that a push sets into motion, with sweeps that are far from converged."""
    model = arms(3, hung=False)
    state = model.state()
    state.body_qd.assign(np.array([[0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [0, 0.3, 0.1, 0.5, 0, 0.2]]))
    solver = sim.SolverXPBD(model, order="jacobi", iterations=1)
    made = [momenta(s) for s in (state, sim.rollout(solver, state, 200, 1 / 240).final)]
    np.testing.assert_allclose(np.concatenate(made[1]), np.concatenate(made[0]), atol=1e-12)


def test_gradients_by_masses_places_and_joints():
    weights = np.random.default_rng(0).standard_normal((3, 7))
    rng, paths = np.random.default_rng(1), ("b0.mass", "b1.inertia", "b2.spin", "j1.child_at", "j2.parent_at")
    model = arms(3, grad=True)
    way = {path: rng.standard_normal(model[path].numpy().shape) * 1e-2 for path in paths}
    with sim.Tape() as tape:
        out = final(model, "jacobi", 2, steps=8).body_q
    tape.backward(grads={out: sim.array(weights, dtype=out.dtype)})
    found = sum(float((model[path].grad.numpy() * d).sum()) for path, d in way.items())

    def along(step: float) -> float:
        moved = arms(3)
        for path, d in way.items():
            moved[path].assign(moved[path].numpy() + step * d)
        return float((final(moved, "jacobi", 2, steps=8).body_q.numpy() * weights).sum())

    assert found == pytest.approx((along(1e-4) - along(-1e-4)) / 2e-4, rel=1e-6)
