"""What programs ask about devices, and streams and events as functions."""

from importlib.util import find_spec

import pytest

import sim


def test_the_cpu_answers():
    cpu = sim.get_device("cpu")
    assert cpu == "cpu" and cpu != "cuda:0" and {cpu: 1}["cpu"] == 1
    assert (cpu.alias, cpu.ordinal, cpu.arch, cpu.sm_count, cpu.max_shared_memory_per_block) == ("cpu", -1, 0, 0, 0)
    assert (cpu.free_memory, cpu.total_memory) == (0, 0)
    assert cpu.can_access(cpu)
    assert sim.is_cpu_available() and sim.is_device_available("cpu") and sim.is_device_available(cpu)
    assert not sim.is_device_available("cuda:99") and not sim.is_device_available("nowhere")
    assert sim.is_conditional_graph_supported()


def test_questions_about_gpus_agree():
    found = [d for d in sim.get_devices() if d.is_cuda]
    assert sim.get_cuda_devices() == found
    assert sim.get_cuda_device_count() == len(found)
    assert sim.is_cuda_available() == bool(found)
    assert sim.get_preferred_device() is (found or [sim.get_device("cpu")])[0]
    assert sim.get_cuda_supported_archs() == sorted({d.arch for d in found})
    assert (sim.get_cuda_driver_version() is None) == (not found)
    if found:
        assert sim.get_cuda_device() is found[0]
    else:
        with pytest.raises(RuntimeError, match="not available"):
            sim.get_cuda_device()


def test_what_is_not_there_is_false_and_cannot_be_switched_on():
    assert not sim.is_mempool_supported("cpu") and not sim.is_mempool_enabled("cpu")
    for asked in (
        sim.is_peer_access_supported,
        sim.is_peer_access_enabled,
        sim.is_mempool_access_supported,
        sim.is_mempool_access_enabled,
    ):
        assert asked("cpu", "cpu") is False
        with pytest.raises(sim.DeviceError):
            asked("cpu", "nowhere")
    with sim.ScopedMempool("cpu", False), sim.ScopedPeerAccess("cpu", "cpu", False):
        sim.set_mempool_enabled("cpu", False)
        sim.set_peer_access_enabled("cpu", "cpu", False)
    for switch in (
        lambda: sim.set_mempool_enabled("cpu", True),
        lambda: sim.set_peer_access_enabled("cpu", "cpu", True),
        lambda: sim.set_mempool_access_enabled("cpu", "cpu", True),
        lambda: sim.ScopedMempool("cpu", True),
    ):
        with pytest.raises(ValueError, match="not supported; memory is kept by the device itself"):
            switch()


def test_streams_and_events_as_functions():
    stream, event = sim.Stream("cpu"), sim.Event("cpu", enable_timing=True)
    with sim.ScopedStream(stream, sync_exit=True) as now:
        assert now is stream
        assert sim.record_event(event) is event
        sim.wait_event(event)
    with sim.ScopedStream(None) as now:
        assert now is None
    later = sim.Event("cpu", enable_timing=True)
    sim.record_event(later)
    sim.synchronize_event(later)
    assert sim.get_event_elapsed_time(event, later, synchronize=False) >= 0.0
    sim.set_stream(stream, "cpu", sync=True)
    sim.wait_stream(sim.Stream("cpu"), sim.Event("cpu"))
    sim.synchronize_stream(stream)
    sim.synchronize_stream("cpu")
    sim.synchronize_device()
    sim.synchronize_device("cpu")
    with pytest.raises(sim.DeviceError):
        sim.set_stream(stream, "nowhere")


def test_diagnostics_are_printed_and_returned(capsys):
    found = sim.print_diagnostics()
    shown = capsys.readouterr().out
    assert shown.startswith("Software\n") and found["numpy"] in shown
    assert found["warp_python"] == sim.config.version and found["debug"] is False
    assert found["devices"][0]["alias"] == "cpu" and len(found["devices"]) == 1 + len(sim.get_cuda_devices())
    assert ("torch" in found) == (find_spec("torch") is not None)
