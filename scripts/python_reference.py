"""docs/reference/python.md: the public Python API, grouped, from signatures and docstrings."""

import ast
import functools
import importlib
import inspect
import re
import types
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

import sim
import sim.core

_DEVICES = "Devices, streams and graphs"
GROUPS = {  # prefix of the module that a name comes from -> heading, "" for what other pages hold; the first that fits
    "builtins": "",
    "sim.core.lang.errors": "Errors",
    "sim.core.config": "Settings",
    "sim.core.lang.frontend.builtins": "",
    "sim.core.lang.library": "",
    "sim.core.lang.embedding": "",
    "sim.core.lang.warp_errors": "",
    "sim.core.lang.constants": "",
    "sim.core.lang.frontend.constructors": "",
    "sim.core.lang.types": "Types",
    "sim.core.lang.frontend.function": "Kernels",
    "sim.core.lang.frontend.custom": "Kernels",
    "sim.core.lang.frontend.native": "Kernels",
    "sim.core.lang.references": "Kernels",
    "sim.core.runtime.compiled.argument_packing": "Kernels",
    "sim.core.runtime.launch.kernel": "Kernels",
    "sim.core.runtime.launch.launch": "Kernels",
    "sim.core.runtime.launch.module": "Kernels",
    "sim.core.runtime.launch.overloads": "Kernels",
    "sim.core.runtime.launch.calls": "Kernels",
    "sim.core.runtime.launch.mapping": "Kernels",
    "sim.core.runtime.launch.faults": "Kernels",
    "sim.core.runtime.ambient.threads": "Kernels",
    "sim.core.backends.cache": "Kernels",
    "sim.core.runtime.launch.host": "",
    "sim.core.runtime.arrays.array": "Arrays",
    "sim.core.runtime.arrays.dimensions": "Arrays",
    "sim.core.runtime.arrays.creation": "Arrays",
    "sim.core.runtime.interop.utils": "Arrays",
    "sim.core.runtime.tape.tape": "Gradients",
    "sim.core.runtime.derivatives.autograd": "Gradients",
    "sim.core.runtime.interop.frameworks": "Other frameworks",
    "sim.core.runtime.devices.device": _DEVICES,
    "sim.core.runtime.devices.streams": _DEVICES,
    "sim.core.runtime.devices.graph": _DEVICES,
    "sim.core.runtime.devices.captures": _DEVICES,
    "sim.core.runtime.devices.queries": _DEVICES,
    "sim.core.runtime.ambient.loggers": _DEVICES,
    "sim.core.runtime.launch.conditionals": _DEVICES,
    "sim.core.runtime.ambient.profile": "Time",
    "sim.core.runtime.devices.timing": "Time",
    "sim.core.runtime.devices.diagnostics": _DEVICES,
    "sim.core.runtime.interop.conversions": "Other frameworks",
    "sim.core.spatial.bvh_queries": "",
    "sim.core.spatial.hash_grid_queries": "",
    "sim.core.spatial.meshes.queries": "",
    "sim.core.spatial": "Spatial structures",
    "sim.core.optim": "Optimisers",
    "sim.constraints": "Models",
    "sim.model": "Models",
    "sim.solvers": "Simulation",
    "sim.rollout": "Simulation",
    "sim.scene": "Scenes",
    "sim.identify.numerics": "Scenes",
    "sim.identify": "Identification",
    "sim.io": "Recordings and runs",
}
HEAD = """# The Python API

What `import sim` gives, from its docstrings. Functions of the kernel language are in [language.md](language.md), arrays
of models and states in [arrays.md](arrays.md), keys of scenes in [scene.md](scene.md). Arrays are given as (shape) with
units in [brackets].
"""


