"""What `simopt run` does with a problem: search, record, report, and a folder that holds it all."""

from __future__ import annotations

import difflib
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from sim.core.runtime.profile import Profile, profile
from sim.identify.expectations import check_all
from sim.identify.experiments import Experiment, Simulation
from sim.identify.found import file_hashes, found_arrays
from sim.identify.loop import NonFinite
from sim.identify.misfit import Misfit, misfits
from sim.identify.problem import Problem, Result
from sim.identify.report_data import report_data
from sim.identify.report_takes import scenery
from sim.identify.starts import Chosen
from sim.identify.uncertainty import Uncertainty, estimate
from sim.io import Recording, RunFolder, RunFolderError, default_run_path, environment, write_recording, write_report, write_scenery

SCENE, RESULT, TRAJECTORY, REPORT = "scene.resolved.yaml", "result.json", "trajectory.npz", "report.html"
OK, FAILED, INTERRUPTED = 0, 1, 130


class Watcher:
    """Is told of what happens during a run; this one looks away."""

    def begin(self, problem: Problem, folder: RunFolder, iterations: int) -> None:
        """The folder is there; the first simulation follows."""

    def iteration(self, entry: Mapping[str, Any]) -> None:
        """An iteration ended (0: the start was evaluated)."""

    def note(self, text: str) -> None:
        """Something to know."""

    def end(self) -> None:
        """The search ended; results are written next."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The end of a run: its folder, what stands in result.json, and the exit status (0, 1 or 130)."""

    folder: Path
    result: dict[str, Any]
    status: int


def run_problem(problem: Problem, out: Path | None = None, resume: Path | None = None, iterations: int | None = None,
                watcher: Watcher | None = None, profiled: bool = False) -> Outcome:
    """Search (if the problem seeks anything), simulate, record, report.

    out: the run folder, new; default runs/<name>/<time>.  resume: the folder of an earlier run of the same scene, to
    go on with.  iterations: how many in all, instead of the scene's.  profiled: the time of every kernel is measured, for the report.
    Raises RunFolderError before anything is written if the folder cannot be used.
    """
    watcher = watcher or Watcher()
    begun = time.perf_counter()
    wanted = problem.method.iterations if iterations is None else iterations
    folder, state = _open(problem, out, resume)
    if state is not None:
        begun -= float(state["wall_s"])  # what the run took before it was interrupted counts
    watcher.begin(problem, folder, wanted)
    for note in problem.description.notes:
        watcher.note(note)
    run = _Run(problem, folder, watcher, begun, list(problem.description.notes))
    try:
        with profile() if profiled else nullcontext() as run.profile:
            before = problem.simulate()
            found = run.search(wanted, state) if problem.sought else None
    except FloatingPointError as error:
        watcher.end()
        return run.broken(error)
    watcher.end()
    return run.finish(before, found)


