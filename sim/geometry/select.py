"""Points chosen by a rule (the ``where`` of a scene): by place, boundary, number or nearness."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sim.geometry.errors import GeometryError, listed

KEYS = ("all", "boundary", "indices", "near", "x", "y", "z")


def choose_points(
    positions: ArrayLike,
    where: Mapping[str, Any],
    boundary: np.ndarray | None = None,
    file_to_point: np.ndarray | None = None,
) -> np.ndarray:
    """Indices (k,) int32, ascending, of the points that satisfy every key of ``where``; an empty choice is an error.

    positions: (n, 3) rest positions [m]; boundary: (n,) bool, None for an object that has none; file_to_point: vertex
    of the file -> point, None without merging. Keys of ``where``: ``x``, ``y``, ``z``: [low, high] [m], both included,
    None = open; ``boundary``: true for points on the boundary, false for the others; ``indices``: numbers of the file,
    before merging; ``near``: for each place the nearest of all points; ``all: true``.
    """
    x = np.asarray(positions, np.float64).reshape(-1, 3)
    if not isinstance(where, Mapping) or not where:
        raise GeometryError(f"where {where!r} says nothing", f"Give at least one of {', '.join(KEYS)}")
    masks: dict[str, np.ndarray] = {}
    for key, value in where.items():
        if key in ("x", "y", "z"):
            masks[key] = _in_range(key, value, x[:, "xyz".index(key)])
        elif key == "boundary":
            masks[key] = _on_boundary(value, boundary)
        elif key == "indices":
            masks[key] = _by_index(value, len(x), file_to_point)
        elif key == "near":
            masks[key] = _nearest(value, x)
        elif key == "all":
            if value is not True:
                raise GeometryError(f"where.all is {value!r}", "Write `all: true`, or another key")
            masks[key] = np.ones(len(x), bool)
        else:
            near = difflib.get_close_matches(str(key), KEYS, n=1)
            raise GeometryError(
                f"where: unknown key {key!r}",
                f"Did you mean {near[0]!r}?" if near else f"Known keys: {', '.join(KEYS)}",
            )
    chosen = np.flatnonzero(np.logical_and.reduce(list(masks.values())))
    if len(chosen) == 0:
        each = ", ".join(f"{key}: {int(mask.sum())}" for key, mask in masks.items())
        low, high = x.min(axis=0, initial=np.inf), x.max(axis=0, initial=-np.inf)
        extent = ", ".join(f"{name} {a:.6g} to {b:.6g}" for name, a, b in zip("xyz", low, high, strict=True))
        raise GeometryError(
            f"where chooses none of {len(x)} points (each key by itself: {each})", f"The points span {extent} (metres)"
        )
    return chosen.astype(np.int32)


def _in_range(name: str, limits: Any, coordinate: np.ndarray) -> np.ndarray:
    if isinstance(limits, str) or not isinstance(limits, Sequence) or len(limits) != 2:
        raise GeometryError(f"where.{name} is {limits!r}", "Write [low, high]; null = open")
    low = -np.inf if limits[0] is None else float(limits[0])
    high = np.inf if limits[1] is None else float(limits[1])
    if not low <= high:
        raise GeometryError(f"where.{name}: low {low:g} is not below high {high:g}", "Exchange the two")
    return (coordinate >= low) & (coordinate <= high)


def _on_boundary(wanted: Any, boundary: np.ndarray | None) -> np.ndarray:
    if not isinstance(wanted, bool):
        raise GeometryError(f"where.boundary is {wanted!r}", "Write true or false")
    if boundary is None:
        raise GeometryError(
            "where.boundary: this object is no surface and has no boundary", "Choose by x, y, z or indices"
        )
    mask = np.asarray(boundary, bool)
    return mask if wanted else ~mask


def _by_index(numbers: Any, count: int, file_to_point: np.ndarray | None) -> np.ndarray:
    table = np.arange(count) if file_to_point is None else np.asarray(file_to_point)
    values = np.asarray(numbers)
    if values.ndim != 1 or len(values) == 0 or not np.issubdtype(values.dtype, np.integer):
        raise GeometryError(f"where.indices is {numbers!r}", "Write a list of whole numbers, counted from 0")
    wrong = values[(values < 0) | (values >= len(table))]
    if len(wrong):
        raise GeometryError(f"where.indices: no point {listed(wrong)}", f"Points are numbered 0 to {len(table) - 1}")
    unused = values[table[values] < 0]
    if len(unused):
        raise GeometryError(
            f"where.indices: no element uses point {listed(unused)}", "Name points that belong to the body"
        )
    mask = np.zeros(count, bool)
    mask[table[values]] = True
    return mask


def _nearest(places: Any, x: np.ndarray) -> np.ndarray:
    try:
        targets = np.asarray(places, np.float64)
    except (TypeError, ValueError):
        targets = np.zeros(0)
    if targets.ndim != 2 or targets.shape[1] != 3 or not np.isfinite(targets).all():
        raise GeometryError(f"where.near is {places!r}", "Write a list of places: [[x, y, z], ...]")
    mask = np.zeros(len(x), bool)
    for target in targets if len(x) else ():
        mask[np.argmin(((x - target) ** 2).sum(axis=1))] = True
    return mask
