"""Gradients that several parts of a program have: threads, and a problem beside its user's own tapes."""

import threading

import numpy as np
from tools.scenes.problems import sheet

import sim

THREADS = 4


@sim.kernel
def cube(x: sim.array[sim.float64], y: sim.array[sim.float64]):
    i = sim.tid()
    y[i] = x[i] * x[i] * x[i]


def at_once(*tasks):
    """Run tasks in threads of their own; raises what one of them raised."""
    problems = []

    def run(task):
        try:
            task()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if problems:
        raise problems[0]


def test_threads_add_to_one_gradient():
    x = sim.array(np.linspace(1.0, 2.0, 100_000), dtype=sim.float64, requires_grad=True)

    def backward():
        y = sim.zeros_like(x, requires_grad=True)
        with sim.Tape() as tape:
            sim.launch(cube, x.size, [x], [y])
        tape.backward(grads={y: sim.ones_like(y)})

    for _ in range(10):
        x.grad.zero_()
        at_once(*[backward] * THREADS)
        np.testing.assert_allclose(x.grad.numpy(), THREADS * 3.0 * x.numpy() ** 2, rtol=1e-12)


def test_a_problem_leaves_gradients_and_values_as_they_are(tmp_path):
    p = sheet(tmp_path)
    expected = p.value_and_grad(p.start)
    before = {}
    for k, (path, a) in enumerate(p.model.materials.items()):
        a.grad.fill_(1.0 + k) if path != "gravity" else a.grad.fill_((1.0, 2.0, 3.0))
        before[path] = a.grad.numpy().copy()
    masses = p.model.particle_q.grad.numpy().copy()
    again = p.value_and_grad(p.start)
    p.gauss_newton(p.start)
    assert again[0] == expected[0]
    np.testing.assert_array_equal(again[1], expected[1])
    for path, a in p.model.materials.items():
        np.testing.assert_array_equal(a.grad.numpy(), before[path], err_msg=path)
    np.testing.assert_array_equal(p.model.particle_q.grad.numpy(), masses)


def test_a_gradient_beside_a_problem_is_that_of_its_own_tape(tmp_path):
    p = sheet(tmp_path)
    path = next(path for path in p.model.materials if path.endswith("distance.compliance"))

    def own():
        with sim.Tape() as tape:
            end = sim.rollout(p.solver, p.model.state(), 3, 0.005).final
        tape.backward(grads={end.particle_q: sim.ones_like(end.particle_q)})
        found = p.model[path].grad.numpy().copy()
        tape.zero()
        return found

    alone = own()
    p.value_and_grad(p.start + 0.3)
    np.testing.assert_array_equal(own(), alone)
    assert alone.any()


def test_threads_ask_one_problem(tmp_path):
    p = sheet(tmp_path)
    points = [p.start + 0.1 * k for k in range(THREADS)]
    expected, found = [p.value_and_grad(x) for x in points], {}

    def ask(k):
        found[k] = p.value_and_grad(points[k])

    for _ in range(3):
        at_once(*(lambda k=k: ask(k) for k in range(THREADS)))
        for k, (value, gradient) in enumerate(expected):
            assert found[k][0] == value
            np.testing.assert_array_equal(found[k][1], gradient)
