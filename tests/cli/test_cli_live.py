"""`simopt run --live`: a page of this machine that shows a run while it goes on."""

import json
import urllib.error
import urllib.request

import numpy as np
import pytest
from tools.command import command
from tools.scenes.problems import SHEET, sheet, write_scene, write_target

from sim.cli import main
from sim.cli.terminal.page import PageWatcher
from sim.identify.run import Watcher
from sim.io import Layer, LivePage, Take


def fetch(url, host=None):
    request = urllib.request.Request(url, headers={} if host is None else {"Host": host})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.status, answer.read()


def take(name="one", frames=3):
    return Take(name, [Layer("dots", np.zeros((frames, 1, 3)), point_size=4)], times=0.1 * np.arange(frames))


@pytest.fixture
def page():
    served = LivePage("a <b> scene", "what it asks")
    yield served
    if not served.closed:
        served.close()


def test_the_page_and_what_is_new_on_it(page):
    status, text = fetch(page.url)
    assert status == 200 and b"a &lt;b&gt; scene" in text and b"startPlayer" in text
    assert fetch(f"{page.url}state?since=0")[0] == 204 and page.watched
    page.show([take(frames=1)])
    page.say({"iteration": 0, "loss": 2.0, "parameters": {"a": 1.0}})
    state = json.loads(fetch(f"{page.url}state?since=0")[1])
    assert state["version"] == 2 and [t["frames"] for t in state["takes"]] == [1] and not state["ended"]
    assert fetch(f"{page.url}state?since=2")[0] == 204
    page.say({"iteration": 1, "loss": 1.0, "parameters": {"a": 1.5}})
    state = json.loads(fetch(f"{page.url}state?since=2")[1])
    assert "takes" not in state and [e["iteration"] for e in state["entries"]] == [0, 1]
    page.show([take(frames=3)])
    assert [t["frames"] for t in json.loads(fetch(f"{page.url}state?since=3")[1])["takes"]] == [3]


@pytest.mark.parametrize(
    "path, host, status",
    [("state?since=x", None, 404), ("../etc", None, 404), ("report", None, 404), ("", "evil.example:80", 403)],
)
def test_nothing_else_is_served(page, path, host, status):
    with pytest.raises(urllib.error.HTTPError) as error:
        fetch(page.url + path, host)
    assert error.value.code == status


def test_the_end_is_the_report(page, tmp_path):
    (tmp_path / "report.html").write_text("the report")
    page.close(tmp_path / "report.html")  # nobody watches: it waits for nobody
    with pytest.raises(urllib.error.URLError):
        fetch(page.url)


def test_a_run_is_shown_until_its_report(tmp_path):
    write_target(tmp_path, SHEET, overrides={"objects.sheet.cloth.material.distance.compliance": 0.02})
    run = command("run", write_scene(tmp_path, SHEET), "--live", "--out", tmp_path / "run", "--iterations", 2)
    words = run.stderr.readline().split()
    assert words[0] == "live:"
    version, frames, ended = 0, [], False
    while not ended:
        status, text = fetch(f"{words[1]}state?since={version}")
        if status == 200:
            state = json.loads(text)
            version, ended = state["version"], state["ended"]
            frames += [t["frames"] for t in state.get("takes", [])]
    assert frames[0] in (1, 5) and frames[-1] == 5  # at the latest the first simulation: 4 frames and the start
    assert b"<!doctype html>" in fetch(f"{words[1]}report")[1]
    assert run.wait(30) == 0, run.stderr.read()


def test_a_run_is_the_same_with_its_page(tmp_path, capsys):
    found = []
    for name, more in (("with", ["--live"]), ("without", [])):
        folder = tmp_path / name
        folder.mkdir()
        write_target(folder, SHEET, overrides={"objects.sheet.cloth.material.distance.compliance": 0.02})
        assert (
            main(["run", str(write_scene(folder, SHEET)), "--out", str(folder / "run"), "--iterations", "2", *more])
            == 0
        )
        found.append(json.loads((folder / "run" / "result.json").read_text())["parameters"])
    assert found[0] == found[1]
    assert "live: http://127.0.0.1:" in capsys.readouterr().err


def test_copies_are_rare_where_nobody_watches(tmp_path):
    problem = sheet(tmp_path)
    watcher = PageWatcher(problem, Watcher())
    problem.onlooker = watcher
    assert not watcher.wants()  # no page yet
    watcher.page = LivePage("sheet")
    try:
        problem.value_and_grad(problem.start)
        assert watcher.last > 0 and not watcher.wants()
        seen = watcher.last
        problem.value_and_grad(problem.start)
        assert watcher.last == seen
    finally:
        watcher.close(None)
    assert problem.onlooker is None and watcher.page.closed
