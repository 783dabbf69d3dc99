"""Rollouts with rigid bodies: strategies, threads, worlds, resumption, forward mode, precisions, random trees."""

import numpy as np
import pytest
from tools.bodies.models import random_tree
from tools.constraints.samples import SEED
from tools.physics.steps import central

import sim
from sim.core.runtime.ambient.threads import get_num_threads, set_num_threads

STEPS, DT = 7, 1 / 100
PARTS = ("body_q", "body_qd", "particle_q", "particle_qd")


def tree(worlds=1, real=sim.float64, seed=0):
    """Two bodies on ball joints, a bead tied to each."""
    builder = random_tree(seed, 2, ("ball",), soft=True)
    return (builder.replicate(worlds) if worlds > 1 else builder).finalize(dtype=real, requires_grad=True)


def weights_of(state, seed=SEED):
    rng = np.random.default_rng(seed)
    return {n: rng.normal(size=getattr(state, n).numpy().shape) for n in PARTS if getattr(state, n).size}


def run(model, strategy=None, steps=STEPS, state=None, iterations=1):
    """Final state and the gradients of a weighted sum of it by all material values."""
    solver = sim.SolverXPBD(model, iterations)
    with sim.Tape() as tape:
        final = sim.rollout(solver, state or model.state(), steps, DT, strategy=strategy).final
    weights = weights_of(final)
    tape.backward(grads={getattr(final, n): sim.array(w, dtype=getattr(final, n).dtype) for n, w in weights.items()})
    found = {n: a.grad.numpy().copy() for n, a in model.materials.items()}
    tape.zero()
    return {n: getattr(final, n).numpy().copy() for n in PARTS}, found


def same(a, b):
    for mine, other in zip(a, b, strict=True):
        assert mine.keys() == other.keys()
        for name, values in mine.items():
            np.testing.assert_array_equal(values, other[name], name)


def test_strategies_and_threads_give_the_same_bits():
    model = tree()
    wanted = run(model, sim.StoreAll())
    same(run(model, sim.Checkpointed(every=3)), wanted)
    before = get_num_threads()
    try:
        for n in (1, 2):
            set_num_threads(n)
            same(run(model, sim.Checkpointed(every=2)), wanted)
    finally:
        set_num_threads(before)


def test_worlds_are_what_one_is():
    """Groups stand one after the other, of each the worlds."""
    one, model = run(tree())[0], tree(3)
    three = run(model)[0]
    for world in range(3):
        bodies = np.concatenate([g.of_world(world) for g in model.bodies.values()])
        beads = model.groups["beads"].of_world(world)
        for n in PARTS:
            np.testing.assert_array_equal(three[n][bodies if "body" in n else beads], one[n], n)


def test_a_run_goes_on_from_any_state():
    model = tree()
    solver, whole = sim.SolverXPBD(model), run(model, steps=6)[0]
    half = sim.rollout(solver, model.state(), 3, DT).final
    kept = model.state()
    kept.assign(half)
    rest = sim.rollout(sim.SolverXPBD(model), kept, 3, DT).final
    for n in PARTS:
        np.testing.assert_array_equal(getattr(rest, n).numpy(), whole[n])


def test_a_captured_run_is_replayed():
    model = tree()
    solver, state = sim.SolverXPBD(model), model.state()
    with sim.capture() as graph:
        made = sim.rollout(solver, state, STEPS, DT)
    state.body_qd.assign(state.body_qd.numpy() + 0.1)
    state.body_f.assign(np.full((2, 6), 0.3))
    graph.replay()
    fresh = sim.rollout(sim.SolverXPBD(model), state, STEPS, DT).final
    np.testing.assert_array_equal(made.final.body_q.numpy(), fresh.body_q.numpy())


def test_forces_have_gradients():
    """By wrenches on bodies, against differences."""
    model = tree()
    solver, start = sim.SolverXPBD(model), model.state()
    force = np.random.default_rng(1).normal(size=(2, 6))
    along, weights = np.random.default_rng(2).normal(size=(2, 6)), weights_of(start)

    def final(values):
        start.body_f.assign(values)
        return sim.rollout(solver, start, STEPS, DT).final

    start.body_f.assign(force)
    with sim.Tape() as tape:
        end = sim.rollout(solver, start, STEPS, DT).final
    tape.backward(grads={end.body_q: sim.array(weights["body_q"], dtype=end.body_q.dtype)})
    want = central(lambda f: float((weights["body_q"] * final(f).body_q.numpy()).sum()), force, along)
    assert float((start.body_f.grad.numpy() * along).sum()) == pytest.approx(want, rel=1e-7)


