"""What a kernel of our own is, as a key under which it is known in the next process too.

A trace of a kernel is decided by the sources of this package, all of them (`sources`), by the types of its arguments,
and by what the closures hold that it is made of: numbers, types, functions, and objects of ours with such attributes.
What it has read of modules stands beside it by name, and is compared: somebody may have assigned something else there.
What is anything else, above all a function of the user, has no key here, and is traced in every process: it may have
changed, and what it reads too.
"""

from __future__ import annotations

import builtins
import functools
import linecache
import os
import sys
import types as python_types
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from sim.core import config
from sim.core._began import BEGAN
from sim.core.backends import cache
from sim.core.lang.errors import KernelError
from sim.core.lang.frontend.function import Function, rules
from sim.core.lang.frontend.source import own_module
from sim.core.lang.frontend.tracing.registry import Builtin
from sim.core.lang.memoize import memoize
from sim.core.lang.types import ArrayType, Homogeneous, Scalar, Struct, Type, float32, float64

_PACKAGE = Path(__file__).parents[3]
_INSIDE = str(_PACKAGE) + os.sep
_COARSE = 2 * 10**9
"""File systems keep times in steps of up to two seconds, and some files of the package were read before `BEGAN`."""
_PLAIN = (bool, int, float, complex, str, bytes, range, type(None), type(Ellipsis))
_STANDARD = (builtins.__name__, "math", "typing")
"""What these mean is what the version of Python says, which `sources` holds."""


def sources() -> str | None:
    """A digest of the sources of this package, of Python and NumPy; None where what runs may be something else."""
    digest = _digest()
    return digest if digest is not None and _read.as_begun() else None


@memoize
def _digest() -> str | None:
    files = list(_files(_PACKAGE))
    if not files or any(_is_late(about) for _, about in files):
        return None
    versions = f"{sys.version} {np.__version__}"
    # Windows has the time of a birth, not of the last change; images of file systems have made-up times, whole seconds.
    if os.name == "nt" or any(about.st_ctime_ns % 10**9 == 0 for _, about in files):
        return _digest_of_texts(versions, files)
    # Reading them all takes a tenth of a first rollout.  A text that is another has another time of its last change,
    # which nobody can set; and Python, which takes its byte code by size and time alone, would run the old one.
    seen = [(path, about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino) for path, about in files]
    key = cache.cache_key("sources", versions, repr(seen))
    kept = cache.load(key, cache.KNOWN)
    if kept is None:
        kept = _digest_of_texts(versions, files).encode()
        cache.save(key, kept, cache.KNOWN)
    return kept.decode()


