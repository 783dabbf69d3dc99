"""Claims on content that recorded operations still need: what is copied when, what is told, what is seen of other
writers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import sim
from sim.core.lang.errors import GradientError
from sim.core.runtime.memory.buffer import ByteRange
from sim.core.runtime.memory.spans import extent_of
from sim.core.runtime.tape import claims as claims_module
from sim.core.runtime.tape.claims import Claims, Watch, restored

f64 = sim.float64


def array(*values: float, gradient: bool = False) -> sim.array:
    return sim.array(np.array(values), dtype=f64, requires_grad=gradient)


def shared(*values: float, gradient: bool = False) -> tuple[sim.array, np.ndarray]:
    """An array on memory of NumPy's, and that."""
    host = np.array(values)
    return sim.from_numpy(host, requires_grad=gradient, copy=False), host


def content(claim) -> list[float]:
    """What lies where the claimed values are now."""
    where = ByteRange(claim.buffer, claim.low, claim.high)
    if claim.kept is not None:
        where = ByteRange(claim.kept.data, claim.low - claim.kept.low, claim.high - claim.kept.low)
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
    x, claims = array(1.0, 2.0, 3.0, 4.0), Claims()
    claim = claims.claim(x[1:3], "launch of 'f'", "x")
    assert claim.kept is None and not claims.kept and claim.address(8) == x.buffer.address + 8
    claims.before_write(x[3:], "launch of 'g'")
    claims.before_write(x[:1], "launch of 'g'")
    claims.before_write(array(0.0), "launch of 'g'")
    assert claim.kept is None and claims.open[x.buffer] == [claim]
    claims.before_write(x[2:], "launch of 'h'")
    x.fill_(9.0)
    assert (
        content(claim) == [2.0, 3.0]
        and claim.address(16) == claim.kept.address + 8
        and claim.kept.live.buffer is x.buffer
    )
    assert (
        claims.kept == [claim.kept]
        and claim.kept.reason == "'x' of the launch of 'f'; overwritten by the launch of 'h'"
    )
    assert not claims.open[x.buffer] and not x.buffer.watchers


@pytest.mark.parametrize(
    ("low", "high", "hit"),
    [(0, 1, False), (0, 2, True), (1, 2, True), (2, 4, True), (3, 4, False), (3, 3, False), (0, 4, True)],
)
def test_a_write_meets_a_claim_where_they_share_a_byte(low, high, hit):
    x, claims = array(1.0, 2.0, 3.0, 4.0), Claims()
    claim = claims.claim(x[1:3], "f", "x")
    claims.before_write(x[low:high], "g")
    assert (claim.kept is not None) == hit


def test_claims_that_are_hit_together_share_one_copy():
    x, claims = array(1.0, 2.0, 3.0, 4.0, 5.0), Claims()
    first, second, third = claims.claim(x[:2], "f", "a"), claims.claim(x[2:4], "g", "b"), claims.claim(x[4:], "h", "c")
    again = claims.claim(x[:2], "f", "a")
    claims.before_write(x[1:3], "w")
    x[:4].fill_(0.0)
    assert (
        first.kept is second.kept is again.kept
        and third.kept is None
        and len(claims.kept) == 1
        and first.kept.data.nbytes == 32
    )
    assert content(first) == [1.0, 2.0] and content(second) == [3.0, 4.0]
    assert first.kept.reason == "'a' of the f, 'b' of the g; overwritten by the w"
    assert claims.open[x.buffer] == [third] and x.buffer.watchers
    claims.before_write(x, "w")
    assert content(third) == [5.0] and content(first) == [1.0, 2.0] and not x.buffer.watchers


def test_an_overwrite_may_be_refused():
    x, claims = array(1.0, 2.0), Claims(refuse=True)
    claims.claim(x[:1], "launch of 'f'", "x")
    claims.before_write(x[1:], "launch of 'g'")
    with pytest.raises(
        GradientError,
        match=(
            r"'g' overwrites an array of shape \(2,\) whose values launch of 'f' read as 'x'(.|\n)*on_overwrite='save'"
        ),
    ):
        claims.before_write(x, "launch of 'g'")
    assert not claims.kept


