"""What a run found, as the plain data of a report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.identify.assess.misfit import Misfit
from sim.identify.evaluate.evaluator import ContactLook
from sim.identify.numerics.numerical_error import share_text
from sim.identify.problem import Problem
from sim.identify.report.found import command_line, found_arrays, fragment, set_options
from sim.identify.report.reference import reference_text
from sim.identify.report.takes import Simulations, takes
from sim.identify.report.tracks import tracks
from sim.identify.search.loop import ENDED
from sim.io import (
    ContactRow,
    Correlation,
    Curve,
    ExpectationRow,
    ExperimentRow,
    HorizonRow,
    JointErrorRow,
    MeasureRow,
    ParameterRow,
    ReportData,
    ResidualRow,
    StartRow,
    TermRow,
    found_text,
)
from sim.io.html import format_number
from sim.model.counts import model_counts

MOST_SHOWN, MOST_LINES = 6, 4
"""Parameters in the head of the page, and numbers of one that have a line each in its chart."""

LONGEST_REMARK = 80
"""Characters of a note that stands beside its parameter too."""


def report_data(
    problem: Problem,
    result: Mapping[str, Any],
    before: Simulations,
    after: Simulations | None,
    log: Sequence[Mapping[str, Any]],
    notes: Sequence[str],
    misfit: Sequence[Misfit] = (),
    found: np.ndarray | None = None,
    contacts: Sequence[ContactLook] = (),
) -> ReportData:
    """The report of a run.  before, after: simulations at the start and at what was found (None: nothing was sought);
    result: what stands in result.json; log: the entries of log.jsonl; misfit: of the better simulation; found: the
    coordinates of `after`; contacts: what they do there."""
    status = {"interrupted": "interrupted", "non_finite": "failed"}.get(result["stopped_because"], "")
    return ReportData(
        title=problem.description.name, about=problem.description.about,
        highlights=_highlights(result), summary=_summary(result),
        takes=takes(problem, before, after, found, contacts), tracks=tracks(problem, before, after),
        curves=_curves(problem, result, log), parameters=_parameters(problem, result),
        starts=_starts(result), horizons=_horizons(result), results=_results(problem, result),
        expectations=[_expectation(problem, row) for row in result["expect"]],
        terms=_terms(result, log),
        experiments=[_experiment(name, e) for name, e in result["experiments"].items()],
        joints=[_joints(name, row) for name, row in result.get("joints", {}).items()],
        contacts=[_contacts(name, row) for name, row in result.get("contacts", {}).items()],
        correlation=_correlation(result), residuals=_residuals(result, misfit),
        residual_curves=[Curve(f"{m.experiment}: {m.markers}, rms", m.times.tolist(), (1e3 * m.by_frame).tolist(), "mm",
                               reference=1e3 * np.sqrt(3.0) * m.noise, over="s") for m in misfit if len(m.times) > 1],
        notes=notes, facts=_facts(problem, result), status=status,
    )  # fmt: skip


def _highlights(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = [(name, p) for name, p in result["parameters"].items() if p["final"] is not None]
    return [
        (name, found_text(p["final"], p.get("standard_error"), p["unit"]) + _moved(p)) for name, p in found[:MOST_SHOWN]
    ]


def _moved(p: Mapping[str, Any]) -> str:
    """Of one number, the largest numerical error, where it is larger than the standard error that stands before it."""
    error, by_cause = p.get("standard_error"), p.get("numerical_error") or {}
    if error is None or not by_cause or np.size(p["final"]) != 1 or not np.ravel(p["final"])[0]:
        return ""
    moved = max((float(np.ravel(v)[0]) for v in by_cause.values()), key=abs)
    if not abs(moved) > float(np.ravel(error)[0]):
        return ""
    return f", numerics {share_text(moved / abs(float(np.ravel(p['final'])[0])))}"


def _summary(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    out = []
    loss = result["loss"]
    if loss["final"] is not None:
        out.append(("loss", f"{format_number(loss['initial'])} → {format_number(loss['final'])}"))
        out.append(("iterations", str(result["iterations"])))
    return [*out, ("wall time", _seconds(result["wall_s"]))]


def _seconds(time: float) -> str:
    return f"{time:.3g} s" if time < 1000 else f"{time:.0f} s"


def _true(problem: Problem, name: str) -> Any:
    """The value that an expectation gives a parameter."""
    paths = (f"parameters.{name}", f"parameters.{name}.final")
    return next((e.value for e in problem.expectations if e.path in paths and e.value is not None), None)


def _curves(problem: Problem, result: Mapping[str, Any], log: Sequence[Mapping[str, Any]]) -> list[Curve]:
    if not log:
        return []
    iterations = [entry["iteration"] for entry in log]
    curves = [_loss_curve(iterations, log)]
    for p in problem.sought:
        values = np.array([np.reshape(entry["parameters"][p.name], -1) for entry in log], dtype=np.float64)
        labels = [label.removeprefix(p.name).strip(".[]") for label in p.labels] if values.shape[1] > 1 else []
        true = _true(problem, p.name)
        if values.shape[1] > MOST_LINES:
            values = np.stack([values.min(1), np.median(values, 1), values.max(1)], axis=1)
            labels, true = ["lowest", "median", "highest"], None
        curves.append(
            Curve(p.name, iterations, values, p.unit, log=p.transform.name == "log", reference=true, labels=labels)
        )
    norms = [entry["gradient_norm"] for entry in log]
    return [*curves, Curve("gradient norm", iterations, norms, log=True), *_growth_curves(result)]


def _growth_curves(result: Mapping[str, Any]) -> list[Curve]:
    """The gradient on its way back, where it grew enough to be of interest."""
    return [
        Curve(f"growth of the gradient: {name}", row["times"],
              np.array([np.nan if gain is None else gain for gain in row["gains"]]), log=True, over="s")
        for name, row in result.get("gradient_growth", {}).items() if not row["useful"]
    ]  # fmt: skip


def _loss_curve(iterations: Sequence[int], log: Sequence[Mapping[str, Any]]) -> Curve:
    """The loss, with a line for each horizon: losses of two of them are of different things."""
    losses = np.array([np.nan if entry["loss"] is None else entry["loss"] for entry in log], dtype=np.float64)
    horizons = [entry.get("horizon", "") for entry in log]
    labels = list(dict.fromkeys(horizons))
    if not 1 < len(labels) <= MOST_LINES:
        return Curve("loss", iterations, losses, log=True)
    lines = np.stack([np.where([h == label for h in horizons], losses, np.nan) for label in labels], axis=1)
    return Curve("loss up to", iterations, lines, log=True, labels=labels)


def _starts(result: Mapping[str, Any]) -> list[StartRow]:
    out = []
    for row in (result.get("starts") or {}).get("rows", []):
        start, end = _told(result, row["start"]), _told(result, row["end"])
        out.append(StartRow(start, row["loss"], end, row["reached"], row["iterations"], row["chosen"]))
    return out


def _told(result: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """Parameters and their values in a line."""
    return ", ".join(
        f"{name} {format_number(value)} {result['parameters'][name]['unit']}".rstrip() for name, value in values.items()
    )


def _horizons(result: Mapping[str, Any]) -> list[HorizonRow]:
    return [
        HorizonRow(row["horizon"], row["initial"], row["final"], row["iteration"], ENDED[row["stopped_because"]])
        for row in result.get("horizons") or []
    ]


def _parameters(problem: Problem, result: Mapping[str, Any]) -> list[ParameterRow]:
    rows = []
    for p in problem.sought:
        found = result["parameters"][p.name]
        rows.append(ParameterRow(
            p.name, found["start"], found["final"], p.unit, found["gradient"], p.bounds, true=_true(problem, p.name),
            log=p.transform.name == "log", note=_remark(found.get("note", "")), error=found.get("standard_error"),
            labels=p.labels, numerics=_numerics(p.name, result), by_cause=found.get("numerical_error") or {},
        ))  # fmt: skip
    return rows


def _remark(note: str) -> str:
    """A note as it stands in the table too: long ones only stand above, among the notes, and would tear the table."""
    return note if len(note) <= LONGEST_REMARK else ""


def _numerics(name: str, result: Mapping[str, Any]) -> str:
    """The numerical error of a parameter, and what the reference would find."""
    reference = (result.get("reference") or {}).get("parameters", {}).get(name)
    parts = [result["parameters"][name].get("numerics", "")]
    parts += [f"reference: {reference_text(reference)}"] if reference else []
    return "; ".join(part for part in parts if part)


def _expectation(problem: Problem, row: Mapping[str, Any]) -> ExpectationRow:
    """With the unit of a parameter or of a measure."""
    units = {f"parameters.{p.name}": p.unit for p in problem.sought}
    units |= {f"experiments.{e.name}.{m.name}": m.unit for e in problem.experiments for m in problem.measures}
    path = row["path"].removesuffix(".final").removesuffix(".simulated")
    return ExpectationRow(row["path"], row["want"], row["got"], row["ok"], units.get(path, ""))


def _results(problem: Problem, result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was found as a fragment of a scene, and as options of the command."""
    source = problem.description.source
    yaml, options = fragment(problem, result), set_options(problem, result)
    out = []
    if yaml:
        files = "".join(f" and {name} of the run folder" for name in found_arrays(problem, result))
        where = f"a scene that starts here: save it{files} beside {source.name}" if source else "values for the scene"
        out.append((where, yaml))
    if options and source:
        out.append(("or on the command line", f"simopt run {shlex.quote(str(source))} {options}"))
    return out


