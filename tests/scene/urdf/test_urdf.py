"""simopt import: what becomes of the parts of a URDF, and what is refused by name."""

import json
import re

import numpy as np
import pytest

import sim
from sim.cli import main
from sim.scene.urdf import import_urdf

INERTIA = '<inertia ixx="2" iyy="3" izz="4" ixy="0" ixz="0" iyz="0"/>'
LIMIT = '<limit lower="-1" upper="2" effort="5" velocity="0"/>'


def link(name, inside="", mass="2", inertia=INERTIA, origin=""):
    inertial = f'<inertial>{origin}<mass value="{mass}"/>{inertia}</inertial>' if mass else ""
    return f'<link name="{name}">{inertial}{inside}</link>'


def joint(name, kind, parent, child, inside="", origin="0 0 0"):
    ends = f'<parent link="{parent}"/><child link="{child}"/><origin xyz="{origin}"/>'
    return f'<joint name="{name}" type="{kind}">{ends}{inside}</joint>'


def imported(tmp_path, *parts, **options):
    path = tmp_path / "robot.urdf"
    path.write_text("\n".join(['<robot name="r">', *parts, "</robot>"]))
    return import_urdf(path, **options)


def scene(tmp_path, *parts, **options):
    (tmp_path / "robot.yaml").write_text(imported(tmp_path, *parts, **options).text)
    return sim.load_scene(tmp_path / "robot.yaml").data


def refused(tmp_path, *parts, **options):
    with pytest.raises(sim.SceneError) as caught:
        imported(tmp_path, *parts, **options)
    return caught.value.problems


def test_a_slider_from_the_world(tmp_path):
    data = scene(
        tmp_path,
        link("world", mass=""),
        link("cart", origin='<origin xyz="0.1 0 0" rpy="0 0 1.5707963267948966"/>'),
        joint("rail", "prismatic", "world", "cart", LIMIT + '<dynamics damping="3" friction="4"/><axis xyz="0 0 -2"/>'),
        pose=["rail=50 cm"],
    )
    body = data["objects"]["cart"]
    np.testing.assert_allclose(body["body"]["inertia"][:3], [3, 2, 4], atol=1e-15)  # turned by a quarter
    assert body["body"]["com"] == [0.1, 0, 0] and body["position"] == [0, 0, -0.5] and not body["body"]["held"]
    rail = data["joints"]["rail"]
    assert rail["prismatic"]["axis"] == [0, 0, -1] and rail["parent"] == "world" and rail["at"] == [0, 0, -0.5]
    assert rail["limits"] == [-1.5, 1.5] and rail["friction"] == 4
    assert rail["drive"]["effort"] == 5 and rail["drive"]["damping"] == 3 and rail["drive"]["stiffness"] == 0
    assert data["world"]["gravity"] == [0, 0, -9.81] and data["solver"]["xpbd"]["direct"] == ["rail"]


def test_roll_pitch_yaw(tmp_path):
    """The rotation of a link is Rz(yaw) Ry(pitch) Rx(roll): by a quarter each, x goes to -z, y to y, z to x."""
    place = '<origin xyz="0 0 0" rpy="1.5707963267948966 1.5707963267948966 1.5707963267948966"/>'
    ends = '<parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>'
    data = scene(
        tmp_path,
        link("base", mass=""),
        link("arm"),
        f'<joint name="turn" type="continuous">{ends}{place}</joint>',
    )
    np.testing.assert_allclose(data["joints"]["turn"]["revolute"]["axis"], [1, 0, 0], atol=1e-15)
    turned = data["objects"]["arm"]["rotation"]
    np.testing.assert_allclose(np.multiply(turned["axis"], turned["angle"]), [0, np.pi / 2, 0], atol=1e-15)
    assert "limits" not in data["joints"]["turn"]


def test_links_without_mass_are_parts_of_others(tmp_path):
    """The root is the world; a link that moves belongs to the body below it, a tool to the one above it."""
    parts = (
        link("base", mass=""),
        link("flange", mass=""),
        link("arm"),
        link("tool", mass=""),
        link("hand"),
        joint("turn", "continuous", "base", "flange", origin="0 0 1"),
        joint("on", "fixed", "flange", "arm", origin="1 0 0"),
        joint("tip", "fixed", "arm", "tool", origin="0 1 0"),
        joint("grip", "fixed", "tool", "hand", origin="0 0 1"),
    )
    data = scene(tmp_path, *parts)
    arm, hand = data["objects"]["arm"], data["objects"]["hand"]
    assert list(data["objects"]) == ["arm", "hand"] and arm["position"] == [1, 0, 1] and hand["position"] == [1, 1, 2]
    assert arm["body"]["sites"] == {"arm": [0, 0, 0], "flange": [-1, 0, 0], "tool": [0, 1, 0]}
    assert data["joints"]["turn"]["child"] == "arm" and data["joints"]["turn"]["at"] == [0, 0, 1]
    weld = data["joints"]["grip"]
    assert weld["parent"] == "arm" and weld["child"] == "hand" and "fixed" in weld


