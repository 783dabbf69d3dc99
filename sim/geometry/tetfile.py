"""Tetrahedra from files: TetGen's .node with .ele, and Gmsh's .msh (versions 2.2 and 4.1, ASCII and binary)."""

import os
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .errors import GeometryError
from .meshfile import check_exists
from .tetrahedra import TetMesh, solid_mesh
from .transforms import axes_matrix

TET_FORMATS = (".node", ".ele", ".msh")
_GMSH_NODES = {1: 2, 2: 3, 3: 4, 4: 4, 5: 8, 6: 6, 7: 5, 8: 3, 9: 6, 10: 9, 11: 10, 12: 27, 13: 18, 14: 14, 15: 1,
               16: 8, 17: 20, 18: 15, 19: 13}  # nodes of each element type of the format
_GMSH_TET, _GMSH_TET10 = 4, 11


def load_tets(path: str | os.PathLike[str], unit: float = 1.0, axes: Sequence[str] | None = None,
              mirror: bool = False) -> TetMesh:
    """Read a solid; of .node and .ele either may be named, the other lies beside it.

    ``unit`` is the length of one file unit [m]; ``axes`` and ``mirror`` as in :func:`axes_matrix`.  Checked, and mended
    where that is safe, by :func:`solid_mesh`.  Of second-order tetrahedra the corners are used.
    """
    path = Path(path)
    if not (np.isfinite(unit) and unit > 0):
        raise GeometryError(f"unit {unit!r} of mesh {path} must be a positive length in metres", "1 mm is 0.001")
    matrix = axes_matrix(axes, mirror)
    check_exists(path, TET_FORMATS)
    try:
        nodes, tets = _read_msh(path) if path.suffix.lower() == ".msh" else _read_tetgen(path)
    except (ValueError, IndexError, struct.error, UnicodeDecodeError) as error:
        if isinstance(error, GeometryError):
            raise
        raise GeometryError(f"mesh file {path} is corrupt: {error}", "Export it again") from error
    return solid_mesh(nodes @ matrix.T * unit, tets, f"mesh file {path}")


# ------------------------------------------------------------------------------------------ TetGen
def _read_tetgen(path: Path) -> tuple[np.ndarray, np.ndarray]:
    node_file, ele_file = path.with_suffix(".node"), path.with_suffix(".ele")
    for needed in (node_file, ele_file):
        check_exists(needed, TET_FORMATS)
    header, rows = _table(node_file)
    if len(header) < 2 or int(header[1]) != 3 or rows.shape[1] < 4:
        raise GeometryError(f"mesh file {node_file} is corrupt: its first line is {' '.join(header)!r}",
                            "It says: number of nodes, 3, attributes, markers")
    base = int(rows[0, 0])  # 0 or 1: the number of the first node
    if base not in (0, 1) or not np.array_equal(rows[:, 0], np.arange(base, base + len(rows))):
        raise GeometryError(f"mesh file {node_file}: nodes are not numbered one after another from 0 or 1", "Export it again")
    header, elements = _table(ele_file)
    corners = int(header[1]) if len(header) > 1 else 0
    if corners not in (4, 10) or elements.shape[1] < 1 + corners:
        raise GeometryError(f"mesh file {ele_file} is corrupt: its first line is {' '.join(header)!r}",
                            "It says: number of tetrahedra, 4, attributes")
    return rows[:, 1:4], elements[:, 1:5].astype(np.int64) - base


def _table(path: Path) -> tuple[list[str], np.ndarray]:
    """The words of the header, and the numbers of the rows that it announces."""
    lines = [line.split("#")[0].split() for line in path.read_text(errors="replace").splitlines()]
    lines = [words for words in lines if words]
    if not lines:
        raise GeometryError(f"mesh file {path} is empty", "Export it again")
    count = int(lines[0][0])
    if count < 1 or len(lines) <= count:
        raise GeometryError(f"mesh file {path} is corrupt: it announces {count} rows and has {len(lines) - 1}", "Export it again")
    return lines[0], np.array([[float(word) for word in words] for words in lines[1 : count + 1]])


# ------------------------------------------------------------------------------------------ Gmsh
class _Reader:
    """Takes numbers from the sections of a .msh file, as text or as bytes."""

    def __init__(self, path: Path) -> None:
        self.path, self.data, self.at = path, path.read_bytes(), 0
        self.binary, self.order, self.size = False, "<", 8
        self.words: list[bytes] = []

    def section(self, name: str) -> bool:
        """Goes behind the line that begins a section; False where there is none."""
        found = self.data.find(b"$" + name.encode() + b"\n")
        if found < 0:
            found = self.data.find(b"$" + name.encode() + b"\r\n")
        if found < 0:
            return False
        self.at = self.data.index(b"\n", found) + 1
        end = self.data.find(b"$End" + name.encode(), self.at)
        if end < 0:
            raise GeometryError(f"mesh file {self.path} is corrupt: section ${name} has no end", "Export it again")
        self.words = [] if self.binary else self.data[self.at : end].split()[::-1]
        return True

    def line(self) -> str:
        """A line of text, in binary files too."""
        end = self.data.index(b"\n", self.at)
        text, self.at = self.data[self.at : end].decode().strip(), end + 1
        return text

    def take(self, kind: str, count: int) -> np.ndarray:
        """`count` numbers: "i" int32, "n" a size or tag of version 4, "d" double."""
        if self.binary:
            dtype = np.dtype({"i": f"{self.order}i4", "n": f"{self.order}u{self.size}", "d": f"{self.order}f8"}[kind])
            out = np.frombuffer(self.data, dtype, count, self.at)
            self.at += count * dtype.itemsize
            return out.astype(np.float64 if kind == "d" else np.int64)
        if len(self.words) < count:
            raise GeometryError(f"mesh file {self.path} is corrupt: a section ends too early", "Export it again")
        taken = [self.words.pop() for _ in range(count)]
        return np.array([float(w) for w in taken]) if kind == "d" else np.array([int(w) for w in taken], np.int64)

    def one(self, kind: str) -> int:
        return int(self.take(kind, 1)[0])


