"""Mutation testing: which one-line changes of a file do its tests not notice?

    .venv/bin/python scripts/mutate.py sim/core/lang/instrument/races.py --sample 60 --seed 1

Each mutant (`mutants.py`) runs in a copy of the tree, in a forked process with limits of time and memory: first the
tests that execute its lines, from the fastest on, then the other tests of its file.  It is killed by the first that
fails.  Survivors are printed as `file:line  function: before -> after`.  `mutation.yaml` beside this file says which
tests belong to a file, and which mutants are equivalent, each with the reason.

Compiled kernels are shared between mutants, since their key is the LLVM text that they are made from; mutants of what
turns the text into code (`OWN_CACHE`) compile into an empty cache each.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import llvmlite.binding  # noqa: F401  what every child needs is imported once, here
import numpy  # noqa: F401
import pytest
import yaml
from mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parent.parent
MAP = Path(__file__).with_name("mutation.yaml")
OWN_CACHE = (
    "sim/core/backends/cache.py",
    "sim/core/backends/llvm/machine_code/toolchain.py",
    "sim/core/backends/objects.py",
)
MEMORY = 8 << 30
"""Bytes of private memory of a child."""


@dataclass
class Coverage:
    """What a file's tests execute of it: test -> lines (of its import: all tests), seconds of each test, and of all.

    kills: how many mutants a test has killed so far.
    """

    lines: dict[str, set[int]] = field(default_factory=dict)
    imported: set[int] = field(default_factory=set)
    seconds: dict[str, float] = field(default_factory=dict)
    total: float = 0.0
    kills: Counter[str] = field(default_factory=Counter)

    def order(self, mutant: Mutant, limit: float) -> tuple[list[str], list[str]]:
        """The tests that execute a mutant's lines, and the others: most kills, then fastest, up to `limit` seconds."""
        touched = set(range(mutant.line, mutant.last + 1))
        tests = sorted(self.lines, key=lambda t: (-self.kills[t], self.seconds[t]))
        hit = [t for t in tests if touched & self.lines[t]]
        if touched & self.imported or not hit:  # kernels are compiled from their text, not executed
            hit += [t for t in tests if t not in set(hit)]
        return self._within(hit, limit), self._within([t for t in tests if t not in set(hit)], limit)

    def _within(self, tests: list[str], limit: float) -> list[str]:
        ends = list(itertools.accumulate(self.seconds[t] for t in tests))
        return [t for t, end in zip(tests, ends, strict=True) if end <= limit or t == tests[0]]


class Tracer:
    """A pytest plugin that writes down which lines of a file each test executes."""

    def __init__(self, target: Path) -> None:
        self.target, self.coverage = str(target), Coverage()
        self.now = self.coverage.imported

    def start(self) -> None:
        threading.settrace(self._call)
        sys.settrace(self._call)

    def _call(self, frame: Any, event: str, arg: Any) -> Any:
        return self._line(frame, event, arg) if frame.f_code.co_filename == self.target else None

    def _line(self, frame: Any, event: str, arg: Any) -> Any:
        self.now.add(frame.f_lineno)
        return self._line

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.now = self.coverage.lines[item.nodeid] = set()
        begin = time.perf_counter()
        yield
        self.coverage.seconds[item.nodeid] = time.perf_counter() - begin
        self.now = self.coverage.imported


