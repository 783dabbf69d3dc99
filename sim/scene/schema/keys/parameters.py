"""`parameters`: what is identified."""

from __future__ import annotations

from sim.scene.schema.keys.common import REQUIRED, key
from sim.schema.containers import Deferred, List, Map, Table, Union
from sim.schema.kinds import Choice, Number, Text

_OF_TARGET = "in the unit of what `of` names"

# fmt: off
PARAMETERS = Table((
    key("of", Union((Text("a path"), List(Text("a path"), 1), Map(Number(), keys="path"))),
        "path of a number; a list of paths (all get the same value), or path -> factor", REQUIRED),
    key("per", Choice(("scene", "region", "element", "point", "experiment")),
        "what has its own value; each region is a parameter `name.region`", "scene"),
    key("transform", Choice(("none", "log", "logit", "log-cholesky")), "the scale that the optimiser sees; inertia of"
        " bodies always has `log-cholesky`, their mass `log` unless it has a low bound: they stay physical", "none"),
    key("bounds", Deferred(f"[low, high], {_OF_TARGET}; null is open"),
        f"[low, high], {_OF_TARGET}; null, as without bounds, is as far as the number may go: a friction to 0"),
    key("start", Deferred(f"a value {_OF_TARGET}"),
        f"first guess, {_OF_TARGET}; default: the value in the scene; one that an experiment sets goes before"),
    key("scale", Deferred(f"a number {_OF_TARGET}"),
        f"size of a typical change, {_OF_TARGET}; with a transform a plain number, 1 (the default) being "
        "a factor of e"),
))
# fmt: on
