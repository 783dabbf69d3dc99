"""What follows from the schema for people: a JSON Schema for editors, and the page docs/reference/scene.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import singledispatch
from typing import Any

from sim.identify.losses import custom
from sim.scene.schema.keys import FORMAT, VALUE_TABLE, MaterialSpec, scene_schema, value
from sim.schema.containers import Deferred, List, Map, Table, Union
from sim.schema.kinds import (
    Axes,
    Bool,
    Choice,
    FrameText,
    Int,
    Number,
    PartOfDuration,
    Text,
    Tuple,
    UnitName,
    bounds_words,
)
from sim.schema.reading import Default, Kind, SchemaLine
from sim.schema.units import units_of

Json = dict[str, Any]

_QUANTITY = r"^\s*[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\s*(?:[A-Za-z%µμ1(].*)?$"


def json_schema(materials: Mapping[str, MaterialSpec]) -> Json:
    """JSON Schema (draft 7, which the YAML language servers read) of scene files with these materials."""
    root = scene_schema(materials)
    schema = _json(root.kind)
    schema["properties"]["$schema"] = {"type": "string"}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": f"scene, format {FORMAT}", **schema}


@singledispatch
def _json(kind: Kind) -> Json:
    """References and file names: texts."""
    return {"type": "string"}


@_json.register
def _(kind: Number) -> Json:
    number: Json = {"type": "number"}
    if kind.bounds:
        low, high = (float(end) for end in kind.bounds[1:-1].split(","))
        number["exclusiveMinimum" if kind.bounds[0] == "(" else "minimum"] = low
        if high != float("inf"):
            number["exclusiveMaximum" if kind.bounds[-1] == ")" else "maximum"] = high
    return {"anyOf": [number, {"type": "string", "pattern": _QUANTITY}]}


@_json.register
def _(kind: Tuple) -> Json:
    item = _json(Number(kind.unit, kind.bounds))
    if kind.none:
        item = {"anyOf": [*item["anyOf"], {"type": "null"}]}
    return {"type": "array", "items": item, "minItems": kind.count, "maxItems": kind.count}


@_json.register
def _(kind: Int) -> Json:
    return {"type": "integer", "minimum": kind.least, "maximum": kind.most}


@_json.register
def _(kind: Text) -> Json:
    return {"type": "string", "pattern": f"^(?:{kind.pattern})$"} if kind.pattern else {"type": "string"}


@_json.register
def _(kind: Bool) -> Json:
    return {"type": "boolean"}


@_json.register
def _(kind: Choice) -> Json:
    return {"enum": list(kind.options)}


@_json.register
def _(kind: UnitName) -> Json:
    return {"anyOf": [{"enum": units_of(kind.of)}, {"type": "string"}, {"type": "number", "exclusiveMinimum": 0}]}


@_json.register
def _(kind: Axes) -> Json:
    axis = {"enum": [sign + axis for axis in "xyz" for sign in ("", "-", "+")]}
    return {"type": "array", "items": axis, "minItems": 3, "maxItems": 3, "uniqueItems": True}


@_json.register
def _(kind: FrameText) -> Json:
    return {"type": "string", "pattern": "^frame +[0-9]+$"}


@_json.register
def _(kind: PartOfDuration) -> Json:
    return {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            {"type": "string", "pattern": f"^all$|{_QUANTITY}"},
        ]
    }


@_json.register
def _(kind: Deferred) -> Json:
    return {}


@_json.register
def _(kind: List) -> Json:
    schema: Json = {"type": "array" if kind.least else ["array", "null"], "items": _json(kind.item)}
    return schema | {"minItems": kind.least} | ({} if kind.most is None else {"maxItems": kind.most})


@_json.register
def _(kind: Map) -> Json:
    names = {} if kind.keys == "path" else {"propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_-]*$"}}
    return {"type": ["object", "null"], "additionalProperties": _json(kind.entry), **names}


@_json.register
def _(kind: Union) -> Json:
    return {"anyOf": [_json(option) for option in kind.kinds]}


@_json.register
def _(kind: Table) -> Json:
    required = [line.name for line in kind.lines if line.default is Default.REQUIRED and not line.only_with]
    schema: Json = {
        "type": "object" if required or kind.one_of or kind.needs_one else ["object", "null"],
        "properties": {line.name: {**_json(line.kind), "description": _description(line, kind)} for line in kind.lines},
        "additionalProperties": False,
    }
    if required:
        schema["required"] = required
    if kind.needs_one:
        schema["minProperties"] = 1
    choices: list[Json] = [{"oneOf": [{"required": [name]} for name in group]} for group in kind.one_of]
    for group in kind.at_most_one:
        nothing_else: Json = {
            "properties": {line.name: {} for line in kind.lines if line.name not in group},
            "additionalProperties": False,
        }
        choices.append({"oneOf": [*({"required": [name]} for name in group), nothing_else]})
    if choices:
        schema["allOf"] = choices
    dependencies: dict[str, Json] = {}
    for line in kind.lines:
        if line.only_with:
            dependencies[line.name] = {"anyOf": [{"required": [other]} for other in line.only_with]}
        needed = [other.name for other in kind.lines
                  if line.name in other.only_with and other.default is Default.REQUIRED]  # fmt: skip
        if needed:
            dependencies[line.name] = {"required": needed}
    if dependencies:
        schema["dependencies"] = dependencies
    return schema


def _description(line: SchemaLine, table: Table) -> str:
    parts = [line.doc]
    if line.unit:
        parts.append(f"SI unit: {line.unit}; other units as text, such as `1 {line.unit}`")
    group = next((group for group in table.one_of if line.name in group), ())
    if group:
        parts.append(f"exactly one of: {', '.join(group)}")
    group = next((group for group in table.at_most_one if line.name in group), ())
    if group:
        parts.append(f"at most one of: {', '.join(group)}")
    if line.only_with:
        parts.append(f"only with: {', '.join(line.only_with)}")
    if not isinstance(line.default, Default):
        parts.append(f"default: {_shown(line.default)}")
    if line.may_vary:
        parts.append("may be a parameter")
    return ". ".join(parts)


def _shown(data: Any) -> str:
    """A default, in YAML's flow style."""
    if isinstance(data, dict):
        return "{" + ", ".join(f"{key}: {_shown(child)}" for key, child in data.items()) + "}"
    if isinstance(data, list):
        return "[" + ", ".join(_shown(child) for child in data) + "]"
    if isinstance(data, bool):
        return str(data).lower()
    return '""' if data == "" else f"{data:g}" if isinstance(data, float) else str(data)


