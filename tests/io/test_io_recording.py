"""Recordings: what is read back, what is interpolated, and what each unusable file is told."""

import pickle
import re

import numpy as np
import pytest

from sim.io.recording import Recording, RecordingError
from sim.io.recording_files import load_recording, write_recording


def take(frames=6, markers=2, rate=10.0, seed=0):
    positions = np.random.default_rng(seed).normal(size=(frames, markers, 3))
    return Recording(positions, np.arange(frames) / rate, tuple(f"m{i}" for i in range(markers)))


@pytest.mark.parametrize("name", ["take.npz", "take.csv"])
def test_round_trip_is_bit_for_bit_and_keeps_missing_markers(tmp_path, name):
    recording = take()
    recording.positions[2, 1] = np.nan
    path = write_recording(tmp_path / name, fabric=recording)
    back = load_recording(path, "fabric" if name.endswith("npz") else None)
    np.testing.assert_array_equal(back.positions, recording.positions)
    np.testing.assert_array_equal(back.time, recording.time)
    assert back.labels == ("m0", "m1") and back.unseen == 1
    assert [file.name for file in tmp_path.iterdir()] == [name]  # no temporary file stays


def test_an_archive_may_hold_several_recordings(tmp_path):
    path = write_recording(tmp_path / "t.npz", a=take(seed=1), b=take(markers=5, seed=2))
    assert load_recording(path, "b").marker_count == 5
    np.testing.assert_array_equal(load_recording(path, "a").positions, take(seed=1).positions)


def test_rate_unit_and_the_only_key(tmp_path):
    positions = np.arange(24.0).reshape(4, 2, 3)
    np.savez(tmp_path / "t.npz", beam=positions.astype(np.float32), labels=np.array(["tip", "base"]))
    recording = load_recording(tmp_path / "t.npz", rate=100.0, unit=0.001)
    np.testing.assert_allclose(recording.positions, positions / 1000, rtol=1e-6)
    np.testing.assert_allclose(recording.time, [0, 0.01, 0.02, 0.03])
    assert recording.labels == ("tip", "base")


def test_sampling_of_a_line_is_exact_at_frames():
    recording = take(rate=60.0, frames=7)
    velocity = np.array([1.0, -2.0, 3.0])
    line = Recording(recording.time[:, None, None] * velocity, recording.time)
    np.testing.assert_allclose(line.sample([0.013, 0.0501])[:, 0], np.outer([0.013, 0.0501], velocity), atol=1e-15)
    summed = np.cumsum(np.full(6, 1 / 60))  # rounds differently from k / 60
    np.testing.assert_array_equal(recording.sample(summed), recording.positions[1:])


def test_sampling_is_exact_for_cubics_between_any_four_frames():
    """A straight line cut corners: a swinging chain recorded at 50 Hz, half a frame beside the simulation, was found
    .7 % too stiff and 3 % too damped, four times its standard errors."""
    rng = np.random.default_rng(3)
    time = 0.02 * (np.arange(12) + rng.uniform(-0.2, 0.2, 12))
    powers = np.polynomial.polynomial.polyval
    x = powers(time, rng.normal(size=(4, 6)) * [[1], [10], [100], [1000]]).T.reshape(12, 2, 3)
    times = rng.uniform(time[1], time[-2], 40)
    line = Recording(x, time)
    wanted = np.stack([np.polynomial.Polynomial.fit(time, x[:, m, a], 3)(times) for m in range(2) for a in range(3)], 1)
    np.testing.assert_allclose(line.sample(times).reshape(40, 6), wanted, atol=1e-12)


def test_sampling_beside_gaps_and_uneven_frames():
    """Three frames are exact for parabolas; one just beside another would make noise larger, and is left out."""
    time = np.arange(6.0)
    parabola = Recording(np.stack([time, time**2, 0 * time], -1)[:, None], time)
    parabola.positions[1] = np.nan
    np.testing.assert_allclose(parabola.sample([2.5, 4.7])[:, 0, 1], [6.25, 22.09])
    uneven = np.array([0.0, 0.01, 1.01, 2.01])
    noise = np.array([0.0, 1.0, 0.0, 0.0])
    assert abs(Recording(noise[:, None, None] * np.ones(3), uneven).sample([0.5])[0, 0, 0]) < 1.0


