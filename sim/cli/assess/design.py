"""simopt design: which take or which marker would tell most about each parameter."""

from __future__ import annotations

import argparse

from sim.cli.terminal.tables import print_columns
from sim.cli.verbs.base import Verb, load
from sim.cli.verbs.modules import UsageError
from sim.identify.assess.design import Design, Source, design
from sim.identify.run import OK
from sim.io import to_json


def _run(options: argparse.Namespace) -> int:
    problem = load(options).build(options.device, options.dtype)
    if not problem.sought:
        raise UsageError(f"{options.scene}: the scene has no `parameters`, so there is nothing to find")
    try:
        found = design(problem)
    except ValueError as error:
        raise UsageError(f"{options.scene}: {error}") from error
    if options.json:
        print(to_json(_plain(found), indent=2))
        return OK
    numbers = range(len(found.names))
    print_columns(
        "standard errors with one more take",
        found.another.items(),
        ("one more like", lambda row: row[0]),
        *((found.names[i], lambda row, i=i: f"{row[1][i]:.2f}") for i in numbers),  # type: ignore[misc]
    )
    if found.without:
        print_columns(
            "without one marker",
            found.without.items(),
            ("without", lambda row: _place(row[0])),
            *((found.names[i], lambda row, i=i: f"{row[1][i]:.2f}") for i in numbers),  # type: ignore[misc]
        )
    for i in numbers:
        print(_words(found, i))
    return OK


def _words(found: Design, i: int) -> str:
    take, factor = found.best(i)
    text = f"{found.names[i]}: one more take like {take} leaves {factor:.0%} of its standard error"
    missed = found.most_missed(i)
    return text if missed is None else f"{text}; {_place(missed[0])} is missed most ({missed[1]:.2f} times without it)"


def _place(source: Source) -> str:
    return f"{source[1]} {source[2]}"


def _plain(found: Design) -> dict[str, object]:
    return {
        "parameters": found.names,
        "another": found.another,
        "without": {_place(source): factors for source, factors in found.without.items()},
    }


DESIGN = Verb("design", "which take or marker would tell most about each parameter", _run, takes_scene=True)
