"""Motion over time in the report and the player: what is compared, when, with gaps, goals, measures and the start
frame."""

import base64

import numpy as np
import pytest
from tools.places import ROOT
from tools.scenes.problems import SHEET, sheet

import sim
from sim.identify.assess.misfit import compared_by
from sim.identify.report.takes import takes
from sim.identify.report.tracks import tracks
from sim.io import load_recording, write_recording
from sim.io.player import player_data
from sim.io.recording import Recording
from sim.io.report_tracks import MOST_MARKERS, Track, shown_unit, track_data

GOAL = """loss:
  - {reach: {marker: corners, point: [0.3, 0.4, 0.1], at: 0.15, scale: 10 mm}}
  - {slow: {marker: corners, at: last, scale: 1 m/s}}
"""
MEASURES = """measures:
  sag: {of: corners, along: gravity, kind: settled, last: 0.1}
  ring: {of: corners, along: gravity, kind: frequency}
experiments:"""


def decoded(track, name):
    """A series of a track as the page reads it (frames, markers, axes)."""
    return np.frombuffer(base64.b64decode(track["series"][name]), "<f4").reshape(track["shape"]).astype(float)


def with_gaps(tmp_path):
    """Overwrites the target with one that misses marker 1 in frames 1 and 2 and never sees marker 3."""
    target = load_recording(tmp_path / "target.npz", "corners")
    positions = target.positions.copy()
    positions[1:3, 1], positions[:, 3] = np.nan, np.nan
    write_recording(tmp_path / "target.npz", corners=Recording(positions, target.time))
    return positions


@pytest.mark.parametrize("compare", ["position", "displacement", "velocity"])
def test_a_track_shows_what_the_loss_compares(compare, tmp_path):
    """The residuals on the page are those of the loss: their weighted squares add up to it."""
    problem = sheet(tmp_path, SHEET.replace("{match: corners}", f"{{match: corners, compare: {compare}}}"))
    with_gaps(tmp_path)
    problem = sim.load_scene(tmp_path / "scene.yaml").build(dtype=sim.float64)
    run = problem.simulate()
    (track,) = tracks(problem, run, None)
    residual, counted = (
        track.residual,
        compared_by(problem.terms, problem.experiments[0], "corners").counted(problem.experiments[0])[0],
    )
    used = np.isfinite(residual[..., 0])
    assert (used[-4:] == counted).all() and used.sum() == counted.sum() == {
        "position": 10,
        "displacement": 7,
        "velocity": 6,
    }[compare]
    loss = np.sum(residual[used] ** 2) / track.noise**2 / (3 * used.sum())
    expected = (
        problem.value(problem.start) * {"position": 1, "displacement": 0.5, "velocity": 1}[compare]
    )  # a difference has twice the variance
    assert loss == pytest.approx(expected, rel=1e-6)
    assert track.unit == ("m/s" if compare == "velocity" else "m")


def test_gaps_and_the_worst_marker_first(tmp_path):
    sheet(tmp_path)
    positions = with_gaps(tmp_path)
    problem = sim.load_scene(tmp_path / "scene.yaml").build(dtype=sim.float64)
    run = problem.simulate()
    (track,) = tracks(problem, run, run)
    data = track_data(track)
    order = [int(text.split()[1].rstrip(":")) for text in data["markers"]]
    assert order[-1] == 3 and "never seen" in data["markers"][-1]
    assert (np.diff(track.rms[order[:3]]) <= 0).all()
    scale = {"m": 1.0, "mm": 1e-3}[data["unit"]]
    np.testing.assert_allclose(decoded(data, "measured")[1:] * scale, positions[:, order], atol=1e-6)
    assert data["times"] == pytest.approx([0, 0.05, 0.1, 0.15, 0.2]) and data["words"]["after"] == "after"
    small = {"m": 1.0, "mm": 1e-3}[data["residualUnit"]]
    simulated = run["one"].positions[:, problem.markers["corners"].points]
    np.testing.assert_allclose(decoded(data, "residual")[1:] * small, (simulated - positions)[:, order], atol=1e-7)
    assert data["noise"] * small == pytest.approx(0.01)


def test_frames_that_do_not_count_are_told_apart(tmp_path):
    problem = sheet(tmp_path, SHEET.replace("{match: corners}", "{match: corners, at: last}"))
    data = track_data(tracks(problem, problem.simulate(), None)[0])
    counted, skipped = (np.isfinite(decoded(data, name)).all(axis=(1, 2)) for name in ("measured", "skipped"))
    assert counted.tolist() == [False] * 4 + [True] and skipped.tolist() == [False, True, True, True, False]


def test_goals_are_at_their_time_and_place(tmp_path):
    problem = sheet(
        tmp_path,
        SHEET.replace("loss:\n  - {match: corners}\n", GOAL).replace(
            "  one: {target: {file: target.npz, key: corners, noise: 10 mm}}", "  one: {}"
        ),
    )
    run = problem.simulate()
    reach, slow = tracks(problem, run, None)
    centre = run["one"].positions[:, problem.markers["corners"].points].mean(axis=1)
    np.testing.assert_allclose(reach.after[1:, 0], centre)
    assert reach.goals == [(pytest.approx(0.15), (0.3, 0.4, 0.1))] and reach.times[3] == pytest.approx(0.15)
    assert f"{1e3 * np.linalg.norm(centre[2] - [0.3, 0.4, 0.1]):.3g}"[:3] in reach.headings[0]
    assert slow.after[-1, 0, 0] == pytest.approx(20 * np.linalg.norm(centre[3] - centre[2])) and slow.unit == "m/s"
    assert slow.goals[0][0] == pytest.approx(0.2)
    (take,) = takes(problem, run, run)
    goal = next(layer for layer in take.layers if layer.name == "goal of corners")
    assert goal.positions.tolist() == [[[0.3, 0.4, 0.1]]]
    assert sum(layer.trail and layer.name.startswith("centre") for layer in take.layers) == 2


