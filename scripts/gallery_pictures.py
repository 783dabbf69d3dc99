"""The pictures of the gallery, each from what its example has left: example -> function(names of the example, file)."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import sim
from sim.geometry.raster import frame_camera, render, write_png

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

BLUE, ORANGE, RED, GREY = "#3d82f5", "#e8912d", "#d83a34", "#9aa3b2"
STYLE = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#777", "axes.grid": True,
    "grid.color": "#e8e8ec", "axes.axisbelow": True, "legend.frameon": False, "lines.linewidth": 1.4, "figure.dpi": 110,
}  # fmt: skip


def chart(file: Path, *, rows: int = 1, height: float = 3.0) -> tuple[Any, Any]:
    """A figure and its axes, one above the other."""
    plt.rcParams.update(STYLE)
    return plt.subplots(rows, 1, figsize=(6.4, height), sharex=True, layout="constrained", squeeze=False)


def save(figure: Any, file: Path) -> None:
    figure.savefig(file, metadata={"Software": None})
    plt.close(figure)


def fitted(names: dict[str, Any], scene: str, outcome: Any) -> tuple[Any, Any]:
    """The problem of an example and what it found, as coordinates."""
    problem = sim.load_scene(names["folder"] / scene).build()
    return problem, problem.space.pack({name: row["final"] for name, row in outcome.result["parameters"].items()})


def own_take(names: dict[str, Any], file: Path) -> None:
    problem, x = fitted(names, "band.yaml", names["outcome"])
    motion = problem.simulate(x)["drop"]
    seen = problem.placed(motion).targets["weight"].positions[:, 0, 1]
    found = problem.markers["weight"].at(motion.positions)[:, 0, 1]
    figure, axes = chart(file)
    axes[0, 0].plot(motion.times, found - problem.markers["weight"].at(motion.start)[0, 1], color=BLUE, label="found")
    axes[0, 0].plot(motion.times, seen, ".", color=RED, markersize=3, label="the take")
    axes[0, 0].set(xlabel="time [s]", ylabel="height [m]")
    axes[0, 0].legend(loc="upper right", ncols=2)
    save(figure, file)


def mocap_sheet(names: dict[str, Any], file: Path) -> None:
    problem, x = fitted(names, "fit.yaml", names["outcome"])
    motion = problem.simulate(x)["drop"]
    seen = problem.placed(motion).targets["dots"].positions
    sheet(file, problem, motion.positions, seen, (4, 8, 12, 29), direction=(-0.35, 0.5, 1.0))


def fabric_regions(names: dict[str, Any], file: Path) -> None:
    problem, x = fitted(names, "fit.yaml", names["outcome"])
    motion = problem.simulate(x)["shaken"]
    seen = problem.placed(motion).targets["dots"].positions
    rest = problem.start_positions(problem.experiments[0])
    upper = rest[problem.model.tri_indices.numpy()][..., 1].mean(axis=1) > 0.29
    paint = np.where(upper[:, None], (0.93, 0.60, 0.20), (0.36, 0.58, 0.92))
    sheet(file, problem, motion.positions, seen, (4, 9, 14, 22), direction=(0.9, 0.15, 1.0), paint=paint)


def sheet(
    file: Path, problem: Any, positions: np.ndarray, seen: np.ndarray, frames: tuple[int, ...], direction: Any,
    paint: np.ndarray | None = None,
) -> None:  # fmt: skip
    """Some frames of a sheet beside each other, with the markers as they were seen."""
    camera = frame_camera(positions[list(frames)].reshape(-1, 3), direction=direction, margin=0.95)
    triangles = problem.model.tri_indices.numpy()
    pictures = [
        render(positions[k], triangles, size=(190, 230), camera=camera, paint=paint,
               markers=seen[k][np.isfinite(seen[k, :, 0])], marker_radius=2.2)
        for k in frames
    ]  # fmt: skip
    write_png(file, np.concatenate(pictures, axis=1))


def rope_by_hand(names: dict[str, Any], file: Path) -> None:
    problem, x = fitted(names, "fit.yaml", names["outcome"])
    motion = problem.simulate(x)["shaken"]
    target = problem.placed(motion).targets["dots"].positions
    tip = problem.markers["dots"].at(motion.positions)[:, -1:]
    rope = np.concatenate([motion.body_q[:, :, :3], tip], axis=1)  # middles of its segments, and its end
    figure, axes = chart(file, height=3.2)
    chosen = range(3, len(motion.times), 4)
    for shade, k in zip(np.linspace(0.25, 1.0, len(chosen)), chosen, strict=True):
        axes[0, 0].plot(rope[k, :, 0], rope[k, :, 1], color=BLUE, alpha=shade)
        axes[0, 0].plot(target[k, :, 0], target[k, :, 1], ".", color=RED, alpha=shade, markersize=4)
    axes[0, 0].set(xlabel="x [m]", ylabel="height [m]", aspect="equal")
    save(figure, file)


def two_models(names: dict[str, Any], file: Path) -> None:
    figure, axes = chart(file)
    for (name, run), color in zip(names["runs"].items(), (ORANGE, BLUE), strict=True):
        problem, x = fitted(names, f"{name}.yaml", run)
        motion = problem.simulate(x)["thrown"]
        found = problem.markers["weight"].at(motion.positions)[:, 0, 1]
        left = found - problem.placed(motion).targets["weight"].positions[:, 0, 1]
        axes[0, 0].plot(motion.times, 1e3 * left, color=color, label=name)
    axes[0, 0].set(xlabel="time [s]", ylabel="simulated less measured [mm]")
    axes[0, 0].legend(loc="upper right", ncols=2)
    save(figure, file)


def torch_layer(names: dict[str, Any], file: Path) -> None:
    degrees, rubber, seen = names["degrees"], names["rubber"], names["seen"].numpy()
    found = rubber(degrees).detach().numpy()
    times = names["times"][:, 0]
    figure, axes = chart(file)
    for world, color in ((0, BLUE), (6, GREY), (11, ORANGE)):
        axes[0, 0].plot(times, found[:, world], color=color, label=f"{degrees[world]:.0f} degrees")
        axes[0, 0].plot(times, seen[:, world], ".", color=color, markersize=4)
    axes[0, 0].set(xlabel="time [s]", ylabel="height [m]")
    axes[0, 0].legend(loc="upper right", ncols=3)
    save(figure, file)


def warp_port(names: dict[str, Any], file: Path) -> None:
    times, d = names["times"], names["found"]
    seen = names["seen"].numpy()[:, :, 1]
    figure, axes = chart(file)
    axes[0, 0].plot(np.repeat(times[:, None], seen.shape[1], axis=1), seen, ".", color=RED, markersize=2)
    axes[0, 0].plot(times, -4.905 * times**2, color=GREY, label="without air")
    axes[0, 0].plot(times, -np.log(np.cosh(times * np.sqrt(9.81 * d))) / d, color=BLUE, label="with the drag found")
    axes[0, 0].set(xlabel="time [s]", ylabel="height [m]")
    axes[0, 0].legend(loc="lower left")
    save(figure, file)


def rehearsal(names: dict[str, Any], file: Path) -> None:
    problem = sim.load_scene(names["folder"] / "plan.yaml").build()
    trials = sim.identify.rehearse(problem, takes=50)
    values = np.exp(trials.estimates)
    figure, axes = chart(file, height=3.2)
    axes[0, 0].errorbar(
        1e3 * values[:, 0], values[:, 1], xerr=1e3 * 1.96 * trials.errors[:, 0] * values[:, 0],
        yerr=1.96 * trials.errors[:, 1] * values[:, 1], fmt=".", color=BLUE, ecolor="#c9dafb", elinewidth=0.8,
    )  # fmt: skip
    axes[0, 0].plot(1e3 * problem.physical()["compliance"], problem.physical()["drag"], "+", color=RED, markersize=14)
    axes[0, 0].set(xlabel="compliance [mm/N]", ylabel="drag [1/m]")
    save(figure, file)


PICTURES = {
    f.__name__: f
    for f in (own_take, mocap_sheet, rope_by_hand, fabric_regions, two_models, torch_layer, warp_port, rehearsal)
}
