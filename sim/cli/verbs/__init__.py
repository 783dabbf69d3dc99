"""The verbs of the command: a file each, with its arguments, its help and what it does, and a line here."""

from sim.cli.verbs.base import Verb
from sim.cli.verbs.check import CHECK
from sim.cli.verbs.convert import CONVERT
from sim.cli.verbs.export import EXPORT
from sim.cli.verbs.gradcheck import GRADCHECK
from sim.cli.verbs.import_robot import IMPORT
from sim.cli.verbs.info import INFO
from sim.cli.verbs.run import RUN
from sim.cli.verbs.schema import SCHEMA
from sim.cli.verbs.show_ir import SHOW_IR
from sim.cli.verbs.view import VIEW

VERBS: tuple[Verb, ...] = (RUN, VIEW, EXPORT, CHECK, GRADCHECK, CONVERT, IMPORT, SCHEMA, INFO, SHOW_IR)
