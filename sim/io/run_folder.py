"""The folder of one run: everything in it is either whole or absent.

Every file is written to a temporary name beside its place and moved there (`os.replace` is atomic), so that a run
that is killed at any moment leaves readable files.  `log.jsonl` grows by one flushed line per iteration; a line that
was cut short by a kill is recognised and dropped on resume.
"""

from __future__ import annotations

import io
import json
import math
import os
import platform
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from sim.files import Archive, read_bytes

LOG = "log.jsonl"
STATE = "state.npz"
_META = "__meta__"


class RunFolderError(RuntimeError):
    """A run folder that cannot be created, written or read: `what` is wrong and a `hint` what to do instead."""

    def __init__(self, what: str, hint: str = "") -> None:
        self.what, self.hint = what, hint
        super().__init__(f"{what}\n  {hint}" if hint else what)


def write_atomically(path: str | os.PathLike[str], content: bytes | str) -> Path:
    """Write a whole file or nothing: to a temporary file in the same folder, then moved over `path`.

    Text is written as UTF-8.  Returns the path.  Raises `OSError` as `open` does; no temporary file is left behind.
    """
    path = Path(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise type(error)(
            error.errno, error.strerror, str(path)
        ) from None  # not the temporary name, which nobody knows
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp makes files that only the owner may read
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def npz_bytes(arrays: Mapping[str, Any]) -> bytes:
    """The bytes of an uncompressed `.npz` of named arrays.  Arrays of Python objects (pickles) are refused."""
    whole = {name: np.asarray(value) for name, value in arrays.items()}
    for name, value in whole.items():
        if value.dtype.hasobject:
            raise TypeError(f"array `{name}` holds Python objects; only numbers and texts are stored")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, value in whole.items():  # by hand because `np.savez` takes names as keywords: `file` would be refused
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, value, allow_pickle=False)
    return buffer.getvalue()


def to_json(value: Any, indent: int | None = None) -> str:
    """Strict JSON of plain data, NumPy scalars and arrays, dataclasses and paths; NaN and infinities become null."""
    return json.dumps(_plain(value), indent=indent, allow_nan=False, ensure_ascii=False)


def default_run_path(scene: str, root: str | os.PathLike[str] = "runs", now: datetime | None = None) -> Path:
    """`runs/<scene>/<UTC time>`, with `-2`, `-3`, ... behind the time if that folder exists already."""
    name = re.sub(r"[^\w.-]+", "_", scene).strip("._") or "scene"
    stamp = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H%M%SZ")
    path = Path(root) / name / stamp
    count = 1
    while path.exists():
        count += 1
        path = path.with_name(f"{stamp}-{count}")
    return path


def environment(device: str = "", dtype: str = "", packages: Iterable[str] = ("numpy", "llvmlite")) -> dict[str, Any]:
    """What a result depends on besides the scene: versions, platform, device and precision, as plain data."""
    from importlib import metadata  # slow to import, and needed once a run

    versions: dict[str, str | None] = {"python": platform.python_version()}
    for name in ("simopt-xpbd", *packages):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "versions": versions,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "device": device,
        "dtype": dtype,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": list(sys.argv),
    }


