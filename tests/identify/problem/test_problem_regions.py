"""Values that differ from region to region or from point to point, and parameters that are sought for each."""

import numpy as np
import pytest
from tools.scenes.problems import SHEET, sheet, write_scene, write_target

import sim
from sim.geometry import GeometryError, assign_regions, neighbours
from sim.identify.assess.gradcheck import check_gradient
from sim.identify.data.expectations import look_up
from sim.model import ModelError

STRETCH = "  stretch: {of: objects.sheet.cloth.material.distance.compliance, transform: log, bounds: [1e-4, 10]}"
SIDES = "    regions: {left: {x: [null, 0.4]}, right: {x: [0.6, null]}}\n    cloth:"
PATH = "objects.sheet.cloth.material.distance.compliance"


def parts(parameters, **values):
    """The sheet in two regions, with other values."""
    text = SHEET.replace("    cloth:", SIDES, 1).replace(STRETCH, parameters)
    for old, new in values.items():
        text = text.replace({"distance": "compliance: 0.05,", "density": "density: 0.2"}[old], new)
    assert parameters in text
    return text


STIFF = "compliance: {regions: {right: 0.02, left: 0.05}},"


def test_elements_lie_in_the_region_of_most_of_their_points():
    regions = {"a": np.array([0, 1, 2]), "b": np.array([3, 4])}
    elements = np.array([[0, 1, 2], [1, 2, 3], [2, 3, 4], [0, 5, 1], [4, 3, 5]])
    assert assign_regions(elements, regions).tolist() == [0, 0, 1, 0, 1]
    assert assign_regions(np.array([[2, 3], [3, 2], [4, 3]]), regions).tolist() == [
        0,
        0,
        1,
    ], "between the two: the first"
    with pytest.raises(GeometryError, match="1 of 3 elements lie in no region: 1"):
        assign_regions(np.array([[0, 1, 2], [0, 5, 6], [3, 4, 5]]), regions)
    with pytest.raises(GeometryError, match="no element lies in the region `b` .*`a` 1, `b` 0"):
        assign_regions(elements[:1], regions)


def test_neighbours_share_all_but_one_of_their_points():
    edges = np.array([[0, 1], [1, 2], [3, 1], [4, 5]])
    assert neighbours(edges, edges).tolist() == [[0, 1], [0, 2], [1, 2]]
    triangles = np.array([[0, 1, 2], [2, 1, 3], [3, 4, 5], [1, 0, 6]])
    assert neighbours(triangles, edges).tolist() == [[0, 1], [0, 3]]
    tets = np.array([[0, 1, 2, 3], [3, 2, 1, 4], [4, 5, 3, 6]])
    assert neighbours(tets, edges).tolist() == [[0, 1]]
    cells = np.array([range(8), [4, 5, 6, 7, 8, 9, 10, 11], [7, 8, 12, 13, 14, 15, 16, 17]])
    assert neighbours(cells, edges).tolist() == [[0, 1]]
    assert neighbours(np.array([[1], [2], [0]]), edges).tolist() == [[0, 1], [0, 2]]
    assert neighbours(np.array([[7], [8]]), np.zeros((0, 2), int)).shape == (0, 2)


def test_values_of_regions_reach_their_elements(tmp_path):
    text = parts(
        "  p: {of: world.gravity}",
        distance="compliance: {regions: {right: 0.02, left: 0.05}}, damping: {regions: {left: 0, right: 0.01}},",
        density="density: {regions: {left: 0.1, right: 0.3}}",
    ).replace("damping: 5 ms", "")
    problem = sheet(tmp_path, text)
    model, group = problem.model, problem.model.groups["sheet"]
    x = group.positions[:, 0]
    of_points = np.where(x < 0.5, 0.1, 0.3)
    assert np.array_equal(model["sheet.density"].numpy(), of_points)
    ends = x[group.elements["distance"]]
    assert np.allclose(model["sheet.distance.compliance"].numpy(), np.where(ends.min(axis=1) < 0.5, 0.05, 0.02)), (
        "an edge between them is `left`'s"
    )
    assert np.allclose(model["sheet.distance.damping"].numpy(), np.where(ends.min(axis=1) < 0.5, 0.0, 0.01))


