"""Recordings of other programs: one take in every layout, what the file names, and what it has to be told."""

import re

import numpy as np
import pytest
from tools.files import foreign_recordings as foreign

from sim.io import RecordingError, load_recording
from sim.io.readers import FORMATS
from sim.io.recording_files import turned_up

M = 1e-3 * foreign.MM
TURNED = np.stack([M[..., 0], M[..., 2], -M[..., 1]], axis=2)  # z up to y up


@pytest.mark.parametrize("name", foreign.TEXTS)
def test_a_take_is_the_same_in_every_layout(tmp_path, name):
    path = tmp_path / name
    path.write_text(foreign.TEXTS[name]())
    told = {"unit": 1e-3, "rate": foreign.RATE} if name in foreign.UNNAMED else {}
    found = load_recording(path, up="z", **told)
    order = [next(k for k, label in enumerate(found.labels) if word in label) for word in foreign.LABELS]
    np.testing.assert_allclose(found.positions[:, order], TURNED, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.time, foreign.TIME, rtol=0, atol=1e-12)
    assert found.unseen == 1 and found.origin.axes == ("x", "z", "-y")
    assert found.origin.unit_from == "as told" if told else "the file says m" in found.origin.unit_from.lower()
    by_name = load_recording(path, axes=["x", "y", "z"], markers=[found.labels[order[1]]], **told)
    np.testing.assert_allclose(by_name.positions[:, 0], M[:, 1], atol=1e-12)


@pytest.mark.parametrize("name", foreign.TEXTS)
def test_what_a_file_does_not_name_is_asked_for(tmp_path, name):
    path = tmp_path / name
    path.write_text(foreign.TEXTS[name]())
    if name in foreign.UNNAMED:
        with pytest.raises(RecordingError, match="no rate\n.*--rate 100"):
            load_recording(path)
        with pytest.raises(RecordingError, match="names no unit of its lengths\n.*--unit mm"):
            load_recording(path, rate=50.0)
    with pytest.raises(RecordingError, match="which of its axes points up\n.*--up z"):
        load_recording(path, **({"unit": 1.0, "rate": 50.0} if name in foreign.UNNAMED else {}))


def test_what_was_told_comes_before_what_the_file_names(tmp_path):
    path = tmp_path / "take.trc"
    path.write_text(foreign.trc())
    found = load_recording(path, unit=1.0, up="y")
    np.testing.assert_allclose(found.positions, foreign.MM, atol=1e-12)
    assert any("its unit is mm; it is read as told" in note for note in found.origin.notes)
    with pytest.raises(RecordingError, match="both `axes` and `up`"):
        load_recording(path, axes=["x", "y", "z"], up="y")
    with pytest.raises(RecordingError, match="gravity points along none"):
        load_recording(path, up="y", world_up=None)


def test_six_axes_turn_up_without_a_mirror():
    for up in ("x", "y", "z", "-x", "-y", "-z"):
        for world in ("x", "y", "z", "-x", "-y", "-z"):
            axes = turned_up(up, world)
            ours = "xyz".index(world[-1])
            flipped = up.startswith("-") != world.startswith("-")
            assert axes[ours] == ("-" if flipped else "") + up[-1], (up, world)
            assert turned_up(up, up) == ("x", "y", "z")
    assert turned_up("z", "y") == ("x", "z", "-y") and turned_up("y", "z") == ("x", "-z", "y")


