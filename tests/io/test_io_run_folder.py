"""The run folder: atomic files, a log that survives a kill, a state that comes back bit for bit."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime

import numpy as np
import pytest

from sim.io import run_folder
from sim.io.run_folder import RunFolder, RunFolderError, default_run_path, environment, to_json, write_atomically


def test_state_comes_back_bit_for_bit(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    generator = np.random.default_rng(3)
    bits = generator.integers(0, 2**63, size=200, dtype=np.uint64).view(np.float64)
    arrays = {
        "x": bits,
        "f32": np.float32([0.1, -0.0, np.inf]),
        "file": np.zeros((0, 3)),  # a name that `np.savez` would refuse
        "a/b": np.arange(3),
    }
    meta = {"iteration": 7, "best": 0.1 + 0.2, "worst": float("inf"), "lost": float("nan"), "rate": np.float64(1 / 3),
            "history": [1e-300, 5e-324], "why": "été", "nested": {"none": None, "yes": True}}  # fmt: skip
    folder.save_state(arrays, meta)
    back, meta_back = RunFolder.open(folder.path).load_state()
    assert set(back) == set(arrays)
    for name, value in arrays.items():
        assert back[name].tobytes() == value.tobytes() and back[name].dtype == value.dtype
    assert np.isnan(meta_back.pop("lost")) and np.isnan(meta.pop("lost"))
    assert meta_back == meta
    with pytest.raises(TypeError, match="arrays"):
        folder.save_state({}, {"x": np.zeros(3)})
    with pytest.raises(TypeError, match="Python objects"):
        folder.save_state({"x": np.array([None])}, {})
    assert RunFolder.open(folder.path).load_state()[1] == meta_back | {"lost": pytest.approx(np.nan, nan_ok=True)}


def test_nothing_is_half_written(tmp_path, monkeypatch):
    path = write_atomically(tmp_path / "a.txt", "first")
    monkeypatch.setattr(run_folder.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "second")
    assert path.read_text() == "first" and [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_files_have_the_usual_permissions(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("")
    assert write_atomically(tmp_path / "a", "").stat().st_mode == plain.stat().st_mode


def test_log_is_strict_json_and_is_cut_on_resume(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    for i in range(6):
        folder.log({"iteration": i, "loss": np.float64("nan") if i == 2 else np.float32(i), "parameters": np.arange(2)})
    lines = (folder.path / "log.jsonl").read_text().splitlines()
    strict = [json.loads(line, parse_constant=lambda word: pytest.fail(word)) for line in lines]
    assert strict[2] == {"iteration": 2, "loss": None, "parameters": [0, 1]}
    with open(folder.path / "log.jsonl", "ab") as file:
        file.write('{"iteration": 6, "why": "é'.encode()[:-1])  # killed within a letter
    assert len(folder.read_log()) == 6
    assert [entry["iteration"] for entry in folder.truncate_log(3)] == [0, 1, 2, 3]
    folder.log({"iteration": 4})
    assert [entry["iteration"] for entry in folder.read_log()] == [0, 1, 2, 3, 4]


def test_a_damaged_log_says_where(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    (folder.path / "log.jsonl").write_text('{"iteration": 0}\nrubbish\n{"iteration": 1}\n')
    with pytest.raises(RunFolderError, match=r"log\.jsonl:2 is not a log entry"):
        folder.read_log()


KILLED = """
import sys, numpy as np
from sim.io.run_folder import RunFolder
folder = RunFolder.create(sys.argv[1])
for i in range(10**9):
    folder.log({"iteration": i})
    folder.save_state({"x": np.full(20000, i)}, {"iteration": i})
    print(i, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_run_loses_at_most_one_iteration(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while int(process.stdout.readline()) < 5:
        pass
    process.send_signal(signal.SIGKILL)
    printed = [int(line) for line in process.stdout.read().split()]
    process.wait()
    finished = printed[-1] if printed else 5
    folder = RunFolder.open(tmp_path / "run")
    arrays, meta = folder.load_state()
    assert meta["iteration"] >= finished and (arrays["x"] == meta["iteration"]).all()
    assert [entry["iteration"] for entry in folder.truncate_log(meta["iteration"])] == list(
        range(meta["iteration"] + 1)
    )


def test_a_folder_with_a_run_is_refused(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    RunFolder.create(tmp_path / "run")  # still empty: fine
    folder.write_json("result.json", {"loss": 1.0})
    with pytest.raises(RunFolderError, match="already holds a run") as caught:
        RunFolder.create(tmp_path / "run")
    assert "--resume" in caught.value.hint


def test_unwritable_places_are_refused_and_left_as_they_were(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="is a file"):
        RunFolder.create(tmp_path / "file")
    with pytest.raises(RunFolderError, match="cannot write into"):
        RunFolder.create(tmp_path / "file" / "run")

    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(run_folder.tempfile, "TemporaryFile", refuse)  # as root, permissions would not refuse
    with pytest.raises(RunFolderError, match="Permission denied"):
        RunFolder.create(tmp_path / "a" / "b" / "run")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_opening_what_is_not_a_run(tmp_path):
    with pytest.raises(RunFolderError, match="no run folder"):
        RunFolder.open(tmp_path / "absent")
    with pytest.raises(RunFolderError, match="no saved state"):
        RunFolder.open(tmp_path)
    (tmp_path / "state.npz").write_bytes(b"PK\x03\x04 rubbish")
    with pytest.raises(RunFolderError, match="not a saved state"):
        RunFolder.open(tmp_path).load_state()
    np.savez(tmp_path / "state.npz", x=np.zeros(3))
    with pytest.raises(RunFolderError, match="not a saved state"):
        RunFolder.open(tmp_path).load_state()


def test_files_stay_inside(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    assert folder.write_text("deep/inside.txt", "x").read_text() == "x"
    with pytest.raises(RunFolderError, match="leads out"):
        folder.write_text("../outside.txt", "x")
    assert not (tmp_path / "outside.txt").exists()


def test_npz_is_readable_by_numpy(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    path = folder.write_npz("trajectory.npz", {"x": np.arange(6.0).reshape(2, 3).T, "names": np.array(["a", "b"])})
    with np.load(path, allow_pickle=False) as file:
        np.testing.assert_array_equal(file["x"], np.arange(6.0).reshape(2, 3).T)
        assert file["names"].tolist() == ["a", "b"]


def test_default_path(tmp_path):
    now = datetime(2026, 11, 20, 6, 30, 5, tzinfo=UTC)
    first = default_run_path("my scene/../x", tmp_path, now)
    assert first.parent.parent == tmp_path and first.name == "2026-11-20T063005Z"
    first.mkdir(parents=True)
    assert default_run_path("my scene/../x", tmp_path, now).name == "2026-11-20T063005Z-2"
    assert default_run_path("..", tmp_path, now).parent == tmp_path / "scene"


def test_environment_is_json_and_names_versions():
    data = json.loads(to_json(environment("cpu", "float64")))
    assert data["device"] == "cpu" and data["dtype"] == "float64" and data["versions"]["numpy"] == np.__version__


def test_json_refuses_what_it_cannot_hold():
    assert to_json({"a": [np.inf, np.int8(3), np.bool_(True)], 1: (2.5,)}) == '{"a": [null, 3, true], "1": [2.5]}'
    with pytest.raises(TypeError, match="cannot be written as JSON"):
        to_json({"a": object()})