def test_parameter_for_each_region(tmp_path):
    text = parts(f"  p: {{of: {PATH}, per: region, transform: log, bounds: [1e-4, 10]}}", distance=STIFF)
    problem = sheet(tmp_path, text + "expect:\n  parameters.p.left: {value: 0.05, within: 1 %}\n")
    assert problem.parameters == ["p.left", "p.right"]
    assert problem.physical() == pytest.approx({"p.left": 0.05, "p.right": 0.02})
    rows = check_gradient(problem)
    assert len(rows) == 2 and all(row.ok and row.gradient != 0 for row in rows), rows
    found = problem.optimize(12)
    assert list(found.parameters.values()) == pytest.approx([0.02, 0.02], rel=0.02), "both are 0.02 in the target"
    assert problem.expectations[0].path == "parameters.p.left"
    assert look_up({"parameters": {"p.left": {"final": 3.0}}}, "parameters.p.left") == 3.0


def test_one_region_is_sought_and_the_other_stays(tmp_path):
    text = parts(
        f"  p: {{of: {PATH}.regions.left, transform: log}}\n  q: {{of: {{objects.sheet.cloth.density.regions.right:"
        " 2}}",
        distance=STIFF,
        density="density: {regions: {left: 0.1, right: 0.3}}",
    )
    problem = sheet(tmp_path, text)
    assert problem.physical() == pytest.approx({"p": 0.05, "q": 0.15})
    assert all(row.ok and row.gradient != 0 for row in check_gradient(problem))
    problem.optimize(1)
    values = set(problem.model["sheet.distance.compliance"].numpy().tolist())
    assert len(values) == 2 and 0.02 in values and 0.05 not in values


def test_elements_may_start_from_regions(tmp_path):
    problem = sheet(tmp_path, parts(f"  p: {{of: {PATH}, per: element, transform: log}}", distance=STIFF))
    assert problem.start.shape == (24,) and set(np.round(np.exp(problem.start), 12)) == {0.02, 0.05}
    assert check_gradient(problem)[0].ok


@pytest.mark.parametrize(("of", "shape"), [
    ("objects.sheet.velocity", (16, 3)), ("objects.sheet.position", (16, 3)), ("objects.sheet.cloth.density", (16,)),
])  # fmt: skip
def test_parameter_for_each_point(tmp_path, of, shape):
    text = SHEET.replace(STRETCH, f"  p: {{of: {of}, per: point}}").replace(
        "    cloth:", "    spin: [0.1, 0.5, 0]\n    cloth:", 1
    )
    problem = sheet(tmp_path, text)
    assert problem.space.shapes["p"] == shape
    plain = sheet(tmp_path, text.replace(", per: point", ""))
    assert plain.value(plain.start) == problem.value(problem.start)
    total = problem.evaluate(problem.start).physical["p"].sum(axis=0)
    assert total == pytest.approx(plain.evaluate(plain.start).physical["p"], rel=1e-9)
    row = check_gradient(problem)[0]
    assert row.ok and row.gradient != 0


def refused(folder, text):
    write_target(folder, SHEET)
    with pytest.raises(sim.SceneError) as caught:
        sim.load_scene(write_scene(folder, text)).build()
    assert len(caught.value.problems) == 1 and caught.value.problems[0].hint, str(caught.value)
    return str(caught.value)


def test_what_has_no_regions_or_points_is_refused(tmp_path):
    text = refused(tmp_path, SHEET.replace(STRETCH, f"  p: {{of: {PATH}, per: region}}"))
    assert f"`{PATH}` is one value, with none for each region" in text and "`objects.sheet.regions`" in text
    assert "densities" in refused(tmp_path, SHEET.replace(STRETCH, "  p: {of: world.gravity, per: region}"))
    assert "`per: element`" in refused(tmp_path, SHEET.replace(STRETCH, f"  p: {{of: {PATH}, per: point}}"))
    assert "none for each point" in refused(
        tmp_path, SHEET.replace(STRETCH, "  p: {of: objects.sheet.spin, per: point}")
    )
    assert "add `per: region`" in refused(tmp_path, parts(f"  p: {{of: {PATH}}}", distance=STIFF))
    assert "no region" in refused(tmp_path, parts("  p: {of: world.gravity}", distance="compliance: {regions: {}},"))


