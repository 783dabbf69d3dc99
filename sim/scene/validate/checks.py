"""What has to hold between the parts of a scene: names that are referred to, materials, motions, experiments.

Every check looks only at what could be read, notes its problems in the `Reading`, and never stops at the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from sim.identify.data.measures import check_measure
from sim.scene.schema.keys.common import MOST_CELLS
from sim.scene.schema.keys.materials import MaterialSpec
from sim.scene.schema.paths import NoSuchPath, find, path_hint
from sim.schema.errors import word_hint
from sim.schema.kinds import Axes
from sim.schema.reading import BROKEN, Reading, SchemaLine, Steps

OBJECT_KINDS = ("cloth", "soft", "chain", "particles")


def check_parts(
    data: dict[str, Any], root: SchemaLine, materials: Mapping[str, MaterialSpec], reading: Reading
) -> None:
    """Objects, shapes, attachments, markers, measures and experiments; fills in defaults that depend on other parts."""
    for name, shape in data.get("shapes", {}).items():
        if "touches" not in shape and not reading.is_broken(("shapes", name, "touches")):
            shape["touches"] = list(reading.names.get("objects", []))
    _objects(data, materials, reading)
    _motions(data, reading)
    for steps, entry in parts(data, "measures"):
        check_measure(steps, entry, reading)
    _targets(data, reading)
    _sets(data, root, reading)


def check_references(reading: Reading) -> None:
    """Every name that refers to an entry of a table must be one."""
    for steps, table, name in reading.references:
        known = reading.names.get(table, [])
        if name not in known and not reading.is_broken((table,)):
            none = f"the scene has no `{table}`" if not known else ""
            reading.problem(steps, f"unknown {table.removesuffix('s')} `{name}`", none or word_hint(name, known))


def parts(data: Mapping[str, Any], *tables: str) -> Iterator[tuple[Steps, dict[str, Any]]]:
    """Place and data of every entry of some top-level tables."""
    for table in tables:
        for name, entry in data.get(table, {}).items():
            yield (table, name), entry


def _objects(data: dict[str, Any], materials: Mapping[str, MaterialSpec], reading: Reading) -> None:
    if data.get("objects") == {} and "objects" not in reading.broken and not reading.names.get("objects"):
        reading.problem(("objects",), "no object", "give one: a cloth, a soft body, a chain or particles", key=True)
    for steps, entry in parts(data, "objects"):
        for kind in OBJECT_KINDS:
            body = entry.get(kind, {})
            place = (*steps, kind)
            if "mesh" in body:
                _axes(body["mesh"], (*place, "mesh"), reading)
            if kind == "chain" and "from" in body and body["from"] == body.get("to"):
                reading.problem((*place, "to"), "the chain has length zero: `from` and `to` are the same point")
            for made in ("grid", "lattice"):
                cells = body.get(made, {}).get("cells", [])
                if math.prod(cells) > MOST_CELLS:
                    reading.problem(
                        (*place, made, "cells"),
                        f"{' x '.join(str(n) for n in cells)} are {math.prod(cells):,} cells, more than {MOST_CELLS:,}",
                        "give fewer along each side",
                    )
            for name, values in body.get("material", {}).items():
                accepted = materials[name].objects
                if accepted and kind not in accepted:
                    allowed = " and ".join(f"`{other}`" for other in accepted)
                    reading.problem(
                        (*place, "material", name),
                        f"`{name}` does not act on a `{kind}`",
                        f"it acts on {allowed}",
                        key=True,
                    )
                for key, value in values.items():
                    _regions(value, (*place, "material", name, key), entry, reading)
            for key in ("density", "mass"):
                _regions(body.get(key), (*place, key), entry, reading)


def _regions(value: Any, steps: Steps, entry: Mapping[str, Any], reading: Reading) -> None:
    """The regions of a value must be those of its object."""
    known = entry.get("regions", {})
    place = (*steps, "regions")
    if (
        isinstance(value, dict)
        and value.get("regions") == {}
        and not any(broken[: len(place)] == place for broken in reading.broken)
    ):
        reading.problem(place, "no region", "give `name: value` for each, or one number for the whole object", key=True)
    for name in value.get("regions", {}) if isinstance(value, dict) else ():
        if name not in known and not reading.is_broken((*steps[:2], "regions", name)):
            hint = word_hint(name, known) or f"choose its points in `{'.'.join(steps[:2])}.regions.{name}`"
            reading.problem((*steps, "regions", name), f"unknown region `{name}`", hint, key=True)


def _axes(file: Mapping[str, Any], steps: Steps, reading: Reading) -> None:
    if "axes" in file and not file.get("mirror", False) and not Axes.is_rotation(file["axes"]):
        reading.problem(
            (*steps, "axes"),
            f"[{', '.join(file['axes'])}] swaps left and right",
            "change one sign, or allow it with `mirror: true`",
        )


def _motions(data: dict[str, Any], reading: Reading) -> None:
    for steps, entry in parts(data, "attachments"):
        for i, motion in enumerate(entry.get("motion", [])):
            if "start" in motion and "end" in motion and motion["end"] <= motion["start"]:
                reading.problem(
                    (*steps, "motion", str(i), "end"),
                    f"the move ends at {motion['end']:g} s and starts at {motion['start']:g} s",
                )


def _targets(data: dict[str, Any], reading: Reading) -> None:
    for steps, entry in parts(data, "experiments"):
        target = entry.get("target", {})
        _axes(target, (*steps, "target"), reading)
        for name, columns in target.get("markers", {}).items():
            marker = data.get("markers", {}).get(name, {})
            count = len(marker["at"]) if "at" in marker else marker.get("farthest")
            if count is not None and len(columns) != count:
                reading.problem(
                    (*steps, "target", "markers", name),
                    f"{len(columns)} columns for the {count} points of `markers.{name}`",
                )


def _sets(data: dict[str, Any], root: SchemaLine, reading: Reading) -> None:
    """Reads the values of experiments' `set` as the lines of their paths say."""
    for steps, entry in parts(data, "experiments"):
        values = entry.get("set", {})
        for path in list(values):
            place = (*steps, "set", path)
            try:
                found = find(root, data, path)
            except NoSuchPath as error:
                found, unknown = None, error.steps
            if found is None or not found.present:
                if not reading.is_broken(found.steps if found else unknown):
                    hint = path_hint(root, data, path, lambda other: other.present and other.may_be_set)
                    reading.problem(place, f"`{path}` does not exist in this scene", hint, key=True)
            elif not found.may_be_set:
                reading.problem(
                    place,
                    f"an experiment cannot set `{path}`",
                    "experiments share the model: what may differ is world, time, shapes, attachments, "
                    "loads, and how objects are placed and start",
                    key=True,
                )
            else:
                value = found.line.kind.read(reading.deferred[place], place, reading)
                if value is not BROKEN:
                    values[path] = value
    _sets_once(data, reading)


def _sets_once(data: dict[str, Any], reading: Reading) -> None:
    """Of two paths of one `set`, none may hold the other: their order would decide."""
    for steps, entry in parts(data, "experiments"):
        paths = list(entry.get("set", {}))
        for i, path in enumerate(paths):
            for earlier in paths[:i]:
                if path.startswith(earlier + ".") or earlier.startswith(path + "."):
                    reading.problem((*steps, "set", path), f"`{earlier}` and `{path}` set the same value", key=True)
