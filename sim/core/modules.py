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
_NOT_HERE = {"build_experimental", "fabric", "fem", "jax_experimental", "render", "sparse", "texture"}


class ModulesByWarpsNames(MetaPathFinder, Loader):
    """Finds `sim.NAME` and `sim.core.NAME` for the names of `PLACES`, and what is inside of these modules."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith("sim."):
            return None
        package, _, last = name.rpartition(".")
        if package in ("sim", "sim.core") and last in _NOT_HERE:
            what = elsewhere.instead(elsewhere.UNSUPPORTED, last)
            raise ModuleNotFoundError(f"{name} is not supported: {what}", name=name)
        place = self.place(name)
        return ModuleSpec(name, self) if place and place != name else None

    def place(self, name: str) -> str | None:
        """The real name of a module, or None where it is not below one of `PLACES`."""
        package, _, last = name.rpartition(".")
        if package in ("sim", "sim.core"):
            return PLACES.get(last)
        known = self.place(package) if package else None
        return f"{known}.{last}" if known else None

    def create_module(self, spec: ModuleSpec) -> None:
        """An empty one, which `exec_module` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        place = self.place(module.__name__)
        assert place
        sys.modules[module.__name__] = import_module(place)


sys.meta_path.insert(0, ModulesByWarpsNames())
