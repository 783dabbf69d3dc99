"""`simopt import` of recordings: what it says of them, what it writes, what it leaves alone when something is wrong."""

import json

import numpy as np
import pytest
from tools.files import foreign_recordings as foreign

from sim.cli import main
from sim.io import Recording, load_recording, write_recording
from sim.io.readers.about import gaps, longest_gap, motion_begins, noise, suggested_start

T = np.arange(100) / 50.0


def swung(noise=0.0, begins=0.6):
    """Two markers that rest until `begins`, then swing; frames 20 to 24 and 70 miss the second."""
    angle = np.where(T > begins, 1 - np.cos(4 * (T - begins)), 0.0)
    x = np.zeros((len(T), 2, 3))
    x[:, 0, 0], x[:, 1, 1] = 0.2 * angle, 1 + 0.1 * angle
    x += noise * np.random.default_rng(0).normal(size=x.shape)
    x[20:25, 1] = x[70, 1] = np.nan
    return Recording(x, T, ("tip", "base"))


def test_gaps_noise_and_the_start():
    take = swung(noise=1e-4)
    (gap,) = gaps(take)
    assert gap.label == "base" and gap.missing == 6 and gap.longest == pytest.approx(6 / 50)
    assert 0.9e-4 < noise(take) < 1.3e-4
    assert 31 <= motion_begins(take) <= 33 and suggested_start(take) == motion_begins(take) - 1
    early = swung(begins=0.45)  # motion begins in a gap: the last frame before it that saw all
    assert suggested_start(early) == 19
    assert motion_begins(Recording(np.ones((9, 1, 3)), np.arange(9.0))) is None
    unseen = np.array([True, True, False, True, False, False, True])
    assert longest_gap(unseen, np.arange(7.0)) == 2.0
    assert longest_gap(~np.ones(4, bool), np.arange(4.0)) == 0.0


def test_a_take_is_told_cut_and_written(tmp_path, capsys):
    write_recording(tmp_path / "take.csv", take=swung())
    out = tmp_path / "part.npz"
    assert main(["import", str(tmp_path / "take.csv"), "-o", str(out), "--from", "frame 10", "--to", "1500 ms"]) == 0
    said = capsys.readouterr().out
    for words in ("2: tip, base", "from 0 s to 1.3 s, 50 Hz", "4.55% of all positions", "`start: frame 21`",
                  "motion begins at frame 2", "base", "9.09%", "0.12", f"written: {out}"):  # fmt: skip
        assert words in said, (words, said)
    part, whole = load_recording(out), swung()
    np.testing.assert_array_equal(part.positions, whole.positions[10:76])
    assert part.labels == whole.labels and part.time[0] == 0.0
    assert main(["import", str(out), "--markers", "base", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (
        facts["markers"] == ["base"]
        and facts["gaps"][0]["missing"] == pytest.approx(6 / 66)
        and facts["start"] in (20, 21)
    )


def test_another_program_s_take(tmp_path, capsys):
    (tmp_path / "take.csv").write_text(foreign.motive_csv())
    assert main(["import", str(tmp_path / "take.csv")]) == 2
    assert "which of its axes points up\n  say which" in capsys.readouterr().err
    out = tmp_path / "take.npz"
    assert main(["import", str(tmp_path / "take.csv"), "--up", "z", "-o", str(out), "--markers", "base,tip"]) == 0
    said = capsys.readouterr().out
    assert "the file says Millimeters" in said and "x, z, -y are our x, y, z (as told)" in said and "Rigid Body" in said
    x, y, z = np.moveaxis(1e-3 * foreign.MM[:, ::-1], 2, 0)
    np.testing.assert_allclose(load_recording(out).positions, np.stack([x, z, -y], axis=2), atol=1e-12)


@pytest.mark.parametrize("more, what", [
    (["--markers", "tip,elbow"], "there is no marker `elbow`"),
    (["--from", "9 s"], "start 9 s lies outside of the recording"),
    (["--from", "frame x"], "start is `frame x`"),
    (["--from", "1", "--to", "0.5"], "--to is 0.5 s, and nothing lies before it"),
    (["--rate", "30"], "`rate` is 30 Hz, but `time` in the file says 50 Hz"),
    (["--axes", "x,z,y"], "mirror image"),
    (["--pose", "a=1"], "--pose of a recording"),
    (["-o", "take.mat"], "recordings are written as .npz or .csv"),
])  # fmt: skip
def test_nothing_is_written_where_something_is_wrong(tmp_path, capsys, monkeypatch, more, what):
    monkeypatch.chdir(tmp_path)
    write_recording("take.csv", take=swung())
    assert main(["import", "take.csv", *([] if "-o" in more else ["-o", "new.npz"]), *more]) == 2
    said = capsys.readouterr().err
    assert what in said and "\n  " in said and ("take.csv: " in said or "take.mat: " in said or "--to" in said)
    assert [path.name for path in tmp_path.iterdir()] == ["take.csv"]


@pytest.mark.parametrize("more", [["--unit", "kg"], ["--rate", "3 m"], ["--up", "north"], ["--to", "soon"]])
def test_words_that_are_no_arguments(tmp_path, capsys, more):
    with pytest.raises(SystemExit):
        main(["import", str(tmp_path / "take.csv"), *more])
    assert more[0] in capsys.readouterr().err
