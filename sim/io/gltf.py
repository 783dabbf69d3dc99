"""glTF 2.0 in its binary form (.glb): an animation of what particles carry, and of rigid bodies.

What deforms is a mesh with morph targets: every frame but the first is one (differences of positions and normals to the
first), and the weights of two neighbouring ones cross-fade.  A rigid body is a node whose translation and rotation are
animated.  Viewers, Blender and game engines play both without anything else.
Format: https://registry.khronos.org/glTF/specs/2.0/glTF-2.0.html
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from sim.io.moving import STILL, Body, Frames, Rigid
from sim.io.player import COLORS, Shape
from sim.io.scenery import Scenery

FLOAT, UINT = 5126, 5125
VERTICES, INDICES = 34962, 34963
POINTS, LINES, TRIANGLES = 0, 1, 4
Y_UP = np.array([0.0, 1.0, 0.0])


def glb(scenery: Scenery, experiment: str, take: Frames) -> bytes:
    """One experiment as the bytes of a .glb, from where everything is, all finite.

    The scene's up becomes the y axis, as glTF wants it; lengths stay metres, and times those of the simulation: a
    viewer that starts at 0 holds the first frame until its time has come.
    """
    file = _File(experiment)
    times = take.time
    nodes = []
    for thing in scenery.bodies:
        nodes.append(_deforming(file, thing, thing.over(take), times))
    for rigid in scenery.rigid:
        nodes += _rigid(file, rigid, take, COLORS["after"])
    if scenery.joints is not None:
        nodes += _rigid(file, scenery.joints, take, COLORS["joint"])
    drawn = np.concatenate([thing.over(take).reshape(-1, 3) for thing in scenery.drawn])
    nodes += [_shape(file, shape, drawn) for shape in scenery.shapes.get(experiment, ())]
    root = file.node({"name": scenery.name, "children": nodes, "rotation": turn_to_y(np.array(scenery.up)).tolist()})
    animations = [file.animation] if file.animation["channels"] else []
    return file.bytes(
        {
            "scene": 0,
            "scenes": [{"name": scenery.name, "nodes": [root]}],
            **({"animations": animations} if animations else {}),
        }
    )


class _File:
    """A glTF under construction: its lists, its animation, and the one buffer that they point into."""

    def __init__(self, experiment: str) -> None:
        self.buffer = bytearray()
        self.animation: dict[str, Any] = {"name": experiment, "samplers": [], "channels": []}
        self.lists: dict[str, list[dict[str, Any]]] = {}
        self.shared: dict[Any, int] = {}

    def add(self, kind: str, entry: dict[str, Any]) -> int:
        """Appends to one of the lists; the index."""
        entries = self.lists.setdefault(kind, [])
        entries.append(entry)
        return len(entries) - 1

    def node(self, entry: dict[str, Any]) -> int:
        """A node."""
        return self.add("nodes", entry)

    def animate(self, node: int, path: str, times: int, output: int) -> None:
        """Moves a node's `weights`, `translation` or `rotation`; times, output: accessors of its frames."""
        sampler = {"input": times, "output": output, "interpolation": "LINEAR"}
        target = {"node": node, "path": path}
        self.animation["channels"].append({"sampler": len(self.animation["samplers"]), "target": target})
        self.animation["samplers"].append(sampler)

    def accessor(self, values: np.ndarray, kind: str, target: int | None = None, bounds: bool = False) -> int:
        """Numbers in the buffer; kind: `SCALAR`, `VEC3` or `VEC4`; bounds: state the least and the largest."""
        data = np.ascontiguousarray(values, "<u4" if target == INDICES else "<f4")
        view: dict[str, Any] = {"buffer": 0, "byteOffset": len(self.buffer), "byteLength": data.nbytes}
        if target is not None:
            view["target"] = target
        self.buffer += data.tobytes()
        entry = {
            "bufferView": self.add("bufferViews", view),
            "type": kind,
            "count": len(data),
            "componentType": UINT if target == INDICES else FLOAT,
        }
        if bounds:
            entry |= {"min": np.atleast_1d(data.min(axis=0)).tolist(), "max": np.atleast_1d(data.max(axis=0)).tolist()}
        return self.add("accessors", entry)

    def vertices(self, values: np.ndarray, bounds: bool = True) -> int:
        """An attribute of vertices (n, 3)."""
        return self.accessor(values, "VEC3", VERTICES, bounds)

    def times(self, times: np.ndarray) -> int:
        """Times of the frames [s], shared by all that moves."""
        if "times" not in self.shared:
            self.shared["times"] = self.accessor(times, "SCALAR", bounds=True)
        return self.shared["times"]

    def fade(self, frames: int) -> int:
        """Weights of frames - 1 targets at each frame: frame k is target k - 1 alone.  Shared by all bodies."""
        if "fade" not in self.shared:
            weights = np.eye(frames)[:, 1:]
            self.shared["fade"] = self.accessor(weights.reshape(-1), "SCALAR")
        return self.shared["fade"]

    def material(self, color: str) -> int:
        """A matt material of a colour `#rrggbb` that is seen from both sides."""
        if color not in self.shared:
            rgb = [(int(color[i : i + 2], 16) / 255.0) ** 2.2 for i in (1, 3, 5)]  # glTF's factors are linear
            self.shared[color] = self.add(
                "materials",
                {
                    "name": color,
                    "doubleSided": True,
                    "pbrMetallicRoughness": {
                        "baseColorFactor": [*rgb, 1.0],
                        "metallicFactor": 0.0,
                        "roughnessFactor": 0.7,
                    },
                },
            )
        return self.shared[color]

    def bytes(self, top: dict[str, Any]) -> bytes:
        """The finished file."""
        whole = {
            "asset": {"version": "2.0", "generator": "simopt"},
            **top,
            **self.lists,
            "buffers": [{"byteLength": len(self.buffer)}],
        }
        text = json.dumps(whole, separators=(",", ":"), allow_nan=False).encode()
        text += b" " * (-len(text) % 4)
        size = 12 + 8 + len(text) + 8 + len(self.buffer)
        return b"".join(
            [
                struct.pack("<4sII", b"glTF", 2, size),
                struct.pack("<I4s", len(text), b"JSON"),
                text,
                struct.pack("<I4s", len(self.buffer), b"BIN\0"),
                bytes(self.buffer),
            ]
        )


