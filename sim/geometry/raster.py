"""Pictures without a display: a z-buffer rasteriser in NumPy, and PNG through zlib.

One frame of a scene becomes an image: a smoothly shaded triangle mesh, spheres, a ground with soft shadows, markers as
dots. Meshes are rasterised; spheres and ground are hit by one ray for each sample; all share one depth buffer.
"""

import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from sim.geometry.errors import GeometryError

Color = tuple[float, float, float]

_SAMPLES = 2  # per pixel and axis
_NEAR = 1e-3  # m; triangles that reach in front of it are left out
_SKY = np.array([0.965, 0.970, 0.978]), np.array([0.86, 0.875, 0.895])  # top and bottom of the background
_FLOOR = np.array([0.90, 0.905, 0.915])
_AMBIENT = 0.42
_SHADOW = 0.42  # darkness of a full shadow on the ground
_SHADOW_CELLS = 160  # of the shadow map along its longer side


@dataclass(frozen=True)
class Camera:
    """A pinhole camera: eye and target [m], up direction, vertical field of view [degrees]."""

    eye: tuple[float, float, float]
    target: tuple[float, float, float]
    up: tuple[float, float, float] = (0.0, 1.0, 0.0)
    fov: float = 35.0

    def frame(self) -> np.ndarray:
        """Rows right, up, forward (3, 3), orthonormal."""
        forward = np.subtract(self.target, self.eye)
        right = np.cross(forward, self.up)
        if not (np.linalg.norm(right) > 0):
            raise GeometryError("the camera looks along its up direction, or at its own eye", "Move eye or target")
        right = right / np.linalg.norm(right)
        forward = forward / np.linalg.norm(forward)
        return np.stack([right, np.cross(right, forward), forward])


@dataclass(frozen=True)
class Ball:
    """A sphere to draw: center and radius [m], color as red, green, blue in 0..1."""

    center: tuple[float, float, float]
    radius: float
    color: Color = (0.80, 0.55, 0.36)


def frame_camera(
    points: ArrayLike,
    direction: ArrayLike = (0.9, 0.35, 1.0),
    up: tuple[float, float, float] = (0, 1, 0),
    fov: float = 35.0,
    margin: float = 1.12,
) -> Camera:
    """A camera that looks from ``direction`` at all points (..., 3) [m] of one frame or many, with room around them."""
    x = np.asarray(points, np.float64).reshape(-1, 3)
    low, high = x.min(axis=0), x.max(axis=0)
    center, radius = 0.5 * (low + high), 0.5 * np.linalg.norm(high - low)
    away = np.asarray(direction, np.float64)
    distance = margin * max(float(radius), 1e-6) / np.sin(np.radians(fov) / 2)
    eye = center + away / np.linalg.norm(away) * distance
    return Camera(tuple(eye.tolist()), tuple(center.tolist()), up, fov)