@dataclass(eq=False)
class _Run:
    problem: Problem
    folder: RunFolder
    watcher: Watcher
    begun: float
    notes: list[str]
    profile: Profile | None = None
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    def search(self, iterations: int, state: dict[str, Any] | None) -> Result:
        """The search; every finished iteration is on disk before the next one begins."""
        insensitive: list[str] = []

        def log(entry: dict[str, Any]) -> None:
            self.folder.log(entry)
            self.watcher.iteration(entry)
            if entry["iteration"] == 0:
                insensitive.extend(self.problem.insensitive())

        with _interruptible() as asked:
            try:
                found = self.problem.optimize(iterations, log=log, save=lambda s: _save(self.folder, self.problem, s),
                                              resume_state=state, should_stop=asked)
            except NonFinite as error:
                if error.result is None:
                    raise
                self.note(str(error))
                found = self.problem.result(error.result)
        if found.chosen is not None:
            self.note(_tournament(found.chosen))
        for name in insensitive:
            self.note(f"the loss does not depend on `{name}`: its gradient at the start is zero")
        return found

    def note(self, text: str) -> None:
        self.notes.append(text)
        self.watcher.note(text)

    def finish(self, before: Mapping[str, Simulation], found: Result | None) -> Outcome:
        """Simulates with what was found, and writes everything."""
        problem, description = self.problem, self.problem.description
        after = None
        if found is not None and np.isfinite(found.loss):
            after = problem.simulate(found.search.x)
        best = before if after is None else after
        uncertainty = self.uncertainty(found, best) if after is not None else None
        misfit = misfits(problem, best)
        result = self.result(found, best, uncertainty, misfit)
        every = description.record_every
        write_recording(self.folder.file(TRAJECTORY), **{
            name: Recording(s.positions[every - 1 :: every], s.times[every - 1 :: every])
            for name, s in best.items() if len(s.times) >= every
        })  # fmt: skip
        write_scenery(self.folder, scenery(problem))
        result["expect"] = check_all(problem.expectations, result)
        for name, values in found_arrays(problem, result).items():
            self.folder.write_npy(name, values)
        if self.profile is not None:
            result["profile"] = self.profile.rows()
            most = [f"{row['kernel']} {row['share']:.0%} ({row['calls']} launches)" for row in result["profile"][:6]]
            self.notes.append(f"time in kernels, {self.profile.seconds:.2f} s of {self.profile.wall:.2f} s: {', '.join(most)}")
        if description.report:
            page = report_data(problem, result, before, after, self.folder.read_log(), self.notes, misfit)
            write_report(self.folder.file(REPORT), page)
        self.folder.write_json(RESULT, result)
        return Outcome(self.folder.path, result, _status(result))

    def uncertainty(self, found: Result | None, best: Mapping[str, Simulation]) -> Uncertainty | None:
        """Standard errors of what was found; notes say why there are none, or what they mean."""
        if found is None or found.search.stopped_because == "interrupted":
            return None
        numbers = self.problem.measured if self.problem.measures else None
        known = estimate(self.problem, found.search.x, best, numbers)
        if isinstance(known, str):
            self.note(known)
            return None
        for note in known.notes:
            self.note(note)
        return known

    def broken(self, error: FloatingPointError) -> Outcome:
        """A run that never had a finite loss: result.json says why."""
        result = {**self.result(None, {}, None, []), "stopped_because": "non_finite", "error": str(error), "expect": []}
        self.folder.write_json(RESULT, result)
        self.watcher.note(str(error))
        return Outcome(self.folder.path, result, FAILED)

    def result(self, found: Result | None, best: Mapping[str, Simulation], uncertainty: Uncertainty | None,
               misfit: Sequence[Misfit]) -> dict[str, Any]:
        """What stands in result.json, expectations aside."""
        problem = self.problem
        about = environment(str(problem.model.device), str(problem.model.dtype))
        search = found.search if found is not None else None
        return {
            "scene": problem.description.name,
            "parameters": _parameters(problem, found, uncertainty, self.notes),
            "uncertainty": _uncertainty(uncertainty),
            "loss": _loss(found),
            "experiments": {e.name: self.experiment(e, best[e.name], uncertainty, misfit) for e in problem.experiments
                            if e.name in best},
            "iterations": search.iterations if search else 0,
            "evaluations": search.evaluations if search else 0,
            "stopped_because": search.stopped_because if search else "simulated",
            "wall_s": time.perf_counter() - self.begun,
            "peak_memory_mb": peak_memory_mb(),
            "starts": _starts(found),
            "notes": list(self.notes),
            "scene_file": problem.description.source,
            "files": file_hashes(problem),
            **about,
            "started": self.started.isoformat(timespec="seconds"),
        }  # fmt: skip


    def experiment(self, e: Experiment, best: Simulation, uncertainty: Uncertainty | None, misfit: Sequence[Misfit]
                   ) -> dict[str, Any]:
        """What result.json says about one experiment."""
        measures: dict[str, dict[str, Any]] = {}
        for name, found in self.problem.measure(best).items():
            measures[name] = dict(found)
            if uncertainty is not None and f"{e.name}.{name}" in uncertainty.measures:
                error, slopes = uncertainty.measures[f"{e.name}.{name}"]
                measures[name] |= {"standard_error": error, "sensitivity": slopes}
        return {"use": "fit" if e.fit else "predict", "loss": _finite(self.problem.compare(best)),
                "residuals": {m.markers: m.summary() for m in misfit if m.experiment == e.name}, **measures}


def _tournament(chosen: Chosen) -> str:
    """What came of several starts, in a sentence."""
    low = f"{chosen.losses[chosen.index]:.4g}"
    which = "the scene's own" if chosen.index == 0 else f"number {chosen.index + 1}"
    return (f"of {len(chosen.losses)} starts {which} was the best: its loss fell from {low} to {chosen.reached[chosen.index]:.4g} in the "
            f"tournament of {chosen.evaluations} evaluations")


