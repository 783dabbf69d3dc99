"""The kinds of value that hold others: lists, tables with fixed or free keys, alternatives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sim.schema.errors import word_hint
from sim.schema.reading import BROKEN, Default, Json, Kind, Reading, SchemaLine, Steps, yaml_text
from sim.schema.yaml_marks import YamlNode, node_of

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")


@dataclass(frozen=True)
class List(Kind):
    """A list of things of one kind, with `least` to `most` items; `alone`: one may stand without the list."""

    item: Kind
    least: int = 0
    most: int | None = None
    alone: bool = False

    def words(self) -> str:
        size = f" of {self.least}" if self.least == self.most else f" of at least {self.least}" if self.least else ""
        return f"a list{size}, each item {self.item.words()}" + (", or one of them alone" if self.alone else "")

    def cell(self) -> str:
        return f"list, each {self.item.cell()}" + (", or one alone" if self.alone else "")

    def nested(self, path: str) -> list[tuple[str, Kind]]:
        return [(f"{path}.<index>", self.item)]

    def json_schema(self) -> Json:
        schema: Json = {"type": "array" if self.least else ["array", "null"], "items": self.item.json_schema()}
        schema |= {"minItems": self.least} | ({} if self.most is None else {"maxItems": self.most})
        return {"anyOf": [schema, self.item.json_schema()]} if self.alone else schema

    def fits(self, value: Any) -> bool:
        if value is None:
            return not self.least
        if self.alone and not isinstance(value, list):
            return self.item.fits(value)
        return isinstance(value, list) and self.least <= len(value) and (self.most is None or len(value) <= self.most)

    def take(self, node: YamlNode, steps: Steps, reading: Reading) -> Any:
        children = node.value if isinstance(node.value, list) else [node] if node.value else []
        values = [self.item.read(child, (*steps, str(i)), reading) for i, child in enumerate(children)]
        return BROKEN if BROKEN in values else values

    def children(self, line: SchemaLine, value: Any) -> Mapping[str, SchemaLine]:
        inside = self.whole(value)
        count = len(inside) if isinstance(inside, list) else 0
        return {str(i): SchemaLine(str(i), self.item, line.doc, may_vary=line.may_vary) for i in range(count)}

    def whole(self, value: Any) -> Any:
        return [value] if self.alone and isinstance(value, dict) else value


@dataclass(frozen=True)
class Map(Kind):
    """A mapping with keys of the user's choice: each a `name`, a `path`, or a name from a top-level table (`keys`)."""

    entry: Kind
    keys: str = "name"
    table: str = ""  # where other entries refer to these names, the table's name
    model_path: str = ""  # of each entry, as that of a line

    def words(self) -> str:
        key = {"name": "name", "path": "path"}.get(self.keys, f"name of one of the `{self.keys}`")
        return f"a mapping: {key} -> {self.entry.words()}"

    def cell(self) -> str:
        return f"{self._key_word} -> {self.entry.cell()}"

    def nested(self, path: str) -> list[tuple[str, Kind]]:
        return [(f"{path}.<{self._key_word}>", self.entry)]

    @property
    def _key_word(self) -> str:
        return "path" if self.keys == "path" else "name"

    def json_schema(self) -> Json:
        names = {} if self.keys == "path" else {"propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_-]*$"}}
        return {"type": ["object", "null"], "additionalProperties": self.entry.json_schema(), **names}

    def fits(self, value: Any) -> bool:
        return isinstance(value, dict) or value is None

    def take(self, node: YamlNode, steps: Steps, reading: Reading) -> Any:
        if self.table:
            reading.names[self.table] = list(node.value or {})
        data = {}
        for key, child in (node.value or {}).items():
            place = (*steps, key)
            value = self.entry.read(child, place, reading)
            if self.keys == "name" and not _IDENTIFIER.match(key):
                hint = "names are made of letters, digits, `_` and `-`"
                reading.problem(place, f"`{key}` is not a name", hint, key=True)
            elif self.keys not in ("name", "path"):
                reading.references.append((place, self.keys, key))
            if value is not BROKEN:
                data[key] = value
        return data

    def children(self, line: SchemaLine, value: Any) -> Mapping[str, SchemaLine]:
        keys = value if isinstance(value, dict) else ()
        may_vary, in_model = line.may_vary, self.model_path
        return {key: SchemaLine(key, self.entry, line.doc, may_vary=may_vary, model_path=in_model) for key in keys}


