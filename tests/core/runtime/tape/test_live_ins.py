"""LiveIns on content that recorded operations still need: what is copied when, what is told, what is seen of other
writers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import sim
from sim.core.lang.errors import GradientError
from sim.core.runtime.memory.buffer import ByteRange
from sim.core.runtime.memory.spans import extent_of
from sim.core.runtime.tape import live_ins as live_ins_module
from sim.core.runtime.tape.foreign_writes import ForeignWrites
from sim.core.runtime.tape.live_ins import LiveIns, restored

f64 = sim.float64


def array(*values: float, gradient: bool = False) -> sim.array:
    return sim.array(np.array(values), dtype=f64, requires_grad=gradient)


def shared(*values: float, gradient: bool = False) -> tuple[sim.array, np.ndarray]:
    """An array on memory of NumPy's, and that."""
    host = np.array(values)
    return sim.from_numpy(host, requires_grad=gradient, copy=False), host


def content(live_in) -> list[float]:
    """What lies where the claimed values are now."""
    where = ByteRange(live_in.buffer, live_in.low, live_in.high)
    if live_in.snapshot is not None:
        where = ByteRange(
            live_in.snapshot.data, live_in.low - live_in.snapshot.low, live_in.high - live_in.snapshot.low
        )
    return where.buffer.device.numpy(where).view(np.float64).tolist()


# ------------------------------------------------------------------------------------------------ ranges
def test_the_bytes_that_an_array_touches():
    a = sim.zeros((4, 6), dtype=f64)
    assert extent_of(a) == (0, 192) and extent_of(a[1]) == (48, 96) and extent_of(a[1:3]) == (48, 144)
    assert extent_of(a[:, 2]) == (16, 3 * 48 + 16 + 8), "from its first to the end of its last element"
    assert extent_of(a[1:3, ::2]) == (48, 48 + 48 + 4 * 8 + 8)
    assert extent_of(a[2:2]) == (a[2:2].offset, a[2:2].offset)
    v = sim.zeros(3, dtype=sim.vec3d)
    assert extent_of(v) == (0, 72) and extent_of(v[1:2]) == (24, 48)
    backwards = a[::-1]
    assert extent_of(backwards) == (0, 192) and extent_of(a[3:0:-2]) == (48, 192)


# ------------------------------------------------------------------------------------------------ copies
def test_nothing_is_copied_until_something_overwrites_it():
    x, live_ins = array(1.0, 2.0, 3.0, 4.0), LiveIns()
    live_in = live_ins.add(x[1:3], "launch of 'f'", "x")
    assert live_in.snapshot is None and not live_ins.snapshots and live_in.address(8) == x.buffer.address + 8
    live_ins.before_write(x[3:], "launch of 'g'")
    live_ins.before_write(x[:1], "launch of 'g'")
    live_ins.before_write(array(0.0), "launch of 'g'")
    assert live_in.snapshot is None and live_ins.open[x.buffer] == [live_in]
    live_ins.before_write(x[2:], "launch of 'h'")
    x.fill_(9.0)
    assert (
        content(live_in) == [2.0, 3.0]
        and live_in.address(16) == live_in.snapshot.address + 8
        and live_in.snapshot.live.buffer is x.buffer
    )
    assert (
        live_ins.snapshots == [live_in.snapshot]
        and live_in.snapshot.reason == "'x' of the launch of 'f'; overwritten by the launch of 'h'"
    )
    assert not live_ins.open[x.buffer] and not x.buffer.watchers


@pytest.mark.parametrize(
    ("low", "high", "hit"),
    [(0, 1, False), (0, 2, True), (1, 2, True), (2, 4, True), (3, 4, False), (3, 3, False), (0, 4, True)],
)
def test_a_write_meets_a_claim_where_they_share_a_byte(low, high, hit):
    x, live_ins = array(1.0, 2.0, 3.0, 4.0), LiveIns()
    live_in = live_ins.add(x[1:3], "f", "x")
    live_ins.before_write(x[low:high], "g")
    assert (live_in.snapshot is not None) == hit


