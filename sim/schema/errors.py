"""Problems of a scene file: where they are, what is wrong, what to do instead; and the error that holds all of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LONGEST = 240
"""Characters of a line, or of what is wrong with it, that are shown."""


@dataclass(frozen=True)
class SourceText:
    """A text that holds scene data: a file, or one `--set` of the command line.

    `name` is printed in messages, `folder` is what relative paths in the text refer to.
    """

    name: str
    text: str
    folder: Path

    def line(self, number: int) -> str:
        """Line `number` (from 1) without its line break; empty beyond the end."""
        lines = self.text.splitlines()
        return lines[number - 1] if 0 < number <= len(lines) else ""


@dataclass(frozen=True)
class Mark:
    """A place in a source; line and column count from 1."""

    source: SourceText
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Diagnostic:
    """One thing that is wrong: the dotted path of the value, what is wrong with it, and what to do instead."""

    mark: Mark
    path: str
    what: str
    hint: str = ""

    def __str__(self) -> str:
        path = f"{_short(self.path)}: " if self.path else ""
        parts = [f"{self.mark}: {path}{_short(self.what)}"]
        line, column = _window(self.mark.source.line(self.mark.line).rstrip(), self.mark.column)
        if line:
            # Tabs are kept in front of the caret, so that it stands under its character in any terminal.
            before = "".join("\t" if c == "\t" else " " for c in line[: column - 1])
            parts += [f"    {line}", f"    {before}^"]
        if self.hint:
            parts.append(f"    {self.hint}")
        return "\n".join(parts)


def _short(text: str) -> str:
    """A message without most of a value of thousands of characters."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... {text[-LONGEST // 4 :]}"


def _window(line: str, column: int) -> tuple[str, int]:
    """The part of a long line around a column, and the column in it."""
    if len(line) <= LONGEST:
        return line, column
    start = min(max(0, column - LONGEST // 2), len(line) - LONGEST // 2)
    shown = line[start : start + LONGEST]
    before = "..." if start else ""
    return before + shown + ("..." if start + LONGEST < len(line) else ""), column - start + len(before)


class SceneError(Exception):
    """A scene that cannot be used. `problems` holds everything that was found, in the order of the file."""

    def __init__(self, problems: Iterable[Diagnostic]):
        problems = list(problems)
        order: dict[SourceText, int] = {}
        for problem in problems:
            order.setdefault(problem.mark.source, len(order))
        problems.sort(key=lambda p: (order[p.mark.source], p.mark.line, p.mark.column))
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


OTHER_WORDS = {
    "ball": "sphere", "cuboid": "box", "cube": "box", "mu": "friction", "e": "restitution", "bounce": "restitution",
    "E": "young", "modulus": "young", "youngs_modulus": "young", "nu": "poisson", "poissons_ratio": "poisson",
    "frame_rate": "fps", "rate": "fps", "steps": "substeps", "omega": "spin", "angular_velocity": "spin",
    "orientation": "rotation", "quaternion": "rotation", "forces": "loads", "pins": "attachments",
    "recordings": "experiments", "takes": "experiments", "optimise": "optimize", "initial": "start", "guess": "start",
}  # fmt: skip
"""What others call it -> what it is called here."""


def word_hint(word: str, known: Iterable[str], list_up_to: int = 12) -> str:
    """A hint for a word that is not known: the closest known one, or all of them when there are few."""
    names = sorted(set(known))
    close = difflib.get_close_matches(word, names, 1, cutoff=0.7)
    if OTHER_WORDS.get(word) in names:
        close = [OTHER_WORDS[word]]
    if close:
        return f"did you mean `{close[0]}`?"
    if names and len(names) <= list_up_to:
        return "known here: " + ", ".join(f"`{name}`" for name in names)
    return ""
