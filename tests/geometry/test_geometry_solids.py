"""Solids: lattices, tetrahedra from files in every format, surfaces that are carried along, and bad meshes."""

import struct

import numpy as np
import pytest
from tools.physics.solids import BOX, sphere, write_tetgen

from sim.geometry import (
    GeometryError,
    cloth_grid,
    embed,
    embed_in_triangles,
    fill_surface,
    lattice_tets,
    load_tets,
    solid_grid,
    solid_mesh,
    subdivide_tets,
    subdivide_triangles,
    tet_edges,
    tet_quality,
    tet_surface,
    tet_volumes,
)


# ------------------------------------------------------------------------------------------ lattices
def test_a_lattice_fills_its_box():
    mesh = BOX.mesh
    assert (len(mesh.positions), len(mesh.tets)) == (3 * 4 * 5, 5 * 24)
    assert (mesh.volumes > 0).all()
    assert mesh.volumes.sum() == pytest.approx(0.2 * 0.6 * 1.2)
    assert len(mesh.triangles) == 2 * 2 * (2 * 3 + 3 * 4 + 2 * 4)  # every face of a cell on the outside, cut in two
    a, b, c = (mesh.positions[mesh.triangles[:, k]] for k in range(3))
    assert np.einsum("ij,ij->", a, np.cross(b, c)) / 6 == pytest.approx(0.2 * 0.6 * 1.2)  # facing outward
    assert mesh.boundary.sum() == 60 - 1 * 2 * 3
    np.testing.assert_array_equal(mesh.positions[BOX.left, 0], 0)
    np.testing.assert_array_equal(mesh.positions[BOX.top, 1], 3 * 0.2)


def test_a_lattice_numbers_its_points_as_newton_does():
    np.testing.assert_allclose(BOX.mesh.positions[1], [0.1, 0, 0])
    np.testing.assert_allclose(BOX.mesh.positions[3], [0, 0.2, 0])
    np.testing.assert_allclose(BOX.mesh.positions[12], [0, 0, 0.3])


def test_neighbouring_cells_share_their_diagonals():
    """Every face belongs to one or two tetrahedra: else `tet_surface` would find inner faces."""
    inside = BOX.mesh.triangles[~np.isin(BOX.mesh.triangles, np.flatnonzero(BOX.mesh.boundary)).all(axis=1)]
    assert len(inside) == 0


def test_sizes_of_tetrahedra():
    corner = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    assert tet_volumes(corner, [[0, 1, 2, 3]]) == pytest.approx([1 / 6])
    assert tet_volumes(corner, [[0, 2, 1, 3]]) == pytest.approx([-1 / 6])
    regular = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1.0]])
    assert tet_quality(regular, [[0, 1, 2, 3]]) == pytest.approx([1.0])
    assert len(tet_edges([[0, 1, 2, 3]])) == 6
    assert len(tet_surface([[0, 1, 2, 3]])) == 4


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"dim_x": 0}, "dim_x = 0"),
        ({"dim_y": 1.5}, "dim_y = 1.5"),
        ({"cell_z": -1.0}, "cell_z = -1.0"),
    ],
)
def test_bad_lattices(change, match):
    with pytest.raises(GeometryError, match=match):
        solid_grid(**{"dim_x": 1, "dim_y": 1, "dim_z": 1, "cell_x": 1.0, "cell_y": 1.0, "cell_z": 1.0, **change})


# ------------------------------------------------------------------------------------------ any closed surface
def test_filling_a_ball():
    x, triangles = sphere()
    true = 4 / 3 * np.pi * 0.125
    for cells, within in ((6, 0.25), (12, 0.06), (20, 0.03)):
        mesh, surface = fill_surface(x, triangles, cells)
        assert mesh.volumes.sum() == pytest.approx(true, rel=within)
        assert (mesh.volumes > 0).all()
        np.testing.assert_allclose(surface.embedding.at(mesh.positions), x, atol=1e-12)
        np.testing.assert_allclose(surface.embedding.weights.sum(axis=1), 1)
    turned = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1.0]])
    moved = mesh.positions @ turned.T + [1, 2, 3]
    np.testing.assert_allclose(surface.embedding.at(moved), x @ turned.T + [1, 2, 3], atol=1e-12)