def scene_reference(materials: Mapping[str, MaterialSpec]) -> str:
    """The reference of the scene format in Markdown: a table of keys for every mapping of a scene."""
    parts = [
        "# Scene files: every key",
        "This page is generated from the schema (`sim/scene/schema/keys.py`).",
        (
            "Numbers are in SI units; a text may carry another unit (`5 mm`). *May vary*: the number may be a"
            " parameter. `<name>` stands for names that you choose."
        ),
    ]
    for path, table in _tables("", scene_schema(materials).kind):
        parts.append(f"## {path}" if path else "## A scene")
        for group in table.one_of:
            parts.append("Exactly one of " + ", ".join(f"`{name}`" for name in group) + ".")
        for group in table.at_most_one:
            parts.append("At most one of " + ", ".join(f"`{name}`" for name in group) + ".")
        if table.needs_one:
            parts.append("At least one key.")
        if not table.lines:
            parts.append("No keys.")
            continue
        parts.append(_rows(table))
    parts += ["## Material values", "In place of one number.", _rows(value("", "", each=True).kinds[1])]
    parts += ["## Losses of your own", "Named by `custom` in `loss`.", (custom.__doc__ or "").strip()]
    return "\n\n".join(parts) + "\n"


def _rows(table: Kind) -> str:
    assert isinstance(table, Table)
    rows = ["| key | value | default | may vary | meaning |", "|---|---|---|---|---|"]
    return "\n".join(rows + [_row(line) for line in table.lines])


def _row(line: SchemaLine) -> str:
    if line.default is Default.REQUIRED:
        default = "**needed**"
    else:
        default = "" if line.default is Default.ABSENT else f"`{_shown(line.default)}`"
    doc = line.doc
    if line.only_with:
        doc += " (with " + " or ".join(f"`{name}`" for name in line.only_with) + ")"
    cells = [f"`{line.name}`", _value(line.kind), default, "yes" if line.may_vary else "", doc]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _value(kind: Kind) -> str:
    """A kind for the value column; what has a table of its own is only named."""
    if isinstance(kind, Table):
        return "a material value" if kind.title == VALUE_TABLE else "mapping"
    if isinstance(kind, Map):
        return f"{'path' if kind.keys == 'path' else 'name'} -> {_value(kind.entry)}"
    if isinstance(kind, List):
        return f"list, each {_value(kind.item)}"
    if isinstance(kind, Union):
        return ", or ".join(dict.fromkeys(_value(option) for option in kind.kinds))
    if isinstance(kind, Number) and kind.bounds:
        return f"{kind.words()}, {bounds_words(kind.bounds)}"
    return kind.words()


def _tables(path: str, kind: Kind) -> Iterator[tuple[str, Table]]:
    """Every table of the schema with its path, outer ones first; a table that stands in several places once."""
    seen: list[Table] = []
    waiting = [(path, kind)]
    while waiting:
        path, kind = waiting.pop(0)
        if isinstance(kind, Table):
            if kind in seen or kind.title == VALUE_TABLE:
                continue
            seen.append(kind)
            yield path, kind
            waiting = [(f"{path}.{line.name}".lstrip("."), line.kind) for line in kind.lines] + waiting
        elif isinstance(kind, Map):
            waiting.insert(0, (f"{path}.<{'path' if kind.keys == 'path' else 'name'}>", kind.entry))
        elif isinstance(kind, List):
            waiting.insert(0, (f"{path}.<index>", kind.item))
        elif isinstance(kind, Union):
            waiting = [(path, option) for option in kind.kinds] + waiting
