"""Good scenes: data, defaults, places; includes, overrides, changed values, and the resolved scene."""

import json
import os
from pathlib import Path

import pytest
from tools.scenes.samples import BEAM, CLOTH, MATERIALS, load_text

from sim.scene import SceneError, load_scene

CHAIN = """\
format: 1
time: {duration: 1, fps: 10, substeps: 2}
objects:
  rope:
    chain: {from: [0, 0, 0], to: [1, 0, 0], points: 3, mass: 30 g, material: {distance: {compliance: 1 mm/N}}}
"""


def numbers(data):
    """Every number of nested data, with whether it is a float."""
    if isinstance(data, dict):
        for value in data.values():
            yield from numbers(value)
    elif isinstance(data, list):
        for value in data:
            yield from numbers(value)
    elif isinstance(data, int | float) and not isinstance(data, bool):
        yield data


@pytest.mark.parametrize("text", [CLOTH, BEAM, CHAIN])
def test_scenes_load_and_resolve_to_themselves(tmp_path, text):
    scene = load_text(tmp_path, text)
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    (run / "scene.resolved.yaml").write_text(scene.resolved_yaml(), encoding="utf-8")
    again = load_scene(run / "scene.resolved.yaml", (), MATERIALS, base=scene.base)
    assert again.data == scene.data
    assert again.resolved_yaml() == scene.resolved_yaml()
    json.dumps(scene.data, allow_nan=False)


def test_cloth_values_are_si(tmp_path):
    scene = load_text(tmp_path, CLOTH)
    assert scene.name == "cloth"
    assert scene.get("objects.skirt.cloth.material.distance") == {"compliance": 0.3, "damping": 0.005}
    assert scene.get("shapes.ball.sphere.radius") == 0.13
    assert scene.get("attachments.waist.motion.0.move") == [0.0, -0.12, 0.0]
    assert scene.get("attachments.waist.motion.0.move.1") == -0.12
    assert scene.get("attachments.waist.where") == {"boundary": True, "y": [1.12, None]}
    assert scene.get("experiments.swing.target.noise") == 0.001
    assert scene.get("parameters.stretch.of") == {"objects.skirt.cloth.material.distance.compliance": 1.0}
    assert scene.get("expect.parameters.stretch.within") == 0.05
    assert scene.get("optimize.rollout") == {"checkpointed": {"every": 24}}


def test_beam_anchors_units_and_sets(tmp_path):
    scene = load_text(tmp_path, BEAM)
    assert scene.get("objects.beam.soft.lattice.size") == [0.03, 0.03, 0.1]
    assert scene.get("experiments.load52_a.set") == {"loads.weight.mass": 0.052, "time.duration": 4.0}
    assert scene.get("experiments.load52_a.set.loads.weight.mass") == 0.052
    assert scene.get("experiments.load52_a.target.start") == {"frame": 44}
    assert scene.get("experiments.settled.target") == scene.get("experiments.gravity_a.target")
    assert scene.get("experiments.gravity_b.target.markers") == {"tip": [0, 1, 2]}
    assert scene.get("parameters.damping.bounds") == [1e-5, 0.1]
    assert scene.get("loss.1.value") == 0.005
    assert scene.get("optimize.rollout.checkpointed.budget") == 3e8


def test_defaults_are_filled_in(tmp_path):
    scene = load_text(tmp_path, CHAIN + "shapes:\n  floor: {plane: {normal: [0, 1, 0]}}\n")
    assert scene.name == "scene"
    assert scene.get("world.gravity") == [0.0, -9.81, 0.0]
    assert scene.get("solver") == {
        "xpbd": {
            "iterations": 1,
            "order": "colored",
            "start": "zero",
            "integrator": "euler",
            "direction": "joints",
            "direct": [],
        }
    }
    assert scene.get("experiments") == {"main": {"use": "fit", "set": {}}}
    assert scene.get("shapes.floor.touches") == ["rope"]
    assert scene.get("objects.rope.rotation") == {"angle": 0.0, "axis": [0.0, 0.0, 1.0]}
    assert scene.get("objects.rope.chain.material.distance.damping") == 0.0
    assert scene.get("objects.rope.chain.mass") == 0.03
    assert (scene.get("loss"), scene.get("parameters"), scene.get("optimize.starts")) == ([], {}, 1)
    assert load_text(tmp_path, CHAIN + "experiments:\nparameters:\nloss:\n").get("experiments.main.use") == "fit"


