"""How well parameters are known: standard errors, correlation, what cannot be identified at all.

At the optimum a small change e of the residuals moves the coordinates by -A^-1 J' W e, with J the derivatives of the
residuals, W their weights in the loss and A = J' W J (Gauss-Newton).  So their covariance is A^-1 B A^-1,
B = J' W C W J, with C the covariance of the residuals (the sandwich of P. Huber, 1967; where C is W^-1 it is A^-1).
Two accounts of C are kept side by side:

* by noise: every observation has independent noise of the stated standard deviation (a displacement shares that of its
  first frame; a prior's width and a goal's scale count as noise).
* by residuals: their actual size and colour.  A model that misses something leaves residuals that are correlated from
  frame to frame and say less than their number.  With S the mean spectrum of the residuals over markers and axes,
  B = sum over frequencies f of S(f) G(f)' conj G(f), G the spectra of W J (P. Whittle, 1953; no bandwidth to choose).

The larger of the two is the standard error, which is held against a wider stretch where things touch (`wider`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from sim.identify.losses.jacobian import Linearised
from sim.identify.losses.residuals import Residuals
from sim.identify.problem import Problem
from sim.identify.search.results import short

MOST = 40
"""Numbers beyond which no standard errors are estimated: each costs a rollout."""

WEAK, LOST = 0.7, 3.0
"""Standard errors in coordinates (in a logarithm: factors of 2 and of 20) from which a remark is made."""

ANYTHING = 1e6
"""A factor of which it does not matter any more how large it is."""

ALIKE, MATTERS = 0.95, 0.1
"""Two parameters are said to be hardly told apart from this correlation on, where one of them has a standard error in
coordinates of more than this (10 % of a quantity with a logarithm): two that are known well may make up for each other
as they like."""

ONE_FACTOR = 0.1
"""Relative changes of several parameters that differ by less than this share are said to be by one factor."""

FROM_FRAME_TO_FRAME = 1.5
"""How much larger standard errors are by residuals that count as alike from frame to frame."""

SINGULAR = 1e-12
"""Eigenvalues of the Gauss-Newton matrix, scaled to a diagonal of one, that count as zero."""


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Standard errors at the optimum.

    names: one for each coordinate.  errors, by_noise, by_residuals: parameter -> standard error in the shape and unit
    of the parameter (`errors` the larger of the two, or more by `wider`; infinite: not identifiable; nan: held by a
    bound).  correlation: (n, n), nan where there is no error.  scatter: size of the residuals over the stated noise,
    allowing for the parameters that were fitted.  measures: number -> (standard error, parameter -> d number / d
    parameter).  unseen: (n,) bool, values on which no residual depends.  deviations: (n,) standard errors of the
    coordinates; widened: (n,) how many times what the derivatives tell, see `wider`.  away: how far x is from the
    optimum of the linearised problem, in standard errors, the worst one.  alike: how many times larger than those of
    independent residuals of this size standard errors are, because residuals are alike from frame to frame.
    notes: remarks for people.  rollouts: how many simulations it took.  linearised: what it follows from.
    """

    names: tuple[str, ...]
    errors: dict[str, np.ndarray]
    by_noise: dict[str, np.ndarray]
    by_residuals: dict[str, np.ndarray]
    correlation: np.ndarray
    scatter: float
    measures: dict[str, tuple[float, dict[str, np.ndarray]]] = field(default_factory=dict)
    unseen: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    away: float = 0.0
    notes: tuple[str, ...] = ()
    rollouts: int = 0
    linearised: Linearised | None = None
    deviations: np.ndarray = field(default_factory=lambda: np.zeros(0))
    widened: np.ndarray = field(default_factory=lambda: np.zeros(0))
    alike: float = 1.0

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {short(error)}" for name, error in self.errors.items())
        return f"Uncertainty({shown}; residuals {self.scatter:.3g} times the noise)"


