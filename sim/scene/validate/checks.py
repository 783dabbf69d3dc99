"""What has to hold between the parts of a scene: names that are referred to, materials, motions, experiments.

Every check looks only at what could be read, notes its problems in the `Reading`, and never stops at the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sim.identify.data.measures import check_measure
from sim.scene.schema.keys.common import MOST_CELLS
from sim.scene.schema.keys.materials import MaterialSpec
from sim.scene.schema.paths import NoSuchPath, SceneValue, find, path_hint
from sim.schema.errors import word_hint
from sim.schema.kinds import Axes
from sim.schema.reading import BROKEN, Reading, SchemaLine, Steps

OBJECT_KINDS = ("cloth", "soft", "chain", "particles", "body", "rod")


def check_parts(
    data: dict[str, Any], root: SchemaLine, materials: Mapping[str, MaterialSpec], reading: Reading
) -> None:
    """Objects, shapes, attachments, markers, measures and experiments; fills in defaults that depend on other parts."""
    for name, shape in data.get("shapes", {}).items():
        if "touches" not in shape and not reading.is_broken(("shapes", name, "touches")):
            shape["touches"] = list(reading.names.get("objects", []))
    _objects(data, materials, reading)
    _touches(data, reading)
    _drives(data, reading)
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


def existing(
    root: SchemaLine,
    data: dict[str, Any],
    path: str,
    reading: Reading,
    place: Steps,
    by_key: bool,
    accept: Callable[[SceneValue], bool],
) -> SceneValue | None:
    """What stands at a path that is named at `place` (as a key, if `by_key`); None, and a problem, where nothing does.

    accept: what the path could have meant.
    """
    try:
        found = find(root, data, path)
        steps, present = found.steps, found.present
    except NoSuchPath as error:
        steps, present = error.steps, False
    if present:
        return found
    if not reading.is_broken(steps):
        hint = path_hint(root, data, path, accept)
        reading.problem(place, f"`{path}` does not exist in this scene", hint, key=by_key)
    return None


def _objects(data: dict[str, Any], materials: Mapping[str, MaterialSpec], reading: Reading) -> None:
    if data.get("objects") == {} and "objects" not in reading.broken and not reading.names.get("objects"):
        reading.problem(("objects",), "no object", "give one: a cloth, a solid, a chain, a body, a rod", key=True)
    for steps, entry in parts(data, "objects"):
        if steps[-1] == "world" and ("body" in entry or "rod" in entry):
            what = "`world` is what joints and clamps hold to, not one of the bodies"
            reading.problem(steps, what, "choose another name", key=True)
        for kind in OBJECT_KINDS:
            body = entry.get(kind, {})
            place = (*steps, kind)
            _geometry(body, place, reading)
            _material(body.get("material", {}), place, entry, materials, reading)
            for key in ("density", "mass"):
                _regions(body.get(key), (*place, key), entry, reading)


def _touches(data: dict[str, Any], reading: Reading) -> None:
    """A body is rigid, and touches not itself."""
    for steps, entry in parts(data, "objects"):
        named = entry.get("body", {}).get("touches", [])
        if steps[-1] in named:
            place = (*steps, "body", "touches", str(named.index(steps[-1])))
            reading.problem(place, f"`{steps[-1]}` is the body itself", "name the objects that it should collide with")


def _drives(data: dict[str, Any], reading: Reading) -> None:
    """Targets over time: a value for each moment, one after the other."""
    for steps, entry in parts(data, "joints"):
        keys = entry.get("drive", {}).get("keys", {})
        times, values = keys.get("times"), keys.get("values")
        if times is None or values is None:
            continue
        place = (*steps, "drive", "keys")
        if len(times) != len(values) or len(times) < 2:
            what = f"{len(times)} `times` and {len(values)} `values`"
            reading.problem(place, what, "give as many of each, two at least")
        elif any(later <= before for before, later in zip(times, times[1:], strict=False)):
            reading.problem((*place, "times"), "times that do not increase", "sort them, each with its value")


def _geometry(body: Mapping[str, Any], steps: Steps, reading: Reading) -> None:
    """A body of a length, not too large, and not the mirror image of its file."""
    if "mesh" in body:
        _axes(body["mesh"], (*steps, "mesh"), reading)
    for table in ("shapes", "visuals"):
        for name, form in body.get(table, {}).items():
            _axes(form.get("mesh", {}), (*steps, table, name, "mesh"), reading)
    if "from" in body and body["from"] == body.get("to"):
        reading.problem((*steps, "to"), "the chain has length zero: `from` and `to` are the same point")
    for made in ("grid", "lattice"):
        cells = body.get(made, {}).get("cells", [])
        if math.prod(cells) > MOST_CELLS:
            sides = " x ".join(str(n) for n in cells)
            what = f"{sides} are {math.prod(cells):,} cells, more than {MOST_CELLS:,}"
            reading.problem((*steps, made, "cells"), what, "give fewer along each side")


def _material(
    material: Mapping[str, Any],
    steps: Steps,
    entry: Mapping[str, Any],
    materials: Mapping[str, MaterialSpec],
    reading: Reading,
) -> None:
    """Constraints that act on this kind of body, with values for regions that the object has."""
    kind = steps[-1]
    for name, values in material.items():
        place, accepted = (*steps, "material", name), materials[name].objects
        if accepted and kind not in accepted:
            allowed = " and ".join(f"`{other}`" for other in accepted)
            reading.problem(place, f"`{name}` does not act on a `{kind}`", f"it acts on {allowed}", key=True)
        for key, value in values.items():
            _regions(value, (*place, key), entry, reading)


def _regions(value: Any, steps: Steps, entry: Mapping[str, Any], reading: Reading) -> None:
    """The regions of a value must be those of its object."""
    known = entry.get("regions", {})
    place = (*steps, "regions")
    if not isinstance(value, dict) or "regions" not in value:
        return
    if not value["regions"] and not any(broken[: len(place)] == place for broken in reading.broken):
        reading.problem(place, "no region", "give `name: value` for each, or one number for the whole object", key=True)
    for name in value["regions"]:
        if name not in known and not reading.is_broken((*steps[:2], "regions", name)):
            hint = word_hint(name, known) or f"choose its points in `{'.'.join(steps[:2])}.regions.{name}`"
            reading.problem((*steps, "regions", name), f"unknown region `{name}`", hint, key=True)


def _axes(file: Mapping[str, Any], steps: Steps, reading: Reading) -> None:
    if "axes" in file and not file.get("mirror", False) and not Axes.is_rotation(file["axes"]):
        what = f"[{', '.join(file['axes'])}] swaps left and right"
        reading.problem((*steps, "axes"), what, "change one sign, or allow it with `mirror: true`")


def _motions(data: dict[str, Any], reading: Reading) -> None:
    bodies = [((*steps, "body"), entry.get("body", {})) for steps, entry in parts(data, "objects")]
    for steps, entry in [*parts(data, "attachments"), *bodies]:
        for i, motion in enumerate(entry.get("motion", [])):
            if "start" in motion and "end" in motion and motion["end"] <= motion["start"]:
                what = f"the {'turn' if 'turn' in motion else 'move'} ends at {motion['end']:g} s"
                problem = f"{what} and starts at {motion['start']:g} s"
                reading.problem((*steps, "motion", str(i), "end"), problem)


def _targets(data: dict[str, Any], reading: Reading) -> None:
    for steps, entry in parts(data, "experiments"):
        target = entry.get("target", {})
        _axes(target, (*steps, "target"), reading)
        for name, columns in target.get("markers", {}).items():
            marker = data.get("markers", {}).get(name, {})
            count = len(marker["at"]) if "at" in marker else marker.get("farthest")
            if count is not None and len(columns) != count:
                what = f"{len(columns)} columns for the {count} points of `markers.{name}`"
                reading.problem((*steps, "target", "markers", name), what)


def _sets(data: dict[str, Any], root: SchemaLine, reading: Reading) -> None:
    """Reads the values of experiments' `set` as the lines of their paths say."""
    for steps, entry in parts(data, "experiments"):
        values = entry.get("set", {})
        for path in list(values):
            place = (*steps, "set", path)
            found = existing(root, data, path, reading, place, True, lambda other: other.present and other.may_be_set)
            if found is None:
                continue
            if not found.may_be_set:
                hint = "experiments share the model: what may differ is world, time, shapes, attachments, loads, and "
                hint += "how objects are placed and start"
                reading.problem(place, f"an experiment cannot set `{path}`", hint, key=True)
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