def test_tied_values_of_regions(tmp_path):
    text = parts(
        f"  p: {{of: {{{PATH}: 1, objects.other.cloth.material.distance.compliance: 2}}, per: region, start: 0.04,"
        " transform: log}",
        distance=STIFF,
    )
    other = text[text.index("  sheet:\n") : text.index("shapes:")].replace(
        "  sheet:\n", "  other:\n    position: [0, 0, 3]\n"
    )
    both = text.replace("shapes:", other + "shapes:", 1)
    problem = sheet(tmp_path, both)
    problem.optimize(1)
    ours, theirs = (problem.model[f"{name}.distance.compliance"].numpy() for name in ("sheet", "other"))
    assert np.allclose(2 * ours, theirs) and len(set(ours.tolist())) == 2
    assert "has other regions than" in refused(tmp_path, both.replace(other, other.replace("right: ", "rest: ")))


# ------------------------------------------------------------------------------------------------ components of vectors
@pytest.mark.parametrize(
    "of", ["world.gravity.1", "objects.sheet.spin.2", "shapes.ball.sphere.center.0", "attachments.top.motion.0.swing.2"]
)
def test_a_component_of_a_vector_is_sought(tmp_path, of):
    problem = sheet(tmp_path, SHEET.replace(STRETCH, f"  p: {{of: {of}}}"))
    whole = sheet(tmp_path, SHEET.replace(STRETCH, f"  p: {{of: {of[:-2]}}}"))
    at = int(of[-1])
    assert problem.start.shape == () or problem.start.shape == (1,)
    assert problem.physical()["p"] == whole.physical()["p"][at]
    assert problem.evaluate(problem.start).physical["p"] == pytest.approx(
        whole.evaluate(whole.start).physical["p"][at], rel=1e-12
    )
    row = check_gradient(problem)[0]
    assert row.ok and row.gradient != 0


def test_experiments_set_components(tmp_path):
    text = SHEET.replace(
        "noise: 10 mm}}",
        "noise: 10 mm}, set: {world.gravity.1: -5, world.gravity.0: 1, objects.sheet.velocity: [0, 2, 3]}}",
    )
    problem = sheet(tmp_path, text.replace(STRETCH, "  p: {of: objects.sheet.velocity.2, per: experiment}"))
    settings = problem.experiments[0].settings
    assert settings["gravity"].tolist() == [[1, -5, 0]] and settings["sheet.velocity"].tolist() == [[0, 2, 3]]
    assert problem.physical()["p"].tolist() == [3.0]
    materials = problem._evaluator.materials
    with materials.kept():
        materials.write(problem.experiments[0], {"p": np.array([7.0])})
        assert problem.model["sheet.velocity"].numpy().tolist() == [[0, 2, 7]], (
            "what the experiment sets beside it stays"
        )
    assert check_gradient(problem)[0].ok


def test_two_places_of_one_value_are_tied(tmp_path):
    problem = sheet(tmp_path, SHEET.replace(STRETCH, "  p: {of: {world.gravity.0: 1, world.gravity.1: -2}, start: 3}"))
    materials = problem._evaluator.materials
    with materials.kept():
        materials.write(problem.experiments[0], {"p": np.array(3.0)})
        assert problem.model["gravity"].numpy().tolist() == [[3, -6, 0]]
    assert check_gradient(problem)[0].ok
    text = parts(
        f"  p: {{of: {{{PATH}.regions.left: 1, {PATH}.regions.right: 0.5}}, start: 0.04, transform: log}}",
        distance=STIFF,
    )
    problem = sheet(tmp_path, text)
    materials = problem._evaluator.materials
    with materials.kept():
        materials.write(problem.experiments[0], {"p": np.array(0.1)})
        assert set(problem.model["sheet.distance.compliance"].numpy().tolist()) == {0.1, 0.05}
    assert check_gradient(problem)[0].ok


