"""simopt convert: a scene of format 1 in numbers of format 2."""

import numpy as np
import pytest
from tools.scenes.problems import SHEET, write_scene, write_target

import sim
from sim.cli import main
from sim.scene.convert import convert_scene

OLD = SHEET.replace("format: 2", "format: 1  # an old one").replace(
    "bend: {compliance: 33.333333333333336}", "bend: {compliance: 120 1/(N m), damping: 3 ms}   # stiff"
).replace(
    "parameters:\n",
    "parameters:\n  stiff: {of: objects.sheet.cloth.material.bend.compliance, transform: log, start: 90, scale: 2,\n"
    "    bounds: [3, null]}\n",
).replace(
    "loss:\n", "loss:\n  - {prior: stiff, value: '60', sd: 6e+1 1/(N m)}\n  - {prior: stretch, value: 3, sd: 3}\n"
) + "expect:\n  parameters.stiff: {between: [9, 12]}\n  parameters.stretch.final: {below: 9}\n"  # fmt: skip


def old_without(text):
    """The scene with a part of it removed, or put in another's place."""
    old, new = text
    assert old in OLD
    return OLD.replace(old, new)


def test_what_is_said_of_bending_is_divided_and_the_rest_stays(tmp_path):
    path = write_scene(tmp_path, OLD)
    converted = convert_scene(path)
    text = OLD
    for old, new in (
        ("120 1/(N m)", "40.0 1/(N m)"),
        ("start: 90", "start: 30.0"),
        ("[3, null]", "[1.0, null]"),
        ("'60', sd: 6e+1 1", "'20.0', sd: 20.0 1"),
        ("[9, 12]", "[3.0, 4.0]"),
        ("format: 1", "format: 2"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    assert converted.text == text and len(converted.changes) == 7
    assert "objects.sheet.cloth.material.bend.compliance: 120 -> 40.0" in converted.changes[0]


def test_the_converted_scene_is_the_same_simulation(tmp_path, capsys):
    write_target(tmp_path, SHEET)
    old, new = write_scene(tmp_path, OLD), tmp_path / "new.yaml"
    assert main(["convert", str(old), "-o", str(new)]) == 0
    assert "7 numbers divided by 3" in capsys.readouterr().err
    problems = [sim.load_scene(path).build(dtype=sim.float64) for path in (old, new)]
    losses = [p.value(p.start) for p in problems]
    assert losses[1] == pytest.approx(losses[0], rel=1e-9)
    moved = [p.simulate()["one"].positions for p in problems]
    assert np.max(np.abs(moved[1] - moved[0])) < 1e-9


def test_a_scene_without_bending_only_changes_its_format(tmp_path, capsys):
    text = "\n".join(line for line in SHEET.splitlines() if "bend:" not in line).replace("format: 2", "format: 1")
    assert main(["convert", str(write_scene(tmp_path, text))]) == 0
    shown = capsys.readouterr()
    assert shown.out == text.replace("format: 1", "format: 2") and "0 numbers" in shown.err


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("format: 1  # an old one", "format: 2"), "of format 2 already"),
        (("damping: 3 ms}", "branches: [{stiffness: 1, yield: 0.1}]}"), "yield strains of bending"),
    ],
)  # fmt: skip
def test_what_cannot_be_converted_is_refused(tmp_path, edit, message):
    with pytest.raises(sim.SceneError, match=message):
        convert_scene(write_scene(tmp_path, old_without(edit)))


def test_a_number_that_two_things_share_is_refused(tmp_path):
    text = old_without(("distance: {compliance: 0.05,", "distance: {compliance: &c 0.05,"))
    text = text.replace("bend: {compliance: 120 1/(N m),", "bend: {compliance: *c,").replace(
        ", start: 90", ", start: 5"
    )
    with pytest.raises(sim.SceneError, match="another one's as well"):
        convert_scene(write_scene(tmp_path, text))


def test_compliances_in_an_array_are_refused(tmp_path):
    np.save(tmp_path / "c.npy", np.full(4, 120.0))
    text = SHEET.replace("format: 2", "format: 1").replace("33.333333333333336", "{file: c.npy}")
    with pytest.raises(sim.SceneError, match="stand in an array"):
        convert_scene(write_scene(tmp_path, text))


def test_one_parameter_of_two_meanings_is_refused(tmp_path):
    rope = (
        "  rope: {chain: {from: [0, 0, 0], to: [1, 0, 0], points: 5, mass: 1, material: {bend: {compliance: 120}}}}\n"
    )
    text = SHEET.replace("format: 2", "format: 1").replace("33.333333333333336", "120")
    text = text.replace("objects:\n", "objects:\n" + rope).replace("bounds: [1e-4, 10]", "bounds: [1, 1000]")
    both = "of: [objects.sheet.cloth.material.bend.compliance, objects.rope.chain.material.bend.compliance]"
    text = text.replace("of: objects.sheet.cloth.material.distance.compliance", both)
    with pytest.raises(sim.SceneError, match="something else at once"):
        convert_scene(write_scene(tmp_path, text))


def test_files_that_are_included_are_refused(tmp_path):
    write_scene(tmp_path, OLD).rename(tmp_path / "base.yaml")
    (tmp_path / "top.yaml").write_text("format: 1\ninclude: [base.yaml]\n")
    with pytest.raises(sim.SceneError, match=r"includes other files(?s:.*)resolved.yaml"):
        convert_scene(tmp_path / "top.yaml")
