"""`loss` and `expect`: why parameters are sought, and what the result should be."""

from __future__ import annotations

from sim.scene.schema.keys.common import NOT_NEGATIVE, POSITIVE, REQUIRED, key
from sim.schema.containers import Deferred, List, Table, Union
from sim.schema.kinds import Choice, NameOf, Number, Text, Tuple

# fmt: off
TIME_OR_LAST = Union((Choice(("last",)), Number("s", NOT_NEGATIVE)))
HUBER = Table((key("huber", Number("", POSITIVE), "in units of noise", REQUIRED),))
LOSS = Table((
    key("match", NameOf("markers"), "markers that should follow the recording"),
    key("compare", Choice(("position", "displacement", "velocity")),
        "displacement: from the first frame that is used", "position", only_with=("match",)),
    key("at", Union((Choice(("all", "last")), Tuple(2, "s", NOT_NEGATIVE))),
        "frames that count: all, last, or [t0, t1]", "all", only_with=("match",)),
    key("norm", Union((Choice(("square",)), HUBER)),
        "square, or {huber: 3}: linear beyond three times the noise", "square", only_with=("match",)),
    key("reach", Table((
        key("marker", NameOf("markers"), "markers; their mean position is used", REQUIRED),
        key("point", Tuple(3, "m"), "where it should be", REQUIRED),
        key("at", TIME_OR_LAST, "when: a time, or last", "last"),
        key("scale", Number("m", POSITIVE), "the distance that counts as 1", REQUIRED),
    )), "markers that should arrive at a point"),
    key("slow", Table((
        key("marker", NameOf("markers"), "markers; the velocity of their mean position is used", REQUIRED),
        key("at", TIME_OR_LAST, "when: a time, or last", "last"),
        key("scale", Number("m/s", POSITIVE), "the speed that counts as 1", REQUIRED),
    )), "markers that should be slow"),
    key("experiments", List(NameOf("experiments"), 1), "the experiments that count; default: all that are fitted",
        only_with=("match", "reach", "slow", "custom")),
    key("prior", NameOf("parameters"),
        "a parameter that should stay near `value`. A `match` is a mean: with weight 1 a prior counts as much "
        "as all observations together; by Bayes' rule its weight were 1 / (3 x markers x frames)"),
    key("value", Deferred("a value in the unit of the parameter"), "the expected value", REQUIRED,
        only_with=("prior",)),
    key("factor", Number("", "(1, inf)"), "(log(p / value) / log(factor))^2", only_with=("prior",)),
    key("smooth", NameOf("parameters"),
        "a parameter per element, point or region whose neighbours should be alike: "
        "the mean over pairs of ((v_i - v_j) / sd)^2, v the value as `transform` shows it (its logarithm, say)"),
    key("sd", Deferred("a number in the unit of the parameter"),
        "standard deviation; with `smooth` and a transform a plain number: 0.1 of a logarithm is 10 %",
        only_with=("prior", "smooth")),
    key("custom", Text("`module:function`", r"[\w.]+:\w+"),
        "own loss, from a module named with --import: function(take) launches kernels "
        "on `take.positions` (frames, points) and returns an array of one float64 (below)"),
    key("weight", Number("", NOT_NEGATIVE), "factor of the term", 1),
), one_of=(("match", "reach", "slow", "prior", "smooth", "custom"),))

EXPECT = Table((
    key("value", Deferred("a value in the unit of the result"), "should be this, up to `within`"),
    key("between", Deferred("[low, high] in the unit of the result"), "should lie between the two"),
    key("below", Deferred("a number in the unit of the result"), "should be smaller"),
    key("above", Deferred("a number in the unit of the result"), "should be larger"),
    key("measured", Choice((True,)), "should be what the recording gives, up to `within`"),
    key("within", Number("", POSITIVE), "relative tolerance", REQUIRED, only_with=("value", "measured")),
), one_of=(("value", "between", "below", "above", "measured"),))
# fmt: on
