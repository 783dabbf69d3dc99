"""What is rubbed where it is hit off its centre, and what is hit at several places: exact at any phase of the step."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import G, coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
MASS, HALF, RATE = 1.3, (0.15, 0.1, 0.2), 480


def rod(at: dict[str, float], height: float) -> sim.Model:
    """A rod of 1 m whose lower end is so high falls on a plane, leaning."""
    made = sim.ModelBuilder(gravity=(0, 0, 0))
    lean, half = 0.5, np.array([np.sin(0.5), np.cos(0.5), 0.0]) / 2
    pose = sim.transformd((half[0], height + half[1], 0), (0, 0, -np.sin(lean / 2), np.cos(lean / 2)))
    body = made.add_body(
        pose, mass=MASS, inertia=(MASS / 12, 1e-3, MASS / 12), velocity=(at["v"], at["fall"], 0), label="b"
    )
    made.add_constraints(
        "contact_plane", [[made.point_of(body, (0, -0.5, 0))]], 0.0, label="f", point=[0, 0, 0], normal=[0, 1, 0],
        thickness=0.0, friction=at["mu"], restitution=at["e"],
    )  # fmt: skip
    return made.finalize(dtype=sim.float64, requires_grad=True)


def rebounded(v: float, fall: float, mu: float, e: float) -> float:
    """Its velocity upward: K P = the changes of the end's velocity, along and across the plane."""
    arm = -np.array([np.sin(0.5), np.cos(0.5)]) / 2
    turning = 12 / MASS
    K = np.eye(2) / MASS + turning * np.array([[arm[1] ** 2, -arm[0] * arm[1]], [-arm[0] * arm[1], arm[0] ** 2]])
    sticks = np.linalg.solve(K, [-v, -(1 + e) * fall])
    if abs(sticks[0]) <= mu * sticks[1]:
        return float(fall + sticks[1] / MASS)
    side = np.sign(sticks[0])
    return float(fall - (1 + e) * fall / (K[1, 1] + side * mu * K[1, 0]) / MASS)


@pytest.mark.parametrize("phase", [0.1, 0.6])
@pytest.mark.parametrize("mu", [0.1, 0.9])
def test_a_rod_falls_on_its_end_and_is_rubbed(mu: float, phase: float) -> None:
    """With friction after the normal force, one sweep, its speed was off by 4 to 20 % of that of the fall, and had the
    derivative -1.6 by it, -6.5 at four times the rate."""
    at = {"v": 0.8, "fall": -2.1, "mu": mu, "e": 0.6}
    end, by = gradients(rod(at, 0.1 - 2.1 * phase / RATE), 60, 1 / RATE, coordinate("body_qd", 0, 1))
    assert end.body_qd.numpy()[0, 1] == pytest.approx(rebounded(**at), rel=1e-9)
    found = {"v": by["b.velocity"][0, 0], "fall": by["b.velocity"][0, 1], "mu": by["f.friction"][0]}
    found["e"] = by["f.restitution"][0]
    for name, derivative in found.items():
        less, more = (rebounded(**{**at, name: at[name] + d}) for d in (-1e-6, 1e-6))
        assert derivative == pytest.approx((more - less) / 2e-6, rel=1e-5, abs=1e-6), name


@pytest.mark.parametrize("phase", [0.1, 0.6])
@pytest.mark.parametrize("mu", [0.1, 0.9])
def test_places_after_that_know_when_it_was(mu: float, phase: float) -> None:
    """Friction presses the end as it does over velocities.  Where sweeps over positions had to find that, places had
    the derivative .053 by the height, with one sweep at any step, for -.023 and -.204."""
    steps, height = 60, 0.1 - 2.1 * phase / RATE
    at = {"v": 0.8, "fall": -2.1, "mu": mu, "e": 0.6}

    def exact(height: float, **at: float) -> float:
        hit = -height / at["fall"]
        return height + 0.5 * np.cos(0.5) + at["fall"] * hit + rebounded(**at) * (steps / RATE - hit)

    end, by = gradients(rod(at, height), steps, 1 / RATE, coordinate("body_q", 0, 1))
    assert end.body_q.numpy()[0, 1] == pytest.approx(exact(height, **at), rel=1e-9)
    found = {"height": by["b.position"][0, 1], "fall": by["b.velocity"][0, 1], "e": by["f.restitution"][0]}
    full = {"height": height, **at}
    for name, derivative in found.items():
        less, more = (exact(**{**full, name: full[name] + d}) for d in (-1e-6, 1e-6))
        assert derivative == pytest.approx((more - less) / 2e-6, rel=1e-5, abs=1e-6), name


def box(height: float, v: float, mu: float, e: float | None) -> sim.Model:
    """Lies level so high above a floor."""
    made = sim.ModelBuilder(gravity=(0, -G, 0))
    body = made.add_body(sim.transformd((0, HALF[1] + height, 0), (0, 0, 0, 1)), velocity=(v, 0, 0), label="b")
    made.add_shape_box(body, None, *HALF, cfg=Config(mass=MASS, mu=mu, restitution=e), label="h")
    made.add_ground_plane(cfg=Config(mu=mu, restitution=e), label="f")
    return made.finalize(dtype=sim.float64, requires_grad=True)