def test_what_lies_between_frames_is_told():
    """Of sin(w t) the cubic through four frames an interval h apart is off by 3 (w h)^4 / 128 of its amplitude."""
    w, time = 12.0, np.arange(60) / 50
    swing = Recording(np.stack([np.sin(w * time), np.cos(w * time), 0 * time], -1)[:, None], time)
    assert swing.off_between_frames(time[3:9]) == 0.0
    off = np.sqrt(np.mean((swing.sample(time[4:-4] + 0.01)[:, 0, 0] - np.sin(w * (time[4:-4] + 0.01))) ** 2))
    # both axes swing, the third does not
    assert swing.off_between_frames(time[3:9] + 0.01) == pytest.approx(off * np.sqrt(2 / 3), rel=0.15)


def test_sampling_with_missing_markers():
    recording = take(frames=4, rate=1.0)
    recording.positions[1, 0] = np.nan
    seen = ~np.isnan(recording.sample([0.0, 0.5, 1.0, 1.5, 2.0, 2.5])[:, 0, 0])
    assert seen.tolist() == [True, False, False, False, True, True]
    assert not np.isnan(recording.sample([0.5, 1.5])[:, 1]).any()
    # one frame interval beyond the end is unseen, more is an error
    assert np.isnan(recording.sample([3.9])).all()
    with pytest.raises(RecordingError, match="ends at 3 s, the experiment needs 4.5 s"):
        recording.sample([4.5])


def test_half_seen_positions_count_as_unseen():
    positions = np.zeros((2, 1, 3))
    positions[1, 0, 2] = np.nan
    assert np.isnan(Recording(positions, np.arange(2.0)).positions[1]).all()


def test_start_by_frame_by_time_and_between_frames(tmp_path):
    recording = take(frames=6, rate=10.0)
    path = write_recording(tmp_path / "t.npz", k=recording)
    by_frame = load_recording(path, "k", start="frame 2")
    by_time = load_recording(path, "k", start=0.2)
    by_mapping = load_recording(path, "k", start={"frame": 2})
    for other in (by_frame, by_time, by_mapping):
        np.testing.assert_array_equal(other.positions, recording.positions[2:])
        np.testing.assert_allclose(other.time, [0, 0.1, 0.2, 0.3], atol=1e-15)
    between = load_recording(path, "k", start=0.25)
    inner, outer = recording.positions[2:4].sum(axis=0), recording.positions[[1, 4]].sum(axis=0)
    np.testing.assert_allclose(between.positions[0], (9.0 * inner - outer) / 16.0)
    np.testing.assert_allclose(between.time, [0, 0.05, 0.15, 0.25], atol=1e-15)
    assert load_recording(path, "k", start="frame 1", duration=0.25).frame_count == 4  # one behind, to interpolate


def test_without_start_the_clock_of_the_file_counts(tmp_path):
    recording = Recording(np.ones((3, 1, 3)), np.array([0.1, 0.2, 0.3]))  # first frame recorded after a first step
    path = write_recording(tmp_path / "t.npz", k=recording)
    np.testing.assert_array_equal(load_recording(path, "k").time, recording.time)


def test_axes_and_marker_choice(tmp_path):
    recording = take(markers=3)
    path = write_recording(tmp_path / "t.npz", k=recording)
    turned = load_recording(path, "k", axes=["z", "-y", "x"], markers=[2, "m0"])
    x, y, z = np.moveaxis(recording.positions[:, [2, 0]], -1, 0)
    np.testing.assert_array_equal(turned.positions, np.stack([z, -y, x], axis=-1))
    assert turned.labels == ("m2", "m0")
    mirrored = load_recording(path, "k", axes=["-x", "y", "z"], mirror=True)
    np.testing.assert_array_equal(mirrored.positions, recording.positions * [-1, 1, 1])


def _write_npz(path, **arrays):
    np.savez(path / "t.npz", **arrays)


def _write_csv(path, text):
    (path / "t.csv").write_text(text)


