"""Free bodies, pendulums and tops."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import ellipk

import sim
from tools.closed_forms.case import Figure, G, Watched, case, compared, extrapolated
from tools.constraints.slots import exp, log, product, turned


def axis_of(frame: np.ndarray, k: int, body: int = 0) -> np.ndarray:
    """Axis k of a body in the world; its quaternion need not be of length 1."""
    q = frame[body, 3:]
    return turned(q / np.linalg.norm(q))[:, k]


# ------------------------------------------------------------------------------------------ free bodies
@case(
    "R1",
    "A free body, I = (1, 2, 3), tumbles from omega = (1, 2, 3) for 5 s: the angle it is turned by",
    "240 Hz",
    1e-4,
    3e-4,
)
def tumbling() -> list[Figure]:
    """Exact: Euler's equations, DOP853."""
    inertia, T, rate = np.array([1.0, 2.0, 3.0]), 5.0, 240
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_body((0, 0, 0), mass=2.0, inertia=inertia, spin=(1, 2, 3), label="body")
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    run = Watched(sim.SolverXPBD(model), 5 * rate, 1 / rate, every=5 * rate)

    def exact(wx: float = 1.0, wy: float = 2.0, wz: float = 3.0, I1: float = 1.0) -> float:
        moments = np.array([I1, 2.0, 3.0])

        def rates(_: float, y: np.ndarray) -> np.ndarray:
            return np.concatenate(
                [0.5 * product(y[:4], np.array([*y[4:], 0])), np.cross(moments * y[4:], y[4:]) / moments]
            )

        solved = solve_ivp(rates, (0, T), [0, 0, 0, 1, wx, wy, wz], method="DOP853", rtol=1e-12, atol=1e-13)
        return float(np.linalg.norm(log(solved.y[:4, -1] / np.linalg.norm(solved.y[:4, -1]))))

    turn = run.last(lambda frame: float(np.linalg.norm(log(frame[0, 3:] / np.linalg.norm(frame[0, 3:])))))
    spin, by_inertia = run.by(turn, "body.spin", "body.inertia")
    found = {"wx": spin[0, 0], "wy": spin[0, 1], "wz": spin[0, 2], "I1": by_inertia[0, 0]}
    return compared("turn", exact, {"wx": 1.0, "wy": 2.0, "wz": 3.0, "I1": 1.0}, turn.value, found)


# ------------------------------------------------------------------------------------------ pendulums
def swing_time(m: float, inertia: float, d: float, g: float, amplitude: float) -> float:
    """Period of a rigid pendulum, its centre of mass at d from the hinge; inertia: about that centre."""
    return float(4 * np.sqrt((inertia + m * d * d) / (m * g * d)) * ellipk(np.sin(amplitude / 2) ** 2))


def swung(model: sim.Model, direction: np.ndarray, period: float, rate: int) -> tuple[Watched, object]:
    """A run, and the period: twice the time between the first two passages of a direction of the body below."""
    run = Watched(sim.SolverXPBD(model), round(0.8 * period * rate), 1 / rate)

    def across(frame: np.ndarray) -> float:
        return float(turned(frame[0, 3:] / np.linalg.norm(frame[0, 3:]))[0] @ direction)

    return run, 2 * (run.passage(across, 1) - run.passage(across, 0))


@case("R2", "A uniform rod of 1 m swings from 90 degrees: its period", "240 Hz", 1e-4, 1e-3)
def rod_pendulum() -> list[Figure]:
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    rod = builder.add_body(
        [0, 0, 0, *exp(np.array([0, 0, np.pi / 2]))], mass=1.0, inertia=(1 / 12, 1e-3, 1 / 12), com=(0, -0.5, 0),
        label="rod",
    )  # fmt: skip
    builder.add_constraints("ball", [[builder.point_of(-1), builder.point_of(rod)]], compliance=0.0, label="hinge")
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    run, T = swung(model, np.array([0, -1.0, 0]), 1.933335, 240)
    com, inertia, g = run.by(T, "rod.com", "rod.inertia", "gravity")

    def exact(L: float, g: float) -> float:
        return swing_time(1.0, L * L / 12, L / 2, g, np.pi / 2)

    found = {"L": -com[0, 1] / 2 + inertia[0, 2] / 6, "g": -g[0, 1]}
    return compared("T", exact, {"L": 1.0, "g": G}, T.value, found)


