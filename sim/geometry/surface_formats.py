"""PLY, STL and OFF: vertices (n, 3) float64 in the file's order and triangles (m, 3) int64, polygons cut into fans.

Strict: what a header announces has to be there, every index is whole, and a line that cannot be read is an error with
its number.  Sources: G. Turk, "The PLY Polygon File Format" (1994); 3D Systems, "StereoLithography Interface
Specification" (1989); Geomview's OFF.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from sim.files import FileError, number, numbers, quoted, text_of, whole, within

Surface = tuple[np.ndarray, np.ndarray]

_PLY_TYPES = {
    "char": "i1",
    "uchar": "u1",
    "short": "i2",
    "ushort": "u2",
    "int": "i4",
    "uint": "u4",
    "float": "f4",
    "double": "f8",
    "int8": "i1",
    "uint8": "u1",
    "int16": "i2",
    "uint16": "u2",
    "int32": "i4",
    "uint32": "u4",
    "float32": "f4",
    "float64": "f8",
}
_PLY_FORMATS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
_INDICES = ("vertex_indices", "vertex_index")
_OFF = re.compile(r"(?:ST)?C?N?OFF(?=\s|$)")


def fans(polygons: Iterator[list[int]]) -> np.ndarray:
    """Polygons as triangles (m, 3) int64."""
    corners = [(p[0], b, c) for p in polygons for b, c in itertools.pairwise(p[1:])]
    return np.array(corners, np.int64).reshape(-1, 3)


# ------------------------------------------------------------------------------------------ PLY
@dataclass
class _Element:
    """Rows of a PLY.  properties: (name, type of the value, type of the count of a list or "")."""

    name: str
    count: int
    properties: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def lists(self) -> bool:
        return any(count for _, _, count in self.properties)


Rows = dict[str, np.ndarray | list]


def read_ply(content: bytes) -> Surface:
    """Raises FileError."""
    order, elements, start = _ply_header(content)
    rows: dict[str, Rows] = {}
    if order:
        at = start
        for element in elements:
            rows[element.name], at = _binary_rows(content, at, element, order)
        if content[at:].strip():
            raise FileError(f"{len(content) - at:,} bytes more than the header announces")
    else:
        first = content.count(b"\n", 0, start) + 1
        lines = [
            (n, words)
            for n, line in enumerate(text_of(content[start:]).split("\n"), start=first)
            if (words := line.split())
        ]
        wanted = sum(element.count for element in elements)
        if len(lines) != wanted:
            raise FileError(f"the header announces {wanted} rows, and there are {len(lines)}")
        for element in elements:
            rows[element.name] = _text_rows(lines[: element.count], element)
            lines = lines[element.count :]
    if not {"x", "y", "z"} <= rows.get("vertex", {}).keys():
        raise FileError("no element `vertex` with the properties x, y and z")
    vertices = np.stack([np.asarray(rows["vertex"][axis], np.float64) for axis in "xyz"], axis=1).reshape(-1, 3)
    polygons = next((rows["face"][name] for name in _INDICES if name in rows.get("face", {})), [])
    return vertices, _polygons(polygons)


def _polygons(polygons: np.ndarray | list[list[int]]) -> np.ndarray:
    if isinstance(polygons, np.ndarray) and polygons.ndim == 2 and polygons.shape[1] == 3:
        return polygons.astype(np.int64)
    if any(len(p) < 3 for p in polygons):
        raise FileError("a face of fewer than three corners")
    return fans(iter(np.asarray(polygons).tolist() if isinstance(polygons, np.ndarray) else polygons))


def _ply_header(content: bytes) -> tuple[str, list[_Element], int]:
    """Byte order ("" for text), elements, and where the rows begin."""
    end = re.search(rb"(?:^|\n)end_header[ \t]*(?:\r\n|\n|\r)", content[:100_000])
    if not content.startswith(b"ply") or end is None:
        raise FileError("it is no PLY file: it has no header from `ply` to `end_header`")
    order, elements = None, list[_Element]()
    for line, text in enumerate(text_of(content[: end.start() + 1], lenient=True).split("\n"), start=1):
        words = text.split()
        with within(f"line {line}"):
            if words[:1] == ["format"] and len(words) == 3 and words[1] in _PLY_FORMATS:
                order = _PLY_FORMATS[words[1]]
            elif words[:1] == ["element"] and len(words) == 3 and words[1] not in [e.name for e in elements]:
                elements.append(_Element(words[1], whole(words[2], high=len(content))))
            elif words[:1] == ["property"] and elements:
                found = _ply_property(words[1:])
                if found[0] in [name for name, _, _ in elements[-1].properties]:
                    raise FileError(f"a second property {quoted(found[0])}")
                elements[-1].properties.append(found)
            elif words and words[0] not in ("ply", "comment", "obj_info"):
                raise FileError(f"{quoted(text)} is no line of a header")
    if order is None:
        raise FileError("its header has no `format`")
    return order, elements, end.end()


def _ply_property(words: list[str]) -> tuple[str, str, str]:
    """(name, type, type of the count)."""
    kinds = words[1:3] if words[:1] == ["list"] else words[:1]
    if len(words) != (4 if words[:1] == ["list"] else 2) or any(kind not in _PLY_TYPES for kind in kinds):
        raise FileError(f"{quoted(' '.join(words))} is no property")
    types = [_PLY_TYPES[kind] for kind in kinds]
    if len(types) == 2 and (types[0].startswith("f") or words[3] in _INDICES and types[1].startswith("f")):
        raise FileError(f"{quoted(' '.join(words))}: counts and indices are whole numbers")
    return words[-1], types[-1], types[0] if len(types) == 2 else ""


def _binary_rows(content: bytes, at: int, element: _Element, order: str) -> tuple[Rows, int]:
    """The rows of an element, and where they end.  Rows with lists all as long as the first's are read at once."""
    if not element.count or not element.properties:
        return {name: np.zeros(0) for name, _, _ in element.properties}, at
    lengths = _row(content, at, element, order)[1]
    parts: list[tuple[str, str] | tuple[str, str, int]] = []
    for name, kind, count in element.properties:
        parts += [(f"#{name}", order + count), (name, order + kind, lengths[name])] if count else [(name, order + kind)]
    dtype = np.dtype(parts)
    if element.count * dtype.itemsize <= len(content) - at:
        rows = np.frombuffer(content, dtype, element.count, at)
        if all((rows[f"#{name}"] == length).all() for name, length in lengths.items()):
            return {name: rows[name] for name, _, _ in element.properties}, at + element.count * dtype.itemsize
    if not element.lists:
        raise _short_rows(element)
    out: dict[str, list] = {name: [] for name, _, _ in element.properties}
    for _ in range(element.count):
        values, _, at = _row(content, at, element, order)
        for name, value in values.items():
            out[name].append(value)
    return dict(out), at


