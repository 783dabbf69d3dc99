"""Modules and files of the user's that a command names: imported, or an error that says which line of theirs fails."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from sim.core.lang.errors import SimError, did_you_mean


class UsageError(SimError):
    """Something on the command line that cannot be used."""


def import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            raise UsageError(
                f"--import {name}: there is no such module here; name a .py file of this folder without its "
                "ending, or an installed module"
            ) from None
        raise UsageError(_fails(f"--import {name}", error)) from error


def _fails(what: str, error: Exception) -> str:
    """Somebody else's code that does not run: where, and the error."""
    if isinstance(error, SyntaxError):
        return f"{what}: {error.filename}:{error.lineno}: {error.msg}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{what}: {last.filename}:{last.lineno}: {type(error).__name__}: {error}"


def import_file(path: Path) -> ModuleType:
    if not path.is_file():
        near = did_you_mean(path.name, (p.name for p in path.parent.glob("*.py"))) if path.parent.is_dir() else ""
        raise UsageError(f"there is no file {path}{near}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))  # as Python does for a script: its neighbours can be imported
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(_fails(str(path), error)) from error
    finally:
        sys.path.pop(0)
    return module
