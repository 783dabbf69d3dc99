"""Frames of a run as pictures, and as an mp4 (with PyAV, an optional extra)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sim.geometry.raster import Ball, Camera, Color, frame_camera, render
from sim.io.gltf import plane_axes, sphere_mesh
from sim.io.moving import Drawn, Frames
from sim.io.player import COLORS
from sim.io.run_folder import RunFolderError
from sim.io.scenery import Shown

UNPAINTED: Color = (np.nan, np.nan, np.nan)

FASTEST = 60.0
"""Frames per second of a film at most."""


def pictures(run: Shown, experiment: str, take: Frames, size: tuple[int, int]) -> Iterator[np.ndarray]:
    """A picture (height, width, 3) uint8 for each frame of `take`; size: (width, height) in pixels."""
    scenery = run.scenery
    up = np.asarray(scenery.up, np.float64)
    joint = _rgb(COLORS["joint"])
    moving = [(thing, thing.over(take), joint if thing is scenery.joints else UNPAINTED) for thing in scenery.drawn]
    places = np.concatenate([x for _, x, _ in moving], axis=1)
    extent = float(np.linalg.norm(np.ptp(places.reshape(-1, 3), axis=0)))
    spheres = [
        Ball(_triple(s.center), s.radius, _rgb(s.color))
        for s in scenery.shapes.get(experiment, ())
        if s.kind == "sphere"
    ]
    camera = _camera(places, spheres, up)
    ground = float((places @ up).min()) - 0.01 * extent
    targets = [recording.sample(take.time) for recording in scenery.targets.get(experiment, {}).values()]
    for k in range(take.frame_count):
        x, triangles, paint = _solid([(thing, x[k], color) for thing, x, color in moving], 0.006 * extent)
        seen = np.concatenate([target[k] for target in targets]) if targets else np.zeros((0, 3))
        seen = seen[np.isfinite(seen).all(axis=1)]
        yield render(x, triangles, size, camera, spheres=spheres, ground=ground, markers=seen, paint=paint)


def _camera(places: np.ndarray, spheres: list[Ball], up: np.ndarray) -> Camera:
    """From the front, a little to the side and above, on all that is ever drawn; places (frames, n, 3)."""
    one, other = plane_axes(up)
    box = [
        places.reshape(-1, 3),
        *(np.asarray(s.center) + s.radius * np.array([[-1.0] * 3, [1.0] * 3]) for s in spheres),
    ]
    return frame_camera(np.concatenate(box), one + 0.7 * other + 0.3 * up, _triple(up), margin=1.05)


def _solid(
    moving: Sequence[tuple[Drawn, np.ndarray, Color]], thickness: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All that is drawn, with its places and its color, as one mesh: points, triangles and their colors; surfaces as
    they are, links as rods, loose points as beads of a thickness [m]."""
    points, triangles, paint, count = [], [], [], 0
    for b, x, color in moving:
        for part, faces in _parts(b, x, thickness):
            points.append(part)
            triangles.append(faces + count)
            paint.append(np.tile(color, (len(faces), 1)))
            count += len(part)
    return np.concatenate(points), np.concatenate(triangles), np.concatenate(paint)


def _parts(b: Drawn, x: np.ndarray, thickness: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    if len(b.triangles):
        yield x, b.triangles
    if len(b.segments):
        yield _rods(x[b.segments], thickness)
    if not len(b.triangles):
        ball, faces = sphere_mesh(6)
        centers = x[:, None] + 2.0 * thickness * ball
        yield centers.reshape(-1, 3), (faces + len(ball) * np.arange(len(x))[:, None, None]).reshape(-1, 3)


def _rods(ends: np.ndarray, radius: float, sides: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Segments (k, 2, 3) as prisms: points and triangles."""
    points, triangles = [], []
    turn = 2 * np.pi * np.arange(sides) / sides
    for k, (a, b) in enumerate(ends):
        length = np.linalg.norm(b - a)
        one, other = plane_axes((b - a) / length if length > 0 else np.array([0.0, 1.0, 0.0]))
        ring = radius * (np.cos(turn)[:, None] * one + np.sin(turn)[:, None] * other)
        points += [a + ring, b + ring]
        i = 2 * sides * k + np.arange(sides)
        j = 2 * sides * k + (np.arange(sides) + 1) % sides
        triangles += [np.stack([i, j, j + sides], 1), np.stack([i, j + sides, i + sides], 1)]
    return np.concatenate(points), np.concatenate(triangles)


def write_mp4(path: str | os.PathLike[str], frames: Iterable[np.ndarray], fps: float) -> None:
    """Pictures (height, width, 3) uint8 as an mp4 (H.264).  Width and height have to be even.  Needs PyAV."""
    try:
        import av
    except ImportError:
        raise RunFolderError("an mp4 needs PyAV, which is not installed", "pip install 'simopt-xpbd[video]'") from None
    path = Path(path)
    part = path.with_name(f".{path.name}.part")
    try:
        with av.open(str(part), "w", format="mp4") as film:
            stream: Any = None
            for picture in frames:
                if stream is None:
                    stream = film.add_stream("libx264", rate=Fraction(fps).limit_denominator(1001))
                    stream.height, stream.width, stream.pix_fmt = picture.shape[0], picture.shape[1], "yuv420p"
                    stream.options = {"crf": "20", "movflags": "+faststart"}
                film.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
            film.mux(stream.encode(None))
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _triple(values: Any) -> tuple[float, float, float]:
    x, y, z = (float(value) for value in values)
    return x, y, z


def _rgb(color: str) -> tuple[float, float, float]:
    return _triple(int(color[i : i + 2], 16) / 255.0 for i in (1, 3, 5))
