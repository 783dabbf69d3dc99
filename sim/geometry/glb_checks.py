"""What has to hold in a GLB before a library reads it: sizes that are there, a tree of nodes, nothing outside.

The library makes arrays as large as an accessor says, follows nodes in circles, and opens files that are named.
Source: Khronos Group, "glTF 2.0 Specification" (ISO/IEC 12113:2022), 3.5 (scenes), 3.6 (buffers, accessors), 4 (GLB).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sim.files import FileError, quoted

MOST_PLACED = 50_000_000
"""Values of all meshes at all nodes at most: a small file can place one mesh many times."""

_COMPONENT = {5120: 1, 5121: 1, 5122: 2, 5123: 2, 5125: 4, 5126: 4}
_COMPONENTS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}
_FLOAT, _WHOLE = 5126, (5121, 5123, 5125)
_JSON, _BIN = 0x4E4F534A, 0x004E4942


def check_glb(content: bytes) -> None:
    """Raises FileError where the file is not what it announces, or wants what is not read."""
    chunks = list(_chunks(content))
    if not chunks or chunks[0][0] != _JSON:
        raise FileError("it has no JSON chunk")
    try:
        about = json.loads(chunks[0][1].decode("utf-8"))
        binary = sum(len(data) for kind, data in chunks if kind == _BIN)
        _check(about, binary)
    except FileError:
        raise
    # What is missing, or of another type than the specification says, shows when it is used.
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise FileError(f"its description is corrupt: {type(error).__name__}: {quoted(str(error))}") from None


def _chunks(content: bytes) -> Iterator[tuple[int, bytes]]:
    if content[:4] != b"glTF" or int.from_bytes(content[8:12], "little") != len(content):
        raise FileError("it is no whole GLB file: it does not have the length that it announces")
    at = 12
    while at < len(content):
        size, kind = (int.from_bytes(content[at + k : at + k + 4], "little") for k in (0, 4))
        if at + 8 + size > len(content):
            raise FileError("it ends within a chunk")
        yield kind, content[at + 8 : at + 8 + size]
        at += 8 + size


def _check(about: dict[str, Any], binary: int) -> None:
    if any("uri" in buffer for buffer in about.get("buffers", [])):
        raise FileError("it refers to other files", "export it with everything in one file")
    sizes = []
    for k, accessor in enumerate(about.get("accessors", [])):
        size = accessor["count"] * _COMPONENT[accessor["componentType"]] * _COMPONENTS[accessor["type"]]
        if (
            "sparse" in accessor
            or "bufferView" not in accessor
            or not isinstance(accessor["count"], int)
            or not 0 <= size <= binary
        ):
            raise FileError(
                f"accessor {k} needs {size:,} bytes, and the file has {binary:,}",
                "export it again, without sparse accessors",
            )
        sizes.append(accessor["count"])
    accessors = about.get("accessors", [])
    for primitive in (p for mesh in about.get("meshes", []) for p in mesh["primitives"]):
        place = accessors[primitive["attributes"]["POSITION"]]
        if (place["type"], place["componentType"]) != ("VEC3", _FLOAT):
            raise FileError("positions are no vectors of three floats")
        if "indices" in primitive:
            corners = accessors[primitive["indices"]]
            if corners["type"] != "SCALAR" or corners["componentType"] not in _WHOLE:
                raise FileError("indices are no whole numbers")
    for view in about.get("bufferViews", []):
        if not 0 <= view.get("byteOffset", 0) <= view.get("byteOffset", 0) + view["byteLength"] <= binary:
            raise FileError("a buffer view lies outside of the file")
    nodes = about.get("nodes", [])
    children = [child for node in nodes for child in node.get("children", [])]
    roots = [root for scene in about.get("scenes", []) for root in scene.get("nodes", [])]
    if (
        len(set(children)) != len(children)
        or set(children) & set(roots)
        or not set(children) | set(roots) <= set(range(len(nodes)))
    ):
        raise FileError("its nodes are no tree")
    meshes = [
        sum(
            sizes[k]
            for p in mesh["primitives"]
            for k in (*p["attributes"].values(), *([p["indices"]] if "indices" in p else []))
        )
        for mesh in about.get("meshes", [])
    ]
    placed = sum(meshes[node["mesh"]] for node in nodes if "mesh" in node)
    if placed > MOST_PLACED:
        raise FileError(
            f"its meshes are placed {placed:,} values in all, more than {MOST_PLACED:,}", "export fewer copies"
        )