def test_a_hollow_place_stays_hollow():
    x, triangles = sphere()
    inner = sphere(2, 0.3)
    both = np.concatenate([x, inner[0]]), np.concatenate([triangles, inner[1][:, ::-1] + len(x)])
    mesh, _ = fill_surface(*both, 20)
    assert mesh.volumes.sum() == pytest.approx(4 / 3 * np.pi * (0.125 - 0.027), rel=0.05)


def test_surfaces_that_cannot_be_filled():
    x, triangles = sphere(2)
    with pytest.raises(GeometryError, match="not closed: 3 of its points"):
        fill_surface(x, triangles[1:], 8)
    with pytest.raises(GeometryError, match="cells = 0"):
        fill_surface(x, triangles, 0)


# ------------------------------------------------------------------------------------------ places that are carried
def test_places_inside_and_outside():
    mesh = BOX.mesh
    places = np.array([[0.05, 0.3, 0.4], [0.1, 0.2, 0.3], [0.25, 0.3, 0.6], [-0.01, -0.02, -0.03]])
    found = embed(places, mesh.positions, mesh.tets)
    np.testing.assert_allclose(found.at(mesh.positions), places, atol=1e-14)
    assert (found.weights[:2] > -1e-12).all()
    assert (found.weights[2:] < -1e-3).any(axis=1).all()
    # the nearest tetrahedron: one with a corner at the corner of the box
    assert 0 in found.points[3]
    many = np.stack([mesh.positions, 2 * mesh.positions])
    assert found.at(many).shape == (2, 4, 3)


def test_places_on_a_sheet():
    x = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0.0]])
    found = embed_in_triangles([[0.75, 0.25, 0.5], [0.1, 0.9, 0.0]], x, np.array([[0, 1, 2], [0, 2, 3]]))
    np.testing.assert_allclose(found.at(x), [[0.75, 0.25, 0], [0.1, 0.9, 0]], atol=1e-14)


# ------------------------------------------------------------------------------------------ meshes that need care
def test_mending():
    mesh = BOX.mesh
    tets = mesh.tets.copy()
    tets[::3] = tets[::3][:, [1, 0, 2, 3]]
    points = np.concatenate([[[9.0, 9, 9]], mesh.positions])
    made = solid_mesh(points, tets + 1)
    assert (made.volumes > 0).all()
    assert made.file_to_point[0] == -1
    np.testing.assert_array_equal(made.positions, mesh.positions)
    assert "40 of 120 tetrahedra were numbered inside out" in made.notes[0]
    assert "1 of 61 points belong to no tetrahedron" in made.notes[1]


def test_slivers_are_counted():
    x = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0.3, 0.3, 1e-3]])
    assert "1 of 1 tetrahedra are slivers" in solid_mesh(x, [[0, 1, 2, 3]]).notes[0]


CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0], [5, 5, 5], [6, 5, 5], [5, 6, 5], [5, 5, 6]])


@pytest.mark.parametrize(("x", "tets", "match"), [
    (np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0.0]]), [[0, 1, 2, 3]],
     r"1 of 1 tetrahedra are flat: 0;.*volume 0 m\^3"),
    (CORNERS, [[0, 1, 2, 3], [4, 5, 6, 7]], "2 separate pieces"),
    (CORNERS, [[0, 1, 2, 8]], "names a point that does not exist; there are 8"),
    (CORNERS * np.array([1, np.nan, 1]), [[0, 1, 2, 3]], "position of point 0, 1, 2, 3, 4 and 3 more is not finite"),
    (CORNERS, [[0.5, 1, 2, 3]], "type float64"),
    (CORNERS, np.zeros((0, 4), int), r"tetrahedra \(0, 4\)"),
])  # fmt: skip
def test_bad_meshes(x, tets, match):
    with pytest.raises(GeometryError, match=match):
        solid_mesh(x, tets)


