"""Many starts: what is done is not done again, lost workers cost nothing, and the result is the same bytes."""

import io
import json
import math
import multiprocessing
import os
import pickle
import shutil
import signal
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console

from sim.cli.command import main
from sim.cli.many.board import TaskBoard
from sim.identify import Ensemble, ensemble
from sim.identify.many.ensemble import Member
from sim.identify.many.pool import TaskFailed, run_tasks
from sim.identify.many.tasks import Task
from sim.scene import load_scene

SCENES = Path(__file__).parents[3] / "scenes"
STARTS = 3


@pytest.fixture(scope="module")
def chain():
    return load_scene(SCENES / "chain.yaml")


@pytest.fixture(scope="module")
def serial(chain, tmp_path_factory):
    folder = tmp_path_factory.mktemp("serial")
    return ensemble(chain, STARTS, folder=folder)


class Mortal(Executor):
    """Runs at once, in this process; dies at given calls, before or after the work is done."""

    def __init__(self, dies):
        self.dies, self.dead = dies, False

    def submit(self, fn, /, *args, **kwargs):
        if self.dead:
            raise BrokenProcessPool("dead")
        future, how = Future(), self.dies.pop(0) if self.dies else ""
        if how:
            args[0].folder.mkdir(parents=True, exist_ok=True)
            if how == "after":
                fn(*args, **kwargs)
            self.dead = True
            future.set_exception(BrokenProcessPool("killed"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        self.dead = True


def test_all_starts_find_the_one_optimum(serial):
    assert [m.start for m in serial.members] == [0, 1, 2]
    assert len(serial.clusters()) == 1 and len(serial.clusters()[0]) == STARTS
    assert all(math.isclose(m.found["compliance"], 0.01, rel_tol=1e-3) for m in serial.members)
    assert serial.members[0].begun["compliance"] == pytest.approx(0.05)
    assert len({m.begun["compliance"] for m in serial.members}) == STARTS


def test_lost_workers_leave_the_same_bytes(chain, serial, tmp_path):
    # As a worker that wrote its log, and died before its state: it begins anew.
    (tmp_path / "starts" / "002").mkdir(parents=True)
    (tmp_path / "starts" / "002" / "log.jsonl").write_text('{"iteration": 0, "lo')
    deaths, made = ["before", "", "after"], []

    def make():
        made.append(Mortal(deaths))
        return made[-1]

    ensemble(chain, STARTS, make, tmp_path)
    assert len(made) > 1
    assert (tmp_path / "ensemble.json").read_bytes() == (serial.folder / "ensemble.json").read_bytes()


def test_what_is_done_is_not_done_again(chain, serial, tmp_path):
    shutil.copytree(serial.folder, tmp_path / "again")
    stamp = (tmp_path / "again" / "starts" / "001" / "result.json").stat().st_mtime_ns
    shutil.rmtree(tmp_path / "again" / "starts" / "000")
    ensemble(chain, STARTS, folder=tmp_path / "again")
    assert (tmp_path / "again" / "starts" / "001" / "result.json").stat().st_mtime_ns == stamp
    assert (tmp_path / "again" / "ensemble.json").read_bytes() == (serial.folder / "ensemble.json").read_bytes()


def test_a_worker_that_always_dies_is_an_error(chain, tmp_path):
    with pytest.raises(TaskFailed, match="start 0 lost its worker 2 times"):
        ensemble(chain, 1, lambda: Mortal(["before"]), tmp_path / "a", retries=1)
    with pytest.raises(TaskFailed, match="the executor is broken"):
        ensemble(chain, 1, Mortal(["before"]), tmp_path / "b")


def test_a_scene_goes_to_other_processes_as_text(chain):
    there = pickle.loads(pickle.dumps(chain))
    assert there.resolved_yaml() == chain.resolved_yaml() and there.path == chain.path.resolve()


def test_optima_are_told_apart():
    def member(start, k, loss):
        return Member(start, {"k": 1.0}, {"k": k}, 5.0, loss, 3, "gradient", Path("x"))

    many = Ensemble(
        (member(0, 1.0, 2.0), member(1, 3.0, 1.0), member(2, 3.001, 1.0001), member(3, 9.0, math.nan)), Path()
    )
    assert [[m.start for m in group] for group in many.clusters()] == [[1, 2], [0]]
    assert [m.start for m in many.waterfall()] == [1, 2, 0, 3] and many.best.start == 1
    assert len(many.clusters(rtol=1e-5)) == 3


def test_starts_and_sweeps_from_the_command_line(tmp_path, capsys):
    scene = str(SCENES / "chain.yaml")
    assert main(["run", scene, "--starts", "2", "--out", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out
    assert "2 starts, 1 optima" in shown and "best of 2 starts" in shown
    assert (tmp_path / "run" / "ensemble.html").exists() and (tmp_path / "run" / "result.json").exists()
    vary = ["--vary", "solver.xpbd.iterations=4,8", "--set", "optimize.stop.gradient=1e-3"]
    assert main(["--json", "sweep", scene, *vary, "--out", str(tmp_path / "sweep")]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["values"]["solver.xpbd.iterations"] for row in rows] == ["4", "8"]
    assert all(abs(row["numbers"]["compliance"] / 0.01 - 1) < 0.05 for row in rows)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run", "chain.yaml", "--on", "local:2"], "give --starts"),
        (["run", "chain.yaml", "--starts", "2", "--on", "cloud"], "`cloud` is no engine"),
        (["sweep", "chain.yaml", "--vary", "a=1..x:3"], "is no range"),
        (["sweep", "chain.yaml", "--vary", "a="], "varies nothing"),
        (["sweep", "chain.yaml", "--vary", "time.sps=1,2"], "sps"),
    ],
)
def test_what_is_written_wrong_is_told(arguments, text, capsys):
    arguments = [str(SCENES / word) if word == "chain.yaml" else word for word in arguments]
    try:
        status = main(arguments)
    except SystemExit as stop:
        status = stop.code
    assert status == 2 and text in capsys.readouterr().err


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A scene whose searches take many iterations, and what they find one after the other."""
    scene = load_scene(SCENES / "chain.yaml", overrides=["optimize.adam.iterations=12"])
    return scene, ensemble(scene, STARTS, folder=tmp_path_factory.mktemp("long"))


def states(folder):
    """When the searches below a folder were saved last."""
    return {path: path.stat().st_mtime_ns for path in folder.glob("starts/*/state.npz")}


@pytest.mark.slow
def test_workers_killed_again_and_again_leave_the_same_bytes(long, tmp_path):
    """As soon as an iteration more is saved: a machine may need long to begin."""
    scene, alone = long
    pools, stop, kills = [], threading.Event(), []

    def make():
        pools.append(ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("forkserver")))
        return pools[-1]

    def kill():
        known = {}
        while not stop.wait(0.05):
            workers = list((pools[-1]._processes or {}) if pools else ())
            if workers and states(tmp_path) != known:
                with suppress(ProcessLookupError):  # it has just ended by itself
                    os.kill(workers[0], signal.SIGKILL)
                    kills.append(workers[0])
                known = states(tmp_path)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        ensemble(scene, STARTS, make, tmp_path, retries=1000)
    finally:
        stop.set()
        killer.join()
    assert len(kills) >= 3 and len(set(kills)) == len(kills)
    assert (tmp_path / "ensemble.json").read_bytes() == (alone.folder / "ensemble.json").read_bytes()


@pytest.mark.slow
def test_dask_survives_a_killed_worker(long, tmp_path):
    distributed = pytest.importorskip("distributed")
    scene, alone = long
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            stop, kills = threading.Event(), []

            def kill():
                while not kills and not stop.wait(0.5):
                    if states(tmp_path):
                        busy = [k for k, tasks in client.processing().items() if tasks]
                        pids = client.run(os.getpid)
                        os.kill(pids[busy[0]], signal.SIGKILL)
                        kills.append(pids[busy[0]])

            killer = threading.Thread(target=kill)
            killer.start()
            try:
                ensemble(scene, STARTS, client.get_executor(pure=False), tmp_path, retries=20)
            finally:
                stop.set()
                killer.join()
    assert kills
    assert (tmp_path / "ensemble.json").read_bytes() == (alone.folder / "ensemble.json").read_bytes()


def test_a_table_of_all_starts_says_how_far_each_is(chain, serial, tmp_path):
    shutil.copytree(serial.folder / "starts" / "001", tmp_path / "done")
    for name, log in (("runs", '{"iteration": 4, "loss": 2.5, "wall_s": 1.0}\n{"iterat'), ("begins", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.jsonl").write_text(log)
    tasks = [Task(chain, tmp_path / name) for name in ("done", "runs", "begins", "waits")]
    board = TaskBoard()
    board(tasks)
    rows, done = board.rows()
    assert done == 1 and [row[:3] for row in rows[:2]] == [("runs", "runs", "4"), ("begins", "begins", "")]
    assert rows[2][0] == "done" and float(rows[2][3]) == pytest.approx(serial.members[1].loss, rel=1e-4)
    shown = Console(width=100, record=True, file=io.StringIO())
    shown.print(board.table())
    assert "1 of 4 done" in shown.export_text() and "waits" not in shown.export_text()


def test_it_is_told_of_all_tasks_before_the_first_one(chain, tmp_path):
    seen = []
    run_tasks([Task(chain, tmp_path / "a", iterations=1)], progress=lambda tasks: seen.append(tasks[0].result))
    assert seen[0] is None and seen[-1] is not None
