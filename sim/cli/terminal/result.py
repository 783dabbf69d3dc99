"""What a run found, in tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim.cli.terminal.tables import few_digits, number_text, print_columns, print_table
from sim.identify.report.reference import reference_text
from sim.identify.run import REPORT
from sim.identify.search.loop import ENDED
from sim.io import ParameterRow
from sim.io.report_parameters import MOST_ROWS, number_cells


def show_result(result: Mapping[str, Any], folder: Path) -> None:
    """What a run found, in tables that fit into 80 columns, and where everything else is."""
    _show_parameters(result, folder)
    _show_numerics(result)
    _show_reference(result)
    if result["starts"]:
        print_starts(result["starts"])
    if result["horizons"]:
        print_horizons(result["horizons"])
    _show_measures(result)
    _show_joints(result)
    _show_contacts(result)
    if result["expect"]:
        print_columns(
            "expected",
            result["expect"],
            ("", lambda row: row["path"].removeprefix("experiments.")),
            ("want", lambda row: row["want"].replace(", as measured,", " measured,")),
            ("got", lambda row: f"{number_text(row['got'])} {_unit(result, row['path'])}".strip()),
            ("", lambda row: "ok" if row["ok"] else "NOT MET"),
        )
    loss = result["loss"]
    if loss["final"] is not None:
        print(
            f"loss {number_text(loss['initial'])} -> {number_text(loss['final'])} in {result['iterations']} iterations"
            f" of {result['method']}, {result['evaluations']} evaluations, {result['wall_s']:.1f} s; ended:"
            f" {ENDED[result['stopped_because']]}"
        )
    else:
        print(f"{result['stopped_because']} in {result['wall_s']:.1f} s")
    print(f"{folder / REPORT if (folder / REPORT).exists() else folder}")


def _show_parameters(result: Mapping[str, Any], folder: Path) -> None:
    rows = [
        ParameterRow(name, p["start"], p["final"], p["unit"], error=p.get("standard_error"), labels=p.get("labels", ()))
        for name, p in result["parameters"].items()
    ]
    if rows:
        lines = [line for row in rows for line in _parameter(row)]
        print_table("parameters", ["", "start", "found", "standard error", "unit"], lines)
    for row in rows:
        if row.size > MOST_ROWS:
            where = folder / "result.json"
            print(f"{row.name}: {row.size} numbers, lowest ... median ... highest; all of them: {where}")


def _show_numerics(result: Mapping[str, Any]) -> None:
    """A line for each parameter: its value, its error bar by noise, its numerical error by cause, and what that is."""
    if any("numerical_error" in p for p in result["parameters"].values()):
        print("numerics: how far a value would move with steps, iterations and a mesh without error")
    for name, p in result["parameters"].items():
        if "numerics" not in p:
            continue
        values, errors = np.ravel(p["final"]), np.ravel(p.get("standard_error", np.nan))
        value = number_text(values[0]) if values.size == 1 else f"{values.size} numbers"
        with np.errstate(divide="ignore", invalid="ignore"):
            share = 100 * np.nanmax(np.abs(errors / values)) if np.isfinite(errors).any() else np.nan
        noise = f" +- {share:.2g} % (noise)" if np.isfinite(share) else ""
        if values.size > 1 and noise:  # one of them may be zero
            noise = f" +- up to {np.nanmax(errors):.2g} {p['unit']}".rstrip() + " (noise)"
        print(f"{name} {value}{noise}, numerics: {p['numerics']}")
    for cause, why in ((result.get("numerics") or {}).get("missing") or {}).items():
        print(f"{cause} not estimated: {why}")


def _show_reference(result: Mapping[str, Any]) -> None:
    """A line for each parameter: what the reference solver would find."""
    row = result.get("reference") or {"parameters": {}}
    for name, p in row["parameters"].items():
        print(f"{name} would be {reference_text(p)} with the reference solver {row['solver']}")


def _show_measures(result: Mapping[str, Any]) -> None:
    rows = [
        (experiment, name, m)
        for experiment, e in result["experiments"].items()
        for name, m in e.items()
        if isinstance(m, Mapping) and "simulated" in m
    ]
    if rows:
        print_columns(
            "measures",
            rows,
            ("", lambda row: row[0]),
            ("", lambda row: row[1]),
            ("simulated", lambda row: number_text(row[2]["simulated"])),
            ("measured", lambda row: number_text(row[2]["measured"])),
            ("unit", lambda row: row[2]["unit"]),
            ("error", lambda row: "-" if row[2]["error"] is None else f"{row[2]['error']:+.1%}"),
        )


def _show_joints(result: Mapping[str, Any]) -> None:
    """How far rigid joints come apart, largest (root mean square)."""
    if result.get("joints"):
        print_columns(
            "errors of rigid joints, largest (rms)",
            result["joints"].items(),
            ("", lambda row: row[0]),
            ("apart [m]", lambda row: f"{row[1]['max_distance']:.2g} ({row[1]['rms_distance']:.2g})"),
            ("turned [rad]", lambda row: f"{row[1]['max_angle']:.2g} ({row[1]['rms_angle']:.2g})"),
            ("worst", lambda row: row[1]["worst"]),
            ("at [s]", lambda row: f"{row[1]['time']:.4g}"),
        )


def _show_contacts(result: Mapping[str, Any]) -> None:
    """How many contacts push, how many are about to switch, and how deep the worst one is."""
    if result.get("contacts"):
        print_columns(
            "contacts that push, summed over steps",
            result["contacts"].items(),
            ("", lambda row: row[0]),
            ("push", lambda row: str(row[1]["pushing"])),
            ("switch", lambda row: str(row[1]["switching"])),
            ("deepest [m]", lambda row: f"{row[1]['worst']['depth']:.2g}"),
            ("of", lambda row: " - ".join(filter(None, (row[1]["worst"]["contact"], row[1]["worst"]["on"])))),
            ("at [s]", lambda row: f"{row[1]['worst']['time']:.4g}" if row[1]["worst"]["depth"] else "-"),
        )


def _parameter(row: ParameterRow) -> list[list[str]]:
    """A line for each number, or one with the range of many."""
    if row.size > MOST_ROWS:
        return [[row.name, _range(row.start), _range(row.final), _range(row.error), row.unit]]
    numbers = [row] if row.size == 1 else list(row.numbers())
    return [
        [
            one.name,
            number_text(one.start),
            *(cell.replace("−", "-").replace("–", "-") for cell in number_cells(one)),
            one.unit,
        ]
        for one in numbers
    ]


def _unit(result: Mapping[str, Any], path: str) -> str:
    """The unit of a parameter or of a measure; empty for other numbers of the result."""
    kind, _, rest = path.removesuffix(".final").removesuffix(".simulated").partition(".")
    experiment, _, measure = rest.partition(".")
    found = (
        result["parameters"].get(rest)
        if kind == "parameters"
        else result["experiments"].get(experiment, {}).get(measure)
    )
    return (
        found["unit"]
        if kind in ("parameters", "experiments") and isinstance(found, Mapping) and "unit" in found
        else ""
    )


def _range(value: Any) -> str:
    """Lowest, median and highest of many numbers."""
    flat = np.zeros(0) if value is None else np.ravel(np.asarray(value, dtype=np.float64))
    flat = flat[np.isfinite(flat)]
    if not flat.size:
        return "-"
    low, middle, high = (f"{v:.3g}" for v in (flat.min(), np.median(flat), flat.max()))
    return low if low == high else f"{low} ... {middle} ... {high}"


def print_starts(found: Mapping[str, Any]) -> None:
    """Where each of several starts stood, how far it came before the search went on; `found`: as in result.json."""
    names = list(found["rows"][0]["start"])
    rows = [
        [
            f"{k + 1}{' *' if row['chosen'] else ''}",
            *(f"{few_digits(row['start'][name])} -> {few_digits(row['end'][name])}" for name in names),
            _loss(row["loss"]),
            _loss(row["reached"]),
        ]
        for k, row in enumerate(found["rows"])
    ]
    print_table(f"starts (* chosen; horizon {found['horizon']})", ["", *names, "loss", "reached"], rows)


def print_horizons(found: Sequence[Mapping[str, Any]]) -> None:
    """How the search went from horizon to horizon; `found`: as in result.json."""
    print_columns(
        "horizons",
        found,
        ("", lambda row: row["horizon"]),
        ("loss before", lambda row: _loss(row["initial"])),
        ("after", lambda row: _loss(row["final"])),
        ("last iteration", lambda row: str(row["iteration"])),
        ("ended because", lambda row: ENDED[row["stopped_because"]]),
    )


def _loss(value: float | None) -> str:
    return "breaks down" if value is None else f"{value:.5g}"