@pytest.mark.parametrize("phase", [0.1, 0.6])
def test_a_box_falls_on_its_face(phase: float) -> None:
    """On four corners at once.  With two sweeps over velocities the derivative by its height was -49 of 6; eight left
    0.6 %, and 2.5 % at four times the rate."""
    time, e, mu = 0.4, 0.6, 0.2
    height = 0.35 + 2.6 * phase / RATE
    hit = np.sqrt(2 * height / G)
    end, by = gradients(box(height, 3.0, mu, e), round(time * RATE), 1 / RATE, coordinate("body_qd", 0, 1))
    assert end.body_qd.numpy()[0, 1] == pytest.approx((1 + e) * G * hit - G * time, rel=2e-3)
    assert by["b.position"][0, 1] == pytest.approx((1 + e) / hit, rel=1e-3)
    assert by["b.h.restitution"][0] + by["f.restitution"][0] == pytest.approx(G * hit, rel=1e-3)
    assert end.body_qd.numpy()[0, 0] == pytest.approx(3.0 - mu * (1 + e) * G * hit, rel=1e-4)


def test_a_box_that_falls_and_slides_on_keeps_no_memory_of_its_height() -> None:
    """mu (g t + g (T - t)) is taken from its speed whenever it lands; it was .05 by its height, and .13 at four times
    the rate."""
    end, by = gradients(box(0.35, 3.0, 0.2, None), 192, 1 / RATE, coordinate("body_qd", 0, 0))
    assert end.body_qd.numpy()[0, 0] == pytest.approx(3.0 - 0.2 * G * 0.4, rel=1e-5)
    assert abs(by["b.position"][0, 1]) < 2e-3
    assert by["b.h.mu"][0] + by["f.mu"][0] == pytest.approx(-G * 0.4, rel=1e-4)


INERTIA, PLACE = np.array([0.09, 0.05, 0.11]), np.array([0.25, -0.4, 0.1])


def tumbling(height: float, fall: float, e: float, spin: tuple[float, ...]) -> sim.Model:
    """A free body with three different moments of inertia, a place of which falls on a smooth plane."""
    made = sim.ModelBuilder(gravity=(0, 0, 0))
    body = made.add_body(
        sim.transformd((0, height, 0), (0, 0, 0, 1)), mass=MASS, inertia=tuple(INERTIA), velocity=(0, fall, 0),
        spin=spin, label="b",
    )  # fmt: skip
    made.add_constraints(
        "contact_plane", [[made.point_of(body, PLACE.tolist())]], 0.0, label="f", point=[0, 0, 0], normal=[0, 1, 0],
        thickness=0.0, friction=0.0, restitution=e,
    )  # fmt: skip
    return made.finalize(dtype=sim.float64, requires_grad=True)


def thrown_back(height: float, fall: float, e: float, spin: tuple[float, ...]) -> float:
    """Its velocity upward: Euler's equations with the directions of the world in the axes of the body, u and the rest,
    until the place is down."""

    def rate(y: np.ndarray) -> np.ndarray:
        up, omega = y[:3], y[3:6]
        return np.concatenate([np.cross(up, omega), np.cross(INERTIA * omega, omega) / INERTIA, [fall]])

    y, h, t = np.concatenate([[0.0, 1.0, 0.0], spin, [height]]), 1e-3, 0.0
    while h > 1e-13:
        k = [rate(y)]
        for part in (0.5, 0.5, 1.0):
            k.append(rate(y + part * h * k[-1]))
        after = y + h / 6 * (k[0] + 2 * k[1] + 2 * k[2] + k[3])
        if after[6] + after[:3] @ PLACE < 0.0:
            h *= 0.5  # Runge and Kutta up to the plane
        else:
            y, t = after, t + h
    arm = np.cross(PLACE, y[:3])
    come = fall + arm @ y[3:6]
    return float(fall - (1 + e) * come / (1 / MASS + arm @ (arm / INERTIA)) / MASS)


def test_a_body_tumbles_onto_a_plane() -> None:
    """Its inertia turns with it, from the impact to the end of the step too.  Without that its speed had a derivative
    by its height that was 18 % off, at any step."""
    at, spin = {"height": 0.45, "fall": -2.5, "e": 0.4}, (1.0, 0.5, -1.5)
    end, by = gradients(tumbling(**at, spin=spin), 48, 1 / RATE, coordinate("body_qd", 0, 1))
    assert end.body_qd.numpy()[0, 1] == pytest.approx(thrown_back(**at, spin=spin), rel=1e-4)
    found = {"height": by["b.position"][0, 1], "fall": by["b.velocity"][0, 1], "e": by["f.restitution"][0]}
    for name, derivative in found.items():
        less, more = (thrown_back(**{**at, name: at[name] + d}, spin=spin) for d in (-1e-5, 1e-5))
        assert derivative == pytest.approx((more - less) / 2e-5, rel=1e-2, abs=1e-4), name


