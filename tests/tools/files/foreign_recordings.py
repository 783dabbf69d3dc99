"""One take as other programs write it: their layouts, the numbers our own."""

from __future__ import annotations

import numpy as np

RATE = 50.0
FRAMES = 6
TIME = np.arange(FRAMES) / RATE
LABELS = ("tip", "base")
MM = np.round(1e3 * np.random.default_rng(3).normal(size=(FRAMES, 2, 3)), 2)
"""(frames, markers, 3) [mm], z up."""
MM[2, 1] = np.nan

_AXES = [f"{label}{{}}{axis}" for label in LABELS for axis in "xyz"]


def cell(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.6f}"


def table(head: list[list[str]], lead: list[list[str]], sign: str = ",", between: int = 0) -> str:
    """Rows of a head, then a row for each frame: what leads it, and coordinates with `between` cells behind each
    marker."""
    rows = [*head]
    for first, x in zip(lead, MM, strict=True):
        cells = [[*map(cell, marker), *["0.9"] * between] for marker in x]
        rows.append([*first, *(c for marker in cells for c in marker)])
    return "\n".join(sign.join(row) for row in rows) + "\n"


def wide_csv() -> str:
    return table([["time [ms]", *(f"{name.format('_')} (mm)" for name in _AXES)]], [[f"{1e3 * t:g}"] for t in TIME])


def long_csv() -> str:
    rows = ["t_ms,label,x [mm],y [mm],z [mm],confidence"]
    rows += [
        ",".join([f"{1e3 * TIME[k]:g}", label, *map(cell, MM[k, m]), "0.5"])
        for m, label in reversed(list(enumerate(LABELS)))
        for k in range(FRAMES)
        if np.isfinite(MM[k, m, 0])
    ]
    return "\n".join(rows) + "\n"


def motive_csv() -> str:
    head = [
        ["Format Version", "1.23", "Take Name", "wave", "Export Frame Rate", "50.000000", "Length Units", "Millimeters",
         "Coordinate Space", "Global"],
        [""],
        ["", "Type", *["Marker"] * 6, *["Rigid Body"] * 3],
        ["", "Name", *["tip"] * 3, *["base"] * 3, *["hand"] * 3],
        ["", "ID", *["7"] * 9],
        ["", "", *["Position"] * 9],
        ["Frame", "Time (Seconds)", *"XYZXYZXYZ"],
    ]  # fmt: skip
    rows = table(head, [[str(k), f"{t:.6f}"] for k, t in enumerate(TIME)]).split("\n")
    return "\n".join([*rows[: len(head)], *(f"{row},1,2,3" for row in rows[len(head) : -1])]) + "\n"


def trc() -> str:
    names = "DataRate CameraRate NumFrames NumMarkers Units OrigDataRate OrigDataStartFrame OrigNumFrames".split()
    head = [
        ["PathFileType", "4", "(X/Y/Z)", "wave.trc"],
        names,
        ["50", "50", str(FRAMES), "2", "mm", "50", "1", str(FRAMES)],
        ["Frame#", "Time", "tip", "", "", "base", "", ""],
        ["", "", "X1", "Y1", "Z1", "X2", "Y2", "Z2"],
        [""],
    ]
    return table(head, [[str(k + 1), f"{t:.6f}"] for k, t in enumerate(TIME)], "\t")


def deeplabcut_csv() -> str:
    head = [
        ["scorer", *["net"] * 8],
        ["bodyparts", *["tip"] * 4, *["base"] * 4],
        ["coords", *["x", "y", "z", "likelihood"] * 2],
    ]
    return table(head, [[str(k)] for k in range(FRAMES)], between=1)


def anipose_csv() -> str:
    names = [f"{label}_{key}" for label in LABELS for key in ("x", "y", "z", "error", "ncams", "score")]
    rows = table([names], [[]] * FRAMES, between=3).split("\n")
    out = [f"{rows[0]},M_00,center_0,fnum", *(f"{row},1,0,{k}" for k, row in enumerate(rows[1:-1]))]
    return "\n".join(out) + "\n"


def sleap_csv() -> str:
    """A row for each instance; two tracks of one node each."""
    rows = ["track,frame_idx,instance.score,dot.x,dot.y,dot.z,dot.score"]
    rows += [
        ",".join([label, str(k), "1", *map(cell, MM[k, m]), "0.5"])
        for k in range(FRAMES)
        for m, label in enumerate(LABELS)
    ]
    return "\n".join(rows) + "\n"


TEXTS = {
    "wide.csv": wide_csv, "long.csv": long_csv, "motive.csv": motive_csv, "take.trc": trc,
    "deeplabcut.csv": deeplabcut_csv, "anipose.csv": anipose_csv, "sleap.csv": sleap_csv,
}  # fmt: skip
UNNAMED = ("deeplabcut.csv", "anipose.csv", "sleap.csv")
"""Those that name neither unit nor rate."""


def write_c3d(path, up: str | None = "+Z") -> None:
    """By ezc3d, as its users do."""
    import ezc3d

    made = ezc3d.c3d()
    made["parameters"]["POINT"]["RATE"]["value"] = [RATE]
    made["parameters"]["POINT"]["LABELS"]["value"] = (*LABELS, "*12", "elbow")
    made["parameters"]["POINT"]["UNITS"]["value"] = ("mm",)
    made.add_parameter("POINT", "ANGLES", ["elbow"])
    if up:
        made.add_parameter("POINT", "Y_SCREEN", [up])
    points = np.concatenate([MM, np.full((FRAMES, 2, 3), 7.0)], axis=1)
    made["data"]["points"] = np.moveaxis(points, 2, 0).swapaxes(1, 2)
    made.write(str(path))
