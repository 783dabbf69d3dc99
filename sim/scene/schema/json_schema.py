"""The JSON Schema of scene files, for editors."""

from __future__ import annotations

from collections.abc import Mapping

from sim.scene.schema.keys.materials import MaterialSpec
from sim.scene.schema.keys.scene import FORMAT, scene_schema
from sim.schema.reading import Json


def json_schema(materials: Mapping[str, MaterialSpec]) -> Json:
    """JSON Schema (draft 7, which the YAML language servers read) of scene files with these materials."""
    schema = scene_schema(materials).kind.json_schema()
    schema["properties"]["$schema"] = {"type": "string"}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": f"scene, format {FORMAT}", **schema}
