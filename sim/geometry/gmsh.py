"""Gmsh's .msh files, versions 2.2 and 4.1, ASCII and binary: nodes, tetrahedra, physical groups.

Every count is compared with what is there before it is believed.  Source: C. Geuzaine and J.-F. Remacle, "Gmsh
Reference Manual", section "MSH file format".
"""

from __future__ import annotations

import numpy as np

from sim.files import FileError, numbers, quoted, text_of, whole, wholes

NODES_OF_TYPE = {
    1: 2,
    2: 3,
    3: 4,
    4: 4,
    5: 8,
    6: 6,
    7: 5,
    8: 3,
    9: 6,
    10: 9,
    11: 10,
    12: 27,
    13: 18,
    14: 14,
    15: 1,
    16: 8,
    17: 20,
    18: 15,
    19: 13,
}
DIMENSION_OF_TYPE = dict.fromkeys((15,), 0) | dict.fromkeys((1, 8), 1) | dict.fromkeys((2, 3, 9, 10, 16), 2)
DIMENSION_OF_TYPE |= {kind: 3 for kind in NODES_OF_TYPE if kind not in DIMENSION_OF_TYPE}
TET, TET10 = 4, 11
LARGEST_TAG = 2**53
"""Tags may be any size; those of meshes that exist are far smaller."""

_RANGE = {"i": (-(2**31), 2**31 - 1), "n": (0, LARGEST_TAG)}


