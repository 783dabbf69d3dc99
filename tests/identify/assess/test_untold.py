"""What recordings do not tell, among what they tell: neither is taken for the other."""

import numpy as np
import pytest
from tools.scenes.problems import write_scene, write_target

import sim
from sim.identify.assess.design import design
from sim.identify.assess.estimate import estimate
from sim.identify.numerics import estimate_shifts

HINGED = """
format: 2
name: hinged
time: {duration: 1, fps: 40, substeps: 3}
objects:
  bar:
    body: {mass: 0.8, inertia: [0.02, 0.02, 0.012], sites: {a: [0, -0.1, 0], b: [0.05, 0.1, 0]}}
    position: [0.2, -0.1, 0]
joints:
  hinge: {revolute: {axis: [0, 0, 1]}, child: bar, at: [0, 0, 0], drive: {damping: 0.015}}
markers:
  dots: {on: bar, where: {all: true}}
experiments:
  swing: {target: {file: target.npz, key: dots, noise: 0.5 mm}}
parameters:
  inertia: {of: objects.bar.body.inertia, start: [0.03, 0.03, 0.03]}
  damping: {of: joints.hinge.drive.damping, bounds: [0, 1], start: 0.005}
loss: [{match: dots}]
"""
"""A body on a hinge, whose inertia about the axis alone counts: a sum of two coordinates, of which neither is known."""

SPRING = """
format: 2
name: spring
time: {duration: 1, fps: 60, substeps: 10}
objects:
  rope:
    chain: {from: [0, 0, 0], to: [0, -0.5, 0], points: 2, mass: 0.4,
            material: {distance: {compliance: 0.02, damping: 0.01}}}
attachments:
  top: {on: rope, where: {y: [-0.01, null]}}
markers:
  end: {on: rope, where: {y: [null, -0.4]}}
experiments:
  hang: {target: {file: target.npz, key: end, noise: 0.01 mm}}
parameters:
  compliance: {of: objects.rope.chain.material.distance.compliance, start: 0.03}
  mass: {of: objects.rope.chain.mass, bounds: [0.01, 10], start: 0.6, scale: 0.1}
  damping: {of: objects.rope.chain.material.distance.damping, transform: log}
loss: [{match: end}]
"""
"""A mass on a spring, of which the motion tells the product of mass and compliance."""


def fitted(folder, text, key, noise, **twin):
    """A problem, fitted to a twin with steps of a sixteenth: where, standard errors, numerical errors."""
    write_target(folder, text, key=key, noise=noise, overrides=["time.substeps=160"])
    problem = sim.load_scene(write_scene(folder, text)).build()
    x = problem.optimize().search.x
    known = estimate(problem, x)
    return problem, x, known, estimate_shifts(problem, known.linearised, causes=["step"])


def test_inertia_about_an_axis_is_known_where_the_rest_of_it_is_not(tmp_path):
    problem, x, known, numerics = fitted(tmp_path, HINGED, "dots", 5e-4)
    error, found = known.errors["inertia"], problem.physical(x)["inertia"]
    assert np.isinf(error[:2]).all() and error[2] < 0.01 * found[2]
    told = [note.split("`")[1] for note in known.notes if "not identifiable" in note]
    assert told == ["inertia.x", "inertia.y"]
    assert not known.unseen.any()
    # its numerical error, and that of others, is what it is without what is not known
    for name, off, noise in (
        ("inertia", 0.012 - found[2], error[2]),
        ("damping", 0.015 - float(problem.physical(x)["damping"]), float(known.errors["damping"])),
    ):
        shift = float(np.ravel(numerics.shifts["step"].errors[name])[-1])
        assert abs(shift) > noise and abs(shift - off) < 0.5 * abs(off) + 3 * noise, name


def test_what_only_a_product_tells_has_no_standard_error_however_good_the_recording(tmp_path):
    problem, x, known, _ = fitted(tmp_path, SPRING, "end", 1e-5)
    assert np.isinf([known.errors["mass"], known.errors["compliance"]]).all()
    told = known.notes[0]
    assert "`compliance`, `mass` are not identifiable one by one" in told
    assert "`compliance` by +1 %, `mass` by -1 %" in told or "`compliance` by -1 %, `mass` by +1 %" in told
    assert known.errors["damping"] < 0.1 * problem.physical(x)["damping"]
    planned = design(problem, x)
    assert np.isinf(planned.errors[:2]).all()
    np.testing.assert_array_equal(planned.another["hang"][:2], 1.0)  # nor does another such take tell them


@pytest.mark.parametrize("how", ["transform: log", "scale: 0.04", "scale: 1e-5"])
def test_a_scale_far_from_a_value_does_not_hide_its_numerical_error(tmp_path, how):
    """A search that begins at 0 has the scale 1, whatever it finds."""
    text = SPRING.replace("start: 0.03", how).replace("  mass: {of: objects.rope.chain.mass, bounds: [0.01, 10]", "#")
    problem, x, known, numerics = fitted(tmp_path, text, "end", 1e-5)
    share = numerics.relative("step", "damping")
    assert share == pytest.approx(0.01 / problem.physical(x)["damping"] - 1.0, rel=0.3)
    assert known.notes[0].startswith("the residuals are alike") or not known.notes
