"""From physical parameters to the coordinates in which an optimiser works, and gradients back.

A compliance of 0.3 m/N and a Young's modulus of 1e5 Pa have nothing in common as numbers; their logarithms have: a
step of 1 is a factor of e for both.  Every transform divides by a `scale`, so that a step of one in any coordinate is
a bold but sensible one.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from sim.identify.parameters.log_cholesky import coordinates_of, inertia_jacobian, inertia_of, is_physical

INSIDE = 0.01
"""How far a start on a bound is moved inside: the share of the range."""

BESIDE = 1e-3
"""The share of the range within which a value that cannot reach its bound counts as standing on it."""


class Transform:
    """An increasing map between physical values p (any shape) and coordinates u (same shape), with bounds on p.

    lower, upper: physical bounds, numbers or arrays of p's shape; infinite where open.
    scale: what a unit step in u is worth.  name: as in a scene.
    """

    name: ClassVar[str] = "none"

    def __init__(self, lower: Any = None, upper: Any = None, scale: Any = 1.0):
        self.lower = np.asarray(-np.inf if lower is None else lower, dtype=np.float64)
        self.upper = np.asarray(np.inf if upper is None else upper, dtype=np.float64)
        self.scale = np.asarray(scale, dtype=np.float64)
        if not np.all(self.lower < self.upper):
            raise ValueError(f"bounds [{_show(lower)}, {_show(upper)}]: the lower bound must be below the upper one")
        if not (np.all(self.scale > 0) and np.all(np.isfinite(self.scale))):
            raise ValueError(f"scale {_show(scale)}: it must be positive")

    def to_coordinates(self, p: Any) -> np.ndarray:
        """Coordinates of physical values."""
        return self._forward(np.asarray(p, dtype=np.float64)) / self.scale

    def to_physical(self, u: Any) -> np.ndarray:
        """Physical values of coordinates; never outside the bounds, not even by rounding, and on a bound where they
        are."""
        v = np.asarray(u, dtype=np.float64)
        low, high = self.coordinate_bounds()
        inside = np.clip(self._back(v * self.scale), self.lower, self.upper)
        return np.where(v <= low, self.lower, np.where(v >= high, self.upper, inside))

    def pull_back(self, u: Any, gradient: Any) -> np.ndarray:
        """d loss / d u from d loss / d p (chain rule)."""
        slope = self._slope(np.asarray(u, dtype=np.float64) * self.scale) * self.scale
        return np.asarray(gradient, dtype=np.float64) * slope

    def push_forward(self, u: Any, change: Any) -> np.ndarray:
        """The change of p by a small change of u."""
        return self.pull_back(u, change)  # number by number, one is the other

    def per_physical(self, u: Any, slope: np.ndarray) -> np.ndarray:
        """d number / d p from d number / d u; 0 where p stands still."""
        rate = self.pull_back(u, np.ones(np.shape(u)))
        return np.divide(slope, rate, out=np.zeros(np.shape(u)), where=rate != 0)

    def sizes(self, u: Any) -> np.ndarray:
        """How many coordinates each takes to change by as much as it is, at least one: a scale may be that of a start
        far from here."""
        return np.maximum(1.0, np.abs(np.asarray(u, dtype=np.float64)))

    def coordinate_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bound of u."""
        return self.to_coordinates(self.lower), self.to_coordinates(self.upper)

    def side(self, p: Any) -> np.ndarray:
        """-1 where physical values stand on their lower bound, 1 on the upper one, 0 between; in their shape."""
        values = np.asarray(p, dtype=np.float64)
        return np.where(values <= self.lower, -1, np.where(values >= self.upper, 1, 0))

    def off_the_bounds(self, p: Any) -> np.ndarray:
        """Physical values moved inside from a bound: by `INSIDE` of the coordinates' range, of their unit if open.

        On a bound that it should leave, a search can only take steps that lead inside; differences have one side.
        """
        values = np.asarray(p, dtype=np.float64)
        side = Transform.side(self, values)
        low, high = self.coordinate_bounds()
        step = INSIDE * np.where(np.isfinite(high - low), high - low, 1.0)
        return np.where(side == 0, values, self.to_physical(self.to_coordinates(values) - side * step))

    def check(self, p: Any, name: str) -> None:
        """Refuse physical values outside the bounds."""
        values = np.asarray(p, dtype=np.float64)
        if not np.all(np.isfinite(values)):
            raise ValueError(f"{name} = {_show(p)}: the start must be finite")
        if not (np.all(values >= self.lower) and np.all(values <= self.upper)):
            raise ValueError(f"{name} = {_show(p)} is outside its bounds [{_show(self.lower)}, {_show(self.upper)}]")

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Random physical values, uniform in the coordinates (so log-uniform for `LogTransform`); needs both bounds."""
        low, high = self.coordinate_bounds()
        if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high))):
            raise ValueError(f"bounds [{_show(self.lower)}, {_show(self.upper)}]: random starts need both bounds")
        return self.to_physical(rng.uniform(low, high, size=shape))

    def _forward(self, p: np.ndarray) -> np.ndarray:
        return p

    def _back(self, v: np.ndarray) -> np.ndarray:
        return v

    def _slope(self, v: np.ndarray) -> np.ndarray:
        return np.ones_like(v)


class LogTransform(Transform):
    """u = log(p) / scale, for positive quantities that may be off by factors."""

    name = "log"

    def __init__(self, lower: Any = None, upper: Any = None, scale: Any = 1.0):
        for bound in (lower, upper):
            if bound is not None and not np.all(np.asarray(bound) > 0):
                raise ValueError(
                    f"bounds [{_show(lower)}, {_show(upper)}]: transform log needs positive bounds; "
                    "leave a bound out (null) to keep that side open"
                )
        super().__init__(0.0 if lower is None else lower, upper, scale)

    def sizes(self, u: Any) -> np.ndarray:
        """One: coordinates count factors."""
        return np.ones(np.shape(u))

    def check(self, p: Any, name: str) -> None:
        """Refuse values that are not positive or outside the bounds."""
        if not np.all(np.asarray(p, dtype=np.float64) > 0):
            raise ValueError(f"{name} = {_show(p)}: transform log needs a positive start")
        super().check(p, name)

    def _forward(self, p: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(p)

    def _back(self, v: np.ndarray) -> np.ndarray:
        return np.exp(v)

    def _slope(self, v: np.ndarray) -> np.ndarray:
        return np.exp(v)


class LogitTransform(Transform):
    """u = log((p - lower) / (upper - p)) / scale: the bounds are never reached, and u itself has none."""

    name = "logit"

    def __init__(self, lower: Any = None, upper: Any = None, scale: Any = 1.0):
        super().__init__(lower, upper, scale)
        if not (np.all(np.isfinite(self.lower)) and np.all(np.isfinite(self.upper))):
            raise ValueError(f"bounds [{_show(lower)}, {_show(upper)}]: transform logit needs both bounds")

    def sizes(self, u: Any) -> np.ndarray:
        """One: coordinates count factors."""
        return np.ones(np.shape(u))

    def check(self, p: Any, name: str) -> None:
        """Refuse values outside the bounds or on them, where the coordinate is infinite."""
        super().check(p, name)
        values = np.asarray(p, dtype=np.float64)
        if np.any(values == self.lower) or np.any(values == self.upper):
            raise ValueError(
                f"{name} = {_show(p)} is on one of its bounds [{_show(self.lower)}, {_show(self.upper)}]; "
                "transform logit can only start between them"
            )

    def side(self, p: Any) -> np.ndarray:
        """As in `Transform`; beside a bound counts as on it."""
        values = np.asarray(p, dtype=np.float64)
        room = BESIDE * (self.upper - self.lower)
        return np.where(values <= self.lower + room, -1, np.where(values >= self.upper - room, 1, 0))

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Random physical values, uniform between the bounds (strictly inside)."""
        return self.lower + (self.upper - self.lower) * rng.uniform(1e-3, 1 - 1e-3, size=shape)

    def coordinate_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Open on both sides."""
        return np.full_like(self.lower, -np.inf), np.full_like(self.upper, np.inf)

    def _forward(self, p: np.ndarray) -> np.ndarray:
        return np.log((p - self.lower) / (self.upper - p))

    def _back(self, v: np.ndarray) -> np.ndarray:
        return self.lower + (self.upper - self.lower) * _sigmoid(v)

    def _slope(self, v: np.ndarray) -> np.ndarray:
        return (self.upper - self.lower) * _sigmoid(v) * _sigmoid(-v)


class LogCholeskyTransform(Transform):
    """Inertia of a body, (..., 3) or (..., 6), in the coordinates of `log_cholesky`: physical whatever they are.

    start: what random starts are drawn around.
    """

    name = "log-cholesky"

    def __init__(self, start: Any, scale: Any = 1.0):
        super().__init__(scale=scale)
        self.check(start, "the start")
        self._middle = self.to_coordinates(start)

    def sizes(self, u: Any) -> np.ndarray:
        """One: coordinates count factors."""
        return np.ones(np.shape(u))

    def coordinate_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Open on both sides."""
        return self.lower, self.upper

    def off_the_bounds(self, p: Any) -> np.ndarray:
        """As they are: there are none."""
        return np.asarray(p, dtype=np.float64)

    def check(self, p: Any, name: str) -> None:
        """Refuse inertia that no body has."""
        values = np.asarray(p, dtype=np.float64)
        if values.ndim == 0 or values.shape[-1] not in (3, 6):
            raise ValueError(f"{name} = {_show(p)}: transform log-cholesky is for an inertia of 3 or 6 numbers")
        for row in _rows(values):
            if not is_physical(row):
                raise ValueError(f"{name} = {_show(row)}: no body with an extent along every axis has this inertia")

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Random inertia: coordinates within one of those of the start."""
        return self.to_physical(self._middle + rng.uniform(-1.0, 1.0, size=shape))

    def pull_back(self, u: Any, gradient: Any) -> np.ndarray:
        """d loss / d u from d loss / d p: J' g."""
        given = np.asarray(gradient, dtype=np.float64)
        return np.asarray(self._jacobian(u).T @ given.ravel()).reshape(given.shape)

    def push_forward(self, u: Any, change: Any) -> np.ndarray:
        """The change of p by a small change of u: J du."""
        given = np.asarray(change, dtype=np.float64)
        return np.asarray(self._jacobian(u) @ given.ravel()).reshape(given.shape)

    def per_physical(self, u: Any, slope: np.ndarray) -> np.ndarray:
        """See `Transform`: J'^-1 slope."""
        return np.asarray(np.linalg.solve(self._jacobian(u).T, slope.ravel())).reshape(slope.shape)

    def _forward(self, p: np.ndarray) -> np.ndarray:
        return np.array([coordinates_of(row) for row in _rows(p)]).reshape(p.shape)

    def _back(self, v: np.ndarray) -> np.ndarray:
        return np.array([inertia_of(row) for row in _rows(v)]).reshape(v.shape)

    def _jacobian(self, u: Any) -> np.ndarray:
        """d p / d u (n, n), of flat values."""
        rows = _rows(np.asarray(u, dtype=np.float64) * self.scale)
        width = rows.shape[1]
        out = np.zeros((rows.size, rows.size))
        for k, row in enumerate(rows):
            part = slice(k * width, (k + 1) * width)
            out[part, part] = inertia_jacobian(row)
        return out * self.scale