def _deforming(file: _File, thing: Body | Rigid, places: np.ndarray, times: np.ndarray) -> int:
    """A node of places (frames, n, 3) that move on their own."""
    node = file.node({"name": thing.name, "mesh": _mesh(file, thing, places, COLORS["after"])})
    if len(times) > 1:
        file.animate(node, "weights", file.times(times), file.fade(len(times)))
    return node


def _rigid(file: _File, rigid: Rigid, take: Frames, color: str) -> list[int]:
    """A node for each body that something is drawn on, and one of the segments that link two bodies."""
    ends = rigid.bodies[rigid.segments]
    crossing = ends[:, 0] != ends[:, 1]
    owners, inside = np.unique(rigid.bodies), rigid.segments[~crossing]
    places = _by_owner(owners, rigid.bodies)
    surfaces, lines = (_by_owner(owners, rigid.bodies[of[:, 0]]) for of in (rigid.triangles, inside))
    index = np.zeros(len(rigid.points), np.int64)
    for own in places:
        index[own] = np.arange(len(own))
    plain = not len(rigid.triangles) + len(rigid.segments)
    nodes = []
    for owner, own, faces, links in zip(owners.tolist(), places, surfaces, lines, strict=True):
        if not (len(faces) or len(links) or plain):
            continue
        name = rigid.name if len(owners) == 1 else f"{rigid.name}.{owner}"
        triangles, segments = index[rigid.triangles[faces]], index[inside[links]]
        part = Rigid(name, rigid.bodies[own], rigid.points[own], triangles, segments)
        poses = take.body_q[:, owner] if owner >= 0 else np.tile(STILL, (1, 1))
        nodes.append(_posed(file, name, _shared_mesh(file, part, color), poses, take.time))
    if crossing.any():
        linked = Rigid(f"{rigid.name}.links", rigid.bodies, rigid.points, segments=rigid.segments[crossing])
        nodes.append(_deforming(file, linked, linked.over(take), take.time))
    return nodes


