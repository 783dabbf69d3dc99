"""How far is a tossed cube, simulated, from where it was recorded?  Every second toss of ContactNets, all at once.

S. Pfrommer, M. Halm, M. Posa, "ContactNets: Learning Discontinuous Contact Dynamics with Smooth, Implicit
Representations", CoRL 2020: the authors give mu = 0.18 and e = 0.125.  SOURCE as in scripts/make_cube.py.  A toss
begins with its second frame, and its error is the mean distance of the centre from the recorded one.

    python benchmarks/contactnets.py SOURCE        # writes benchmarks/contactnets.md: a minute or two
"""

import argparse
from pathlib import Path

import numpy as np

import sim
from sim.geometry import rotated

TARGET = Path(__file__).resolve().with_suffix(".md")
FIRST, SUBSTEPS, GRAVITY = 1, 4, 9.61
FRICTION, RESTITUTION = (0.10, 0.14, 0.16, 0.18, 0.20, 0.22, 0.26), (0.0, 0.125, 0.25)


def cube(count: int, half: float, mu: float, e: float) -> sim.Model:
    """So many cubes, each in a world of its own."""
    builder = sim.ModelBuilder(gravity=(0, 0, -GRAVITY))
    body = builder.add_body(sim.transform([0, 0, 1], [0, 0, 0, 1]), mass=0.37, inertia=8.1e-4, label="cube")
    builder.add_shape_box(body, None, half, half, half, builder.ShapeConfig(density=0.0, mu=mu, restitution=e))
    builder.add_ground_plane(normal=(0, 0, 1), label="table")
    builder.replicate(count)
    return builder.finalize(dtype=sim.float64)


def starts(tosses: list[np.ndarray], half: float, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Poses and velocities of the first frame; a backward difference is the velocity half a frame before."""
    q, qd = np.zeros((len(tosses), 7)), np.zeros((len(tosses), 6))
    for k, states in enumerate(tosses):
        turn = states[0, [4, 5, 6, 3]]
        q[k] = [*(half * states[0, :3]), *turn]
        qd[k, :3] = half * states[0, 7:10] - [0, 0, 0.5 * GRAVITY * dt * (1 - 1 / SUBSTEPS)]
        qd[k, 3:] = rotated(turn, states[0, 10:13])
    return q, qd


def errors(tosses: list[np.ndarray], half: float, dt: float, mu: float, e: float) -> np.ndarray:
    """Mean distance of the centre [m] of each toss."""
    model = cube(len(tosses), half, mu, e)
    state = model.state()
    for a, values in zip((state.body_q, state.body_qd), starts(tosses, half, dt), strict=True):
        a.assign(values)
    frames = max(map(len, tosses)) - 1
    run = sim.rollout(
        sim.SolverXPBD(model, iterations=2), state, frames * SUBSTEPS, dt / SUBSTEPS, frame_every=SUBSTEPS
    )
    found = run.body_q.numpy()[:, :, :3]
    return np.array(
        [
            np.linalg.norm(found[: len(states) - 1, k] - half * states[1:, :3], axis=1).mean()
            for k, states in enumerate(tosses)
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="the processed tosses")
    source = np.load(parser.parse_args().source)
    start, half, dt = source["start"], float(source["half_width_m"]), float(source["dt"])
    tosses = [source["state"][start[i] : start[i + 1]].astype(float)[FIRST:] for i in range(0, len(start) - 1, 2)]
    lines = [f"| mu | {' | '.join(f'e = {e:g}' for e in RESTITUTION)} |", "|---" * (1 + len(RESTITUTION)) + "|"]
    for mu in FRICTION:
        medians = [1e3 * np.median(errors(tosses, half, dt, mu, e)) for e in RESTITUTION]
        lines.append(f"| {mu:.2f} | " + " | ".join(f"{m:.1f}" for m in medians) + " |")
        print(lines[-1], flush=True)
    TARGET.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
