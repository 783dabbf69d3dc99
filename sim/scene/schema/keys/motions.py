"""`motion` of attachments and of held bodies."""

from __future__ import annotations

from sim.scene.schema.keys.common import FILE_SPACE, REQUIRED, key
from sim.schema.containers import List, Table, Union
from sim.schema.kinds import NOT_NEGATIVE, POSITIVE, Choice, File, FrameText, Int, Number, Text, Tuple

# fmt: off
FOLLOW = Table((
    key("file", File(), "recording, .npz or .csv, of markers on the body", REQUIRED),
    key("key", Text(), "array in an npz file, (frames, markers, 3)"),
    key("markers", List(Union((Int(), Text("a marker's name in the recording"))), 1),
        "which: one, which moves the body, or three and more, which turn it too; default: all"),
    key("rate", Number("Hz", POSITIVE), "frames per second, where the file has no times"),
    *FILE_SPACE,
    key("start", Union((FrameText(), Table((key("frame", Int(), "frame number from 0", REQUIRED),)), Number("s"))),
        "the moment of the recording that is t = 0; default: as its times say"),
))
# fmt: on


def motion(number: int, of_body: bool = False) -> Table:
    """A motion, whose number is part `number` of its path; of a body there are turns too."""
    moves = ("move", "turn") if of_body else ("move",)

    def path(name: str) -> str:
        return f"{{1}}.motion.{{{number}}}.{name}"

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
    ), one_of=((*moves, "swing"),))
    # fmt: on
