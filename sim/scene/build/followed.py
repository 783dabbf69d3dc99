"""Held bodies that go as recorded: markers on them as displacements and turns, linear from sample to sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.io import Recording, RecordingError
from sim.scene.build.context import BuildContext
from sim.scene.build.experiments import load_target

MOST_TURNED = 3.0
"""Turns of more [rad] are refused: those of half a turn and more could be the other way round."""


def followed(context: BuildContext, path: str, entry: dict[str, Any], origin: np.ndarray) -> list[dict[str, Any]]:
    """Motions of a body whose origin (3,) begins at `origin`: those of recorded markers since t = 0.

    One marker moves it, three or more turn it too, as the rotation that fits them best (W. Kabsch, 1976).
    """
    recording = load_target(context, path, entry, entry.get("markers"), None)
    if recording is None:
        return []
    with context.at(path):
        times, moved, turned = poses(recording, origin)
        out = []
        for key, values in (("move", moved), ("turn", turned)):
            for k in np.flatnonzero(np.any(np.diff(values, axis=0), axis=1)):
                step = (values[k + 1] - values[k]).tolist()
                out.append({key: step, "start": times[k], "end": times[k + 1], "ease": "linear"})
        return out
    return []


def poses(recording: Recording, origin: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times (n,) [s] from 0 on, displacements of the origin and rotation vectors (n, 3) [m], [rad] since then.

    Samples in which a marker is missing are left out.  Raises RecordingError.
    """
    count = recording.marker_count
    if count == 2:
        raise RecordingError("two markers tell no rotation", "choose one, which moves the body, or three, by `markers`")
    first = recording.sample([0.0])[0]
    if not np.isfinite(first).all():
        raise RecordingError("not all markers are seen at t = 0", "choose another `start`")
    seen = np.isfinite(recording.positions).all(axis=(1, 2)) & (recording.time > 0)
    times = np.append(0.0, recording.time[seen])
    x = np.concatenate([first[None], recording.positions[seen]])
    center = x.mean(axis=1)
    if count == 1:
        return times, center - center[0], np.zeros((len(times), 3))
    arms = x - center[:, None]
    spread = np.linalg.svd(arms[0], compute_uv=False)
    if spread[1] < 1e-6 * spread[0]:
        raise RecordingError("the markers lie on a line, and tell no rotation", "choose three that do not")
    u, _, vt = np.linalg.svd(np.einsum("tmi,mj->tij", arms, arms[0]))
    u[:, :, 2] *= np.sign(np.linalg.det(u @ vt))[:, None]
    rotations = u @ vt
    turned = np.array([_vector(r) for r in rotations])
    if np.linalg.norm(turned, axis=1).max() > MOST_TURNED:
        raise RecordingError(
            f"the markers turn by {np.linalg.norm(turned, axis=1).max():.2g} rad",
            "half a turn and more is not followed",
        )
    return times, center - origin - np.einsum("tij,j->ti", rotations, center[0] - origin), turned


def _vector(r: np.ndarray) -> np.ndarray:
    """The rotation vector of a rotation matrix, of a turn of less than half."""
    v = 0.5 * np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]])
    sine = float(np.linalg.norm(v))
    return v * (np.arctan2(sine, 0.5 * (np.trace(r) - 1.0)) / sine) if sine > 1e-12 else v