def render(
    positions: ArrayLike,
    triangles: ArrayLike,
    size: tuple[int, int] = (640, 480),
    camera: Camera | None = None,
    color: Color = (0.29, 0.48, 0.78),
    back: Color = (0.40, 0.56, 0.80),
    spheres: Sequence[Ball] = (),
    ground: float | None = None,
    markers: ArrayLike | None = None,
    marker_color: Color = (0.86, 0.22, 0.18),
    marker_radius: float = 3.0,
    paint: ArrayLike | None = None,
) -> np.ndarray:
    """Draw one frame: (height, width, 3) uint8.

    positions: (n, 3) [m]; triangles: (m, 3); size: (width, height); color, back: of the two sides of the mesh; ground:
    height of a plane across the camera's up direction [m]; markers: (k, 3) places [m], drawn as dots of
    ``marker_radius`` pixels where nothing is in front.  paint: (m, 3), the color of each triangle instead; NaN: none.
    """
    x = np.asarray(positions, np.float64).reshape(-1, 3)
    tri = np.asarray(triangles, np.int64).reshape(-1, 3)
    if camera is None:
        camera = frame_camera(x)
    view = _View(camera, size[0] * _SAMPLES, size[1] * _SAMPLES)
    light = _unit(camera.frame().T @ np.array([-0.35, 0.0, -0.45]) + _unit(np.asarray(camera.up, np.float64)))

    # Background and ground have no edges that need several samples: one ray for each pixel.
    coarse = _View(camera, *size)
    image = _background(coarse)
    depth = np.full(coarse.width * coarse.height, np.inf)
    if ground is not None:
        _draw_ground(coarse, image, depth, ground, light, x, tri, spheres)
    image, depth = _finer(image, coarse), _finer(depth, coarse)
    for sphere in spheres:
        _draw_sphere(view, image, depth, sphere, light)
    colors = np.repeat(np.array([[color, back]]), len(tri), axis=0)
    if paint is not None:
        own = np.asarray(paint, np.float64)[:, None]
        colors = np.where(np.isfinite(own), own, colors)
    _draw_mesh(view, image, depth, x, tri, light, colors)
    if markers is not None:
        _draw_markers(
            view, image, depth, np.asarray(markers, np.float64).reshape(-1, 3), marker_color, marker_radius * _SAMPLES
        )
    samples = image.reshape(size[1], _SAMPLES, size[0], _SAMPLES, 3)
    return np.clip(samples.mean(axis=(1, 3)) * 255.0 + 0.5, 0, 255).astype(np.uint8)


def write_png(path: str | os.PathLike[str], image: np.ndarray) -> None:
    """Write an image (height, width, 3) uint8 as PNG (8-bit RGB)."""
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise GeometryError(f"image of shape {image.shape} and dtype {image.dtype}", "Pass (height, width, 3) uint8")
    height, width = image.shape[:2]
    # Each row as differences to the row above (filter 2): smooth shading compresses to about half.
    rows = image.reshape(height, -1)
    filtered = np.concatenate([rows[:1], rows[1:] - rows[:-1]])
    raw = np.concatenate([np.full((height, 1), 2, np.uint8), filtered], axis=1).tobytes()

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    Path(path).write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(raw, 9))
        + chunk(b"IEND", b"")
    )


class _View:
    """A camera with a raster of samples. Depth is the distance along the view direction."""

    def __init__(self, camera: Camera, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.eye = np.asarray(camera.eye, np.float64)
        self.axes = camera.frame()
        self.up = _unit(np.asarray(camera.up, np.float64))
        self.focal = 0.5 * height / np.tan(np.radians(camera.fov) / 2)

    def project(self, points: np.ndarray) -> np.ndarray:
        """World (n, 3) to column, row and depth (n, 3); the centre of sample (i, j) is at column i, row j."""
        right, up, depth = self.axes @ (points - self.eye).T
        safe = np.where(np.abs(depth) > _NEAR, depth, _NEAR)
        return np.stack(
            [self.width / 2 - 0.5 + self.focal * right / safe, self.height / 2 - 0.5 - self.focal * up / safe, depth],
            axis=1,
        )

    def rays(self, samples: np.ndarray) -> np.ndarray:
        """Direction (k, 3) of each sample, of unit depth: the point at depth t is eye + t direction."""
        row, column = np.divmod(samples, self.width)
        right = (column - self.width / 2 + 0.5) / self.focal
        up = (self.height / 2 - 0.5 - row) / self.focal
        return np.stack([right, up, np.ones(len(samples))], axis=1) @ self.axes


def _finer(values: np.ndarray, view: _View) -> np.ndarray:
    """Values of pixels (height * width, ...) as those of their samples."""
    grid = values.reshape(view.height, view.width, *values.shape[1:])
    fine = np.repeat(np.repeat(grid, _SAMPLES, axis=0), _SAMPLES, axis=1)
    return fine.reshape(-1, *values.shape[1:])


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-30)


