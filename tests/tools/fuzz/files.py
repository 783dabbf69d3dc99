"""Files that are spoilt at random, with fixed seeds: what a disk, an editor, a script or an attacker may leave of a
file."""

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import cache

import numpy as np

Mutation = Callable[[np.random.Generator, bytes], bytes]

EVIL = [
    "1e400",
    "-1e999",
    "nan",
    "NaN",
    "inf",
    "-Infinity",
    "1_000",
    "",
    "1.5",
    "-1",
    "0",
    "99999999999999999999999",
    "-2147483649",
    "1e300",
    "0x10",
    "1,5",
    "١٢",
    "2147483648",
    "9" * 5000,
    "1e",
    "--1",
    "+",
    "1e99999999",
    "None",
    "18446744073709551615",
    "1e-400",
]


# ------------------------------------------------------------------------------------------ any file
def flip(rng: np.random.Generator, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        out[int(rng.integers(len(out)))] ^= 1 << int(rng.integers(8))
    return bytes(out)


def truncate(rng: np.random.Generator, data: bytes) -> bytes:
    return data[: int(rng.integers(len(data)))]


def insert(rng: np.random.Generator, data: bytes) -> bytes:
    at = int(rng.integers(len(data)))
    return data[:at] + rng.bytes(int(rng.integers(1, 40))) + data[at:]


def remove(rng: np.random.Generator, data: bytes) -> bytes:
    at = int(rng.integers(len(data)))
    return data[:at] + data[at + int(rng.integers(1, 40)) :]


def repeat(rng: np.random.Generator, data: bytes) -> bytes:
    a, b = sorted(rng.integers(len(data), size=2).tolist())
    return data[:b] + data[a:b] + data[b:]


ANY: list[Mutation] = [flip, truncate, insert, remove, repeat]


# ------------------------------------------------------------------------------------------ text
def _words(rng: np.random.Generator, data: bytes, change: Callable[[str], str]) -> bytes:
    """Changes one word of one line; numbers rather than names."""
    lines = data.decode("utf-8").split("\n")
    places = [
        (k, w)
        for k, line in enumerate(lines)
        for w, word in enumerate(line.replace(",", " , ").split())
        if word[-1].isdigit()
    ]
    line, word = places[int(rng.integers(len(places)))]
    words = lines[line].replace(",", " , ").split()
    words[word] = change(words[word])
    text = " ".join(words).replace(" , ", ",")
    indent = lines[line][: len(lines[line]) - len(lines[line].lstrip())]
    lines[line] = indent + text
    return "\n".join(lines).encode("utf-8")


def evil_number(rng: np.random.Generator, data: bytes) -> bytes:
    return _words(rng, data, lambda _: EVIL[int(rng.integers(len(EVIL)))])


def drop_word(rng: np.random.Generator, data: bytes) -> bytes:
    return _words(rng, data, lambda _: "")


def double_word(rng: np.random.Generator, data: bytes) -> bytes:
    return _words(rng, data, lambda word: f"{word} {word}")


def drop_line(rng: np.random.Generator, data: bytes) -> bytes:
    lines = data.split(b"\n")
    del lines[int(rng.integers(len(lines)))]
    return b"\n".join(lines)


def double_line(rng: np.random.Generator, data: bytes) -> bytes:
    lines = data.split(b"\n")
    at = int(rng.integers(len(lines)))
    return b"\n".join([*lines[:at], lines[at], *lines[at:]])


def swap_lines(rng: np.random.Generator, data: bytes) -> bytes:
    lines = data.split(b"\n")
    a, b = rng.integers(len(lines), size=2).tolist()
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def re_encode(rng: np.random.Generator, data: bytes) -> bytes:
    text = data.decode("utf-8")
    forms: list[Callable[[], bytes]] = [
        lambda: text.encode("utf-16"), lambda: text.encode("utf-16-le"), lambda: text.encode("utf-32"),
        lambda: b"\xef\xbb\xbf" + data,
        lambda: text.replace("\n", "\r\n").encode(), lambda: text.replace("\n", "\r").encode(),
        lambda: data.replace(b"\n", b"\n\xe9", 1),
        lambda: text.replace("\n", "\u2028").encode(), lambda: data.replace(b" ", b"\0", 1), lambda: b"",
        lambda: b"\n\n", lambda: b"\xef\xbb\xbf",
        lambda: text.replace(" ", "\u00a0").encode(), lambda: text.replace(".", ",").encode(),
        lambda: text.replace(",", ";").encode(),
    ]  # fmt: skip
    return forms[int(rng.integers(len(forms)))]()


TEXT: list[Mutation] = [
    *ANY,
    evil_number,
    evil_number,
    evil_number,
    drop_word,
    double_word,
    drop_line,
    double_line,
    swap_lines,
    re_encode,
]


# ------------------------------------------------------------------------------------------ NumPy's files
DTYPES = [
    "<f8",
    ">f8",
    "<f4",
    "<f2",
    "<i8",
    "<u1",
    "|b1",
    "|O",
    "<c16",
    "<M8[s]",
    "<m8[ns]",
    "<U4",
    "<U0",
    "|S0",
    "|S24",
    "|V8",
    "<f3",
    "f8,f8",
    "3f8",
    "(2,)f8",
    "",
    "<f8\\x00",
    "[('a', '<f8')]",
    "<f16",
    "<U999999999",
    "é",
]
SHAPES = [
    "(4, 2, 3)",
    "(100000000000, 2, 3)",
    "(99999999999999999999, 2, 3)",
    "(-4, 2, 3)",
    "(4.0, 2, 3)",
    "(0, 2, 3)",
    "(4, 2, 3, 1)",
    "(24,)",
    "()",
    "(2, 4, 3)",
    "(1, 8, 3)",
    "(3, 4, 2)",
    "(4, 2, 3",
    "[4, 2, 3]",
    "(True, 8, 3)",
    "(4L, 2L, 3L)",
    "(" + "1, " * 40 + "24)",
    "'(4, 2, 3)'",
    "(4, 2, 3) * 9",
    "(" * 3000,
    "(9223372036854775807, 9223372036854775807, 3)",
    "(4294967296, 4294967296, 0)",
    "(None, 2, 3)",
]


def npy(array: np.ndarray, descr: str | None = None, shape: str | None = None, fortran: str | None = None) -> bytes:
    """A .npy whose header may say other things than the array."""
    header = (
        f"{{'descr': '{descr or array.dtype.str}', 'fortran_order': {fortran or 'False'}, 'shape':"
        f" {shape or array.shape}, }}"
    )
    text = header.encode("utf-8") + b"\n"
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text + array.tobytes()


def zipped(entries: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return buffer.getvalue()


@cache
def bomb(name: str) -> bytes:
    """A hundred megabytes of zeros in a hundred kilobytes."""
    count = 2_000_000
    return zipped([(name, npy(np.zeros(0), shape=f"({count}, 2, 3)") + bytes(48 * count))], zipfile.ZIP_DEFLATED)


def spoilt_npz(rng: np.random.Generator, arrays: dict[str, np.ndarray]) -> tuple[str, bytes]:
    """An archive whose checksums are right and whose content is not, and what was done to it."""
    entries = {f"{name}.npy": npy(array) for name, array in arrays.items()}
    name = list(arrays)[int(rng.integers(len(arrays)))]
    file, array = f"{name}.npy", arrays[name]
    method = int(rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
    kind = str(
        rng.choice(
            [
                "descr",
                "shape",
                "fortran",
                "header",
                "payload",
                "value",
                "kind",
                "entries",
                "field",
                "field",
                "bomb",
                "form",
            ]
        )
    )
    if kind == "descr":
        entries[file] = npy(array, descr=str(rng.choice(DTYPES)))
    elif kind == "shape":
        entries[file] = npy(array, shape=str(rng.choice(SHAPES)))
    elif kind == "fortran":
        entries[file] = npy(array, fortran=str(rng.choice(["True", "1", "None", "'yes'", "[]"])))
    elif kind == "header":
        entries[file] = flip(rng, entries[file][:60]) + entries[file][60:]
    elif kind == "payload":
        entries[file] = (
            entries[file][: -int(rng.integers(1, 16))] if rng.random() < 0.5 else entries[file] + rng.bytes(9)
        )
    elif kind == "value" and array.dtype.kind == "f":
        changed = array.copy()
        changed.reshape(-1)[int(rng.integers(array.size))] = float(
            rng.choice([np.nan, np.inf, -np.inf, 1e300, -1e300, 1e12, 1e-320])
        )
        entries[file] = npy(changed)
    elif kind == "kind":
        others = [
            np.array(None),
            array.astype(complex) if array.dtype.kind == "f" else array[:0],
            array[..., None],
            array.ravel()[:1],
            array.astype("S9"),
            np.zeros(0),
            np.array("x"),
            array[:-1],
            np.array(1e-310),
            np.array(-5.0),
            np.array([1.0, 2.0]),
            np.array(["a\n", "a\n"]),
        ]
        other = others[int(rng.integers(len(others)))]
        entries[file] = npy(other) if other.dtype.kind != "O" else npy(np.zeros(1), descr="|O")
    elif kind == "entries":
        del entries[file]
        entries[str(rng.choice(["../x.npy", "take", "take.NPY", "/take.npy", "t\u00e4ke.npy", "take.npy/"]))] = npy(
            array
        )
    out = zipped(list(entries.items()), method)
    if kind == "field":  # of the directory: versions, flags, method, checksum, sizes, lengths of names, offset
        at = (
            out.rindex(b"PK\x01\x02") + int(rng.integers(4, 46))
            if rng.random() < 0.8
            else out.rindex(b"PK\x05\x06") + int(rng.integers(4, 22))
        )
        out = out[:at] + bytes([int(rng.integers(256))]) + out[at + 1 :]
    elif kind == "bomb":
        out = bomb("take.npy")
    elif kind == "form":
        forms = [
            zlib.compress(out),
            npy(array),
            b"time,a.x,a.y,a.z\n0,1,2,3\n",
            b"\x80\x04\x95",
            out + rng.bytes(30),
            rng.bytes(30) + out,
            b"PK\x05\x06" + bytes(18),
            out.replace(b"take_time.npy", b"take.npy" + bytes(5)),
            zipped([]),
            zipped([("take.npy", b"")]),
            zipped(list(entries.items()), zipfile.ZIP_LZMA),
        ]
        out = forms[int(rng.integers(len(forms)))]
    return kind, out


def spoilt_glb(rng: np.random.Generator, content: bytes) -> bytes:
    """A GLB whose description says other things than its bytes."""
    size = struct.unpack("<I", content[12:16])[0]
    about, rest = json.loads(content[20 : 20 + size]), content[20 + size :]
    evil = [-1, 10**12, 1.5, "x", None, [], 2**31, 0, {"a": 1}]

    def leaves(value: object, path: tuple) -> list[tuple]:
        pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        return [place for key, child in pairs for place in leaves(child, (*path, key))] + ([path] if path else [])

    places = leaves(about, ())
    path = places[int(rng.integers(len(places)))]
    holder = about
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = evil[int(rng.integers(len(evil)))]
    text = json.dumps(about).encode()
    text += b" " * (-len(text) % 4)
    body = struct.pack("<I4s", len(text), b"JSON") + text + rest
    return struct.pack("<4sII", b"glTF", 2, 12 + len(body)) + body
