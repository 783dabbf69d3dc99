"""A structural checker of .glb files: what the specification of glTF 2.0 demands of the parts that we write."""

import json
import struct

import numpy as np

TYPES = {5126: np.dtype("<f4"), 5125: np.dtype("<u4")}
WIDTH = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}
ANIMATED = {"translation": "VEC3", "rotation": "VEC4"}
DRAWN = {0: 1, 1: 2, 4: 3}  # vertices of a point, a line, a triangle


class Glb:
    """A parsed and checked file: `top` is its JSON, `read(k)` the numbers of accessor k, (count,) or (count, 3)."""

    def __init__(self, content: bytes):
        magic, version, length = struct.unpack_from("<4sII", content)
        assert (magic, version, length) == (b"glTF", 2, len(content))
        size, kind = struct.unpack_from("<I4s", content, 12)
        assert kind == b"JSON" and size % 4 == 0
        self.top = json.loads(content[20 : 20 + size])
        self.buffer_size, kind = struct.unpack_from("<I4s", content, 20 + size)
        assert kind == b"BIN\0" and self.buffer_size % 4 == 0
        self.buffer = content[28 + size :]
        assert len(self.buffer) == self.buffer_size
        self.check()

    def list(self, name):
        return self.top.get(name, [])

    def read(self, k):
        accessor = self.list("accessors")[k]
        view = self.list("bufferViews")[accessor["bufferView"]]
        dtype, width = TYPES[accessor["componentType"]], WIDTH[accessor["type"]]
        assert view["byteOffset"] % dtype.itemsize == 0
        assert accessor["count"] * width * dtype.itemsize <= view["byteLength"]
        values = np.frombuffer(self.buffer, dtype, accessor["count"] * width, view["byteOffset"])
        return values if width == 1 else values.reshape(-1, width)

    def check(self):
        assert self.top["asset"]["version"] == "2.0"
        (buffer,) = self.list("buffers")
        assert buffer["byteLength"] == self.buffer_size
        end = 0
        for view in self.list("bufferViews"):
            assert view["buffer"] == 0 and view["byteOffset"] >= end and view["byteLength"] > 0
            end = view["byteOffset"] + view["byteLength"]
        assert end <= self.buffer_size
        for k, accessor in enumerate(self.list("accessors")):
            values = self.read(k)
            assert len(values) > 0 and (values.dtype == np.uint32 or np.isfinite(values).all())
            if "min" in accessor:
                assert np.atleast_1d(values.min(axis=0)).tolist() == accessor["min"]
                assert np.atleast_1d(values.max(axis=0)).tolist() == accessor["max"]
        for mesh in self.list("meshes"):
            self.check_mesh(mesh)
        self.check_nodes()
        for animation in self.list("animations"):
            self.check_animation(animation)

    def check_mesh(self, mesh):
        for primitive in mesh["primitives"]:
            attributes = primitive["attributes"]
            count = self.attribute(attributes["POSITION"], bounds=True)
            for name, k in attributes.items():
                assert self.attribute(k) == count
                if name == "NORMAL":
                    assert np.abs(np.linalg.norm(self.read(k), axis=1) - 1).max() < 1e-5
            drawn = count
            if "indices" in primitive:
                indices = self.read(primitive["indices"])
                assert indices.dtype == np.uint32 and indices.max() < count
                assert self.view(primitive["indices"])["target"] == 34963
                drawn = len(indices)
            assert drawn % DRAWN[primitive["mode"]] == 0
            targets = primitive.get("targets", [])
            assert len(targets) == len(mesh.get("weights", []))
            for target in targets:
                assert set(target) <= set(attributes)
                for name, k in target.items():
                    assert self.attribute(k, bounds=name == "POSITION") == count
            assert 0 <= primitive["material"] < len(self.list("materials"))
        for material in self.list("materials"):
            assert all(0 <= c <= 1 for c in material["pbrMetallicRoughness"]["baseColorFactor"])

    def view(self, k):
        return self.list("bufferViews")[self.list("accessors")[k]["bufferView"]]

    def attribute(self, k, bounds=False):
        accessor = self.list("accessors")[k]
        assert accessor["type"] == "VEC3" and accessor["componentType"] == 5126 and self.view(k)["target"] == 34962
        assert not bounds or "min" in accessor
        return accessor["count"]

    def check_nodes(self):
        nodes = self.list("nodes")
        parents = [child for node in nodes for child in node.get("children", [])]
        assert len(parents) == len(set(parents))  # a tree
        roots = self.list("scenes")[self.top["scene"]]["nodes"]
        assert sorted(parents + roots) == list(range(len(nodes)))
        for node in nodes:
            assert "mesh" not in node or 0 <= node["mesh"] < len(self.list("meshes"))
            if "rotation" in node:
                assert abs(np.linalg.norm(node["rotation"]) - 1) < 1e-6

    def check_animation(self, animation):
        assert animation["channels"]
        for channel in animation["channels"]:
            sampler = animation["samplers"][channel["sampler"]]
            times, output = self.read(sampler["input"]), self.read(sampler["output"])
            assert (np.diff(times) > 0).all() and times[0] >= 0
            assert "min" in self.list("accessors")[sampler["input"]]
            assert sampler["interpolation"] == "LINEAR"
            path, node = channel["target"]["path"], self.list("nodes")[channel["target"]["node"]]
            if path == "weights":
                assert len(output) == len(times) * len(self.list("meshes")[node["mesh"]]["weights"])
            else:
                assert self.list("accessors")[sampler["output"]]["type"] == ANIMATED[path] and len(output) == len(times)
            if path == "rotation":
                assert np.abs(np.linalg.norm(output, axis=1) - 1).max() < 1e-6
                assert (np.sum(output[1:] * output[:-1], axis=1) >= 0).all()  # the shorter way round
        targets = [tuple(channel["target"].values()) for channel in animation["channels"]]
        assert len(targets) == len(set(targets))

    def places(self, name, time):
        """Positions (n, 3) of the vertices of a node in its parent's frame, at a time of the animation, as a viewer
        blends them."""
        k, node = next(
            (k, node) for k, node in enumerate(self.list("nodes")) if node["name"] == name and "mesh" in node
        )
        mesh = self.list("meshes")[node["mesh"]]
        (primitive,) = mesh["primitives"]
        x = self.read(primitive["attributes"]["POSITION"]).astype(float)
        pose = {"translation": [0, 0, 0], "rotation": [0, 0, 0, 1], **node}
        for animation in self.list("animations"):
            for channel in animation["channels"]:
                if channel["target"]["node"] == k:
                    sampler = animation["samplers"][channel["sampler"]]
                    times, output = self.read(sampler["input"]), self.read(sampler["output"])
                    if channel["target"]["path"] == "weights":
                        weights = output.reshape(len(times), -1)
                        for target, column in zip(primitive["targets"], weights.T, strict=True):
                            x = x + np.interp(time, times, column) * self.read(target["POSITION"])
                    else:
                        pose[channel["target"]["path"]] = blend(time, times, output.astype(float))
        x = x * node.get("scale", [1, 1, 1])
        u, w = np.array(pose["rotation"][:3]), pose["rotation"][3]
        return x + 2 * np.cross(u, np.cross(u, x) + w * x) + pose["translation"]


def blend(time, times, values):
    """Between two frames: vectors on the straight line, quaternions on the great circle."""
    k = int(np.clip(np.searchsorted(times, time, side="right") - 1, 0, max(len(times) - 2, 0)))
    share = float(np.clip((time - times[k]) / (times[k + 1] - times[k]), 0, 1))
    a, b = values[k : k + 2]
    angle = np.arccos(np.clip(a @ b, -1, 1)) if len(a) == 4 else 0.0
    if angle < 1e-6:
        return (1 - share) * a + share * b
    return (np.sin((1 - share) * angle) * a + np.sin(share * angle) * b) / np.sin(angle)