def _background(view: _View) -> np.ndarray:
    fade = (np.arange(view.height) / max(view.height - 1, 1))[:, None]
    rows = (1 - fade) * _SKY[0] + fade * _SKY[1]
    return np.repeat(rows, view.width, axis=0)


def _shade(
    normal: np.ndarray, toward_eye: np.ndarray, light: np.ndarray, up: np.ndarray, base: np.ndarray, gloss: float
) -> np.ndarray:
    """Lambert with a sky-to-ground ambient term and a Blinn highlight; unit vectors (k, 3), base colours (k, 3)."""
    diffuse = np.maximum(normal @ light, 0.0)
    sky = 0.5 + 0.5 * (normal @ up)
    highlight = np.maximum((normal * _unit(light + toward_eye)).sum(axis=1), 0.0) ** 40
    lit = base * (_AMBIENT * (0.65 + 0.5 * sky) + 0.72 * diffuse)[:, None]
    return lit + gloss * highlight[:, None]


def _draw_mesh(
    view: _View,
    image: np.ndarray,
    depth: np.ndarray,
    x: np.ndarray,
    tri: np.ndarray,
    light: np.ndarray,
    colors: np.ndarray,
) -> None:
    """colors: (m, 2, 3), of the two sides of each triangle."""
    screen = view.project(x)
    ahead = (screen[tri, 2] > _NEAR).all(axis=1)
    tri, colors = tri[ahead], colors[ahead]
    owner, sample, weight = _cover(screen[tri, :2], view.width, view.height)
    # Screen weights become weights in space: what is linear over a triangle is linear in 1 / depth on the screen.
    over = weight / screen[tri[owner], 2]
    near = 1.0 / over.sum(axis=1)
    owner, sample, near, over = _nearest_per_sample(sample, near, depth, owner, over)
    normals = _point_normals(x, tri)
    normal = _unit(np.einsum("kc,kcd->kd", over * near[:, None], normals[tri[owner]]))
    toward_eye = -_unit(view.rays(sample))
    corner = x[tri[owner]]
    flat = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    behind = (flat * toward_eye).sum(axis=1) < 0
    normal[behind] *= -1.0
    depth[sample] = near
    image[sample] = _shade(normal, toward_eye, light, view.up, colors[owner, behind.astype(int)], 0.06)


def _point_normals(x: np.ndarray, tri: np.ndarray) -> np.ndarray:
    """Normals (n, 3) of the points: the sum of the adjacent triangles' normals weighted by their areas."""
    flat = np.cross(x[tri[:, 1]] - x[tri[:, 0]], x[tri[:, 2]] - x[tri[:, 0]])
    index = tri.reshape(-1)
    return _unit(np.stack([np.bincount(index, np.repeat(flat[:, k], 3), minlength=len(x)) for k in range(3)], axis=1))


