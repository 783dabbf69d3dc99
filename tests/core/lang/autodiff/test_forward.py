"""Forward mode on the IR and of kernels: against reverse mode, differences, and the tapes' own random programs."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest
from tools.fuzz import tapes as fuzz_tapes
from tools.fuzz.adjoints import Run, smooth_slope
from tools.fuzz.programs import RandomFunction, load_kernels
from tools.fuzz.tapes import TapeProgram
from tools.tapes.gradients import BACKENDS, backend

import sim
from sim.constraints import REGISTRY
from sim.constraints.projection import make_projection, parameter_struct
from sim.core.backends.interp import evaluate
from sim.core.lang.autodiff import checkpoints
from sim.core.lang.autodiff.forward import jvp, kernel_tangent, vjp_rule
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.types import float64, vector
from sim.core.runtime.derivatives.forward import Forward

TIMES = int(os.environ.get("SIM_FUZZ", "1"))
vec3d = vector(3, float64)


# ------------------------------------------------------------------------------------------ pure functions
@pytest.mark.parametrize("slots", [2, 4, 256])
def test_random_functions_forward_reverse_and_both(slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """J v of the tangent is <J^T, v> of the adjoint to rounding; H v, twice over, is the difference of gradients."""
    monkeypatch.setattr(checkpoints, "SLOTS", slots)
    compared = 0
    for seed in range(500 * slots, 500 * slots + 12 * TIMES):
        f, rng = RandomFunction(seed).build(), random.Random(seed)
        both = vjp_rule(f)
        gradient = both.func
        forward, second, reverse_twice = jvp(f), jvp(gradient), both.rule()
        x, v, n = (
            [rng.uniform(-1.0, 1.0) for _ in range(3)],
            [rng.uniform(-1.0, 1.0) for _ in range(3)],
            rng.randint(0, 9),
        )
        value, slope = evaluate(forward, *x, n, *v)
        found = evaluate(gradient, *x, n, 1.0)
        assert value == evaluate(f, *x, n)[0]
        assert slope == pytest.approx(sum(a * b for a, b in zip(found, v, strict=True)), rel=1e-9, abs=1e-9), (
            f"seed {seed}"
        )
        hessian = evaluate(second, *x, n, 1.0, *v, 0.0)[3:]
        again = evaluate(reverse_twice, *x, n, 1.0, *found, *v)
        np.testing.assert_allclose(again, [*hessian, slope], rtol=1e-8, atol=1e-9, err_msg=f"seed {seed}")
        for k in range(3):
            wanted = smooth_slope(
                lambda h, k=k, x=x, v=v, n=n, g=gradient: evaluate(
                    g, *[a + h * b for a, b in zip(x, v, strict=True)], n, 1.0
                )[k]
            )
            if wanted is not None:
                assert hessian[k] == pytest.approx(wanted, rel=1e-4, abs=1e-4), f"seed {seed}"
                compared += 1
    assert compared > 20 * TIMES


def test_of_some_parameters_only():
    @sim.func
    def f(a: float, b: float, n: int):
        return a * b + float(n), b * b

    func = trace_function(f, [float64, float64, sim.int32], float64)
    assert evaluate(jvp(func, [1]), 3.0, 5.0, 2, 10.0) == (17.0, 25.0, 30.0, 100.0)
    assert evaluate(jvp(func), 3.0, 5.0, 2, 1.0, 10.0) == (17.0, 25.0, 35.0, 100.0)


def test_calls_with_a_closed_form_stay_right_at_special_points():
    """The tangent of length and normalise at zero is zero, as their gradient is; elsewhere it is the derivative."""

    @sim.func
    def f(v, u):
        return sim.length(v) + sim.dot(sim.normalize(v), u)

    func = trace_function(f, [vec3d, vec3d], float64)
    zero, u, move = [0.0] * 3, [1.0, 2.0, 3.0], [0.3, 0.2, 0.1]
    assert evaluate(jvp(func), *zero, *u, *move, *zero) == (0.0, 0.0)
    at = [0.4, -0.3, 1.2]
    _, slope = evaluate(jvp(func), *at, *u, *move, *move)
    wanted = smooth_slope(lambda h: evaluate(func, *[a + h * m for a, m in zip([*at, *u], move * 2, strict=True)])[0])
    assert slope == pytest.approx(wanted, rel=1e-8)


def test_untaken_branches_do_not_poison():
    """A tangent that is infinite where it is not chosen stays out of the result."""

    @sim.func
    def f(x: float):
        return sim.where(x > 0.0, sim.sqrt(x), x * 2.0)

    func = trace_function(f, [float64], float64)
    assert evaluate(jvp(func), 0.0, 1.0) == (0.0, 2.0)
    assert evaluate(jvp(func), -1.0, 1.0) == (-2.0, 2.0)


def test_decompositions_with_repeated_values():
    """The closed form of svd3 holds at repeated values: the rotation U V^T of the unit matrix moves by the skew
    part."""

    @sim.func
    def rotation(a):
        u, _, v = sim.svd3(a)
        return u * sim.transpose(v)

    func = trace_function(rotation, [sim.mat33d], float64)
    move = np.random.default_rng(0).normal(size=(3, 3))
    out = evaluate(jvp(func), *np.eye(3).ravel(), *move.ravel())
    np.testing.assert_allclose(np.reshape(out[9:], (3, 3)), (move - move.T) / 2, atol=1e-9)


# ------------------------------------------------------------------------------------------ reverse mode, twice
@sim.constraint(points=2)
def newton_distance(x, rest: float):
    """The distance of two points, by Newton's iteration until it converges: a loop whose trip count nobody knows."""
    d = x[1] - x[0]
    square = sim.dot(d, d)
    size = 1.0 + square
    while sim.abs(size * size - square) > 1e-13 * square:
        size = 0.5 * (size + square / size)
    return size - rest