def origins() -> dict[str, str]:
    """Public name -> module that it is imported from, in the order of `sim/__init__.py`, `sim/core/__init__.py`."""
    trees = [ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")) for module in (sim, sim.core)]
    found = {
        a.asname: (
            f"{node.module}.{a.name}" if isinstance(getattr(sim, a.asname), types.ModuleType) else str(node.module)
        )
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for a in node.names
        if a.asname and not a.asname.startswith("_")
    }
    lazy = {name: "sim.scene" for name in ("load_scene", "Scene", "SceneError")}
    lazy |= {name: "sim.identify.numerics" for name in ("convergence", "numerical_error")}
    for package in ("identify", "io"):
        inside = vars(importlib.import_module(f"sim.{package}"))
        names = [n for n, v in inside.items() if not n.startswith("_") and not isinstance(v, types.ModuleType)]
        lazy |= {f"{package}.{name}": f"sim.{package}" for name in names}
    return found | lazy


def python_reference() -> str:
    groups: dict[str, list[tuple[str, object]]] = {}
    for name, module in origins().items():
        if module == "builtins":
            continue
        value = _value(name)
        heading = next((title for prefix, title in GROUPS.items() if f"{module}.".startswith(f"{prefix}.")), None)
        if heading is None:
            raise KeyError(f"`sim.{name}` comes from {module}, which has no heading in GROUPS")
        if isinstance(value, types.ModuleType):
            inside = [
                (f"{name}.{n}", v)
                for n, v in vars(value).items()
                if _shown(n, v, value.__name__.removesuffix(".utils"))
            ]
            groups.setdefault(heading, []).extend(inside if heading and name != "types" else [])
        elif heading:
            groups.setdefault(heading, []).append((name, value))
    headings = list(dict.fromkeys(title for title in GROUPS.values() if title))
    out = [
        HEAD,
        " | ".join(f"[{title}](#{title.lower().replace(',', '').replace(' ', '-')})" for title in headings) + "\n",
    ]
    for heading in headings:
        out += [f"## {heading}\n", *_group(sorted(groups.get(heading, []), key=lambda row: row[0].lower()))]
    return "\n".join(out).rstrip() + "\n"


def _shown(name: str, value: object, module: str) -> bool:
    if name.startswith("_") or not (inspect.isclass(value) or inspect.isfunction(value)):
        return False
    return str(value.__module__).startswith(module)


def _group(rows: list[tuple[str, object]]) -> Iterator[str]:
    plain = [name for name, value in rows if not _callable(value)]
    if plain:
        yield ", ".join(f"`{name}`" for name in plain) + "\n"
    for name, value in rows:
        if _callable(value):
            yield from _entry(name, value)


def _callable(value: object) -> bool:
    return inspect.isclass(value) or inspect.isfunction(value) or inspect.ismethod(value)


def _entry(name: str, value: object) -> Iterator[str]:
    yield f"### sim.{name}\n"
    yield f"```python\n{signature(name, value)}\n```\n"
    yield text(value)
    if not inspect.isclass(value):
        return
    for key, member in _members(value):
        inner = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if inspect.isfunction(inner):
            yield f"* `{signature(key, inner)}`  \n  {line(inner)}"
        elif isinstance(inner, property | cached_property):
            yield f"* `{key}`  \n  {line(inner)}"
    yield ""


def _value(name: str) -> Any:
    return functools.reduce(getattr, name.split("."), sim)


@functools.cache
def _public() -> frozenset[type]:
    """Classes with an entry of their own."""
    return frozenset(value for value in map(_value, origins()) if inspect.isclass(value))


def _members(of: type) -> Iterator[tuple[str, object]]:
    """Public ones of a class, then those of the bases that it is put together from: they have no entry of their own."""
    shown = {part for base in of.__mro__[1:] if base in _public() for part in base.__mro__}
    seen: set[str] = set()
    for part in of.__mro__:
        if part.__module__.startswith("sim.") and part not in shown:
            yield from ((k, v) for k, v in vars(part).items() if k[0] != "_" and k not in seen)
            seen |= set(vars(part))


def signature(name: str, value: Any) -> str:
    """Name and parameters; what has no fixed text (an object as a default) is left as `...`."""
    try:
        # of an Enum it is another one in every version of Python
        is_enum = isinstance(value, type) and issubclass(value, Enum)
        parameters = "(value)" if is_enum else str(inspect.signature(value))
    except (TypeError, ValueError):
        parameters = "(...)"
    plain = re.sub(r"(: |-> )'([^']*)'", r"\1\2", f"{name}{parameters}")
    return re.sub(r"<[^<>]*(<[^<>]*>[^<>]*)*>", "...", plain).replace(" -> None", "")


def text(value: object) -> str:
    """A docstring; that of a dataclass which Python made is its signature, and left out."""
    doc = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    if inspect.isclass(value) and doc.startswith(f"{value.__name__}("):
        doc = ""
    return f"{doc}\n" if doc else ""


def line(value: object) -> str:
    """The first paragraph of a docstring, on one line."""
    doc = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    return " ".join(doc.split("\n\n")[0].split())
