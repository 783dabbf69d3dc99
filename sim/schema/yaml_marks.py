"""YAML with positions: every value knows its file, line and column.

PyYAML only parses (events); resolving is done here, as YAML 1.2's core schema reads scalars: `1e-9` is a number, `on`,
`1_000` and `12:30` are text, booleans are `true` and `false` only. Duplicate keys are problems, tags are refused (a
scene is data), anchors and `<<` work and keep the positions of where their content was written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

from sim.schema.errors import Diagnostic, Mark, SceneError, SourceText

_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_BASED = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_SPECIAL = {".inf": "inf", "+.inf": "inf", "-.inf": "-inf", ".nan": "nan"}
_LARGEST = 500_000  # values in one file with its aliases written out: stops alias bombs, far above any scene
_DEEPEST = 60
_LONGEST_INTEGER = 250  # digits: what is longer is no float64 either, and Python refuses to print it


@dataclass(frozen=True)
class YamlNode:
    """A value with its place. `value` is a scalar, a list of nodes, or a dict of nodes; never changed in place."""

    value: Any
    mark: Mark
    key_mark: Mark | None = None
    size: int = 1

    @property
    def plain(self) -> Any:
        """The value without positions: nested dicts and lists of scalars."""
        if isinstance(self.value, dict):
            return {key: child.plain for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain for child in self.value]
        return self.value


def node_of(value: Any, mark: Mark) -> YamlNode:
    """A node, with one place for all of it, of a plain Python (or NumPy) value."""
    if isinstance(value, Mapping):
        return YamlNode({str(key): replace(node_of(child, mark), key_mark=mark) for key, child in value.items()}, mark)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return YamlNode([node_of(child, mark) for child in value], mark)
    if isinstance(value, Real) and not isinstance(value, bool):
        value = int(value) if isinstance(value, Integral) else float(value)
    return YamlNode(value, mark)


def resolve_scalar(text: str) -> None | bool | int | float | str:
    """What an unquoted scalar means (YAML 1.2 core schema)."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text[0] in "tT"
    if _INTEGER.match(text):
        return int(text) if len(text) < _LONGEST_INTEGER else float(text)
    if _BASED.match(text):
        return int(text, 0) if len(text) < _LONGEST_INTEGER else math.inf
    if _FLOAT.match(text):
        return float(text)
    if text.lower() in _SPECIAL:
        return float(_SPECIAL[text.lower()])
    return text


def read_yaml(source: SourceText, problems: list[Diagnostic], column_offset: int = 0) -> YamlNode:
    """The tree of `source`. Duplicate keys are added to `problems`; what cannot be read at all raises `SceneError`.

    `column_offset` skips the first columns (the `path=` of a `--set`).
    """
    import yaml

    text = " " * column_offset + source.text[column_offset:]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Composer(source, problems, yaml.parse(text, Loader=loader), yaml).document()
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        mark = Mark(source, place.line + 1, place.column + 1) if place else Mark(source, 1, 1)
        lines = source.text.splitlines() or [""]
        if mark.line > len(lines):
            # PyYAML misses something behind the end of the text: its last character is what can be shown.
            mark = Mark(source, len(lines), max(1, len(lines[-1])))
        context = f" ({error.context})" if error.context else ""
        hint = "indent with spaces, not tabs" if "\t" in source.line(mark.line) else ""
        raise SceneError([*problems, Diagnostic(mark, "", f"not YAML: {error.problem}{context}", hint)]) from None
    except yaml.YAMLError as error:
        what = f"not YAML: {str(error).splitlines()[0]}"
        raise SceneError([*problems, Diagnostic(Mark(source, 1, 1), "", what)]) from None


class _Composer:
    """Turns PyYAML's events into nodes."""

    def __init__(self, source: SourceText, problems: list[Diagnostic], events: Iterator[Any], yaml: Any):
        self.source = source
        self.problems = problems
        self.events = events
        self.yaml = yaml
        self.anchors: dict[str, YamlNode] = {}

    def document(self) -> YamlNode:
        yaml = self.yaml
        root: YamlNode | None = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    self.stop(event, "a second document", "a scene file holds one document: remove the `---`")
                root = self.node(next(self.events), ())
        return YamlNode(None, Mark(self.source, 1, 1)) if root is None else root

    def mark(self, event: Any) -> Mark:
        return Mark(self.source, event.start_mark.line + 1, event.start_mark.column + 1)

    def stop(self, event: Any, what: str, hint: str = "") -> None:
        raise SceneError([*self.problems, Diagnostic(self.mark(event), "", what, hint)])

    def node(self, event: Any, steps: tuple[str, ...]) -> YamlNode:
        yaml = self.yaml
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                hint = "an anchor stands before its use, and not inside itself"
                self.stop(event, f"unknown anchor `*{event.anchor}`", hint)
            return self.anchors[event.anchor]
        if event.tag is not None:
            self.stop(event, f"tag `{event.tag}`", "a scene is data: write the value without a tag")
        if len(steps) > _DEEPEST:
            self.stop(event, f"nested more than {_DEEPEST} levels deep")
        mark = self.mark(event)
        if isinstance(event, yaml.ScalarEvent):
            # implicit[0]: written plainly, so that its text decides the type; quoted and block scalars are text.
            node = YamlNode(resolve_scalar(event.value) if event.implicit[0] else event.value, mark)
        elif isinstance(event, yaml.SequenceStartEvent):
            items: list[YamlNode] = []
            while not isinstance(item := next(self.events), yaml.SequenceEndEvent):
                items.append(self.node(item, (*steps, str(len(items)))))
            node = YamlNode(items, mark, size=1 + sum(item.size for item in items))
        else:
            node = self.mapping(mark, steps)
        if node.size > _LARGEST:
            self.stop(event, f"more than {_LARGEST} values once its aliases are written out")
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def mapping(self, mark: Mark, steps: tuple[str, ...]) -> YamlNode:
        yaml = self.yaml
        own: dict[str, YamlNode] = {}
        inherited: dict[str, YamlNode] = {}
        merged = False
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                self.stop(event, "a key that is not a plain word", "keys are names or dotted paths")
            if event.tag is not None:
                self.stop(event, f"tag `{event.tag}`", "a scene is data: write the key without a tag")
            key, key_mark = event.value, self.mark(event)
            value_event = next(self.events)
            value = self.node(value_event, (*steps, key))
            path = ".".join((*steps, key))
            is_merge = key == "<<" and event.implicit[0]
            if is_merge and merged:
                hint = "for several anchors write `<<: [*a, *b]`"
                self.problems.append(Diagnostic(key_mark, path, "duplicate key `<<`", hint))
            elif key in own:
                first = own[key].key_mark or mark
                hint = f"it stands on line {first.line} already: keep one of them"
                self.problems.append(Diagnostic(key_mark, path, f"duplicate key `{key}`", hint))
            elif is_merge:
                merged = True
                for part in value.value if isinstance(value.value, list) else [value]:
                    if not isinstance(part.value, dict):
                        self.stop(value_event, "`<<` of something that is not a mapping")
                    inherited = {**part.value, **inherited}
            else:
                own[key] = replace(value, key_mark=key_mark)
        children = {**inherited, **own}
        return YamlNode(children, mark, size=1 + sum(child.size for child in children.values()))