@sim.kernel
def squared(q: sim.array(dtype=sim.transformd), loss: sim.array(dtype=sim.float64)):
    i = sim.tid()
    sim.atomic_add(loss, 0, sim.dot(q[i].p, q[i].p) + q[i].q[0] * q[i].q[1])


@pytest.mark.slow
def test_forward_mode_and_second_derivatives():
    """J v is <gradient, v>, H v the difference of gradients."""
    model = tree()
    solver, rng = sim.SolverXPBD(model), np.random.default_rng(SEED)
    chosen = [model[p] for p in ("body0.mass", "body0.inertia", "body1.com", "body1.rotation", "gravity")]
    start = [a.numpy().copy() for a in chosen]
    along = [rng.normal(size=s.shape) * 0.1 for s in start]

    def loss(*_):
        out = sim.zeros(1, dtype=sim.float64, requires_grad=True)
        sim.launch(squared, 2, [sim.rollout(solver, model.state(), 5, DT).final.body_q], [out])
        return out

    def gradient(h):
        for a, s, v in zip(chosen, start, along, strict=True):
            a.assign(s + h * v)
        with sim.Tape() as tape:
            out = loss()
        tape.backward(out)
        found = [a.grad.numpy().copy() for a in chosen]
        tape.zero()
        return found

    wanted = sum(float((g * v).sum()) for g, v in zip(gradient(0.0), along, strict=True))
    _, (slope,) = sim.autograd.jvp(loss, chosen, along)
    assert slope.item() == pytest.approx(wanted, rel=1e-10)
    products, h = sim.autograd.hvp(loss, chosen, along), 1e-5
    differences = [(p - m) / (2 * h) for p, m in zip(gradient(h), gradient(-h), strict=True)]
    for product, difference in zip(products, differences, strict=True):
        np.testing.assert_allclose(product.numpy(), difference, rtol=1e-6, atol=1e-6 * np.abs(difference).max())


@pytest.mark.slow
def test_single_precision_is_near_double():
    """Values and gradients of a second: to the precision of the numbers times the steps."""
    (double, by_double), (single, by_single) = (run(tree(real=real), steps=100) for real in (sim.float64, sim.float32))
    for n in PARTS:
        np.testing.assert_allclose(single[n], double[n], atol=2e-3 * max(1.0, np.abs(double[n]).max()), err_msg=n)
    for n, g in by_double.items():
        np.testing.assert_allclose(by_single[n], g, atol=2e-2 * max(1e-3, np.abs(g).max()), err_msg=n)


# ------------------------------------------------------------------------------------------ random trees
@pytest.mark.parametrize("seed", range(5))
def test_random_trees_of_balls(seed):
    """The gradients by all material values along random directions, against differences; see test_random_trees.py."""
    model = random_tree(seed, 2, ("ball",)).finalize(dtype=sim.float64, requires_grad=True)
    solver, rng = sim.SolverXPBD(model), np.random.default_rng([SEED, seed])
    weights = weights_of(model.state(), seed)

    def final():
        return sim.rollout(solver, model.state(), STEPS, DT).final

    with sim.Tape() as tape:
        end = final()
    tape.backward(grads={getattr(end, n): sim.array(w, dtype=getattr(end, n).dtype) for n, w in weights.items()})
    starts = {n: a.numpy().copy() for n, a in model.materials.items()}
    for group in ("mass", "inertia", "com", "rotation", "compliance", ""):
        names = [n for n in starts if (n.endswith(group) if group else True)]
        along = {n: rng.normal(size=starts[n].shape) * np.maximum(np.abs(starts[n]), 0.01) for n in names}
        along = {n: v * (starts[n] != 0) if "compliance" in n or "damping" in n else v for n, v in along.items()}

        def loss(h, along=along):
            for n, v in along.items():
                model[n].assign(starts[n] + h * v)
            end = final()
            return sum(float((w * getattr(end, n).numpy()).sum()) for n, w in weights.items())

        want = central(loss, 0.0, 1.0, 1e-4)
        loss(0.0)
        got = sum(float((model[n].grad.numpy() * v).sum()) for n, v in along.items())
        assert got == pytest.approx(want, rel=1e-6, abs=1e-7), f"seed {seed}, {group}"
