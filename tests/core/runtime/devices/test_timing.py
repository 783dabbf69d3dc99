"""Timers: of blocks, and of the kernels that run meanwhile."""

import pytest

import sim


@sim.kernel
def double(a: sim.array(dtype=float)):
    i = sim.tid()
    a[i] = 2.0 * a[i]


def test_timers_nest_and_wait(capsys):
    times = {}
    with sim.ScopedTimer("outer", dict=times, synchronize=True) as outer, sim.ScopedTimer("inner", dict=times):
        sim.launch(double, 4, [sim.ones(4)])
    with sim.ScopedTimer("silent", active=False):
        pass
    inner_line, outer_line = capsys.readouterr().out.splitlines()
    assert inner_line.startswith("    inner took ") and outer_line.startswith("outer took ")
    assert times["outer"] == [outer.elapsed] and outer.elapsed >= times["inner"][0] > 0.0
    assert sim.ScopedTimer.depth == 0


def test_detailed_timers_name_functions(capsys):
    with sim.ScopedTimer("block", detailed=True):
        sorted([3, 1, 2])
    out = capsys.readouterr().out
    assert "function calls" in out and "sorted" in out and "block took" in out


def test_timers_of_kernels(capsys):
    a, seen = sim.ones(4), []
    with sim.ScopedTimer("block", cuda_filter=sim.TIMING_ALL, report_func=lambda r, indent: seen.extend(r)) as timer:
        sim.launch(double, 4, [a])
        sim.launch(double, 4, [a])
    assert seen == timer.timing_results and [r.name for r in seen] == ["double", "double"]
    assert all(r.elapsed > 0.0 and r.device == "cpu" and r.filter == sim.TIMING_KERNEL for r in seen)
    sim.timing_print(seen)
    assert capsys.readouterr().out.splitlines()[-1].split()[1:] == ["2", "double"]


def test_begin_and_end():
    sim.timing_begin(sim.TIMING_MEMSET)
    sim.launch(double, 1, [sim.ones(1)])
    assert sim.timing_end() == []
    with pytest.raises(sim.SimError, match="without timing_begin"):
        sim.timing_end()


def test_timers_of_a_whole_program_are_silenced(monkeypatch, capsys):
    monkeypatch.setattr(sim.ScopedTimer, "enabled", False)
    times: dict[str, list[float]] = {}
    with sim.ScopedTimer("quiet", dict=times) as timer:
        pass
    assert (timer.active, timer.elapsed, times, capsys.readouterr().out) == (False, 0.0, {}, "")
