"""The command line: what may stand before the verb or after it, and each verb's own arguments."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from sim.cli.assess.compare import COMPARE
from sim.cli.assess.design import DESIGN
from sim.cli.assess.likelihood import LIKELIHOOD
from sim.cli.assess.rehearse import REHEARSE
from sim.cli.begin.demo import DEMO
from sim.cli.begin.new import NEW
from sim.cli.many.sweep import SWEEP
from sim.cli.verbs.base import Verb, add_scene_arguments
from sim.cli.verbs.check import CHECK
from sim.cli.verbs.convert import CONVERT
from sim.cli.verbs.export import EXPORT
from sim.cli.verbs.gradcheck import GRADCHECK
from sim.cli.verbs.import_file import IMPORT
from sim.cli.verbs.info import INFO
from sim.cli.verbs.run import RUN
from sim.cli.verbs.schema import SCHEMA
from sim.cli.verbs.show_ir import SHOW_IR
from sim.cli.verbs.view import VIEW

VERBS: tuple[Verb, ...] = (
    DEMO, NEW, RUN, SWEEP, VIEW, EXPORT, CHECK, GRADCHECK, REHEARSE, DESIGN, LIKELIHOOD, COMPARE, CONVERT, IMPORT,
    SCHEMA, INFO, SHOW_IR,
)  # fmt: skip
"""What the command can do, in the order of its help."""


class _Version(argparse.Action):
    """Prints the version, found only when it is asked for."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option: str | None = None,
    ) -> None:
        try:
            version = metadata.version("simopt-xpbd")
        except metadata.PackageNotFoundError:
            version = "of a source tree that is not installed"
        print(f"simopt {version} (Python {platform.python_version()})")
        parser.exit()


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line; what it gives has the `verb`."""
    common = argparse.ArgumentParser(add_help=False)
    # SUPPRESS: given before the verb they must not be reset by the defaults of the verb's own parser.
    common.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON document")
    common.add_argument(
        "--quiet", "-q", action="store_true", default=argparse.SUPPRESS, help="print nothing but errors"
    )
    common.add_argument(
        "--import",
        dest="modules",
        action="append",
        default=argparse.SUPPRESS,
        metavar="MODULE",
        help="a module to import first: constraints and losses of your own; may be repeated",
    )
    scene = argparse.ArgumentParser(add_help=False)
    add_scene_arguments(scene)

    parser = argparse.ArgumentParser(
        prog="simopt", description="Differentiable physics: simulate scenes, identify parameters."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--quiet", "-q", action="store_true", help="print nothing but errors")
    parser.add_argument(
        "--import", dest="modules", action="append", default=[], metavar="MODULE", help="a module to import first"
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    for verb in VERBS:
        parents = [scene, common] if verb.takes_scene else [common]
        own = verbs.add_parser(verb.name, help=verb.help, description=verb.help, parents=parents)
        verb.add_arguments(own)
        own.set_defaults(verb=verb)
    return parser