def _shared_mesh(file: _File, part: Rigid, color: str) -> int:
    """The mesh of what is on one body; bodies that look alike have one."""
    key = (color, *(a.tobytes() for a in (part.points, part.triangles, part.segments)))
    if key not in file.shared:
        file.shared[key] = _mesh(file, part, part.points[None], color)
    return file.shared[key]


def _by_owner(owners: np.ndarray, bodies: np.ndarray) -> list[np.ndarray]:
    """For each owner the places where it stands in `bodies`, in order."""
    order = np.argsort(bodies, kind="stable")
    return np.split(order, np.searchsorted(bodies[order], owners)[1:]) if len(owners) else []


def _posed(file: _File, name: str, mesh: int, poses: np.ndarray, times: np.ndarray) -> int:
    """A node with a mesh that moves with a body; poses: (frames, 7)."""
    turns = _of_one_sign(poses[:, 3:] / np.linalg.norm(poses[:, 3:], axis=1, keepdims=True))
    start = {"translation": poses[0, :3].tolist(), "rotation": turns[0].tolist()}
    node = file.node({"name": name, "mesh": mesh, **start})
    if len(poses) > 1:
        file.animate(node, "translation", file.times(times), file.accessor(poses[:, :3], "VEC3"))
        file.animate(node, "rotation", file.times(times), file.accessor(turns, "VEC4"))
    return node


def _of_one_sign(turns: np.ndarray) -> np.ndarray:
    """The same rotations, neighbours less than a right angle apart as vectors of four: q and -q are the same, and
    viewers differ in whether they blend the shorter way round."""
    flips = np.where(np.sum(turns[1:] * turns[:-1], axis=1) < 0.0, -1.0, 1.0)
    return turns * np.concatenate([[1.0], np.cumprod(flips)])[:, None]


def _mesh(file: _File, thing: Body | Rigid, places: np.ndarray, color: str) -> int:
    """A mesh with places (frames, n, 3): its triangles, else its segments, and points where there is neither."""
    ends = thing.triangles if len(thing.triangles) else thing.segments
    used = np.unique(ends) if len(ends) else np.arange(places.shape[1])
    index = np.zeros(places.shape[1], np.int64)
    index[used] = np.arange(len(used))
    x = places[:, used].astype(np.float32)
    attributes = {"POSITION": file.vertices(x[0])}
    targets = [{"POSITION": file.vertices(frame - x[0])} for frame in x[1:]]
    primitive: dict[str, Any] = {"attributes": attributes, "material": file.material(color)}
    if len(thing.triangles):
        triangles = index[thing.triangles]
        normals = [_normals(frame, triangles) for frame in x]
        attributes["NORMAL"] = file.vertices(normals[0], bounds=False)
        for target, normal in zip(targets, normals[1:], strict=True):
            target["NORMAL"] = file.vertices(normal - normals[0], bounds=False)
        primitive |= {"mode": TRIANGLES, "indices": file.accessor(triangles.reshape(-1), "SCALAR", INDICES)}
    elif len(thing.segments):
        primitive |= {"mode": LINES, "indices": file.accessor(index[thing.segments].reshape(-1), "SCALAR", INDICES)}
    else:
        primitive |= {"mode": POINTS}
    mesh: dict[str, Any] = {"name": thing.name, "primitives": [primitive]}
    if targets:
        primitive["targets"] = targets
        mesh["weights"] = [0.0] * len(targets)
    return file.add("meshes", mesh)