def test_the_root_is_held_or_free(tmp_path):
    parts = link("base"), link("plate"), link("arm"), joint("bolt", "fixed", "base", "plate")
    parts += (joint("turn", "continuous", "plate", "arm"),)
    data = scene(tmp_path, *parts)
    assert [o["body"]["held"] for o in data["objects"].values()] == [True, True, False]
    assert list(data["joints"]) == ["turn"] and data["joints"]["turn"]["parent"] == "plate"
    data = scene(tmp_path, *parts, free=True)
    assert [o["body"]["held"] for o in data["objects"].values()] == [False, False, False]
    assert list(data["joints"]) == ["bolt", "turn"]
    only = link("base", mass=""), link("arm"), joint("turn", "continuous", "base", "arm")
    (problem,) = refused(tmp_path, *only, free=True)
    assert "without an inertia" in problem.what and "link `base`" in problem.path


def test_names_become_names_of_the_scene(tmp_path):
    parts = link("base", mass=""), link("arm"), link("2nd link"), link("true")
    joints = (
        joint("arm", "continuous", "base", "arm"),
        joint("a/b", "continuous", "arm", "2nd link"),
        joint("c", "continuous", "2nd link", "true"),
    )
    found = imported(tmp_path, *parts, *joints)
    assert "renamed: link `2nd link` is `_2nd_link`" in found.notes and "joint `arm` is `arm_joint`" in found.text
    data = scene(tmp_path, *parts, *joints)
    assert list(data["objects"]) == ["arm", "_2nd_link", "true"] and list(data["joints"]) == ["arm_joint", "a_b", "c"]


def test_everything_that_a_scene_cannot_have_at_once(tmp_path):
    pill = '<collision><geometry><capsule radius="1"/></geometry></collision>'
    parts = (
        link("base", mass=""),
        link("a", pill),
        link("b", mass="-1"),
        link("c", inertia=INERTIA.replace('"4"', '"6"')),
        link("d", inertia=INERTIA.replace('"2"', '"-2"')),
        link("e"),
        link("f", mass="1e"),
        joint("ja", "planar", "base", "a"),
        joint("jb", "floating", "a", "b"),
        joint("jc", "revolute", "b", "c", LIMIT + '<mimic joint="jd"/>'),
        joint("jd", "revolute", "c", "d"),
        joint("je", "continuous", "d", "e", '<axis xyz="0 0 0"/>'),
        joint("jf", "revolute", "e", "f", LIMIT.replace("-1", "-4").replace('"2"', '"4"')),
        '<transmission name="gear"/>',
        '<gazebo reference="a"/>',
    )
    problems = refused(tmp_path, *parts)
    said = [(p.mark.line, p.what) for p in problems]
    for line, words in (
        (3, "a `collision` with `capsule`"), (4, "a mass of -1 kg"), (5, "no body has one larger"), (6, "moment of -2"),
        (8, "`value`: `1e` is not a number"), (9, "a `planar` joint"), (10, "a `floating` joint"),
        (11, "it mimics `jd`"), (12, "without `limit`"), (13, "an axis of length 0"), (14, "limits -4 to 4 of"),
        (15, "the transmission `gear`"), (16, "the element `gazebo`"),
    ):  # fmt: skip
        assert any(at == line and words in what for at, what in said), (line, words, said)
    assert len(problems) == 13
    assert sum("--drop" in p.hint for p in problems) == 4


def test_what_is_left_out_at_the_users_word(tmp_path):
    parts = (
        link("base", "<collision/><visual/><collision/>", mass="0"),
        link("arm"),
        joint("turn", "revolute", "base", "arm", '<limit lower="-4" upper="4" effort="0" velocity="7"/>'),
        '<transmission name="gear"/><ros2_control name="x"/>',
    )
    found = imported(tmp_path, *parts, drop=("collision", "visual", "transmission", "extension", "wide-limits"))
    for words in (
        "a `collision` (lines 2, 2)",
        "a `visual` (line 2)",
        "`turn` 7 rad/s",
        "the transmission `gear`",
        "ros2_control",
    ):
        assert any(words in note for note in found.notes) and words in found.text
    assert "limits:" not in found.text
    with pytest.raises(ValueError, match="none of collision"):
        imported(tmp_path, *parts, drop=("mimic",))


