"""Compiled kernels on disk, and what is known of them, shared by every process of the user.

One file per key: a header (magic, payload length, SHA-256 of the payload), then the payload.  Files are written beside
their final name and moved over it, so that a reader sees a whole file or none; one that is truncated or corrupt anyway
is a miss and is replaced.  Nothing here is needed for correctness: a directory that cannot be written means no cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import sys
import tempfile
import warnings
from pathlib import Path

from sim.core import config

FORMAT = 1
"""Part of every key: raise it when what is stored, or how it is made, changes in a way that the key does not see."""

_MAGIC = b"SIMOPT\x00" + bytes([FORMAT])
_HEADER = struct.Struct("<8sQ32s")
CODE, KNOWN = ".kernel", ".known"
"""Kinds of files: native code; what launches ask of a function beside its code (`runtime/compiled/known.py`)."""
_SIZE_LIMIT = 512 << 20
_TRIM_EVERY = 64
_warned: set[str] = set()
_puts = 0


def kernel_cache_dir() -> Path:
    """`sim.config.kernel_cache_dir`, `$SIM_CACHE_DIR`, else `simopt` in the platform's cache directory of the user."""
    chosen = config.kernel_cache_dir or os.environ.get("SIM_CACHE_DIR")
    if chosen:
        return Path(chosen)
    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "simopt"


def cache_key(*parts: str) -> str:
    """The key of what is made from these parts (source text, compiler version, processor, options)."""
    digest = hashlib.sha256(str(FORMAT).encode())
    for part in parts:
        raw = part.encode()
        digest.update(struct.pack("<Q", len(raw)) + raw)
    return digest.hexdigest()


def load(key: str, kind: str = CODE) -> bytes | None:
    """The payload stored under a key, or None."""
    if not config.cache_kernels:
        return None
    path = kernel_cache_dir() / (key + kind)
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    if len(raw) < _HEADER.size:
        return None
    magic, length, digest = _HEADER.unpack_from(raw)
    payload = raw[_HEADER.size :]
    if magic != _MAGIC or length != len(payload) or digest != hashlib.sha256(payload).digest():
        return None
    with contextlib.suppress(OSError):  # the time of the last use decides what a full cache drops
        os.utime(path)
    return payload


def holds(key: str, kind: str = CODE) -> bool:
    """Whether there is a file for a key; whether it is sound `load` says."""
    return config.cache_kernels and (kernel_cache_dir() / (key + kind)).exists()


def save(key: str, payload: bytes, kind: str = CODE) -> None:
    """Stores a payload; a directory that cannot be written gives one warning per process."""
    global _puts
    if not config.cache_kernels:
        return
    folder = kernel_cache_dir()
    header = _HEADER.pack(_MAGIC, len(payload), hashlib.sha256(payload).digest())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=key[:16], suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(header + payload)
            os.replace(temporary, folder / (key + kind))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as problem:
        if str(folder) not in _warned:
            _warned.add(str(folder))
            warnings.warn(
                f"compiled kernels are not kept: {problem}; set SIM_CACHE_DIR to a directory that can be written",
                stacklevel=2,
            )
        return
    _puts += 1
    if _puts % _TRIM_EVERY == 1:
        _trim(folder)


def _trim(folder: Path) -> None:
    """Drops the files that were not used for longest until the cache is within its limit."""
    files = []
    for path in (*folder.glob("*" + CODE), *folder.glob("*" + KNOWN)):
        with contextlib.suppress(OSError):
            stat = path.stat()
            files.append((stat.st_mtime, stat.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= _SIZE_LIMIT:
            return
        with contextlib.suppress(OSError):
            path.unlink()
            total -= size


def kernel_cache_size() -> tuple[int, int]:
    """Number of the compiled kernels in the cache directory, and the bytes of all that is in it."""
    sizes: dict[str, list[int]] = {CODE: [], KNOWN: []}
    for kind, found in sizes.items():
        for path in kernel_cache_dir().glob("*" + kind):
            with contextlib.suppress(OSError):
                found.append(path.stat().st_size)
    return len(sizes[CODE]), sum(map(sum, sizes.values()))


def clear_kernel_cache() -> int:
    """Deletes every compiled kernel of the cache directory; returns how many."""
    removed = 0
    for kind in (CODE, KNOWN, ".tmp"):
        for path in kernel_cache_dir().glob("*" + kind):
            with contextlib.suppress(OSError):
                path.unlink()
                removed += kind == CODE
    return removed
