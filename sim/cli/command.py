"""The command: reads its arguments, does what the verb says, turns what goes wrong into words and an exit status."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import gc
import os
import sys
from collections.abc import Sequence

from sim.cli.arguments import make_parser
from sim.cli.verbs.modules import import_module
from sim.core.lang.errors import SimError
from sim.identify.run import INTERRUPTED
from sim.io import RecordingError, RunFolderError, to_json
from sim.scene import SceneError

BAD_INPUT, BROKEN_PIPE = 2, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` (default: that of the process, which ends with it); returns the exit status."""
    if argv is None:
        _spare_the_collector()
    options = make_parser().parse_args(argv)
    try:
        status = _do(options)
        sys.stdout.flush()
        return status
    except SceneError as error:
        return _bad_input(
            options,
            str(error),
            [{"where": str(p.mark), "path": p.path, "what": p.what, "hint": p.hint} for p in error.problems],
        )
    except (RunFolderError, RecordingError, SimError) as error:
        return _bad_input(options, str(error), [])
    except MemoryError as error:
        return _bad_input(options, f"not enough memory: {error}\n  fewer points, frames or steps need less", [])
    except BrokenPipeError:
        # As a program that SIGPIPE ends; what is still in the buffer goes nowhere, instead of failing once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        place = f"{error.filename}: " if error.filename is not None else ""
        return _bad_input(options, f"cannot read or write {place}{error.strerror or error}", [])
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _spare_the_collector() -> None:
    """Python looks for garbage neither among what was imported, which stays, nor at the end of the process, whose
    memory goes as a whole: it would search everything, for a quarter of the time that a small scene takes.  In between
    it looks less often: what is made in numbers are kernels, and they stay."""
    gc.freeze()
    gc.set_threshold(10_000)
    atexit.register(gc.freeze)


def _do(options: argparse.Namespace) -> int:
    if options.modules:
        sys.path.insert(0, "")  # modules of the folder where the command is given
    options.imported = [import_module(module) for module in options.modules]
    if not options.quiet or options.json:
        return options.verb.run(options)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        return options.verb.run(options)


def _bad_input(options: argparse.Namespace, text: str, problems: list[dict[str, str]]) -> int:
    if options.json:
        print(to_json({"error": text, "problems": problems}, indent=2))
    else:
        count = f"\n\n{len(problems)} problems" if len(problems) > 1 else ""
        print(f"{text}{count}", file=sys.stderr)
    return BAD_INPUT
