"""Physical groups of Gmsh's files: points of attachments and markers, and regions of a body."""

import struct

import numpy as np
import pytest
from tools.scenes.problems import write_scene

import sim
from sim.geometry import GeometryError, load_groups, load_tets, solid_grid
from sim.schema.errors import SceneError

BOX = solid_grid(4, 1, 1, 0.1, 0.1, 0.1).mesh
LEFT = (BOX.positions[BOX.tets].mean(axis=1)[:, 0] < 0.2).astype(bool)
FACE = np.array([t for t in BOX.triangles if (BOX.positions[t][:, 0] < 1e-9).all()])
NAMES = '$PhysicalNames\n2\n2 7 "wall side"\n3 1 "soft"\n$EndPhysicalNames\n'
PARTS = ((2, 1, 7, 2, FACE), (3, 1, 1, 4, BOX.tets[LEFT]), (3, 2, 5, 4, BOX.tets[~LEFT]))
"""(dimension, entity, group, type, elements): a wall, a soft part, and one whose group has no name."""


def msh_2() -> bytes:
    nodes = [f"{k} {x} {y} {z}" for k, (x, y, z) in enumerate(BOX.positions, 1)]
    rows = [
        f"{kind} 2 {group} {entity} {' '.join(map(str, e + 1))}" for _, entity, group, kind, es in PARTS for e in es
    ]
    lines = ["$MeshFormat", "2.2 0 8", "$EndMeshFormat", NAMES.strip(), "$Nodes", str(len(nodes)), *nodes, "$EndNodes"]
    lines += ["$Elements", str(len(rows)), *(f"{k} {row}" for k, row in enumerate(rows, 1)), "$EndElements", ""]
    return "\n".join(lines).encode()


def msh_4() -> bytes:
    """Binary; a point and a curve that are in no group come first."""
    head = b"$MeshFormat\n4.1 1 8\n" + struct.pack("<i", 1) + b"\n$EndMeshFormat\n" + NAMES.encode()
    box = struct.pack("<6d", *[0.0] * 6)
    entities = struct.pack("<4Q", 1, 1, 1, 2) + struct.pack("<i3dQ", 1, 0, 0, 0, 0)
    entities += struct.pack("<i", 1) + box + struct.pack("<QQii", 0, 2, 1, -1)
    entities += struct.pack("<i", 1) + box + struct.pack("<QiQi", 1, 7, 1, 1)
    for tag, group in ((1, 1), (2, 5)):
        entities += struct.pack("<i", tag) + box + struct.pack("<QiQi", 1, group, 1, 1)
    n = len(BOX.positions)
    nodes = struct.pack("<4Q3iQ", 1, n, 1, n, 3, 1, 0, n) + np.arange(1, n + 1, dtype="<u8").tobytes()
    nodes += BOX.positions.astype("<f8").tobytes()
    total = sum(len(part[4]) for part in PARTS)
    elements, tag = struct.pack("<4Q", len(PARTS), total, 1, total), 1
    for dimension, entity, _, kind, es in PARTS:
        tags = np.arange(tag, tag + len(es))
        elements += struct.pack("<3iQ", dimension, entity, kind, len(es))
        elements += np.column_stack([tags, es + 1]).astype("<u8").tobytes()
        tag += len(es)
    sections = {"Entities": entities, "Nodes": nodes, "Elements": elements}
    return head + b"".join(f"${k}\n".encode() + v + f"\n$End{k}\n".encode() for k, v in sections.items())


@pytest.mark.parametrize("make", [msh_2, msh_4])
def test_groups_by_name_or_number(tmp_path, make):
    path = tmp_path / "box.msh"
    path.write_bytes(make())
    found = load_groups(path)
    assert list(found) == ["wall side", "soft", "5"]
    np.testing.assert_array_equal(found["wall side"], np.unique(FACE))
    np.testing.assert_array_equal(found["soft"], np.unique(BOX.tets[LEFT]))
    np.testing.assert_array_equal(found["5"], np.unique(BOX.tets[~LEFT]))
    assert len(load_tets(path).tets) == len(BOX.tets)


def test_a_name_that_is_none(tmp_path):
    path = tmp_path / "box.msh"
    path.write_bytes(msh_2().replace(b'2 7 "wall side"', b"2 seven x"))
    with pytest.raises(GeometryError, match="PhysicalNames.*|`seven` is not a number"):
        load_groups(path)


SCENE = """\
format: 2
name: box
time: {duration: 0.01, fps: 100, substeps: 1}
objects:
  box:
    regions: {a: {group: soft}, b: {group: "5"}}
    soft:
      mesh: {file: box.msh}
      density: {regions: {a: 100, b: 300}}
      material: {neo_hookean: {young: {regions: {a: 1e4, b: 2e4}}, poisson: 0.3}}
attachments:
  wall: {on: box, where: {group: wall side}}
markers:
  lower: {on: box, where: {group: wall side, y: [null, 0.05]}}
"""


def test_groups_of_a_mesh_are_regions_and_choices_of_a_scene(tmp_path):
    (tmp_path / "box.msh").write_bytes(msh_2())
    problem = sim.load_scene(write_scene(tmp_path, SCENE)).build()
    young = problem.model["box.neo_hookean.young"].numpy()
    places = problem.model.groups["box"].positions
    middle = places[problem.model.groups["box"].elements["neo_hookean"]].mean(axis=1)[:, 0]
    np.testing.assert_array_equal(young, np.where(middle < 0.2, 1e4, 2e4))
    np.testing.assert_allclose(places[problem.model.attachments[0].points][:, 0], 0.0, atol=1e-12)
    assert len(problem.model.attachments[0].points) == 4 and problem.markers["lower"].count == 2
    with pytest.raises(SceneError, match="no physical group `wall`.*\n.*\n.*\n.*did you mean `wall side`"):
        sim.load_scene(
            write_scene(
                tmp_path,
                SCENE.replace("wall, where", "wall, where").replace(
                    "wall: {on: box, where: {group: wall side}}", "wall: {on: box, where: {group: wall}}"
                ),
            )
        ).build()