def _row(content: bytes, at: int, element: _Element, order: str) -> tuple[dict[str, object], dict[str, int], int]:
    """One row from byte `at` on: its values, the lengths of its lists, and where it ends."""
    values: dict[str, object] = {}
    lengths: dict[str, int] = {}

    def take(kind: str, count: int) -> np.ndarray:
        nonlocal at
        size = np.dtype(kind).itemsize * count
        if not 0 <= size <= len(content) - at:
            raise _short_rows(element)
        at += size
        return np.frombuffer(content, order + kind, count, at - size)

    for name, kind, count in element.properties:
        if count:
            lengths[name] = int(take(count, 1)[0])
            values[name] = take(kind, lengths[name]).tolist()
        else:
            values[name] = take(kind, 1)[0]
    return values, lengths, at


def _short_rows(element: _Element) -> FileError:
    return FileError(f"the file ends within its {element.count:,} rows of `{element.name}`")


def _text_rows(lines: list[tuple[int, list[str]]], element: _Element) -> Rows:
    out: dict[str, list] = {name: [] for name, _, _ in element.properties}
    for line, words in lines:
        at = 0
        with within(f"line {line}"):
            for name, kind, count in element.properties:
                read: Callable[[str], float] = number if kind.startswith("f") else _signed
                length = whole(words[at], high=len(words)) if count and at < len(words) else 1
                at += 1 if count else 0
                if at + length > len(words):
                    raise FileError(f"{len(words)} values are too few")
                values = [read(word) for word in words[at : at + length]]
                out[name].append(values if count else values[0])
                at += length
            if at != len(words):
                raise FileError(f"{len(words)} values, expected {at}")
    return dict(out)


