"""npz: arrays of NumPy, as `write_recording` writes them; never Python objects."""

from __future__ import annotations

import math

import numpy as np

from sim.files import Archive, read_bytes
from sim.io.readers.base import Raw, RecordingFormat, Source
from sim.io.recording import RecordingError, suggest


def _read(source: Source) -> Raw:
    content = read_bytes(source.path)
    if content.startswith(b"\x93NUMPY"):
        raise RecordingError("this is a single array, not an .npz archive", "write it with write_recording or np.savez")
    archive, key = Archive(content), source.key
    if key is None:
        key = _only_key(archive)
    if key not in archive:
        raise RecordingError(f"there is no array `{key}`", suggest(key, archive.names, "arrays"))
    header = archive.header(key)
    if header.dtype.kind not in "fiu":
        raise RecordingError(f"the array has the type {header.dtype}, expected real numbers")
    if len(header.shape) != 3 or header.shape[2] != 3:
        raise RecordingError(
            f"the array has the shape {header.shape}, expected (frames, markers, 3)", "one marker is (frames, 1, 3)"
        )
    markers = header.shape[1]
    time, rate = _numbers(archive, f"{key}_time"), _stored_rate(archive, key)
    labels = _labels(archive, f"{key}_labels", markers) if f"{key}_labels" in archive else ()
    if not labels and "labels" in archive and archive.header("labels").shape == (markers,):
        labels = _labels(archive, "labels", markers)  # else a file's common `labels` belong to another of its arrays
    return Raw(archive[key], labels, time, rate=rate, time_name=f"{key}_time", ours=True)


def _only_key(archive: Archive) -> str:
    """The one array of an archive that can be a recording."""
    shapes = {name: archive.header(name).shape for name in archive.names}
    fitting = [name for name, shape in shapes.items() if len(shape) == 3 and shape[2] == 3]
    if len(fitting) == 1:
        return fitting[0]
    what = "several arrays" if fitting else "no array"
    raise RecordingError(
        f"{what} of the shape (frames, markers, 3)",
        f"say which one with `key`; arrays: {', '.join(archive.names[:20]) or 'none'}",
    )


def _numbers(archive: Archive, name: str) -> np.ndarray | None:
    """An array of real numbers, where the archive has it."""
    if name not in archive:
        return None
    kind = archive.header(name).dtype
    if kind.kind not in "fiu":
        raise RecordingError(f"`{name}` has the type {kind}, expected real numbers")
    return archive[name]


def _stored_rate(archive: Archive, key: str) -> float | None:
    """The rate [Hz] that the archive gives for an array, or for all of them."""
    for name in (f"{key}_rate", "rate"):
        stored = _numbers(archive, name)
        if stored is not None:
            if stored.size != 1:
                raise RecordingError(f"`{name}` has the shape {stored.shape}, expected one number [Hz]")
            return float(stored.reshape(-1)[0])
    return None


def _labels(archive: Archive, name: str, markers: int) -> tuple[str, ...]:
    """The names of the markers."""
    header = archive.header(name)
    if header.dtype.kind not in "USiu":
        raise RecordingError(f"`{name}` has the type {header.dtype}, expected texts")
    if header.shape != (markers,):
        raise RecordingError(
            f"`{name}` has the shape {header.shape}, {math.prod(header.shape)} labels for {markers} markers"
        )
    texts = [
        text.decode("utf-8", errors="replace") if isinstance(text, bytes) else str(text)
        for text in archive[name].tolist()
    ]
    return tuple(texts)


NPZ = RecordingFormat("NumPy archive", (".npz", ".npy"), _read)