@dataclass(frozen=True)
class Union(Kind):
    """One of several kinds, told apart by shape; the first that fits is taken."""

    kinds: tuple[Kind, ...]
    unit: str = ""

    def words(self) -> str:
        return ", or ".join(kind.words() for kind in self.kinds)

    def cell(self) -> str:
        return ", or ".join(dict.fromkeys(kind.cell() for kind in self.kinds))

    def nested(self, path: str) -> list[tuple[str, Kind]]:
        return [(path, kind) for kind in self.kinds]

    def json_schema(self) -> Json:
        return {"anyOf": [kind.json_schema() for kind in self.kinds]}

    def fits(self, value: Any) -> bool:
        return any(kind.fits(value) for kind in self.kinds)

    def choose(self, value: Any) -> Kind:
        return next(kind for kind in self.kinds if kind.fits(value))

    def take(self, node: YamlNode, steps: Steps, reading: Reading) -> Any:
        return self.choose(node.plain).take(node, steps, reading)

    def children(self, line: SchemaLine, value: Any) -> Mapping[str, SchemaLine]:
        return self.choose(value).children(line, value) if self.fits(value) else {}

    def hint(self, value: Any) -> str:
        return next((hint for kind in self.kinds if (hint := kind.hint(value))), "")


@dataclass(frozen=True)
class Deferred(Kind):
    """A value whose unit and shape another value decides (`bounds` of a parameter, an experiment's `set`)."""

    form: str
    any_value: bool = False

    def words(self) -> str:
        return self.form

    def json_schema(self) -> Json:
        return {}

    def fits(self, value: Any) -> bool:
        return self.any_value or value is not None

    def take(self, node: YamlNode, steps: Steps, reading: Reading) -> Any:
        reading.deferred[steps] = node
        return node.plain


