"""Impacts, sliding and rolling: contacts of particles and of balls with planes, and with each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import sim
from tools.closed_forms.case import Figure, G, Seen, Watched, case, compared

FLOOR = {"point": [0, 0, 0], "normal": [0, 1, 0]}


def mass_point(
    place: Sequence[float], velocity: Sequence[float], friction: float, restitution: float, down: float = G
) -> sim.Model:
    """A particle of 1 kg above the plane y = 0."""
    builder = sim.ModelBuilder(gravity=(0, -down, 0))
    p = builder.add_particle(place, velocity, 1.0)
    surface = {"friction": friction, "restitution": restitution}
    builder.add_constraints("contact_plane", [[p]], 0.0, label="floor", thickness=0.0, **surface, **FLOOR)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def ball(friction: float, tilt: float, velocity: float, radius: float = 0.1) -> sim.Model:
    """A solid ball of 1 kg on a plane that is tilted by so many degrees, with a velocity downhill."""
    angle = np.radians(tilt)
    builder = sim.ModelBuilder(gravity=(G * np.sin(angle), -G * np.cos(angle), 0))
    inertia, pose = 0.4 * radius**2, sim.transform([0, radius, 0], [0, 0, 0, 1])
    body = builder.add_body(pose, mass=1.0, inertia=inertia, label="ball", velocity=(velocity, 0, 0))
    centre = [[builder.point_of(body, [0, 0, 0])]]
    builder.add_constraints("contact_plane", centre, 0.0, label="floor", thickness=radius, friction=friction, **FLOOR)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def along(axis: int, row: int = 0) -> Seen:
    return lambda frame: float(frame[row, axis])


def end_of(model: sim.Model, seconds: float, hertz: float, field: str = "particle_q", back: bool = False) -> Watched:
    """A run of which the last frame is seen."""
    steps = round(seconds * hertz)
    return Watched(sim.SolverXPBD(model), steps, seconds / steps, field, every=steps, back=back)


def speed_at_end(model: sim.Model, steps: int, h: float, field: str) -> tuple[float, dict[str, np.ndarray]]:
    """The last velocity along x of the first particle or body, and its derivatives by material values."""
    with sim.Tape() as tape:
        final = sim.rollout(sim.SolverXPBD(model), model.state(), steps, h).final
    rates = getattr(final, field)
    seed = np.zeros(rates.numpy().shape)
    seed[0, 0] = 1.0
    tape.backward(grads={rates: sim.array(seed, dtype=rates.dtype)})
    by = {path: a.grad.numpy().copy() for path, a in model.materials.items() if a.grad is not None}
    return float(rates.numpy()[0, 0]), by


def bounced(h: float, v: float, e: float, g: float, T: float) -> float:
    """Height at the time T after a start at h with v upwards."""
    while True:
        t = (v + np.sqrt(v * v + 2 * g * h)) / g
        if t > T:
            return float(h + v * T - 0.5 * g * T * T)
        h, v, T = 0.0, e * (g * t - v), T - t


@case(
    "C1",
    "A block slides at 2 m/s with mu = 0.3 until it stops: how far, v^2 / (2 mu g)",
    "960 Hz",
    2e-3,
    2e-3,
)
def sliding_block() -> list[Figure]:
    at = {"v": 2.0, "mu": 0.3, "g": G}
    run = end_of(mass_point([0, 0, 0], [at["v"], 0, 0], at["mu"], 0.0), 1.0, 960)
    place = run.last(along(0))
    v, mu, g = run.by(place, "particles.velocity", "floor.friction", "gravity")

    def exact(v: float, mu: float, g: float) -> float:
        return v * v / (2 * mu * g)

    return compared("x", exact, at, place.value, {"v": v[0, 0], "mu": mu[0], "g": -g[0, 1]})


def drop(T: float, hertz: float, back: bool = False) -> list[Figure]:
    at = {"h": 1.0, "v": 0.0, "e": 0.8, "g": G}
    run = end_of(mass_point([0, at["h"], 0], [0, 0, 0], 0.0, at["e"]), T, hertz, back=back)
    height = run.last(along(1))
    h, v, e, g = run.by(height, "particles.position", "particles.velocity", "floor.restitution", "gravity")
    found = {"h": h[0, 1], "v": v[0, 1], "e": e[0], "g": -g[0, 1]}
    return compared("x", lambda h, v, e, g: bounced(h, v, e, g, T), at, height.value, found)


@case("C2", "A drop from 1 m, e = 0.8: height after 0.9 s and one bounce", "960 Hz", 1e-2, 1e-2)
def one_bounce() -> list[Figure]:
    return drop(0.9, 960)


@case("C3", "The same after 1.95 s and three bounces", "3840 Hz", 3e-3, 3e-2, slow=True)
def three_bounces() -> list[Figure]:
    return drop(1.95, 3840)


@case("C3, back", "The same with velocities half a step back, as a scene begins", "240 Hz", 1e-9, 1e-9)
def three_bounces_of_a_leapfrog() -> list[Figure]:
    return drop(1.95, 240, back=True)


@case("C4", "An elastic impact without gravity (DiffTaichi): place after 1 s", "100 Hz", 1e-9, 1e-9)
def reflected() -> list[Figure]:
    run = end_of(mass_point([0, 0.503, 0], [0, -1, 0], 0.0, 1.0, 0.0), 1.0, 100)
    place = run.last(along(1))
    h, v = run.by(place, "particles.position", "particles.velocity")
    at, found = {"h": 0.503, "v": -1.0}, {"h": h[0, 1], "v": v[0, 1]}
    return compared("x", lambda h, v: -v - h, at, place.value, found)


@case("C5", "Elastic bounces from 1 m for 10 s: height and speed as a height", "240 Hz", 1e-3, 1e-3)
def elastic_bounces() -> list[Figure]:
    model = mass_point([0, 1, 0], [0, 0, 0], 0.0, 1.0)
    end = sim.rollout(sim.SolverXPBD(model), model.state(), 2400, 1 / 240).final
    height, speed = end.particle_q.numpy()[0, 1], end.particle_qd.numpy()[0, 1] - 0.5 * G / 240
    return [Figure("apex", 1.0, float(height + speed**2 / (2 * G)))]


@case(
    "C6",
    "An oblique impact from (3, -2) m/s with mu = 0.2: speed along the plane, 3 - 2 mu (1 + e), e = 0 and 0.5,"
    " the worst of three phases of a step",
    "60 Hz",
    1e-9,
    1e-9,
)
def oblique() -> list[Figure]:
    out = []
    for e in (0.0, 0.5):
        phases = []
        for height in (0.1, 0.1003, 0.1047):
            v, by = speed_at_end(mass_point([0, height, 0], [3, -2, 0], 0.2, e, 0.0), 12, 1 / 60, "particle_qd")
            at, found = {"mu": 0.2, "v": 3.0}, {"mu": by["floor.friction"][0], "v": by["particles.velocity"][0, 0]}
            phases.append(compared(f"v({e:g})", lambda mu, v, e=e: v - 2 * mu * (1 + e), at, v, found))
        out += [max(figures, key=lambda figure: figure.error) for figures in zip(*phases, strict=True)]
    return out


@case(
    "C7",
    "A ball on a slope of 20 degrees, which rolls if mu >= 2/7 tan: its acceleration, with mu = 0.3 and 0.05",
    "960 Hz",
    1e-3,
    1e-3,
)
def down_a_slope() -> list[Figure]:
    theta = np.radians(20.0)
    slow, slow_by = speed_at_end(ball(0.3, 20.0, 0.0), 240, 1 / 960, "body_qd")
    fast, fast_by = speed_at_end(ball(0.05, 20.0, 0.0), 240, 1 / 960, "body_qd")

    def sliding(mu: float) -> float:
        return float(G * (np.sin(theta) - mu * np.cos(theta)))

    rolls = [Figure("a(0.3)", 5 / 7 * G * np.sin(theta), 4 * slow)]
    rolls += [Figure("d a(0.3) / d mu", 0.0, 4 * slow_by["floor.friction"][0])]
    return rolls + compared("a(0.05)", sliding, {"mu": 0.05}, 4 * fast, {"mu": 4 * fast_by["floor.friction"][0]})


@case(
    "C8",
    "A billiard ball slides at 2 m/s with mu = 0.2 until it rolls, at t = 2 v / (7 mu g): its place after 0.6 s",
    "960 Hz",
    1e-3,
    2e-3,
)
def billiard() -> list[Figure]:
    at, T = {"v": 2.0, "mu": 0.2, "g": G}, 0.6
    run = end_of(ball(at["mu"], 0.0, at["v"]), T, 960, "body_q")
    place = run.last(along(0))
    v, mu, g = run.by(place, "ball.velocity", "floor.friction", "gravity")

    def exact(v: float, mu: float, g: float) -> float:
        t = 2 * v / (7 * mu * g)
        return v * t - 0.5 * mu * g * t * t + 5 / 7 * v * (T - t)

    return compared("x", exact, at, place.value, {"v": v[0, 0], "mu": mu[0], "g": -g[0, 1]})


@case(
    "C9",
    "Two balls, r = 0.1 m, at 0 and 0.52 m, the first at 1 m/s, meet with e = 1: where the second is after 1 s",
    "100 Hz",
    1e-9,
    1e-9,
)
def two_balls() -> list[Figure]:
    at = {"x1": 0.0, "x2": 0.52, "v": 1.0, "u": 0.0}
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    pair = [builder.add_particle([at[x], 0, 0], [at[v], 0, 0], 1.0) for x, v in (("x1", "v"), ("x2", "u"))]
    builder.add_constraints(
        "contact_points", [pair], 0.0, label="meet", radius=0.1, other_radius=0.1, friction=0.0, restitution=1.0
    )
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    run = Watched(sim.SolverXPBD(model), 100, 0.01, "particle_q", every=100, state=model.state())
    place = run.last(along(0, 1))
    x, v = run.by(place, "state.particle_q", "state.particle_qd")

    def exact(x1: float, x2: float, v: float, u: float) -> float:
        t = (x2 - x1 - 0.2) / (v - u)
        return x2 + u * t + v * (1.0 - t)

    found = {"x1": x[0, 0], "x2": x[1, 0], "v": v[0, 0], "u": v[1, 0]}
    figures = compared("x2", exact, at, place.value, found)
    return [Figure(f.name, round(f.exact, 9) + 0.0, round(f.found, 9) + 0.0) for f in figures]  # zeros as such


@case("C10", "A block at rest on a slope whose tangent, 0.204, is below mu = 0.3, for 60 s: creep", "60 Hz", 1e-9, 1e-9)
def at_rest() -> list[Figure]:
    model = mass_point([0, 0, 0], [0, 0, 0], 0.3, 0.1)
    model.gravity.assign(np.array([[2.0, -G, 0.0]]))
    end = sim.rollout(sim.SolverXPBD(model), model.state(), 3600, 1 / 60).final
    return [Figure("x", 0.0, float(np.abs(end.particle_q.numpy()).max()))]
