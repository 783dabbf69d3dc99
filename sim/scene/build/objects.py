"""Objects, shapes and attachments of a scene, handed to a `ModelBuilder`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

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
)
from sim.model import Each, Group
from sim.scene.build.context import BuildContext, ByRegion

TOUCHING = 1e-9
"""Depth [m] below which a point on the surface of a shape is not inside of it."""


def add_parts(context: BuildContext) -> np.ndarray:
    """Objects, attachments, shapes and loads; the particles (n,) that are pinned."""
    _check_names(context)
    add_objects(context)
    attached = add_attachments(context)
    pinned = [points for name, points in attached.items() if context.data["attachments"][name]["compliance"] == 0.0]
    held = np.concatenate([np.zeros(0, np.int32), *pinned])
    add_shapes(context)
    add_loads(context)
    if not any(path.startswith("attachments.") for path in context.skipped):  # else it is not known what is held
        check_inside(context, held)
    return held


def _check_names(context: BuildContext) -> None:
    """Objects, shapes, attachments and loads name material values of one model: a name is used once among them."""
    taken = {"gravity": "world.gravity"}
    for table in ("objects", "shapes", "attachments", "loads"):
        for name in context.data[table]:
            if name in taken:
                context.problem(
                    f"{table}.{name}", f"the name `{name}` is taken by `{taken[name]}`", "choose another name"
                )
                context.skipped.add(f"{table}.{name}")
            taken.setdefault(name, f"{table}.{name}")


def add_objects(context: BuildContext) -> None:
    """Every object of the scene; `context.groups` then has its points."""
    add = {"cloth": _cloth, "soft": _soft, "chain": _chain, "particles": _particles}
    for name, entry in context.entries("objects"):
        kind = next(kind for kind in ("cloth", "soft", "chain", "particles") if kind in entry)
        path = f"objects.{name}.{kind}"
        with context.at(path, material=f"{path}.material"):
            material = _material(context, f"{path}.material", entry[kind]["material"])
            context.groups[name] = group = add[kind](context, path, name, entry, material)
            for key in ("position", "velocity"):
                if f"objects.{name}.{key}" in context.per_element:
                    context.builder.give_each_point(group, key)
            _spread_regions(context, name, path, entry)
            if entry["drag"] or ("objects", name, "drag") in context.varied:
                context.builder.set_drag(group, entry["drag"])


def add_shapes(context: BuildContext) -> None:
    """Every shape of the scene."""
    for name, entry in context.entries("shapes"):
        touches = [on for on in entry["touches"] if on in context.groups]
        if not touches:
            continue
        with context.at(f"shapes.{name}"):
            common = {"compliance": entry["compliance"], "touches": touches, "label": name}
            if "sphere" in entry:
                context.builder.add_shape_sphere(entry["sphere"]["center"], entry["sphere"]["radius"], **common)
            else:
                plane = entry["plane"]
                context.builder.add_ground_plane(point=plane["point"], normal=plane["normal"], **common)


def add_loads(context: BuildContext) -> None:
    """Every load of the scene."""
    for name, entry in context.entries("loads"):
        if entry["on"] not in context.groups:
            continue
        points = None
        with context.at(f"loads.{name}.where"):
            points = context.groups[entry["on"]].choose(entry["where"])
        with context.at(f"loads.{name}"):
            if points is not None:
                context.builder.add_load(points, entry["mass"], label=name)


def add_attachments(context: BuildContext) -> dict[str, np.ndarray]:
    """Every attachment of the scene; the particles of each by its name."""
    attached = {}
    for name, entry in context.entries("attachments"):
        if entry["on"] not in context.groups:
            continue
        points = None
        with context.at(f"attachments.{name}.where"):
            points = context.groups[entry["on"]].choose(entry["where"])
        if points is None:
            continue
        with context.at(f"attachments.{name}"):
            context.builder.add_attachment(points, entry["motion"] or None, entry["compliance"], label=name)
            attached[name] = points
    return attached


def check_inside(context: BuildContext, pinned: np.ndarray) -> None:
    """Points that start inside a shape: a problem where they are deeper than the thickness of the object, else a note.

    pinned: particles that no contact moves.
    """
    for name, entry in context.entries("shapes"):
        for on in entry["touches"]:
            if on not in context.groups:
                continue
            group, body = context.groups[on], context.data["objects"][on]
            thickness = body.get("cloth", {}).get("thickness", 0.0)
            free = ~np.isin(group.points, pinned)
            depth = thickness - _height(entry, group.positions)[free]
            inside = depth[depth > TOUCHING]
            if not len(inside):
                continue
            what = f"{len(inside)} points of `{on}` start inside the shape `{name}`, at most {inside.max():.3g} m deep"
            if inside.max() > thickness + TOUCHING:
                context.problem(f"shapes.{name}", what, f"move the shape, or `objects.{on}.position`")
            else:
                context.warnings.append(f"{what}: the contact pushes them out at the start")


def _height(shape: dict[str, Any], positions: np.ndarray) -> np.ndarray:
    """Distance of points (n, 3) from the surface of a shape [m], negative inside."""
    if "sphere" in shape:
        sphere = shape["sphere"]
        return np.linalg.norm(positions - np.array(sphere["center"]), axis=1) - sphere["radius"]
    normal = np.array(shape["plane"]["normal"]) / np.linalg.norm(shape["plane"]["normal"])
    return (positions - np.array(shape["plane"]["point"])) @ normal


def _spread_regions(context: BuildContext, name: str, path: str, entry: dict[str, Any]) -> None:
    """Gives every element the value of its region."""
    group, body = context.groups[name], entry[path.rpartition(".")[2]]
    chosen = {}
    for region, where in entry["regions"].items():
        with context.at(f"objects.{name}.regions.{region}"):
            chosen[region] = group.choose(where)
    values = {f"{path}.{key}": body.get(key) for key in ("density", "mass")}
    values |= {
        f"{path}.material.{constraint}.{key}": value
        for constraint, keys in body["material"].items()
        for key, value in keys.items()
    }
    for place, value in values.items():
        if not isinstance(value, dict) or "regions" not in value or not value["regions"].keys() <= chosen.keys():
            continue
        key = str(context.scene.find(place).model_path).removeprefix(f"{name}.")
        elements = group.elements[key.rpartition(".")[0]] if "." in key else group.points[:, None]
        # Between two regions the order of the object decides, alike for all of its values.
        names = tuple(region for region in chosen if region in value["regions"])
        with context.at(f"{place}.regions"):
            context.by_region[place] = found = ByRegion(
                names, assign_regions(elements, {region: chosen[region] for region in names})
            )
            context.builder.set_values(
                group, key, np.array([value["regions"][region] for region in names])[found.source]
            )


def _placement(entry: dict[str, Any]) -> dict[str, Any]:
    rotation = entry["rotation"]
    turn = rotation_from_axis_angle(rotation["axis"], rotation["angle"]) if rotation["angle"] else None
    return {
        "pos": entry["position"],
        "rot": turn,
        "scale": entry["scale"],
        "vel": entry["velocity"],
        "spin": entry["spin"],
    }


def _cloth(context: BuildContext, path: str, name: str, entry: dict[str, Any], material: dict[str, Any]) -> Group:
    cloth = entry["cloth"]
    options = {
        **_placement(entry),
        "density": _value(context, f"{path}.density", cloth["density"]),
        "label": name,
        "material": material,
        "thickness": cloth["thickness"],
    }
    if "grid" in cloth:
        (width, height), (columns, rows) = cloth["grid"]["size"], cloth["grid"]["cells"]
        return context.builder.add_cloth_grid(
            dim_x=columns, dim_y=rows, cell_x=width / columns, cell_y=height / rows, **options
        )
    mesh = cloth["mesh"]
    file = context.scene.file(f"{path}.mesh.file")
    return context.builder.add_cloth_mesh(mesh=load_mesh(file, mesh["unit"], mesh["axes"], mesh["mirror"]), **options)


def _soft(context: BuildContext, path: str, name: str, entry: dict[str, Any], material: dict[str, Any]) -> Group:
    soft = entry["soft"]
    options = {
        **_placement(entry),
        "density": _value(context, f"{path}.density", soft["density"]),
        "label": name,
        "material": material,
    }
    if "lattice" in soft:
        lattice = soft["lattice"]
        sizes = [size / cells for size, cells in zip(lattice["size"], lattice["cells"], strict=True)]
        box = solid_grid(*lattice["cells"], *sizes).mesh
        return context.builder.add_soft_mesh(
            mesh=replace(box, positions=box.positions + np.array(lattice["origin"])), **options
        )
    mesh = soft["mesh"]
    file = context.scene.file(f"{path}.mesh.file")
    space = mesh["unit"], mesh["axes"], mesh["mirror"]
    surface = None
    if file.suffix.lower() in TET_FORMATS:
        if "tetrahedralize" in mesh:
            context.problem(f"{path}.mesh.tetrahedralize", f"`{mesh['file']}` holds tetrahedra already", "remove it")
        solid = load_tets(file, *space)
    else:
        closed = load_mesh(file, *space)
        if "tetrahedralize" not in mesh:
            raise GeometryError(f"`{mesh['file']}` is a surface", "Add `tetrahedralize: {lattice: 24}` to fill it")
        solid, surface = fill_surface(closed.positions, closed.triangles, mesh["tetrahedralize"]["lattice"])
    context.warnings += [f"{path}: {note}" for note in solid.notes]
    return context.builder.add_soft_mesh(mesh=solid, surface=surface, **options)


def _chain(context: BuildContext, path: str, name: str, entry: dict[str, Any], material: dict[str, Any]) -> Group:
    chain = entry["chain"]
    return context.builder.add_chain(
        chain["from"], chain["to"], chain["points"], chain["mass"], label=name, material=material, **_placement(entry)
    )


def _particles(context: BuildContext, path: str, name: str, entry: dict[str, Any], material: dict[str, Any]) -> Group:
    particles = entry["particles"]
    return context.builder.add_particles(
        particles["positions"],
        _value(context, f"{path}.mass", particles["mass"]),
        label=name,
        material=material,
        **_placement(entry),
    )


def _material(context: BuildContext, path: str, material: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {key: _value(context, f"{path}.{name}.{key}", value) for key, value in keys.items()}
        for name, keys in material.items()
    }


def _value(context: BuildContext, path: str, value: Any) -> Any:
    """A material value as the builder takes it: a number, an array, or {"each": alpha}."""
    if not isinstance(value, dict):
        return Each(value) if path in context.per_element else value
    if "each" in value:
        return {"each": Each(value["each"])} if f"{path}.each" in context.per_element else value
    if "regions" in value:
        return next(
            iter(value["regions"].values()), 1.0
        )  # of one of them, until the elements are there to be told apart
    file = context.scene.file(f"{path}.file")
    try:
        loaded = read_npy(file)
    except FileError as error:
        context.problem(f"{path}.file", f"cannot read `{value['file']}`: {error.what}", error.hint)
        return 1.0
    if loaded.dtype.kind not in "fiu":
        context.problem(f"{path}.file", f"`{value['file']}` holds no array of numbers", "write it by numpy.save")
        return 1.0
    broken = np.argwhere(~np.isfinite(loaded))
    if len(broken):
        first = ", ".join(str(k) for k in broken[0])
        what = f"`{value['file']}`: value {first} is not finite, as are {len(broken)} in all"
        context.problem(f"{path}.file", what, "every element needs a number")
        return 1.0
    return loaded