@dataclass(frozen=True)
class Table(Kind):
    """A mapping with known keys.  Of each group of `one_of` exactly one key is given, of `at_most_one` one or none.

    title, short: what messages, and the tables of the reference page, call it, where that is not its keys.
    """

    lines: tuple[SchemaLine, ...]
    one_of: tuple[tuple[str, ...], ...] = ()
    at_most_one: tuple[tuple[str, ...], ...] = ()
    noun: str = "key"
    needs_one: bool = False  # at least one key of any
    title: str = ""
    short: str = ""
    only_if: str = ""  # a key without which it is another table
    unknown: str = ""  # what to do about a key that is like none of these

    def words(self) -> str:
        if self.title:
            return self.title
        shown = [line.name for line in self.lines]
        return "a mapping with " + ", ".join(f"`{name}`" for name in shown[:8]) + (", ..." if len(shown) > 8 else "")

    def cell(self) -> str:
        return self.short or "mapping"

    def nested(self, path: str) -> list[tuple[str, Kind]]:
        return [(f"{path}.{line.name}".lstrip("."), line.kind) for line in self.lines]

    def json_schema(self) -> Json:
        required = [line.name for line in self.lines if line.default is Default.REQUIRED and not line.only_with]
        schema: Json = {
            "type": "object" if required or self.one_of or self.needs_one else ["object", "null"],
            "properties": {
                line.name: {**line.kind.json_schema(), "description": self._description(line)} for line in self.lines
            },
            "additionalProperties": False,
        }
        if required:
            schema["required"] = required
        if self.needs_one:
            schema["minProperties"] = 1
        if choices := [*map(self._exactly_one, self.one_of), *map(self._at_most_one, self.at_most_one)]:
            schema["allOf"] = choices
        if dependencies := self._dependencies():
            schema["dependencies"] = dependencies
        return schema

    def _exactly_one(self, group: tuple[str, ...]) -> Json:
        return {"oneOf": [{"required": [name]} for name in group]}

    def _at_most_one(self, group: tuple[str, ...]) -> Json:
        others: Json = {line.name: {} for line in self.lines if line.name not in group}
        none: Json = {"properties": others, "additionalProperties": False}
        return {"oneOf": [*({"required": [name]} for name in group), none]}

    def _dependencies(self) -> Json:
        """Of a key with `only_with`: one of those; of a key that has such keys: those that must be given."""
        out: Json = {}
        for line in self.lines:
            if line.only_with:
                out[line.name] = {"anyOf": [{"required": [other]} for other in line.only_with]}
            needed = [
                other.name for other in self.lines if line.name in other.only_with and other.default is Default.REQUIRED
            ]
            if needed:
                out[line.name] = {"required": needed}
        return out

    def _description(self, line: SchemaLine) -> str:
        """What an editor shows for a key."""
        parts = [line.doc]
        if line.unit:
            parts.append(f"SI unit: {line.unit}; other units as text, such as `1 {line.unit}`")
        for words, groups in (("exactly one of", self.one_of), ("at most one of", self.at_most_one)):
            parts += [f"{words}: {', '.join(group)}" for group in groups if line.name in group][:1]
        if line.only_with:
            parts.append(f"only with: {', '.join(line.only_with)}")
        if not isinstance(line.default, Default):
            parts.append(f"default: {yaml_text(line.default)}")
        if line.may_vary:
            parts.append("may be a parameter")
        return ". ".join(parts)

    def fits(self, value: Any) -> bool:
        if self.only_if:
            return isinstance(value, dict) and self.only_if in value
        return isinstance(value, dict) or value is None

    def rivals(self, key: str) -> tuple[str, ...]:
        """The keys that cannot stand beside `key`."""
        return tuple(
            other for group in (*self.one_of, *self.at_most_one) if key in group for other in group if other != key
        )

    def children(self, line: SchemaLine, value: Any) -> Mapping[str, SchemaLine]:
        return {child.name: child for child in self.lines}

    def take(self, node: YamlNode, steps: Steps, reading: Reading) -> Any:
        given: dict[str, YamlNode] = node.value or {}
        known = {line.name: line for line in self.lines}
        data: dict[str, Any] = {}
        misspelt: set[str] = set()  # keys that an unknown key probably means: they are not missing as well
        for key, child in given.items():
            place = (*steps, key)
            if key in known:
                value = known[key].kind.read(child, place, reading)
                if value is not BROKEN:
                    data[key] = value
            else:
                reading.marks[place] = child.mark
                reading.key_marks[place] = child.key_mark or child.mark
                hint = self._inside_of(key) or word_hint(key, known)
                if self.unknown and not hint.startswith("did you mean"):
                    hint = "; ".join(filter(None, (hint, self.unknown)))
                misspelt.update(name for name in known if hint == f"did you mean `{name}`?" and name not in given)
                reading.problem(place, f"unknown {self.noun} `{key}`", hint, key=True)
                reading.broken.add(place)
        reading.broken.update((*steps, name) for name in misspelt)
        self._check_groups(given, misspelt, steps, reading)
        for line in self.lines:
            partner = not line.only_with or any(other in given or other in misspelt for other in line.only_with)
            if line.name in given:
                if not partner:
                    owners = " or ".join(f"`{other}`" for other in line.only_with)
                    reading.problem((*steps, line.name), f"`{line.name}` belongs to {owners}", "remove it", key=True)
            elif partner and line.default is Default.REQUIRED:
                if line.name not in misspelt:
                    reading.problem(steps, f"missing key `{line.name}`: {line.doc}", key=True)
                reading.broken.add((*steps, line.name))
            elif partner and line.default is not Default.ABSENT and line.name not in misspelt:
                filled = line.kind.read(node_of(line.default, reading.mark(steps)), (*steps, line.name), reading)
                data[line.name] = filled
        return {name: data[name] for name in known if name in data}

    def _inside_of(self, key: str) -> str:
        """A hint for a key that is known one mapping further in."""
        inner = [
            line.name
            for line in self.lines
            if line.name != key and isinstance(line.kind, Table) and any(own.name == key for own in line.kind.lines)
        ]
        return f"it is a key of {' and of '.join(f'`{name}`' for name in inner)}" if 0 < len(inner) < 4 else ""

    def _check_groups(self, given: Mapping[str, YamlNode], misspelt: set[str], steps: Steps, reading: Reading) -> None:
        for group in (*self.one_of, *self.at_most_one):
            chosen = [key for key in given if key in group]
            if len(chosen) > 1:
                both = " and ".join(f"`{key}`" for key in chosen)
                reading.problem((*steps, chosen[1]), f"{both} exclude each other", "keep one of them", key=True)
            elif not chosen and group in self.one_of and not misspelt.intersection(group):
                options = ", ".join(f"`{key}`" for key in group)
                reading.problem(steps, f"missing key: one of {options}", key=True)
                reading.broken.update((*steps, key) for key in group)
        if self.needs_one and not given:
            options = ", ".join(f"`{line.name}`" for line in self.lines)
            reading.problem(steps, f"missing key: at least one of {options}", key=True)
