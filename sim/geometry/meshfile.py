"""Surface meshes from files: OBJ, PLY, STL and OFF by readers of our own, GLB through trimesh; merged by position.

Garment files carry several texture coordinates and normals for one position; a loader that keeps them apart hands over
thousands of loose triangles. Points here are positions and nothing else, in the order in which the file first names
them, and ``file_to_point`` says where each vertex of the file went.
"""

import io
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim.files import FileError, near, number, quoted, read_bytes, read_text, whole
from sim.geometry.errors import GeometryError, listed
from sim.geometry.glb_checks import check_glb
from sim.geometry.surface_formats import read_off, read_ply, read_stl
from sim.geometry.transforms import axes_matrix

# Self-contained files. A .gltf is left out: it names further files, and a scene reads none that it does not name.
FORMATS = (".obj", ".ply", ".stl", ".off", ".glb")

FARTHEST = 1e12
"""A coordinate at most, in units of the file (1 km in nanometres): areas and volumes of larger ones lose all digits."""

_CORNER = re.compile(r"-?[0-9]+(?:/(?:-?[0-9]+)?(?:/(?:-?[0-9]+)?)?)?")


@dataclass(frozen=True)
class MeshFile:
    """A triangle mesh as read.

    positions: (n, 3) float64 [m]; triangles: (m, 3) int32 into positions; file_to_point: (vertices of the file,) int32,
    the point that each of them became; merged: how many vertices disappeared because another has the same position.
    """

    path: Path
    positions: np.ndarray
    triangles: np.ndarray
    file_to_point: np.ndarray
    merged: int


def load_mesh(
    path: str | os.PathLike[str], unit: float = 1.0, axes: Sequence[str] | None = None, mirror: bool = False
) -> MeshFile:
    """Read a surface mesh.

    ``unit`` is the length of one file unit [m]; ``axes`` and ``mirror`` as in :func:`axes_matrix`. Polygons become
    triangles. A mirrored mesh has its triangles turned round, so that a closed surface still faces outward.
    """
    path = Path(path)
    if not (np.isfinite(unit) and unit > 0):
        raise GeometryError(f"unit {unit!r} of mesh {path} must be a positive length in metres", "1 mm is 0.001")
    matrix = axes_matrix(axes, mirror)
    check_exists(path, FORMATS)
    with errors_of(path):
        vertices, triangles = _read(path)
    _check_arrays(path, vertices, triangles)
    positions, file_to_point = merge_positions(vertices)
    triangles = file_to_point[triangles]
    if np.linalg.det(matrix) < 0:
        triangles = triangles[:, [0, 2, 1]]
    return MeshFile(
        path,
        positions @ matrix.T * unit,
        np.ascontiguousarray(triangles),
        file_to_point,
        len(vertices) - len(positions),
    )


