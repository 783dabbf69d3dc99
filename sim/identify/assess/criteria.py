"""Information criteria of fits to the same recordings, with as many observations as count as independent.

With the mean square s^2 of the residuals and n effective observations, the noise being unknown, -2 log likelihood is
n log s^2 up to a constant.  AICc = n log s^2 + 2 k + 2 k (k + 1) / (n - k - 1) (N. Sugiura, 1978; C. Hurvich, C.-L.
Tsai, 1989), BIC = n log s^2 + k log n (G. Schwarz, 1978).  Residuals that are alike from frame to frame would count
many times over: n is their number over the frames in which they are alike, of the fit that leaves least.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Fit:
    """What a run leaves of the recordings that it fitted: their numbers, as how many independent ones they count, the
    mean square of residuals over their noise, how many numbers were sought, and which observations there were."""

    numbers: int
    effective: float
    mean_square: float
    sought: int
    of: tuple[tuple[str, str, int], ...]

    @property
    def row(self) -> dict[str, Any]:
        """As plain data."""
        return {key: value for key, value in asdict(self).items() if key != "of"}


def fit_of(result: Mapping[str, Any]) -> Fit | None:
    """That of a run by its result.json; None where it was fitted to no recording."""
    numbers, effective, square, of = 0, 0.0, 0.0, []
    sought = sum(np.size(row["final"]) for row in result["parameters"].values())
    for name, row in sorted(result["experiments"].items()):
        if row["use"] != "fit":
            continue
        for markers, residual in sorted(row.get("residuals", {}).items()):
            if residual.get("in_noise") is None or not residual.get("numbers"):
                continue
            count = int(residual["numbers"])
            numbers += count
            effective += float(residual.get("over_time", {}).get("effective", count))
            square += count * float(residual["in_noise"]) ** 2
            of.append((name, markers, count))
        sought += sum(np.size(entry["value"]) for entry in row.get("alignment", {}).values())
    return Fit(numbers, effective, square / numbers, sought, tuple(of)) if numbers else None


def criteria(fits: Sequence[Fit | None]) -> list[dict[str, float | None]]:
    """`aicc` and `bic` of each, above the least; None where there is no fit, or they saw other observations."""
    known = [fit for fit in fits if fit is not None]
    if len({fit.of for fit in known}) != 1:
        return [{"aicc": None, "bic": None} for _ in fits]
    n = min(known, key=lambda fit: fit.mean_square).effective
    found = [None if fit is None else _scores(fit, n) for fit in fits]
    least = [min(pair[i] for pair in found if pair is not None) for i in range(2)]
    return [
        {"aicc": None, "bic": None} if pair is None else {"aicc": pair[0] - least[0], "bic": pair[1] - least[1]}
        for pair in found
    ]


def _scores(fit: Fit, n: float) -> tuple[float, float]:
    k = fit.sought + 1  # and the size of the noise
    likelihood = n * math.log(fit.mean_square)
    correction = 2.0 * k * (k + 1) / (n - k - 1) if n > k + 1 else math.inf
    return likelihood + 2.0 * k + correction, likelihood + k * math.log(n)
