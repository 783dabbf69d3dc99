"""Checks of builder arguments: every error names the argument, says what is wrong and what to do instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sim.core.lang.errors import did_you_mean
from sim.geometry import GeometryError, rotation_from_quaternion
from sim.model.errors import ModelError


def vec3(name: str, value: Any) -> np.ndarray:
    """Three finite numbers, (3,) float64."""
    out = _numbers(name, value)
    if out.shape != (3,):
        raise ModelError(f"{name} is {value!r}", "Give three numbers (x, y, z)")
    return out


def vec3s(name: str, value: Any) -> np.ndarray:
    """Points (n, 3) float64, at least one."""
    out = _numbers(name, value)
    if out.ndim != 2 or out.shape[1] != 3 or len(out) == 0:
        raise ModelError(f"{name} has shape {out.shape}", "Give at least one point: shape (n, 3)")
    return out


class Each(float):
    """A material value that every element has for itself: the same number to begin with, but one for each."""


def values(name: str, value: Any, count: int, *, positive: bool = False) -> np.ndarray:
    """A material value that is zero or more (or positive): one for all, (1,), or one for each of `count`: float64."""
    out = np.atleast_1d(_numbers(name, value))
    if isinstance(value, Each):
        out = np.full(count, float(value))
    if out.shape not in ((1,), (count,)):
        raise ModelError(f"{name} has shape {out.shape}", f"Give one number, or {count}: one for each")
    bad = np.flatnonzero(out <= 0 if positive else out < 0)
    if len(bad):
        at = f" at index {bad[0]}" if len(out) > 1 else ""
        raise ModelError(
            f"{name} = {out[bad[0]]:g}{at} is not {'positive' if positive else 'zero or positive'}",
            "Check its sign and its unit",
        )
    return out


def number(name: str, value: Any, *, positive: bool = False) -> float:
    """One number that is zero or more, or positive."""
    return float(values(name, value, 1, positive=positive)[0])


def whole(name: str, value: Any) -> int:
    """A whole number of at least 1."""
    is_whole = hasattr(value, "__index__") or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not is_whole or value < 1:
        raise ModelError(f"{name} = {value!r}", "Give a whole number, at least 1")
    return int(value)


def thinner(thickness: float, surfaces: Iterable[np.ndarray]) -> None:
    """Raises where a thickness [m] is more than any of these surfaces measures, by its points (n, 3): nothing would
    be left of it that is not too close to the rest, so it is another unit that was meant."""
    size = max(float(np.linalg.norm(np.ptp(points, axis=0))) for points in surfaces)
    if thickness > size:
        raise ModelError(
            f"thickness = {thickness:g} m is more than the whole surface measures, {size:.3g} m",
            "Check its unit: 0.004 is 4 mm",
        )


def rotation(name: str, value: Any) -> np.ndarray | None:
    """A rotation matrix (3, 3) from a quaternion (x, y, z, w) or a matrix; None stays None."""
    if value is None:
        return None
    out = _numbers(name, value)
    if out.shape == (4,):
        try:
            return rotation_from_quaternion(out)
        except GeometryError as error:
            raise ModelError(f"{name}: {error.what}", error.hint) from None
    if out.shape != (3, 3) or not np.allclose(out @ out.T, np.eye(3), atol=1e-6) or np.linalg.det(out) < 0:
        raise ModelError(
            f"{name} = {out.tolist()} is no rotation", "Give a quaternion (x, y, z, w) or a rotation matrix"
        )
    return out


def point_table(name: str, value: Any, width: int, particles: int) -> np.ndarray:
    """Rows of `width` points that exist, none twice in a row: (n, width) int32."""
    table = np.asarray(value)
    if width == 1 and table.ndim <= 1:
        table = table.reshape(-1, 1)
    if table.ndim == 1 and width == len(table):
        table = table.reshape(1, -1)
    if table.ndim != 2 or table.shape[1] != width:
        raise ModelError(f"{name} has shape {table.shape}", f"Give (n, {width}): {width} points in each row")
    if len(table) == 0:
        raise ModelError(f"{name} is empty", "Give at least one row")
    table = existing(name, table, particles)
    ordered = np.sort(table, axis=1)
    twice = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if len(twice):
        raise ModelError(
            f"{name}: row {twice[0]} repeats a point: {tuple(table[twice[0]].tolist())}",
            "The points of a constraint are different ones",
        )
    return table


def point_list(name: str, value: Any, particles: int) -> np.ndarray:
    """Points that exist, none twice: (n,) int32."""
    points = existing(name, np.atleast_1d(np.asarray(value)), particles)
    if points.ndim != 1 or len(points) == 0:
        raise ModelError(f"{name} has shape {points.shape}", "Give the numbers of at least one point")
    unique, uses = np.unique(points, return_counts=True)
    if (uses > 1).any():
        raise ModelError(f"{name} names point {unique[uses > 1][0]} twice", "Name each point once")
    return points


def existing(name: str, points: np.ndarray, particles: int) -> np.ndarray:
    """Whole numbers of points that exist, as int32."""
    if points.size and not np.issubdtype(points.dtype, np.integer):
        raise ModelError(f"{name} has the type {points.dtype}", "Give the numbers of points, whole numbers")
    wrong = points[(points < 0) | (points >= particles)]
    if wrong.size:
        last = f"points are numbered 0 to {particles - 1}" if particles else "there are no points yet"
        raise ModelError(f"{name}: there is no point {wrong.flat[0]}; {last}", "Add the points first")
    return points.astype(np.int32)


def known(what: str, name: Any, names: Iterable[str]) -> None:
    """Raises unless `name` is one of `names`."""
    names = list(names)
    if name not in names:
        near = did_you_mean(str(name), names)
        listed = f"Known: {', '.join(names)}" if names else "There are none"
        raise ModelError(f"{what} {name!r} is unknown{near}", "" if near else listed)


def mapping(name: str, value: Any) -> Mapping[str, Any]:
    """A mapping; None is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ModelError(f"{name} is {value!r}", "Give a dict")
    return value


def _numbers(name: str, value: Any) -> np.ndarray:
    try:
        out = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise ModelError(f"{name} is {value!r}", "Give numbers") from None
    if not np.isfinite(out).all():
        raise ModelError(f"{name}{f' = {out.tolist()}' if out.size < 4 else ''} is not finite", "Give finite numbers")
    return out


def geometry(function: Any, *args: Any) -> Any:
    """Geometry's errors as errors of the model."""
    try:
        return function(*args)
    except GeometryError as error:
        raise ModelError(error.what, error.hint) from error