BLOCK = """\
format: 1
time: {duration: 0.04, fps: 50, substeps: 8}
objects:
  block:
    regions: {base: {z: [null, 0.11]}, tip: {z: [0.19, null]}}
    soft:
      lattice: {size: [0.1, 0.1, 0.3], cells: [1, 1, 3]}
      density: {regions: {base: 1000, tip: 1200}}
      material:
        neo_hookean:
          young: {regions: {tip: 2e4, base: 1e4}}
          poisson: {regions: {tip: 0.3, base: 0.4}}
          damping: {regions: {tip: 0, base: 1 ms}}
attachments: {clamp: {on: block, where: {z: [null, 0]}}}
markers: {end: {on: block, where: {z: [0.29, null]}}}
parameters:
  young: {of: objects.block.soft.material.neo_hookean.young, per: PER, transform: log}
  weight: {of: objects.block.soft.density, per: region, transform: log}
loss:
  - {reach: {marker: end, point: [0.1, 0.1, 0.3], scale: 0.1}}
  - {smooth: young, sd: 0.5}
"""


@pytest.mark.parametrize(("per", "count"), [("region", 2), ("element", 15)])
def test_regions_of_a_solid(tmp_path, per, count):
    problem = sim.load_scene(write_scene(tmp_path, BLOCK.replace("PER", per))).build(dtype=sim.float64)
    young, group = problem.model["block.neo_hookean.young"].numpy(), problem.model.groups["block"]
    height = group.positions[group.elements["neo_hookean"] - group.start, 2]
    assert np.array_equal(young == 2e4, (height > 0.15).sum(axis=1) > 2) and len(young) == 15
    assert np.array_equal(problem.model["block.neo_hookean.poisson"].numpy() == 0.3, young == 2e4)
    assert len(problem.start) == count + 2
    if per == "element":
        v = problem.start[:15]
        tets = [set(row) for row in group.elements["neo_hookean"].tolist()]
        pairs = [(i, j) for j in range(15) for i in range(j) if len(tets[i] & tets[j]) == 3]
        assert problem.evaluate(problem.start).terms["smooth_young"] == pytest.approx(
            np.mean([((v[i] - v[j]) / 0.5) ** 2 for i, j in pairs])
        )
    rows = check_gradient(problem)
    assert all(row.ok and row.gradient != 0 for row in rows), rows


@pytest.mark.parametrize(("key", "values", "message"), [
    ("thickness", [1.0] * 4, "has no 'thickness' of its elements"),
    ("mass", [1.0] * 4, "has no 'mass' of its elements"),
    ("density", [1.0] * 3, "sheet.density has shape .3,"),
    ("density", [1.0, 1.0, 0.0, 1.0], "at index 2 is not positive"),
    ("bend.compliance", [1.0], "'bend' is unknown"), ("distance.stiffness", [1.0] * 4, "unknown key 'stiffness'"),
    ("distance.compliance", [1.0] * 5, "has shape .5,"), ("distance.rest", [1.0, np.inf, 1.0, 1.0], "is not finite"),
])  # fmt: skip
def test_values_that_a_builder_refuses(key, values, message):
    builder = sim.ModelBuilder()
    sheet = builder.add_cloth_grid(
        dim_x=1, dim_y=1, cell_x=1.0, cell_y=1.0, density=1.0, label="sheet", material={"distance": {"compliance": 1.0}}
    )
    with pytest.raises(ModelError, match=message):
        builder.set_values(sheet, key, values)
    with pytest.raises(ModelError, match="give_each_point: key 'spin' is unknown"):
        builder.give_each_point(sheet, "spin")
    builder.set_values(sheet, "distance.rest", [0.5, 1.0, 2.0, 1.0])
    assert builder.finalize()["sheet.distance.rest"].numpy().tolist() == [0.5, 1.0, 2.0, 1.0]
