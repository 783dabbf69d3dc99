"""Tetrahedra from files: TetGen's .node with .ele, and Gmsh's .msh (versions 2.2 and 4.1, ASCII and binary)."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from sim.files import FileError, numbers, quoted, read_bytes, read_text, whole, wholes
from sim.geometry.errors import GeometryError, listed
from sim.geometry.gmsh import read_groups, read_msh
from sim.geometry.meshfile import FARTHEST, check_exists, errors_of
from sim.geometry.tetrahedra import TetMesh, solid_mesh
from sim.geometry.transforms import axes_matrix

TET_FORMATS = (".node", ".ele", ".msh")


def load_tets(
    path: str | os.PathLike[str], unit: float = 1.0, axes: Sequence[str] | None = None, mirror: bool = False
) -> TetMesh:
    """Read a solid; of .node and .ele either may be named, the other lies beside it.

    ``unit`` is the length of one file unit [m]; ``axes`` and ``mirror`` as in :func:`axes_matrix`.  Checked, and mended
    where that is safe, by :func:`solid_mesh`.  Of second-order tetrahedra the corners are used.
    """
    path = Path(path)
    if not (np.isfinite(unit) and unit > 0):
        raise GeometryError(f"unit {unit!r} of mesh {path} must be a positive length in metres", "1 mm is 0.001")
    matrix = axes_matrix(axes, mirror)
    _check_pair(path)
    check_exists(path, TET_FORMATS)
    if path.suffix.lower() == ".msh":
        with errors_of(path):
            nodes, tets = read_msh(read_bytes(path))
    else:
        nodes, tets = _read_tetgen(path)
    far = np.flatnonzero((np.abs(nodes) > FARTHEST).any(axis=1))
    if len(far):
        raise GeometryError(
            f"mesh file {path}: node {listed(far)} is more than {FARTHEST:g} units away", "Export it again"
        )
    return solid_mesh(nodes @ matrix.T * unit, tets, f"mesh file {path}")


def load_groups(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Physical groups of a .msh file: name, or number where it has none -> numbers (k,) of its points in the file; none
    for other files.  Raises GeometryError."""
    path = Path(path)
    if path.suffix.lower() != ".msh":
        return {}
    check_exists(path, TET_FORMATS)
    with errors_of(path):
        return read_groups(read_bytes(path))


def _check_pair(path: Path) -> None:
    """Raises where of .node and .ele one is there and the other is not."""
    if path.suffix.lower() not in (".node", ".ele"):
        return
    there, missing = sorted((path.with_suffix(".node"), path.with_suffix(".ele")), key=Path.exists, reverse=True)
    if there.exists() and not missing.exists():
        raise GeometryError(
            f"mesh file {path}: {missing.name} is missing, which has to lie beside {there.name}",
            "TetGen writes two files, .node and .ele: copy both, under one name",
        )


def _read_tetgen(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (n, 3) and tetrahedra (t, 4) from 0 of the pair of files that TetGen writes."""
    pair = path.with_suffix(".node"), path.with_suffix(".ele")
    with errors_of(pair[0]):
        header, lines, rows = _rows(pair[0], "number of nodes, 3, attributes, markers")
        if header[1:2] != ["3"]:
            raise FileError(f"line 1: the dimension is {quoted(' '.join(header[1:2]))}, expected 3")
        extra = [whole(word, high=1000) for word in header[2:4]]
        columns = _columns(lines, rows, 4 + sum(extra))
        nodes = np.stack([_checked(lines, columns[k], numbers) for k in (1, 2, 3)], axis=1)
        numbered = _checked(lines, columns[0], wholes)
        base = int(numbered[0])  # 0 or 1: the number of the first node
        if base not in (0, 1) or not np.array_equal(numbered, np.arange(base, base + len(numbered))):
            raise FileError("nodes are not numbered one after another from 0 or 1")
    with errors_of(pair[1]):
        header, lines, rows = _rows(pair[1], "number of tetrahedra, 4, attributes")
        corners = whole(header[1], high=10) if len(header) > 1 else 0
        if corners not in (4, 10):
            raise FileError(f"line 1: tetrahedra of {corners} nodes, expected 4 or 10")
        columns = _columns(lines, rows, 1 + corners + (whole(header[2], high=1000) if len(header) > 2 else 0))
        numbered = _checked(lines, columns[0], wholes)
        if not np.array_equal(numbered, np.arange(len(numbered)) + numbered[0]):
            raise FileError("tetrahedra are not numbered one after another")
        tets = np.stack([_checked(lines, columns[k], wholes) for k in range(1, 5)], axis=1) - base
    return nodes, tets


def _rows(path: Path, form: str) -> tuple[list[str], list[int], list[list[str]]]:
    """The words of the header, and number and words of the lines that follow, as many as it announces."""
    lines = enumerate(read_text(path, lenient=True).split("\n"), start=1)
    numbered = [(number, words) for number, line in lines if (words := line.partition("#")[0].split())]
    if not numbered:
        raise FileError("the file is empty")
    (first, header), rest = numbered[0], numbered[1:]
    try:
        count = whole(header[0], low=1)
    except FileError as error:
        raise FileError(f"line {first}: {error.what}", f"it says: {form}") from None
    if len(rest) != count:
        raise FileError(f"it announces {count} rows and has {len(rest)}")
    return header, [line for line, _ in rest], [words for _, words in rest]


def _columns(lines: list[int], rows: list[list[str]], width: int) -> list[tuple[str, ...]]:
    """The columns of a table of so many."""
    for line, words in zip(lines, rows, strict=True):
        if len(words) != width:
            raise FileError(f"line {line}: {len(words)} values, the first line announces {width}")
    return list(zip(*rows, strict=True))


def _checked(lines: list[int], column: tuple[str, ...], read: Callable[[Sequence[str]], np.ndarray]) -> np.ndarray:
    """A column of numbers; what cannot be read is named with its line."""
    try:
        return read(column)
    except FileError:
        for line, word in zip(lines, column, strict=True):
            try:
                read([word])
            except FileError as error:
                raise FileError(f"line {line}: {error.what}") from None
        raise
