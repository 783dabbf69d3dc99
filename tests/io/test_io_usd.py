"""Runs as USD: the text's structure, and, where usd-core is installed, what it reads."""

import re

import numpy as np
import pytest

from sim.io import Shape
from sim.io.moving import Frames, Rigid
from sim.io.scenery import Scenery, body
from sim.io.usda import usda

TRIANGLES = np.array([[0, 1, 2], [1, 3, 2]])
TIMES = 0.1 * (1 + np.arange(5))


def scenery():
    """A sheet, a line, dust, a rigid triangle, a sphere and a plane; two have the same name, z is up."""
    bodies = [
        body("a sheet", np.arange(4), TRIANGLES),
        body("7 links", np.arange(4, 7), segments=np.array([[0, 1], [1, 2]])),
        body("a_sheet", np.arange(7, 9)),
    ]
    rigid = [Rigid("brick", np.zeros(3, np.int32), np.eye(3), np.array([[0, 1, 2]], np.int32))]
    shapes = [Shape("sphere", (1, 2, 3), radius=0.5, name="ball"), Shape("plane", (0, 0, -1), normal=(0.0, 0.0, 2.0))]
    return Scenery('the "scene"', bodies, (0.0, 0.0, 1.0), {"main": shapes}, rigid=rigid)


def motion():
    x = np.random.default_rng(0).normal(size=(1, 9, 3)) + 0.1 * np.arange(5)[:, None, None]
    pose = np.tile([0.0, 0, 0, 0, 0, 0, 1], (5, 1, 1))
    pose[:, 0, 2] = np.arange(5)
    return Frames(x, TIMES, pose)


def test_the_text_of_a_run():
    text = usda(scenery(), "main", motion())
    assert text.startswith("#usda 1.0\n") and 'upAxis = "Y"' in text and "timeCodesPerSecond = 10\n" in text
    assert re.findall(r'def (\w+) "(\w+)"', text) == [
        ("Xform", "the__scene_"), ("Mesh", "a_sheet"), ("BasisCurves", "_7_links_links"), ("Points", "a_sheet_points"),
        ("Mesh", "brick"), ("Sphere", "ball"), ("Mesh", "plane"),
    ]  # fmt: skip
    for opening, closing in ("{}", "()", "[]"):
        assert text.count(opening) == text.count(closing)
    assert text.count("        point3f[] points.timeSamples") == 4
    assert [float(t) for t in re.findall(r"^ +([\d.]+): ", text, re.M)[:5]] == pytest.approx([1, 2, 3, 4, 5])


def test_prims_have_names_of_their_own():
    twins = Scenery("x", [body("x", [0, 1, 2], TRIANGLES[:1]), body("x", [0, 1, 2], TRIANGLES[:1])])
    text = usda(twins, "main", Frames(np.eye(3)[None], np.array([0.0])))
    assert re.findall(r'def \w+ "(\w+)"', text) == ["x", "x_2", "x_3"]


def test_usd_reads_it(tmp_path):
    usd = pytest.importorskip("pxr.Usd")
    geometry = pytest.importorskip("pxr.UsdGeom")
    path = tmp_path / "run.usda"
    path.write_text(usda(scenery(), "main", motion()))
    stage = usd.Stage.Open(str(path))
    root = stage.GetDefaultPrim()
    assert geometry.GetStageUpAxis(stage) == "Y" and geometry.GetStageMetersPerUnit(stage) == 1.0
    assert [p.GetTypeName() for p in root.GetChildren()] == ["Mesh", "BasisCurves", "Points", "Mesh", "Sphere", "Mesh"]
    sheet = geometry.Mesh(root.GetChildren()[0])
    codes = sheet.GetPointsAttr().GetTimeSamples()
    np.testing.assert_allclose(np.array(codes) / stage.GetTimeCodesPerSecond(), TIMES)
    frames = motion()
    for k, code in enumerate(codes):
        np.testing.assert_allclose(sheet.GetPointsAttr().Get(code), frames.positions[k, :4], rtol=1e-6, atol=1e-6)
    assert list(sheet.GetFaceVertexIndicesAttr().Get()) == TRIANGLES.ravel().tolist()
    brick = geometry.Mesh(root.GetChildren()[3])
    np.testing.assert_allclose(brick.GetPointsAttr().Get(codes[3]), np.eye(3) + [0, 0, 3], atol=1e-6)
    up = geometry.Xformable(root).GetLocalTransformation(codes[0]).TransformDir((0.0, 0.0, 1.0))
    np.testing.assert_allclose(up, [0, 1, 0], atol=1e-6)
