"""Objects of a scene, handed to a `ModelBuilder`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sim.constraints import Constraint
from sim.constraints.bend import bend_of_format_1
from sim.files import FileError, read_npy
from sim.geometry import (
    TET_FORMATS,
    GeometryError,
    assign_regions,
    fill_surface,
    load_mesh,
    load_tets,
    rotation_from_axis_angle,
    solid_grid,
    subdivide_tets,
    subdivide_triangles,
)
from sim.model import Each, Group
from sim.scene.build.context import BuildContext, ByRegion

_MEANT: dict[int, dict[str, Constraint]] = {1: {"bend": bend_of_format_1}}
"""What the name of a constraint means in a version of the scene format, where it is another one than now."""


@dataclass(frozen=True)
class _Object:
    """An object on its way from the scene to the builder.  kind: of its body, `cloth` or another of `_ADD`."""

    context: BuildContext
    name: str
    kind: str
    entry: dict[str, Any]

    @property
    def path(self) -> str:
        """Of the body, in the scene."""
        return f"objects.{self.name}.{self.kind}"

    @property
    def body(self) -> dict[str, Any]:
        return self.entry[self.kind]

    @property
    def meant(self) -> dict[str, Constraint]:
        """What constraints mean in the format of this scene, where it is something else than their names say now."""
        return _MEANT.get(self.context.scene.data.get("format", 0), {})

    def common(self) -> dict[str, Any]:
        """What the builder wants to know of every object: its name, placement and material."""
        rotation = self.entry["rotation"]
        return {
            "label": self.name,
            "pos": self.entry["position"],
            "rot": rotation_from_axis_angle(rotation["axis"], rotation["angle"]) if rotation["angle"] else None,
            "scale": self.entry["scale"],
            "vel": self.entry["velocity"],
            "spin": self.entry["spin"],
            "material": {
                self.meant.get(constraint, constraint): _values(
                    self.context, f"{self.path}.material.{constraint}", keys
                )
                for constraint, keys in self.body["material"].items()
            },
        }

    def value(self, key: str) -> Any:
        """The density or mass of the body."""
        return _value(self.context, f"{self.path}.{key}", self.body[key])


def add_objects(context: BuildContext) -> None:
    """Every object of particles; `context.groups` then has its points."""
    for name, entry in context.entries("objects"):
        kind = next((kind for kind in _ADD if kind in entry), "")
        if not kind:
            continue
        made = _Object(context, name, kind, entry)
        with context.at(made.path, material=f"{made.path}.material"):
            context.groups[name] = group = _ADD[made.kind](made)
            for key in ("position", "velocity"):
                if f"objects.{name}.{key}" in context.per_element:
                    context.builder.give_each_point(group, key)
            if any(entry["turn"]):
                context.builder.set_rotation(group, entry["turn"])
            _spread_regions(made, group)
            for constraint in made.meant.keys() & made.body["material"].keys():
                what = f"{made.path}.material.{constraint}: compliances of format 1 are three times those of format 2"
                context.warnings.append(f"{what}; divide them, and what is said of them, by 3 to go over to it")
            if kind != "particles" and not made.body["material"]:
                context.warnings.append(f"{made.path}: nothing holds its points together; give it a `material`")
            if entry["drag"] or ("objects", name, "drag") in context.varied:
                context.builder.set_drag(group, entry["drag"])
            if "air" in entry:
                with context.at(f"objects.{name}.air"):
                    context.builder.set_air(group, **entry["air"])
    objects = context.data.get("objects", {}).values()
    if any(context.data.get("world", {}).get("wind", ())) and not any("air" in entry for entry in objects):
        context.warnings.append("world.wind: no object feels it; give one `air: {normal: 1.2}`")


def _cloth(made: _Object) -> Group:
    cloth, builder = made.body, made.context.builder
    options = {**made.common(), "density": made.value("density"), "thickness": cloth["thickness"]}
    if "grid" in cloth:
        width, height = cloth["grid"]["size"]
        columns, rows = (made.context.finer * n for n in cloth["grid"]["cells"])
        return builder.add_cloth_grid(
            dim_x=columns, dim_y=rows, cell_x=width / columns, cell_y=height / rows, **options
        )
    mesh = cloth["mesh"]
    file = made.context.scene.file(f"{made.path}.mesh.file")
    loaded = load_mesh(file, mesh["unit"], mesh["axes"], mesh["mirror"])
    if made.context.finer > 1:
        points, triangles = subdivide_triangles(loaded.positions, loaded.triangles)
        loaded = replace(loaded, positions=points, triangles=triangles)
    return builder.add_cloth_mesh(mesh=loaded, **options)


def _soft(made: _Object) -> Group:
    soft, context = made.body, made.context
    options = {**made.common(), "density": made.value("density"), "element": soft["element"]}
    if "lattice" in soft:
        lattice = soft["lattice"]
        cells = [context.finer * n for n in lattice["cells"]]
        box = solid_grid(*cells, *(size / n for size, n in zip(lattice["size"], cells, strict=True))).mesh
        moved = replace(box, positions=box.positions + np.array(lattice["origin"]))
        return context.builder.add_soft_mesh(mesh=moved, **options)
    mesh = soft["mesh"]
    file = context.scene.file(f"{made.path}.mesh.file")
    space = mesh["unit"], mesh["axes"], mesh["mirror"]
    surface = None
    if file.suffix.lower() in TET_FORMATS:
        if "tetrahedralize" in mesh:
            what = f"`{mesh['file']}` holds tetrahedra already"
            context.problem(f"{made.path}.mesh.tetrahedralize", what, "remove it")
        solid = load_tets(file, *space)
        if context.finer > 1:
            solid = subdivide_tets(solid)
    else:
        closed = load_mesh(file, *space)
        if "tetrahedralize" not in mesh:
            raise GeometryError(f"`{mesh['file']}` is a surface", "Add `tetrahedralize: {lattice: 24}` to fill it")
        cells_along = context.finer * mesh["tetrahedralize"]["lattice"]
        solid, surface = fill_surface(closed.positions, closed.triangles, cells_along)
    context.warnings += [f"{made.path}: {note}" for note in solid.notes]
    return context.builder.add_soft_mesh(mesh=solid, surface=surface, **options)


def _chain(made: _Object) -> Group:
    chain = made.body
    return made.context.builder.add_chain(chain["from"], chain["to"], chain["points"], chain["mass"], **made.common())


def _particles(made: _Object) -> Group:
    return made.context.builder.add_particles(made.body["positions"], made.value("mass"), **made.common())


_ADD: dict[str, Callable[[_Object], Group]] = {
    "cloth": _cloth,
    "soft": _soft,
    "chain": _chain,
    "particles": _particles,
}


def _values(context: BuildContext, path: str, keys: dict[str, Any]) -> dict[str, Any]:
    """The values of a constraint, and of each of its branches, as the builder takes them."""
    return {
        key: [_values(context, f"{path}.{key}.{k}", branch) for k, branch in enumerate(value)]
        if isinstance(value, list)
        else _value(context, f"{path}.{key}", value)
        for key, value in keys.items()
    }


def _value(context: BuildContext, path: str, value: Any) -> Any:
    """A material value as the builder takes it: a number, an array, or {"each": alpha}."""
    if not isinstance(value, dict):
        return Each(value) if path in context.per_element else value
    if "each" in value:
        return {"each": Each(value["each"])} if f"{path}.each" in context.per_element else value
    if "regions" in value:
        # That of one of them, until the elements are there to be told apart.
        return next(iter(value["regions"].values()), 1.0)
    loaded = _numbers_of_file(context, f"{path}.file", value["file"])
    return 1.0 if loaded is None else loaded


def _numbers_of_file(context: BuildContext, path: str, name: str) -> np.ndarray | None:
    """One number for each element, from the .npy file that stands at a path; None, and a problem, if it has none."""
    file = context.scene.file(path)
    try:
        loaded = read_npy(file)
    except FileError as error:
        context.problem(path, f"cannot read `{name}`: {error.what}", error.hint)
        return None
    if loaded.dtype.kind not in "fiu":
        context.problem(path, f"`{name}` holds no array of numbers", "write it by numpy.save")
        return None
    broken = np.argwhere(~np.isfinite(loaded))
    if len(broken):
        first = ", ".join(str(k) for k in broken[0])
        what = f"`{name}`: value {first} is not finite, as are {len(broken)} in all"
        context.problem(path, what, "every element needs a number")
        return None
    return loaded


def _spread_regions(made: _Object, group: Group) -> None:
    """Gives every element the value of its region."""
    context, body = made.context, made.body
    chosen: dict[str, np.ndarray] = {}
    for region, where in made.entry["regions"].items():
        with context.at(f"objects.{made.name}.regions.{region}"):
            chosen[region] = context.chosen(made.name, where)
    meet = all("group" in where for where in made.entry["regions"].values())  # parts of a mesh share their interfaces
    values = {f"{made.path}.{key}": body.get(key) for key in ("density", "mass")}
    for constraint, keys in body["material"].items():
        values |= {f"{made.path}.material.{constraint}.{key}": value for key, value in keys.items()}
    for place, value in values.items():
        if not isinstance(value, dict) or "regions" not in value or not value["regions"].keys() <= chosen.keys():
            continue
        key = str(context.scene.find(place).model_path).removeprefix(f"{made.name}.")
        elements = group.elements[key.partition(".")[0]] if "." in key else group.points[:, None]
        # Between two regions the order of the object decides, alike for all of its values.
        names = tuple(region for region in chosen if region in value["regions"])
        with context.at(f"{place}.regions"):
            found = ByRegion(names, assign_regions(elements, {region: chosen[region] for region in names}, meet))
            context.by_region[place] = found
            numbers = np.array([value["regions"][region] for region in names])
            context.builder.set_values(group, key, numbers[found.source])