class Chosen:
    """A pytest plugin: these tests, in this order, with this cache of compiled kernels."""

    def __init__(self, cache: Path, tests: list[str] | None = None) -> None:
        self.cache, self.place = cache, {t: k for k, t in enumerate(tests)} if tests is not None else None

    def pytest_collection(self) -> None:
        os.environ["SIM_CACHE_DIR"] = str(self.cache)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        place = self.place
        if place is not None:
            items[:] = sorted((i for i in items if i.nodeid in place), key=lambda i: place[i.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            print(f"KILLED BY {report.nodeid}", flush=True)


@dataclass
class Child:
    """A forked process that runs tests in a copy of the tree."""

    pid: int
    log: Path
    wall: float
    begin: float = field(default_factory=time.monotonic)
    status: int | None = None

    def poll(self) -> bool:
        """Has it ended?  It is ended if it took too long."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() - self.begin > self.wall:
                self.kill()
                os.waitpid(self.pid, 0)
                self.status = -signal.SIGKILL
            if self.status is not None:
                self.kill()
        return self.status is not None

    def kill(self) -> None:
        """End it, and what it may have started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        try:
            while not self.poll():
                time.sleep(0.1)
        finally:
            self.kill()
        assert self.status is not None
        return self.status

    def killer(self) -> str:
        """The test that failed, or how the process ended."""
        found = re.search(r"KILLED BY (.*)", self.log.read_text(errors="replace"))
        return found[1] if found else f"exit {self.status}"


class Tree:
    """A copy of the files of the repository, in which one file is changed at a time."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder, self.cache = folder, cache
        names = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        for name in names.splitlines():
            if (ROOT / name).is_file():
                (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / "tree" / name)
        self.tree = folder / "tree"

    def put(self, name: str, source: bytes) -> None:
        """Change a file; the bytecode of the others stays."""
        (self.tree / name).write_bytes(source)
        for stale in (self.tree / name).parent.glob(f"__pycache__/{Path(name).stem}.*.pyc"):
            stale.unlink()

    def run(self, tests: list[str], plugins: list[Any], cpu: float) -> Child:
        """Starts pytest with these arguments, in a process of its own: `cpu` seconds, ten times that on the clock."""
        log, scratch = self.folder / "log", self.folder / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        pid = os.fork()
        if pid:
            return Child(pid, log, 10 * cpu)
        try:
            os.setsid()
            os.chdir(self.tree)
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(out, stream)
            os.environ.update(PYTHONPATH=str(self.tree), TMPDIR=str(scratch), SIM_CACHE_DIR=str(self.cache))
            tempfile.tempdir = None
            sys.path.insert(0, str(self.tree))
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu) + 1, int(cpu) + 1))
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            for plugin in plugins:
                if isinstance(plugin, Tracer):
                    plugin.start()
            code = int(
                pytest.main(
                    ["-x", "-q", "-p", "no:cacheprovider", "--tb=short", "--no-header", *tests], plugins=plugins
                )
            )
            sys.settrace(None)
            for plugin in plugins:
                if isinstance(plugin, Tracer):
                    _write_coverage(self.folder / "coverage", plugin.coverage)
            sys.stdout.flush()
            os._exit(code)
        except BaseException:
            os._exit(99)

    def measure(self, name: str, tests: list[str]) -> Coverage:
        """Runs the tests on the file as it is; what it found is kept beside the compiled kernels."""
        texts = [
            path.read_bytes() if path.is_file() else str(path).encode()
            for path in (self.tree / text for text in (name, *tests))
        ]
        kept = self.cache / f"{hashlib.sha256(b''.join(texts)).hexdigest()[:20]}.coverage"
        if kept.exists():
            return _read_coverage(kept)
        begin = os.times()
        child = self.run(tests, [Chosen(self.cache), Tracer(self.tree / name)], 3600.0)
        if child.wait() != 0:
            raise SystemExit(f"the tests of {name} fail without any mutant:\n{child.log.read_text(errors='replace')}")
        coverage, end = _read_coverage(self.folder / "coverage"), os.times()
        coverage.total = end.children_user + end.children_system - begin.children_user - begin.children_system
        _write_coverage(kept, coverage)
        return coverage


def _write_coverage(path: Path, found: Coverage) -> None:
    lines = {test: sorted(lines) for test, lines in found.lines.items()}
    path.write_text(
        json.dumps({"lines": lines, "imported": sorted(found.imported), "seconds": found.seconds, "total": found.total})
    )


def _read_coverage(path: Path) -> Coverage:
    data = json.loads(path.read_text())
    return Coverage(
        {test: set(lines) for test, lines in data["lines"].items()},
        set(data["imported"]),
        data["seconds"],
        data["total"],
    )


@dataclass
class Trial:
    """A mutant that is being tried in a tree: first with the tests that execute it, then with the others."""

    mutant: Mutant
    tree: Tree
    name: str
    left: list[list[str]]
    cpu: float
    child: Child | None = None

    def step(self) -> str | None:
        """None while it goes on; then what killed it, or ''."""
        if self.child is not None:
            if not self.child.poll():
                return None
            if self.child.status not in (
                pytest.ExitCode.OK,
                pytest.ExitCode.NO_TESTS_COLLECTED,
            ):  # a mutant may do away with a test's parameters
                return self.child.killer()
        if not self.left:
            return ""
        tests = self.left.pop(0)
        cache = Path(tempfile.mkdtemp(dir=self.tree.folder)) if self.name in OWN_CACHE else self.tree.cache
        self.child = self.tree.run(sorted({t.partition("::")[0] for t in tests}), [Chosen(cache, tests)], self.cpu)
        return None


@dataclass
class Result:
    """Numbers of a file, and the mutants that no test noticed."""

    name: str
    mutants: int = 0
    killed: int = 0
    equivalent: int = 0
    survivors: list[Mutant] = field(default_factory=list)

    def row(self) -> str:
        share = 100 * self.killed / max(1, self.killed + len(self.survivors))
        return (
            f"| `{self.name}` | {self.mutants} | {self.killed} ({share:.0f} %) | {self.equivalent} |"
            f" {len(self.survivors)} |"
        )


def run_file(name: str, options: argparse.Namespace, trees: list[Tree]) -> Result:
    """Tries the chosen mutants of a file."""
    known = yaml.safe_load(MAP.read_text()).get(name)
    if known is None:
        raise SystemExit(f"{name}: {MAP.name} does not say which tests belong to it")
    source = (ROOT / name).read_bytes()
    chosen = mutants(source.decode())
    if options.match:
        chosen = [m for m in chosen if re.search(options.match, m.name)]
    if options.lines:
        chosen = [m for m in chosen if any(low <= m.line <= high for low, high in options.lines)]
    if options.sample and options.sample < len(chosen):
        chosen = sorted(random.Random(f"{options.seed} {name}").sample(chosen, options.sample), key=lambda m: m.start)
    result, todo = Result(name, len(chosen)), []
    for mutant in chosen:
        if any(_fits(entry, mutant) for entry in known.get("equivalent", ())):
            result.equivalent += 1
        else:
            todo.append(mutant)
    if options.list:
        for mutant in todo:
            print(f"{name}:{mutant.line}  {mutant.name}")
        return result
    print(f"# {name}: {len(chosen)} mutants, seed {options.seed}", flush=True)
    coverage = trees[0].measure(name, [*known["tests"], "-k", known.get("keyword", "")])
    cpu = 20 + 3 * coverage.total
    idle, going = list(trees), list[Trial]()
    try:
        while todo or going:
            while todo and idle:
                mutant, tree = todo.pop(0), idle.pop()
                tree.put(name, mutant.apply(source))
                first, others = coverage.order(mutant, options.seconds)
                left = [tests for tests in (first, [] if options.quick else others) if tests]
                going.append(Trial(mutant, tree, name, left, cpu))
            for trial in list(going):
                killer = trial.step()
                if killer is None:
                    continue
                going.remove(trial)
                idle.append(trial.tree)
                where = f"{name}:{trial.mutant.line}  {trial.mutant.name}"
                if killer:
                    result.killed += 1
                    coverage.kills[killer] += 1
                    if options.verbose:
                        print(f"  killed {where}   by {killer}", flush=True)
                else:
                    result.survivors.append(trial.mutant)
                    print(where, flush=True)
            time.sleep(0.1)
    finally:
        for trial in going:
            if trial.child is not None:
                trial.child.kill()
    for tree in trees:
        tree.put(name, source)
    return result


def _fits(entry: dict[str, str], mutant: Mutant) -> bool:
    if "pattern" in entry:
        return re.fullmatch(entry["pattern"], mutant.name) is not None
    return entry["mutant"] == mutant.name


def _ranges(text: str) -> list[tuple[int, int]]:
    parts = [part.partition("-") for part in text.split(",")]
    return [(int(low), int(high or low)) for low, _, high in parts]


def main() -> int:
    parser = argparse.ArgumentParser(description="One-line mutants of files that their tests do not notice.")
    parser.add_argument("files", nargs="+", help="files of mutation.yaml, as sim/core/lang/ir/ops.py")
    parser.add_argument(
        "--sample", type=int, default=0, help="as many mutants of each file, drawn at random; default: all"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument(
        "--jobs", type=int, default=1, help="mutants tried at the same time, each in a copy of the tree"
    )
    parser.add_argument("--lines", type=_ranges, help="only these lines: 10-20,33")
    parser.add_argument(
        "--match", help="only mutants whose name (function: before -> after) has this regular expression"
    )
    parser.add_argument("--quick", action="store_true", help="only the tests that execute a mutant's lines")
    parser.add_argument(
        "--seconds",
        type=float,
        default=math.inf,
        help="of the tests that a mutant gets: the fastest that take this long",
    )
    parser.add_argument(
        "--cache", type=Path, help="folder for compiled kernels and coverage, kept between runs; default: a new one"
    )
    parser.add_argument(
        "--list", action="store_true", help="print the mutants, without those that are equivalent; run nothing"
    )
    parser.add_argument("--verbose", action="store_true", help="print what killed each mutant")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    with tempfile.TemporaryDirectory(prefix="simopt-mutate-") as folder:
        cache = options.cache or Path(folder) / "cache"
        cache.mkdir(parents=True, exist_ok=True)
        trees = [] if options.list else [Tree(Path(folder) / str(k), cache) for k in range(options.jobs)]
        results = [run_file(name, options, trees) for name in options.files]
    print(f"\n{date.today()}\n| file | mutants | killed | equivalent | survivors |\n|---|---|---|---|---|")
    for result in results:
        print(result.row())
    return 0


if __name__ == "__main__":
    sys.exit(main())
