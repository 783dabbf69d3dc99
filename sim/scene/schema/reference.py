"""The page docs/reference/scene.md: every key of a scene, from the schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sim.identify.losses.terms import custom
from sim.scene.schema.keys.common import value
from sim.scene.schema.keys.materials import MaterialSpec
from sim.scene.schema.keys.scene import scene_schema
from sim.schema.containers import Table
from sim.schema.reading import Default, Kind, SchemaLine, yaml_text

_HEAD = """# Scene files: every key

A scene is a YAML file: what there is, what was recorded of it, and what is sought. `simopt check` reads it and names \
all problems with file, line and column, `simopt run` simulates it and searches.

```yaml
format: 2
time: {duration: 2, fps: 50, substeps: 10}      # s, 1/s, steps for each frame
objects:
  rope:
    chain:
      {from: [0, 0, 0], to: [0, -1, 0], points: 6, mass: 300 g,
       material: {distance: {compliance: 0.05}}}    # m/N
attachments:
  top: {on: rope, where: {y: [-0.01, null]}}    # held where it is
markers:
  end: {on: rope, where: {y: [null, -0.99]}}    # what a camera saw
experiments:
  take: {target: {file: take.csv, noise: 1 mm}}
parameters:
  compliance: {of: objects.rope.chain.material.distance.compliance, transform: log}
loss:
  - {match: end}
```

[The gallery](../gallery/index.md) and the folder `scenes/` have whole ones. This page is generated from the schema \
(`sim/scene/schema/keys/`).

Numbers are in SI units; a text may carry another unit (`5 mm`). *May vary*: the number may be a parameter. NAME \
stands for names that you choose, INDEX for places in a list, from 0."""
_CHOSEN = re.compile(r"<(\w+)>")


def scene_reference(materials: Mapping[str, MaterialSpec]) -> str:
    """The reference of the scene format in Markdown: a table of keys for every mapping of a scene."""
    parts = [_HEAD]
    for path, chosen, table in _tables("", scene_schema(materials).kind):
        parts.append(f"## {path}{f', with `{chosen}`' if chosen else ''}" if path else "## A scene")
        parts += [f"Exactly one of {_names(group)}." for group in table.one_of if group != (table.only_if,)]
        parts += [f"At most one of {_names(group)}." for group in table.at_most_one]
        if table.needs_one:
            parts.append("At least one key.")
        parts.append(_rows(table) if table.lines else "No keys.")
    parts += ["## Material values", "In place of one number."]
    parts += [_rows(kind) for kind in value("", "", each=True).kinds if isinstance(kind, Table)]
    parts += ["## Losses of your own", "Named by `custom` in `loss`.", (custom.__doc__ or "").strip()]
    # in Markdown `<name>` would be a tag, and lost
    return _CHOSEN.sub(lambda found: found[1].upper(), "\n\n".join(parts)) + "\n"


def _tables(path: str, kind: Kind) -> Iterator[tuple[str, str, Table]]:
    """Every table of the schema with its path, outer ones first; one that stands in several places once.

    Between them the key that a table is chosen by, or one around it, where there are several of its path; else "".
    """
    seen: list[Table] = []
    waiting = [(path, "", kind)]
    while waiting:
        path, chosen, kind = waiting.pop(0)
        if isinstance(kind, Table):
            if kind in seen or kind.short:  # material values have a chapter of their own
                continue
            seen.append(kind)
            chosen = kind.only_if or chosen
            yield path, chosen, kind
        parts = sorted(kind.nested(path), key=lambda part: isinstance(part[1], Table) and bool(part[1].only_if))
        waiting = [(inner, chosen, part) for inner, part in parts] + waiting


def _rows(table: Table) -> str:
    rows = ["| key | value | default | may vary | meaning |", "|---|---|---|---|---|"]
    return "\n".join(rows + [_row(line) for line in table.lines])


def _row(line: SchemaLine) -> str:
    if line.default is Default.REQUIRED:
        default = "**needed**"
    else:
        default = "" if line.default is Default.ABSENT else f"`{yaml_text(line.default)}`"
    doc = line.doc
    if line.only_with:
        doc += " (with " + " or ".join(f"`{name}`" for name in line.only_with) + ")"
    cells = [f"`{line.name}`", line.kind.cell(), default, "yes" if line.may_vary else "", doc]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _names(group: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in group)
