"""What a problem computes is never out of date: model, data, weights and solver may change between two calls."""

import dataclasses

import numpy as np
import pytest
from tools.scenes.problems import sheet

import sim
from sim.identify.data.experiments import Target
from sim.identify.evaluate.evaluator import Evaluator


def fresh(tmp_path, change=lambda problem: None):
    problem = sheet(tmp_path)
    change(problem)
    return problem


def weights(problem):
    problem.terms[:] = [dataclasses.replace(t, weight=3.0 * t.weight) for t in problem.terms]


def huber(problem):
    problem.terms[:] = [dataclasses.replace(t, huber=1e-3) for t in problem.terms]


def solver(problem):
    problem.solver = sim.SolverXPBD(problem.model, iterations=3)


def material(problem):
    path = sorted(set(problem.model.materials) - {r.path for p in problem.sought for r in p.bindings} - {"gravity"})[0]
    problem.model[path].assign(0.5 * problem.model[path].numpy())


def gravity(problem):
    problem.model.gravity.assign(0.5 * problem.model.gravity.numpy())


def sought_material(problem):
    """Elements of a sought material that no parameter reaches keep what they were given last."""
    for p in problem.sought:
        for r in p.bindings:
            problem.model[r.path].assign(7.0 * problem.model[r.path].numpy())


def data_exchanged(problem):
    (experiment,) = problem.experiments
    target = experiment.targets["corners"]
    experiment.targets["corners"] = Target(target.positions + 0.02, 2.0 * target.noise, target.start)


def data_in_place(problem):
    problem.experiments[0].targets["corners"].positions[...] += 0.02


def markers(problem):
    found = problem.markers["corners"]
    weights = None if found.weights is None else found.weights[::-1].copy()
    problem.markers["corners"] = dataclasses.replace(found, points=found.points[::-1].copy(), weights=weights)


CHANGES = [weights, huber, solver, material, gravity, sought_material, data_exchanged, data_in_place, markers]


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_a_change_is_seen_by_the_next_call(tmp_path, change):
    problem = sheet(tmp_path)
    x = problem.start + 0.3
    before = problem.value_and_grad(x)
    problem.describe(x)
    change(problem)
    wanted = fresh(tmp_path, change)
    found, other = problem.evaluate(x), wanted.evaluate(x)
    assert found.loss == other.loss and found.terms == other.terms
    np.testing.assert_array_equal(found.gradient, other.gradient)
    assert problem.value(x) == wanted.value(x) and problem.describe(x) == wanted.describe(x)
    if change is not sought_material:
        assert problem.value_and_grad(x)[0] != before[0]


def test_a_value_that_the_user_gives_a_material_stays(tmp_path):
    problem = sheet(tmp_path)
    path = problem.sought[0].bindings[0].path
    problem.value_and_grad(problem.start)
    problem.model[path].fill_(0.125)
    problem.value_and_grad(problem.start)
    problem.simulate()
    assert set(problem.model[path].numpy().tolist()) == {0.125}


def test_the_model_has_its_values_again_after_a_failure(tmp_path, monkeypatch):
    problem = sheet(tmp_path)
    path = problem.sought[0].bindings[0].path
    before = problem.model[path].numpy().copy()
    wanted = problem.value_and_grad(problem.start + 0.5)
    for name in ("measure", "rollout"):
        with monkeypatch.context() as patch:
            patch.setattr(Evaluator, name, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
            for call in (problem.value_and_grad, problem.value) if name == "measure" else (problem.simulate,):
                with pytest.raises(KeyboardInterrupt):
                    call(problem.start + 0.5)
                np.testing.assert_array_equal(problem.model[path].numpy(), before)
    found = problem.value_and_grad(problem.start + 0.5)
    assert found[0] == wanted[0] and np.array_equal(found[1], wanted[1])


def test_a_search_computes_nothing_twice_and_the_next_one_starts_anew(tmp_path, monkeypatch):
    problem = sheet(tmp_path)
    calls, original = [], problem._evaluate

    def counted(x, gradient):
        calls.append(x.tobytes())
        return original(x, gradient)

    monkeypatch.setattr(problem, "_evaluate", counted)
    first = problem.optimize(2)
    assert len(calls) == len(set(calls)) > 1
    weights(problem)
    second = problem.optimize(2)
    assert second.terms == pytest.approx({name: second.loss for name in first.terms})
    assert second.search.initial_loss == pytest.approx(3 * first.search.initial_loss)


def test_inside_of_remembering_things_are_done_once(tmp_path):
    problem = sheet(tmp_path)
    with problem.remembering():
        found = problem.evaluate(problem.start)
        assert problem.evaluate(problem.start) is found
        with problem.remembering():
            assert problem.evaluate(problem.start) is found
        assert problem.evaluate(problem.start) is found
    assert problem.evaluate(problem.start) is not found


def test_gradients_of_the_user_survive_an_evaluation(tmp_path):
    """What a tape of the user left in `.grad` of the materials is neither cleared nor added to."""
    problem = sheet(tmp_path)
    paths = [r.path for p in problem.sought for r in p.bindings]
    for k, path in enumerate(paths):
        problem.model[path].grad.fill_(2.0 + k)
    problem.value_and_grad(problem.start)
    problem.gauss_newton(problem.start)
    for k, path in enumerate(paths):
        assert (problem.model[path].grad.numpy() == 2.0 + k).all()


class Counting:
    """An onlooker that counts rollouts."""

    count = 0

    def wants(self):
        self.count += 1
        return False


def test_a_linearisation_begins_with_the_rollout_of_the_evaluation_before(tmp_path):
    problem = sheet(tmp_path)
    problem.onlooker = counting = Counting()
    x = problem.start + 0.1
    wanted = problem.gauss_newton(x)
    assert counting.count == 1 + 1 + x.size  # with the gradient, where it starts, and a step in every direction
    with problem.remembering():
        for end in (problem.start, x):
            problem.evaluate(end)
        counting.count = 0
        found = problem.gauss_newton(x)
        assert counting.count == x.size
        problem.gauss_newton(problem.start)
        assert counting.count == x.size + 1 + x.size  # that evaluation is known, its rollout was let go
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_loss_with_differences_is_that_with_the_exact_gradient(tmp_path):
    problem = sheet(tmp_path)
    x = problem.start + 0.3
    loss, gradient = problem.value_and_grad(x)
    about, by_differences = problem.approximate(x)
    assert about == loss
    assert np.allclose(by_differences, gradient, rtol=0.05, atol=0.02 * np.abs(gradient).max())
    with problem.remembering():
        again = problem.approximate(x)
        matrix, descent = problem.approximate_gauss_newton(x)
        assert again[0] == loss and np.array_equal(again[1], by_differences)
        assert np.array_equal(-2.0 * descent, by_differences)
        exact_matrix, exact_descent = problem.gauss_newton(x)
    assert np.array_equal(matrix, exact_matrix) and np.array_equal(-2.0 * exact_descent, gradient)
