"""The direct solve of trees: the system of a dense solve, its gradient, and what it is good for."""

import numpy as np
import pytest
from tools.bodies.ball_trees import ALL, BALLS, ball_system, gradients, random_tree, slope

import sim
from sim.solvers.direct.structure import factorise, neighbours, trees_of

DT = 1 / 120


def poses(state) -> np.ndarray:
    return state.body_q.numpy().astype(float)


def stepped(model, **settings):
    solver = sim.SolverXPBD(model, **settings)
    before, after = model.state(), model.state()
    solver.step(before, after, None, None, DT)
    return solver, before, after


@pytest.mark.parametrize("seed", range(4))
def test_multipliers_are_those_of_a_dense_solve(seed):
    """Rigid joints push along the gradients of the start, elastic ones along those of the end."""
    for compliance, settings in ((0.0, {}), (0.0, {"direction": "end"}), (1e-3, {"direction": "end"})):
        model = random_tree(seed, compliance=compliance, parts=BALLS)
        _, before, free = stepped(random_tree(seed, parts=()))
        solver, _, _ = stepped(model, direct=BALLS, **settings)
        start = poses(before if not settings else free)
        wanted = ball_system(model, poses(free), start, compliance / DT**2)
        for name, lam in wanted.items():
            found = solver.multipliers(name).numpy()
            np.testing.assert_allclose(found, lam, rtol=1e-9, atol=1e-10 * np.abs(lam).max(), err_msg=f"seed {seed}")


VALUES = ("gravity", "body1.mass", "body2.inertia", "body3.rotation", "body0.velocity", "body4.spin", "body5.position",
          "joint.compliance", "joint.damping", "tie.compliance", "tie.rest")  # fmt: skip


@pytest.mark.parametrize(
    ("label", "settings"),
    [
        ("all", {}),
        pytest.param("joint", {"iterations": 2, "direction": "end"}, marks=pytest.mark.slow),
    ],
)
def test_gradients_are_differences(label, settings):
    """Of everything that a step depends on, with all constraints in the tree, and with some that are projected."""
    model = random_tree(5, compliance=1e-4, damping=2e-3, grad=True)
    solver = sim.SolverXPBD(model, direct=ALL if label == "all" else (label,), **settings)
    found, rng = gradients(solver, VALUES), np.random.default_rng(1)
    for path in VALUES:
        value = model[path].numpy()
        size = 1e-3 * np.abs(value).max() if np.abs(value).max() > 0 else 1e-3
        direction = size * rng.normal(size=value.shape)
        wanted, got = slope(solver, path, direction), np.sum(found[path] * direction)
        scale = np.linalg.norm(found[path]) * np.linalg.norm(direction)
        assert scale > 0 and abs(got - wanted) <= 1e-6 * scale, (path, got, wanted)


def test_gradients_have_the_same_bits_however_they_are_stored():
    model = random_tree(5, compliance=1e-4, damping=2e-3, worlds=3, grad=True)
    solver, threads = sim.SolverXPBD(model, direct=ALL), sim.get_num_threads()
    wanted = gradients(solver, VALUES, 5)
    try:
        for strategy, used in ((sim.Checkpointed(every=2), 1), (sim.StoreAll(), 1), (sim.StoreAll(), 2)):
            sim.set_num_threads(used)
            found = gradients(solver, VALUES, 5, strategy=strategy)
            for name in wanted:
                np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)
    finally:
        sim.set_num_threads(threads)


def test_worlds_are_trees_of_their_own():
    alone, both = (random_tree(7, compliance=1e-4, damping=2e-3, worlds=n) for n in (1, 3))
    one, three = (
        sim.rollout(sim.SolverXPBD(m, direct=ALL), m.state(), 10, DT).final.body_q.numpy() for m in (alone, both)
    )
    np.testing.assert_array_equal(three.reshape(-1, 3, 7), np.repeat(one[:, None], 3, axis=1))


# ------------------------------------------------------------------------------------------ the order of elimination
@pytest.mark.parametrize("seed", range(20))
def test_trees_have_no_fill(seed):
    """Joints between random bodies of a tree, some with two constraints, in any order; a chain is tridiagonal."""
    rng = np.random.default_rng(seed)
    pairs = [(int(rng.integers(k)) if k else 10**6, k) for k in range(30)]
    movers = [[v for v in pair if v < 30] for pair in pairs + [pairs[k] for k in rng.integers(30, size=5)]]
    movers = [movers[k] for k in rng.permutation(len(movers))]
    graph = neighbours(movers)
    parts = trees_of(graph)
    assert sorted(k for part in parts for k in part) == list(range(len(movers)))
    assert factorise(graph, parts).couplings == sum(map(len, graph)) // 2, seed


def test_a_chain_is_block_tridiagonal_and_a_ring_has_a_border():
    n = 40
    chain, ring = (neighbours([[k, (k + 1) % n] for k in range(m)]) for m in (n - 1, n))
    assert factorise(chain, trees_of(chain)).couplings == n - 2
    assert factorise(ring, trees_of(ring)).couplings == 2 * n - 3
