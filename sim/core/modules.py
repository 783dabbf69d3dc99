"""Modules under the names that Warp's have: `import sim.types`, `from sim.optim.linear import cg`.

What they stand for lies in the rooms of the core.  `import` is told so by a finder, which answers with the module that
is there: `sim.config` is the object that the launch looks at, and `sim.optim.Adam` one class, whichever way it came.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from sim.core.lang.errors import RefusedName
from sim.core.lang.frontend import elsewhere

PLACES = {
    "autograd": "sim.core.runtime.derivatives.autograd",
    "config": "sim.core.config",
    "constants": "sim.core.lang.constants",
    "optim": "sim.core.optim",
    "types": "sim.core.lang.types",
    "utils": "sim.core.runtime.interop.utils",
}
"""Module of the public API: where it is."""
_INTERNALS = "sim.core.runtime.devices.queries"
"""Where names of `sim._src` are looked for that Warp's own programs take from there."""
_NOT_HERE = {"_src", "build_experimental", "fabric", "fem", "jax_experimental", "render", "sparse", "texture"}


class RefusedModule(ModuleType):
    """A module whose names are not supported.  In `sim._src`, Warp's internals, public names are those of sim."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        package, _, last = self.__name__.rpartition(".")
        if last == "_src":
            return import_module(f"{self.__name__}.{name}")
        if "_src" not in package:
            return RefusedName(f"{self.__name__}.{name}", elsewhere.instead(elsewhere.UNSUPPORTED, last))
        places = [vars(sys.modules[place]) for place in (PLACES.get(last), _INTERNALS, "sim.core") if place]
        found = [names[name.lstrip("_")] for names in places if name.lstrip("_") in names]
        return found[0] if found else RefusedName(f"{self.__name__}.{name}", "internal to Warp; see dir(sim)")


class ModulesByWarpsNames(MetaPathFinder, Loader):
    """Finds `sim.NAME` and `sim.core.NAME` for the names of `PLACES`, and what is inside of these modules."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith("sim."):
            return None
        short = name.removeprefix("sim.").removeprefix("core.")
        if short.split(".")[0] in _NOT_HERE:
            return ModuleSpec(name, self, is_package=True)
        place = self.place(name)
        return ModuleSpec(name, self) if place and place != name else None

    def place(self, name: str) -> str | None:
        """The real name of a module, or None where it is not below one of `PLACES`."""
        package, _, last = name.rpartition(".")
        if package in ("sim", "sim.core"):
            return PLACES.get(last)
        known = self.place(package) if package else None
        return f"{known}.{last}" if known else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """A refused one; None: an empty one, which `exec_module` replaces."""
        return None if self.place(spec.name) else RefusedModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        place = self.place(module.__name__)
        if place:
            sys.modules[module.__name__] = import_module(place)


sys.meta_path.insert(0, ModulesByWarpsNames())
