"""Threads of the user that trace, transform and compile at the same time: the same results as one after another."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import sim
from sim.constraints.projection import parameter_struct
from sim.core.lang.ir.printer import to_text
from sim.core.lang.types import matrix, vector

THREADS = 8


@pytest.fixture(autouse=True)
def _quick_turns(tmp_path, monkeypatch) -> Iterator[None]:
    """Threads take turns often, and nothing is in the cache of compiled kernels."""
    monkeypatch.setenv("SIM_CACHE_DIR", str(tmp_path))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """work(k) in as many threads, which begin together."""
    begin, results = threading.Barrier(THREADS), [None] * THREADS

    def run(k: int) -> None:
        begin.wait()
        try:
            results[k] = work(k)
        except BaseException as problem:  # noqa: BLE001 shown below
            results[k] = problem

    threads = [threading.Thread(target=run, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for problem in results:
        if isinstance(problem, BaseException):
            raise problem
    return results


@sim.func
def cubed(x: float):
    return x * x * x


@cubed.vjp
def _cubed_vjp(x, result, ct):
    return 3.0 * x * x * ct


def made(factor: float) -> sim.Kernel:
    """A kernel with a loop, a branch, a function of the library and one with a derivative in closed form."""

    @sim.func
    def bent(v: sim.vec3):
        if sim.length(v) > 1.0:
            return sim.normalize(v) * factor
        return v

    @sim.kernel(name=f"made_{factor}".replace(".", "_"))
    def kernel(x: sim.array[sim.vec3], y: sim.array[float]):
        i = sim.tid()
        total = 0.0
        for k in range(i + 2):
            w = bent(x[i] * float(k))
            total = total + cubed(w[0]) + sim.sin(w[1]) * factor
        y[i] = total

    return kernel


def gradient(kernel: sim.Kernel) -> tuple[np.ndarray, np.ndarray]:
    x = sim.array(np.linspace(0.1, 1.2, 12).reshape(4, 3), dtype=sim.vec3, requires_grad=True)
    y = sim.zeros(4, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(kernel, dim=4, inputs=[x], outputs=[y])
    tape.backward(grads={y: sim.ones(4)})
    assert x.grad is not None
    return y.numpy().copy(), x.grad.numpy().copy()


def test_different_kernels():
    factors = [1.0 + 0.25 * k for k in range(THREADS)]
    results = at_once(lambda k: gradient(made(factors[k])))
    for factor, found in zip(factors, results, strict=True):
        for a, b in zip(found, gradient(made(factor)), strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_same_kernel():
    kernel = made(2.5)
    results = at_once(lambda k: gradient(kernel))
    assert len(kernel.specialisations) == 1
    for found in results[1:]:
        for a, b in zip(found, results[0], strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_same_text_of_several_kernels():
    results = at_once(lambda k: to_text(next(iter(traced(made(3.0)).specialisations.values())).func))
    assert len(set(results)) == 1


def traced(kernel: sim.Kernel) -> sim.Kernel:
    kernel.specialise(tuple(p.type for p in kernel.parameters))  # type: ignore[misc]
    return kernel


def test_functions_called_on_the_host():
    results = at_once(lambda k: sim.quat_from_axis_angle(sim.vec3(0.0, 0.0, 1.0), 0.1 * k))
    for k, found in enumerate(results):
        np.testing.assert_array_equal(
            np.asarray(found), np.asarray(sim.quat_from_axis_angle(sim.vec3(0.0, 0.0, 1.0), 0.1 * k))
        )


def test_types_and_what_is_made_of_them_are_one_object():
    for n in range(40, 60):
        assert len({id(t) for t in at_once(lambda k, n=n: vector(n, float))}) == 1
        assert len({id(t) for t in at_once(lambda k, n=n: matrix((n, 2), float))}) == 1
        assert len({id(t) for t in at_once(lambda k, n=n: sim.array(dtype=vector(n, sim.float64)))}) == 1

    @sim.constraint(points=2, name="of_threads")
    def of_threads(x, rest: float):
        return sim.length(x[0] - x[1]) - rest

    sim.constraints.base.REGISTRY.pop("of_threads")
    assert len({id(s) for s in at_once(lambda k: parameter_struct(of_threads, sim.float32))}) == 1


def test_rollouts_with_gradients():
    def slope(k: int) -> float:
        builder = sim.ModelBuilder()
        builder.add_cloth_grid(
            pos=(0, 0, 0),
            dim_x=3,
            dim_y=3,
            cell_x=0.1,
            cell_y=0.1,
            density=0.2,
            fix_top=True,
            label="sheet",
            material={"distance": {"compliance": 1e-3}},
        )
        model = builder.finalize(requires_grad=True)
        with sim.Tape() as tape:
            end = sim.rollout(sim.SolverXPBD(model), model.state(), steps=3, dt=1 / 120)
        tape.backward(grads={end.particle_q: sim.ones_like(end.particle_q)})
        return float(model["sheet.distance.compliance"].grad.numpy()[0])

    found = at_once(slope)
    assert set(found) == {slope(0)} != {0.0}
