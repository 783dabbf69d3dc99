"""Samples for the tests of scene files: materials, a cloth that is identified, a beam with several experiments."""

from pathlib import Path

from sim.scene import MaterialSpec, ParameterSpec, Scene, load_scene
from tools.places import DATA


def _springs(name: str, unit: str, objects: tuple[str, ...] = ()) -> MaterialSpec:
    keys = (ParameterSpec("compliance", unit, None, "inverse stiffness"), ParameterSpec("damping", "s", 0.0, "a time"))
    return MaterialSpec(name, f"keeps the {name}", {key.name: key for key in keys}, objects)


_SOLID = (
    ParameterSpec("young", "Pa", None, "Young's modulus", bounds="(0, inf)"),
    ParameterSpec("poisson", "", None, "Poisson's ratio", bounds="(-1, 0.5)"),
    ParameterSpec("damping", "s", 0.0, "a time"),
)
MATERIALS = {
    "distance": _springs("distance", "m/N"),
    "shear": _springs("shear", "m/N", ("cloth",)),
    "bend": _springs("bend", "1/(N m)", ("cloth",)),
    "volume": _springs("volume", "1/Pa", ("soft",)),
    "neo_hookean": MaterialSpec("neo_hookean", "an elastic solid", {key.name: key for key in _SOLID}, ("soft",)),
}


def load_text(folder: Path, text: str, overrides=(), **options) -> Scene:
    """Loads a scene that stands in `folder` as scene.yaml; the files that it names are not there."""
    (folder / "scene.yaml").write_text(text, encoding="utf-8")
    return load_scene(folder / "scene.yaml", overrides, MATERIALS, **{"open_files": False, **options})


CLOTH = (DATA / "scene_cloth.yaml").read_text(encoding="utf-8")
BEAM = (DATA / "scene_beam.yaml").read_text(encoding="utf-8")
