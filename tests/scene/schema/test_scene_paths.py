"""What a schema line says of its value: the material value that it sets, and who may set it."""

import pytest
from tools.scenes.samples import MATERIALS

from sim.core.optim.registry import MINIMIZERS
from sim.scene.schema.keys.scene import scene_schema
from sim.scene.schema.paths import every_path, find

SCHEMA = scene_schema(MATERIALS)
PLACES = {"objects": {"a": {"cloth": {}, "soft": {}, "chain": {}, "particles": {}}}, "shapes": {"s": {}},
          "loads": {"w": {}}, "attachments": {"t": {"motion": [{}]}}}  # fmt: skip


@pytest.mark.parametrize(("path", "in_model", "component", "region"), [
    ("world.gravity", "gravity", None, None),
    ("world.gravity.1", "gravity", 1, None),
    ("objects.a.position", "a.position", None, None),
    ("objects.a.velocity.2", "a.velocity", 2, None),
    ("objects.a.cloth.density", "a.density", None, None),
    ("objects.a.cloth.material.bend.compliance", "a.bend.compliance", None, None),
    ("objects.a.cloth.material.bend.compliance.each", "a.bend.compliance", None, None),
    ("objects.a.particles.mass.regions.rim", "a.mass", None, "rim"),
    ("loads.w.mass", "w.mass", None, None),
    ("shapes.s.sphere.center.0", "s.center", 0, None),
    ("shapes.s.plane.normal", "s.normal", None, None),
    ("attachments.t.motion.0.move", "t.motion.0.move", None, None),
    ("objects.a.scale", None, None, None),
    ("time.fps", None, None, None),
])  # fmt: skip
def test_the_material_value_of_a_path(path, in_model, component, region):
    data = {**PLACES, "world": {"gravity": [0, 0, 0]}}
    data["objects"]["a"]["particles"] = {"mass": {"regions": {"rim": 1.0}}}
    data["objects"]["a"]["cloth"] = {"material": {"bend": {"compliance": {"each": 1.0}}}} if "each" in path else {}
    found = find(SCHEMA, data, path)
    assert (found.model_path, found.component, found.region) == (in_model, component, region)


def test_what_may_vary_has_a_place_in_the_model():
    found = [value for value in every_path(SCHEMA, PLACES) if value.line.may_vary]
    assert len(found) > 40
    for value in found:
        assert value.model_path and "{" not in value.model_path, value.steps


def test_experiments_share_the_model():
    may = {".".join(value.steps) for value in every_path(SCHEMA, PLACES) if value.may_be_set}
    assert {"world.gravity", "time.duration", "objects.a.spin", "objects.a.rotation.angle", "shapes.s.sphere.radius",
            "loads.w.mass", "attachments.t.motion.0.end"} <= may  # fmt: skip
    assert not may & {"world", "time", "objects.a", "objects.a.cloth.density", "objects.a.scale", "markers", "solver"}


def test_minimisers_declare_their_own_lines():
    for name, spec in MINIMIZERS.items():
        lines = find(SCHEMA, {}, f"optimize.{name}").line.kind.lines
        assert [line.name for line in lines] == ["iterations", *(setting.name for setting in spec.settings)]
        assert [line.default for line in lines] == [spec.iterations, *(setting.default for setting in spec.settings)]


def test_steps_may_hold_dots():
    steps = find(SCHEMA, {"expect": {"a.b.c": {}}}, "expect.a.b.c.within").steps
    assert steps == ("expect", "a.b.c", "within")