class RunFolder:
    """The files of one run.  Make it with `RunFolder.create(path)` or, to resume, `RunFolder.open(path)`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> RunFolder:
        """Make the folder and its parents.  Holding a run or not writable: an error, and nothing left behind."""
        path = Path(path)
        if path.exists() and not path.is_dir():
            raise RunFolderError(f"{path} is a file, not a folder", "choose another folder with --out")
        if any((path / name).exists() for name in (LOG, STATE, "result.json")):
            raise RunFolderError(
                f"{path} already holds a run", f"continue it with --resume {path}, or choose another --out"
            )
        made = [folder for folder in (path, *path.parents) if not folder.exists()]
        try:
            path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                pass  # the only reliable test of permission, quota and read-only file systems is to write
        except OSError as error:
            for folder in made:
                try:
                    folder.rmdir()
                except OSError:
                    break
            raise RunFolderError(
                f"cannot write into {path}: {error.strerror or error}", "choose a writable folder with --out"
            ) from error
        return cls(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunFolder:
        """An existing run that has a saved state, to be resumed."""
        path = Path(path)
        if not path.is_dir():
            raise RunFolderError(f"there is no run folder {path}", "--resume takes the folder of an earlier run")
        if not (path / STATE).is_file():
            raise RunFolderError(
                f"{path} has no saved state ({STATE})",
                "a search can be resumed from its first iteration on, behind the tournament of several starts; start a"
                " new run",
            )
        return cls(path)

    def file(self, name: str) -> Path:
        """The path of a file of this run; its folder is made if need be.  Names leading out of the run are refused."""
        path = self.path / name
        if not path.resolve().is_relative_to(self.path.resolve()):
            raise RunFolderError(f"`{name}` leads out of the run folder {self.path}")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write_text(self, name: str, text: str) -> Path:
        """Write a text file, atomically."""
        return write_atomically(self.file(name), text)

    def write_json(self, name: str, value: Any) -> Path:
        """Write strict, indented JSON (see `to_json`), atomically."""
        return write_atomically(self.file(name), to_json(value, indent=2) + "\n")

    def write_npz(self, name: str, arrays: Mapping[str, Any]) -> Path:
        """Write named arrays as `.npz` (no pickles), atomically."""
        return write_atomically(self.file(name), npz_bytes(arrays))

    def write_npy(self, name: str, values: np.ndarray) -> Path:
        """Write one array of numbers as `.npy`, atomically."""
        buffer = io.BytesIO()
        np.save(buffer, values, allow_pickle=False)
        return write_atomically(self.file(name), buffer.getvalue())

    def log(self, entry: Mapping[str, Any]) -> None:
        """Append one line to `log.jsonl` and flush it, so that a killed run keeps every finished iteration."""
        with open(self.file(LOG), "a", encoding="utf-8") as file:
            file.write(to_json(entry) + "\n")
            file.flush()

    def read_log(self) -> list[dict[str, Any]]:
        """The entries of `log.jsonl`.  A last line cut short by a kill is left out; any other bad line is an error."""
        path = self.path / LOG
        if not path.exists():
            return []
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")  # a cut line may end within a letter
        entries = []
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
                if not isinstance(entry, dict):
                    raise ValueError("not an object")
            except ValueError as error:
                if number == len(lines):  # no newline behind it: the write did not finish
                    break
                raise RunFolderError(
                    f"{path}:{number} is not a log entry: {error}", "delete that line, or start a new run"
                ) from error
            entries.append(entry)
        return entries

    def truncate_log(self, iteration: int) -> list[dict[str, Any]]:
        """Drop the entries after `iteration` (their state was never saved) and return those that are kept."""
        kept = [entry for entry in self.read_log() if not entry.get("iteration", 0) > iteration]
        write_atomically(self.file(LOG), "".join(to_json(entry) + "\n" for entry in kept))
        return kept

    def save_state(self, arrays: Mapping[str, Any], meta: Mapping[str, Any]) -> Path:
        """Save what a resumed run continues from, atomically.  Every float comes back with the same bits.

        `arrays` are named arrays; `meta` is nested plain data (texts, numbers also infinite ones, None, lists, dicts).
        """
        if _META in arrays:
            raise ValueError(f"`{_META}` is the name of the meta data; call the array something else")
        text = json.dumps(dict(meta), default=_scalar)  # Python's repr of a float is exact; NaN and inf are kept
        return self.write_npz(STATE, {**arrays, _META: np.frombuffer(text.encode("utf-8"), dtype=np.uint8)})

    def load_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The arrays and the meta data of the last `save_state`."""
        path = self.path / STATE
        if not path.exists():
            raise RunFolderError(f"{self.path} has no saved state ({STATE})", "start a new run")
        try:
            archive = Archive(read_bytes(path))
            arrays = {name: archive[name] for name in archive.names}
            meta = json.loads(arrays.pop(_META).tobytes().decode("utf-8"))
        except (ValueError, KeyError, RecursionError) as error:  # FileError is a ValueError
            raise RunFolderError(f"{path} is not a saved state of a run: {error}", "start a new run") from error
        return arrays, meta


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _scalar(value: Any) -> Any:
    """NumPy scalars as Python ones, exactly (for `json.dumps(default=...)`)."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"the state's meta data holds a {type(value).__name__}; arrays belong into `arrays`")


def _plain(value: Any) -> Any:
    """`value` as what strict JSON can hold."""
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")