REGISTRY.pop("newton_distance")  # the project's own tests go through all that are registered


@pytest.mark.parametrize("name", BACKENDS)
def test_the_adjoint_of_a_projection_whose_constraint_has_an_open_loop(name: str) -> None:
    """The projection contains the gradient of C, so its adjoint has the Hessian of C: as of a C without the loop."""
    rng = np.random.default_rng(4)
    points, x, weights = np.array([[0, 1], [2, 3]]), rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    found = []
    with backend(name):
        for c in (newton_distance, REGISTRY["distance"]):
            data = parameter_struct(c, float64)()
            q, before, target = (sim.array(x, dtype=vec3d, requires_grad=True) for _ in range(3))
            rest, alpha = (sim.array(v, dtype=float64, requires_grad=True) for v in ([0.3, 0.8], [0.1, 0.2]))
            w = sim.array([[1.0, 0.5], [2.0, 1.0]], dtype=sim.types.vector(2, float64), requires_grad=True)
            data.rest, unused, multiplier = (
                rest,
                sim.zeros(1, dtype=float64),
                sim.zeros(2, dtype=float64, requires_grad=True),
            )
            kernel, share = make_projection(c, float64, True, False, True), sim.ones(4, dtype=float64)
            with sim.Tape() as tape:
                sim.launch(
                    kernel,
                    2,
                    [0, sim.array(points, dtype=sim.int32), data, alpha, unused, w, share, before, 0.1, q],
                    [target, multiplier],
                )
            tape.backward(grads={target: sim.array(weights, dtype=vec3d)})
            found.append([a.grad.numpy().copy() for a in (q, w, rest, alpha)])
    for mine, exact in zip(*found, strict=True):
        assert np.abs(exact).max() > 0
        np.testing.assert_allclose(mine, exact, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------------------------ kernels
def test_random_kernels_agree_with_the_adjoint(tmp_path: Path) -> None:
    """Loops with writes, early returns, undo logs: <J^T w, v> = <w, J v>; and H v by tangents of the adjoint."""
    seeds = range(40 * TIMES)
    module, checked, second = load_kernels(seeds, tmp_path), 0, 0
    for seed in seeds:
        run = Run(getattr(module, f"k{seed}"), seed)
        if run.shared:
            continue
        rng = np.random.default_rng(seed)
        moves = [rng.normal(size=s.shape) for s in run.start]
        arrays = run.arrays()
        with Forward(dict(zip(arrays, moves, strict=True))) as forward:
            ends = run.launch(arrays)
            slope = sum(float((w * forward.tangent(a).numpy()).sum()) for w, a in zip(run.weights, arrays, strict=True))
        for end, want in zip(ends, run.launch(run.arrays()), strict=True):
            np.testing.assert_array_equal(end, want)
        try:
            _, gradient = run.gradient(run.everything)
        except sim.GradientError:
            wanted = smooth_slope(lambda h, run=run, moves=moves: run.value(moves, h, run.everything))
            assert wanted is None or slope == pytest.approx(wanted, rel=1e-4, abs=1e-4)
            continue
        wanted = sum(float((g * m).sum()) for g, m in zip(gradient, moves, strict=True))
        assert slope == pytest.approx(wanted, rel=1e-8, abs=1e-8), f"seed {seed}"
        checked += 1
        arrays = run.arrays(needed=run.everything)
        with Forward(dict(zip(arrays, moves, strict=True))) as forward:
            with sim.Tape() as tape:
                run.launch(arrays)
            tape.backward(grads={a: sim.array(w, dtype=a.dtype) for a, w in zip(arrays, run.weights, strict=True)})
            product = sum(
                float((forward.tangent(a.grad).numpy() * m).sum()) for a, m in zip(arrays, moves, strict=True)
            )

        def along(h: float, run: Run = run, moves: list[np.ndarray] = moves) -> float:
            moved = Run(run.kernel, 0)
            moved.__dict__.update(run.__dict__, start=[s + h * m for s, m in zip(run.start, moves, strict=True)])
            return sum(float((g * m).sum()) for g, m in zip(moved.gradient(run.everything)[1], moves, strict=True))

        if seed % 3 == 1:
            wanted = smooth_slope(along, 1e-4)
            if wanted is not None:
                assert product == pytest.approx(wanted, rel=1e-3, abs=1e-3), f"seed {seed}"
                second += 1
    assert checked > 15 * TIMES and second > 3 * TIMES


@pytest.mark.parametrize("name", BACKENDS)
def test_random_tape_programs(name: str) -> None:
    """Views, copies, fills, host writes, in-place launches: forward mode alone and over the sweep of the tape."""
    with backend(name, fuzz_tapes):
        compared = 0
        for seed in range(40 * TIMES):
            program = TapeProgram(seed)
            rng = np.random.default_rng(seed)
            moves = [rng.normal(size=s.shape) for s in program.start]

            def gradient(
                h: float, program: TapeProgram = program, moves: list[np.ndarray] = moves
            ) -> tuple[Forward, sim.Tape, list[sim.array]]:
                arrays, k = program.arrays([True] * program.count)
                for a, m in zip(arrays, moves, strict=True):
                    a.assign(a.numpy() + h * m)
                with Forward(dict(zip(arrays, moves, strict=True))) as forward:
                    with sim.Tape() as tape:
                        program.run(arrays, k)
                    values = [forward.tangent(a).numpy().copy() for a in arrays]
                    if tape.records:
                        tape.backward(
                            grads={
                                a: sim.array(w, dtype=sim.float64) for a, w in zip(arrays, program.weights, strict=True)
                            }
                        )
                slope = sum(float((w * t).sum()) for w, t in zip(program.weights, values, strict=True))
                firsts = sum(float((a.grad.numpy() * m).sum()) for a, m in zip(arrays, moves, strict=True))
                seconds = sum(
                    float((forward.tangent(a.grad).numpy() * m).sum()) for a, m in zip(arrays, moves, strict=True)
                )
                return bool(tape.records), slope, firsts, seconds

            recorded, slope, first, second = gradient(0.0)
            if not recorded:
                continue
            assert slope == pytest.approx(first, rel=1e-9, abs=1e-9), f"seed {seed}"
            wanted = smooth_slope(lambda h, gradient=gradient: gradient(h)[2], 1e-4)
            if wanted is not None:
                assert second == pytest.approx(wanted, rel=1e-4, abs=1e-4), f"seed {seed}"
                compared += 1
        assert compared > 25 * TIMES


@sim.kernel
def extremes(
    x: sim.array(dtype=float64),
    low: sim.array(dtype=float64),
    high: sim.array(dtype=float64),
    last: sim.array(dtype=float64),
):
    i = sim.tid()
    sim.atomic_min(low, 0, x[i] * x[i])
    sim.atomic_max(high, 0, x[i] * 3.0)
    before = sim.atomic_exch(last, 0, x[i])
    x[i] = before + sim.atomic_add(last, 1, x[i])


def test_atomics():
    """The tangent of a minimum is that of its winner; the old values that atomics return carry tangents."""
    host = np.array([0.7, -0.2, 1.5, -1.1])
    move = np.array([1.0, 10.0, 100.0, 1000.0])
    arrays = [sim.array(v, dtype=float64) for v in (host, [9.0], [-9.0], [4.0, 5.0])]
    with Forward({arrays[0]: move, arrays[3]: [7.0, 8.0]}) as forward:
        sim.launch(extremes, 4, arrays)
    np.testing.assert_allclose(forward.tangent(arrays[1]).numpy(), [2 * -0.2 * 10.0])
    np.testing.assert_allclose(forward.tangent(arrays[2]).numpy(), [300.0])
    np.testing.assert_allclose(forward.tangent(arrays[3]).numpy(), [1000.0, 8.0 + 1111.0])
    before, sums = np.array([7.0, 1.0, 10.0, 100.0]), np.array([8.0, 9.0, 19.0, 119.0])
    np.testing.assert_allclose(forward.tangent(arrays[0]).numpy(), before + sums)


@sim.kernel
def through_scratch(x: sim.array(dtype=float64), scratch: sim.array(dtype=float64), y: sim.array(dtype=float64)):
    i = sim.tid()
    scratch[i] = x[i] * x[i]
    y[i] = sim.sin(scratch[i]) + scratch[i]


def test_tangents_reach_arrays_that_nobody_named():
    """`scratch` gets a tangent of its own because it is written from x, also within one launch."""
    spec = through_scratch.specialise((sim.array(dtype=float64),) * 3)
    assert kernel_tangent(spec.source, {0}).active == (0, 1, 2)
    assert kernel_tangent(spec.source, {2}).active == (2,)
    x = sim.array([0.5, 0.8], dtype=float64)
    scratch, y = sim.zeros(2, dtype=float64), sim.zeros(2, dtype=float64)
    with Forward({x: [1.0, 2.0]}) as forward:
        sim.launch(through_scratch, 2, [x], [scratch, y])
    wanted = (np.cos(x.numpy() ** 2) + 1) * 2 * x.numpy() * [1.0, 2.0]
    np.testing.assert_allclose(forward.tangent(y).numpy(), wanted)
    with Forward({y: [3.0, 3.0]}) as forward:
        sim.launch(through_scratch, 2, [x], [scratch, y])
    np.testing.assert_array_equal(forward.tangent(y).numpy(), 0.0)