def _cover(corners: np.ndarray, width: int, height: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples inside triangles (m, 3, 2) of the screen: triangle (k,), sample (k,), barycentric weights (k, 3)."""
    limit = np.array([width - 1, height - 1])
    low = np.clip(np.ceil(corners.min(axis=1)), 0, limit + 1).astype(np.int64)
    high = np.clip(np.floor(corners.max(axis=1)), -1, limit).astype(np.int64)
    span = np.maximum(high - low + 1, 0)
    count = span[:, 0] * span[:, 1]
    owner = np.repeat(np.arange(len(corners)), count)
    place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    row, column = np.divmod(place, np.maximum(span[owner, 0], 1))
    column, row = column + low[owner, 0], row + low[owner, 1]
    dx, dy = corners[owner, :, 0] - column[:, None], corners[owner, :, 1] - row[:, None]
    twice = np.stack([dx[:, k - 2] * dy[:, k - 1] - dx[:, k - 1] * dy[:, k - 2] for k in range(3)], axis=1)
    total = twice.sum(axis=1)
    weight = twice / np.where(total == 0, 1.0, total)[:, None]
    inside = (weight >= 0).all(axis=1) & (total != 0)
    return owner[inside], (row * width + column)[inside], weight[inside]


def _nearest_per_sample(
    sample: np.ndarray, near: np.ndarray, depth: np.ndarray, *values: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Keep the nearest fragment of every sample, if it is in front of what is there: (values[0], sample, near, ...)."""
    order = np.lexsort((near, sample))
    order = order[np.diff(sample[order], prepend=-1) != 0]
    order = order[near[order] < depth[sample[order]]]
    return (values[0][order], sample[order], near[order], *(value[order] for value in values[1:]))


def _draw_sphere(view: _View, image: np.ndarray, depth: np.ndarray, sphere: Ball, light: np.ndarray) -> None:
    samples = _around(view, sphere)
    rays = view.rays(samples)
    center = np.asarray(sphere.center, np.float64) - view.eye
    square, along = (rays**2).sum(axis=1), rays @ center
    root = along**2 - square * (center @ center - sphere.radius**2)
    distance = (along - np.sqrt(np.maximum(root, 0.0))) / square
    hit = (root > 0) & (distance > _NEAR) & (distance < depth[samples])
    normal = (rays[hit] * distance[hit, None] - center) / sphere.radius
    base = np.broadcast_to(np.asarray(sphere.color, np.float64), normal.shape)
    depth[samples[hit]] = distance[hit]
    image[samples[hit]] = _shade(normal, -_unit(rays[hit]), light, view.up, base, 0.22)


def _around(view: _View, sphere: Ball) -> np.ndarray:
    """The samples in a rectangle of the screen that holds a sphere."""
    corners = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)]) * sphere.radius
    screen = view.project(np.asarray(sphere.center) + corners)
    limit = np.array([view.width, view.height])
    if (screen[:, 2] <= _NEAR).any():
        low, high = np.zeros(2, int), limit
    else:
        low = np.clip(np.floor(screen[:, :2].min(axis=0)), 0, limit).astype(int)
        high = np.clip(np.ceil(screen[:, :2].max(axis=0)) + 1, 0, limit).astype(int)
    columns, rows = np.arange(low[0], high[0]), np.arange(low[1], high[1])
    return (rows[:, None] * view.width + columns).reshape(-1)


def _draw_ground(
    view: _View,
    image: np.ndarray,
    depth: np.ndarray,
    height: float,
    light: np.ndarray,
    x: np.ndarray,
    tri: np.ndarray,
    spheres: Sequence[Ball],
) -> None:
    rays = view.rays(np.arange(view.width * view.height))
    slope = rays @ view.up
    distance = (height - view.eye @ view.up) / np.where(slope == 0, 1e-30, slope)
    hit = np.flatnonzero((distance > _NEAR) & np.isfinite(distance))
    point = view.eye + rays[hit] * distance[hit, None]
    # Far away the ground melts into the background: no hard horizon.
    seen = np.concatenate([x, *(_ball(sphere)[0] for sphere in spheres)])
    if len(seen) == 0:
        return
    extent = max(float(np.ptp(seen, axis=0).max()), 1e-6)
    away = np.linalg.norm(point - seen.mean(axis=0), axis=1) / extent
    strength = np.exp(-((away / 2.2) ** 2))[:, None]
    shadow = _shadow(point, height, view.up, light, x, tri, spheres)
    floor = _FLOOR * (1.0 - _SHADOW * shadow)[:, None]
    image[hit] = strength * floor + (1 - strength) * image[hit]
    depth[hit] = distance[hit]