@pytest.mark.parametrize("parts, words", [
    ((link("a"), link("b")), "a second root"),
    ((link("a"), link("a")), "a second link of this name"),
    ((link("a"), link("b"), joint("j", "fixed", "a", "c")), "no link `c`"),
    ((link("a"), link("b"), joint("j", "fixed", "a", "b"), joint("k", "fixed", "a", "b")), "two parents"),
    ((link("a"), link("b"), joint("j", "fixed", "a", "b"), joint("k", "fixed", "b", "a")), "round in a circle"),
    ((link("a"), link("b", mass=""), joint("j", "continuous", "a", "b")), "without an inertia"),
    ((link("a", mass=""),), "no link of the robot"),
    ((link("a", inertia=""),), "no `inertia`"),
    ((link("a"), link("b", mass="0"), joint("j", "fixed", "a", "b")), "an inertia without a mass"),
    ((link("a"), link("b"), joint("j", "hinge", "a", "b")), "the type `hinge`"),
    ((link("a"), link("b"), joint("j", "revolute", "a", "b", '<limit lower="2" upper="1"/>')), "above the upper"),
    ((link("a"), link("b"), joint("j", "revolute", "a", "b", '<limit lower="1" upper="2"/>')), "would begin at 0 rad"),
    ((link("a"), link("b"), joint("j", "continuous", "a", "b", '<dynamics damping="-1"/>')), "negative damping"),
    ((link("a", '<xacro:box x="1"/>'),), "macros of xacro"),
    ((), "no link"),
    (("<link>",), "not XML"),
    (('<link name="a"/>' + "<x>" * 70 + "</x>" * 70,), "levels deep"),
])  # fmt: skip
def test_trees_and_numbers_that_are_none(tmp_path, parts, words):
    assert any(words in p.what for p in refused(tmp_path, *parts))


def test_poses(tmp_path):
    parts = link("a"), link("b"), joint("elbow", "revolute", "a", "b", LIMIT)
    said = [p.what for p in refused(tmp_path, *parts, pose=["elbw=1", "elbow", "elbow=1 m"])]
    assert any("no joint `elbw`" in what for what in said) and any("sets nothing" in what for what in said)
    assert any("m" in what and "angle" in what for what in said)
    (problem,) = refused(tmp_path, *parts, pose=["elbow=3"])
    assert "outside of its limits -1 to 2" in problem.what and "elbow=0.5" in problem.hint


def test_entities_are_not_read(tmp_path):
    path = tmp_path / "r.urdf"
    path.write_text('<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]>\n<robot name="&a;"/>')
    with pytest.raises(sim.SceneError, match="a document type"):
        import_urdf(path)
    path.write_text('<robot name="r"><link name="a&#10;format: 1"/></robot>')
    with pytest.raises(sim.SceneError, match="no link of the robot"):
        import_urdf(path)
    path.write_text(f'<robot name="r">{link("a&#10;format: 1")}</robot>')
    assert import_urdf(path).text.count("\nformat") == 1
    with pytest.raises(sim.SceneError, match="there is no such file"):
        import_urdf(tmp_path / "none.urdf")


def test_spoilt_files_are_refused_or_make_a_scene(tmp_path):
    """Values of attributes exchanged, or put in their place."""
    parts = link("base", mass=""), link("arm", origin='<origin xyz="1 0 0" rpy="0 1 0"/>'), link("hand")
    parts += joint("turn", "revolute", "base", "arm", LIMIT), joint("slide", "prismatic", "arm", "hand", LIMIT)
    text = "\n".join(["<robot>", *parts, "</robot>"])
    values = re.findall('"[^"]*"', text) + ['""', '"nan"', '"1e400"', '"1e-320 0 0"', '"1e308"', '"-1"', '"0 0 0"']
    made = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        places = list(re.finditer('"[^"]*"', text))
        place = places[random.integers(len(places))]
        spoilt = text[: place.start()] + values[random.integers(len(values))] + text[place.end() :]
        (tmp_path / "spoilt.urdf").write_text(spoilt)
        try:
            found = import_urdf(tmp_path / "spoilt.urdf")
        except sim.SceneError as error:
            assert "spoilt.urdf:" in str(error), seed
            continue
        (tmp_path / "spoilt.yaml").write_text(found.text)
        sim.load_scene(tmp_path / "spoilt.yaml")
        made += 1
    assert 5 < made < 55


WEDGE = "v 0 0 0\nv 60 0 0\nv 0 50 0\nv 0 0 40\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
QUARTER = "1.5707963267948966"


def form(tag, geometry, origin="", name=""):
    named = f' name="{name}"' if name else ""
    return f"<{tag}{named}>{origin}<geometry>{geometry}</geometry></{tag}>"