def _correlation(result: Mapping[str, Any]) -> Correlation | None:
    known = result["uncertainty"]
    return None if known is None else Correlation(known["names"], known["correlation"])


def _residuals(result: Mapping[str, Any], misfit: Sequence[Misfit]) -> list[ResidualRow]:
    rows = []
    for m in misfit:
        use, compared = result["experiments"][m.experiment]["use"], "" if m.compare == "position" else m.compare
        noise = np.sqrt(3.0) * m.noise
        words = m.colour.verdict if m.colour is not None else ""
        over = m.in_noise if m.estimated is None else None
        rows.append(ResidualRow(m.experiment, m.markers, use, m.rms, over, m.by_marker, noise, compared, words))
    return rows


def _terms(result: Mapping[str, Any], log: Sequence[Mapping[str, Any]]) -> list[TermRow]:
    first = log[0].get("terms", {}) if log else {}
    return [TermRow(name, first.get(name), value) for name, value in result["loss"]["terms"].items()]


def _experiment(name: str, entry: Mapping[str, Any]) -> ExperimentRow:
    measures = {
        key: MeasureRow(v["simulated"], v["measured"], v["error"], v["unit"], v.get("standard_error"))
        for key, v in entry.items()
        if isinstance(v, Mapping) and "simulated" in v
    }
    return ExperimentRow(name, entry["use"], entry["loss"], measures)


