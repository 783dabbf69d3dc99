"""Joints in scenes: values of 0 that may vary, compliances of lengths and of angles, what is wrong with them."""

from __future__ import annotations

import pytest
from tools.scenes.problems import write_scene

import sim
from sim.scene import SceneError

ARM = """
format: 2
time: {duration: 0.1, fps: 20 Hz, substeps: 2}
objects:
  upper: {body: {mass: 1 kg, inertia: [0.01, 0.1, 0.1]}, position: [0.5, 0, 0]}
  lower: {body: {mass: 1 kg, inertia: [0.01, 0.1, 0.1]}, position: [1.5, 0, 0]}
joints:
  shoulder: {revolute: {axis: [0, 0, 1]}, child: upper, at: [0, 0, 0]}
  elbow: {revolute: {axis: [0, 0, 1]}, parent: upper, child: lower, at: [1, 0, 0]}
markers: {tip: {on: lower, at: [[2, 0, 0]]}}
"""
VARIED = """
loss: [{reach: {marker: tip, point: [1, 0, 0], at: last, scale: 1 mm}}]
parameters: {found: {of: PATH, bounds: [0, 1], scale: 0.1}}
"""


def arm(tmp_path, *edits: tuple[str, str], more: str = ""):
    text = ARM + more
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return sim.load_scene(write_scene(tmp_path, text)).build(dtype=sim.float64)


ELBOW = "at: [1, 0, 0]}"


@pytest.mark.parametrize(
    ("path", "edit"),
    [
        ("joints.elbow.friction", ELBOW),
        ("joints.elbow.drive.stiffness", "at: [1, 0, 0], drive: {stiffness: 0}}"),
        ("joints.elbow.drive.damping", "at: [1, 0, 0], drive: {target: 1}}"),
        ("joints.elbow.damping", "at: [1, 0, 0], compliance: 1e-6}"),
        ("joints.elbow.angular_compliance", "at: [1, 0, 0], angular_compliance: 0}"),
    ],
)
def test_what_is_0_may_be_a_parameter(tmp_path, path, edit):
    problem = arm(tmp_path, (ELBOW, edit), more=VARIED.replace("PATH", path))
    assert problem.physical(problem.start)["found"] == pytest.approx(0.0, abs=0.011)  # beside its bound
    assert len(problem.model.constraint_sets) == 2 + ("friction" in path or "drive" in path)


def test_what_stays_0_has_no_row(tmp_path):
    assert list(arm(tmp_path).model.constraint_sets) == ["revolute@wa", "revolute@ab"]


def test_lengths_and_angles_have_compliances_of_their_own(tmp_path):
    problem = arm(tmp_path, (ELBOW, "at: [1, 0, 0], linear_compliance: 1e-6 m/N, angular_compliance: 0.1}"))
    found = problem.model.constraint_sets["revolute@ab"].compliance.numpy()[0]
    assert found.tolist() == [1e-6, 1e-6, 1e-6, 0.1, 0.1]


INERTIA, FIRST = "inertia: [0.01, 0.1, 0.1]", "revolute: {axis: [0, 0, 1]}, child"


