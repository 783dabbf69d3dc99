"""Building a model from a scene: what goes wrong on the way is gathered, with its place, and raised at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sim.geometry import GeometryError, load_groups
from sim.io import RecordingError
from sim.io.recording import Origin, suggest
from sim.model import Group, ModelBuilder, ModelError
from sim.scene.schema.paths import SceneValue
from sim.scene.validate.document import Document
from sim.schema.errors import Diagnostic, SceneError
from sim.schema.reading import Steps

NAMED = ("objects", "joints", "shapes", "attachments", "loads")
"""Tables whose entries are labels of one model."""
WHOLE = "objects"
"""Where what is wrong with the model as a whole is noted."""


@dataclass(frozen=True, eq=False)
class ByRegion:
    """A value that differs from region to region.  source: (n,) int32, which of `names` each element lies in."""

    names: tuple[str, ...]
    source: np.ndarray

    def within(self, name: str) -> np.ndarray:
        """(n,) bool: the elements of one region."""
        return self.source == self.names.index(name)


@dataclass
class BuildContext:
    """A model under construction, and what is wrong with its scene.

    groups: points of objects, of bodies their sites; bodies: numbers (n,) of those of an object.
    finer: into how many parts every edge of a mesh is divided (1 or 2); places: markers -> where they are (n, 3) at
    rest, on meshes that are made finer.
    """

    scene: Document
    builder: ModelBuilder
    groups: dict[str, Group] = field(default_factory=dict)
    bodies: dict[str, np.ndarray] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    skipped: set[str] = field(default_factory=set)  # paths of entries that cannot be built
    unread: set[tuple[str, str]] = field(default_factory=set)  # (experiment, markers) without a readable recording
    origins: dict[str, Origin] = field(default_factory=dict)  # path of a recording -> how it was read
    physical_groups: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)  # object -> those of its file
    by_region: dict[str, ByRegion] = field(default_factory=dict)  # path of a value -> where its regions are
    finer: int = 1
    places: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def data(self) -> dict[str, Any]:
        """The scene's data."""
        return self.scene.data

    @cached_property
    def parameter_values(self) -> dict[str, dict[str, SceneValue]]:
        """Parameter -> path in its `of` -> what stands there in the scene."""
        return {name: self._found(entry["of"]) for name, entry in self.data["parameters"].items()}

    @cached_property
    def set_values(self) -> dict[str, dict[str, SceneValue]]:
        """Experiment -> path in its `set` -> what stands there in the scene."""
        return {name: self._found(entry["set"]) for name, entry in self.data["experiments"].items()}

    def _found(self, paths: Iterable[str]) -> dict[str, SceneValue]:
        return {path: self.scene.find(path) for path in paths}

    @cached_property
    def varied(self) -> set[Steps]:
        """Places whose values are parameters, or differ from one experiment to another."""
        named = (*self.parameter_values.values(), *self.set_values.values())
        return {value.steps for values in named for value in values.values()}

    @cached_property
    def per_element(self) -> set[str]:
        """Paths whose numbers are parameters of each element or point."""
        return {
            ".".join(value.steps)
            for name, values in self.parameter_values.items()
            if self.data["parameters"][name]["per"] in ("element", "point")
            for value in values.values()
        }

    @cached_property
    def longest(self) -> float:
        """The longest time that is simulated [s]; 0 where that is not known."""
        sets = (entry.get("set", {}) for entry in self.data.get("experiments", {}).values())
        of_scene = self.data.get("time", {}).get("duration", 0.0)
        return max([of_scene, *(values.get("time.duration", 0.0) for values in sets)])

    def warn_if_never(self, path: str, time: float) -> None:
        """Notes what would begin at a time [s] when every experiment is over."""
        if 0.0 < self.longest <= time:
            self.warnings.append(
                f"{path}: {time:g} s are after the end of every experiment, {self.longest:g} s at most"
            )

    def entries(self, table: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Name and data of the entries of a top-level table that can be built."""
        return ((name, entry) for name, entry in self.data[table].items() if f"{table}.{name}" not in self.skipped)

    def choose(self, path: str, entry: Mapping[str, Any]) -> np.ndarray | None:
        """The particles (n,) that the entry at a path names by `on` and `where`; None where they are not known."""
        if entry["on"] in self.groups:
            with self.at(f"{path}.where"):
                return self.chosen(entry["on"], entry["where"])
        return None

    def chosen(self, name: str, where: Mapping[str, Any]) -> np.ndarray:
        """The particles (n,) of an object that satisfy a rule, which may name a physical group of its mesh file.

        Raises GeometryError.
        """
        rule = dict(where)
        if "group" in rule:
            named = rule.pop("group")
            found = self._physical_groups(name)
            if named not in found:
                what = f"the mesh of `{name}` has no physical group `{named}`"
                raise GeometryError(
                    what, suggest(named, list(found), "groups") or "physical groups are those of .msh files"
                )
            used = self.groups[name].file_to_point
            nodes = found[named] if used is None else found[named][used[found[named]] >= 0]
            rule["indices"] = np.intersect1d(nodes, rule["indices"]) if "indices" in rule else nodes
        return self.groups[name].choose(rule)

    def _physical_groups(self, name: str) -> dict[str, np.ndarray]:
        """Those of the mesh file of an object."""
        if name not in self.physical_groups:
            file = self.data["objects"][name].get("soft", {}).get("mesh", {}).get("file")
            path = f"objects.{name}.soft.mesh.file"
            self.physical_groups[name] = {} if file is None else load_groups(self.scene.file(path))
        return self.physical_groups[name]

    def problem(self, path: str, what: str, hint: str = "") -> None:
        """Notes a problem at a path of the scene."""
        self.problems.append(self.scene.problem(path, what, hint))

    def refuse(self, path: str, what: str, instead: str = "") -> None:
        """Notes something that the scene format knows and this version cannot do."""
        self.problem(path, f"not yet built: {what}", instead)

    def _entry_of(self, label: str) -> str:
        """The path of the entry that made what has this label in the model; of all objects where none did."""
        name = label.partition(".")[0]
        return next((f"{table}.{name}" for table in NAMED if name in self.data[table]), WHOLE)

    @contextmanager
    def at(self, path: str, material: str = "") -> Iterator[None]:
        """Errors inside the block become problems at a path; those that name a constraint of a material, there, and
        those of the whole model at the entry that they are of."""
        try:
            yield
        except SceneError as error:
            self.problems.extend(error.problems)
        except (ModelError, GeometryError, RecordingError) as error:
            for one in (error, *error.others) if isinstance(error, ModelError) else (error,):
                named = re.match(r"material\['(\w+)'\]", one.what) if material else None
                own = self._entry_of(one.of) if path == WHOLE and isinstance(one, ModelError) else path
                self.problem(f"{material}.{named[1]}" if named else own, one.what, one.hint)
        except MemoryError as error:
            self.problem(
                path,
                f"it does not fit into memory{f': {error}' if str(error) else ''}",
                "fewer points, frames or steps need less",
            )

    def finish(self) -> None:
        """Raises everything that was found."""
        if self.problems:
            raise SceneError(self.problems)
