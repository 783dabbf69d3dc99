"""The same programs with Warp and with sim: `record` writes what Warp computes, `compare` runs sim against that.

    PYTHON_WITH_WARP scripts/warp_oracle.py record [NAME ...]      (`pip install warp-lang numpy`; it needs no sim)
    python scripts/warp_oracle.py compare [-v] [NAME ...]          what agrees, what differs, what does not run
    python scripts/warp_oracle.py pending                          the same, and writes the last two to pending.txt

Programs are in tests/oracle: functions of `programs/*.py`, and rows of `rows/*.py`, each of which becomes a kernel of
one expression.  A program is a module of its own, with `import sim as wp` in it or `import warp as wp`, no other
difference.  What was recorded is tests/oracle/expected.json, so that the tests need no Warp.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import re
import sys
import tempfile
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "oracle"
EXPECTED = FOLDER / "expected.json"
PENDING = FOLDER / "pending.txt"
"""Names of programs that do not run, or not as they should, for now."""
sys.path.insert(0, str(FOLDER))

_SCALARS = "bool float16 float32 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64".split()
_LETTERS = {
    **{"": "float32", "f": "float32", "h": "float16", "d": "float64", "b": "int8", "ub": "uint8", "s": "int16"},
    **{"us": "uint16", "i": "int32", "ui": "uint32", "l": "int64", "ul": "uint64"},
}
_VARIANTS = {"": [("", "")], "~": [("32", "f"), ("64", "d")], "~~": [("16", "h"), ("32", "f"), ("64", "d")]}
_DIFFERENT_SHAPES = re.compile(r"vec5|mat(23|32|34|24)")
HELPERS = "from oracle_helpers import plain_values, random_values, values_and_gradients"


@functools.cache
def expected() -> dict[str, list[Any]]:
    """Name -> what Warp computed; programs that Warp does not run are not among them."""
    return json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}


@functools.cache
def programs() -> dict[str, str]:
    """Name -> text of a module whose last function is the program."""
    found = {}
    for path in sorted(FOLDER.glob("rows/*.py")):
        for row in _module(f"rows_{path.stem}", path).ROWS:
            found |= {f"{path.stem}/{name}": text for name, text in _of_row(*row)}
    for path in sorted(FOLDER.glob("programs/*.py")):
        tree = ast.parse(path.read_text())
        shared = [n for n in tree.body if not isinstance(n, ast.FunctionDef) or n.name[0] == "_"]
        shared = [n for n in shared if not isinstance(n, ast.Expr)]
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name[0] != "_":
                parts = [*map(ast.unparse, shared), ast.unparse(node), f"program = {node.name}"]
                found[f"{path.stem}/{node.name}"] = "\n\n\n".join(parts) + "\n"
    return found


def _of_row(name: str, signature: str, expression: str, low: float = -2, high: float = 2) -> Iterator[tuple[str, str]]:
    """The programs of a row: one for every precision that it asks for."""
    marks = "~~" if "~~" in signature else "~" if "~" in signature else ""
    for bits, letter in _VARIANTS[marks]:

        def fill(text: str, bits: str = bits, letter: str = letter) -> str:
            return re.sub(r"(float|vec\d|mat\d\d|quat|transform)~+", lambda m: _typed(m[1], bits, letter), text)

        arguments, result = fill(signature).split(" -> ")
        typed = [tuple(a.split(": ")) for a in arguments.split(", ")]
        body = fill(expression if "\n" in expression else f"result = {expression}")
        seed = zlib.crc32(name.encode())
        inputs = [f"random_values({_sampled(kind)}, {low}, {high}, {seed + k})" for k, (_, kind) in enumerate(typed)]
        smooth = _scalar(result).startswith("float") and any(_scalar(kind).startswith("float") for _, kind in typed)
        loads = "\n    ".join(f"{a} = {a}_values[i]" for a, _ in typed)
        parameters = ", ".join(f"{a}_values: wp.array(dtype={_type(kind)})" for a, kind in typed)
        types = f"[{', '.join(_type(kind) for _, kind in typed)}]"
        call = f"values_and_gradients(wp, work, [{', '.join(inputs)}], {types}, {_type(result)})"
        if not smooth:
            call = call.replace("values_and_gradients", "plain_values")
        text = f"""import numpy as np
import sim as wp
{HELPERS}


@wp.kernel
def work({parameters}, out: wp.array(dtype={_type(result)})):
    i = wp.tid()
    {loads}
    {body}
    out[i] = result


def program():
    return {call}