def _joints(name: str, row: Mapping[str, Any]) -> JointErrorRow:
    distances, angles = (tuple(row[f"{how}_{what}"] for how in ("max", "rms")) for what in ("distance", "angle"))
    return JointErrorRow(name, distances, angles, row["worst"], row["time"])


def _contacts(name: str, row: Mapping[str, Any]) -> ContactRow:
    worst, kinds = row["worst"], {kind: count for kind, count in row["kinds"].items() if count}
    of = " and ".join(filter(None, (worst["contact"], worst["on"])))
    return ContactRow(name, row["pushing"], row["switching"], kinds, worst["depth"], of, worst["time"])


def _facts(problem: Problem, result: Mapping[str, Any]) -> list[tuple[str, str]]:
    schedule = problem.experiments[0].schedule
    sets = ", ".join(
        f"{s.count} {name} in {s.color_count} colour{'s' * (s.color_count > 1)}"
        for name, s in problem.model.constraint_sets.items()
    )
    facts = [
        ("command", command_line(result["command"])),
        ("started", result["started"].replace("T", " ").replace("+00:00", " UTC")),
        ("wall time", _seconds(result["wall_s"])),
        ("points", f"{problem.model.particle_count}"),
        *[(name, f"{count}") for name, count in model_counts(problem.model).items() if name != "points"],
        ("constraints", sets or "none"),
        ("steps", f"{schedule.steps} of {schedule.dt:.4g} s"),
        ("device", f"{result['device']}, {result['dtype']}"),
    ]
    if result.get("evaluations"):
        facts.append(("evaluations", str(result["evaluations"])))
        facts.append(("ended because", ENDED[result["stopped_because"]]))
    if result["peak_memory_mb"] is not None:
        facts.append(("peak memory", f"{result['peak_memory_mb']:.0f} MB"))
    facts += [(name, str(version)) for name, version in result["versions"].items() if version]
    hashes = result["files"].items()
    return facts + [(f"SHA-256 of {name}", f"{digest[:16]}… (all of it: result.json)") for name, digest in hashes]
