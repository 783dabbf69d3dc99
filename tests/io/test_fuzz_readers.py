"""Every reader, given spoilt files: it reads what is there, or says what is wrong and where.  Nothing else, and in
bounded time and memory."""

import os
import struct
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from tools.files import foreign_recordings as foreign
from tools.fuzz.files import ANY, EVIL, TEXT, spoilt_glb, spoilt_npz, zipped
from tools.fuzz.files import npy as npy_bytes

import sim
from sim.files import FileError, number, read_npy, whole
from sim.files.archive import read_header
from sim.geometry import GeometryError, load_mesh, load_tets, solid_grid
from sim.io import Recording, RecordingError, load_recording, write_recording
from sim.scene import SceneError
from sim.schema.units import UnitError, to_si
from sim.schema.yaml_marks import resolve_scalar

resource = pytest.importorskip("resource", reason="limits of a process, on Unix")

CASES = 300
SECONDS = 2.0
"""For a file of some kilobytes, on a busy machine."""
MEMORY = 2**30
"""Bytes that reading may take on top of what the process has: a spoilt file of some kilobytes needs a thousandth."""

BOX = solid_grid(2, 1, 1, 0.1, 0.1, 0.1).mesh
TRIANGLES = BOX.triangles


@pytest.fixture(autouse=True)
def bounded():
    """Memory is limited: what would be allocated because a header says so is a MemoryError, which no reader is
    allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = (
        int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        if Path("/proc/self/statm").exists()
        else 2**33
    )
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def attempt(path, content, read, errors, case):
    """What `read` makes of the content, or None where it is refused in words, with the place."""
    path.write_bytes(content)
    begun = time.perf_counter()
    try:
        return read(path)
    except errors as error:
        said = str(error)
        assert path.stem in said and max(map(len, said.split("\n"))) < 1000 and "Traceback" not in said, (case, said)
        return None
    except Exception as error:
        raise AssertionError(f"case {case}: {type(error).__name__}: {error}; content {content[:300]!r}") from error
    finally:
        assert time.perf_counter() - begun < SECONDS, case


def spoilt(seed, content, mutations):
    """(case, content) of so many spoilt files."""
    for case in range(CASES):
        rng = np.random.default_rng([seed, case])
        spoil = mutations[case % len(mutations)]
        out = spoil(rng, content)
        yield (
            f"{spoil.__name__} {case}",
            out if rng.random() < 0.8 else mutations[int(rng.integers(3))](rng, out or b" "),
        )


# ------------------------------------------------------------------------------------------ recordings
def take():
    positions = np.random.default_rng(0).normal(size=(4, 2, 3)).round(3)
    return Recording(positions, np.arange(4) / 10, ("a", "b"))


def sound(recording):
    x = recording.positions
    assert x.ndim == 3 and x.shape[2] == 3 and not np.isinf(x).any() and np.abs(np.nan_to_num(x)).max() <= 1e9
    assert (
        (np.diff(recording.time) > 0).all()
        and np.isfinite(recording.time).all()
        and len(set(recording.labels)) == x.shape[1]
    )


def test_npz_bytes(tmp_path):
    good = take()
    content = write_recording(tmp_path / "good.npz", take=good).read_bytes()
    for case, data in spoilt(1, content, ANY):
        found = attempt(tmp_path / "spoilt.npz", data, lambda path: load_recording(path, "take"), RecordingError, case)
        if (
            found is not None
        ):  # the checksums hold: the content is what was written, up to members that were lost or renamed
            np.testing.assert_array_equal(found.positions, good.positions)
            np.testing.assert_array_equal(found.time, good.time)


def test_npz_content(tmp_path):
    good = take()
    arrays = {"take": good.positions, "take_time": good.time, "take_labels": np.array(good.labels)}
    outcomes = {}
    for case in range(CASES):
        kind, data = spoilt_npz(np.random.default_rng([2, case]), arrays)
        found = attempt(
            tmp_path / "spoilt.npz", data, lambda path: load_recording(path, "take"), RecordingError, f"{kind} {case}"
        )
        outcomes.setdefault(kind, []).append(found is not None)
        if found is None:
            continue
        sound(found)
        if kind in ("shape", "payload", "header", "field", "entries"):
            np.testing.assert_array_equal(found.positions, good.positions)
    assert not any(outcomes["bomb"]) and not any(outcomes["payload"]) and any(outcomes["value"]), outcomes


def naive_csv(text):
    rows = [line.split(",") for line in text.split("\n") if line.strip()]
    return np.array([[float(c) if c.strip() else np.nan for c in row] for row in rows[1:]])


def test_csv(tmp_path):
    content = write_recording(tmp_path / "good.csv", take=take()).read_bytes()
    for case, data in spoilt(3, content, TEXT):
        found = attempt(tmp_path / "spoilt.csv", data, load_recording, RecordingError, case)
        if found is not None:
            sound(found)
            text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
            if '"' not in text:
                expected = naive_csv(text)
                np.testing.assert_array_equal(found.time, expected[:, 0])
                seen = np.isfinite(found.positions).all(axis=2)
                np.testing.assert_array_equal(
                    found.positions[seen], expected[:, 1:].reshape(found.positions.shape)[seen]
                )


@pytest.mark.parametrize("name", foreign.TEXTS)
def test_other_programs(tmp_path, name):
    told = {"unit": 1.0, "rate": foreign.RATE, "up": "y"}
    for case, data in spoilt(8, foreign.TEXTS[name]().encode(), TEXT):
        found = attempt(tmp_path / name, data, lambda path: load_recording(path, **told), RecordingError, case)
        if found is not None:
            sound(found)


def test_npy(tmp_path):
    content = npy_bytes(np.arange(12.0))
    for case, data in spoilt(4, content, ANY):
        path = tmp_path / "spoilt.npy"

        def read(path):
            try:
                return read_npy(path)
            except FileError as error:
                raise FileError(f"{path}: {error.what}", error.hint) from None  # as those who read files do

        found = attempt(path, data, read, FileError, case)
        assert found is None or found.nbytes <= len(data)


# ------------------------------------------------------------------------------------------ meshes
def obj():
    lines = [f"v {x:.3g} {y:.3g} {z:.3g}" for x, y, z in BOX.positions] + ["# é comment", "vt 0 0"]
    return "\n".join(
        lines + [f"f {a + 1}/1 {b + 1}//1 {c - len(BOX.positions)}" for a, b, c in TRIANGLES] + [""]
    ).encode()


def off():
    lines = ["OFF", f"{len(BOX.positions)} {len(TRIANGLES)} 0"] + [
        f"{x:.3g} {y:.3g} {z:.3g}" for x, y, z in BOX.positions
    ]
    return "\n".join([*lines, *(f"3 {a} {b} {c}" for a, b, c in TRIANGLES), ""]).encode()


def ply(form):
    head = (
        f"ply\nformat {form} 1.0\nelement vertex {len(BOX.positions)}\nproperty float x\nproperty float y\nproperty"
        " float z\n"
    )
    head += f"element face {len(TRIANGLES)}\nproperty list uchar int vertex_indices\nend_header\n"
    if form == "ascii":
        lines = [f"{x:.3g} {y:.3g} {z:.3g}" for x, y, z in BOX.positions] + [f"3 {a} {b} {c}" for a, b, c in TRIANGLES]
        return (head + "\n".join(lines) + "\n").encode()
    order = "<" if "little" in form else ">"
    return (
        head.encode()
        + BOX.positions.astype(order + "f4").tobytes()
        + b"".join(struct.pack(order + "B3i", 3, *t) for t in TRIANGLES.tolist())
    )


def stl(binary):
    facets = BOX.positions[TRIANGLES]
    if binary:
        return (
            bytes(80)
            + struct.pack("<I", len(facets))
            + b"".join(struct.pack("<12fH", 0, 0, 0, *f.ravel(), 0) for f in facets)
        )
    lines = ["solid box"]
    for facet in facets:
        lines += [
            "facet normal 0 0 0",
            "outer loop",
            *(f"vertex {x:.3g} {y:.3g} {z:.3g}" for x, y, z in facet),
            "endloop",
            "endfacet",
        ]
    return "\n".join([*lines, "endsolid box", ""]).encode()


def glb():
    trimesh = pytest.importorskip("trimesh")
    return trimesh.exchange.gltf.export_glb(trimesh.Scene(trimesh.Trimesh(BOX.positions, TRIANGLES, process=False)))


SURFACES = {"box.obj": (obj, TEXT), "box.off": (off, TEXT), "text.ply": (lambda: ply("ascii"), TEXT),
            "little.ply": (lambda: ply("binary_little_endian"), ANY),
            "big.ply": (lambda: ply("binary_big_endian"), ANY), "text.stl": (lambda: stl(False), TEXT),
            "binary.stl": (lambda: stl(True), ANY),
            "box.glb": (glb, [*ANY, spoilt_glb, spoilt_glb, spoilt_glb])}  # fmt: skip


@pytest.mark.parametrize("name", SURFACES)
def test_surfaces(tmp_path, name):
    make, mutations = SURFACES[name]
    content = make()
    whole = attempt(tmp_path / name, content, load_mesh, (), "whole")
    np.testing.assert_allclose(whole.positions[whole.triangles], BOX.positions[TRIANGLES], rtol=1e-6)
    for case, data in spoilt(5, content, mutations):
        found = attempt(tmp_path / name, data, load_mesh, GeometryError, case)
        if found is not None:
            assert (
                np.isfinite(found.positions).all()
                and 0 <= found.triangles.min()
                and found.triangles.max() < len(found.positions)
            ), case
            # Nothing is made up: every coordinate and every corner takes bytes of the file.
            assert found.triangles.size <= 50 * len(data), case


def test_numbers_are_read_as_the_formats_mean_them(tmp_path):
    for k, evil in enumerate(EVIL):
        data = obj().replace(b"v 0.1 0 0\n", f"v {evil} 0 0\n".encode(), 1)
        found = attempt(tmp_path / "box.obj", data, load_mesh, GeometryError, f"{evil} {k}")
        assert (found is None) == (evil not in ("1.5", "-1", "0", "1e-400", "2147483648", "-2147483649")), evil


# ------------------------------------------------------------------------------------------ solids
def nodes():
    return "\n".join(
        [
            f"{len(BOX.positions)} 3 0 0",
            *(f"{k} {x:.3g} {y:.3g} {z:.3g}" for k, (x, y, z) in enumerate(BOX.positions)),
            "# end",
        ]
    ).encode()


def elements():
    return "\n".join(
        [f"{len(BOX.tets)} 4 0", *(f"{k} {a} {b} {c} {d}" for k, (a, b, c, d) in enumerate(BOX.tets)), "# end"]
    ).encode()


def msh(version, binary):
    head = (
        f"$MeshFormat\n{version} {int(binary)} 8\n".encode()
        + (struct.pack("<i", 1) + b"\n" if binary else b"")
        + b"$EndMeshFormat\n"
    )
    x, tets = BOX.positions, BOX.tets + 1
    n, t, k = len(x), len(tets), np.arange(1, len(x) + 1)
    if version == "2.2" and binary:
        first = f"{n}\n".encode() + b"".join(
            struct.pack("<i3d", *row) for row in zip(k.tolist(), *x.T.tolist(), strict=True)
        )
        second = (
            f"{t}\n".encode()
            + struct.pack("<3i", 4, t, 2)
            + b"".join(struct.pack("<7i", i, 1, 1, *c) for i, c in enumerate(tets.tolist(), 1))
        )
    elif version == "2.2":
        first = "\n".join([str(n), *(f"{i} {a:.3g} {b:.3g} {c:.3g}" for i, (a, b, c) in enumerate(x, 1))]).encode()
        second = "\n".join(
            [str(t), *(f"{i} 4 2 1 1 {a} {b} {c} {d}" for i, (a, b, c, d) in enumerate(tets, 1))]
        ).encode()
    elif binary:
        first = struct.pack("<4Q3iQ", 1, n, 1, n, 3, 1, 0, n) + k.astype("<u8").tobytes() + x.astype("<f8").tobytes()
        second = (
            struct.pack("<4Q3iQ", 1, t, 1, t, 3, 1, 4, t)
            + np.column_stack([np.arange(1, t + 1), tets]).astype("<u8").tobytes()
        )
    else:
        first = "\n".join(
            [f"1 {n} 1 {n}", f"3 1 0 {n}", *map(str, k), *(f"{a:.3g} {b:.3g} {c:.3g}" for a, b, c in x)]
        ).encode()
        second = "\n".join(
            [f"1 {t} 1 {t}", f"3 1 4 {t}", *(f"{i} {a} {b} {c} {d}" for i, (a, b, c, d) in enumerate(tets, 1))]
        ).encode()
    return head + b"$Nodes\n" + first + b"\n$EndNodes\n$Elements\n" + second + b"\n$EndElements\n"


def solid(found):
    assert np.isfinite(found.positions).all() and found.tets.min() >= 0 and found.tets.max() < len(found.positions)
    assert (found.volumes > 0).all() and len(found.positions) <= len(BOX.positions) and len(found.tets) <= len(BOX.tets)


@pytest.mark.parametrize("spoil", ["node", "ele"])
def test_tetgen(tmp_path, spoil):
    files = {"node": nodes(), "ele": elements()}
    for suffix, content in files.items():
        (tmp_path / f"box.{suffix}").write_bytes(content)
    for case, data in spoilt(6, files[spoil], TEXT):
        found = attempt(tmp_path / f"box.{spoil}", data, load_tets, GeometryError, case)
        if found is not None:
            solid(found)
            assert len(found.tets) == len(BOX.tets), case  # a row that was lost or doubled is noticed


@pytest.mark.parametrize("version", ["2.2", "4.1"])
@pytest.mark.parametrize("binary", [False, True])
def test_gmsh(tmp_path, version, binary):
    content = msh(version, binary)
    whole = attempt(tmp_path / "box.msh", content, load_tets, (), "whole")
    np.testing.assert_allclose(whole.positions[whole.tets], BOX.positions[BOX.tets], rtol=1e-6)
    for case, data in spoilt(7, content, ANY if binary else TEXT):
        found = attempt(tmp_path / "box.msh", data, load_tets, GeometryError, case)
        if found is not None:
            solid(found)


# ------------------------------------------------------------------------------------------ scenes
SCENE = b"""format: 1
time: {duration: 0.2, fps: 20, substeps: 5}
objects:
  rope:
    chain: {from: [0, 0, 0], to: [1, 0, 0], points: 4, mass: 0.1, material: {distance: {compliance: 1e-3 m/N}}}
    position: [0, 1, 0]
