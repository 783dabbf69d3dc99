"""What the report's 3-D player shows, as plain data: takes of several layers, and static shapes.

The page draws with WebGL 2 and needs no library.  Positions travel as 16-bit integers on the bounding box of their
layer (a resolution of 1/65534 of its size, so 15 micrometres per metre), base64 in the page.  What is rigid travels
once, with the poses of its bodies in every frame.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from sim.io.moving import Rigid

COLORS = {"target": "#e5487f", "before": "#e99a2c", "after": "#3f7ff0", "shape": "#9aa3b2", "goal": "#14966b",
          "joint": "#b4552d"}  # fmt: skip
"""Colours of the usual layers, legible on light and on dark ground."""

# Base64 text of all layers of a page; beyond it frames are left out evenly, so that a page still opens quickly.
MAX_BYTES = 48_000_000
_UNSEEN = 65535

SAMPLED = 48
"""Frames at which the places of rigid bodies are asked for, to find where the camera looks."""

FAR = 3.0
"""How many times wider than the middle 98 % of its points a layer may be and still be shown whole."""


@dataclass(frozen=True, eq=False)
class Tint:
    """A number at each point of a layer that its surface can be coloured by.

    Attributes:
        name, unit: shown beside the scale of colours.
        values: (n,) in `unit`; nan: none here.
        log: whether the scale is logarithmic; the values are positive then.
    """

    name: str
    unit: str
    values: np.ndarray
    log: bool = False


@dataclass(frozen=True, eq=False)
class Layer:
    """One animated thing of a take, drawn as a surface, as lines, as points, or as several of these.

    Attributes:
        name: shown in the list of layers.
        positions: (frames, n, 3) [m]; one frame = does not move.  NaN = this point is not drawn in this frame; of a
            layer with triangles or segments the first frame with one ends the layer (the simulation broke down there).
        triangles: (m, 3) indices of points, or None.
        segments: (k, 2) indices of points, or None.
        dots: (j,) indices of the points that are drawn as dots; None: all of them.
        point_size: diameter of the dots in pixels; 0 = no dots.
        color: `#rrggbb`.
        visible: whether the layer is switched on when the page opens.
        opacity: of surfaces and lines, 0 to 1.
        behind: how strongly its dots shine through what stands in front of them, 0 to 1.
        trail: whether the paths of its points can be shown, up to the frame that is looked at.
        tints: what its surface can be coloured by.
        side: `before` or `after`: the half that it belongs to when the two are shown side by side; empty: both.
        poses: (frames, bodies, 7), position [m] and quaternion x y z w: what moves rigidly.  `positions` are (1, n, 3)
            then, each in the frame of the body `owners` (n,); -1 is the world, which stays.  Where a pose is NaN the
            layer ends.
    """

    name: str
    positions: np.ndarray
    triangles: np.ndarray | None = None
    segments: np.ndarray | None = None
    point_size: float = 0.0
    color: str = COLORS["after"]
    visible: bool = True
    opacity: float = 1.0
    dots: np.ndarray | None = None
    behind: float = 0.22
    trail: bool = False
    side: str = ""
    tints: Sequence[Tint] = ()
    poses: np.ndarray | None = None
    owners: np.ndarray | None = None

    def __post_init__(self) -> None:
        positions = np.asarray(self.positions)
        if positions.ndim != 3 or positions.shape[2] != 3 or positions.size == 0:
            raise ValueError(
                f"layer `{self.name}`: positions have the shape {positions.shape}, expected (frames, n, 3)"
            )
        if self.poses is not None:
            self._check_poses(self.poses)
        if self.side not in ("", "before", "after"):
            raise ValueError(f"layer `{self.name}` is on the side `{self.side}`; there are `before` and `after`")
        for indices, width in ((self.triangles, 3), (self.segments, 2), (self.dots, 0)):
            if indices is None:
                continue
            shape = np.shape(indices)
            if shape[1:] != ((width,) if width else ()) or not shape:
                expected = f"(count, {width})" if width else "(count,)"
                raise ValueError(f"layer `{self.name}`: indices have the shape {shape}, expected {expected}")
            if shape[0] and not 0 <= np.min(indices) <= np.max(indices) < positions.shape[1]:
                raise ValueError(f"layer `{self.name}`: an index is outside of its {positions.shape[1]} points")
        _check_color(self.color)

    def _check_poses(self, poses: np.ndarray) -> None:
        """Raises ValueError where they do not fit."""
        shape, points = np.shape(poses), np.shape(self.positions)
        if len(shape) != 3 or shape[2] != 7 or not shape[0] or points[0] != 1 or self.trail:
            raise ValueError(
                f"layer `{self.name}`: poses have the shape {shape}, expected (frames, bodies, 7), with one frame of"
                " positions and no trail"
            )
        owners = np.asarray(self.owners)
        if owners.shape != points[1:2] or not -1 <= owners.min() <= owners.max() < shape[1]:
            raise ValueError(f"layer `{self.name}`: its {points[1]} owners are not all numbers of {shape[1]} bodies")

    @property
    def frame_count(self) -> int:
        """Number of frames."""
        return len(self.positions) if self.poses is None else len(self.poses)

    @property
    def size(self) -> float:
        """Bytes of base64 text."""
        poses = 0 if self.poses is None else 4 * np.size(self.poses)
        return 4 / 3 * (2 * np.size(self.positions) + poses)

    def places(self) -> np.ndarray:
        """Where its points are (frames, n, 3) [m]; of rigid bodies in some of the frames."""
        positions = np.asarray(self.positions, np.float64)
        if self.poses is None or self.owners is None:
            return positions
        some = np.unique(np.linspace(0, len(self.poses) - 1, SAMPLED).astype(int))
        return Rigid(self.name, self.owners, positions[0]).at(np.asarray(self.poses, np.float64)[some])


@dataclass(frozen=True)
class Shape:
    """A static body of the scene: `Shape("sphere", center, radius=...)` or `Shape("plane", center, normal=...)`.

    Attributes:
        kind: `sphere` or `plane`.
        center: (3,) [m]; a point of the plane.
        radius: of the sphere [m].
        normal: (3,) of the plane, pointing to its free side.
        name: shown in the list of layers.
        color: `#rrggbb`.
    """

    kind: str
    center: Sequence[float]
    radius: float = 0.0
    normal: Sequence[float] = (0.0, 1.0, 0.0)
    name: str = ""
    color: str = COLORS["shape"]

    def __post_init__(self) -> None:
        if self.kind not in ("sphere", "plane"):
            raise ValueError(f"shape of the kind `{self.kind}`; there are `sphere` and `plane`")
        _check_color(self.color)


@dataclass(frozen=True)
class Take:
    """One experiment to look at.

    Attributes:
        name: shown where a report has several takes.
        layers: what moves, in drawing order.
        shapes: what does not.
        times: (frames,) when the frames of the layers are [s], evenly spaced.
        up: direction of "up": the opposite of gravity; any length but zero.
    """

    name: str
    layers: Sequence[Layer]
    shapes: Sequence[Shape] = field(default_factory=tuple)
    times: Sequence[float] = (0.0,)
    up: Sequence[float] = (0.0, 1.0, 0.0)

    def __post_init__(self) -> None:
        frames = max((layer.frame_count for layer in self.layers), default=1)
        if len(self.times) != frames:
            raise ValueError(f"take `{self.name}`: {len(self.times)} times for {frames} frames")
        steps = np.diff(np.asarray(self.times, dtype=np.float64))
        if steps.size and not (steps.min() > 0 and steps.max() <= 1.001 * steps.min()):
            raise ValueError(f"take `{self.name}`: the times of its frames are not evenly spaced")


def player_data(takes: Sequence[Take], max_bytes: int = MAX_BYTES) -> list[dict[str, Any]]:
    """The takes as JSON-ready dicts.  If they would pass `max_bytes` of text, only every k-th frame is kept."""
    layers = list(chain.from_iterable(take.layers for take in takes))
    total = sum(layer.size for layer in layers)
    stride = max(1, int(np.ceil(total / max_bytes)))
    return [_take_data(take, stride) for take in takes]


def _take_data(take: Take, stride: int) -> dict[str, Any]:
    up = np.asarray(take.up, dtype=np.float64)
    length = np.linalg.norm(up)
    up = up / length if length > 0 and np.isfinite(length) else np.array([0.0, 1.0, 0.0])
    layers = [_layer_data(layer, stride) for layer in take.layers]
    low, high = _view_box(take)
    return {
        "name": take.name,
        "begin": float(take.times[0]),
        "interval": float(take.times[-1] - take.times[0]) / max(len(take.times) - 1, 1),
        "stride": stride,
        "frames": max((layer["frames"] for layer in layers), default=1),
        "up": up.tolist(),
        "box": [low.tolist(), high.tolist()],
        "layers": layers,
        "shapes": [
            {
                "kind": shape.kind,
                "name": shape.name or shape.kind,
                "center": [float(value) for value in shape.center],
                "radius": float(shape.radius),
                "normal": [float(value) for value in shape.normal],
                "color": shape.color,
            }
            for shape in take.shapes
        ],
    }


def _layer_data(layer: Layer, stride: int) -> dict[str, Any]:
    positions = np.asarray(layer.positions, dtype=np.float64)[:: stride if layer.poses is None else 1]
    finite: np.ndarray = np.all(np.isfinite(positions), axis=2)
    if layer.triangles is not None or layer.segments is not None:
        whole: np.ndarray = np.all(finite, axis=1)
        count = len(whole) if whole.all() else int(np.argmin(whole))
        positions, finite = positions[:count], finite[:count]
    seen = positions[finite]
    low = seen.min(axis=0) if seen.size else np.zeros(3)
    step = (seen.max(axis=0) - low) / (_UNSEEN - 1) if seen.size else np.zeros(3)
    scaled = np.divide(positions - low, step, out=np.zeros_like(positions), where=finite[..., None] & (step > 0))
    quantised = np.where(finite[..., None], np.rint(scaled), _UNSEEN).astype("<u2")
    return {
        "name": layer.name,
        "frames": len(positions),
        "static": len(layer.positions) == 1,
        "points": positions.shape[1],
        "low": low.tolist(),
        "step": step.tolist(),
        "positions": _base64(quantised),
        "triangles": None if layer.triangles is None else _base64(np.asarray(layer.triangles).astype("<u4")),
        "segments": None if layer.segments is None else _base64(np.asarray(layer.segments).astype("<u4")),
        "dots": None if layer.dots is None else _base64(np.asarray(layer.dots).astype("<u4")),
        "pointSize": float(layer.point_size),
        "color": layer.color,
        "visible": bool(layer.visible),
        "opacity": float(layer.opacity),
        "behind": float(layer.behind),
        "trail": bool(layer.trail),
        "side": layer.side,
        "tints": [_tint_data(tint) for tint in layer.tints],
        **_poses_data(layer, stride),
    }


def _poses_data(layer: Layer, stride: int) -> dict[str, Any]:
    """Of a rigid layer its poses, and what they say of its frames."""
    if layer.poses is None:
        return {}
    poses = np.asarray(layer.poses, dtype=np.float64)[::stride]
    whole: np.ndarray = np.all(np.isfinite(poses), axis=(1, 2))
    count = len(whole) if whole.all() else int(np.argmin(whole))
    return {
        "frames": count,
        "static": len(layer.poses) == 1,
        "bodies": poses.shape[1],
        "poses": _base64(poses[:count].astype("<f4")),
        "owners": _base64(np.asarray(layer.owners).astype("<i4")),
    }


def _tint_data(tint: Tint) -> dict[str, Any]:
    """Its values as shares of its range, in steps of 1/254; 255: none."""
    values = np.asarray(tint.values, dtype=np.float64)
    shown = np.log10(values) if tint.log else values
    low, high = float(np.nanmin(shown)), float(np.nanmax(shown))
    share = (shown - low) / (high - low if high > low else 1.0)
    quantised = np.where(np.isfinite(share), np.rint(254 * np.nan_to_num(share)), 255).astype("<u1")
    return {
        "name": tint.name,
        "unit": tint.unit,
        "low": float(np.nanmin(values)),
        "high": float(np.nanmax(values)),
        "log": tint.log,
        "values": _base64(quantised),
    }


def _view_box(take: Take) -> tuple[np.ndarray, np.ndarray]:
    """Corners (3,) of what the camera first looks at: spheres, and all points of the layers.

    One point of a broken simulation that flew away would make all else too small to see: where the outermost points
    reach far beyond the middle 98 % along each axis, that middle is what is looked at.
    """
    corners = list(_sphere_corners(take))
    for layer in take.layers:
        points = layer.places().reshape(-1, 3)
        points = points[np.isfinite(points).all(axis=1)]
        if len(points):
            whole, middle = np.percentile(points, [0, 100], axis=0), np.percentile(points, [1, 99], axis=0)
            far = np.linalg.norm(np.ptp(whole, axis=0)) > FAR * np.linalg.norm(np.ptp(middle, axis=0))
            corners.append(middle if far and len(points) > 100 else whole)
    if not corners:
        return np.full(3, -0.5), np.full(3, 0.5)
    boxes = np.stack(corners)
    size = np.linalg.norm(boxes[:, 1] - boxes[:, 0], axis=1)
    boxes = boxes[size <= 10 * max(np.median(size), 1e-12)]  # nor a whole layer that blew up
    return boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)


def _sphere_corners(take: Take) -> Iterator[np.ndarray]:
    for shape in take.shapes:
        if shape.kind == "sphere":
            center = np.asarray(shape.center, dtype=np.float64)
            yield np.stack([center - shape.radius, center + shape.radius])


def _check_color(color: str) -> None:
    if not re.fullmatch(r"#[0-9a-fA-F]{6}", color):
        raise ValueError(f"`{color}` is not a colour of the form #rrggbb")


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