def assess(problem: Problem, found: Linearised) -> Uncertainty:
    """Standard errors from residuals and derivatives at the optimum."""
    x = found.x
    names = coordinate_names(problem)
    free = ~held_by_bounds(problem, x)
    matrix = found.matrix
    inverse, lost = inverse_among(matrix, free)
    noise, residual = np.zeros_like(matrix), np.zeros_like(matrix)
    observed = missed = 0.0
    for part, jacobian in zip(found.residuals, found.jacobians, strict=True):
        here, amount = noise_matrix(part, jacobian)
        noise += here
        residual += residual_matrix(part, jacobian) if part.markers else here
        if part.markers:
            observed += amount
            missed += float(np.sum(part.weight[..., None] * part.score**2))
    left = observed - float(np.trace(inverse @ noise))  # what the fit cannot take away of the noise
    scatter = math.sqrt(missed / left) if left > 0 else math.nan
    # The residuals of a fit are smaller than the errors that made them.
    residual = residual * (observed / left if left > 0 else 1.0)
    covariance = [inverse @ b @ inverse for b in (noise, residual)]
    deviations = [np.sqrt(np.maximum(np.diagonal(c), 0.0)) for c in covariance]
    for d in deviations:
        d[lost] = np.inf
        d[~free] = np.nan
    largest = np.maximum(*deviations)
    # of values, as they are named: of inertia none of them is one coordinate's
    slopes = _slopes(problem, x)
    held, unknown = (slopes[:, ~free] != 0.0).any(axis=1), untold_among(matrix, free, slopes)
    own, actual = (_errors(slopes, c, unknown, held) for c in covariance)
    errors = np.maximum(own, actual)
    correlation = _correlation(slopes @ covariance[0] @ slopes.T, np.isfinite(errors))
    size = np.linalg.norm(slopes, axis=1)
    moves = np.where(size[:, None] > 0.0, slopes != 0.0, np.eye(x.size, dtype=bool))
    unseen = ~held & ~moves[:, np.diagonal(matrix) > 0].any(axis=1)
    known = np.isfinite(largest) & (largest > 0)
    away = float(np.max(np.abs(inverse @ found.descent)[known] / largest[known], initial=0.0))
    alike = _alike_in_time(deviations[0], deviations[1], scatter)
    size *= problem.space.sizes(x)
    in_coordinates = np.divide(errors, size, out=np.zeros(x.size), where=size > 0.0)
    empty = slopes @ empty_among(matrix, free)
    notes = _notes(problem, names, in_coordinates, correlation, unknown, unseen, x, empty)
    notes += _notes_on_residuals(alike, scatter)
    measures = _measures(problem, found, covariance, free)
    by_name, by_noise, by_residuals = (_by_name(problem, numbers) for numbers in (errors, own, actual))
    return Uncertainty(
        names, by_name, by_noise, by_residuals, correlation, scatter, measures, unseen, away, tuple(notes), x.size,
        found, largest, np.ones(x.size), alike,
    )  # fmt: skip


def coordinate_names(problem: Problem) -> tuple[str, ...]:
    """A name for each coordinate: the parameter's, with component, index or experiment where it has several numbers."""
    return tuple(label for p in problem.sought for label in p.labels)


# ------------------------------------------------------------------------------------------------ the two accounts
def noise_matrix(part: Residuals, jacobian: np.ndarray) -> tuple[np.ndarray, float]:
    """J' W C W J of the stated noise, and the trace of W C."""
    y = part.weight[..., None, None] * jacobian
    seen = part.of_observations(y)
    kept = _kept(part.huber)
    return kept * np.einsum("fmai,fmaj->ij", seen, seen), (
        kept * part.values.shape[2] * float(np.sum(part.weight * part.own_variance)) if part.markers else 0.0
    )


def _kept(huber: float) -> float:
    """Variance of a standard normal number that is clipped at `huber`."""
    if not math.isfinite(huber):
        return 1.0
    inside = math.erf(huber / math.sqrt(2.0))
    return inside - 2.0 * huber * math.exp(-0.5 * huber**2) / math.sqrt(2.0 * math.pi) + huber**2 * (1.0 - inside)


def residual_matrix(part: Residuals, jacobian: np.ndarray) -> np.ndarray:
    """J' W C W J, C from the mean spectrum of the residuals over markers and axes."""
    frames, n = part.values.shape[0], jacobian.shape[-1]
    used = part.weight > 0
    if not used.any():  # a term of weight 0
        return np.zeros((n, n))
    score = np.where(used[..., None], part.score, 0.0).reshape(frames, -1)
    y = (part.weight[..., None, None] * jacobian).reshape(frames, -1, n)
    length = 2 * frames  # padded with zeros: the end of a take is no neighbour of its beginning
    power = np.sum(np.abs(np.fft.fft(score, length, axis=0)) ** 2, axis=1) / (part.values.shape[2] * used.sum())
    spectra = np.fft.fft(y, length, axis=0)
    return np.einsum("f,fsi,fsj->ij", power, spectra.conj(), spectra).real / length


