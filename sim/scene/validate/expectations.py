"""Checks of `expect`: that paths name numbers of the result, and that claims about them can hold."""

from __future__ import annotations

from typing import Any

from sim.identify.data.measures import MEASURE_SPECS
from sim.scene.validate.parameters import Targets
from sim.schema.errors import word_hint
from sim.schema.kinds import Number, Tuple
from sim.schema.reading import Kind, Reading

Results = dict[str, tuple[str, int]]  # path in result.json that can be expected -> unit and count of numbers


def check_expectations(data: dict[str, Any], targets: Targets, reading: Reading) -> None:
    """Reads what is expected, in the unit of the number that it is expected of."""
    results = _results(data, targets)
    for path in list(data.get("expect", {})):
        _check(path, data, results, reading)


def _check(path: str, data: dict[str, Any], results: Results, reading: Reading) -> None:
    steps, entry = ("expect", path), data["expect"][path]
    words = path.split(".")
    if path not in results and words[:2] != ["loss", "terms"]:
        if not reading.is_broken(tuple(words[:2])) and not reading.is_broken(("measures", words[-1])):
            shown = [known for known in results if not known.endswith((".start", ".final", ".simulated", ".measured"))]
            hint = word_hint(path, results) or word_hint(path, shown)
            reading.problem(steps, f"`{path}` is not a number in the result", hint, key=True)
        return
    unit, count = results.get(path, ("", 1))
    number: Kind = Number(unit)
    value = reading.read_deferred(steps, entry, "value", Tuple(count, unit) if count > 1 else number)
    if value in (0.0, 0):
        reading.problem((*steps, "value"), "a relative tolerance of zero allows nothing", "use `between`")
    between = reading.read_deferred(steps, entry, "between", Tuple(2, unit))
    if between and between[0] >= between[1]:
        reading.problem((*steps, "between"), f"{between[0]:g} is not below {between[1]:g}", "write [low, high]")
    for key in ("below", "above"):
        reading.read_deferred(steps, entry, key, number)
    if "measured" in entry:
        measure = len(words) == 3 and words[0] == "experiments" and words[2] in data.get("measures", {})
        if not measure:
            reading.problem(
                (*steps, "measured"),
                f"`{path}` has no measured counterpart",
                "`measured` is for `experiments.<name>.<measure>`",
                key=True,
            )
        elif "target" not in data["experiments"][words[1]] and not reading.is_broken((*words[:2], "target")):
            reading.problem(
                (*steps, "measured"),
                f"experiment `{words[1]}` has no recording to measure",
                f"give `experiments.{words[1]}.target`",
                key=True,
            )


def _results(data: dict[str, Any], targets: Targets) -> Results:
    plain = ("loss.initial", "loss.final", "loss.best_iteration", "iterations", "peak_memory_mb")
    results = {**{path: ("", 1) for path in plain}, "wall_s": ("s", 1)}
    for name, entry in data.get("parameters", {}).items():
        own = targets.get(name)
        of = (own[0].kind.unit, own[0].count) if own else ("", 1)
        names = (
            [f"{name}.{region}" for region in own[0].found.value["regions"]]
            if own and entry.get("per") == "region"
            else [name]
        )
        results |= {f"parameters.{one}{part}": of for one in names for part in ("", ".start", ".final")}
    for name in data.get("experiments", {}):
        results[f"experiments.{name}.loss"] = ("", 1)
        for measure, entry in data.get("measures", {}).items():
            unit = MEASURE_SPECS[entry["kind"]].unit if "kind" in entry else ""
            path = f"experiments.{name}.{measure}"
            results |= {f"{path}{part}": (unit, 1) for part in ("", ".simulated", ".measured")}
            results[f"{path}.error"] = ("", 1)
    return results
