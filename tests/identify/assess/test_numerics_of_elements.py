"""What is told of the numerics of solids that bend: hexahedra and quadratic tetrahedra."""

import math

import numpy as np
import pytest
from tools.physics.solids import DENSITY, MEAN, POISSON, YOUNG, block
from tools.scenes.problems import write_scene, write_target

import sim
from sim.identify.losses.jacobian import linearise
from sim.identify.numerics import estimate_shifts
from sim.identify.numerics.finer import finer_mesh, more_iterations, shorter_steps, steps_of_finer
from sim.identify.numerics.residuals import residuals_of_steps
from sim.solvers import SolverXPBD, step_warnings
from sim.solvers.steplength import BIAS, shear_ratio, too_soft

BEAM = """\
format: 2
name: beam
world: {gravity: [-9.81, 0, 0]}
time: {duration: 0.1, fps: 40, substeps: 20}
solver:
  xpbd: {iterations: 1}
objects:
  beam:
    soft:
      lattice: {origin: [0, 0, 0], size: [30 mm, 30 mm, 90 mm], cells: [1, 1, 3]}
      element: hexahedra
      density: 1070 kg/m^3
      material: {stvk: {young: 2.0e5, poisson: 0.4, damping: 1 ms}}
attachments:
  clamp: {on: beam, where: {z: [null, 0.001]}}
markers:
  tip: {on: beam, where: {z: [0.0899, null]}}
experiments:
  one: {target: {file: target.npz, key: tip, noise: 0.1 mm}}
parameters:
  young: {of: objects.beam.soft.material.stvk.young, transform: log, bounds: [1e4, 1e7]}
loss:
  - {match: tip}
optimize:
  gauss_newton: {iterations: 8}
"""
"""A cantilever that falls by its weight."""

TRUTH = 2e5
QUADRATIC = {"[1, 1, 3]": "[1, 1, 2]", "element: hexahedra": "element: quadratic", "substeps: 20": "substeps: 50"}
THRICE, BDF2 = {"iterations: 1}": "iterations: 3}"}, {"iterations: 1}": "iterations: 1, integrator: bdf2}"}
THRICE_BDF2 = {"iterations: 1}": "iterations: 3, integrator: bdf2}"}
STEP, QUADRATIC_STEP, SWEEPS = {"time.substeps": 160}, {"time.substeps": 200}, {"solver.xpbd.iterations": 30}