def test_measures_over_time(tmp_path):
    problem = sheet(tmp_path, SHEET.replace("experiments:", MEASURES))
    run = problem.simulate()
    shown, corners = tracks(problem, run, None)
    found = problem.measure(run["one"])
    assert found["sag"]["unit"] == "m" and found["ring"]["unit"] == "Hz"
    assert shown.after[3:, 0, 0].mean() == pytest.approx(found["sag"]["simulated"], rel=1e-9)
    assert "sag" in shown.headings[0] and " mm" in shown.headings[0] and "ring" in shown.headings[0]
    assert shown.axes == ("mean of corners, along gravity",) and corners.about.startswith("markers corners")


def test_the_player_begins_with_the_start(tmp_path):
    problem = sheet(tmp_path)
    run = problem.simulate()
    (take,) = takes(problem, run, run)
    (data,) = player_data([take])
    assert data["begin"] == 0 and data["interval"] == pytest.approx(1 / 20) and data["frames"] == 5
    before = take.layers[0]
    np.testing.assert_allclose(before.positions[0], run["one"].start)
    np.testing.assert_allclose(before.positions[1:], run["one"].positions)
    assert (
        [layer.side for layer in take.layers[:2]] == ["before", "after"]
        and before.dots is None
        and before.point_size == 0
    )


def test_dots_only_where_there_is_no_surface():
    """A solid is its skin, a chain has beads; the pinned end of the chain is within the first view."""
    problem = sim.load_scene(ROOT / "scenes" / "throw.yaml", {"time.duration": 0.04}).build(dtype=sim.float64)
    (take,) = takes(problem, problem.simulate(), None)
    body = take.layers[0]
    assert (
        body.point_size == 0
        and body.triangles is not None
        and body.positions.shape[1] == len(np.unique(body.triangles))
    )
    problem = sim.load_scene(ROOT / "scenes" / "chain.yaml", {"time.duration": 0.1}).build(dtype=sim.float64)
    (take,) = takes(problem, problem.simulate(), None)
    assert take.layers[0].point_size > 0 and take.layers[0].dots.tolist() == list(range(6))
    (data,) = player_data([take])
    assert data["box"][1][1] == 0.0  # the upper end


def test_what_a_page_leaves_out_is_said():
    frames, markers = 1300, 40
    after = np.random.default_rng(0).normal(size=(frames, markers, 3))
    data = track_data(Track("e", "m", np.arange(frames) / 100, after, measured=np.zeros_like(after)))
    assert data["shape"] == [434, MOST_MARKERS, 3] and data["times"][1] == pytest.approx(0.03)
    assert "24 worst of 40" in data["note"] and "one frame in 3" in data["note"]
    assert track_data(Track("e", "m", np.arange(3.0), after[:3, :2]))["note"] == ""


@pytest.mark.parametrize(
    "size, unit, shown",
    [
        (0.4, "m", "mm"),
        (2.0, "m", "m"),
        (3e-5, "m", "µm"),
        (1e-13, "m", "nm"),
        (0.0, "m", "m"),
        (0.02, "m/s", "mm/s"),
        (5.0, "Pa", "Pa"),
    ],
)
def test_units_that_values_are_shown_in(size, unit, shown):
    assert shown_unit(size, unit)[1] == shown


def test_surfaces_are_coloured_by_what_was_found(tmp_path):
    """A value by element is shown at the points: the geometric mean of what meets there, where it was sought as a
    logarithm."""
    of = "objects.sheet.cloth.material.distance.compliance"
    text = SHEET.replace(f"of: {of}, transform", f"of: {of}, per: element, transform")
    problem = sheet(tmp_path, text)
    run = problem.simulate()
    assert takes(problem, run, run)[0].layers[1].tints == []  # all alike
    group = problem.model.groups["sheet"]
    edges = group.elements["distance"]
    values = np.where((edges < 8).all(axis=1), 0.01, 0.04)
    problem.model["sheet.distance.compliance"].assign(values)
    (take,) = takes(problem, run, run)
    (tint,) = take.layers[1].tints
    expected = [np.exp(np.log(values[(edges == point).any(axis=1)]).mean()) for point in range(16)]
    np.testing.assert_allclose(tint.values, expected, rtol=1e-12)
    data = player_data([take])[0]["layers"][1]["tints"][0]
    shares = np.frombuffer(base64.b64decode(data["values"]), "<u1") / 254
    back = data["low"] * (data["high"] / data["low"]) ** shares
    np.testing.assert_allclose(back, expected, rtol=0.01)
    assert (data["name"], data["unit"], data["log"]) == ("stretch", "m/N", True) and take.layers[0].tints == ()