def _starts(found: Result | None) -> dict[str, Any] | None:
    if found is None or found.chosen is None:
        return None
    return {"chosen": found.chosen.index, "losses": found.chosen.losses, "reached": found.chosen.reached,
            "evaluations": found.chosen.evaluations}


def _uncertainty(known: Uncertainty | None) -> dict[str, Any] | None:
    if known is None:
        return None
    return {"names": list(known.names), "correlation": known.correlation, "scatter": known.scatter,
            "rollouts": known.rollouts}


def _parameters(problem: Problem, found: Result | None, uncertainty: Uncertainty | None, notes: list[str]
                ) -> dict[str, Any]:
    out = {}
    start = problem.physical()
    for p in problem.sought:
        row: dict[str, Any] = {"start": start[p.name], "final": None, "unit": p.unit, "gradient": None}
        if np.ndim(start[p.name]):
            row["labels"] = p.labels
        if found is not None:
            row |= {"final": found.parameters[p.name], "gradient": found.gradient[p.name]}
        if uncertainty is not None:
            row |= {"standard_error": uncertainty.errors[p.name],
                    "standard_error_by": {"noise": uncertainty.by_noise[p.name],
                                          "residuals": uncertainty.by_residuals[p.name]}}
        remark = next((note for note in notes if any(f"`{label}`" in note for label in (p.name, *p.labels))), "")
        out[p.name] = row | ({"note": remark} if remark else {})
    return out


def _loss(found: Result | None) -> dict[str, Any]:
    if found is None:
        return {"initial": None, "final": None, "best_iteration": None, "terms": {}}
    return {"initial": _finite(found.search.initial_loss), "final": _finite(found.loss),
            "best_iteration": found.search.best_iteration, "terms": found.terms}


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None


def _status(result: Mapping[str, Any]) -> int:
    if result["stopped_because"] == "interrupted":
        return INTERRUPTED
    failed = result["stopped_because"] == "non_finite" or not all(row["ok"] for row in result["expect"])
    return FAILED if failed else OK


# ------------------------------------------------------------------------------------------------ folder and state
def _open(problem: Problem, out: Path | None, resume: Path | None) -> tuple[RunFolder, dict[str, Any] | None]:
    """The folder, and the state to go on from."""
    if resume is None:
        folder = RunFolder.create(out or default_run_path(problem.description.name))
        folder.write_text(SCENE, problem.description.resolved)
        return folder, None
    if out is not None:
        raise RunFolderError("--out and --resume are given", "a resumed run goes on in its own folder")
    folder = RunFolder.open(resume)
    arrays, meta = folder.load_state()
    _same_scene(problem, folder, meta)
    folder.truncate_log(int(meta["state"]["iteration"]))
    return folder, {**arrays, **meta["state"]}


def _same_scene(problem: Problem, folder: RunFolder, meta: Mapping[str, Any]) -> None:
    """Refuses to resume a run of another scene, device or precision: shows the difference."""
    path = folder.path / SCENE
    try:
        then = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RunFolderError(f"cannot read {path}: {error.strerror}", "start a new run") from error
    now = problem.description.resolved
    changes = difflib.unified_diff(then.splitlines(), now.splitlines(), lineterm="", n=0)
    lines = [line for line in changes if not line.startswith(("---", "+++", "@@"))]
    for key, value in _setting(problem).items():
        if meta["run"][key] != value:
            lines += [f"-{key}: {meta['run'][key]}", f"+{key}: {value}"]
    if lines:
        shown = "\n".join(f"    {line}" for line in lines)
        raise RunFolderError(f"{folder.path} is a run of another scene; what changed:\n{shown}",
                             "undo the change, or start a new run without --resume")


def _setting(problem: Problem) -> dict[str, str]:
    return {"device": str(problem.model.device), "dtype": str(problem.model.dtype)}


def _save(folder: RunFolder, problem: Problem, state: Mapping[str, Any]) -> None:
    arrays = {key: value for key, value in state.items() if isinstance(value, np.ndarray)}
    rest = {key: value for key, value in state.items() if key not in arrays}
    folder.save_state(arrays, {"state": rest, "run": _setting(problem)})


# ------------------------------------------------------------------------------------------------ the process
@contextmanager
def _interruptible() -> Iterator[Any]:
    """Ctrl-C asks to stop before the next evaluation, a second one stops at once.  Yields: was it asked?"""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def on_signal(number: int, frame: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    signal.signal(signal.SIGINT, on_signal)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def peak_memory_mb() -> float | None:
    """The most memory that this process has held [MB]; None where the system does not say."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3
