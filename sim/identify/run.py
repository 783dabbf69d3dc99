"""What `simopt run` does with a problem: search, record, report, and a folder that holds it all."""

from __future__ import annotations

import difflib
import hashlib
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from sim.core.runtime.ambient.profile import Profile, profile
from sim.identify.assess.aligned import alignment_note, alignment_row, as_people_see
from sim.identify.assess.estimate import estimate
from sim.identify.assess.misfit import Misfit, misfits, noise_notes
from sim.identify.assess.uncertainty import Uncertainty
from sim.identify.data.expectations import check_all
from sim.identify.data.experiments import Experiment, NothingRecorded, Simulation
from sim.identify.evaluate.evaluator import ContactLook
from sim.identify.losses.jacobian import Linearised, linearise
from sim.identify.numerics.numerical_error import NumericalError, cannot, estimate_shifts
from sim.identify.numerics.own_damping import own_damping
from sim.identify.numerics.residuals import growth_note, residual_note, residuals_of_steps
from sim.identify.problem import Problem
from sim.identify.report.contacts import contact_notes, contact_rows
from sim.identify.report.found import file_hashes, found_arrays
from sim.identify.report.notes import inside_notes, notes_on
from sim.identify.report.page import report_data
from sim.identify.report.reference import reference_note, reference_row
from sim.identify.report.rows import (
    finite,
    growth_rows,
    horizon_rows,
    joint_rows,
    loss_row,
    numerics_row,
    parameter_rows,
    start_rows,
    uncertainty_row,
)
from sim.identify.report.takes import scenery
from sim.identify.search.results import Result
from sim.identify.search.search import BrokenSearch
from sim.io import (
    Frames,
    RunFolder,
    RunFolderError,
    default_run_path,
    environment,
    write_frames,
    write_report,
    write_scenery,
)
from sim.rollout import ChaoticGradientWarning
from sim.solvers import StepResidual

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

    def stage(self, what: str) -> None:
        """After the search: what is worked out next."""

    def interrupted(self) -> None:
        """Ctrl-C was pressed; the run stops before its next evaluation.  Called within a signal handler."""

    def end(self) -> None:
        """The search ended; results are written next."""

    def close(self, report: Path | None) -> None:
        """The run is over.  report: its page, which may not be there; None: it broke off."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The end of a run: its folder, what stands in result.json, and the exit status (0, 1 or 130)."""

    folder: Path
    result: dict[str, Any]
    status: int


def run_problem(
    problem: Problem,
    out: Path | None = None,
    resume: Path | None = None,
    iterations: int | None = None,
    watcher: Watcher | None = None,
    profiled: bool = False,
    search: bool = True,
) -> Outcome:
    """Search (if the problem seeks anything), simulate, record, report.

    out: the run folder, new; default `runs/<name>/<time>`.  resume: the folder of an earlier run of the same scene, to
    go on with.  iterations: how many in all, instead of the scene's.  profiled: the time of every kernel is measured,
    for the report.
    search: False only simulates, with the parameters at their start, and checks what is expected of experiments alone.
    Raises RunFolderError before anything is written if the folder cannot be used.
    """
    watcher = watcher or Watcher()
    begun = time.perf_counter()
    problem = _without_planned(problem, search)
    wanted = problem.method.limit if iterations is None else iterations
    folder, state = _open(problem, out, resume)
    if state is not None:
        begun -= float(state["wall_s"])  # what the run took before it was interrupted counts
    watcher.begin(problem, folder, len(problem.method.horizons) * (wanted + 1) - 1)
    run = _RunInProgress(problem, folder, watcher, begun, wanted, [])
    for note in problem.description.notes:
        run.note(note)
    try:
        with profile() if profiled else nullcontext() as run.profile:
            before = problem.simulate()
            found = run.search(wanted, state) if problem.sought and search else None
    except FloatingPointError as error:
        watcher.end()
        return run.broken(error)
    watcher.end()
    return run.finish(before, found)


def _without_planned(problem: Problem, search: bool) -> Problem:
    """Nothing is compared with takes that are only planned.  Raises NothingRecorded where a search should fit one."""
    for e in problem.fitted if problem.sought and search else ():
        if e.planned:
            raise NothingRecorded(e.name)
    if not any(e.planned for e in problem.experiments):
        return problem
    return replace(problem, experiments=[replace(e, targets={}) if e.planned else e for e in problem.experiments])