def dumbbell(fall: float, mu: float, e: float, phase: float) -> sim.Model:
    """Two particles on a rigid link of 40 cm, leaning, the lower one of which falls on a plane."""
    made = sim.ModelBuilder(gravity=(0, 0, 0))
    height, link = 0.1 - fall * phase / RATE, 0.4 * np.array([np.sin(0.5), np.cos(0.5), 0.0])
    places = np.array([[0.0, height, 0.0], [0.0, height, 0.0] + link])
    made.add_particles(places, np.array([1.3, 0.7]), vel=(0.5, fall, 0), label="p")
    made.add_spring(0, 1, 0.0, label="link")
    floor = {"point": [0, 0, 0], "normal": [0, 1, 0], "thickness": 0.0}
    made.add_constraints("contact_plane", [[0]], 0.0, label="f", friction=mu, restitution=e, **floor)
    return made.finalize(dtype=sim.float64, requires_grad=True)


@pytest.mark.parametrize("mu", [0.1, 0.9])
def test_particles_on_a_rigid_link_fall_as_a_body_does(mu: float) -> None:
    """The velocity upward of their centre of mass.  Along the direction of the link as a step ends it had a derivative
    by how fast they fall that was a fifth off, at any step."""
    along = np.array([np.sin(0.5), np.cos(0.5)])
    K = np.eye(2) / 1.3 - np.outer(along, along) / 1.3**2 / (1 / 1.3 + 1 / 0.7)

    def exact(fall: float, e: float) -> float:
        P = np.linalg.solve(K, [-0.5, -(1 + e) * fall])
        if abs(P[0]) > mu * P[1]:
            side = np.sign(P[0])
            P = -(1 + e) * fall / (K[1, 1] + side * mu * K[1, 0]) * np.array([side * mu, 1.0])
        return float(fall + P[1] / 2)

    def seed(state: sim.State) -> tuple[sim.array, np.ndarray]:
        return state.particle_qd, np.array([[0, 0.65, 0], [0, 0.35, 0]])

    end, by = gradients(dumbbell(-2.0, mu, 0.6, 0.7), 60, 1 / RATE, seed)
    assert (seed(end)[1] * end.particle_qd.numpy()).sum() == pytest.approx(exact(-2.0, 0.6), rel=1e-9)
    assert by["p.velocity"][0, 1] == pytest.approx((exact(-2 + 1e-6, 0.6) - exact(-2 - 1e-6, 0.6)) / 2e-6, rel=1e-5)
    assert by["f.restitution"][0] == pytest.approx((exact(-2.0, 0.6 + 1e-6) - exact(-2.0, 0.6 - 1e-6)) / 2e-6, rel=1e-5)


def off_a_ball(y: float, v: float) -> float:
    """Velocity across its way of a particle of .7 kg that hits a free rough ball so far beside its middle."""
    m, M, R, e, mu = 0.7, 1.3, 0.1, 0.6, 0.9
    n = np.array([-np.sqrt(R * R - y * y), y]) / R
    across = np.array([-n[1], n[0]])
    pressed = -(1 + e) * v * n[0] / (1 / m + 1 / M)
    rubbed = np.clip(-v * across[0] / (1 / m + 1 / M + 1 / (0.4 * M)), -mu * pressed, mu * pressed)
    return float((pressed * n + rubbed * across)[1] / m)


@pytest.mark.parametrize("phase", [0.1, 0.9])
def test_a_particle_hits_a_free_rough_ball(phase: float) -> None:
    """Both arms are shifted to one place, which sweeps over velocities have to make up for: with one its derivatives
    were 2 % off, the other way at the end of a step than at its beginning, at any step."""
    y, v, R = 0.05, 2.0, 0.1
    made = sim.ModelBuilder(gravity=(0, 0, 0))
    made.add_particle((-np.sqrt(R * R - y * y) - v / RATE * (10 + phase), y, 0), (v, 0, 0), 0.7)
    body = made.add_body(sim.transformd((0, 0, 0), (0, 0, 0, 1)), mass=1.3, inertia=0.4 * 1.3 * R * R, label="b")
    rough = Config(mass=0.0, density=0.0, mu=0.9, restitution=0.6)
    made.add_shape_sphere(body, None, R, cfg=rough, label="h")
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    end, by = gradients(model, 30, 1 / RATE, coordinate("particle_qd", 0, 1))
    assert end.particle_qd.numpy()[0, 1] == pytest.approx(off_a_ball(y, v), rel=1e-4)
    found = by["particles.position"][0, 1], by["particles.velocity"][0, 0]
    wanted = [(off_a_ball(y + d, v + s) - off_a_ball(y - d, v - s)) / 2e-6 for d, s in ((1e-6, 0.0), (0.0, 1e-6))]
    assert found == pytest.approx(wanted, rel=2e-3)