def _files(folder: str | Path) -> Iterator[tuple[str, os.stat_result]]:
    """Path within the package, and what the system says, of each source in a folder of it."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.endswith(".py"):
            yield entry.path.removeprefix(_INSIDE), entry.stat()
        elif entry.name != "__pycache__" and entry.is_dir():
            yield from _files(entry.path)


def _digest_of_texts(versions: str, files: Sequence[tuple[str, os.stat_result]]) -> str:
    digest = sha256(versions.encode())
    for path, _ in files:
        text = Path(_INSIDE + path).read_bytes()
        digest.update(f"{path} {len(text)}\n".encode() + text)
    return digest.hexdigest()


def _is_late(about: os.stat_result) -> bool:
    """Whether a file was written since the process began, so that what was imported may have been another text."""
    return max(about.st_mtime_ns, about.st_ctime_ns) >= BEGAN - _COARSE


def _is_new(path: str) -> bool:
    """The same of a file at its path; one that is gone is new."""
    try:
        return _is_late(os.stat(path))
    except OSError:
        return True


class _Read:
    """What this process has read of the package: modules that were imported, texts of functions that were parsed."""

    def __init__(self) -> None:
        self._modules: set[str] = set()
        self._changed = False

    def as_begun(self) -> bool:
        """Whether nothing of it has been written to before it was read, as the digest may not know."""
        if not self._changed:
            late = sys.modules.keys() - self._modules
            files = [getattr(sys.modules.get(name), "__file__", None) for name in late if own_module(name)]
            parsed = [file for file in linecache.cache if file.startswith(_INSIDE)]
            self._changed = any(_is_new(file) for file in (*files, *parsed) if file is not None)
            self._modules |= late
        return not self._changed


_read = _Read()


class _Unknown(Exception):
    """Something that has no key: nobody can tell whether it is the same in another process."""


def identity(function: Function, types: Sequence[Type], *settings: object) -> tuple[str, ...] | None:
    """The parts of a key of a kernel for types of arguments; None where it has none.

    settings: what else decides what is compiled, numbers and texts and rows of these.
    """
    about = sources() if own_module(function.__module__) and not rules.foreign else None
    if about is None:
        return None
    found = _Parts()
    try:
        found.add([function, list(types), list(settings), config.legacy_scalar_return_types])
    except (_Unknown, KernelError):
        return None
    return (about, *found.parts)


Name = tuple[str, str]
"""Of a value of a module: the name of the module, and its own, as `Shape.BOX`."""


def digest_of_values(values: Mapping[Name, object]) -> str | None:
    """Stands for what names of modules mean; None where nobody can tell in another process."""
    found = _Parts()
    try:
        for name, value in sorted(values.items()):
            found.add([*name, value])
    except (_Unknown, KernelError):
        return None
    return sha256("\n".join(found.parts).encode()).hexdigest()


def values_now(names: Sequence[Name]) -> dict[Name, object]:
    """What these names mean in this process; nothing for those that it does not have."""
    found: dict[Name, object] = {}
    for module, name in names:
        value: Any = sys.modules.get(module)
        first, *rest = name.split(".")
        value = vars(value).get(first, getattr(builtins, first, None)) if value is not None else None
        for part in rest:
            value = getattr(value, part, None)
        found[module, name] = value
    return found


class _Parts:
    """A key in the making; what is met again stands there by its number."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._met: dict[int, tuple[int, object]] = {}

    def add(self, x: Any) -> None:
        """What `x` is."""
        if type(x) in _PLAIN:
            self._say(type(x).__name__, repr(x))
        elif isinstance(x, (Scalar, Homogeneous)):
            self._say("type", x.name)
        elif isinstance(x, python_types.ModuleType):
            self._named("module", x.__name__, x.__name__ in _STANDARD or own_module(x.__name__))
        elif isinstance(x, (type, python_types.BuiltinFunctionType)):
            home = x.__module__ or ""
            known = home in _STANDARD or own_module(home)
            self._named("name", f"{home}.{x.__qualname__}", known and "<" not in x.__qualname__)
        elif id(x) in self._met:
            self._say("again", str(self._met[id(x)][0]))
        else:
            self._met[id(x)] = len(self._met), x
            self._add_object(x)

    def _add_object(self, x: Any) -> None:
        if isinstance(x, (tuple, list)):
            self._rows(type(x).__name__, x)
        elif isinstance(x, (set, frozenset)):
            self._rows("set", sorted(x, key=repr))
            if not all(type(item) in _PLAIN for item in x):
                raise _Unknown
        elif isinstance(x, (dict, python_types.MappingProxyType)):
            self._rows("dict", [part for item in x.items() for part in item])
        elif isinstance(x, (np.ndarray, np.generic)) and x.dtype.hasobject is False:
            self._rows("array", [str(x.dtype), x.shape, x.tobytes()])
        elif isinstance(x, Struct):
            self._rows("struct", [x.name, x.fields])
        elif type(x) is ArrayType:
            self._rows("array type", [x.dtype, x.ndim])
        elif isinstance(x, Function):
            self._function(x)
        elif isinstance(x, Builtin):
            self._rows("builtin", [x.name, x.lazy, x.handler])
        elif isinstance(x, python_types.FunctionType):
            self._python(x)
        elif isinstance(x, python_types.MethodType):
            self._rows("method", [x.__self__, x.__func__])
        elif isinstance(x, functools.partial):
            self._rows("partial", [x.func, x.args, x.keywords])
        elif isinstance(x, Enum):
            self._rows("member", [type(x), x.name])
        elif own_module(type(x).__module__) and not isinstance(x, Type) and hasattr(x, "__dict__"):
            self._rows("object", [type(x), {key: value for key, value in vars(x).items() if key != "__doc__"}])
        else:
            raise _Unknown

    def _function(self, x: Function) -> None:
        """A function of the language: beside that of Python its types and its derivatives."""
        if x.transformers:
            raise _Unknown
        self._rows("function", [type(x), x.name, x.python, x.earlier, x.adjoint, x.separator, x.outputs])
        self._rows("other names", [x.synonyms, x.takes, {f"{at}": value for at, value in x.statics.items()}])
        for real in (float32, float64):  # what `float` means is not known here
            for p in x.parameters(real):
                self._rows(p.name, [p.type, p.required or p.default, p.by_reference])
            self.add(x.annotated_result(real))

    def _python(self, x: python_types.FunctionType) -> None:
        """A function of Python: where it stands in our sources, and what is bound to it."""
        code = x.__code__
        if not own_module(x.__module__) or not code.co_filename.startswith(_INSIDE):
            raise _Unknown
        self._rows("python", [x.__module__, x.__qualname__, code.co_firstlineno, code.co_name])
        if code.co_name == "<lambda>":  # several may stand in a line
            self._rows("code", [code.co_code, code.co_names, tuple(c for c in code.co_consts if type(c) in _PLAIN)])
        try:
            cells = [cell.cell_contents for cell in x.__closure__ or ()]
        except ValueError:  # not assigned yet
            raise _Unknown from None
        self._rows("bound", [code.co_freevars, cells, x.__defaults__, x.__kwdefaults__])

    def _rows(self, kind: str, items: Sequence[Any]) -> None:
        self._say(kind, str(len(items)))
        for item in items:
            self.add(item)

    def _named(self, kind: str, name: str, known: bool) -> None:
        if not known:
            raise _Unknown
        self._say(kind, name)

    def _say(self, kind: str, what: str) -> None:
        self.parts.append(f"{kind} {what}")
