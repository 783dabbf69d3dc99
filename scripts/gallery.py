"""Examples in percent format: read as cells, executed, and shown as pages with what they print.

`# %% [markdown]` begins a cell of text, `# %%` one of code.  A page has both, and behind each cell of code what it
printed when `scripts/make_gallery.py` ran it.
"""

import contextlib
import io
import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
NOTE = "<!-- written by scripts/make_gallery.py -->\n"
NUMBER = re.compile(r"(?<![\w.])[+-]?\d+(?:\.(\d+))?(?:e[+-]?\d+)?")
OWN_DIGITS = 0.02
"""The share by which a number that an example prints may differ from the one on its page: machines round."""


@dataclass(frozen=True)
class Cell:
    """A cell of text or of code; line: that of the file where it begins, from 0."""

    is_code: bool
    text: str
    line: int


def cells(path: Path) -> list[Cell]:
    """The cells of a file in percent format."""
    lines = path.read_text(encoding="utf-8").splitlines()
    begins = [k for k, line in enumerate(lines) if line.startswith("# %%")]
    found = []
    for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True):
        body = lines[begin + 1 : end]
        is_code = lines[begin].strip() == "# %%"
        text = "\n".join(body if is_code else [re.sub(r"^# ?", "", line) for line in body])
        found.append(Cell(is_code, text.strip("\n"), begin + 1))
    return found


def examples() -> list[Path]:
    """The examples, in the order of the site: the tour, then the gallery."""
    named = [DOCS / page for _, pages in floors() for page in pages]
    return [page.with_suffix(".py") for page in named if page.with_suffix(".py").exists()]


def floors() -> list[tuple[str, list[str]]]:
    """Heading -> pages of the site, from zensical.toml."""
    nav = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    return [(title, [next(iter(p.values())) if isinstance(p, dict) else p for p in pages])
            for floor in nav for title, pages in floor.items()]  # fmt: skip


def execute(path: Path, folder: Path) -> tuple[list[str], dict[str, Any]]:
    """Runs an example in a folder, cell by cell: what each cell of code printed, and the names that are left."""
    printed, names = [], {"__name__": f"gallery_{path.stem}", "__file__": str(path)}
    with inside(folder):
        for cell in cells(path):
            if cell.is_code:
                # at its own lines of the file, where kernels look for their source
                code = compile("\n" * cell.line + _body(path, cell), str(path), "exec")
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(code, names)
                printed.append("\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n"))
    return printed, names


def _body(path: Path, cell: Cell) -> str:
    """The cell with the empty lines that it begins with in the file."""
    lines = path.read_text(encoding="utf-8").splitlines()[cell.line :]
    end = next((k for k, line in enumerate(lines) if line.startswith("# %%")), len(lines))
    return "\n".join(lines[:end]) + "\n"


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """With this folder as the current one."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def page(path: Path, printed: Sequence[str]) -> str:
    """The page of an example: its cells, what they printed, its picture behind the first text, where the file is."""
    out, outputs, place = [NOTE], iter(printed), path.relative_to(ROOT).as_posix()
    for k, cell in enumerate(cells(path)):
        if not cell.is_code:
            out += [cell.text, ""]
            if k == 0:
                picture = path.with_suffix(".png")
                out += [f"![{title(path)}]({picture.name})", ""] if picture.exists() else []
                out += [f"[The file]({path.name}), as it runs: `python {place}`.", ""]
            continue
        out += ["```python", cell.text, "```", ""]
        if shown := next(outputs, ""):
            out += ["```text", shown, "```", ""]
    return "\n".join(out).rstrip() + "\n"


def printed_on(text: str) -> list[str]:
    """What the cells of code on a page printed, "" for nothing."""
    fences = re.findall(r"^```(\w+)\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)
    out: list[str] = []
    for language, body in fences:
        if language == "python":
            out.append("")
        elif out:
            out[-1] = body
    return out


def title(path: Path) -> str:
    """The heading of an example."""
    return cells(path)[0].text.splitlines()[0].removeprefix("# ")


def overview() -> str:
    """The first page of the gallery: a row for each example."""
    rows = [NOTE, "# Gallery", "", INTRODUCTION, "", "| | |", "|---|---|"]
    for path in examples():
        if path.parent.name == "gallery":
            about = " ".join(cells(path)[0].text.split("\n\n")[1].split())
            lines = [f"**[{title(path)}]({path.stem}.md)**", about, *(f"`{line}`" for line in findings(path))]
            rows.append(f"| ![]({path.stem}.png) | {'<br>'.join(lines)} |")
    return "\n".join(rows) + "\n"


def findings(path: Path) -> list[str]:
    """What the page of an example says that was found, beside what is true."""
    there = path.with_suffix(".md")
    printed = printed_on(there.read_text(encoding="utf-8")) if there.exists() else []
    return [line.strip() for text in printed for line in text.splitlines() if ": found " in line and ", true " in line]


INTRODUCTION = """Eight examples from a recording to an answer. Each is a Python file that runs as it stands, in seconds
once its kernels are compiled; each makes its own recording, so that what is found can be compared with what is
true. The tests run them and compare what they print with these pages."""


def differences(now: str, then: str) -> list[str]:
    """Where two outputs differ by more than rounding: other words, or numbers by 2 % and a last digit."""
    words = [" ".join(NUMBER.sub("#", text).replace("─", "").split()) for text in (now, then)]
    if words[0] != words[1]:
        return [f"words: {words[0]!r}, on the page {words[1]!r}"]
    out = []
    for a, b in zip(NUMBER.finditer(now), NUMBER.finditer(then), strict=True):
        x, y = float(a.group()), float(b.group())
        exponent = int(b.group().partition("e")[2] or 0)
        last = 10.0 ** (exponent - len(b.group(1) or ""))
        if abs(x - y) > OWN_DIGITS * max(abs(x), abs(y)) + 1.5 * last:
            out.append(f"{a.group()}, on the page {b.group()}")
    return out