def test_claims_that_are_hit_together_share_one_copy():
    x, live_ins = array(1.0, 2.0, 3.0, 4.0, 5.0), LiveIns()
    first, second, third = live_ins.add(x[:2], "f", "a"), live_ins.add(x[2:4], "g", "b"), live_ins.add(x[4:], "h", "c")
    again = live_ins.add(x[:2], "f", "a")
    live_ins.before_write(x[1:3], "w")
    x[:4].fill_(0.0)
    assert (
        first.snapshot is second.snapshot is again.snapshot
        and third.snapshot is None
        and len(live_ins.snapshots) == 1
        and first.snapshot.data.nbytes == 32
    )
    assert content(first) == [1.0, 2.0] and content(second) == [3.0, 4.0]
    assert first.snapshot.reason == "'a' of the f, 'b' of the g; overwritten by the w"
    assert live_ins.open[x.buffer] == [third] and x.buffer.watchers
    live_ins.before_write(x, "w")
    assert content(third) == [5.0] and content(first) == [1.0, 2.0] and not x.buffer.watchers


def test_an_overwrite_may_be_refused():
    x, live_ins = array(1.0, 2.0), LiveIns(refuse=True)
    live_ins.add(x[:1], "launch of 'f'", "x")
    live_ins.before_write(x[1:], "launch of 'g'")
    with pytest.raises(
        GradientError,
        match=(
            r"'g' overwrites an array of shape \(2,\) whose values launch of 'f' read as 'x'(.|\n)*on_overwrite='save'"
        ),
    ):
        live_ins.before_write(x, "launch of 'g'")
    assert not live_ins.snapshots


def test_claims_that_are_joined_are_kept_as_one():
    x, live_ins = array(1.0, 2.0, 3.0, 4.0), LiveIns()
    one, other, apart = live_ins.add(x[:2], "f", "a"), live_ins.add(x[1:3], "f", "b"), live_ins.add(x[3:], "f", "c")
    live_ins.join([one, other])
    live_ins.join([])
    assert (one.low, one.high) == (other.low, other.high) == (0, 24) and apart.low == 24
    live_ins.before_write(x[2:3], "g")
    assert one.snapshot is other.snapshot is not None and apart.snapshot is None


def test_what_is_released_may_change():
    x, y, live_ins = array(1.0), array(2.0), LiveIns()
    held, free = live_ins.add(x, "f", "x"), live_ins.add(y, "f", "y")
    live_ins.before_write(x, "g")
    live_ins.release()
    live_ins.before_write(y, "g")
    assert (
        free.snapshot is None
        and held.snapshot is not None
        and not live_ins.open
        and not y.buffer.watchers
        and live_ins.snapshots
    )
    live_ins.clear()
    assert not live_ins.snapshots


def test_claims_that_are_given_up_are_not_kept_and_the_others_are():
    x, y, live_ins = array(1.0, 2.0), array(3.0), LiveIns()
    first, second, alone = live_ins.add(x, "f", "x"), live_ins.add(x[1:], "g", "x"), live_ins.add(y, "f", "y")
    assert live_ins.present() == {first, second, alone}
    live_ins.drop([first, alone])
    assert live_ins.present() == {second} and x.buffer.watchers and not y.buffer.watchers
    live_ins.before_write(x, "w")
    live_ins.before_write(y, "w")
    assert (
        first.snapshot is None
        and alone.snapshot is None
        and second.snapshot is not None
        and live_ins.present() == set()
    )
    live_ins.drop([second])


def test_what_is_cleared_watches_nothing():
    x, live_ins = array(1.0), LiveIns()
    made = live_ins.add(x, "f", "x")
    live_ins.clear()
    assert not x.buffer.watchers and not live_ins.open and not live_ins.present()
    live_ins.drop([made])  # is not there any more


# ------------------------------------------------------------------------------------------------ memory of others
def test_memory_of_others_is_kept_at_once_and_once_for_as_long_as_it_stays_the_same():
    x, host = shared(1.0, 2.0, 3.0)
    live_ins = LiveIns()
    one, same, part = live_ins.add(x, "f", "x"), live_ins.add(x, "g", "x"), live_ins.add(x[1:], "g", "x")
    assert (
        one.snapshot is same.snapshot is not None
        and part.snapshot is not one.snapshot
        and one.snapshot.reason == "'x' of the f; others can write there"
    )
    host[0] = 7.0
    changed, again = live_ins.add(x, "h", "x"), live_ins.add(x, "h", "x")
    assert (
        content(one) == [1.0, 2.0, 3.0]
        and content(changed) == [7.0, 2.0, 3.0]
        and again.snapshot is changed.snapshot is not one.snapshot
    )
    assert live_ins.add(x[1:], "h", "x").snapshot is part.snapshot, "these bytes are the same still"
    host[0] = 1.0
    assert live_ins.add(x, "h", "x").snapshot not in (one.snapshot, changed.snapshot), (
        "only the latest copy is compared"
    )
    assert not live_ins.open.get(x.buffer) and not x.buffer.watchers