attachments:
  hold: {on: rope, where: {x: [null, 0]}, motion: [{move: [0, 0, 1 cm], end: 0.1}]}
markers:
  tip: {on: rope, farthest: 1}
parameters:
  soft: {of: objects.rope.chain.material.distance.compliance, transform: log, bounds: [1e-5, 1]}
loss:
  - {reach: {marker: tip, point: [1, 0, 0], scale: 0.5}}
optimize:
  lbfgs: {iterations: 4}
"""


def numbers_of(value):
    if isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from numbers_of(child)
    elif isinstance(value, float | int) and not isinstance(value, bool):
        yield value


def test_scenes(tmp_path):
    for case, data in spoilt(8, SCENE, TEXT):
        found = attempt(
            tmp_path / "scene.yaml", data, lambda path: sim.load_scene(path, open_files=False), SceneError, case
        )
        if found is not None:
            assert all(np.isfinite(float(number)) for number in numbers_of(found.data)), case


LAUGHS = "\n".join(
    ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]" for i in range(1, 12)]
)
MERGES = "\n".join(
    ["a0: &a0 {x: 1}"]
    + [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 8)}], y{i}: *a{i - 1}}}" for i in range(1, 40)]
)


TOO_MUCH = [
    LAUGHS,
    MERGES,
    "a: " + "[" * 20_000,
    "a: " + "{b: " * 5_000,
    "- " * 50_000,
    "a: " + "9" * 10_000,
    "a: 0x" + "f" * 10_000,
    "a: " + "x" * 1_000_000,
    "&" * 10_000,
    "a: |\n" + " " * 100_000,
    "a: &a [*a]",
    "? [1]\n: 2",
    "a: !!python/object/apply:os.system [x]",
    "%YAML 9.9\n---\na: 1",
    "a: 1\n...\n...\n",
    "\t",
]


@pytest.mark.parametrize("text", TOO_MUCH, ids=lambda text: text[:20])
def test_yaml_that_wants_too_much(tmp_path, text):
    assert attempt(tmp_path / "scene.yaml", text.encode(), sim.load_scene, SceneError, text[:40]) is None


@pytest.mark.parametrize(
    "word",
    ["9" * 10**6, "9" * 10**6 + "x", "9." * 10**6, "1e" + "9" * 10**6, "-" * 10**6, " " * 10**6 + "x", "(" * 10**5],
)
def test_long_words_take_no_longer_than_their_length(word):
    """Patterns that try every place between two parts take the square of the length."""
    begun = time.perf_counter()
    for read, error in (
        (number, FileError),
        (whole, FileError),
        (lambda text: to_si(f"1 {text}", "m"), UnitError),
        (lambda text: to_si(text, "m"), UnitError),
    ):
        with pytest.raises(error) as caught:
            read(word)
        assert len(caught.value.what) < 3 * 10**6
    resolve_scalar(word)
    header = f"{{'descr': '<f8'{' ' * 9000}x".encode()
    with pytest.raises(FileError, match="its header is"):
        read_header(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header, 10**6)
    assert time.perf_counter() - begun < 5 * SECONDS


def test_what_is_no_file(tmp_path):
    for read, error in (
        (load_recording, RecordingError),
        (load_mesh, GeometryError),
        (load_tets, GeometryError),
        (sim.load_scene, SceneError),
    ):
        suffix = {load_recording: "npz", load_mesh: "obj", load_tets: "msh"}.get(read, "yaml")
        (tmp_path / f"a.{suffix}").mkdir()
        for path in (tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}", tmp_path / "no" / f"b.{suffix}"):
            with pytest.raises(error, match=path.name):
                read(path)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(RecordingError, match="a pipe or a device"):
        load_recording(tmp_path / "pipe.csv")


def test_a_file_that_is_what_another_name_says(tmp_path):
    for content, said in ((b"time,a.x,a.y,a.z\n0,1,2,3\n", "a text that begins with `time,a.x,a.y,a.z`"),
                          (b"\x80\x04\x95abc", "a pickle"),
                          (npy_bytes(np.zeros(3)), "a single array"),
                          (zipped([("readme.txt", b"hello")]), "no array")):  # fmt: skip
        (tmp_path / "take.npz").write_bytes(content)
        with pytest.raises(RecordingError, match=said):
            load_recording(tmp_path / "take.npz", "take" if b"readme" not in content else None)
