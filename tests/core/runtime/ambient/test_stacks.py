"""What is open in a thread: seen by that thread only, and closed after interruptions."""

from __future__ import annotations

import threading

import pytest

from sim.core.runtime.ambient.stacks import OpenStack, anywhere, contained, insist


def test_other_threads_do_not_see_what_is_open():
    stack = OpenStack[str]()
    stack.push("mine")
    seen: list[list[str]] = []
    thread = threading.Thread(target=lambda: seen.append(list(stack.entries)))
    thread.start()
    thread.join()
    assert seen == [[]] and stack.entries == ["mine"]
    assert stack.pop() == "mine"


def test_what_is_open_anywhere_is_counted():
    stack, before = OpenStack[int](), len(anywhere)
    stack.push(1)
    stack.push(2)
    assert len(anywhere) == before + 2
    stack.restore([1, 3, 4])
    assert stack.entries == [1, 3, 4] and len(anywhere) == before + 3
    stack.restore([])
    assert len(anywhere) == before


def test_contained_closes_what_an_interrupted_action_has_left_open():
    stack = OpenStack[str]()
    stack.push("before")

    def interrupted() -> None:
        stack.pop()
        stack.push("inside")
        stack.push("deeper")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        contained(interrupted, stack)
    assert stack.entries == ["before"]
    assert contained(lambda: 5, stack) == 5
    stack.pop()


def test_insist_does_all_once_more_where_it_was_interrupted():
    done: list[str] = []

    def second() -> None:
        done.append("second")
        if done.count("second") == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        insist([lambda: done.append("first"), second, lambda: done.append("third")])
    assert done == ["first", "second", "first", "second", "third"]