def test_equal_bytes_at_another_place_are_another_copy():
    x, _ = shared(1.0, 2.0, 1.0, 2.0, 1.0)
    live_ins = LiveIns()
    one, other, longer = live_ins.add(x[:2], "f", "a"), live_ins.add(x[2:4], "f", "b"), live_ins.add(x[:4], "f", "c")
    assert len({id(c.snapshot) for c in (one, other, longer)}) == 3 and other.address(16) == other.snapshot.address
    assert live_ins.add(x[:2], "g", "a").snapshot is one.snapshot and content(longer) == [1.0, 2.0, 1.0, 2.0]


def test_claims_on_memory_of_others_that_are_joined_share_one_copy():
    x, host = shared(1.0, 2.0, 3.0)
    live_ins = LiveIns()
    one, other = live_ins.add(x[:2], "f", "a"), live_ins.add(x[1:], "f", "b")
    live_ins.join([one, other])
    host[:] = 0.0
    assert one.snapshot is other.snapshot and content(one) == content(other) == [1.0, 2.0, 3.0]


def test_a_write_through_numpy_is_seen_at_the_next_look():
    x, host = shared(1.0, 2.0, gradient=True)
    foreign = ForeignWrites()
    foreign.refuse([x], "launch of 'f'")
    foreign.refuse([x], "launch of 'f'")
    host[1] = 5.0
    with pytest.raises(
        GradientError,
        match=(
            r"an array of shape \(2,\) was written through NumPy .* before the launch of 'g': its gradient would be"
            r" wrong"
        ),
    ):
        foreign.refuse([x], "launch of 'g'")


def test_writes_that_the_tape_sees_are_none_of_others():
    x, host = shared(1.0, 2.0, gradient=True)
    foreign = ForeignWrites()
    foreign.refuse([x], "f")
    x.assign(np.array([3.0, 4.0]))
    foreign.refuse([x], "f")
    host[0] = 9.0
    foreign.look([x])
    foreign.refuse([x], "f")
    x.fill_(0.0)
    foreign.refuse([x], "f")
    foreign.refuse([x], "f")
    host[0] = 1.0
    with pytest.raises(GradientError, match="written through NumPy"):
        foreign.refuse([x], "f")


def test_only_memory_of_others_with_a_gradient_is_watched():
    x, host = shared(1.0, 2.0)
    y, foreign = array(1.0, gradient=True), ForeignWrites()
    foreign.refuse([x, y], "f")
    foreign.look([x, y])
    host[0] = 5.0
    foreign.refuse([x, y], "f")
    assert not foreign.seen


def test_the_same_content_is_no_change_though_it_was_written():
    x, host = shared(1.0, 2.0, gradient=True)
    foreign = ForeignWrites()
    foreign.refuse([x], "f")
    host[0] = 5.0
    host[0] = 1.0
    foreign.refuse([x], "f")
    x.assign(np.array([1.0, 2.0]))
    foreign.refuse([x], "f")
    assert foreign.seen[x.buffer][0] == x.buffer.version, "so that the next write of others is told from ours"
    host[0] = 5.0
    with pytest.raises(GradientError):
        foreign.refuse([x], "f")


# ------------------------------------------------------------------------------------------------ what was there before
def test_memory_is_what_was_claimed_for_as_long_as_a_block_lasts():
    x, y, live_ins = array(1.0, 2.0, 3.0), array(4.0), LiveIns()
    one, other, live = live_ins.add(x[:2], "f", "x"), live_ins.add(x[1:2], "g", "x"), live_ins.add(y, "f", "y")
    live_ins.before_write(x, "w")
    x.assign(np.array([7.0, 8.0, 9.0]))
    epoch = x.buffer.epoch
    with restored([one, other, live]):
        assert x.list() == [1.0, 2.0, 9.0] and y.list() == [4.0] and x.buffer.epoch > epoch
        inside = x.buffer.epoch
    assert x.list() == [7.0, 8.0, 9.0] and x.buffer.epoch > inside and content(one) == [1.0, 2.0]
    with pytest.raises(ZeroDivisionError), restored([one]):
        assert x.list() == [1.0, 2.0, 9.0]
        raise ZeroDivisionError
    assert x.list() == [7.0, 8.0, 9.0] and content(one) == [1.0, 2.0]
    with restored([one]), restored([one]):
        assert x.list() == [1.0, 2.0, 9.0]
    assert x.list() == [7.0, 8.0, 9.0]