@dataclass(eq=False)
class _RunInProgress:
    problem: Problem
    folder: RunFolder
    watcher: Watcher
    begun: float
    limit: int
    notes: list[str]
    profile: Profile | None = None
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    def search(self, iterations: int, state: dict[str, Any] | None) -> Result:
        """The search; every finished iteration is on disk before the next one begins."""

        def log(entry: dict[str, Any]) -> None:
            self.folder.log(entry)
            self.watcher.iteration(entry)

        setting = _setting(self.problem)
        with warnings.catch_warnings(), _interruptible(self.watcher.interrupted) as asked:
            warnings.simplefilter("ignore", ChaoticGradientWarning)  # a note says so
            try:
                return self.problem.optimize(
                    iterations,
                    log=log,
                    save=lambda s: _save(self.folder, setting, s),
                    resume_state=state,
                    should_stop=asked,
                )
            except BrokenSearch as error:
                self.note(str(error))
                return self.problem.result(error.found)

    def note(self, text: str) -> None:
        """Keeps and shows a note, once."""
        if text not in self.notes:
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
        there = self.linearised(found, uncertainty, best) if found is not None and after is not None else None
        numerics = self.numerics(there, uncertainty, best) if there is not None else None
        x = problem.start if found is None or after is None else found.search.x
        left = self.residuals(x)
        joints = joint_rows(problem, x, best)
        for name, row in joints.items():
            if row["advice"]:
                self.note(f"experiment `{name}`: {row['advice']}")
        misfit = misfits(problem, best)
        for simulation in best.values():
            if note := alignment_note(problem, simulation, uncertainty):
                self.note(note)
        for note in noise_notes(misfit):
            self.note(note)
        contacts = self.contacts(x)
        if found is not None and after is not None:
            folder = str(self.folder.path)
            for note in notes_on(problem, found, uncertainty, misfit, self.limit, folder, numerics):
                self.note(note)
            for note in inside_notes(problem, found.search.x):
                self.note(note)
            if text := growth_note(problem, found.search.x):
                self.note(text)
        reference = self.reference(found, best, there) if problem.reference is not None else None
        result = self.result(found, best, uncertainty, misfit, numerics, reference)
        result["residuals"] = {name: asdict(residual) for name, residual in left.items()}
        result["joints"] = joints
        result["contacts"] = contact_rows(contacts)
        every = description.record_every
        recorded = {name: Frames(s.positions, s.times, s.body_q) for name, s in best.items() if len(s.times) >= every}
        takes = {name: frames.every(every, first=every - 1) for name, frames in recorded.items()}
        write_frames(self.folder.file(TRAJECTORY), takes)
        write_scenery(self.folder, scenery(problem, x))
        expected = [
            e
            for e in problem.expectations
            if found is not None or not problem.sought or e.path.startswith("experiments.")
        ]
        result["expect"] = check_all(expected, result)
        for name, values in found_arrays(problem, result).items():
            self.folder.write_npy(name, values)
        if self.profile is not None:
            result["profile"] = self.profile.rows()
            most = [f"{row['kernel']} {row['share']:.0%} ({row['calls']} launches)" for row in result["profile"][:6]]
            self.notes.append(
                f"time in kernels, {self.profile.seconds:.2f} s of {self.profile.wall:.2f} s: {', '.join(most)}"
            )
        if description.report:
            placed, before, after = as_people_see(problem, before, after, misfit)
            page = report_data(placed, result, before, after, self.folder.read_log(), self.notes, misfit, x, contacts)
            write_report(self.folder.file(REPORT), page)
        self.folder.write_json(RESULT, result)
        return Outcome(self.folder.path, result, _status(result))

    def uncertainty(self, found: Result | None, best: Mapping[str, Simulation]) -> Uncertainty | None:
        """Standard errors of what was found; notes say why there are none, or what they mean."""
        if found is None or found.search.stopped_because == "interrupted":
            return None
        aligned = any(e.registration for e in self.problem.experiments)
        self.watcher.stage("standard errors")
        numbers = self.problem.measured if self.problem.measures or aligned else None
        known = estimate(self.problem, found.search.x, best, numbers)
        if isinstance(known, str):
            self.note(known)
            return None
        for note in known.notes:
            self.note(note)
        return known

    def linearised(self, found: Result, known: Uncertainty | None, best: Mapping[str, Simulation]) -> Linearised | None:
        """What numerical errors and the reference need of the result; None, and a note, where there is none."""
        problem = self.problem
        wanted = problem.description.causes or problem.reference is not None
        if found.search.stopped_because == "interrupted" or not wanted:
            return None
        if reason := cannot(problem):
            self.note(reason)
            return None
        try:
            return (known.linearised if known is not None else None) or linearise(problem, found.search.x, best)
        except FloatingPointError:
            return None

    def reference(
        self, found: Result | None, best: Mapping[str, Simulation], there: Linearised | None
    ) -> dict[str, Any] | None:
        """What the problem's reference solver makes of the result; None, and a note, where it breaks down."""
        self.watcher.stage("the reference solver")
        try:
            row = reference_row(self.problem, self.problem.start if found is None else found.search.x, best, there)
        except FloatingPointError as error:
            self.note(f"the reference solver: {error}")
            return None
        self.note(reference_note(row))
        return row

    def numerics(
        self, there: Linearised, known: Uncertainty | None, best: Mapping[str, Simulation]
    ) -> NumericalError | None:
        """The numerical error of what was found; notes say where it is larger than the standard error."""
        problem = self.problem
        if not problem.description.causes:
            return None
        self.watcher.stage(f"numerical error by {', '.join(problem.description.causes)}")
        error = estimate_shifts(problem, there, best, problem.description.causes)
        for note in error.notes(problem, None if known is None else known.errors):
            self.note(note)
        return error

    def residuals(self, x: np.ndarray) -> dict[str, StepResidual]:
        """What the steps leave undone of the forces; a note says so where it is much."""
        if not self.problem.description.causes:
            return {}
        try:
            left = residuals_of_steps(self.problem, x)
        except FloatingPointError:
            return {}
        if text := residual_note(self.problem, left):
            self.note(text)
        return left

    def contacts(self, x: np.ndarray) -> list[ContactLook]:
        """What contacts do in every experiment; notes say where the gradient is one-sided, and what none depends on."""
        if not self.problem.description.causes:
            return []
        try:
            looks = list(self.problem.contacts(x, self.problem.experiments))
        except FloatingPointError:
            return []
        for note in contact_notes(self.problem, contact_rows(looks)) if self.problem.sought else []:
            self.note(note)
        return looks

    def broken(self, error: FloatingPointError) -> Outcome:
        """A run that never had a finite loss: result.json says why."""
        result = {**self.result(None, {}, None, []), "stopped_because": "non_finite", "error": str(error), "expect": []}
        self.folder.write_json(RESULT, result)
        self.watcher.note(str(error))
        return Outcome(self.folder.path, result, FAILED)

    def result(
        self,
        found: Result | None,
        best: Mapping[str, Simulation],
        uncertainty: Uncertainty | None,
        misfit: Sequence[Misfit],
        numerics: NumericalError | None = None,
        reference: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """What stands in result.json, expectations aside."""
        problem = self.problem
        own = own_damping(problem, best) if found is not None else None
        about = environment(str(problem.model.device), str(problem.model.dtype))
        search = found.search if found is not None else None
        return {
            "scene": problem.description.name,
            "parameters": parameter_rows(problem, found, uncertainty, self.notes, numerics, own),
            "uncertainty": uncertainty_row(uncertainty),
            "numerics": numerics_row(numerics),
            **({"reference": reference} if reference else {}),
            "loss": loss_row(found),
            "experiments": {e.name: self.experiment(e, best[e.name], uncertainty, misfit) for e in problem.experiments
                            if e.name in best},
            "iterations": search.iterations if search else 0,
            "evaluations": search.evaluations if search else 0,
            "method": problem.method.name if search else None,
            "stopped_because": search.stopped_because if search else "simulated",
            "wall_s": time.perf_counter() - self.begun,
            "peak_memory_mb": peak_memory_mb(),
            "starts": start_rows(problem, found),
            "horizons": horizon_rows(found),
            "gradient_growth": growth_rows(found.growth if found is not None else {}),
            "notes": list(self.notes),
            "scene_file": problem.description.source,
            "files": file_hashes(problem),
            **about,
            "started": self.started.isoformat(timespec="seconds"),
        }  # fmt: skip

    def experiment(
        self, e: Experiment, best: Simulation, uncertainty: Uncertainty | None, misfit: Sequence[Misfit]
    ) -> dict[str, Any]:
        """What result.json says about one experiment."""
        measures: dict[str, dict[str, Any]] = {}
        for name, found in self.problem.measure(best).items():
            measures[name] = dict(found)
            if uncertainty is not None and f"{e.name}.{name}" in uncertainty.measures:
                error, slopes = uncertainty.measures[f"{e.name}.{name}"]
                measures[name] |= {"standard_error": error, "sensitivity": slopes}
        return {
            "use": "fit" if e.fit else "predict",
            "loss": finite(self.problem.compare(best)),
            "residuals": {m.markers: m.summary() for m in misfit if m.experiment == e.name},
            **alignment_row(self.problem, best, uncertainty),
            **measures,
        }


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
        if meta["run"].get(key) != value:
            what = "contents of meshes and recordings" if key == "files" else key
            lines += [f"-{what}: {meta['run'].get(key)}", f"+{what}: {value}"]
    if lines:
        shown = "\n".join(f"    {line}" for line in lines)
        raise RunFolderError(
            f"{folder.path} is a run of another scene; what changed:\n{shown}",
            "undo the change, or start a new run without --resume",
        )


def _setting(problem: Problem) -> dict[str, str]:
    """What a run depends on beside the text of its scene: device, precision, and a digest of meshes and recordings."""
    files = hashlib.sha256()
    for group in problem.model.groups.values():
        files.update(np.asarray(group.positions, np.float64).tobytes())
    for target in (target for e in problem.experiments for target in e.targets.values()):
        files.update(target.positions.tobytes())
    return {"device": str(problem.model.device), "dtype": str(problem.model.dtype), "files": files.hexdigest()[:16]}


def _save(folder: RunFolder, setting: Mapping[str, str], state: Mapping[str, Any]) -> None:
    arrays = {key: value for key, value in state.items() if isinstance(value, np.ndarray)}
    rest = {key: value for key, value in state.items() if key not in arrays}
    folder.save_state(arrays, {"state": rest, "run": setting})


# ------------------------------------------------------------------------------------------------ the process
@contextmanager
def _interruptible(tell: Callable[[], None]) -> Iterator[Any]:
    """Ctrl-C asks to stop before the next evaluation, and tells so; a second stops at once.  Yields: was it asked?"""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def on_signal(number: int, frame: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        tell()

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