# ------------------------------------------------------------------------------------------------ linear algebra
def held_by_bounds(problem: Problem, x: np.ndarray) -> np.ndarray:
    """Coordinates (n,) that stand on a bound: the loss would go on falling beyond it."""
    lower, upper = problem.bounds
    return (x <= lower) | (x >= upper)


def directions_among(matrix: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Directions (n, k) of the free coordinates that the matrix tells, each as long as it is known: D' A D = 1, and
    D D' is the inverse."""
    use, scale, values, vectors = _spectrum(matrix, free)
    told = values >= SINGULAR
    out = np.zeros((len(matrix), int(told.sum())))
    out[use] = vectors[:, told] / np.sqrt(values[told]) / scale[:, None]
    return out


def inverse_among(matrix: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverse of the matrix among the free coordinates, and which of them (n,) it says nothing about."""
    told = directions_among(matrix, free)
    return told @ told.T, free & untold_among(matrix, free, np.eye(len(matrix)))


def untold_among(matrix: np.ndarray, free: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Which numbers (m,), of derivatives (m, n) by the coordinates, change along a direction of the free ones that the
    matrix says nothing about."""
    use, scale, values, vectors = _spectrum(matrix, free)
    seen = np.zeros(len(matrix), bool)
    seen[use] = True
    scaled = slopes[:, use] / scale
    along = np.abs(scaled @ vectors[:, values < SINGULAR]) > 1e-3 * np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(along.any(axis=1) | (slopes[:, free & ~seen] != 0.0).any(axis=1))


def empty_among(matrix: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Directions (n, m) of the free coordinates along which the matrix says nothing."""
    use, scale, values, vectors = _spectrum(matrix, free)
    out = np.zeros((len(matrix), int((values < SINGULAR).sum())))
    out[use] = vectors[:, values < SINGULAR] / scale[:, None]
    unseen = free & ~np.isin(np.arange(len(matrix)), use)
    return np.concatenate([out, np.eye(len(matrix))[:, unseen]], axis=1)


def least_told(matrix: np.ndarray, free: np.ndarray) -> float:
    """How much the matrix tells of the change of coordinates of which it tells least, over what it tells of each: 1
    where all are unlike each other."""
    return float(np.min(_spectrum(matrix, free)[2], initial=1.0))


def _spectrum(matrix: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The free coordinates that the matrix sees, their scales, and the eigenvalues and vectors of what is scaled to a
    diagonal of one: whether a direction is empty must not depend on the units of the coordinates."""
    scale = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    use = np.flatnonzero(free & (scale > 0))
    scale = scale[use]
    return use, scale, *np.linalg.eigh(matrix[np.ix_(use, use)] / np.outer(scale, scale))


def _correlation(covariance: np.ndarray, known: np.ndarray) -> np.ndarray:
    variance = np.diagonal(covariance)
    deviation = np.sqrt(np.where(known & (variance > 0), variance, np.nan))
    return covariance / np.outer(deviation, deviation)


def _errors(slopes: np.ndarray, covariance: np.ndarray, unknown: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Standard errors (m,) of numbers with derivatives (m, n) by the coordinates, to first order; infinite where they
    are not known, nan where a bound holds them."""
    out = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", slopes, covariance, slopes), 0.0))
    out[unknown] = np.inf
    out[held] = np.nan
    return out


def _by_name(problem: Problem, numbers: np.ndarray) -> dict[str, np.ndarray]:
    """Numbers (n,), one for each that is sought, by parameter and in its shape."""
    space = problem.space
    return {name: numbers[part].reshape(space.shapes[name]) for name, part in space.slices.items()}


def _slopes(problem: Problem, x: np.ndarray) -> np.ndarray:
    """d values / d coordinates (n, n)."""
    out = np.zeros((x.size, x.size))
    for name, part in problem.space.slices.items():
        u, unit = x[part].reshape(problem.space.shapes[name]), np.eye(part.stop - part.start)
        forward = problem.space.transforms[name].push_forward
        out[part, part] = np.transpose([forward(u, row.reshape(u.shape)).ravel() for row in unit])
    return out


def _measures(
    problem: Problem, found: Linearised, covariance: list[np.ndarray], free: np.ndarray
) -> dict[str, tuple[float, dict[str, np.ndarray]]]:
    """Standard errors of numbers that follow from the parameters, and their derivatives by physical values."""
    out = {}
    for name, slope in found.slopes.items():
        error = max(math.sqrt(max(float(slope @ c @ slope), 0.0)) for c in covariance)
        if untold_among(found.matrix, free, slope[None])[0]:
            error = math.inf
        by_value = {}
        for parameter, part in problem.space.slices.items():
            shape = problem.space.shapes[parameter]
            u = found.x[part].reshape(shape)
            by_value[parameter] = problem.space.transforms[parameter].per_physical(u, slope[part].reshape(shape))
        out[name] = (error, by_value)
    return out


# ------------------------------------------------------------------------------------------------ words
def _notes(
    problem: Problem,
    names: tuple[str, ...],
    largest: np.ndarray,
    correlation: np.ndarray,
    lost: np.ndarray,
    unseen: np.ndarray,
    x: np.ndarray | None = None,
    empty: np.ndarray | None = None,
) -> list[str]:
    """What is not known, and why.  largest (n,): standard errors of values, as long as coordinates that change them so
    much; lost, unseen: of values.  x (n,): the optimum.  empty (n, m): changes of values that nothing tells."""
    notes = []
    together = {} if empty is None else _only_together(lost & ~unseen, empty)
    for i, name in enumerate(names):
        if x is not None and i in together:
            members, change = together[i]
            if i == members[0]:
                listed = ", ".join(f"`{names[k]}`" for k in members)
                how = _in_words(problem, names, members, change, x)
                notes.append(
                    f"{listed} are not identifiable one by one: the recordings do not change where they change"
                    f" together, {how}"
                )
        elif lost[i] and not unseen[i]:
            notes.append(
                f"`{name}` is not identifiable: the loss does not change along some direction that includes it; "
                "leave it out, give it a prior, or record what depends on it"
            )
        elif not np.isfinite(largest[i]):
            continue  # held by a bound, or not seen at all: what `notes` says
        elif largest[i] > LOST:
            notes.append(f"`{name}` is not identifiable from these recordings: {_span(problem, name, largest[i])}")
        elif largest[i] > WEAK:
            notes.append(f"`{name}` is poorly known: {_span(problem, name, largest[i])}")
    return notes + _alike(problem, names, largest, correlation, x)


def _only_together(lost: np.ndarray, empty: np.ndarray) -> dict[int, tuple[list[int], np.ndarray]]:
    """Each of the values (n,) that are lost by one change of several at once: these, and the change (n,)."""
    size = np.max(np.abs(empty), axis=1, initial=0.0)
    within = lost[:, None] & (np.abs(empty) > 1e-3 * size[:, None])
    out: dict[int, tuple[list[int], np.ndarray]] = {}
    for change, members in zip(empty.T, within.T, strict=True):
        chosen = np.flatnonzero(members)
        if chosen.size > 1 and (within[chosen].sum(axis=1) == 1).all():
            out |= {int(k): (chosen.tolist(), change) for k in chosen}
    return out


def _alike(
    problem: Problem, names: tuple[str, ...], largest: np.ndarray, correlation: np.ndarray, x: np.ndarray | None
) -> list[str]:
    """Those that make each other uncertain: of two parameters with several numbers each, the most alike pair; three or
    more that hang together are told at once."""
    owner = [name for name, part in problem.space.slices.items() for _ in range(part.start, part.stop)]
    worst: dict[tuple[str, str], tuple[int, int]] = {}
    for i, j in combinations(range(len(names)), 2):
        if (
            not abs(correlation[i, j]) > ALIKE
            or not np.isfinite(largest[[i, j]]).all()
            or max(largest[i], largest[j]) < MATTERS
        ):
            continue
        pair = owner[i], owner[j]
        if pair not in worst or abs(correlation[i, j]) > abs(correlation[worst[pair]]) + 1e-6:
            worst[pair] = i, j
    notes = []
    for members in _joined(worst.values()):
        if len(members) > 2 and x is not None:
            notes.append(_together(problem, names, members, largest, correlation, x))
            continue
        for i, j in (pair for pair in worst.values() if pair[0] in members):
            how = "growing" if correlation[i, j] > 0 else "shrinking"
            gain = 1.0 / math.sqrt(max(1.0 - correlation[i, j] ** 2, 1e-12))
            notes.append(
                f"`{names[i]}` and `{names[j]}` can hardly be told apart (correlation {correlation[i, j]:+.3f}): when"
                f" one grows, the other makes up for it by {how}; with one of them known, the other's standard error"
                f" were {gain:.2g} times smaller"
            )
    return notes


def _joined(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Which numbers hang together by pairs, in ascending order."""
    sets: list[set[int]] = []
    for pair in pairs:
        touched = [s for s in sets if not s.isdisjoint(pair)]
        sets = [s for s in sets if s not in touched] + [set(pair).union(*touched)]
    return sorted(map(sorted, sets))


def _together(
    problem: Problem,
    names: tuple[str, ...],
    members: list[int],
    largest: np.ndarray,
    correlation: np.ndarray,
    x: np.ndarray,
) -> str:
    """That only one change of several parameters at once is hardly told, and which one."""
    first = max(members, key=lambda k: largest[k])
    # how the others go along with it: regression on the one that is known least
    sizes = largest * np.linalg.norm(_slopes(problem, x), axis=1) * problem.space.sizes(x)
    how = _in_words(problem, names, members, correlation[:, first] * sizes / largest[first], x)
    listed = ", ".join(f"`{names[k]}`" for k in members)
    return f"{listed} can hardly be told apart: the recordings hardly change where they change together, {how}"


def _in_words(problem: Problem, names: tuple[str, ...], members: list[int], moved: np.ndarray, x: np.ndarray) -> str:
    """A change (n,) of several values that recordings do not tell, and what to do about it."""
    values = np.concatenate([np.ravel(value) for value in problem.space.unpack(x).values()])
    shares = [moved[k] / values[k] if values[k] else math.nan for k in members]
    known = [abs(s) for s in shares if math.isfinite(s)]
    one_way = min(shares) * max(shares) > 0
    if len(known) == len(members) and max(known) - min(known) < ONE_FACTOR * max(known) and one_way:
        what = "all of them by the same factor"
    else:
        most = max(known, default=math.nan)
        what = ", ".join(
            f"`{names[k]}` by {s / most:+.2g} %"
            if math.isfinite(s)
            else f"`{names[k]}` by {0.01 * moved[k] / most:+.2g}"
            for k, s in zip(members, shares, strict=True)
        )
    return f"{what}; give one of them (measure or weigh it) or a prior, and the others are known with it"


def _alike_in_time(own: np.ndarray, actual: np.ndarray, scatter: float) -> float:
    """How many times larger standard errors (n,) by residuals are than those by noise of the residuals' size."""
    known = np.isfinite(own) & np.isfinite(actual) & (own > 0)
    return float(np.max(actual[known] / own[known] / (scatter or 1.0), initial=0.0))


def _notes_on_residuals(alike: float, scatter: float) -> list[str]:
    """What the residuals say about the fit; that they are too large is said in `notes`."""
    notes = []
    if scatter < 0.5:
        notes.append(
            f"the residuals are only {scatter:.2g} times the stated noise: the standard errors go by the stated "
            "noise and may be too large"
        )
    if alike > FROM_FRAME_TO_FRAME:
        notes.append(
            "the residuals are alike from frame to frame (autocorrelated), and so say less than their number: the"
            f" standard errors are up to {alike:.2g} times as large as for independent ones"
        )
    return notes


def _span(problem: Problem, name: str, deviation: float) -> str:
    """A standard error as long as coordinates, in words."""
    parameter = next(p for p in problem.sought if name in p.labels)
    if parameter.transform.name == "log":
        factor = math.exp(min(deviation * float(np.max(parameter.transform.scale)), 300.0))
        return f"its standard error is a factor of {f'{factor:.2g}' if factor < ANYTHING else 'more than a million'}"
    if parameter.transform.name == "log-cholesky":
        return f"its standard error is {deviation:.2g} of a logarithm (1 is a factor of e)"
    return f"its standard error is {deviation:.2g} times its scale, or its value where that is larger"