def _rows(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, values.shape[-1])


TRANSFORMS: dict[str, type[Transform]] = {t.name: t for t in (Transform, LogTransform, LogitTransform)}
"""Those that go number by number, by the names that a scene may write; `log-cholesky` is for inertia as a whole."""


def make_transform(kind: str, start: Any, bounds: tuple[Any, Any] | None = None, scale: Any = None) -> Transform:
    """The transform that a scene asks for.

    kind: "none", "log", "logit" or "log-cholesky".  start: physical start.  bounds: (lower, upper), None = open.
    scale: length of a unit step; by default 1 but for "none", and for "none" the size of the start (of the range
    between the bounds, if it starts at 0).
    """
    known = [*TRANSFORMS, LogCholeskyTransform.name]
    if kind not in known:
        near = difflib.get_close_matches(str(kind), known, n=1)
        instead = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(known)}"
        raise ValueError(f"unknown transform {kind!r}: {instead}")
    lower, upper = (None, None) if bounds is None else bounds
    if scale is None:
        scale = 1.0 if kind != "none" else _typical_size(start, lower, upper)
    if kind == LogCholeskyTransform.name:
        return LogCholeskyTransform(start, scale)
    return TRANSFORMS[kind](lower, upper, scale)


class ParameterSpace:
    """Named parameters of any shapes, laid out in one vector x of coordinates (n,).

    transforms: name -> Transform.  start: name -> physical start (a number or an array); it fixes the shapes.
    """

    def __init__(self, transforms: Mapping[str, Transform], start: Mapping[str, Any]):
        if set(transforms) != set(start):
            raise ValueError(f"transforms for {sorted(transforms)}, but starts for {sorted(start)}")
        self.transforms = dict(transforms)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.slices: dict[str, slice] = {}
        n = 0
        for name, transform in self.transforms.items():
            value = np.asarray(start[name], dtype=np.float64)
            transform.check(value, name)
            self.shapes[name] = value.shape
            self.slices[name] = slice(n, n + value.size)
            n += value.size
        self.size = n
        self.start = self.pack(start)

    def __repr__(self) -> str:
        kinds = {name: type(t).__name__.removesuffix("Transform") for name, t in self.transforms.items()}
        shown = ", ".join(f"{name}{list(self.shapes[name]) or ''}: {kind}" for name, kind in kinds.items())
        return f"ParameterSpace({shown or 'no parameters'})"

    def pack(self, values: Mapping[str, Any]) -> np.ndarray:
        """Coordinates (n,) of physical values by name."""
        x = np.empty(self.size)
        for name, transform in self.transforms.items():
            value = np.asarray(values[name], dtype=np.float64)
            if value.shape != self.shapes[name]:
                raise ValueError(f"{name} has shape {value.shape}, expected {self.shapes[name]}")
            x[self.slices[name]] = transform.to_coordinates(value).ravel()
        return x

    def unpack(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Physical values by name, in their own shapes, of coordinates (n,)."""
        return {
            name: transform.to_physical(x[self.slices[name]].reshape(self.shapes[name]))
            for name, transform in self.transforms.items()
        }

    def sizes(self, x: np.ndarray) -> np.ndarray:
        """How many coordinates (n,) a change takes that is as large as its value, at least one."""
        out = np.ones(self.size)
        for name, transform in self.transforms.items():
            out[self.slices[name]] = transform.sizes(x[self.slices[name]])
        return out

    def pull_back(self, x: np.ndarray, gradients: Mapping[str, Any]) -> np.ndarray:
        """d loss / d x (n,) from d loss / d value by name."""
        out = np.empty(self.size)
        for name, transform in self.transforms.items():
            u = x[self.slices[name]].reshape(self.shapes[name])
            gradient = np.asarray(gradients[name], dtype=np.float64)
            if gradient.shape != u.shape:
                raise ValueError(f"gradient of {name} has shape {gradient.shape}, expected {u.shape}")
            out[self.slices[name]] = transform.pull_back(u, gradient).ravel()
        return out

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of x, each (n,)."""
        lower, upper = np.empty(self.size), np.empty(self.size)
        for name, transform in self.transforms.items():
            low, high = transform.coordinate_bounds()
            lower[self.slices[name]] = np.broadcast_to(low, self.shapes[name]).ravel()
            upper[self.slices[name]] = np.broadcast_to(high, self.shapes[name]).ravel()
        # The start is inside its physical bounds; its coordinate may miss theirs by rounding where it stands on one.
        return np.minimum(lower, self.start), np.maximum(upper, self.start)

    def starts(self, count: int, seed: int = 0) -> list[np.ndarray]:
        """Starting points: the given start first, then random ones between the bounds; the same for the same seed."""
        rng = np.random.default_rng(seed)
        starts = [self.start.copy()]
        for _ in range(count - 1):
            starts.append(self.pack({name: t.sample(rng, self.shapes[name]) for name, t in self.transforms.items()}))
        return starts


def _sigmoid(v: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-v)) without overflow on either side."""
    small = np.exp(-np.abs(v))
    return np.where(v >= 0, 1.0, small) / (1.0 + small)


def _typical_size(start: Any, lower: Any, upper: Any) -> float:
    """The magnitude of a start; of its range if it is zero; else 1."""
    size = float(np.max(np.abs(np.asarray(start, dtype=np.float64)), initial=0.0))
    if size == 0.0 and lower is not None and upper is not None:
        size = float(np.max(np.asarray(upper, dtype=np.float64) - np.asarray(lower, dtype=np.float64)))
    return size if size > 0 and np.isfinite(size) else 1.0


def _show(value: Any) -> str:
    """A value for a message: short, and without NumPy's type names."""
    if value is None:
        return "open"
    flat = np.asarray(value, dtype=np.float64).ravel()
    text = ", ".join(f"{item:g}" for item in flat[:4]) + (", ..." if flat.size > 4 else "")
    return text if np.ndim(value) == 0 else f"[{text}]"
