"""How the gradient of a rollout grows on its way back: chaos is told, with the horizon, and nothing else is."""

import warnings

import numpy as np
import pytest

import sim
from sim.rollout.growth import FEW, GrowthMeter, magnitude, squares

G, H = 9.81, 1 / 500


def pendulum(links: int, angle: float, real=sim.float64) -> sim.Model:
    direction = np.array([np.sin(angle), -np.cos(angle), 0.0])
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    for k in range(links + 1):
        builder.add_particle(direction * k / links, mass=1.0 if k else 0.0)
    for k in range(links):
        builder.add_spring(k, k + 1, compliance=0.0)
    return builder.finalize(dtype=real, requires_grad=True)


def back(model: sim.Model, time: float, dt: float = H, of: str = "final", every: int | None = None, **more):
    """The trajectory, and the gradient of the last point's x (mean over the frames) by the start."""
    state = model.state()
    with sim.Tape() as tape:
        made = sim.rollout(
            sim.SolverXPBD(model, **more), state, round(time / dt), dt, frame_every=every,
            strategy=sim.Checkpointed(every=50),
        )  # fmt: skip
    a = {"final": made.final.particle_q, "velocity": made.final.particle_qd, "frames": made.particle_q}[of]
    seed = np.zeros((*a.shape, 3))
    seed[..., -1, 0] = 1.0 / (len(seed) if of == "frames" else 1.0)
    tape.backward(grads={a: sim.array(seed, dtype=a.dtype)})
    return made, state.particle_q.grad.numpy()


@pytest.mark.parametrize("of, every", [("final", None), ("frames", 10), ("velocity", None)])
@pytest.mark.parametrize("real", [sim.float64, sim.float32])
def test_triple_pendulum(of, every, real):
    """A triple pendulum that falls from above is chaotic: told once, on the user's line, with a horizon."""
    with pytest.warns(sim.ChaoticGradientWarning, match="up to .* s it is of use") as heard:
        made, gradient = back(pendulum(3, 2.5, real), 6.0, of=of, every=every)
    assert len(heard) == 1 and heard[0].filename == __file__
    found = made.adjoint_growth
    assert not found.useful and 1.5 < found.horizon < 5.7 and found.rate > 1.0
    assert found.times[0] == 0.0 and found.span == pytest.approx(6.0)
    np.testing.assert_allclose(found.norms[0], np.linalg.norm(gradient), rtol=1e-6)


@pytest.mark.parametrize("size", [1.0, 1e-30, 1e25, 0.0])
@pytest.mark.parametrize("count", [5, FEW])
def test_squares_of_single_precision_have_room(count, size):
    rows = (np.random.default_rng(4).normal(size=(2, count)) * size).astype(np.float32)
    np.testing.assert_allclose(squares(rows), np.square(rows.astype(np.float64)).sum(axis=1), rtol=1e-6)
    rows[1, 3] = np.nan
    assert np.isnan(magnitude([rows])) and not np.isnan(squares(rows)[0])


