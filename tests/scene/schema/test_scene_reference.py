"""What is generated from the schema: the JSON Schema of editors and the reference page."""

import re
from pathlib import Path

import pytest
from tools.scenes.samples import BEAM, CLOTH, MATERIALS

from sim.scene.schema.json_schema import json_schema
from sim.scene.schema.keys.scene import scene_schema
from sim.scene.schema.paths import every_path
from sim.scene.schema.reference import scene_reference
from sim.schema.errors import SourceText
from sim.schema.units import parse_unit
from sim.schema.yaml_marks import read_yaml

TYPES = {"object": dict, "array": list, "string": str, "null": type(None), "integer": int, "number": float,
         "boolean": bool}  # fmt: skip
TABLES = ("objects", "shapes", "attachments", "loads", "markers", "measures", "experiments", "parameters")


def is_type(value, name):
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name]) or (name == "number" and isinstance(value, int))


def accepts(schema, value):
    """Whether a value is valid: the part of JSON Schema that the generator uses, and no more."""
    known = {"type", "properties", "additionalProperties", "propertyNames", "required", "minProperties", "dependencies",
             "items", "minItems", "maxItems", "uniqueItems", "enum", "pattern", "minimum", "maximum",
             "exclusiveMinimum", "exclusiveMaximum", "anyOf",
             "oneOf", "allOf", "description", "title", "$schema"}  # fmt: skip
    assert schema.keys() <= known, schema.keys() - known
    if not schema:
        return True
    types = schema.get("type", [])
    checks = [
        not types or any(is_type(value, name) for name in ([types] if isinstance(types, str) else types)),
        any(value == option and type(value) is type(option) for option in schema.get("enum", [value])),
        "anyOf" not in schema or any(accepts(option, value) for option in schema["anyOf"]),
        "oneOf" not in schema or sum(accepts(option, value) for option in schema["oneOf"]) == 1,
        all(accepts(option, value) for option in schema.get("allOf", [])),
    ]
    if isinstance(value, str):
        checks.append(re.search(schema.get("pattern", ""), value) is not None)
    if isinstance(value, int | float):
        checks += [
            value >= schema.get("minimum", value),
            value <= schema.get("maximum", value),
            value > schema.get("exclusiveMinimum", value - 1),
            value < schema.get("exclusiveMaximum", value + 1),
        ]
    if isinstance(value, list):
        checks += [schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)),
                   all(accepts(schema.get("items", {}), item) for item in value)]  # fmt: skip
    if isinstance(value, dict):
        own, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
        checks += [set(schema.get("required", [])) <= value.keys(), len(value) >= schema.get("minProperties", 0),
                   all(accepts(schema.get("propertyNames", {}), key) for key in value)]  # fmt: skip
        for key, child in value.items():
            inner = own.get(key, rest)
            checks += [inner is True or (inner is not False and accepts(inner, child)),
                       accepts(schema.get("dependencies", {}).get(key, {}), value)]  # fmt: skip
    return all(checks)


def plain(text):
    return read_yaml(SourceText("x", text, Path(".")), []).plain


@pytest.mark.parametrize("text", [CLOTH, BEAM])
def test_editors_accept_the_good_scenes(text):
    assert accepts(json_schema(MATERIALS), plain(text))


@pytest.mark.parametrize(("old", "new"), [
    ("density", "densty"), ("fps: 60", "fps: sixty"), ("fps: 60", "fps: 0"), ("substeps: 20", "substeps: 2.5"),
    (", substeps: 20", ""), ("colored", "coloured"), ("solver:\n", "solver:\n  semi_implicit: {}\n"),
    ("frequency: 1 Hz", "frequency: 1 Hz, ease: smooth"), (", frequency: 1 Hz", ""), ("-9.81, 0]", "-9.81]"),
    ("{boundary: true, y: [1.12, null]}", "{}"), ("report: true", "report: yes"), ("format: 1", "format: 3"),
    ("[1.12, null]", "[1.12, x]"), ("bend: {comp", "bned: {comp"),
    ("- {match: fabric}", "- {}"), ("  skirt:", "  a b:"),
    ("{every: 24}", "{every: 24, budget: 3 MB}"), ("compliance: 33", "compliance: {each: -1}"),
])  # fmt: skip
def test_editors_refuse_the_bad_ones(old, new):
    assert CLOTH.count(old) >= 1
    assert not accepts(json_schema(MATERIALS), plain(CLOTH.replace(old, new)))


def test_editors_show_units_choices_and_defaults():
    sphere = json_schema(MATERIALS)["properties"]["shapes"]["additionalProperties"]["properties"]["sphere"]
    assert "exactly one of: sphere, plane" in sphere["description"]
    radius = sphere["properties"]["radius"]["description"]
    assert "SI unit: m" in radius and "may be a parameter" in radius
    assert "default: 60" not in json_schema(MATERIALS)["properties"]["time"]["properties"]["fps"]["description"]


def test_the_page_has_a_row_for_every_key():
    page = scene_reference(MATERIALS)
    data = {**{table: {"any name": {}} for table in TABLES}, "loss": [{}]}
    lines = [found.line for found in every_path(scene_schema(MATERIALS), data)]
    assert len(lines) > 200
    for line in lines:
        assert f"| `{line.name}` |" in page or line.name == "any name" or line.name.isdigit()
        parse_unit(line.unit)
        assert line.doc


def test_tables_of_the_page_are_whole():
    for row in (line for line in scene_reference(MATERIALS).splitlines() if line.startswith("|")):
        assert len(re.findall(r"(?<!\\)\|", row)) == 6, row