def test_lines_and_places(tmp_path):
    scene = load_text(tmp_path, CLOTH)
    line = scene.line("objects.skirt.cloth.density")
    assert (line.unit, line.may_vary) == ("kg/m^2", True)
    assert (scene.line("time.substeps").unit, scene.line("time.substeps").may_vary) == ("", False)
    assert scene.line("world.gravity.1").may_vary and scene.line("world.gravity.1").unit == "m/s^2"
    file = tmp_path / "scene.yaml"
    assert scene.where("objects.skirt.cloth.density") == f"{file}:17:16"
    assert scene.where("attachments.waist.motion.0.end") == f"{file}:31:46"
    assert scene.where("objects.skirt.velocity") == f"{file}:15:5", "a default: the object"
    assert scene.where("") == f"{file}:1:1"
    text = str(SceneError([scene.problem("markers.fabric.farthest", "only 12 points are free", "ask for 12")]))
    assert text.splitlines() == [
        f"{file}:35:33: markers.fabric.farthest: only 12 points are free",
        "      fabric: {on: skirt, farthest: 40}",
        "                                    ^",
        "    ask for 12",
    ]
    with pytest.raises(KeyError, match="did you mean `objects.skirt.cloth.density`"):
        scene.get("objects.skirt.cloth.densty")


def test_many_problems_at_once(tmp_path):
    bad = CLOTH.replace("density", "densty").replace("radius: 13 cm", "radius: -13 cm").replace("fps: 60", "fps: x")
    bad = bad.replace("{match: fabric}", "{match: fab}").replace("- {move", "- {mov")
    bad = bad.replace("bounds: [1,", "bounds: [99,")
    with pytest.raises(SceneError) as caught:
        load_text(tmp_path, bad)
    assert [problem.mark.line for problem in caught.value.problems] == [8, 17, 23, 31, 44, 47]


def test_overrides(tmp_path):
    texts = ["time.substeps=5", "shapes.ball.sphere.radius=5 cm", "attachments.waist.motion.1.swing=[0, 0, 1 cm]",
             "world.gravity.1=-1", "objects.skirt.velocity.2=3", "output.report=false", "loss.0.compare=velocity",
             "expect.loss.final.below=2", "objects.skirt.cloth.density={regions: {hem: 1}}",
             "objects.skirt.regions={hem: {all: true}}"]  # fmt: skip
    scene = load_text(tmp_path, CLOTH, texts)
    assert scene.get("time.substeps") == 5
    assert scene.get("shapes.ball.sphere.radius") == 0.05
    assert scene.get("attachments.waist.motion.1.swing") == [0.0, 0.0, 0.01]
    assert scene.get("world.gravity") == [0.0, -1.0, 0.0]
    assert scene.get("objects.skirt.velocity") == [0.0, 0.0, 3.0]
    assert scene.get("output.report") is False
    assert scene.get("loss.0.compare") == "velocity"
    assert scene.get("expect.loss.final.below") == 2.0
    assert scene.get("objects.skirt.cloth.density") == {"regions": {"hem": 1.0}}
    assert scene.where("time.substeps") == "--set:1:15"
    assert load_text(tmp_path, CLOTH, {"time.substeps": 10, "time.duration": "500 ms"}).get("time.duration") == 0.5


ALONE = """\
format: 2
time: {duration: 1, fps: 10, substeps: 2}
objects:
  hand: {body: {held: true, motion: {swing: [0, 0.1, 0], frequency: 2 Hz}}}
"""