@case(
    "physical pendulum",
    "A body on a hinge, its centre of mass off its axes, swings from 60 degrees: its period",
    "480 Hz",
    1e-4,
    1e-3,
    slow=True,
)
def physical_pendulum() -> list[Figure]:
    m, own, com, hinge = 0.7, 0.012, np.array([0.11, -0.27, 0.0]), np.array([-0.05, 0.04, 0.0])
    arm = com - hinge
    d = float(np.linalg.norm(arm))
    turn = exp(np.array([0, 0, np.pi / 3 - np.arctan2(arm[0], -arm[1])]))
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    body = builder.add_body(
        [*(-turned(turn) @ hinge), *turn], mass=m, inertia=(0.008, 0.009, own), com=com, label="body"
    )
    builder.add_joint_revolute(-1, body, (0, 0, 0), hinge, axis=(0, 0, 1), label="hinge")
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    at = {"m": m, "inertia": own, "d": d, "g": G, "amplitude": np.pi / 3}
    run, T = swung(model, arm / d, swing_time(**at), 480)
    mass, inertia, by_com, g = run.by(T, "body.mass", "body.inertia", "body.com", "gravity")
    # the angle that it begins at turns with the centre of mass: d of `by_com` along the arm is that by d alone
    found = {"m": mass[0], "inertia": inertia[0, 2], "d": by_com[0] @ arm / d, "g": -g[0, 1]}
    return compared("T", swing_time, at, T.value, found)


@case(
    "R3",
    "Two uniform rods of 1 m and 1 kg, one below the other, swing in their modes: angular frequencies",
    "480 Hz, direct",
    5e-4,
    5e-4,
    slow=True,
)
def double_rod() -> list[Figure]:
    figures = []
    for number in (0, 1):

        def omega(g: float, number: int = number) -> float:
            M, K = np.array([[4 / 3, 0.5], [0.5, 1 / 3]]), g * np.diag([1.5, 0.5])
            return float(np.sqrt(np.sort(np.linalg.eigvals(np.linalg.solve(M, K)))[number]))

        M, K = np.array([[4 / 3, 0.5], [0.5, 1 / 3]]), G * np.diag([1.5, 0.5])
        values, modes = np.linalg.eig(np.linalg.solve(M, K))
        mode = modes[:, np.argsort(values)[number]]
        builder, at, last = sim.ModelBuilder(gravity=(0, -G, 0)), np.zeros(3), -1
        for j, angle in enumerate(1e-3 * mode / np.abs(mode).max()):
            down = np.array([np.sin(angle), -np.cos(angle), 0])
            body = builder.add_body(
                [*(at + 0.5 * down), *exp(np.array([0, 0, angle]))], 1.0, (1 / 12, 1e-3, 1 / 12), label=f"rod{j}"
            )
            upper = builder.point_of(last, (0, 0, 0) if last < 0 else (0, -0.5, 0))
            builder.add_constraints("ball", [[upper, builder.point_of(body, (0, 0.5, 0))]], 0.0, label=f"hinge{j}")
            at, last = at + down, body
        model = builder.finalize(dtype=sim.float64, requires_grad=True)
        period = 2 * np.pi / omega(G)
        solver = sim.SolverXPBD(model, direct=["hinge0", "hinge1"])
        run = Watched(solver, round(0.8 * period * 480), 1 / 480)
        half = run.passage(lambda frame: frame[0, 5], 1) - run.passage(lambda frame: frame[0, 5], 0)
        by_g = -np.pi / half.value**2 * -run.by(half, "gravity")[0][0, 1]
        figures += compared(f"omega {number + 1}", omega, {"g": G}, np.pi / half.value, {"g": by_g})
    return figures