def _shadow(
    point: np.ndarray,
    height: float,
    up: np.ndarray,
    light: np.ndarray,
    x: np.ndarray,
    tri: np.ndarray,
    spheres: Sequence[Ball],
) -> np.ndarray:
    """How much of the light is kept from each point (k, 3) of the ground, 0..1: a blurred map of what lies above it."""
    one = _unit(np.cross(up, [1.0, 0.0, 0.0] if abs(up[0]) < 0.9 else [0.0, 0.0, 1.0]))
    plane = np.stack([one, np.cross(up, one)], axis=1)
    solids = [(x, tri)] + [_ball(s) for s in spheres]
    flat = [(p - np.outer((p @ up - height) / (light @ up), light)) @ plane for p, _ in solids]
    everything = np.concatenate(flat)
    if len(everything) == 0:
        return np.zeros(len(point))
    low, high = everything.min(axis=0), everything.max(axis=0)
    cell = max(float((high - low).max()), 1e-9) / _SHADOW_CELLS
    border = 24
    columns, rows = (np.ceil((high - low) / cell).astype(int) + 2 * border + 1).tolist()
    cover = np.zeros(rows * columns)
    for (_, faces), p in zip(solids, flat, strict=True):
        cover[_cover(((p - low) / cell + border)[faces], columns, rows)[1]] = 1.0
    cover = cover.reshape(rows, columns)
    for _ in range(3):  # three box filters are close to a Gaussian
        cover = _box_filter(_box_filter(cover, 7).T, 7).T
    place = (point @ plane - low) / cell + border
    column, row = np.clip(place, 0, [columns - 1.001, rows - 1.001]).T
    c, r = column.astype(int), row.astype(int)
    u, v = column - c, row - r
    c1, r1 = np.minimum(c + 1, columns - 1), np.minimum(r + 1, rows - 1)
    return (1 - v) * ((1 - u) * cover[r, c] + u * cover[r, c1]) + v * ((1 - u) * cover[r1, c] + u * cover[r1, c1])


def _ball(sphere: Ball, rings: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """A sphere as points and triangles, for its shadow."""
    polar, turn = np.meshgrid(np.linspace(0, np.pi, rings), np.linspace(0, 2 * np.pi, 2 * rings), indexing="ij")
    p = np.stack([np.sin(polar) * np.cos(turn), np.cos(polar), np.sin(polar) * np.sin(turn)], axis=-1).reshape(-1, 3)
    first = (np.arange(rings - 1)[:, None] * 2 * rings + np.arange(2 * rings - 1)).reshape(-1)
    below = first + 2 * rings
    faces = np.concatenate([np.stack([first, below, first + 1], 1), np.stack([first + 1, below, below + 1], 1)])
    return np.asarray(sphere.center) + sphere.radius * p, faces


def _box_filter(values: np.ndarray, radius: int) -> np.ndarray:
    """Mean over 2 radius + 1 rows, zero outside."""
    padded = np.pad(values, ((radius + 1, radius), (0, 0)))
    total = np.cumsum(padded, axis=0)
    return (total[2 * radius + 1 :] - total[: -2 * radius - 1]) / (2 * radius + 1)


def _draw_markers(
    view: _View, image: np.ndarray, depth: np.ndarray, markers: np.ndarray, color: Color, radius: float
) -> None:
    """Dots with a light rim. A marker lies on the surface: it is in front up to a hundredth of its distance."""
    reach = int(np.ceil(radius * 1.4))
    dy, dx = np.mgrid[-reach : reach + 1, -reach : reach + 1].reshape(2, -1)
    screen = view.project(markers)
    for column, row, far in screen[np.argsort(-screen[:, 2])]:
        i, j = round(column), round(row)
        if far <= _NEAR or not (0 <= i < view.width and 0 <= j < view.height):
            continue
        if depth[j * view.width + i] < far * 0.99:
            continue
        inside = (i + dx >= 0) & (i + dx < view.width) & (j + dy >= 0) & (j + dy < view.height)
        sample = ((j + dy) * view.width + i + dx)[inside]
        distance = np.hypot(i + dx - column, j + dy - row)[inside]
        rim, dot = sample[distance <= radius * 1.4], sample[distance <= radius]
        image[rim] = 1.0
        image[dot] = color