def test_claims_that_are_joined_are_kept_as_one():
    x, claims = array(1.0, 2.0, 3.0, 4.0), Claims()
    one, other, apart = claims.claim(x[:2], "f", "a"), claims.claim(x[1:3], "f", "b"), claims.claim(x[3:], "f", "c")
    claims.join([one, other])
    claims.join([])
    assert (one.low, one.high) == (other.low, other.high) == (0, 24) and apart.low == 24
    claims.before_write(x[2:3], "g")
    assert one.kept is other.kept is not None and apart.kept is None


def test_what_is_released_may_change():
    x, y, claims = array(1.0), array(2.0), Claims()
    held, free = claims.claim(x, "f", "x"), claims.claim(y, "f", "y")
    claims.before_write(x, "g")
    claims.release()
    claims.before_write(y, "g")
    assert free.kept is None and held.kept is not None and not claims.open and not y.buffer.watchers and claims.kept
    claims.clear()
    assert not claims.kept


def test_claims_that_are_given_up_are_not_kept_and_the_others_are():
    x, y, claims = array(1.0, 2.0), array(3.0), Claims()
    first, second, alone = claims.claim(x, "f", "x"), claims.claim(x[1:], "g", "x"), claims.claim(y, "f", "y")
    assert claims.present() == {first, second, alone}
    claims.drop([first, alone])
    assert claims.present() == {second} and x.buffer.watchers and not y.buffer.watchers
    claims.before_write(x, "w")
    claims.before_write(y, "w")
    assert first.kept is None and alone.kept is None and second.kept is not None and claims.present() == set()
    claims.drop([second])


def test_what_is_cleared_watches_nothing():
    x, claims = array(1.0), Claims()
    made = claims.claim(x, "f", "x")
    claims.clear()
    assert not x.buffer.watchers and not claims.open and not claims.present()
    claims.drop([made])  # is not there any more


# ------------------------------------------------------------------------------------------------ memory of others
def test_memory_of_others_is_kept_at_once_and_once_for_as_long_as_it_stays_the_same():
    x, host = shared(1.0, 2.0, 3.0)
    claims = Claims()
    one, same, part = claims.claim(x, "f", "x"), claims.claim(x, "g", "x"), claims.claim(x[1:], "g", "x")
    assert (
        one.kept is same.kept is not None
        and part.kept is not one.kept
        and one.kept.reason == "'x' of the f; others can write there"
    )
    host[0] = 7.0
    changed, again = claims.claim(x, "h", "x"), claims.claim(x, "h", "x")
    assert (
        content(one) == [1.0, 2.0, 3.0]
        and content(changed) == [7.0, 2.0, 3.0]
        and again.kept is changed.kept is not one.kept
    )
    assert claims.claim(x[1:], "h", "x").kept is part.kept, "these bytes are the same still"
    host[0] = 1.0
    assert claims.claim(x, "h", "x").kept not in (one.kept, changed.kept), "only the latest copy is compared"
    assert not claims.open.get(x.buffer) and not x.buffer.watchers


def test_equal_bytes_at_another_place_are_another_copy():
    x, _ = shared(1.0, 2.0, 1.0, 2.0, 1.0)
    claims = Claims()
    one, other, longer = claims.claim(x[:2], "f", "a"), claims.claim(x[2:4], "f", "b"), claims.claim(x[:4], "f", "c")
    assert len({id(c.kept) for c in (one, other, longer)}) == 3 and other.address(16) == other.kept.address
    assert claims.claim(x[:2], "g", "a").kept is one.kept and content(longer) == [1.0, 2.0, 1.0, 2.0]


def test_claims_on_memory_of_others_that_are_joined_share_one_copy():
    x, host = shared(1.0, 2.0, 3.0)
    claims = Claims()
    one, other = claims.claim(x[:2], "f", "a"), claims.claim(x[1:], "f", "b")
    claims.join([one, other])
    host[:] = 0.0
    assert one.kept is other.kept and content(one) == content(other) == [1.0, 2.0, 3.0]


