"""Decisions on device data in a graph: `capture_if` and `capture_while`, with Warp's names and arguments.

A replay repeats what was captured, whatever its data are; these look at an array each time.  A body is captured when it
is first chosen, and replayed from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sim.core.lang.errors import GradientError
from sim.core.lang.types import Scalar
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.devices.graph import Graph, capture, capturing, suspend_capture
from sim.core.runtime.devices.streams import ScopedStream, Stream

Body = Callable[..., Any] | Graph
"""What may happen: a function, or a captured graph."""


class _Stage:
    """A body as part of a graph: captured when it first runs."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.graph: Graph | None = body if isinstance(body, Graph) else None

    def run(self) -> None:
        if self.graph is not None:
            self.graph.replay()
            return
        assert callable(self.body)
        with capture() as self.graph:
            self.body()


def capture_if(
    condition: array,
    on_true: Body | None = None,
    on_false: Body | None = None,
    stream: Stream | None = None,
    **arguments: Any,
) -> None:
    """Do `on_true` if the one number in `condition` is not zero, else `on_false`; in a graph, at every replay anew.

    condition: an array of one integer or bool.  Bodies are functions, or graphs.
    stream: the one that it happens on (None: the present one).
    arguments: those that the functions are called with, by name.
    Raises GradientError in a capture under an open tape: what a tape records is one way through.
    """
    if stream is not None:
        with ScopedStream(stream, sync_enter=False):
            capture_if(condition, on_true, on_false, **arguments)
        return
    _check(condition)
    on_true, on_false = _with(on_true, arguments), _with(on_false, arguments)
    stages = [None if body is None else _Stage(body) for body in (on_false, on_true)]

    def decide() -> None:
        chosen = stages[_holds(condition)]
        if chosen is not None:
            chosen.run()

    if capturing() is None:
        _run(on_true if _holds(condition) else on_false)
    else:
        _add_node(decide)


def capture_while(condition: array, while_body: Body, stream: Stream | None = None, **arguments: Any) -> None:
    """Repeat `while_body` as long as the one number in `condition` is not zero; in a graph, at every replay anew.

    The body has to change `condition` by a launch or a copy.  Otherwise as `capture_if`.
    """
    if stream is not None:
        with ScopedStream(stream, sync_enter=False):
            capture_while(condition, while_body, **arguments)
        return
    _check(condition)
    while_body = _with(while_body, arguments)
    stage = _Stage(while_body)

    def repeat() -> None:
        while _holds(condition):
            stage.run()

    if capturing() is None:
        while _holds(condition):
            _run(while_body)
    else:
        _add_node(repeat)


def _check(condition: Any) -> None:
    if (
        not isinstance(condition, array)
        or condition.size != 1
        or not isinstance(condition.dtype, Scalar)
        or condition.dtype.is_float
    ):
        what = (
            f"of shape {condition.shape} of {condition.dtype}"
            if isinstance(condition, array)
            else f"a {type(condition).__name__}"
        )
        raise TypeError(f"the condition is {what}; expected an array of one integer or bool")


def _with(body: Any, arguments: dict[str, Any]) -> Any:
    """A body with the arguments that it is called with.  A graph has its own, and takes none."""
    return partial(body, **arguments) if arguments and body is not None and not isinstance(body, Graph) else body


def _holds(condition: array) -> bool:
    return bool(condition.device.numpy(condition).reshape(-1)[0])


def _run(body: Body | None) -> None:
    if isinstance(body, Graph):
        body.replay()
    elif body is not None:
        body()


def _add_node(action: Callable[[], None]) -> None:
    """Do it, and add it to the open graph as one node."""
    if recording.current() is not None:
        raise GradientError(
            "a conditional in a capture under an open tape: the tape records the way that is taken now, replays may"
            " take another",
            hint="leave the capture, or decide inside of a kernel",
        )
    graph = capturing()
    assert graph is not None
    with suspend_capture():
        action()
    graph.call(action)
