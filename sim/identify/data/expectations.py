"""Expectations: claims about the result of a run, by path into `result.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Expectation:
    """A number of the result that should be `value` up to `within` (relative), or lie between, below or above.

    path: as in the scene, `parameters.stretch` or `loss.final`.  value: a number or one per component.  measured: a
    measure of an experiment should be what the recording gives, up to `within`.
    """

    path: str
    value: Any = None
    within: float | None = None
    between: tuple[float, float] | None = None
    below: float | None = None
    above: float | None = None
    unit: str = ""
    measured: bool = False

    @property
    def want(self) -> str:
        """The claim in words."""
        unit = f" {self.unit}" if self.unit else ""
        if self.measured:
            return f"as measured, within {100 * (self.within or 0.0):g} %"
        if self.value is not None:
            return f"{_show(self.value)}{unit} within {100 * (self.within or 0.0):g} %"
        if self.between is not None:
            return f"between {self.between[0]:g} and {self.between[1]:g}{unit}"
        if self.below is not None:
            return f"below {self.below:g}{unit}"
        return f"above {self.above:g}{unit}"

    def holds(self, got: Any) -> bool:
        """Whether a number meets the claim; a missing or non-finite one does not."""
        if got is None or isinstance(got, str):
            return False
        numbers = np.asarray(got, dtype=np.float64)
        if not np.isfinite(numbers).all():
            return False
        if self.value is not None:
            wanted = np.asarray(self.value, dtype=np.float64)
            assert self.within is not None
            return bool(np.all(np.abs(numbers - wanted) <= self.within * np.linalg.norm(wanted)))
        if self.between is not None:
            return bool(np.all((numbers >= self.between[0]) & (numbers <= self.between[1])))
        if self.below is not None:
            return bool(np.all(numbers < self.below))
        assert self.above is not None
        return bool(np.all(numbers > self.above))


def look_up(result: Mapping[str, Any], path: str) -> Any:
    """The number at a path; of a table that has several, the final or the simulated one.  None where there is none."""
    found: Any = result
    words = path.split(".")
    while words:
        # A name may hold a dot: a parameter of one region, `stretch.left`.
        size = next(
            (n for n in range(1, len(words) + 1) if isinstance(found, Mapping) and ".".join(words[:n]) in found), 0
        )
        if not size:
            return None
        found, words = found[".".join(words[:size])], words[size:]
    if isinstance(found, Mapping):
        found = found.get("final", found.get("simulated"))
    return found


def check_all(expectations: list[Expectation], result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows {path, want, got, ok} for result.json."""
    rows = []
    for expectation in expectations:
        got = look_up(result, expectation.path)
        want = expectation
        if expectation.measured:
            found = look_up(result, f"{expectation.path}.measured")
            want = replace(expectation, value=found)
            words = f"{found:.5g} {expectation.unit}".strip() if found is not None else "nothing"
            rows.append(
                {
                    "path": expectation.path,
                    "want": f"{words}, as measured, within {100 * (want.within or 0.0):g} %",
                    "got": got,
                    "ok": found is not None and want.holds(got),
                }
            )
            continue
        rows.append({"path": expectation.path, "want": want.want, "got": got, "ok": want.holds(got)})
    return rows


def _show(value: Any) -> str:
    flat = np.atleast_1d(np.asarray(value, dtype=np.float64))
    text = ", ".join(f"{item:g}" for item in flat)
    return text if np.ndim(value) == 0 else f"[{text}]"