@pytest.mark.parametrize(
    ("cause", "edits", "twin"),
    [
        ("step", {}, STEP),
        ("iterations", {}, SWEEPS),
        pytest.param("step", THRICE, STEP, marks=pytest.mark.slow),
        ("step", BDF2, STEP),
        pytest.param("step", THRICE_BDF2, STEP, marks=pytest.mark.slow),
        pytest.param("step", {**QUADRATIC, **BDF2}, QUADRATIC_STEP, marks=pytest.mark.slow),
        ("iterations", QUADRATIC, SWEEPS),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_young_found_from_a_finer_twin_is_off_by_what_is_told(tmp_path, cause, edits, twin):
    text = BEAM
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new)
    write_target(tmp_path, text, key="tip", overrides=[f"{k}={v}" for k, v in twin.items()])
    problem = sim.load_scene(write_scene(tmp_path, text)).build()
    x = problem.optimize().search.x
    off = math.log(TRUTH / float(problem.physical(x)["young"]))
    error = estimate_shifts(problem, linearise(problem, x), causes=[cause])
    told = math.log(1.0 + float(error.relative(cause, "young")))
    print(off, told)
    assert abs(off) > 5e-4
    assert 0.5 < told / off < 2.0


@pytest.mark.parametrize("edits", [{}, QUADRATIC], ids=["hexahedra", "quadratic"])
def test_what_a_step_leaves_undone_falls_with_sweeps(tmp_path, edits):
    text = BEAM[: BEAM.index("experiments:")]
    for old, new in edits.items():
        text = text.replace(old, new)
    problem = sim.load_scene(write_scene(tmp_path, text)).build()
    found = [residuals_of_steps(more_iterations(problem, n), np.zeros(0)) for n in (1, 4, 40)]
    for name in found[0]:
        force = [residual[name].force for residual in found]
        assert force[0] > 2.0 * force[1] > 0.0 and force[2] < 1e-3, (name, force)
        assert found[2][name].strain < 1e-6


# ------------------------------------------------------------------------------------------------ before a run
@pytest.mark.parametrize("law", ["stvk", "neo_hookean"])
def test_the_stiffness_ratio_of_a_cube(law):
    """w = 8 / (rho a^3) at 8 corners whose gradients have the length sqrt 3 / (4 a): 8 mu h^2 / (rho a^2)."""
    model, _ = block(law, (1, 1, 1), young=YOUNG, poisson=POISSON, element="hexahedra")
    solver = SolverXPBD(model)
    batch = next(b for b in solver.batches if b.set.name == f"{law}_hexahedron")
    mu = YOUNG / (2 * (1 + POISSON))
    assert shear_ratio(solver, batch, 1e-3) == pytest.approx(8 * mu * 1e-6 / (DENSITY * 0.01), rel=1e-9)


@pytest.mark.parametrize(
    ("element", "cells", "h", "sweeps", "measured"),
    [
        ("hexahedra", (2, 2, 6), 1e-3, 1, 0.297),
        ("hexahedra", (2, 2, 6), 2e-3, 3, 0.196),
        ("hexahedra", (2, 2, 6), 5e-3, 10, 0.386),
        ("quadratic", (1, 1, 3), 1e-3, 1, 0.588),
        ("quadratic", (1, 1, 3), 2e-3, 3, 0.515),
        ("quadratic", (2, 2, 6), 2e-3, 10, 0.509),
    ],
)
def test_softness_that_is_told_is_that_of_a_beam(element, cells, h, sweeps, measured):
    """Measured: how much further than by the statics of the same mesh the tip of a cantilever hangs."""
    model, _ = block("stvk", cells, (0.03, 0.03, 0.09), young=2e5, poisson=0.3, clamp=True, element=element)
    (text,) = step_warnings(SolverXPBD(model, iterations=sweeps), [h])
    told = float(text.split("too soft by about ")[1].split()[0]) / 100
    assert told == pytest.approx(measured, rel=0.4)
    assert step_warnings(SolverXPBD(model, iterations=150), [h]) == []
    assert step_warnings(SolverXPBD(model, iterations=sweeps), [h / 8]) == []


def test_no_number_of_substeps_that_would_do_is_told():
    for young, damping in ((1e30, 0.0), (1e5, 1e9)):
        (text,) = step_warnings(SolverXPBD(block("stvk", young=young, damping=damping)[0]), [1e-3])
        assert "no number of substeps mends that" in text
    assert [too_soft(ratio, 3) for ratio in (0.0, 1e-300)] == [0.0, 0.0]
    assert too_soft(1e30, 3) == pytest.approx(BIAS * 1e30 / 3)


def test_modes_and_volumes_are_not_told_beside_the_strain():
    for material, options in ((MEAN, {}), ("stvk", {"element": "hexahedra"}), ("stvk", {"element": "quadratic"})):
        model, _ = block(material, young=1e7, **options)
        assert len(step_warnings(SolverXPBD(model), [1e-3])) == 1


@pytest.mark.parametrize("name", ["membrane_stvk", "membrane_neo_hookean"])
def test_membranes_are_told(name):
    builder = sim.ModelBuilder()
    material = {name: {"young": 1e6, "poisson": 0.3, "thickness": 1e-3}}
    builder.add_cloth_grid(dim_x=4, dim_y=4, cell_x=0.1, cell_y=0.1, density=0.2, material=material)
    solver = SolverXPBD(builder.finalize(dtype=sim.float64))
    (text,) = step_warnings(solver, [1e-2])
    assert f"`{name}`: at rest it will be too soft" in text and "elastic" not in text
    assert step_warnings(solver, [2e-4]) == []


@pytest.mark.parametrize(("damping", "parts"), [("0", 2), ("4 ms", 4)])
def test_a_finer_mesh_of_a_damped_beam_rests(tmp_path, damping, parts):
    """With half the step it gained energy, and an error by the mesh of "times 19" was told for one of 17 %."""
    text = BEAM.replace("fps: 40", "fps: 100").replace("duration: 0.1", "duration: 0.2")
    text = text.replace("{iterations: 1}", "{iterations: 1, start: elastic, integrator: bdf2}")
    text = text.replace("[30 mm, 30 mm, 90 mm], cells: [1, 1, 3]", "[30 mm, 30 mm, 300 mm], cells: [2, 2, 10]")
    text = text.replace("young: 2.0e5, poisson: 0.4, damping: 1 ms", f"young: 3e5, poisson: 0.4, damping: {damping}")
    text = text.replace("0.0899", "0.2999")
    scene = sim.load_scene(write_scene(tmp_path, text), open_files=False).without("experiments", "parameters", "loss")
    problem = scene.build(dtype=sim.float64)
    finer = finer_mesh(problem)
    assert steps_of_finer(problem, finer) == parts
    there = shorter_steps(finer, parts).simulate()["main"].positions
    assert np.abs(there).max() < 0.31