def test_a_face_of_three_tetrahedra():
    with pytest.raises(GeometryError, match="1 faces belong to more than two"):
        tet_surface([[0, 1, 2, 3], [0, 1, 2, 4], [0, 1, 2, 5]])


def test_lattice_of_chosen_cells():
    filled = np.zeros((2, 2, 2), bool)
    filled[0, 0, 0] = filled[1, 1, 1] = True
    assert lattice_tets(filled).shape == (10, 4)


# ------------------------------------------------------------------------------------------ files


@pytest.mark.parametrize("base", [0, 1])
def test_tetgen(tmp_path, base):
    file = write_tetgen(tmp_path, BOX.mesh.positions, BOX.mesh.tets, base)
    for path in (file, file.with_suffix(".ele")):
        made = load_tets(path, unit=1e-3)
        np.testing.assert_allclose(made.positions, BOX.mesh.positions * 1e-3)
        np.testing.assert_array_equal(made.tets, BOX.mesh.tets)
        assert made.notes == ()
    turned = load_tets(file, axes=["z", "-y", "x"])
    np.testing.assert_allclose(turned.positions, BOX.mesh.positions[:, [2, 1, 0]] * [1, -1, 1])
    mirrored = load_tets(file, axes=["-x", "y", "z"], mirror=True)
    assert (mirrored.volumes > 0).all()


def msh(version, binary, x, tets, tags):
    """A Gmsh file with a point, a triangle and the tetrahedra; nodes have the numbers `tags`."""
    out = [f"$MeshFormat\n{version} {int(binary)} 8\n".encode()]
    if binary:
        out += [struct.pack("<i", 1), b"\n"]
    out.append(b"$EndMeshFormat\n")
    rows = [(15, [tags[0]]), (2, [tags[0], tags[1], tags[2]])]

    def ints(*values):
        return struct.pack(f"<{len(values)}i", *values) if binary else (" ".join(map(str, values)) + "\n").encode()

    def longs(*values):
        return struct.pack(f"<{len(values)}Q", *values) if binary else (" ".join(map(str, values)) + "\n").encode()

    def doubles(*values):
        return struct.pack(f"<{len(values)}d", *values) if binary else (" ".join(map(repr, values)) + "\n").encode()

    if version == "2.2":
        out.append(f"$Nodes\n{len(x)}\n".encode())
        for tag, p in zip(tags, x.tolist(), strict=True):
            out.append(ints(int(tag)).rstrip(b"\n") + (b"" if binary else b" ") + doubles(*p))
        out.append(b"\n$EndNodes\n" + f"$Elements\n{len(tets) + 2}\n".encode())
        number = 1
        for kind, nodes in rows:
            out.append(ints(kind, 1, 2, number, 7, 7, *nodes) if binary else ints(number, kind, 2, 7, 7, *nodes))
            number += 1
        if binary:
            out.append(ints(4, len(tets), 1))
            out += [ints(number + k, 7, *(int(tags[p]) for p in row)) for k, row in enumerate(tets)]
        else:
            out += [ints(number + k, 4, 1, 7, *(int(tags[p]) for p in row)) for k, row in enumerate(tets)]
        out.append(b"\n$EndElements\n")
    else:
        half = len(x) // 2
        out.append(b"$Nodes\n" + longs(2, len(x), int(min(tags)), int(max(tags))))
        for part in (slice(0, half), slice(half, None)):
            out.append(ints(3, 1, 0) + longs(len(x[part])) + b"".join(longs(int(t)) for t in tags[part]))
            out += [doubles(*p) for p in x[part].tolist()]
        out.append(b"\n$EndNodes\n$Elements\n" + longs(3, len(tets) + 2, 1, len(tets) + 2))
        number = 1
        for kind, nodes in rows:
            out.append(ints(kind - 1 if kind == 2 else 0, 1, kind) + longs(1) + longs(number, *map(int, nodes)))
            number += 1
        out.append(ints(3, 1, 4) + longs(len(tets)))
        out += [longs(number + k, *(int(tags[p]) for p in row)) for k, row in enumerate(tets)]
        out.append(b"\n$EndElements\n")
    return b"".join(out)


