"""`optimize`: how parameters are sought. The minimisers' own lines follow from what they declare of themselves."""

from __future__ import annotations

from sim.core.optim.base import MinimizerSpec, Setting
from sim.core.optim.registry import MINIMIZERS
from sim.identify.numerics.finer import CAUSES
from sim.identify.search.method import MOST_LINEARISED
from sim.scene.schema.keys.common import REQUIRED, key
from sim.schema.containers import List, Table, Union
from sim.schema.kinds import NOT_NEGATIVE, POSITIVE, Choice, Int, Number, PartOfDuration
from sim.schema.reading import SchemaLine

_DEFAULT_WHERE = {
    "lbfgs": ": the default where losses have no residuals (`custom`), "
    f"or one experiment depends on more than {MOST_LINEARISED} numbers that are sought",
    "gauss_newton": "; the default where all losses have residuals and an experiment depends on up to"
    f" {MOST_LINEARISED} numbers",
}


def _minimizer(spec: MinimizerSpec) -> SchemaLine:
    iterations = key("iterations", Int(1), "at most so many steps (on every horizon)", spec.iterations)
    lines = (iterations, *(_setting(setting) for setting in spec.settings))
    return key(spec.name, Table(lines), spec.doc + _DEFAULT_WHERE.get(spec.name, ""))


def _setting(setting: Setting) -> SchemaLine:
    kind = Int(int(float(setting.bounds[1:].split(",")[0]))) if setting.type is int else Number("", setting.bounds)
    return key(setting.name, kind, setting.doc, setting.default)


# fmt: off
OPTIMIZE = Table((
    *(_minimizer(spec) for spec in MINIMIZERS.values()),
    key("objective", Choice(("log", "plain")), "minimise the logarithm of the loss, or the loss", "log"),
    key("rollout", Table((
        key("store_all", Table(()), "keep everything for the gradient"),
        key("checkpointed", Table((
            key("every", Int(1), "substeps between two kept states"),
            key("budget", Number("B", POSITIVE), "memory that may be used"),
        ), one_of=(("every", "budget"),)), "keep some states and recompute between them"),
    ), one_of=(("store_all", "checkpointed"),)),
        "how the gradient remembers the motion; default: as `checkpointed`, every few frames"),
    key("stop", Table((
        key("loss", Number("", NOT_NEGATIVE), "stop below this loss"),
        key("gradient", Number("", NOT_NEGATIVE), "stop below this norm of the gradient, in the optimiser's scale"),
        key("patience", Int(1), "stop after so many iterations without a better loss"),
    )), "when to stop early", {}),
    key("starts", Int(1),
        "number of starts, the first from the scene, others drawn within the bounds; tried on the first horizon", 1),
    key("horizon", List(Union((
        PartOfDuration(),
        Table((key("time", Number("s", POSITIVE), "from the start", REQUIRED),)),
    )), 1),
        "fit the first part of every experiment, then go on from there with more: `[0.1, 0.3, all]`, or "
        "`[0.2 s, 0.5 s, all]`. Losses count what lies within; those at a later moment, and `custom` ones, only on the "
        "last, which is `all`", ["all"]),
    key("numerics", List(Choice(tuple(CAUSES))),
        "causes of numerical error that a run estimates for what it finds, a few simulations each; `[]`: none",
        list(CAUSES)),
    key("seed", Int(), "of everything drawn at random", 0),
), at_most_one=(tuple(MINIMIZERS),))
# fmt: on