@case(
    "spherical pendulum",
    "A bob on a thread of 1 m, at 45 degrees, pushed sideways: by how much its plane has turned"
    " when it is out again on the other side",
    "480 and 960 Hz, extrapolated",
    1e-4,
    1e-3,
    slow=True,
)
def spherical_pendulum() -> list[Figure]:
    """Exact: azimuth at the farthest point, by quadrature in z (E. T. Whittaker, "Analytical Dynamics", 55)."""
    return extrapolated(spherical_swing, 1 / 480)


def spherical_swing(h: float) -> list[Figure]:
    angle, v = np.pi / 4, 0.8
    away = np.array([np.sin(angle), 0, -np.cos(angle)])
    builder = sim.ModelBuilder(gravity=(0, 0, -G))
    bob = builder.add_body(away, 1.0, 1e-9, velocity=(0, v, 0), label="bob")
    builder.add_joint_distance(-1, bob, min_distance=1.0, max_distance=1.0, label="thread")
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    run = Watched(sim.SolverXPBD(model), round(1.2 / h), h)
    _, turn = run.extreme(
        lambda frame: float(frame[0, 2]), 1, at=lambda frame: float(np.arctan2(-frame[0, 1], -frame[0, 0]))
    )
    length, g, speed, place = run.by(turn, "thread.distance", "gravity", "bob.velocity", "bob.position")

    def exact(L: float, g: float, v: float) -> float:
        """z = -L cos: its turning points and the advance between them."""
        z0, h = -L * np.cos(angle), L * np.sin(angle) * v  # angular momentum about z
        E = 0.5 * v * v + g * z0

        roots = np.sort(np.roots([2 * g, -2 * E, -2 * g * L * L, 2 * E * L * L - h * h]).real)
        low, high = roots[0], roots[1]  # z = low + (high - low) sin^2 s
        s, w = np.polynomial.legendre.leggauss(200)
        s = 0.25 * np.pi * (s + 1)
        z = low + (high - low) * np.sin(s) ** 2
        rate = 2 / np.sqrt(2 * g * (roots[2] - z))
        return float(2 * 0.25 * np.pi * (w * h * L / (L * L - z * z) * rate).sum() - np.pi)

    found = {"L": length[0] + place[0] @ away, "g": -g[0, 2], "v": speed[0, 1]}
    return compared("azimuth", exact, {"L": 1.0, "g": G, "v": v}, turn.value, found)


# ------------------------------------------------------------------------------------------ tops
TOP = {"m": 0.5, "arm": 0.05, "I1": 8e-4, "I3": 6e-4, "spin": 200.0, "g": G}
"""Mass, distance of the centre of mass from the tip, moments about that centre, spin about the axis."""


def top(tilt: float, slow: float) -> sim.Model:
    """A top on its tip, z upwards, that begins with an angular velocity `slow` about z."""
    axis = np.array([np.sin(tilt), 0, np.cos(tilt)])
    omega = np.array([0, 0, slow]) + (TOP["spin"] - slow * np.cos(tilt)) * axis
    builder = sim.ModelBuilder(gravity=(0, 0, -G))
    body = builder.add_body(
        [*(TOP["arm"] * axis), *exp(np.array([0, tilt, 0]))], mass=TOP["m"], inertia=(TOP["I1"], TOP["I1"], TOP["I3"]),
        spin=omega, velocity=np.cross((0, 0, slow), TOP["arm"] * axis), label="top",
    )  # fmt: skip
    ends = [builder.point_of(-1), builder.point_of(body, (0, 0, -TOP["arm"]))]
    builder.add_constraints("ball", [ends], compliance=0.0, label="tip")
    return builder.finalize(dtype=sim.float64, requires_grad=True)