def test_visuals_and_collisions(tmp_path):
    meshes = tmp_path / "packages" / "gripper" / "meshes"
    meshes.mkdir(parents=True)
    (meshes / "wedge.obj").write_text(WEDGE)
    mesh = '<mesh filename="package://gripper/meshes/wedge.obj" scale="0.001 0.001 0.001"/>'
    parts = (
        link("base", form("visual", '<cylinder radius="0.1" length="0.5"/>', name="foot"), mass=""),
        link("arm", form("visual", mesh) + form("collision", '<box size="0.2 0.4 0.6"/>') + form(
            "collision", '<sphere radius="0.3"/>', f'<origin xyz="1 0 0" rpy="0 0 {QUARTER}"/>')),
        link("tip", form("visual", '<cylinder radius="0.1" length="0.5"/>', f'<origin rpy="{QUARTER} 0 0"/>'), mass=""),
        joint("turn", "continuous", "base", "arm", origin="0 0 1"),
        f'<joint name="end" type="fixed"><parent link="arm"/><child link="tip"/>'
        f'<origin xyz="2 0 0" rpy="0 0 {QUARTER}"/></joint>',
    )  # fmt: skip
    (problem,) = refused(tmp_path, *parts)
    assert "package://gripper" in problem.what and "--packages" in problem.hint and "--drop visual" in problem.hint
    packages = [tmp_path / "packages"]
    data = scene(tmp_path, *parts, packages=packages)
    assert data["objects"]["base"]["body"]["mass"] == 0
    assert data["objects"]["base"]["body"]["visuals"]["foot"]["cylinder"] == {"radius": 0.1, "half_height": 0.25}
    arm = data["objects"]["arm"]["body"]
    assert arm["shapes"]["collision"]["box"]["half"] == [0.1, 0.2, 0.3]
    assert arm["shapes"]["collision_1"]["at"] == [1, 0, 0]
    np.testing.assert_allclose(arm["shapes"]["collision_1"]["turn"], [0, 0, np.pi / 2])
    assert arm["visuals"]["visual"]["mesh"]["file"] == "packages/gripper/meshes/wedge.obj"
    # the tip's z axis is turned to -y by its visual, to x by its joint
    tip = arm["visuals"]["tip_visual"]
    np.testing.assert_allclose(tip["at"], [2, 0, 0], atol=1e-15)
    axis = sim.quat_rotate(sim.quat_from_rotation_vector(sim.vec3d(*tip["turn"])), sim.vec3d(0, 0, 1))
    np.testing.assert_allclose(axis, [1, 0, 0], atol=1e-12)
    model = sim.load_scene(tmp_path / "robot.yaml").build(dtype=sim.float64).model
    assert model.shape_label == ["arm.collision", "arm.collision_1"] and len(model.visuals) == 3
    assert model.body_mass.numpy().tolist() == [0, 2]  # shapes of a robot weigh nothing
    mesh_form = next(v for v in model.visuals if len(v.surface()[0]) == 4)
    assert mesh_form.surface()[0].max() == pytest.approx(0.06)


@pytest.mark.parametrize("geometry, said", [
    ('<mesh filename="no.obj"/>', "there is no file `no.obj`"),
    ('<mesh filename="robot.urdf"/>', "scenes read .obj"),
    ('<mesh filename="http://x/y.obj"/>', "is no file"),
    ('<mesh filename="wedge.obj" scale="1 -1 1"/>', "the scales 1, -1, 1"),
    ('<sphere radius="0"/>', "size is not positive"),
    ("<box/>", "no `size`"),
    ("", "no geometry"),
])  # fmt: skip
def test_forms_that_a_scene_cannot_have(tmp_path, geometry, said):
    (tmp_path / "wedge.obj").write_text(WEDGE)
    (problem,) = refused(tmp_path, link("a", form("visual", geometry)))
    assert said in problem.what and problem.mark.line == 2


def test_the_verb(tmp_path, capsys):
    path, out = tmp_path / "arm.urdf", tmp_path / "arm.yaml"
    path.write_text(f"<robot>{link('a')}{link('b', '<collision/>')}{joint('j', 'continuous', 'a', 'b')}</robot>")
    assert main(["import", str(path), "-o", str(out)]) == 2
    assert "--drop collision" in capsys.readouterr().err and not out.exists()
    assert main(["import", str(path), "-o", str(out), "--drop", "collision"]) == 0
    assert "2 bodies, 1 joints" in capsys.readouterr().err
    assert main(["check", str(out)]) == 0
    capsys.readouterr()
    assert main(["import", str(path), "--drop", "collision"]) == 0
    assert capsys.readouterr().out == out.read_text()
    assert main(["--json", "import", str(path), "--drop", "collision"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["bodies"] == 2 and facts["scene"] == out.read_text()