@pytest.mark.parametrize(
    ("old", "new", "place", "said"),
    [
        (INERTIA, "inertia: [-0.01, 0.1, 0.1]", "objects.upper.body.inertia.0", "-0.01 is not positive"),
        (INERTIA, "inertia: [0.01, 0.1, 0.9]", "objects.upper.body", "no body has one larger than the sum"),
        (INERTIA, "inertia: [1, 1, 1, 2, 0, 0]", "objects.upper.body", "a moment of -1"),
        ("mass: 1 kg, inertia: [0.01, 0.1, 0.1]", "mass: 1 kg", "objects.upper.body", "needs an inertia"),
        ("{mass: 1 kg", "{touches: [upper], mass: 1 kg", "objects.upper.body.touches.0", "`upper` is the body itself"),
        ("mass: 1 kg", "mass: -1 kg", "objects.upper.body.mass", "is not zero or positive"),
        ("axis: [0, 0, 1]", "axis: [0, 0, 0]", "joints.shoulder.revolute.axis", "a direction of length zero"),
        ("{axis: [0, 0, 1]}", "{}", "joints.shoulder.revolute", "missing key `axis`"),
        (", at: [0, 0, 0]", "", "joints.shoulder", "one of `at`, `parent_at`"),
        (", at: [0, 0, 0]", ", parent_at: [0, 0, 0]", "joints.shoulder", "missing key `child_at`"),
        ("child: upper", "child: world", "joints.shoulder.child", "unknown object `world`"),
        (FIRST, "screw: {}, child", "joints.shoulder.screw", "unknown key"),
        ("parent: upper", "parent: lower", "joints.elbow.parent", "the joint holds `lower` to itself"),
        (ELBOW, "at: [1, 0, 0], drive: {stiffness: 1, keys: {times: [0, 1], values: [0, 1, 2]}}}",
         "joints.elbow.drive.keys", "2 `times` and 3 `values`"),
        (ELBOW, "at: [1, 0, 0], drive: {stiffness: 1, keys: {times: [0, 2, 1], values: [0, 1, 2]}}}",
         "joints.elbow.drive.keys.times", "do not increase"),
        (ELBOW, "at: [1, 0, 0]}\n  again: {ball: {}, child: upper, at: [0, 1, 0]}", "joints.again",
         "2 of their 8 rows follow from the others"),
        (ELBOW, "at: [1, 0, 0], friction: -1}", "joints.elbow.friction", "-1 is not zero or positive"),
        (ELBOW, "at: [1, 0, 0], compliance: 1, linear_compliance: 1}", "joints.elbow", "of all rows, and linear"),
        (ELBOW, "at: [1, 0, 0], damping: 0.1}", "joints.elbow", "rows without compliance"),
        (ELBOW, "at: [1, 0, 0], limits: [-4, 4]}", "joints.elbow", "a turn apart or more"),
        (FIRST, "ball: {}, friction: 1, child", "joints.shoulder", "`friction` of a joint without an axis"),
        (FIRST, "distance: {least: 2, most: 1}, child", "joints.shoulder", "leave nothing to hold"),
        ("joints:", "attachments: {hand: {on: upper, where: {all: true}}}\njoints:", "attachments.hand.on",
         "is rigid, and has no points that could be held"),
        ("{mass: 1 kg, inertia: [0.01, 0.1, 0.1]}", "{held: true}, velocity: [1, 0, 0]", "objects.upper.velocity",
         "a body that is held, and moves as its `motion` says"),
        ("{mass: 1 kg, inertia: [0.01, 0.1, 0.1]}", "{mass: 0}, spin: [1, 0, 0]", "objects.upper.spin", "is held"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(tmp_path, old, new, place, said):
    """Once, and nothing of what follows from it: of the joints of a body that is none."""
    with pytest.raises(SceneError, match=said) as error:
        arm(tmp_path, (old, new))
    found = {problem.path for problem in error.value.problems}
    assert place in found and (len(found) == 1 or "screw" in new)


def test_joints_that_do_not_hold_at_the_start_are_told_of(tmp_path):
    apart = (ELBOW, "parent_at: [0.5, 0, 0], child_at: [-0.2, 0, 0]}")
    notes = arm(tmp_path, apart).description.notes
    assert (
        len(notes) == 1 and "apart by up to 0.3 m" in notes[0] and "most at 'elbow', where the bodies begin" in notes[0]
    )
    assert not arm(tmp_path).description.notes


@pytest.mark.parametrize(
    ("drive", "said"),
    [
        ("{target: 1}", "`target` without effect: it has no `stiffness`"),
        ("{speed: 1, stiffness: 1}", "`speed` without effect: it has no `damping`"),
        ("{damping: 1, keys: {times: [0, 1], values: [0, 1]}}", "`keys` without effect: it has no `stiffness`"),
        ("{stiffness: 1, target: 1}", ""),
    ],
)
def test_targets_that_nothing_pulls_to_are_told_of(tmp_path, drive, said):
    notes = arm(tmp_path, (ELBOW, f"at: [1, 0, 0], drive: {drive}}}")).description.notes
    assert [note for note in notes if "without effect" in note] == ([f"joints.elbow.drive: {said}"] if said else [])


@pytest.mark.parametrize(
    ("joint", "told"),
    [
        ("limits: [0.5, 1]", True),
        ("limits: [0.5, 1], start: {position: 0.7}", False),
        ("limits: [null, 1], start: {position: 2}", True),
        ("limits: [-1, 1]", False),
    ],
)
def test_a_joint_that_begins_outside_of_its_limits_is_told_of(tmp_path, joint, told):
    notes = arm(tmp_path, (ELBOW, f"at: [1, 0, 0], {joint}}}")).description.notes
    assert any("outside of its limits" in note for note in notes) == told


def test_a_damping_of_rigid_rows_is_no_parameter(tmp_path):
    with pytest.raises(SceneError, match="it damps what gives way: the joint needs a compliance"):
        arm(tmp_path, more=VARIED.replace("PATH", "joints.elbow.damping"))