def read_msh(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (n, 3) and tetrahedra (t, 4) int64 from 0; of second-order ones the corners.  Raises FileError."""
    file, version = _opened(content)
    read_nodes, read_elements = (_nodes_2, _elements_2) if version == "2.2" else (_nodes_4, _elements_4)
    file.section("Nodes", "it has no $Nodes")
    tags, nodes = read_nodes(file)
    file.end()
    file.section("Elements", "it has no $Elements")
    tets = _joined([nodes[:, :4] for kind, _, nodes in read_elements(file) if kind in (TET, TET10)], 4)
    file.end()
    if not len(tets):
        raise FileError("it holds no tetrahedra", "mesh the volume, and save all elements")
    order = np.argsort(tags, kind="stable")
    known = tags[order]
    repeated = np.flatnonzero(known[1:] == known[:-1])
    if len(repeated):
        raise FileError(f"section $Nodes: two nodes have the tag {known[repeated[0]]}")
    if not np.isfinite(nodes).all():
        raise FileError(
            f"section $Nodes: the position of the node with the tag {tags[~np.isfinite(nodes).all(axis=1)][0]} is not"
            " finite"
        )
    place = np.minimum(np.searchsorted(known, tets), len(known) - 1)
    missing = tets[known[place] != tets]
    if len(missing):
        raise FileError(f"section $Elements: a tetrahedron names the node {missing[0]}, which does not exist")
    return nodes, order[place]


def read_groups(content: bytes) -> dict[str, np.ndarray]:
    """Physical groups: name, or number where it has none -> its nodes (k,), counted from 0 in the order of the file.

    Raises FileError.
    """
    file, version = _opened(content)
    names = _group_names(file)
    owners = {} if version == "2.2" else _groups_of_entities(file)
    file.section("Nodes", "it has no $Nodes")
    tags, _ = (_nodes_2 if version == "2.2" else _nodes_4)(file)
    file.end()
    file.section("Elements", "it has no $Elements")
    members: dict[tuple[int, int], list[np.ndarray]] = {}
    for kind, owner, nodes in (_elements_2 if version == "2.2" else _elements_4)(file):
        dimension = DIMENSION_OF_TYPE[kind]
        of = owners.get((dimension, owner), ()) if version == "4.1" else (owner,) if owner else ()
        for group in of:
            members.setdefault((dimension, abs(group)), []).append(np.unique(nodes))
    file.end()
    found = {names.get(key, str(key[1])): np.isin(tags, np.concatenate(nodes)) for key, nodes in members.items()}
    return {name: np.flatnonzero(inside) for name, inside in found.items()}


def _opened(content: bytes) -> tuple[_Reader, str]:
    """A reader behind the header, and the version that this names."""
    file = _Reader(content)
    file.section("MeshFormat", "it is no Gmsh file: it has no $MeshFormat", text=True)
    version = file.header()
    if version not in ("2.2", "4.1"):
        raise FileError(f"it has the format version {quoted(version)}", "export it as version 4.1 or 2.2")
    return file, version


def _joined(rows: list[np.ndarray], width: int) -> np.ndarray:
    return np.concatenate([np.zeros((0, width), np.int64), *rows])


def _group_names(file: _Reader) -> dict[tuple[int, int], str]:
    """(dimension, number) -> name of the physical groups that have one."""
    if b"$PhysicalNames" not in file.data:
        return {}
    file.section("PhysicalNames", "it has no $PhysicalNames", text=True)
    out = {}
    for _ in range(whole(file.line())):
        words = file.line().split(maxsplit=2)
        if len(words) != 3:
            raise file.wrong(f'{quoted(" ".join(words))}, expected `dimension number "name"`')
        out[whole(words[0]), whole(words[1])] = words[2].strip('"')
    return out


def _groups_of_entities(file: _Reader) -> dict[tuple[int, int], list[int]]:
    """(dimension, tag) of the entities of version 4.1 -> numbers of the physical groups that each is in."""
    if b"$Entities" not in file.data:
        return {}
    file.section("Entities", "it has no $Entities")
    out = {}
    for dimension, count in enumerate(file.take("n", 4).tolist()):
        for _ in range(count):
            tag = int(file.take("i", 1)[0])
            file.take("d", 6 if dimension else 3)
            out[dimension, tag] = file.take("i", file.one("n")).tolist()
            if dimension:
                file.take("i", file.one("n"))
    file.end()
    return out


class _Reader:
    """Takes numbers from the sections of a file, as text or as bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.stop = data, 0, 0
        self.binary, self.order, self.size = False, "<", 8
        self.name = ""
        self.words: list[str] = []
        self.taken = 0

    def section(self, name: str, missing: str, text: bool = False) -> None:
        """Goes behind the line that begins a section."""
        starts = (self.data.find(f"${name}{end}".encode()) for end in ("\n", "\r\n"))
        found = min((at for at in starts if at >= 0), default=-1)
        if found < 0:
            raise FileError(missing, "export it as .msh, version 4.1")
        self.name, self.at = name, self.data.index(b"\n", found) + 1
        self.stop = self.data.find(f"$End{name}".encode(), self.at)
        if self.stop < 0:
            raise FileError(f"section ${name} has no end")
        if not self.binary and not text:
            self.words, self.taken = text_of(self.data[self.at : self.stop]).split(), 0

    def header(self) -> str:
        """The line of $MeshFormat; returns the version."""
        words = self.line().split()
        if len(words) != 3 or words[1] not in ("0", "1") or words[2] not in ("4", "8"):
            raise self.wrong(
                f"{quoted(' '.join(words))}, expected `4.1 0 8`: version, 0 or 1 for binary, size of a number"
            )
        self.binary, self.size = words[1] == "1", int(words[2])
        if self.binary:
            one = self.data[self.at : self.at + 4]
            if one not in (b"\1\0\0\0", b"\0\0\0\1"):
                raise self.wrong("no mark that tells the order of bytes")
            self.order = "<" if one[0] == 1 else ">"
        return words[0]

    def wrong(self, what: str) -> FileError:
        """The error for something in the section at hand."""
        return FileError(f"section ${self.name}: {what}")

    def line(self) -> str:
        """A line of text, in binary files too."""
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise self.wrong("it ends within a line")
        text, self.at = text_of(self.data[self.at : end], lenient=True).strip(), end + 1
        return text

    def count_line(self) -> int:
        """The count that a section of version 2.2 begins with, a line of text in binary files too."""
        try:
            return whole(self.line()) if self.binary else self.one("i", low=0)
        except FileError as error:
            raise self.wrong(error.what.removeprefix(f"section ${self.name}: ")) from None

    def take(self, kind: str, count: int) -> np.ndarray:
        """`count` numbers: "i" int32, "n" a size or tag of version 4, "d" double."""
        if self.binary:
            dtype = np.dtype({"i": f"{self.order}i4", "n": f"{self.order}u{self.size}", "d": f"{self.order}f8"}[kind])
            values = self.records(dtype, count)
            if kind == "n" and len(values) and values.max() > LARGEST_TAG:
                raise self.wrong(f"the number {values.max()} is too large")
            return values.astype(np.float64 if kind == "d" else np.int64)
        words = self.words[self.taken : self.taken + count] if count >= 0 else []
        if len(words) != count:
            raise self.wrong(f"it ends too early: {count:,} numbers should follow, and {len(words):,} do")
        self.taken += count
        try:
            return numbers(words) if kind == "d" else wholes(words, *_RANGE[kind])
        except FileError as error:
            raise self.wrong(error.what) from None

    def records(self, dtype: np.dtype, count: int) -> np.ndarray:
        """`count` records of a binary section."""
        left = len(self.data) - self.at
        if not 0 <= count * dtype.itemsize <= left:
            raise self.wrong(
                f"it ends too early: {count:,} rows of {dtype.itemsize} bytes should follow, and {left:,} bytes do"
            )
        self.at += count * dtype.itemsize
        return np.frombuffer(self.data, dtype, count, self.at - count * dtype.itemsize)

    def one(self, kind: str, low: int = -(2**31)) -> int:
        """A single number."""
        value = int(self.take(kind, 1)[0])
        if value < low:
            raise self.wrong(f"the count {value} is negative")
        return value

    def end(self) -> None:
        """The section has to be over."""
        if self.binary:
            if not self.data[self.at : self.at + len(self.name) + 8].lstrip().startswith(f"$End{self.name}".encode()):
                raise self.wrong("it does not end where its counts say")
        elif self.taken != len(self.words):
            raise self.wrong(f"it has {len(self.words) - self.taken:,} numbers more than its counts say")


def _nodes_2(file: _Reader) -> tuple[np.ndarray, np.ndarray]:
    count = file.count_line()
    if file.binary:
        rows = file.records(np.dtype([("tag", f"{file.order}i4"), ("x", f"{file.order}f8", 3)]), count)
        return rows["tag"].astype(np.int64), rows["x"].astype(np.float64)
    words = file.words[file.taken : file.taken + 4 * count]
    if len(words) != 4 * count:
        raise file.wrong(f"it announces {count:,} nodes and has {len(words) // 4:,}")
    file.taken += 4 * count
    try:
        return wholes(words[0::4]), np.stack([numbers(words[k::4]) for k in (1, 2, 3)], axis=1)
    except FileError as error:
        raise file.wrong(error.what) from None


def _elements_2(file: _Reader) -> list[tuple[int, int, np.ndarray]]:
    """Blocks of elements: type, physical group (0: none), tags of the nodes (n, k)."""
    count = file.count_line()
    found: list[tuple[int, int, np.ndarray]] = []
    done = 0
    while done < count:
        if file.binary:
            kind, here, tags = file.take("i", 3).tolist()
            if not 0 < here <= count - done:
                raise file.wrong(f"a block of {here} elements, where {count - done} are left")
        else:
            (_, kind, tags), here = file.take("i", 3).tolist(), 1
        if tags < 0:
            raise file.wrong(f"the count {tags} is negative")
        width = tags + _nodes_of(file, kind)
        if file.binary:
            rows = file.take("i", here * (1 + width)).reshape(here, 1 + width)[:, 1:]
        else:
            rows = file.take("i", width)[None]
        done += here
        owners = rows[:, 0] if tags else np.zeros(here, np.int64)
        found += [(kind, owner, rows[owners == owner, tags:]) for owner in np.unique(owners).tolist()]
    return found


def _nodes_4(file: _Reader) -> tuple[np.ndarray, np.ndarray]:
    blocks, total, _, _ = file.take("n", 4).tolist()
    tags, nodes = [np.zeros(0, np.int64)], [np.zeros((0, 3))]
    for _ in range(blocks):
        _, _, parametric = file.take("i", 3).tolist()
        count = file.one("n")
        if parametric:
            raise file.wrong("parametric coordinates, which are not read")
        tags.append(file.take("n", count))
        nodes.append(file.take("d", 3 * count).reshape(count, 3))
    return _total(file, np.concatenate(tags), total, "nodes"), np.concatenate(nodes)


def _elements_4(file: _Reader) -> list[tuple[int, int, np.ndarray]]:
    """Blocks of elements: type, entity, tags of the nodes (n, k)."""
    blocks, total, _, _ = file.take("n", 4).tolist()
    found, every = list[tuple[int, int, np.ndarray]](), [np.zeros(0, np.int64)]
    for _ in range(blocks):
        _, entity, kind = file.take("i", 3).tolist()
        count = file.one("n")
        width = 1 + _nodes_of(file, kind)
        rows = file.take("n", count * width).reshape(count, width)
        every.append(rows[:, 0])
        found.append((kind, entity, rows[:, 1:]))
    _total(file, np.concatenate(every), total, "elements")
    return found


def _total(file: _Reader, tags: np.ndarray, announced: int, what: str) -> np.ndarray:
    if len(tags) != announced:
        raise file.wrong(f"it announces {announced:,} {what} and its blocks have {len(tags):,}")
    return tags


def _nodes_of(file: _Reader, kind: int) -> int:
    if kind not in NODES_OF_TYPE:
        raise file.wrong(f"elements of the unknown type {kind}")
    return NODES_OF_TYPE[kind]