def test_what_was_claimed_in_a_capture_is_saved_again_by_a_replay_and_what_was_claimed_before_is_not():
    x, y, z, live_ins = array(1.0, 2.0), array(3.0), array(4.0), LiveIns()
    before, outside = live_ins.add(y, "f", "y"), live_ins.add(z, "f", "z")
    live_ins.before_write(z, "w")
    with sim.capture() as graph:
        inside = live_ins.add(x, "f", "x")
        live_ins.before_write(x, "w")
        live_ins.before_write(y, "w")
    x.assign(np.array([7.0, 8.0]))
    y.assign(np.array([9.0]))
    graph.replay()
    assert content(inside) == [7.0, 8.0] and content(before) == [3.0] and content(outside) == [4.0]


def test_what_no_replay_takes_again_is_told_until_it_is_forgotten():
    x, y, live_ins = array(1.0, 2.0), array(3.0), LiveIns()
    live_ins.add(y, "f", "y")
    with sim.capture():
        live_ins.add(x, "f", "x")
        live_ins.before_write(x, "w")
        assert not live_ins.uncaptured
        live_ins.before_write(y, "w")
        assert live_ins.uncaptured
    live_ins.clear()
    assert not live_ins.uncaptured


def test_tangents_are_exchanged_with_their_values_and_back_again(monkeypatch):
    x, live_ins, seen = array(1.0, 2.0), LiveIns(), []
    one, other = live_ins.add(x[:1], "f", "x"), live_ins.add(x[1:], "f", "x")
    live_ins.before_write(x[:1], "w")
    live_ins.before_write(x[1:], "w")
    monkeypatch.setattr(live_ins_module.observers, "current", lambda: SimpleNamespace(swapped=seen.append))
    with restored([one, other]):
        assert seen == [one.snapshot, other.snapshot]
    assert seen == [one.snapshot, other.snapshot, other.snapshot, one.snapshot]


@sim.kernel
def scatter(table: sim.array[int], x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[table[i]] = x[i] * x[i]


def test_what_is_known_of_content_does_not_outlive_a_backward_that_changes_it_for_a_while():
    """The verdict on races is remembered by the state of the index array: that of the block is not that of
    afterwards."""
    table, x, y = (
        sim.array(np.array([0, 1], np.int32)),
        array(1.0, 2.0, gradient=True),
        sim.zeros(2, dtype=f64, requires_grad=True),
    )
    live_ins = LiveIns()
    live_in = live_ins.add(table, "f", "table")
    live_ins.before_write(table, "w")
    table.assign(np.array([1, 1], np.int32))
    with restored([live_in]):
        with sim.Tape():
            sim.launch(scatter, 2, [table, x, y])
    with sim.Tape(), pytest.raises(GradientError, match="order of the threads"):
        sim.launch(scatter, 2, [table, x, y])


@sim.kernel
def squared(x: sim.array[float], y: sim.array[float]):
    i = sim.tid()
    y[i] = x[i] * x[i]


def test_a_warning_where_the_tape_keeps_a_copy(monkeypatch, recwarn):
    x, y, z = sim.ones(3, requires_grad=True), sim.zeros(3, requires_grad=True), sim.zeros(3, requires_grad=True)
    with sim.Tape():
        sim.launch(squared, 3, inputs=[x, y])
        sim.copy(x, y)
    assert not recwarn.list
    monkeypatch.setattr(sim.config, "verify_autograd_array_access", True)
    with sim.Tape():
        sim.launch(squared, 3, inputs=[x, y])
        sim.launch(squared, 3, inputs=[y, z])
        assert not recwarn.list
        with pytest.warns(UserWarning, match=r"copy overwrites an array.*'x' of launch of 'squared'") as w:
            sim.copy(x, y)
    assert w[0].filename == __file__