"""
        yield f"{name}_{letter}" if letter else name, text


def _typed(stem: str, bits: str, letter: str) -> str:
    return stem + (bits if stem == "float" else letter)


def _type(kind: str) -> str:
    if _DIFFERENT_SHAPES.fullmatch(kind):
        if kind[:3] == "vec":
            return f"wp.types.vector(length={kind[3]}, dtype=wp.float32)"
        return f"wp.types.matrix(shape=({kind[3]}, {kind[4]}), dtype=wp.float32)"
    return f"wp.{kind}"


def _scalar(kind: str) -> str:
    """The type of the numbers in a value."""
    if kind in _SCALARS:
        return kind
    found = re.fullmatch(r"(?:vec\d|mat\d\d|quat|transform|spatial_vector|spatial_matrix)(\w*)", kind)
    assert found, kind
    return _LETTERS[found[1]]


def _sampled(kind: str) -> str:
    scalar = _scalar(kind)
    if kind in _SCALARS:
        parts = "()"
    elif kind.startswith(("quat", "transform")):
        parts = repr("quat" if kind[0] == "q" else "transform")
    elif kind.startswith("spatial"):
        parts = "(6,)" if "vector" in kind else "(6, 6)"
    else:
        parts = f"({kind[3]},)" if kind[0] == "v" else f"({kind[3]}, {kind[4]})"
    return f"{scalar!r}, {parts}"


def _module(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run(name: str, text: str, package: str, folder: Path) -> list[np.ndarray]:
    """The numbers that a program returns."""
    stem = "oracle_" + name.replace("/", "_")
    path = folder / f"{stem}.py"
    path.write_text(re.sub(r"^(from|import) sim\b", rf"\1 {package}", text, flags=re.M))
    program: Callable[[], list[Any]] = _module(stem, path).program
    return [_numbers(part) for part in program()]


def _numbers(part: Any) -> np.ndarray:
    """An array of what a program has returned: scalars of either package have a `value`."""
    found = np.asarray(part)
    return found if found.dtype != object else np.array([getattr(v, "value", v) for v in part])


def agree(ours: list[np.ndarray], theirs: list[Any], tolerance: float) -> str:
    """Empty where the numbers are the same within `tolerance` of the largest of each array, else what is not."""
    if len(ours) != len(theirs):
        return f"{len(ours)} results, {len(theirs)} in Warp"
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        want = np.asarray(b, dtype=object if _large(b) else None)
        if a.shape != want.shape:
            return f"result {k} has shape {a.shape}, {want.shape} in Warp"
        if a.dtype.kind in "iub":
            same = np.array_equal(a.astype(object), want.astype(object))
        else:
            x, y = a.astype(np.float64), want.astype(np.float64)
            scale = max(1.0, float(np.max(np.abs(y[np.isfinite(y)]), initial=0.0)))
            same = bool(np.allclose(x, y, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
        if not same:
            return f"result {k} is {a.tolist()}, {b} in Warp"
    return ""


def _large(value: Any) -> bool:
    return any(isinstance(v, int) and abs(v) >= 2**63 for v in np.ravel(np.asarray(value, dtype=object)))


def agreeing(group: str) -> list[str]:
    """The programs of a group that have to agree with what is recorded: all but `different` and pending ones."""
    others = {*different(), *PENDING.read_text().split()}
    return [n for n in programs() if n in expected() and n.startswith(f"{group}/") and n not in others]


def different() -> dict[str, str]:
    """The programs whose numbers are not those of Warp, and what is right."""
    return _module("known", FOLDER / "known.py").DIFFERENT


def check(name: str, folder: Path) -> str:
    """Empty where a program computes what Warp did, else what is different."""
    text = programs()[name]
    return agree(run(name, text, "sim", folder), expected()[name], tolerance(name, text))


def tolerance(name: str, text: str) -> float:
    """Of a program: rounding of the least precise type that it names."""
    if re.search(r"float16|vec\dh|mat22h|quath", text):
        return 4e-3
    return 1e-12 if name.endswith("_d") else 2e-5


def _plain(a: np.ndarray) -> Any:
    """As JSON holds it: float32 with nine digits, so that nothing is lost and little is written."""
    if a.dtype.kind == "f" and a.dtype.itemsize < 8:
        return _rounded(a.tolist())
    return a.tolist()


def _rounded(value: Any) -> Any:
    return [_rounded(v) for v in value] if isinstance(value, list) else float(f"{value:.9g}")


def _chosen(names: list[str]) -> dict[str, str]:
    return {name: text for name, text in programs().items() if not names or any(n in name for n in names)}


def record(names: list[str]) -> None:
    import warp  # pyright: ignore[reportMissingImports]

    warp.config.quiet = True
    known = dict(expected()) if names else {}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in _chosen(names).items():
            try:
                known[name] = [_plain(part) for part in run(name, text, "warp", Path(folder))]
            except Exception as error:
                known.pop(name, None)
                print(f"{name}: {type(error).__name__}: {str(error).strip()[:300]}", flush=True)
    lines = [f"{json.dumps(name)}: {json.dumps(known[name], separators=(',', ':'))}" for name in sorted(known)]
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(known)} programs recorded with Warp {warp.__version__}")


def compare(names: list[str]) -> None:
    counts: dict[str, Counter[str]] = {}
    pending = []
    with tempfile.TemporaryDirectory() as folder:
        for name in _chosen([n for n in names if n != "-v"]):
            if name not in expected():
                continue
            try:
                why = check(name, Path(folder))
                how = "agree" if not why else "differ, and should" if name in different() else "differ"
            except Exception as error:
                why = traceback.format_exc() if "-v" in names else f"{type(error).__name__}: {error}".splitlines()[0]
                how = "do not run"
            counts.setdefault(name.split("/")[0], Counter())[how] += 1
            if how in ("differ", "do not run"):
                pending.append(name)
                print(f"{name}: {why if '-v' in names else why[:200]}", flush=True)
    for group, count in sorted({**counts, "all": sum(counts.values(), Counter())}.items()):
        print(f"{group:12}", ", ".join(f"{n:3} {how}" for how, n in sorted(count.items())))
    if "pending" in sys.argv[1]:
        PENDING.write_text("".join(f"{name}\n" for name in sorted(pending)))


if __name__ == "__main__":
    {"record": record, "compare": compare, "pending": compare}[sys.argv[1]](sys.argv[2:])
