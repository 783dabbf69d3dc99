"""`expect`: what the result should be."""

from __future__ import annotations

from sim.scene.schema.keys.common import REQUIRED, key
from sim.schema.containers import Deferred, Table
from sim.schema.kinds import POSITIVE, Choice, Number

# fmt: off
EXPECT = Table((
    key("value", Deferred("a value in the unit of the result"), "should be this, up to `within`"),
    key("between", Deferred("[low, high] in the unit of the result"), "should lie between the two"),
    key("below", Deferred("a number in the unit of the result"), "should be smaller"),
    key("above", Deferred("a number in the unit of the result"), "should be larger"),
    key("measured", Choice((True,)), "should be what the recording gives, up to `within`"),
    key("within", Number("", POSITIVE), "relative tolerance", REQUIRED, only_with=("value", "measured")),
), one_of=(("value", "between", "below", "above", "measured"),))
# fmt: on
