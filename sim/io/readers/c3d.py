"""C3D, by the library ezc3d (the extra [c3d]), in a process of its own: of a damaged file it follows what stands there,
and may read where nothing is, or for ever.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import numpy as np

from sim.files import Archive, FileError, read_bytes
from sim.io.readers.base import Raw, RecordingFormat, Source
from sim.io.readers.tables import named_few
from sim.io.recording import RecordingError

SECONDS, SECONDS_PER_MB = 20.0, 1.0
"""How long it may take: a sound file takes a hundredth of it."""
MEMORY, MEMORY_PER_BYTE = 2**32, 60
NO_MARKERS = ("ANGLES", "FORCES", "MOMENTS", "POWERS", "SCALARS")
"""Parameters of POINT that list trajectories which are no positions."""

# Runs with the file and limits as arguments; writes what was found as an archive.
_READ = f"""
import io, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
except ImportError:
    pass
import numpy as np
import ezc3d
try:
    found = ezc3d.c3d(sys.argv[1])
except Exception as error:
    sys.exit("ezc3d: " + str(error)[:200])
point = found["parameters"]["POINT"]
def texts(name):
    value = point[name]["value"] if name in point else []
    return np.array([str(word) for word in value if isinstance(word, str)], dtype=str)
def several(name):
    return np.concatenate([texts(name), *(texts(name + str(k)) for k in range(2, 50))])
out = {{name: texts(name) for name in ("UNITS", "Y_SCREEN", *{NO_MARKERS!r})}}
out["labels"] = several("LABELS")
out["positions"] = np.moveaxis(found["data"]["points"][:3], 0, 2).swapaxes(0, 1)
out["residuals"] = found["data"]["meta_points"]["residuals"][0].T
header = found["header"]["points"]
rate = point["RATE"]["value"] if "RATE" in point else []
out["rate"] = np.array([rate[0] if len(rate) else header["frame_rate"]], dtype=float)
out["first"] = np.array([header["first_frame"]])
content = io.BytesIO()
np.savez(content, **out)
sys.stdout.buffer.write(content.getvalue())
"""


def _read(source: Source) -> Raw:
    source.no_key()
    content = read_bytes(source.path)
    if len(content) < 1024 or content[1] != 0x50:
        raise RecordingError("the file is no C3D: it does not begin like one", "export it as C3D again")
    if importlib.util.find_spec("ezc3d") is None:
        raise RecordingError(
            "C3D files are read by ezc3d, which is not installed",
            "install it: pip install 'simopt-xpbd[c3d]' (or pip install ezc3d); or export the take as TRC or csv",
        )
    archive = _in_a_process(source, len(content))
    positions, residuals = archive["positions"].astype(np.float64), archive["residuals"]
    labels = [label.strip() for label in archive["labels"].tolist()][: positions.shape[1]]
    if len(labels) < positions.shape[1]:
        raise RecordingError(f"the file names {len(labels)} of its {positions.shape[1]} points", "name them all")
    if residuals.shape == positions.shape[:2]:
        positions[residuals < 0] = np.nan  # what the format says of points that were not seen
    left = {name for kind in NO_MARKERS for name in archive[kind].tolist() if name}
    derived = [label for label in labels if label in left]
    unlabelled = [label for label in labels if label.startswith("*") or not label]
    if len(unlabelled) + len(derived) == len(labels):
        unlabelled = []
    keep = [k for k, label in enumerate(labels) if label not in derived and label not in unlabelled]
    notes = []
    if derived:
        notes.append(f"trajectories that are no positions are left out: {named_few(derived)}")
    if unlabelled:
        notes.append(f"trajectories without a label are left out: {named_few(unlabelled)}")
    first = int(archive["first"][0])
    if first:
        notes.append(f"its first frame was number {first + 1} of the capture; here it is frame 0, at 0 s")
    up = archive["Y_SCREEN"].tolist()
    return Raw(
        positions[:, keep],
        tuple(labels[k] or str(k) for k in keep),
        numbers=np.arange(len(positions), dtype=float),
        rate=float(archive["rate"][0]),
        unit=next(iter(archive["UNITS"].tolist()), "").strip(),
        up=_axis(up[0]) if up else "",
        notes=tuple(notes),
    )


def _in_a_process(source: Source, size: int) -> Archive:
    """What ezc3d finds.  Raises RecordingError where it gives up, breaks down, or does not end."""
    damaged = "export it as C3D again; if other programs read it, as TRC or csv"
    limit = SECONDS + SECONDS_PER_MB * size / 1e6
    try:
        done = subprocess.run(
            [sys.executable, "-c", _READ, str(source.path.resolve()), str(MEMORY + MEMORY_PER_BYTE * size)],
            capture_output=True, timeout=limit, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise RecordingError(f"the file is damaged: ezc3d reads it for more than {limit:.0f} s", damaged) from None
    if done.returncode:
        said = [line for line in done.stderr.decode(errors="replace").split("\n") if line.strip()]
        why = said[-1][:200] if done.returncode > 0 and said else "ezc3d breaks down"
        raise RecordingError(f"the file is damaged: {why}", damaged)
    try:
        return Archive(done.stdout)
    except FileError as error:
        raise RecordingError("the file is damaged: ezc3d finds nothing", damaged) from error


def _axis(word: str) -> str:
    """`+Z` as `z`; "" for what is no axis."""
    sign, name = ("-" if word.strip().startswith("-") else ""), word.strip().lstrip("+-").lower()
    return sign + name if name in ("x", "y", "z") else ""


C3D = RecordingFormat("C3D", (".c3d",), _read, extra="c3d")