def test_a_write_through_numpy_is_seen_at_the_next_look():
    x, host = shared(1.0, 2.0, gradient=True)
    watch = Watch()
    watch.before([x], "launch of 'f'")
    watch.before([x], "launch of 'f'")
    host[1] = 5.0
    with pytest.raises(
        GradientError,
        match=(
            r"an array of shape \(2,\) was written through NumPy .* before the launch of 'g': its gradient would be"
            r" wrong"
        ),
    ):
        watch.before([x], "launch of 'g'")


def test_writes_that_the_tape_sees_are_none_of_others():
    x, host = shared(1.0, 2.0, gradient=True)
    watch = Watch()
    watch.before([x], "f")
    x.assign(np.array([3.0, 4.0]))
    watch.before([x], "f")
    host[0] = 9.0
    watch.after([x])
    watch.before([x], "f")
    x.fill_(0.0)
    watch.before([x], "f")
    watch.before([x], "f")
    host[0] = 1.0
    with pytest.raises(GradientError, match="written through NumPy"):
        watch.before([x], "f")


def test_only_memory_of_others_with_a_gradient_is_watched():
    x, host = shared(1.0, 2.0)
    y, watch = array(1.0, gradient=True), Watch()
    watch.before([x, y], "f")
    watch.after([x, y])
    host[0] = 5.0
    watch.before([x, y], "f")
    assert not watch.seen


def test_the_same_content_is_no_change_though_it_was_written():
    x, host = shared(1.0, 2.0, gradient=True)
    watch = Watch()
    watch.before([x], "f")
    host[0] = 5.0
    host[0] = 1.0
    watch.before([x], "f")
    x.assign(np.array([1.0, 2.0]))
    watch.before([x], "f")
    assert watch.seen[x.buffer][0] == x.buffer.version, "so that the next write of others is told from ours"
    host[0] = 5.0
    with pytest.raises(GradientError):
        watch.before([x], "f")


# ------------------------------------------------------------------------------------------------ what was there before
def test_memory_is_what_was_claimed_for_as_long_as_a_block_lasts():
    x, y, claims = array(1.0, 2.0, 3.0), array(4.0), Claims()
    one, other, live = claims.claim(x[:2], "f", "x"), claims.claim(x[1:2], "g", "x"), claims.claim(y, "f", "y")
    claims.before_write(x, "w")
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
    x, y, z, claims = array(1.0, 2.0), array(3.0), array(4.0), Claims()
    before, outside = claims.claim(y, "f", "y"), claims.claim(z, "f", "z")
    claims.before_write(z, "w")
    with sim.capture() as graph:
        inside = claims.claim(x, "f", "x")
        claims.before_write(x, "w")
        claims.before_write(y, "w")
    assert inside.kept.captured and not before.kept.captured and not outside.kept.captured
    x.assign(np.array([7.0, 8.0]))
    y.assign(np.array([9.0]))
    graph.replay()
    assert content(inside) == [7.0, 8.0] and content(before) == [3.0] and content(outside) == [4.0]


def test_tangents_are_exchanged_with_their_values_and_back_again(monkeypatch):
    x, claims, seen = array(1.0, 2.0), Claims(), []
    one, other = claims.claim(x[:1], "f", "x"), claims.claim(x[1:], "f", "x")
    claims.before_write(x[:1], "w")
    claims.before_write(x[1:], "w")
    monkeypatch.setattr(claims_module.observers, "current", lambda: SimpleNamespace(swapped=seen.append))
    with restored([one, other]):
        assert seen == [one.kept, other.kept]
    assert seen == [one.kept, other.kept, other.kept, one.kept]


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
    claims = Claims()
    claim = claims.claim(table, "f", "table")
    claims.before_write(table, "w")
    table.assign(np.array([1, 1], np.int32))
    with restored([claim]):
        with sim.Tape():
            sim.launch(scatter, 2, [table, x, y])
    with sim.Tape(), pytest.raises(GradientError, match="order of the threads"):
        sim.launch(scatter, 2, [table, x, y])