def _signed(word: str) -> int:
    return whole(word, low=-(2**31), high=2**32 - 1)


# ------------------------------------------------------------------------------------------ STL
_FACET = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
_STL_LINES = (
    ("facet", "normal"),
    ("outer", "loop"),
    ("vertex",),
    ("vertex",),
    ("vertex",),
    ("endloop",),
    ("endfacet",),
)


def read_stl(content: bytes) -> Surface:
    """Binary where the number of facets fits the size of the file, else text.  Raises FileError."""
    if len(content) >= 84:
        count = int.from_bytes(content[80:84], "little")
        if len(content) == 84 + count * _FACET.itemsize:
            corners = np.frombuffer(content, _FACET, count, 84)["corners"].astype(np.float64).reshape(-1, 3)
            return corners, np.arange(3 * count).reshape(-1, 3)
        if b"\0" in content or not content.lstrip()[:5].lower() == b"solid":
            raise FileError(
                f"it announces {count:,} facets, {84 + count * _FACET.itemsize:,} bytes, and has {len(content):,}"
            )
    lines = [
        (n, words)
        for n, line in enumerate(text_of(content, lenient=True).split("\n"), start=1)
        if (words := line.lower().split())
    ]
    vertices: list[np.ndarray] = []
    step = 0  # the line of a facet that comes next; between facets solids begin and end
    for line, words in lines:
        if step == 0 and words[0] in ("solid", "endsolid"):
            continue
        with within(f"line {line}"):
            expected = _STL_LINES[step]
            if tuple(words[: len(expected)]) != expected:
                raise FileError(f"{quoted(' '.join(words))}, expected `{' '.join(expected)}`")
            if expected == ("vertex",):
                if len(words) != 4:
                    raise FileError(f"a vertex of {len(words) - 1} numbers")
                vertices.append(numbers(words[1:]))
            step = (step + 1) % len(_STL_LINES)
    if step or not lines or lines[-1][1][0] != "endsolid":
        raise FileError("it ends within a solid")
    return np.array(vertices, np.float64).reshape(-1, 3), np.arange(len(vertices)).reshape(-1, 3)


# ------------------------------------------------------------------------------------------ OFF
def read_off(content: bytes) -> Surface:
    """Raises FileError."""
    text = text_of(content, lenient=True)
    lines = [
        (n, words) for n, line in enumerate(text.split("\n"), start=1) if (words := line.partition("#")[0].split())
    ]
    if not lines or _OFF.fullmatch(lines[0][1][0]) is None:
        raise FileError("it is no OFF file: it does not begin with `OFF`")
    lines[0] = lines[0][0], lines[0][1][1:]  # the counts may stand behind the word
    lines = [line for line in lines if line[1]]
    with within(f"line {lines[0][0] if lines else 1}"):
        counts = [whole(word, high=len(content)) for word in (lines[0][1] if lines else [])]
        if len(counts) not in (2, 3):
            raise FileError("expected the numbers of vertices, faces and edges")
        if len(lines) - 1 != counts[0] + counts[1]:
            raise FileError(
                f"{counts[0]} vertices and {counts[1]} faces are announced, and {len(lines) - 1} lines follow"
            )
    vertices, polygons = [], []
    for line, words in lines[1 : 1 + counts[0]]:
        with within(f"line {line}"):
            if len(words) < 3:
                raise FileError(f"a vertex of {len(words)} numbers")
            vertices.append(numbers(words[:3]))
    for line, words in lines[1 + counts[0] :]:
        with within(f"line {line}"):
            corners = whole(words[0], low=3)
            if len(words) < 1 + corners:
                raise FileError(f"a face of {corners} corners with {len(words) - 1} of them")
            polygons.append([whole(word) for word in words[1 : 1 + corners]])
    return np.array(vertices, np.float64).reshape(-1, 3), fans(iter(polygons))