@pytest.mark.parametrize("path", ["objects.hand.body.motion.0.swing.1", "objects.hand.body.motion.0.swing"])
def test_one_that_stands_without_its_list_is_number_0(tmp_path, path):
    """`motion.0.swing.1` could be sought, and the command line that a report gives for what was found was refused."""
    value = "-0.2" if path.endswith("1") else "[0, -0.2, 0]"
    scene = load_text(tmp_path, ALONE, [f"{path}={value}", "objects.hand.body.motion.0.frequency=3"])
    assert scene.get("objects.hand.body.motion") == [{"swing": [0.0, -0.2, 0.0], "frequency": 3.0}]
    with pytest.raises(SceneError, match=r"did you mean `objects.hand.body.motion.0.swing"):
        load_text(tmp_path, ALONE, [f"{path.replace('.0.', '.1.')}={value}"])


def test_a_later_choice_replaces_an_earlier_one(tmp_path):
    scene = load_text(tmp_path, CLOTH, ["optimize.adam.rate=0.5", "attachments.waist.motion.0.swing=[1, 0, 0]",
                                        "attachments.waist.motion.0.frequency=2"])  # fmt: skip
    assert "lbfgs" not in scene.get("optimize") and scene.get("optimize.adam") == {"iterations": 100, "rate": 0.5}
    assert scene.get("attachments.waist.motion.0") == {"swing": [1.0, 0.0, 0.0], "frequency": 2.0}


@pytest.mark.parametrize(("override", "column", "fragment"), [
    ("time.substps=5", 1, "does not exist in this scene|did you mean `time.substeps`?"),
    ("objects.shirt.cloth.density=5", 1, "did you mean `objects.skirt.cloth.density`?"),
    ("attachments.waist.motion.7.end=5", 1, "does not exist"),
    ("loads.weight.mass=5", 1, "`loads.weight.mass` does not exist"),
    ("time.substeps=many", 15, "expected a whole number"),
    ("time.duration=5 mm", 15, "`5 mm` is a length, expected a time"),
    ("time.substeps", 1, "write path=value"),
    ("time.duration=", 1, "expected a time [s], got nothing"),
    ("time={duration: 1, fps: 2, fps: 3, substeps: 4}", 28, "duplicate key `fps`"),
    ("time.duration=[1", 16, "not YAML"),
    ("time.duration=!!float 3", 15, "tag"),
    ("objects.skirt.cloth.mesh.file=../../x.obj", 31, "leaves the folder"),
])  # fmt: skip
def test_bad_overrides(tmp_path, override, column, fragment):
    with pytest.raises(SceneError) as caught:
        load_text(tmp_path, CLOTH, [override])
    assert len(caught.value.problems) == 1, str(caught.value)
    assert str(caught.value).startswith(f"--set:1:{column}: ")
    for part in fragment.split("|"):
        assert part in str(caught.value)


def test_include_merges_files_and_keeps_their_places(tmp_path):
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "skirt.obj").write_text("v 0 0 0\n")
    base = CLOTH.replace("assets/skirt1252.obj", "skirt.obj")
    (parts / "base.yaml").write_text(base)
    top = ("format: 1\nname: variant\ninclude: [parts/base.yaml]\ntime: {substeps: 7}\noptimize: {adam: {}}\n"
           "attachments: {waist: {motion: []}}\n")  # fmt: skip
    scene = load_text(tmp_path, top)
    assert scene.name == "variant"
    assert (scene.get("time.substeps"), scene.get("time.fps")) == (7, 60.0)
    assert scene.get("attachments.waist.motion") == [], "lists are replaced"
    assert "lbfgs" not in scene.get("optimize") and scene.get("optimize.rollout.checkpointed.every") == 24
    assert scene.get("objects.skirt.cloth.mesh.file") == "parts/skirt.obj", "relative to the file that names it"
    assert scene.file("objects.skirt.cloth.mesh.file").read_text() == "v 0 0 0\n"
    assert scene.where("time.substeps") == f"{tmp_path / 'scene.yaml'}:4:18"
    assert scene.where("time.fps") == f"{parts / 'base.yaml'}:8:28"
    assert scene.get("include") == []
    (parts / "base.yaml").write_text(base.replace("fps: 60", "fps: 0"))
    with pytest.raises(SceneError) as caught:
        load_text(tmp_path, top)
    assert str(caught.value).startswith(f"{parts / 'base.yaml'}:8:28: time.fps: 0 is not positive")


