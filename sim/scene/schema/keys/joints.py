"""`joints`: what holds bodies together, and what drives them."""

from __future__ import annotations

from sim.scene.schema.keys.bodies import CLAMPED
from sim.scene.schema.keys.common import REQUIRED, key
from sim.schema.containers import List, Table, Union
from sim.schema.kinds import NOT_NEGATIVE, POSITIVE, Choice, NameOf, Number, Tuple
from sim.schema.reading import SchemaLine

# Paths in the model: {1} is the joint's name.
# fmt: off
AXIS = Table((key("axis", Tuple(3, nonzero=True), "direction in the world, at rest", REQUIRED),))
NOTHING = Table(())
DISTANCE = Table((
    key("length", Number("m", POSITIVE), "of a massless rod between the two points",
        may_vary=True, model_path="{1}.distance"),
    key("least", Number("m", POSITIVE), "shortest distance", may_vary=True, model_path="{1}.min_distance"),
    key("most", Number("m", POSITIVE), "longest distance, of a rope", may_vary=True, model_path="{1}.max_distance"),
), needs_one=True)
KINDS = (
    key("revolute", AXIS, "a hinge: turns about an axis"),
    key("ball", NOTHING, "a ball joint: two points stay together"),
    key("fixed", NOTHING, "a weld: nothing moves"),
    key("distance", DISTANCE, "the distance of two points stays, or stays within limits"),
    key("prismatic", AXIS, "a slider: moves along an axis"),
)
ENDS = (
    key("parent", CLAMPED, "a body, a rod, or the `world`", "world"),
    key("child", NameOf("objects"), "a body or a rod", REQUIRED),
    key("at", Tuple(3, "m"), "where the joint is, in the world, with all objects where they begin"),
    key("parent_at", Tuple(3, "m"), "instead of `at`: its place in the frame of the parent",
        may_vary=True, model_path="{1}.parent_at"),
    key("child_at", Tuple(3, "m"), "the same for the child", REQUIRED, only_with=("parent_at",),
        may_vary=True, model_path="{1}.child_at"),
    key("compliance", Number("m/N", NOT_NEGATIVE), "of the rows that hold the joint, those of angles in 1/(N m)", 0,
        may_vary=True, model_path="{1}.compliance"),
    key("linear_compliance", Number("m/N", NOT_NEGATIVE), "instead of `compliance`: of the rows of lengths alone",
        may_vary=True, model_path="{1}.linear_compliance"),
    key("angular_compliance", Number("rad/(N m)", NOT_NEGATIVE), "the same of those of angles, where a joint has both",
        may_vary=True, model_path="{1}.angular_compliance"),
    key("damping", Number("s", NOT_NEGATIVE), "ratio of damping to stiffness of these rows", 0,
        may_vary=True, model_path="{1}.damping"),
)


def _along(position: str, force: str) -> tuple[SchemaLine, ...]:
    """What acts along the free coordinate of a joint, an angle or a length."""
    speed, per = f"{position}/s", f"{force}/{position}"
    keys = Table((
        key("times", List(Number("s"), 2), "ascending", REQUIRED),
        key("values", List(Number(position), 2), "target at these times, added to `target`", REQUIRED,
            may_vary=True, model_path="{1}.target_keys"),
        key("ease", Choice(("smooth", "linear")), "smooth: with a halt at each", "smooth"),
    ))
    drive = Table((
        key("target", Number(position), "where the drive pulls to, 0 being where the objects are placed", 0,
            may_vary=True, model_path="{1}.target_pos"),
        key("speed", Number(speed), "target of its damping", 0, may_vary=True, model_path="{1}.target_vel"),
        key("stiffness", Number(per, NOT_NEGATIVE), "of the drive", 0, may_vary=True, model_path="{1}.target_ke"),
        key("damping", Number(f"{force} s/{position}", NOT_NEGATIVE), "of the drive; alone it is viscous friction", 0,
            may_vary=True, model_path="{1}.target_kd"),
        key("effort", Number(force, POSITIVE), "at most", may_vary=True, model_path="{1}.effort_limit"),
        key("keys", keys, "targets over time; how fast they change is added to `speed`"),
    ))
    start = Table((
        key("position", Number(position), "0 being where the objects are placed", 0,
            may_vary=True, model_path="{1}.start_pos"),
        key("speed", Number(speed), "how fast it begins", 0,
            may_vary=True, model_path="{1}.start_vel"),
    ))
    return (
        key("start", start, "where the joint begins: it and those below it place and move their children, whose"
            " `velocity` and `spin` are left out"),
        key("limits", Tuple(2, position, none=True), "[low, high]; null is open"),
        key("drive", drive, "a spring and a damper towards a target"),
        key("friction", Number(force, NOT_NEGATIVE), "dry friction", 0, may_vary=True, model_path="{1}.friction"),
    )


JOINTS = Union((
    Table((*KINDS, *ENDS, *_along("m", "N")), one_of=((KINDS[-1].name,), ("at", "parent_at")), only_if=KINDS[-1].name,
          title="a slider: `prismatic`, `parent`, `child`, `at`, ..."),
    Table((*KINDS[:-1], *ENDS, *_along("rad", "N m")), one_of=(tuple(k.name for k in KINDS[:-1]), ("at", "parent_at")),
          title="a joint: `revolute`, `ball`, `fixed`, `distance` or `prismatic`, with `parent`, `child`, `at`, ..."),
))
# fmt: on
