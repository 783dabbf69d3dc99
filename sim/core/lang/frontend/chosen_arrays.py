"""Arrays that the run chooses, `r = a if c else b`: what is done with an element is done with one of each, in branches.

So analyses and back ends see accesses of parameters, each under its condition, and derivatives need nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sim.core.lang.frontend.traced import ArrayRef, ChosenArray
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Op, Value
from sim.core.lang.types import int32


def as_choices(b: Builder, params: Sequence[Value], x: ArrayRef, y: ArrayRef) -> tuple[ArrayRef, ArrayRef]:
    """Both as parts of one choice, if they are parts of different parameters of one type; else as they are."""
    ours, others = _options(params, x), _options(params, y)
    if x.array is y.array or ours is None or others is None or x.array.type is not y.array.type:
        return x, y
    options = dict(sorted({**ours, **others}.items()))
    return _as_choice(b, x, options), _as_choice(b, y, options)


def _options(params: Sequence[Value], x: ArrayRef) -> Mapping[int, Value] | None:
    if isinstance(x.array, ChosenArray):
        return x.array.options
    return {place: param for place, param in enumerate(params) if param is x.array} or None


def _as_choice(b: Builder, x: ArrayRef, options: Mapping[int, Value]) -> ArrayRef:
    if isinstance(x.array, ChosenArray):
        return ArrayRef(ChosenArray(options, x.array.which), x.index)
    place = next(place for place, option in options.items() if option is x.array)
    return ArrayRef(ChosenArray(options, b.const(place, int32)), x.index)


def by_option(b: Builder, array: ChosenArray, act: Callable[[Value], Sequence[Value] | None]) -> Sequence[Value]:
    """What `act` gives for the array that is chosen, in branches of the run."""
    waiting = list(array.options.items())

    def rest() -> Sequence[Value]:
        place, option = waiting.pop(0)

        def here() -> Sequence[Value]:
            return act(option) or ()

        if not waiting or array.which.const == place:
            return here()
        if array.which.const is not None:
            return rest()
        chosen = b.emit("eq", array.which, b.const(place, int32))
        blocks = [b.region((), here), b.region((), rest)]
        return b.append(Op("if", [chosen], [Value(v.type) for v in blocks[0].yields], {}, blocks)).results

    return rest()
