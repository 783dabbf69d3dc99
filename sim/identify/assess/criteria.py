"""Information criteria of fits to the same recordings, with as many observations as count as independent.

With the mean square s^2 of the residuals over their stated noise and n effective observations, the size of the noise
being unknown, -2 log likelihood is n log s^2 up to a constant; where noise was estimated, of m of them, sum m log
sigma^2 instead, and every sigma counts as a number sought.  With that L, AICc = L + 2 k + 2 k (k + 1) / (n - k - 1)
(N. Sugiura, 1978; C. Hurvich, C.-L. Tsai, 1989), BIC = L + k log n (G. Schwarz, 1978).  Residuals that are alike from
frame to frame would count many times over: n is their number over the frames in which they are alike, of the fit that
leaves least.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Fit:
    """What a run leaves of the recordings that it fitted.

    numbers: of residuals; effective: as how many independent ones they count.  mean_square: of the `scaled` of them,
    whose noise was stated up to a common size, over that noise.  log_noise: the mean over all of log sigma^2, sigma in
    metres.  sought: how many numbers were; estimated: how many sigmas.  of: which observations there were.
    """

    numbers: int
    effective: float
    mean_square: float
    sought: int
    of: tuple[tuple[str, str, int], ...]
    log_noise: float = 0.0
    estimated: int = 0
    scaled: int = 0

    @property
    def likelihood(self) -> float:
        """-2 log likelihood by observation, up to a constant of the recordings."""
        return self.log_noise + self.scaled / self.numbers * math.log(self.mean_square)

    @property
    def row(self) -> dict[str, Any]:
        """As plain data."""
        return {key: value for key, value in asdict(self).items() if key != "of"}


def fit_of(result: Mapping[str, Any]) -> Fit | None:
    """That of a run by its result.json; None where it was fitted to no recording."""
    numbers, effective, square, of, log_noise, estimated, scaled = 0, 0.0, 0.0, [], 0.0, 0, 0
    sought = sum(np.size(row["final"]) for row in result["parameters"].values())
    for name, row in sorted(result["experiments"].items()):
        if row["use"] != "fit":
            continue
        for markers, residual in sorted(row.get("residuals", {}).items()):
            if not residual.get("numbers"):
                continue
            count = int(residual["numbers"])
            numbers += count
            effective += float(residual.get("over_time", {}).get("effective", count))
            noise = residual.get("noise", {})  # of runs of an earlier version nobody knows
            log_noise += 2.0 * count * math.log(float(noise.get("typical", math.nan)))
            if "estimated" in noise:
                estimated += len(noise["value"])
            else:
                scaled += count
                square += count * float(residual["in_noise"]) ** 2
            of.append((name, markers, count))
        sought += sum(np.size(entry["value"]) for entry in row.get("alignment", {}).values())
    if not numbers:
        return None
    return Fit(
        numbers,
        effective,
        square / scaled if scaled else 1.0,
        sought,
        tuple(of),
        log_noise / numbers,
        estimated,
        scaled,
    )


def criteria(fits: Sequence[Fit | None]) -> list[dict[str, float | None]]:
    """`aicc` and `bic` of each, above the least; None where there is no fit, or they saw other observations."""
    known = [fit for fit in fits if fit is not None]
    if len({fit.of for fit in known}) != 1 or any(math.isnan(fit.log_noise) for fit in known):
        return [{"aicc": None, "bic": None} for _ in fits]
    n = min(known, key=lambda fit: fit.likelihood).effective
    found = [None if fit is None else _scores(fit, n) for fit in fits]
    least = [min(pair[i] for pair in found if pair is not None) for i in range(2)]
    return [
        {"aicc": None, "bic": None} if pair is None else {"aicc": pair[0] - least[0], "bic": pair[1] - least[1]}
        for pair in found
    ]


def _scores(fit: Fit, n: float) -> tuple[float, float]:
    k = fit.sought + fit.estimated + bool(fit.scaled)  # and the size of the noise
    likelihood = n * fit.likelihood
    correction = 2.0 * k * (k + 1) / (n - k - 1) if n > k + 1 else math.inf
    return likelihood + 2.0 * k + correction, likelihood + k * math.log(n)