@pytest.mark.parametrize("name, change, what", [
    ("wide.csv", ("base_z (mm)", "base_z (m)"), "line 1: the columns name different units: `m` and `mm`"),
    ("wide.csv", ("base_z (mm)", "score"), "line 1: the header has x and y of `base`, and no z"),
    ("wide.csv", ("base_z (mm)", "tip_x (mm)"), "line 1: `tip_x (mm)` stands there twice"),
    ("wide.csv", ("time [ms]", "timestamp"), "line 1: the column `timestamp` names no unit"),
    ("long.csv", ("z [mm]", "height"), "line 1: there is no column z"),
    ("long.csv", ("t_ms", "at"), "line 1: there is neither a column `time` nor `frame`"),
    ("long.csv", ("20,tip", "0,tip"), "line 8: `tip` stands there a second time at t_ms 0"),
    ("motive.csv", ("Global", "Local"), "line 1: the positions are `Local`"),
    ("motive.csv", ("Millimeters", "Furlongs"), "the unit in the file is `Furlongs`, which is no known unit"),
    ("motive.csv", ("Marker,Marker", "Bone,Bone"), "no markers, but columns of the types `Bone`, `Marker`, `Rigid"),
    ("motive.csv", ("Frame,Time", "Image,Time"), "no row `Frame, Time (Seconds), ...`"),
    ("take.trc", ("PathFileType", "Path"), "line 1: `Path"),
    ("take.trc", ("\t2\tmm", "\t3\tmm"), "line 3: `3` markers are announced, line 4 names 2"),
    ("take.trc", ("tip\t\t\tbase", "tip\t\tbase\t"), "line 4: the names of the markers"),
    ("deeplabcut.csv", ("z,likelihood,x", "w,likelihood,x"), "line 3: `tip` has x, y, w, likelihood, and not x,"),
    ("sleap.csv", ("base,3", "base,2"), "two rows are of one frame and one track"),
])  # fmt: skip
def test_what_cannot_be_read_is_told_with_its_place(tmp_path, name, change, what):
    path = tmp_path / name
    text = foreign.TEXTS[name]()
    assert change[0] in text
    path.write_text(text.replace(*change, 1))
    with pytest.raises(RecordingError, match=re.escape(what)) as caught:
        load_recording(path, rate=50.0, up="y", **({"unit": 1.0} if name in foreign.UNNAMED else {}))
    assert str(path) in caught.value.what and caught.value.hint


def test_a_word_among_the_numbers(tmp_path):
    for name, make in foreign.TEXTS.items():
        lines = make().split("\n")
        sign = "\t" if name.endswith("trc") else ","
        cells = lines[-3].split(sign)
        k = 2 if name == "anipose.csv" else 3  # a coordinate
        cells[k] = "seen"
        lines[-3] = sign.join(cells)
        (tmp_path / name).write_text("\n".join(lines))
        with pytest.raises(RecordingError, match=rf"line {len(lines) - 2}: `seen` is not a number, under `\w+"):
            load_recording(tmp_path / name, unit=1.0, rate=foreign.RATE, up="y")


def test_every_format_has_a_name_and_suffixes_of_its_own():
    assert len({one.name for one in FORMATS}) == len(FORMATS)
    assert all(suffix.startswith(".") for one in FORMATS for suffix in one.suffixes)


# ------------------------------------------------------------------------------------------ C3D
@pytest.fixture
def c3d(tmp_path):
    pytest.importorskip("ezc3d", reason="the extra [c3d]")
    foreign.write_c3d(tmp_path / "take.c3d")
    return tmp_path / "take.c3d"


def test_c3d(c3d, tmp_path):
    found = load_recording(c3d)  # names its unit and what points up
    np.testing.assert_allclose(found.positions, TURNED, rtol=1e-6)
    np.testing.assert_allclose(found.time, foreign.TIME, atol=1e-12)
    assert found.labels == foreign.LABELS and found.unseen == 1
    assert found.origin.unit_from == "the file says mm" and "its z points up" in found.origin.axes_from
    assert any("`elbow`" in note for note in found.origin.notes) and any("`*12`" in note for note in found.origin.notes)
    foreign.write_c3d(tmp_path / "other.c3d", up=None)
    with pytest.raises(RecordingError, match="which of its axes points up"):
        load_recording(tmp_path / "other.c3d")


def test_a_damaged_c3d_takes_nothing_down(c3d):
    content = c3d.read_bytes()
    cases = [b"C3D?" * 400, content[:1100], content[:600] + bytes([255] * 200) + content[800:]]
    for case in cases:
        c3d.write_bytes(case)
        with pytest.raises(RecordingError, match="damaged|no C3D"):
            load_recording(c3d)


def test_without_the_library_an_error_says_what_to_install(c3d, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RecordingError, match=r"not installed\n.*pip install 'simopt-xpbd\[c3d\]'"):
        load_recording(c3d)