@pytest.mark.parametrize(("include", "fragment"), [
    ("[scene.yaml]", "include each other: scene.yaml -> scene.yaml"), ("[parts.yaml]", "cannot read"),
    ("../x.yaml", "expected a list"), ("[../x.yaml]", "leaves the folder"),
])  # fmt: skip
def test_bad_includes(tmp_path, include, fragment):
    with pytest.raises(SceneError) as caught:
        load_text(tmp_path, CHAIN + f"include: {include}\n")
    assert fragment in str(caught.value) and ":6:" in str(caught.value)


def test_files_stay_inside_unless_allowed(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    text = CLOTH.replace("assets/skirt1252.obj", "../other/a.obj")
    with pytest.raises(SceneError, match="allow it with --allow-outside"):
        load_text(home, text)
    scene = load_text(home, text, allow_outside=True)
    assert scene.file("objects.skirt.cloth.mesh.file").resolve() == (tmp_path / "other" / "a.obj").resolve()
    (tmp_path / "secret.obj").write_text("")
    os.symlink(tmp_path / "secret.obj", home / "link.obj")
    with pytest.raises(SceneError, match="leaves the folder"):
        load_text(home, CLOTH.replace("assets/skirt1252.obj", "link.obj"))
    with pytest.raises(TypeError, match="not a file"):
        scene.file("time.fps")


def test_an_unreadable_scene(tmp_path):
    (tmp_path / "cloth.yaml").write_text(CLOTH)
    with pytest.raises(SceneError, match="did you mean `cloth.yaml`"):
        load_scene(tmp_path / "clth.yaml", (), MATERIALS)
    for content, said in (
        (b"\xff\xfe\x00", "is UTF-16 text"),
        (b"a: 1\nb: \xe9\n", "line 2: byte 0xe9 is not UTF-8 text"),
    ):
        (tmp_path / "binary.yaml").write_bytes(content)
        with pytest.raises(SceneError, match=said):
            load_scene(tmp_path / "binary.yaml", (), MATERIALS)


def test_set_value_gives_another_scene(tmp_path):
    scene = load_text(tmp_path, BEAM)
    heavy = scene.set_value("loads.weight.mass", "52 g").set_value("world.gravity.0", -1)
    assert (heavy.get("loads.weight.mass"), heavy.get("world.gravity")) == (0.052, [-1.0, 0.0, 0.0])
    assert (scene.get("loads.weight.mass"), scene.get("world.gravity")) == (0.0, [-9.81, 0.0, 0.0])
    assert heavy.where("loads.weight.mass") == "value:1:19"
    for path, value in scene.get("experiments.load101_a.set").items():
        scene = scene.set_value(path, value)
    assert (scene.get("loads.weight.mass"), scene.get("time.duration")) == (0.101, 4.0)
    assert scene.set_value("markers.tip.at", [[0.0, 1.0, 2.0]]).get("markers.tip.at.0.2") == 2.0
    for path, value, fragment in [
        ("loads.weight.mass", "5 mm", "is a length"), ("loads.weight.on", "sky", "unknown object"),
        ("time.fps", -1, "not positive"), ("parameters.young.bounds", [1, 2], "load_scene"),
    ]:  # fmt: skip
        with pytest.raises(SceneError, match=fragment):
            scene.set_value(path, value)
    with pytest.raises(KeyError, match="did you mean"):
        scene.set_value("loads.weigth.mass", 1)


def test_parameters_in_all_forms(tmp_path):
    more = """\
  push: {of: objects.skirt.velocity, start: [1, 0, 36 km/h], bounds: [-10, 10]}
  fall: {of: world.gravity.1, bounds: [-20, null]}
  calm: {of: [objects.skirt.cloth.material.distance.damping, objects.skirt.cloth.material.bend.damping]}
  ball: {of: {shapes.ball.sphere.radius: 2}, bounds: [1 cm, 10 cm]}
"""
    scene = load_text(tmp_path, CLOTH.replace("parameters:\n", "parameters:\n" + more))
    assert scene.get("parameters.push.start") == [1.0, 0.0, 10.0]
    assert scene.get("parameters.fall.bounds") == [-20.0, None]
    assert list(scene.get("parameters.calm.of").values()) == [1.0, 1.0]
    assert scene.get("parameters.ball") == {"of": {"shapes.ball.sphere.radius": 2.0}, "bounds": [0.01, 0.1],
                                            "per": "scene", "transform": "none"}  # fmt: skip


def test_tied_values_that_differ_need_a_start(tmp_path):
    tied = "{of: [objects.skirt.cloth.material.distance.damping, objects.skirt.cloth.material.bend.damping]TAIL}"
    text = CLOTH.replace("33, damping: 5 ms", "33, damping: 6 ms")
    text = text.replace("parameters:\n", "parameters:\n  calm: TIED\n")
    with pytest.raises(SceneError, match="the tied values differ"):
        load_text(tmp_path, text.replace("TIED", tied.replace("TAIL", "")))
    text = text.replace("TIED", tied.replace("TAIL", ", start: 5 ms"))
    assert load_text(tmp_path, text).get("parameters.calm.start") == 0.005


def test_several_starts_need_bounds(tmp_path):
    text = CLOTH.replace("lbfgs: {iterations: 30}", "lbfgs: {iterations: 30}\n  starts: 4")
    assert load_text(tmp_path, text).get("optimize.starts") == 4
    with pytest.raises(SceneError, match="drawn within the bounds"):
        load_text(tmp_path, text.replace(", bounds: [1, 1e5]", ""))


def test_a_set_value_that_a_parameter_seeks(tmp_path):
    text = BEAM.replace("  damping: {of: objects", "  mass: {of: loads.weight.mass, per: PER}\n  damping: {of: objects")
    with pytest.raises(SceneError, match="is sought by the parameter `mass`"):
        load_text(tmp_path, text.replace("PER", "scene"))
    assert load_text(tmp_path, text.replace("PER", "experiment")).get("parameters.mass.per") == "experiment"


def test_target_columns_must_fit_the_markers(tmp_path):
    with pytest.raises(SceneError, match="2 columns for the 3 points"):
        load_text(tmp_path, BEAM.replace("{tip: [0, 1, 2]}", "{tip: [0, 1]}"))


def test_texts_survive_resolving(tmp_path):
    for about in ("1e-9", "on", "=", "true", "a: b # c", "µ 'one' \"two\"", "<<", "null", "0o17", " in", "- x", "5 %"):
        scene = load_text(tmp_path, CHAIN + f"about: {json.dumps(about)}\n")
        assert scene.get("about") == about
        assert load_text(tmp_path, scene.resolved_yaml()).get("about") == about


def test_loading_needs_no_data_files_and_little_time(tmp_path):
    assert not any(Path(tmp_path).iterdir())
    assert load_text(tmp_path, CLOTH).file("experiments.swing.target.file").exists() is False


def test_numbers_of_a_scene_are_finite_floats_or_counts(tmp_path):
    scene = load_text(tmp_path, BEAM)
    counts = [value for value in numbers(scene.data) if isinstance(value, int)]
    floats = [value for value in numbers(scene.data) if isinstance(value, float)]
    assert len(counts) > 20 and len(floats) > 60 and all(abs(value) < 1e12 for value in floats)