def _read_msh(path: Path) -> tuple[np.ndarray, np.ndarray]:
    file = _Reader(path)
    if not file.section("MeshFormat"):
        raise GeometryError(f"mesh file {path} is no Gmsh file: it has no $MeshFormat", "Export it as .msh, version 4.1")
    version, mode, size = file.line().split()[:3]
    file.binary, file.size = mode == "1", int(size)
    if file.binary:
        file.order = "<" if struct.unpack_from("<i", file.data, file.at)[0] == 1 else ">"
    if version not in ("2.2", "4.1"):
        raise GeometryError(f"mesh file {path} has the format version {version}", "Export it as version 4.1 or 2.2")
    read_nodes, read_elements = (_nodes_2, _elements_2) if version == "2.2" else (_nodes_4, _elements_4)
    if not file.section("Nodes"):
        raise GeometryError(f"mesh file {path} has no $Nodes", "Export it again")
    tags, nodes = read_nodes(file)
    if not file.section("Elements"):
        raise GeometryError(f"mesh file {path} has no $Elements", "Export it again")
    tets = read_elements(file)
    if not len(tets):
        raise GeometryError(f"mesh file {path} holds no tetrahedra", "Mesh the volume, and save all elements")
    order = np.argsort(tags)
    place = np.searchsorted(tags[order], tets)
    if (place >= len(tags)).any() or (tags[order][np.minimum(place, len(tags) - 1)] != tets).any():
        raise GeometryError(f"mesh file {path} is corrupt: a tetrahedron names a node that does not exist", "Export it again")
    return nodes, order[place]


def _nodes_2(file: _Reader) -> tuple[np.ndarray, np.ndarray]:
    count = int(file.line()) if file.binary else file.one("i")
    tags, nodes = np.zeros(count, np.int64), np.zeros((count, 3))
    if file.binary:
        rows = np.frombuffer(file.data, np.dtype([("tag", f"{file.order}i4"), ("x", f"{file.order}f8", 3)]), count, file.at)
        return rows["tag"].astype(np.int64), rows["x"].astype(np.float64)
    for k in range(count):
        tags[k] = file.one("i")
        nodes[k] = file.take("d", 3)
    return tags, nodes


def _elements_2(file: _Reader) -> np.ndarray:
    count = int(file.line()) if file.binary else file.one("i")
    found: list[np.ndarray] = []
    done = 0
    while done < count:
        if file.binary:
            kind, here, tag_count = file.take("i", 3).tolist()
            rows = file.take("i", here * (1 + tag_count + _width(file, kind))).reshape(here, -1)[:, 1 + tag_count :]
        else:
            _, kind, tag_count = file.take("i", 3).tolist()
            here, rows = 1, file.take("i", tag_count + _width(file, kind))[None, tag_count:]
        done += here
        if kind in (_GMSH_TET, _GMSH_TET10):
            found.append(rows[:, :4])
    return np.concatenate(found) if found else np.zeros((0, 4), np.int64)


def _nodes_4(file: _Reader) -> tuple[np.ndarray, np.ndarray]:
    blocks, _, _, _ = file.take("n", 4).tolist()
    tags, nodes = [], []
    for _ in range(blocks):
        _, _, parametric = file.take("i", 3).tolist()
        count = file.one("n")
        if parametric:
            raise GeometryError(f"mesh file {file.path} has parametric coordinates", "Export it without them")
        tags.append(file.take("n", count))
        nodes.append(file.take("d", 3 * count).reshape(count, 3))
    return np.concatenate(tags), np.concatenate(nodes)


def _elements_4(file: _Reader) -> np.ndarray:
    blocks, _, _, _ = file.take("n", 4).tolist()
    found = []
    for _ in range(blocks):
        _, _, kind = file.take("i", 3).tolist()
        count = file.one("n")
        rows = file.take("n", count * (1 + _width(file, kind))).reshape(count, -1)
        if kind in (_GMSH_TET, _GMSH_TET10):
            found.append(rows[:, 1:5])
    return np.concatenate(found) if found else np.zeros((0, 4), np.int64)


def _width(file: _Reader, kind: int) -> int:
    if kind not in _GMSH_NODES:
        raise GeometryError(f"mesh file {file.path} has elements of the unknown type {kind}", "Save tetrahedra only")
    return _GMSH_NODES[kind]