def _normals(x: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Unit normals (n, 3) of the points, by the areas of the adjacent triangles; y where these cancel."""
    x = x.astype(np.float64)
    flat = np.cross(x[triangles[:, 1]] - x[triangles[:, 0]], x[triangles[:, 2]] - x[triangles[:, 0]])
    out = np.zeros_like(x)
    for corner in range(3):
        np.add.at(out, triangles[:, corner], flat)
    length = np.linalg.norm(out, axis=1, keepdims=True)
    return np.where(length > 1e-30, out / np.maximum(length, 1e-30), Y_UP).astype(np.float32)


def _shape(file: _File, shape: Shape, drawn: np.ndarray) -> int:
    """A sphere, or as much of a plane as lies around what is drawn (n, 3)."""
    if shape.kind == "sphere":
        points, triangles = sphere_mesh()
        mesh = _static(file, shape, points, points, triangles)
        center = [float(value) for value in shape.center]
        return file.node(
            {"name": shape.name or shape.kind, "mesh": mesh, "translation": center, "scale": [float(shape.radius)] * 3}
        )
    corners, normal = plane_corners(shape, drawn)
    mesh = _static(file, shape, corners, np.tile(normal, (4, 1)), np.array([[0, 1, 2], [0, 2, 3]]))
    return file.node({"name": shape.name or shape.kind, "mesh": mesh})


def _static(file: _File, shape: Shape, points: np.ndarray, normals: np.ndarray, triangles: np.ndarray) -> int:
    attributes = {"POSITION": file.vertices(points), "NORMAL": file.vertices(normals, bounds=False)}
    indices = file.accessor(triangles.reshape(-1), "SCALAR", INDICES)
    return file.add(
        "meshes",
        {
            "name": shape.name or shape.kind,
            "primitives": [
                {
                    "attributes": attributes,
                    "indices": indices,
                    "mode": TRIANGLES,
                    "material": file.material(shape.color),
                }
            ],
        },
    )


def sphere_mesh(rings: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """A unit sphere: points (n, 3), which are its normals, and triangles (m, 3), counterclockwise from outside."""
    polar, turn = np.meshgrid(np.linspace(0, np.pi, rings + 1), np.linspace(0, 2 * np.pi, 2 * rings + 1), indexing="ij")
    x = np.stack([np.sin(polar) * np.sin(turn), np.cos(polar), np.sin(polar) * np.cos(turn)], axis=-1).reshape(-1, 3)
    first = (np.arange(rings)[:, None] * (2 * rings + 1) + np.arange(2 * rings)).reshape(-1)
    below = first + 2 * rings + 1
    triangles = np.concatenate([np.stack([first, below, below + 1], 1), np.stack([first, below + 1, first + 1], 1)])
    corner = x[triangles]
    area = np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1)
    return x, triangles[area > 1e-9]  # at the poles one of two is flat


def plane_axes(normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two unit vectors (3,) that span the plane across a unit normal; right-handed with it."""
    seed = np.array([0.0, 0.0, 1.0]) if abs(normal[2]) < 0.9 else np.array([0.0, -1.0, 0.0])
    one = seed - (seed @ normal) * normal
    one = one / np.linalg.norm(one)
    return one, np.cross(normal, one)


def plane_corners(shape: Shape, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Corners (4, 3) [m] of as much of a plane as lies around what is drawn (n, 3), and its unit normal (3,)."""
    normal = np.asarray(shape.normal, np.float64) / np.linalg.norm(shape.normal)
    one, other = plane_axes(normal)
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    middle = 0.5 * (low + high)
    middle = middle - ((middle - np.asarray(shape.center)) @ normal) * normal
    reach = max(float(np.linalg.norm(high - low)), 1e-3)
    corners = np.array([middle + reach * (i * one + j * other) for i, j in ((-1, -1), (1, -1), (1, 1), (-1, 1))])
    return corners, normal


def turn_to_y(up: np.ndarray) -> np.ndarray:
    """The shortest rotation that takes `up` to y, as a quaternion (x, y, z, w)."""
    up = up / np.linalg.norm(up)
    if up @ Y_UP < -1.0 + 1e-9:
        return np.array([1.0, 0.0, 0.0, 0.0])
    q = np.append(np.cross(up, Y_UP), 1.0 + up @ Y_UP)
    return q / np.linalg.norm(q)