def test_horizon_is_that_of_a_shorter_rollout():
    """Whatever the length beyond it; a rollout that ends there is of use, and says nothing."""
    model, horizons = pendulum(3, 2.5), []
    for time in (4.0, 6.0):
        with pytest.warns(sim.ChaoticGradientWarning):
            horizons.append(back(model, time)[0].adjoint_growth.horizon)
    assert horizons[0] == pytest.approx(horizons[1], rel=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert back(model, 0.8 * min(horizons))[0].adjoint_growth.useful


def test_gradient_foretells_up_to_the_horizon_alone():
    """A change of the start by 1e-4 of the length: foretold within 10 % at the horizon, not at twice of it."""
    model = pendulum(3, 2.5)
    with pytest.warns(sim.ChaoticGradientWarning):
        horizon = back(model, 6.0)[0].adjoint_growth.horizon

    def off(time: float) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made, gradient = back(model, time)
        step = np.zeros_like(gradient)
        step[1:, :2] = gradient[1:, :2] * 1e-4 / np.linalg.norm(gradient)
        state = model.state()
        state.particle_q.assign(state.particle_q.numpy() + step)
        moved = sim.rollout(sim.SolverXPBD(model), state, round(time / H), H).final.particle_q.numpy()[-1, 0]
        foretold = float((gradient * step).sum())
        return abs(moved - made.final.particle_q.numpy()[-1, 0] - foretold) / foretold

    found = off(0.5 * horizon), off(2.0 * horizon)
    print("horizon", horizon, "off by", found)
    assert found[0] < 0.1 and found[1] > 0.9


def fall() -> sim.Model:
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    builder.add_particle((0, 1, 0), (1, 0, 0))
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def bounce() -> sim.Model:
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    builder.add_particle((0, 0.3, 0), (1, 0, 0))
    builder.add_ground_plane(0.0, compliance=1e-5)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def spring() -> sim.Model:
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_particle((0, 0, 0), mass=0.0)
    builder.add_particle((1.5, 0, 0))
    builder.add_spring(0, 1, rest_length=1.0, compliance=1e-6)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def block() -> sim.Model:
    builder = sim.ModelBuilder(gravity=(-G, 0, 0))
    material = {"stvk": {"young": 1e5, "poisson": 0.4}}
    group = builder.add_soft_grid(
        dim_x=1, dim_y=1, dim_z=3, cell_x=0.03, cell_y=0.03, cell_z=0.03, density=1000.0, material=material, label="b"
    )
    builder.add_attachment(group.choose({"z": [None, 1e-9]}))
    return builder.finalize(dtype=sim.float64, requires_grad=True)


REGULAR = {
    "free fall": (fall, 2.0, {}),
    "bounce": (bounce, 2.0, {}),
    "stiff spring": (spring, 4.0, {}),
    "solid": (block, 0.5, {"start": "elastic"}),
    "pendulum": (lambda: pendulum(1, 1.0), 20.0, {}),
    "pendulum, nearly upright": (lambda: pendulum(1, 3.1), 20.0, {}),
    "triple pendulum, small": (lambda: pendulum(3, 0.05), 20.0, {}),
    "triple pendulum, briefly": (lambda: pendulum(3, 2.5), 1.0, {}),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("of, every", [("final", None), ("frames", 5), ("velocity", None)])
@pytest.mark.parametrize("case", REGULAR)
def test_regular_motion_is_not_chaotic(case, of, every):
    make, time, more = REGULAR[case]
    found = back(make(), time, of=of, every=every, **more)[0].adjoint_growth
    print(case, of, f"growth {found.growth:.3g} in {found.span:.3g} s")
    assert found.useful and found.horizon == found.span and not found.message
    assert found.growth < (20.0 if of == "frames" else 1.0) * 300


def test_growth_of_free_fall_is_one():
    """dx(T)/dx(t) = 1 at all times."""
    found = back(fall(), 1.0)[0].adjoint_growth
    np.testing.assert_allclose(found.gains, 1.0, rtol=1e-12)
    assert found.rate == 0.0 and "of use" in repr(found)


def test_without_a_way_back():
    model = fall()
    found = sim.rollout(sim.SolverXPBD(model), model.state(), 3, H).adjoint_growth
    assert found.useful and found.span == 0.0 and "no way back" in repr(found)


def test_overflow_is_of_no_use():
    found = sim.AdjointGrowth(
        1e-16, np.array([0.0, 1.0, 2.0]), np.array([np.nan, 1e5, 1.0]), np.array([np.nan, 1e5, 1.0])
    )
    assert not found.useful and found.horizon < 1.0 and found.message


@pytest.mark.filterwarnings("error")
def test_what_slides_is_not_chaotic():
    """Its speed is the same wherever it is: next to nothing of that gradient shows in the positions, until it begins to
    touch, and then the gradient grew by 1e5."""
    builder = sim.ModelBuilder(gravity=(4.7, -8.6, 0))
    surface = sim.ModelBuilder.ShapeConfig(mu=0.09)
    builder.add_shape_capsule(builder.add_body((0, 0.1, 0)), None, 0.1, 0.15, cfg=surface)
    builder.add_ground_plane(cfg=surface)
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    with sim.Tape() as tape:
        trajectory = sim.rollout(sim.SolverXPBD(model), model.state(), 240, 1 / 480)
    rates = trajectory.final.body_qd
    tape.backward(grads={rates: sim.array(np.eye(1, 6), dtype=rates.dtype)})
    assert trajectory.adjoint_growth.growth < 10


@pytest.mark.parametrize("others, told", [(0.0, True), (1.0, False)])
def test_growth_from_one_look_to_the_next_is_told(others, told):
    """The gradient of a loss of velocities is 0 by positions as it begins: few looks took the largest of them for what
    was put in, though it grew by 1e8 from one to the next.  What multipliers put in has no such bound."""
    meter = GrowthMeter(1e-3, [200], np.zeros(1), (0.0, 1.0, others))
    meter.looks = [(200, 0.0), (150, 1e8), (100, 1e16), (50, 1e22), (0, 1e22)]
    found = sim.AdjointGrowth(1e-16)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        meter.tell(found)
    assert [w.category for w in heard] == [sim.ChaoticGradientWarning] * told and found.useful is not told
    assert found.horizon < 0.16 if told else found.growth == 1.0


def billiard() -> sim.Model:
    """A point between four balls, which reflect it: two ways part by some 1.6 from each to the next, eight steps away
    (Y. G. Sinai, 1970)."""
    builder, mirror = sim.ModelBuilder(gravity=(0, 0, 0)), sim.ModelBuilder.ShapeConfig(restitution=1.0, mu=0.0)
    builder.add_particle((0.01, 0.02, 0), (6.1, 5.2, 0))
    for middle in ((1.2, 0, 0), (-1.2, 0, 0), (0, 1.2, 0), (0, -1.2, 0)):
        builder.add_shape_sphere(-1, middle, 1.0, cfg=mirror)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


@pytest.mark.parametrize("strategy", [None, sim.Checkpointed(every=50)])
def test_fast_chaos_of_a_velocity_is_told(strategy):
    """Also where looks are few: the largest of the last four, which may be all, was taken for what was put in."""
    for steps, told in ((40, False), (200, True)):
        model = billiard()
        with sim.Tape() as tape:
            made = sim.rollout(sim.SolverXPBD(model), model.state(), steps, 1 / 200, strategy=strategy)
        rates = made.final.particle_qd
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            tape.backward(grads={rates: sim.array(np.eye(1, 3), dtype=rates.dtype)})
        print(made.adjoint_growth, made.adjoint_growth.norms)
        assert [w.category for w in heard] == [sim.ChaoticGradientWarning] * told
