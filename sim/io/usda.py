"""USD in its text form (.usda): a run as meshes, curves and points whose places are sampled over time.

What moves is written in world places, what is rigid too, so that every viewer plays it without a rig.
Format: https://openusd.org/release/glossary.html and the schemas UsdGeomMesh, BasisCurves, Points, Sphere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from sim.io.gltf import plane_corners, turn_to_y
from sim.io.moving import Drawn, Frames
from sim.io.player import COLORS, Shape
from sim.io.scenery import Scenery

THIN = 0.004
"""Width of curves and points, as a part of the size of what is drawn."""


def usda(scenery: Scenery, experiment: str, take: Frames) -> str:
    """One experiment as the text of a .usda, from where everything is, all finite.

    y is up, a unit is a metre; a time code is a frame, `timeCodesPerSecond` of them a second of the simulation.
    """
    rate = 1.0 / take.interval if take.interval else 24.0
    codes = take.time * rate
    names = _Names()
    places = [(thing, thing.over(take)) for thing in scenery.drawn]
    drawn = np.concatenate([x.reshape(-1, 3) for _, x in places])
    width = THIN * max(float(np.linalg.norm(np.ptp(drawn, axis=0))), 1e-3)
    turn = turn_to_y(np.array(scenery.up))
    root = names.unique(scenery.name)
    rows = [
        "#usda 1.0", "(", f'    defaultPrim = "{root}"', f"    doc = {_text(f'{scenery.name}, {experiment}')}",
        "    metersPerUnit = 1", '    upAxis = "Y"', f"    timeCodesPerSecond = {rate:.9g}",
        f"    framesPerSecond = {rate:.9g}", f"    startTimeCode = {codes[0]:.9g}",
        f"    endTimeCode = {codes[-1]:.9g}",
        ")", "", f'def Xform "{root}" (', '    kind = "component"', ")", "{",
        f"    quatf xformOp:orient = ({_number(turn[3])}, {', '.join(map(_number, turn[:3]))})",
        '    uniform token[] xformOpOrder = ["xformOp:orient"]',
    ]  # fmt: skip
    for thing, x in places:
        color = COLORS["joint" if thing is scenery.joints else "after"]
        for kind, suffix, used, topology in _parts(thing, width):
            name = names.unique(f"{thing.name}{suffix}")
            rows += _prim(kind, name, [*topology, *_sampled(x[:, used], codes)], color)
    for shape in scenery.shapes.get(experiment, ()):
        rows += _shape(shape, names.unique(shape.name or shape.kind), drawn)
    return "\n".join([*rows, "}", ""])


class _Names:
    """Names of prims: letters, digits and `_`, each once."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def unique(self, text: str) -> str:
        """One that is like the text."""
        name = re.sub(r"\W", "_", text, flags=re.ASCII) or "_"
        name = f"_{name}" if name[0].isdigit() else name
        chosen, count = name, 1
        while chosen in self.taken:
            count += 1
            chosen = f"{name}_{count}"
        self.taken.add(chosen)
        return chosen


def _parts(thing: Drawn, width: float) -> Iterator[tuple[str, str, np.ndarray, list[str]]]:
    """Kind of prim, what its name ends with, numbers of the places that it shows, attributes that stay."""
    bare = np.ones(len(thing.points), bool)
    if len(thing.triangles):
        used, corners = np.unique(thing.triangles, return_inverse=True)
        bare[used] = False
        yield (
            "Mesh",
            "",
            used,
            [
                f"int[] faceVertexCounts = [{', '.join(['3'] * len(thing.triangles))}]",
                f"int[] faceVertexIndices = [{', '.join(map(str, corners.ravel()))}]",
                'uniform token subdivisionScheme = "none"',
                "bool doubleSided = 1",
            ],
        )
    if len(thing.segments):
        bare[thing.segments.ravel()] = False
        yield (
            "BasisCurves",
            "_links",
            thing.segments.ravel(),
            [
                'uniform token type = "linear"',
                f"int[] curveVertexCounts = [{', '.join(['2'] * len(thing.segments))}]",
                *_widths("constant", [width]),
            ],
        )
    if bare.any() and not len(thing.triangles):
        used = np.flatnonzero(bare)
        yield "Points", "_points", used, _widths("vertex", [2 * width] * len(used))


def _widths(interpolation: str, widths: Sequence[float]) -> list[str]:
    numbers = ", ".join(map(_number, widths))
    return [f"float[] widths = [{numbers}] (", f'    interpolation = "{interpolation}"', ")"]


def _sampled(x: np.ndarray, codes: np.ndarray) -> list[str]:
    """Places (frames, n, 3) over time, and the boxes that hold them."""
    rows = ["point3f[] points.timeSamples = {"]
    rows += [f"    {code:.9g}: {_vectors(at)}," for code, at in zip(codes, x, strict=True)]
    rows += ["}", "float3[] extent.timeSamples = {"]
    boxes = zip(codes, x.min(axis=1), x.max(axis=1), strict=True)
    return [*rows, *(f"    {code:.9g}: {_vectors(np.array([low, high]))}," for code, low, high in boxes), "}"]


def _shape(shape: Shape, name: str, drawn: np.ndarray) -> list[str]:
    """A sphere, or as much of a plane as lies around what is drawn (n, 3)."""
    if shape.kind == "sphere":
        reach = np.full(3, shape.radius)
        return _prim("Sphere", name, [
            f"double radius = {_number(shape.radius)}",
            f"float3[] extent = {_vectors(np.array([-reach, reach]))}",
            f"double3 xformOp:translate = {_vectors(np.array([shape.center]))[1:-1]}",
            'uniform token[] xformOpOrder = ["xformOp:translate"]',
        ], shape.color)  # fmt: skip
    corners, _ = plane_corners(shape, drawn)
    return _prim("Mesh", name, [
        "int[] faceVertexCounts = [4]", "int[] faceVertexIndices = [0, 1, 2, 3]",
        'uniform token subdivisionScheme = "none"', "bool doubleSided = 1", f"point3f[] points = {_vectors(corners)}",
        f"float3[] extent = {_vectors(np.array([corners.min(axis=0), corners.max(axis=0)]))}",
    ], shape.color)  # fmt: skip


def _prim(kind: str, name: str, attributes: Sequence[str], color: str) -> list[str]:
    """A prim inside of the root."""
    shares = [(int(color[k : k + 2], 16) / 255) ** 2.2 for k in (1, 3, 5)]  # USD's colours are linear
    lines = [*attributes, f"color3f[] primvars:displayColor = {_vectors(np.array([shares]))}"]
    return ["", f'    def {kind} "{name}"', "    {", *(f"        {line}" for line in lines), "    }"]


def _vectors(values: np.ndarray) -> str:
    return f"[{', '.join(f'({a:.7g}, {b:.7g}, {c:.7g})' for a, b, c in values.tolist())}]"


def _number(value: float) -> str:
    return f"{float(value):.9g}"


def _text(value: str) -> str:
    """A text in quotes."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'
