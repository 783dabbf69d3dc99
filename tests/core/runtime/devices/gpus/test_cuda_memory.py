"""Memory of GPUs, by a stand-in whose driver works on host memory: arrays, views, copies, structs, and what cannot be
shared."""

from __future__ import annotations

import numpy as np
import pytest
from tools.cuda.on_cpu import fake_gpu, needs_gxx
from tools.cuda.stand_in import double, told

import sim
from sim.core.runtime.devices import cpu_device

pytestmark = needs_gxx


@pytest.fixture
def gpu():
    return fake_gpu()


# ------------------------------------------------------------------------------------------ memory
def test_arrays_and_their_memory(gpu):
    x = sim.array(np.arange(12.0), dtype=float, device=gpu)
    assert told(gpu) == [("allocate", 48), ("upload", 48)]
    assert x.numpy().tolist() == list(range(12)) and told(gpu) == [("download", 48)]
    assert x.device is gpu and gpu.is_cuda and not gpu.is_cpu and x.ptr % 256 == 0
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 1.0
    told(gpu)
    x.zero_()
    x.fill_(-1.0)
    calls = told(gpu)
    assert calls[0] == ("fill", 48) and [c[0] for c in calls[1:]] == ["allocate", "upload", "launch"]
    x.fill_(-1.0)
    assert [c[0] for c in told(gpu)] == ["launch"], "a value that was filled in before stays on the device"
    y = sim.clone(x)
    assert [c[0] for c in told(gpu)] == ["allocate", "copy"]
    del x, y
    assert told(gpu) == [("free",), ("free",)]


def test_views_and_copies_between_devices(gpu):
    host = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    a = sim.array(host, device=gpu)
    np.testing.assert_array_equal(a[1:3, ::2].numpy(), host[1:3, ::2])
    np.testing.assert_array_equal(a.transpose().numpy(), host.T)
    np.testing.assert_array_equal(a[::-1, ::-2].numpy(), host[::-1, ::-2])
    b = sim.zeros((4, 6), device="cpu")
    b.assign(a)
    np.testing.assert_array_equal(b.numpy(), host)
    a[:, 1].assign(sim.array(np.array([7.0, 8.0, 9.0, 10.0]), dtype=float, device="cpu"))
    a[0, ::2].fill_(-3.0)
    expected = host.copy()
    expected[:, 1], expected[0, ::2] = [7, 8, 9, 10], -3
    np.testing.assert_array_equal(a.numpy(), expected)
    a[1:4].assign(a[0:3])  # overlapping
    expected[1:4] = expected[0:3].copy()
    np.testing.assert_array_equal(a.numpy(), expected)
    assert a.to("cpu").device.is_cpu and a.to("cpu").to(gpu).device is gpu
    other = fake_gpu("cuda:1")
    np.testing.assert_array_equal(a[:, ::3].to(other).numpy(), expected[:, ::3])
    assert ("copy from a peer", 32) in other.driver.calls


def test_pinned_memory_is_copied_on_the_stream(gpu, monkeypatch):
    assert not sim.zeros(3, device="cpu", pinned=True).pinned or sim.get_devices()[1:], (
        "plain memory where there is no GPU"
    )
    monkeypatch.setattr(cpu_device, "cuda_devices", lambda: [gpu])
    source, target = sim.full(100, 3.0, device="cpu", pinned=True), sim.empty(100, device="cpu", pinned=True)
    assert source.pinned and source.ptr % 64 == 0 and not sim.zeros(3, device="cpu").pinned
    x = sim.zeros(100, device=gpu)
    told(gpu)
    sim.copy(x, source)
    sim.copy(target, x)
    assert told(gpu) == [("upload later", 400), ("download later", 400)] and (target.numpy() == 3.0).all()
    sim.copy(x[::2], source[::2])
    sim.copy(target[::2], x[::2])
    assert [c[0] for c in told(gpu) if "load" in c[0]] == ["upload", "download"], "pieces of it by way of the host"
    with sim.capture() as graph:
        sim.copy(x, source)
        sim.copy(target, x)
    graph.replay()
    told(gpu)
    source.fill_(5.0)
    graph.replay()
    assert (target.numpy() == 5.0).all() and "upload" not in {c[0] for c in told(gpu)}
    with pytest.raises(ValueError, match="memory of the CPU, not of cuda:0"):
        sim.zeros(3, device=gpu, pinned=True)


def test_structs(gpu):
    @sim.struct
    class Point:
        mass: sim.float64
        tag: int
        x: sim.vec3

    values = np.zeros(3, Point.np)
    values["mass"], values["tag"], values["x"] = [1, 2, 3], [4, 5, 6], np.arange(9).reshape(3, 3)
    p = sim.array(values, dtype=Point, device=gpu)
    q = sim.zeros(3, dtype=Point, device=gpu)
    q[::2].assign(p[::2])
    assert q.numpy()["tag"].tolist() == [4, 0, 6] and q.numpy()["x"][2].tolist() == [6, 7, 8]
    gpu.add(q, p)
    assert q.numpy()["mass"].tolist() == [2, 2, 6] and q.numpy()["tag"].tolist() == [
        4,
        0,
        6,
    ], "only floating-point parts are added"
    q.fill_(p.list()[1])
    assert q.numpy()["tag"].tolist() == [5, 5, 5]


def test_what_cannot_be_shared_is_an_error(gpu):
    with pytest.raises(ValueError, match="NumPy data cannot be shared with cuda:0"):
        sim.array(np.zeros(3, np.float32), device=gpu, copy=False)
    with pytest.raises(AttributeError):
        _ = sim.zeros(3, device=gpu).__array_interface__
    a, b = sim.zeros(3, device=gpu), sim.zeros(3, device="cpu")
    with pytest.raises(sim.LaunchError, match=r"lies on cpu, the launch is on cuda:0"):
        sim.launch(double, 3, [a, b], device=gpu)
    with pytest.raises(sim.LaunchError, match=r"lies on cuda:0, the launch is on cpu"):
        sim.launch(double, 3, [b, a])