GOOD = np.zeros((4, 2, 3))
BAD_ARCHIVES = [  # (arrays, arguments, what, hint)
    ({"fabric": GOOD}, {"key": "fabrik", "rate": 1.0}, "no array `fabrik`", "did you mean `fabric`"),
    ({"a": GOOD, "b": GOOD}, {"rate": 1.0}, "several arrays", "a, b"),
    ({"a": np.zeros(3)}, {"rate": 1.0}, "no array of the shape", "arrays: a"),
    ({"k": np.zeros((4, 2))}, {"rate": 1.0}, "shape (4, 2), expected (frames, markers, 3)", "(frames, 1, 3)"),
    ({"k": np.zeros((4, 2, 2))}, {"rate": 1.0}, "shape (4, 2, 2)", ""),
    ({"k": np.zeros((0, 2, 3))}, {"rate": 1.0}, "empty: 0 frames of 2 markers", ""),
    ({"k": np.zeros((4, 0, 3))}, {"rate": 1.0}, "empty: 4 frames of 0 markers", ""),
    ({"k": np.full((4, 2, 3), np.nan)}, {"rate": 1.0}, "all positions are NaN", ""),
    ({"k": np.full((4, 2, 3), np.inf)}, {"rate": 1.0}, "marker 0 is infinite in frame 0", "NaN"),
    ({"k": GOOD.astype(str)}, {"rate": 1.0}, "expected real numbers", ""),
    ({"k": GOOD}, {}, "no times (`k_time`) and no rate", "rate: 100 Hz"),
    ({"k": GOOD}, {"rate": 0.0}, "expected a positive number", ""),
    ({"k": GOOD, "k_time": np.arange(3.0)}, {}, "3 times (shape (3,)) for 4 frames", ""),
    ({"k": GOOD, "k_time": np.array([0.0, 2, 1, 3])}, {}, "time of frame 2 (1 s) does not come after", ""),
    ({"k": GOOD, "k_time": np.array([0.0, 1, 2, np.inf])}, {}, "time of frame 3 (inf s)", ""),
    ({"k": GOOD, "k_time": np.array(list("abcd"))}, {}, "`k_time` has the type", ""),
    (
        {"k": GOOD, "k_time": np.arange(4.0)},
        {"rate": 100.0},
        "`rate` is 100 Hz, but `k_time` in the file says 1 Hz",
        "leave",
    ),
    ({"k": GOOD, "k_labels": np.array(["a"])}, {"rate": 1.0}, "1 labels for 2 markers", ""),
    ({"k": np.array([None])}, {"key": "k", "rate": 1.0}, "pickled Python objects", "plain numeric arrays"),
    ({"k": GOOD}, {"rate": 1.0, "duration": 9.0}, "lasts 3 s from its start, the experiment 9 s", "time.duration"),
    ({"k": GOOD}, {"rate": 1.0, "start": "frame 4"}, "start is frame 4, but the recording has 4 frames", "from 0"),
    ({"k": GOOD}, {"rate": 1.0, "start": "4th"}, "start is `4th`", "start: frame 71"),
    ({"k": GOOD}, {"rate": 1.0, "start": 99.0}, "start 99 s lies outside of the recording (0 to 3 s)", ""),
    (
        {"k": GOOD},
        {"rate": 1.0, "marker_count": 40},
        "has 2 markers, the scene compares 40",
        "markers: {name: [columns]}",
    ),
    ({"k": GOOD}, {"rate": 1.0, "markers": [2]}, "no marker column 2: the recording has 2 markers", "0 to 1"),
    ({"k": GOOD}, {"rate": 1.0, "markers": ["7"]}, "no marker `7`", "markers: 0, 1"),
    ({"k": GOOD}, {"rate": 1.0, "markers": [0, 0]}, "chosen twice", ""),
    ({"k": GOOD}, {"rate": 1.0, "markers": []}, "choice of markers is empty", ""),
    ({"k": GOOD}, {"rate": 1.0, "axes": ["x", "x", "z"]}, "expected each of x, y, z once", "[z, -y, x]"),
    ({"k": GOOD}, {"rate": 1.0, "axes": ["y", "x", "z"]}, "mirror image", "mirror: true"),
]


@pytest.mark.parametrize("arrays, arguments, what, hint", BAD_ARCHIVES, ids=[row[2] for row in BAD_ARCHIVES])
def test_unusable_archives(tmp_path, arrays, arguments, what, hint):
    _write_npz(tmp_path, **arrays)
    with pytest.raises(RecordingError, match=re.escape(what)) as caught:
        load_recording(tmp_path / "t.npz", **{"key": "k" if "k" in arrays else None, **arguments})
    assert hint in caught.value.hint
    assert str(tmp_path / "t.npz") in caught.value.what


