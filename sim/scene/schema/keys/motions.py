"""`motion` of attachments and of held bodies."""

from __future__ import annotations

from sim.scene.schema.keys.common import AXES_OR_UP, RECORDING, REQUIRED, key
from sim.schema.containers import List, Table, Union
from sim.schema.kinds import NOT_NEGATIVE, POSITIVE, Choice, Int, Number, Text, Tuple


# fmt: off
def follow(path: str) -> Table:
    """A recording that is followed; path: of the motion, in the model."""
    return Table((
        *RECORDING,
        key("markers", List(Union((Int(), Text("a marker's name in the recording"))), 1),
            "which: one, which moves it, or three and more, which turn it too; default: all"),
        key("bridge", Number("s", NOT_NEGATIVE), "gaps of up to this are bridged by the spline; others are an error",
            0),
        key("delay", Number("s"), "how much later in the recording than `start` the motion begins",
            0, may_vary=True, model_path=f"{path}.delay"),
        key("frame", Tuple(3, "rad"), "rotation vector that turns the axes of the recording further",
            [0, 0, 0], may_vary=True, model_path=f"{path}.frame"),
    ), at_most_one=AXES_OR_UP)
# fmt: on


def motion(number: int, of_body: bool = False) -> Table:
    """A motion, whose number is part `number` of its path; of a body there are turns too."""
    moves = ("move", "turn") if of_body else ("move",)

    own = f"{{1}}.motion.{{{number}}}"

    def path(name: str) -> str:
        return f"{own}.{name}"

    # fmt: off
    turn = key("turn", Tuple(3, "rad"), "rotation vector reached at `end`, about the origin of the body",
               may_vary=True, model_path=path("turn"))
    return Table((
        key("move", Tuple(3, "m"), "displacement reached at `end`", may_vary=True, model_path=path("move")),
        *((turn,) if of_body else ()),
        key("start", Number("s", NOT_NEGATIVE), "begin of the move", 0, only_with=moves),
        key("end", Number("s", NOT_NEGATIVE), "end of the move", REQUIRED, only_with=moves),
        key("ease", Choice(("smooth", "linear")), "smooth: 3 s^2 - 2 s^3 of the elapsed part s", "smooth",
            only_with=moves),
        key("swing", Tuple(3, "m"), "displacement d of d (1 - cos(2 pi f t)) / 2",
            may_vary=True, model_path=path("swing")),
        key("frequency", Number("Hz", POSITIVE), "f of the swing", REQUIRED, only_with=("swing",)),
        key("follow", follow(own), "it goes as recorded from where it begins: a cubic spline through the samples"),
    ), one_of=((*moves, "swing", "follow"),))
    # fmt: on
