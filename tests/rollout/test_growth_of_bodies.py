"""Ten seconds of a double pendulum: the gradient is that of the motion where it is calm; where it is chaotic, that is
told, with the rate at which neighbours part."""

import warnings

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import sim

G, INERTIA = 9.81, 0.01
NAMES = tuple(f"hinge{k}.start_{key}" for key in ("pos", "vel") for k in (1, 2))
CALM, WILD = np.array([0.5, 0.0, 0.0, 0.0]), np.array([2.5, 0.0, 0.0, 0.0])


def discs(start: np.ndarray) -> sim.Model:
    """Two discs of 1 kg on light links of 1 m.  start: angles of the hinges, the second seen from the first; rates."""
    builder, parent = sim.ModelBuilder(gravity=(0, -G, 0)), -1
    for k in (1, 2):
        child = builder.add_body((0, -k, 0), 1.0, INERTIA)
        builder.add_joint_revolute(parent, child, (0, 0, 0), (0, 1, 0), (0, 0, 1),
                                   start_pos=start[k - 1], start_vel=start[k + 1], label=f"hinge{k}")  # fmt: skip
        parent = child
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def swung(model: sim.Model, time: float, rate: int, every: int | None = None) -> sim.Trajectory:
    solver = sim.SolverXPBD(model, direct=["hinge1", "hinge2"])
    strategy = sim.Checkpointed(every=50)
    return sim.rollout(solver, model.state(), round(time * rate), 1 / rate, frame_every=every, strategy=strategy)


def end(start: np.ndarray, time: float, rate: int) -> float:
    """x of the lower disc."""
    return float(swung(discs(start), time, rate).final.body_q.numpy()[1, 0])


def back(start: np.ndarray, time: float, rate: int) -> tuple[sim.AdjointGrowth, np.ndarray]:
    """Its gradient by the start."""
    model = discs(start)
    with sim.Tape() as tape:
        made = swung(model, time, rate)
    seed = np.zeros((2, 7))
    seed[1, 0] = 1.0
    tape.backward(grads={made.final.body_q: sim.array(seed, dtype=made.final.body_q.dtype)})
    return made.adjoint_growth, np.array([model[name].grad.numpy()[0] for name in NAMES])


def exact_end(start: np.ndarray, time: float) -> float:
    """The same by Lagrange's equations of the angles from the vertical, and DOP853."""

    def rates(_: float, y: np.ndarray) -> np.ndarray:
        c, s = np.cos(y[0] - y[1]), np.sin(y[0] - y[1])
        torque = [-2 * G * np.sin(y[0]) - s * y[3] ** 2, -G * np.sin(y[1]) + s * y[2] ** 2]
        return np.append(y[2:], np.linalg.solve([[2 + INERTIA, c], [c, 1 + INERTIA]], torque))

    y = [start[0], start[0] + start[1], start[2], start[2] + start[3]]
    y = solve_ivp(rates, (0, time), y, "DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    return float(np.sin(y[0]) + np.sin(y[1]))


@pytest.mark.slow
def test_gradient_of_ten_calm_seconds():
    """That of the program to 1e-8 of it; that of the motion in first order of the step, and to 2e-5 extrapolated."""
    steps = 1e-5 * np.eye(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found, coarse), (_, fine) = (back(CALM, 10.0, rate) for rate in (500, 1000))
    program = np.array([end(CALM + d, 10.0, 500) - end(CALM - d, 10.0, 500) for d in steps]) / 2e-5
    np.testing.assert_allclose(coarse, program, rtol=1e-8)
    motion = np.array([exact_end(CALM + 10 * d, 10.0) - exact_end(CALM - 10 * d, 10.0) for d in steps]) / 2e-4
    off = [np.abs(g - motion).max() / np.abs(motion).max() for g in (coarse, fine, 2 * fine - coarse)]
    print("off by", off, found)
    assert off[0] < 5e-3 and off[0] / off[1] == pytest.approx(2.0, abs=0.05) and off[2] < 4e-5
    assert found.useful and found.span == pytest.approx(10.0) and found.growth < 10.0


def test_chaos_is_told_with_its_rate():
    """ln(growth) / time, within a tenth of that by which two neighbours part in the same time."""
    with pytest.warns(sim.ChaoticGradientWarning, match=r"rate 1\.\d+/s.*up to .* s it is of use") as heard:
        found, gradient = back(WILD, 8.0, 250)
    assert len(heard) == 1 and heard[0].filename == __file__
    paths = [swung(discs(q), 8.0, 250, every=10).body_q.numpy()[..., :3] for q in (WILD, WILD + [1e-9, 0, 0, 0])]
    apart = np.linalg.norm((paths[1] - paths[0]).reshape(len(paths[0]), -1), axis=1).max() / 1e-9
    print("rate", found.rate, "of differences", np.log(apart) / 8.0, "horizon", found.horizon)
    assert not found.useful and found.rate == pytest.approx(np.log(apart) / 8.0, rel=0.1)
    assert 4.0 < found.horizon < 7.5
    # right to the last digits that differences have
    step = np.array([1e-9, 0, 0, 0])
    assert gradient[0] == pytest.approx((end(WILD + step, 8.0, 250) - end(WILD - step, 8.0, 250)) / 2e-9, rel=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert back(WILD, 0.8 * found.horizon, 250)[0].useful