def test_a_pickle_is_never_executed(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    with open(tmp_path / "t.npz", "wb") as file:
        pickle.dump(Trap(), file)
    with pytest.raises(RecordingError):
        load_recording(tmp_path / "t.npz", "k", rate=1.0)
    np.savez(tmp_path / "u.npz", k=np.array([Trap()], dtype=object))
    with pytest.raises(RecordingError, match="pickled"):
        load_recording(tmp_path / "u.npz", "k", rate=1.0)
    assert not (tmp_path / "executed").exists()


def test_missing_empty_cut_and_foreign_files(tmp_path):
    path = write_recording(tmp_path / "take.npz", k=take(frames=200))
    with pytest.raises(RecordingError, match="no such file") as caught:
        load_recording(tmp_path / "tak.npz", "k")
    assert "did you mean `take.npz`" in caught.value.hint
    (tmp_path / "empty.npz").write_bytes(b"")
    with pytest.raises(RecordingError, match="the file is empty"):
        load_recording(tmp_path / "empty.npz", "k")
    content = path.read_bytes()
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(RecordingError, match="damaged"):
        load_recording(tmp_path / "cut.npz", "k")
    flipped = bytearray(content)
    flipped[2000] ^= 255
    (tmp_path / "flipped.npz").write_bytes(bytes(flipped))
    with pytest.raises(RecordingError, match="damaged"):
        load_recording(tmp_path / "flipped.npz", "k")
    np.save(tmp_path / "single.npy", GOOD)
    with pytest.raises(RecordingError, match="single array"):
        load_recording(tmp_path / "single.npy", "k")
    (tmp_path / "take.mat").write_bytes(b"something else")
    with pytest.raises(RecordingError, match="unknown kind of recording `.mat`"):
        load_recording(tmp_path / "take.mat", "k")
    with pytest.raises(RecordingError, match="cannot read"):
        load_recording(tmp_path, "k")


BAD_CSV = [
    ("", "the file is empty"),
    ("\n\n", "the file is empty"),
    ("time,tip,base\n0,1,2\n", "line 1: the header is"),
    ("time,a.x,a.y\n0,1,2\n", "line 1: the header has x and y of `a`, and no z"),
    ("t,a.x,a.y,a.z\n0,1,2,3\n", "line 1: the column `t` names no unit"),
    ("time,b.x,b.y,c.z\n0,1,2,3\n", "line 1: the header has x and y of `b`, and no z"),
    ("time,a.x,a.y,a.z,a.x,a.y,a.z\n0,1,2,3,1,2,3\n", "twice"),
    ("time,a.x,a.y,a.z\n0,1,2,3\n1,1,2\n", "line 3: 3 cells, the header has 4"),
    ("time,a.x,a.y,a.z\n\n0,1,2,3\n1,1,two,3\n", "line 4: `two` is not a number, under `a.y`"),
    ("time,a.x,a.y,a.z\n", "empty: 0 frames"),
    ("time,a.x,a.y,a.z\n,1,2,3\n", "time of frame 0"),
    ("a.x,a.y,a.z\n1,2,3\n", "no rate"),
]


@pytest.mark.parametrize("text, what", BAD_CSV, ids=[row[1] for row in BAD_CSV])
def test_unusable_csv(tmp_path, text, what):
    _write_csv(tmp_path, text)
    with pytest.raises(RecordingError, match=re.escape(what)):
        load_recording(tmp_path / "t.csv")


def test_csv_as_spreadsheets_write_it(tmp_path):
    (tmp_path / "t.csv").write_bytes(
        b"\xef\xbb\xbftime, tip.x, tip.y, tip.z\r\n0, 1, 2, 3\r\n0.5, , , \r\n1, 3, 2, 1\r\n"
    )
    recording = load_recording(tmp_path / "t.csv")
    assert recording.labels == ("tip",) and recording.unseen == 1
    np.testing.assert_array_equal(recording.positions[[0, 2], 0], [[1, 2, 3], [3, 2, 1]])


def test_writing_refuses_what_a_file_cannot_hold(tmp_path):
    with pytest.raises(ValueError, match="one recording"):
        write_recording(tmp_path / "t.csv", a=take(), b=take())
    with pytest.raises(ValueError, match="nothing to write"):
        write_recording(tmp_path / "t.npz")
    assert not list(tmp_path.iterdir())