@case("R4", "A top at 30 degrees in steady precession", "3840 Hz", 2e-3, 5e-3)
def precession() -> list[Figure]:
    """Exact: I1' Omega^2 cos tilt - I3 spin Omega + m g l = 0, I1' = I1 + m l^2."""
    tilt, rate = np.radians(30), 3840

    def exact(m: float, arm: float, I1: float, I3: float, spin: float, g: float) -> float:
        a, b, c = (I1 + m * arm * arm) * np.cos(tilt), I3 * spin, m * g * arm
        return float(2 * c / (b + np.sqrt(b * b - 4 * a * c)))

    slow = exact(**TOP)
    fast = TOP["I3"] * TOP["spin"] / (TOP["I1"] + TOP["m"] * TOP["arm"] ** 2)
    # four nutations: those that a change of the values sets off are where they were
    T = 4 * 2 * np.pi / np.hypot(fast - 2 * slow * np.cos(tilt), slow * np.sin(tilt))
    model, steps = top(tilt, slow), round(T * rate)
    run = Watched(sim.SolverXPBD(model), steps, T / steps, every=steps)

    def azimuth(frame: np.ndarray) -> float:
        up = axis_of(frame, 2)
        return float(np.arctan2(up[1], up[0]) / T)

    turn = run.last(azimuth)
    inertia, spin, g = run.by(turn, "top.inertia", "top.spin", "gravity")
    axis = np.array([np.sin(tilt), 0, np.cos(tilt)])
    found = {"spin": spin[0] @ axis, "g": -g[0, 2], "I3": inertia[0, 2]}
    return compared("Omega", exact, TOP, turn.value, found)


@case(
    "nutation",
    "The top is let go at 30 degrees without precession: how far it sinks and when it is back",
    "3840 Hz",
    1e-3,
    5e-3,
    slow=True,
)
def nutation() -> list[Figure]:
    """Exact: u = cos(tilt) between two roots of a cubic, the period by an elliptic integral (H. Goldstein, "Classical
    Mechanics", 5.7)."""
    tilt, rate = np.radians(30), 3840
    u0 = np.cos(tilt)

    def roots(m: float, arm: float, I1: float, I3: float, spin: float, g: float) -> tuple[float, float, float]:
        moment = I1 + m * arm * arm
        a, beta = I3 * spin / moment, 2 * m * g * arm / moment
        # u'^2 = (u0 - u) (beta (1 - u^2) - a^2 (u0 - u))
        low, high = np.sort(np.roots([-beta, a * a, beta - a * a * u0]).real)
        return float(low), float(high), beta

    def sunk(**at: float) -> float:
        return float(np.arccos(roots(**at)[0]) - tilt)

    def period(**at: float) -> float:
        low, high, beta = roots(**at)
        return float(4 * ellipk((u0 - low) / (high - low)) / np.sqrt(beta * (high - low)))

    model = top(tilt, 0.0)
    T = period(**TOP)
    run = Watched(sim.SolverXPBD(model), round(1.1 * T * rate), 1 / rate)

    def lean(frame: np.ndarray) -> float:
        return float(np.arccos(axis_of(frame, 2)[2]))

    axis = np.array([np.sin(tilt), 0, np.cos(tilt)])
    figures = []
    for name, exact, reading in (
        ("sunk", sunk, run.extreme(lean)[1]),
        ("T", period, 2 * (run.extreme(lean, 1)[0] - run.extreme(lean)[0])),
    ):
        inertia, spin, g = run.by(reading, "top.inertia", "top.spin", "gravity")
        value = reading.value - (tilt if name == "sunk" else 0.0)
        found = {"I3": inertia[0, 2], "I1": inertia[0, :2].sum(), "spin": spin[0] @ axis, "g": -g[0, 2]}
        figures += compared(name, exact, TOP, value, found)
    return figures
