"""What type checkers and editors see of `sim.core`: sim/core/__init__.pyi, from the names of the module.

Functions and classes of Python are imported as they are.  Those of the kernel language become functions that take and
give `Any`, with their documentation; types of the language become classes, scalars the numbers of Python.
"""

import ast
import inspect
from pathlib import Path
from typing import Any

import sim.core as core
from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.tracing.registry import Builtin
from sim.core.lang.types import Type
from sim.core.lang.types.base import Homogeneous, Matrix, Scalar, Transformation

ROOT = Path(__file__).resolve().parent.parent
HEAD = '''"""The names of `sim.core`, for type checkers and editors."""

# written by scripts/make_docs.py

import builtins as _builtins
from collections.abc import Iterator as _Iterator
from typing import Any as _Any
from typing import Generic as _Generic
from typing import TypeAlias as _TypeAlias
from typing import TypeVar as _TypeVar

from typing_extensions import Self as _Self

_Class = _TypeVar("_Class")

def struct(cls: type[_Class], /) -> type[_Class]:
    """`@struct class Particle: x: sim.vec3; mass: float`: a struct type from the annotations of a class."""

__version__: _builtins.str

def _missing(module: _builtins.str, name: _builtins.str, known: _Any) -> Exception: ...
'''
COMPOSITES = '''

class _Composite:
    """Vectors, matrices, quaternions and transforms, on the host and in kernels."""

    def __init__(self, *values: _Any, **named: _Any) -> None: ...
    def __getitem__(self, index: _Any, /) -> _Any: ...
    def __setitem__(self, index: _Any, value: _Any, /) -> None: ...
    def __len__(self) -> _builtins.int: ...
    def __iter__(self) -> _Iterator[_Any]: ...
    def __add__(self, other: _Any, /) -> _Self: ...
    def __radd__(self, other: _Any, /) -> _Self: ...
    def __sub__(self, other: _Any, /) -> _Self: ...
    def __rsub__(self, other: _Any, /) -> _Self: ...
    def __mul__(self, other: _Any, /) -> _Any: ...
    def __rmul__(self, other: _Any, /) -> _Any: ...
    def __matmul__(self, other: _Any, /) -> _Any: ...
    def __rmatmul__(self, other: _Any, /) -> _Any: ...
    def __truediv__(self, other: _Any, /) -> _Self: ...
    def __rtruediv__(self, other: _Any, /) -> _Self: ...
    def __neg__(self) -> _Self: ...
    def __pos__(self) -> _Self: ...
'''
ARRAYS = "".join(
    f'''

class array{n}d(array[_Element], _Generic[_Element]):
    """`array` of {n} dimension{"s" if n > 1 else ""}."""
'''
    for n in (1, 2, 3, 4)
)
OF_THEIR_OWN = {"struct", "array1d", "array2d", "array3d", "array4d"}
"""Names that the texts above define."""
PLACES = {"x": 0, "y": 1, "z": 2, "w": 3}


def type_stub() -> str:
    """The text of sim/core/__init__.pyi."""
    imports, own = [], []
    for module, name in _imported():
        value = getattr(core, name)
        if isinstance(value, Builtin | Function | Type):
            own.append((name, value))
        elif name not in OF_THEIR_OWN:
            imports.append(f"from {module} import {name} as {name}")
    imports.append("from sim.core.runtime.arrays.array import Element as _Element")
    functions = [_function(name, value) for name, value in own if not isinstance(value, Type)]
    kinds = [_kind(name, value) for name, value in own if isinstance(value, Type)]
    return "\n".join([HEAD, *imports, COMPOSITES + ARRAYS, *kinds, *functions]) + "\n"


def _imported() -> list[tuple[str, str]]:
    """(module, name) of every public name of sim/core/__init__.py."""
    tree = ast.parse((ROOT / "sim/core/__init__.py").read_text())
    return [
        (node.module or "", alias.asname)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname and not alias.asname.startswith("_")
    ]


def _kind(name: str, kind: Type) -> str:
    """A type of the language."""
    if isinstance(kind, Scalar):
        number = "float" if kind.is_float else "bool" if name == "bool" else "int"
        return f"{name}: _TypeAlias = _builtins.{number}"
    if not isinstance(kind, Homogeneous):
        return f"{name}: _TypeAlias = _Any"
    rows = [f"\nclass {name}(_Composite):"]
    if isinstance(kind, Transformation):
        rows += ["    p: _Any", "    q: _Any"]
    elif not isinstance(kind, Matrix):
        count = kind.shape[0]
        number = "_builtins.float" if kind.dtype.is_float else "_builtins.int"
        rows += [f"    {axis}: {number}" for axis, k in PLACES.items() if count <= 4 and k < count] or ["    ..."]
    else:
        rows.append("    ...")
    return "\n".join(rows) + "\n"


def _function(name: str, value: Any) -> str:
    """A function of the language."""
    said = inspect.cleandoc(value.__doc__ or "").split("\n\n")[0].replace("\\", "\\\\").replace('"""', "'''")
    text = " ".join(said.split())
    body = f'\n    """{text}"""' if text and not text.endswith('"') else " ..."
    return f"\ndef {name}(*values: _Any, **named: _Any) -> _Any:{body}"
