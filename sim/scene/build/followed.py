"""Attached points and held bodies that go as recorded: markers on them as displacements and turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.io import Recording, RecordingError
from sim.io.readers.about import longest_gap
from sim.io.recording import SAME_TIME
from sim.io.recording_files import moment
from sim.scene.build.context import BuildContext
from sim.scene.build.experiments import load_target
from sim.schema.reading import Steps

MOST_TURNED = 3.0
"""Turns of more [rad] are refused: those of half a turn and more could be the other way round."""
RIGID = 0.02
"""Markers that move against each other by this part of their distances (root mean square) are on no rigid body."""


def motions(
    context: BuildContext, path: str, entries: Sequence[dict[str, Any]], place: np.ndarray
) -> list[dict[str, Any]]:
    """Motions as a builder takes them: recordings become displacements of a place (3,) and turns about it."""
    out = []
    for k, entry in enumerate(entries):
        if "follow" in entry:
            track = _followed(context, f"{path}.{k}.follow", entry["follow"], place)
            out += [] if track is None else [{"follow": track}]
        else:
            context.warn_if_never(f"{path}.{k}.start", entry.get("start", 0.0))
            out.append(entry)
    return out


def _followed(context: BuildContext, path: str, entry: dict[str, Any], place: np.ndarray) -> dict[str, Any] | None:
    """One marker moves the place, three or more turn it too, as the rotation that fits them best (W. Kabsch, 1976)."""
    reach = _reach(context, path, entry["delay"])
    if reach is None:
        return None
    earlier = reach[0] < 0.0  # what lies before its start is needed too
    given = {**entry, "start": None} if earlier else entry
    recording = load_target(context, path, given, entry.get("markers"), None)
    if recording is None:
        return None
    with context.at(path):
        if earlier and "start" in entry:
            begin = moment(recording, entry["start"])
            recording = Recording(recording.positions, recording.time - begin, recording.labels)
        recording = _complete(recording, context.longest, entry["bridge"], reach)
        times, moved, turned, misfit = poses(recording, place)
        if misfit > RIGID:
            context.warnings.append(
                f"{path}: the markers move against each other by {misfit:.2g} of their distances (root mean square), as"
                " on no rigid body; a rotation was fitted to them"
            )
        track = {"time": times, "move": moved, "turn": turned, "about": place}
        free = any(reach) or any(entry["frame"]) or any(_in(steps, path, "frame") for steps in context.varied)
        return {**track, "delay": entry["delay"], "frame": entry["frame"]} if free else track
    return None


def _in(steps: Steps, path: str, name: str) -> bool:
    """Whether steps lead to, or into, a key of the table at a path."""
    whole = (*path.split("."), name)
    return steps[: len(whole)] == whole


def _reach(context: BuildContext, path: str, delay: float) -> tuple[float, float] | None:
    """The least and the largest delay [s] that a recording may have; None, and a problem, where that is not said."""
    place, delays = f"{path}.delay", [0.0, delay]
    for experiment, entry in context.data["experiments"].items():
        own = context.set_values[experiment].items()
        delays += [float(entry["set"][p]) for p, value in own if _in(value.steps, path, "delay")]
    for name, values in context.parameter_values.items():
        for p, value in values.items():
            if _in(value.steps, path, "delay"):
                parameter = context.data["parameters"][name]
                bounds = parameter.get("bounds", (None, None))
                if None in bounds:
                    what = f"`{place}` is sought, and nothing says how far"
                    hint = "give `bounds: [-50 ms, 50 ms]`: the recording has to reach as far beyond both ends"
                    context.problem(f"parameters.{name}", what, hint)
                    return None
                delays += [parameter["of"][p] * float(end) for end in bounds]
    return min(delays), max(delays)


def force_over_time(context: BuildContext, path: str, entry: dict[str, Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """Times (n,) [s] and forces (n, 3) [N] from t = 0 on; None, and a problem, where there are none."""
    recording = load_target(context, path, entry, entry.get("markers"), None)
    if recording is None:
        return None
    with context.at(path):
        if recording.marker_count > 1:
            names = ", ".join(recording.labels[:12])
            raise RecordingError(
                f"the file has {recording.marker_count} forces: {names}", "choose one: `markers: [NAME]`"
            )
        recording = _complete(recording, context.longest, entry["bridge"])
        return recording.time, recording.positions[:, 0]
    return None


def _complete(
    recording: Recording, duration: float, bridge: float, delays: tuple[float, float] = (0.0, 0.0)
) -> Recording:
    """The frames from t = 0 to the one after the end that see all markers, at the least and at the largest delay, and
    between them.  Raises RecordingError."""
    begin, duration = delays[0], duration + delays[1]
    slack = recording.interval * (1.0 + SAME_TIME)
    if recording.time[-1] + slack < duration:
        raise RecordingError(
            f"the recording ends at {recording.time[-1]:g} s, the simulation at {duration:g} s",
            "shorten `time.duration`, or start the recording earlier",
        )
    if not np.isfinite(recording.sample([0.0])).all():
        raise RecordingError("not all markers are seen at t = 0", "choose another `start`")
    if begin < 0.0 and recording.time[0] - slack > begin:
        raise RecordingError(
            f"the recording begins at {recording.time[0]:g} s, and a delay may begin it at {begin:g} s",
            "choose a later `start`, or narrower `bounds` of the delay",
        )
    needed = (recording.time >= begin - slack) & (recording.time <= duration + slack)
    if not duration:
        needed[:] = True
    unseen = ~np.isfinite(recording.positions).all(axis=(1, 2)) & needed
    longest = longest_gap(unseen[needed], recording.time[needed])
    if longest > bridge * (1.0 + SAME_TIME):
        raise RecordingError(
            f"{int(unseen.sum())} of {int(needed.sum())} frames miss a marker, the longest gap lasts {longest:.4g} s",
            f"choose markers without gaps, or `bridge: {longest:.4g} s` where a spline across it is good enough",
        )
    kept = needed & ~unseen
    return Recording(recording.positions[kept], recording.time[kept], recording.labels)


def poses(recording: Recording, place: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Times (n,) [s], 0 among them, displacements of a place (3,) that goes with the markers and rotation vectors
    (n, 3) [m], [rad] since 0, of frames that see all; and how far the markers are from a rigid body, of their
    distances.

    Raises RecordingError.
    """
    count = recording.marker_count
    if count == 2:
        raise RecordingError("two markers tell no rotation", "choose one, which moves it, or three, by `markers`")
    early, late = (sign * recording.time > SAME_TIME * recording.interval for sign in (-1.0, 1.0))
    times = np.concatenate([recording.time[early], [0.0], recording.time[late]])
    x = np.concatenate([recording.positions[early], recording.sample([0.0]), recording.positions[late]])
    begin, center = int(early.sum()), x.mean(axis=1)
    if count == 1:
        return times, center - center[begin], np.zeros((len(times), 3)), 0.0
    arms = x - center[:, None]
    spread = np.linalg.svd(arms[begin], compute_uv=False)
    if spread[1] < 1e-6 * spread[0]:
        raise RecordingError("the markers lie on a line, and tell no rotation", "choose three that do not")
    u, _, vt = np.linalg.svd(np.einsum("tmi,mj->tij", arms, arms[begin]))
    u[:, :, 2] *= np.sign(np.linalg.det(u @ vt))[:, None]
    rotations = u @ vt
    turned = np.array([_vector(r) for r in rotations])
    if np.linalg.norm(turned, axis=1).max() > MOST_TURNED:
        raise RecordingError(
            f"the markers turn by {np.linalg.norm(turned, axis=1).max():.2g} rad",
            "half a turn and more is not followed",
        )
    off = np.sqrt(np.mean((arms - np.einsum("tij,mj->tmi", rotations, arms[begin])) ** 2) / np.mean(arms[begin] ** 2))
    return times, center - place - np.einsum("tij,j->ti", rotations, center[begin] - place), turned, float(off)


def _vector(r: np.ndarray) -> np.ndarray:
    """The rotation vector of a rotation matrix, of a turn of less than half."""
    v = 0.5 * np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]])
    sine = float(np.linalg.norm(v))
    return v * (np.arctan2(sine, 0.5 * (np.trace(r) - 1.0)) / sine) if sine > 1e-12 else v
