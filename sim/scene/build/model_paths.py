"""From places in a scene to material values of its model."""

from __future__ import annotations

from sim.schema.reading import Steps

_PLACEMENT = ("position", "velocity", "spin", "drag")


def model_path(steps: Steps) -> str | None:
    """The path in `model.materials` of a number in the scene; None where the model has no value of its own for it.

    `objects.skirt.cloth.material.bend.compliance` becomes `skirt.bend.compliance`, and so does that of one of its regions.
    """
    match steps:
        case ("world", "gravity"):
            return "gravity"
        case ("objects", name, key) if key in _PLACEMENT:
            return f"{name}.{key}"
        case ("objects", name, _, "density" | "mass" as key, *rest) if _is_whole_or_region(rest):
            return f"{name}.{key}"
        case ("objects", name, _, "material", constraint, key, *rest) if rest == ["each"] or _is_whole_or_region(rest):
            return f"{name}.{constraint}.{key}"
        case ("loads", name, "mass"):
            return f"{name}.mass"
        case ("shapes", name, "sphere" | "plane", key) | ("shapes", name, "compliance" as key):
            return f"{name}.{key}"
        case ("attachments", name, "motion", number, "move" | "swing" as key):
            return f"{name}.motion.{number}.{key}"
    return None


def component_path(steps: Steps) -> tuple[str | None, int | None]:
    """As `model_path`, of a component of a vector too: `world.gravity.1` becomes `gravity` and 1."""
    found = model_path(steps)
    if found is None and steps[-1].isdigit():
        return model_path(steps[:-1]), int(steps[-1])
    return found, None


def region_of(steps: Steps) -> str | None:
    """The region that a number in the scene is for; None where it is for the whole object."""
    return steps[-1] if len(steps) > 4 and steps[0] == "objects" and steps[-2] == "regions" else None


def _is_whole_or_region(rest: list[str]) -> bool:
    return not rest or (len(rest) == 2 and rest[0] == "regions")