def merge_positions(vertices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merge vertices (n, 3) at exactly the same place: (points (k, 3), vertex -> point (n,) int32).

    Points keep the order of their first vertex, so a mesh without repetitions keeps its numbering.
    """
    vertices = vertices + 0.0  # -0.0 becomes 0.0: one place, one point
    _, first, inverse = np.unique(vertices, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return vertices[first[order]], rank[inverse.reshape(-1)]


def check_exists(path: Path, formats: Sequence[str]) -> None:
    """Raises unless the path is a file of one of these types."""
    if not path.exists():
        raise GeometryError(f"mesh file {path} does not exist", capitalised(near(path)))
    if path.is_dir():
        raise GeometryError(f"mesh file {path} is a folder", "Name the file in it")
    if path.suffix.lower() not in formats:
        raise GeometryError(
            f"mesh file {path} has the unknown type {path.suffix or '(none)'!r}", f"Known types: {', '.join(formats)}"
        )


@contextmanager
def errors_of(path: Path) -> Iterator[None]:
    """What is wrong with the content becomes a GeometryError that names the file."""
    try:
        yield
    except FileError as error:
        raise GeometryError(f"mesh file {path}: {error.what}", capitalised(error.hint) or "Export it again") from error


def capitalised(hint: str) -> str:
    """A hint as a sentence."""
    return hint[:1].upper() + hint[1:]


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (n, 3) float64 in file order and triangles (m, 3) int64."""
    if path.suffix.lower() == ".obj":
        return _read_obj(read_text(path, lenient=True))
    content = read_bytes(path)
    readers = {".ply": read_ply, ".stl": read_stl, ".off": read_off, ".glb": _read_glb}
    return readers[path.suffix.lower()](content)


def _read_glb(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    check_glb(content)
    import trimesh

    try:
        loaded: Any = trimesh.load(
            io.BytesIO(content), file_type="glb", process=False, maintain_order=True, skip_materials=True
        )
    except Exception as error:  # trimesh lets the IndexError, ValueError, ... of its parsers through
        raise FileError(
            f"it is corrupt: {type(error).__name__}: {quoted(str(error))}",
            "open it in a mesh viewer and export it again",
        ) from error
    if isinstance(loaded, trimesh.Scene):
        parts = _scene_parts(loaded)
    else:
        parts = [(np.asarray(loaded.vertices, np.float64), np.asarray(getattr(loaded, "faces", ()), np.int64))]
    vertices, triangles = np.zeros((0, 3)), np.zeros((0, 3), np.int64)
    for part, faces in parts:
        if part.ndim != 2 or part.shape[1] != 3 or faces.size % 3:
            raise FileError(f"it is corrupt: positions of the shape {part.shape}, triangles of the shape {faces.shape}")
        triangles = np.concatenate([triangles, faces.reshape(-1, 3) + len(vertices)])
        vertices = np.concatenate([vertices, part])
    return vertices, triangles


def _read_obj(text: str) -> tuple[np.ndarray, np.ndarray]:
    """The ``v`` and ``f`` lines of an OBJ file, in its order, polygons cut into fans.

    Not through trimesh: it groups triangles by material, last one first, may drop vertices, and counts negative indices
    from the end of the file instead of from their own line, so that ``indices`` of a scene would mean other points than
    in the file. Garment files also hold broken comment lines: unknown keywords are skipped.
    """
    vertices: list[list[float]] = []
    triangles: list[tuple[int, int, int]] = []
    line, first = "", 1
    for count, part in enumerate(text.split("\n"), start=1):
        line += part
        if line.endswith("\\"):  # it goes on in the next line
            line = line[:-1] + " "
            continue
        words = line.partition("#")[0].split()
        try:
            if words and words[0] == "v":
                vertices.append(_vertex(words[1:]))
            elif words and words[0] == "f":
                polygon = [_corner(word, len(vertices)) for word in words[1:]]
                if len(polygon) < 3:
                    raise FileError("a face of fewer than three corners")
                triangles += [(polygon[0], b, c) for b, c in itertools.pairwise(polygon[1:])]
        except FileError as error:
            raise FileError(
                f"line {first}: {error.what}, in {quoted(line.strip())}", "open it in a mesh viewer and export it again"
            ) from None
        line, first = "", count + 1
    return np.array(vertices, np.float64).reshape(-1, 3), np.array(triangles, np.int64).reshape(-1, 3)


def _vertex(words: list[str]) -> list[float]:
    """x, y, z; a weight or a colour may follow."""
    if not 3 <= len(words) <= 7:
        raise FileError(f"a vertex of {len(words)} numbers")
    return [number(word) for word in words[:3]]


def _corner(word: str, known: int) -> int:
    """A vertex of a corner v, v/vt, v//vn or v/vt/vn, from 0.  In the file from 1, or back from the latest of those
    `known`, if negative."""
    if _CORNER.fullmatch(word) is None:
        raise FileError(f"{quoted(word)} is not the corner of a face")
    corner = whole(word.partition("/")[0], low=-known)
    if corner == 0:
        raise FileError("vertices are counted from 1")
    return corner - 1 if corner > 0 else known + corner


def _scene_parts(scene: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Every placed surface of a file of several objects, in the file's common frame."""
    parts = []
    rank = {name: k for k, name in enumerate(scene.geometry)}
    placed = {str(node): scene.graph[node] for node in scene.graph.nodes_geometry}
    # nodes_geometry is a set: sorted, so that the numbering of the points is the same in every process.
    for node in sorted(placed, key=lambda node: (rank[placed[node][1]], node)):
        matrix, name = placed[node]
        mesh = scene.geometry[name]
        if hasattr(mesh, "faces"):
            vertices = np.asarray(mesh.vertices, np.float64)
            if not np.array_equal(matrix, np.eye(4)):
                vertices = vertices @ matrix[:3, :3].T + matrix[:3, 3]
            parts.append((vertices, np.asarray(mesh.faces, np.int64)))
    return parts


def _check_arrays(path: Path, vertices: np.ndarray, triangles: np.ndarray) -> None:
    if len(triangles) == 0:
        raise GeometryError(
            f"mesh file {path} holds no triangles ({len(vertices)} vertices)",
            "It is no surface mesh, or not of the type its name says; export it again as triangles",
        )
    outside = np.flatnonzero((triangles < 0).any(axis=1) | (triangles >= len(vertices)).any(axis=1))
    if len(outside):
        raise GeometryError(
            f"mesh file {path} is corrupt: triangle {listed(outside)} names a vertex "
            f"that does not exist (there are {len(vertices)})",
            "Export it again",
        )
    broken = np.flatnonzero(~np.isfinite(vertices).all(axis=1))
    if len(broken):
        raise GeometryError(
            f"mesh file {path}: the position of vertex {listed(broken)} is not finite", "Export it again"
        )
    far = np.flatnonzero((np.abs(vertices) > FARTHEST).any(axis=1))
    if len(far):
        raise GeometryError(
            f"mesh file {path}: vertex {listed(far)} is more than {FARTHEST:g} units away", "Export it again"
        )