@pytest.mark.parametrize("binary", [False, True], ids=["ascii", "binary"])
@pytest.mark.parametrize("version", ["2.2", "4.1"])
def test_gmsh(tmp_path, version, binary):
    tags = np.random.default_rng(1).permutation(len(BOX.mesh.positions)) * 2 + 3  # any numbers, in any order
    (tmp_path / "body.msh").write_bytes(msh(version, binary, BOX.mesh.positions, BOX.mesh.tets, tags))
    made = load_tets(tmp_path / "body.msh")
    np.testing.assert_allclose(made.positions, BOX.mesh.positions)
    np.testing.assert_array_equal(made.tets, BOX.mesh.tets)


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("a.msh", "$MeshFormat\n4.0 0 8\n$EndMeshFormat\n", "format version `4.0`"),
        ("a.msh", "no mesh", "no Gmsh file"),
        ("a.msh", "$MeshFormat\n4.1 0 8\n$EndMeshFormat\n", r"has no \$Nodes"),
        (
            "a.msh",
            "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n2\n1 0 0 0\n$EndNodes\n",
            "announces 2 nodes and has 1",
        ),
        (
            "a.msh",
            (
                "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n1\n1 0 0 0\n$EndNodes\n$Elements\n1\n1 15 0"
                " 1\n$EndElements\n"
            ),
            "no tetrahedra",
        ),
        ("a.node", "1 2 0 0\n0 0 0\n", "line 1: the dimension is `2`, expected 3"),
        ("a.node", "4 3 0 0\n0 0 0 0\n", "announces 4 rows and has 1"),
        ("a.node", "2 3 0 0\n5 0 0 0\n6 1 0 0\n", "not numbered one after another"),
        ("a.node", "2 3 0 0\n0 0 x 0\n1 1 0 0\n", "line 2: `x` is not a number"),
        ("a.obj", "v 0 0 0\n", "unknown type '.obj'"),
    ],
)
def test_bad_files(tmp_path, name, content, match):
    (tmp_path / name).write_text(content)
    (tmp_path / "a.ele").write_text("1 4 0\n0 0 1 2 3\n")
    with pytest.raises(GeometryError, match=match):
        load_tets(tmp_path / name)


def test_a_missing_companion(tmp_path):
    write_tetgen(tmp_path, BOX.mesh.positions, BOX.mesh.tets, 0)
    (tmp_path / "body.ele").unlink()
    with pytest.raises(GeometryError, match="body.ele is missing.*copy both"):
        load_tets(tmp_path / "body.node")


def test_a_subdivided_solid_is_the_same_body_of_eight_times_as_many_tetrahedra():
    mesh = solid_grid(2, 1, 1, 1.0, 1.0, 1.0).mesh
    finer = subdivide_tets(mesh)
    assert len(finer.tets) == 8 * len(mesh.tets)
    assert finer.volumes.min() > 0 and finer.volumes.sum() == pytest.approx(mesh.volumes.sum())
    np.testing.assert_array_equal(finer.positions[: len(mesh.positions)], mesh.positions)
    assert len(finer.triangles) == 4 * len(mesh.triangles)  # whose surface closes: no face hangs
    assert tet_quality(finer.positions, finer.tets).min() > 0.5


def test_subdivided_triangles_keep_area_and_winding():
    grid = cloth_grid(3, 2, 1.0, 0.5)
    points, triangles = subdivide_triangles(grid.positions, grid.triangles)
    a, b, c = points[triangles].transpose(1, 0, 2)
    areas = np.cross(b - a, c - a)[:, 2] / 2
    np.testing.assert_allclose(areas, 0.5 * 0.5 / 4)
    assert len(points) == 7 * 5
