"""GPUs, by a stand-in whose driver works on host memory: what the driver is told, in which order, and that results
agree.

Nothing above the device knows that it is one: arrays, tapes, solvers and rollouts are those of the CPU's tests.
"""

from __future__ import annotations

import gc
import json
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from tools.cuda.on_cpu import HostCompiler, fake_gpu, needs_gxx
from tools.physics.models import gradients, swung_sheet
from tools.scenes.problems import SHEET, write_scene, write_target

import sim
from sim.cli import main
from sim.core.backends.cuda import driver as cuda_driver
from sim.core.runtime.devices import cpu_device
from sim.core.runtime.devices import device as devices
from sim.core.runtime.devices.cuda_device import CudaDevice
from sim.core.runtime.launch import calls
from sim.core.runtime.launch.faults import KernelFault
from sim.core.runtime.memory import dlpack
from sim.core.runtime.memory.buffer import View

pytestmark = needs_gxx


@pytest.fixture
def gpu():
    return fake_gpu()


def told(gpu: CudaDevice, *kinds: str) -> list[tuple]:
    """What the driver was told, of these kinds; forgets it."""
    gc.collect(1)  # of what a test has made; all that others have left takes seconds to look at
    found = [c for c in gpu.driver.calls if not kinds or c[0] in kinds]
    gpu.driver.calls.clear()
    return found


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


# ------------------------------------------------------------------------------------------ launches
@sim.kernel
def double(x: sim.array[float], y: sim.array[float]):
    i = sim.tid()
    y[i] = 2.0 * x[i]


@sim.kernel
def grid(out: sim.array2d[int]):
    i, j = sim.tid()
    out[i, j] = 100 * i + j


@sim.kernel
def turn(q: sim.array[sim.quat], out: sim.array[sim.quat]):
    i = sim.tid()
    out[i] = q[i] * q[i]


@sim.kernel
def spread(x: sim.array[float], y: sim.array[float], k: sim.array[int]):
    i = sim.tid()
    x[i] += 1.0
    sim.atomic_add(y, k[i], 1.0)


@sim.kernel
def squares(x: sim.array[float], out: sim.array[float]):
    i = sim.tid()
    out[0] += x[i] * x[i]


@sim.kernel
def total(x: sim.array[float], out: sim.array[float]):
    out[0] += x[sim.tid()]


def test_geometry(gpu):
    for n in (1, 256, 257, 1000):
        x, y = sim.full(n, 3.0, device=gpu), sim.zeros(n, device=gpu)
        told(gpu)
        sim.launch(double, n, [x], [y])
        assert told(gpu, "launch") == [("launch", "kernel_double", -(-n // 256), 256)]
        assert (y.numpy() == 6.0).all()
    sim.launch(double, 0, [x], [y])
    assert not told(gpu, "launch"), "a launch of nothing is not told to the driver"
    out = sim.zeros((30, 20), dtype=int, device=gpu)
    sim.launch(grid, (30, 20), [out])
    np.testing.assert_array_equal(out.numpy(), 100 * np.arange(30)[:, None] + np.arange(20))


def test_strided_and_misaligned_arguments(gpu):
    host = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    wanted = sim.zeros(9, dtype=sim.quat, device="cpu")
    sim.launch(turn, 9, [sim.array(host, dtype=sim.quat, device="cpu"), wanted])
    out = sim.zeros(9, dtype=sim.quat, device=gpu)
    floats = sim.zeros(9 * 4 + 1, device=gpu)
    floats[1:].assign(host.ravel())
    shifted = sim.array(ptr=floats.ptr + 4, dtype=sim.quat, shape=9, device=gpu)
    before = len(HostCompiler.shared().texts)
    for given in (sim.array(host, dtype=sim.quat, device=gpu), shifted):
        sim.launch(turn, 9, [given, out])
        np.testing.assert_array_equal(out.numpy(), wanted.numpy())
    texts = HostCompiler.shared().texts[before:]
    assert ["float4" in t.partition("kernel turn")[2] for t in dict.fromkeys(texts)] == [
        True,
        False,
    ], "memory that is not aligned gets a kernel of its own"
    wide = sim.zeros((9, 2), dtype=sim.quat, device=gpu)
    sim.launch(turn, 9, [wide[:, 1], out])
    assert not out.numpy().any()


def test_arrays_over_each_other_get_atomics(gpu):
    """x[i] is the thread's own, y[k[i]] is not: where they are the same memory, both need atomics."""
    k = sim.array([1, 1, 2, 0], dtype=int, device=gpu)
    before = len(HostCompiler.shared().texts)
    x, y = sim.zeros(4, device=gpu), sim.zeros(4, device=gpu)
    sim.launch(spread, 4, [x, y, k])
    sim.launch(spread, 4, [x, x, k])
    assert x.numpy().tolist() == [3, 4, 3, 2] and y.numpy().tolist() == [1, 2, 1, 0]
    texts = [t.partition("kernel spread")[2] for t in HostCompiler.shared().texts[before:]]
    assert [t.count("sim_atomic_add(") + t.count("sim_add_grouped<float>(") for t in texts if t] == [1, 2]


def test_recorded_launches(gpu):
    x, y = sim.full(5, 1.0, device=gpu), sim.zeros(5, device=gpu)
    command = sim.launch(double, 5, [x], [y], record_cmd=True)
    command.launch()
    told(gpu)
    command.launch()
    assert [c[0] for c in told(gpu)] == ["launch"]
    command.set_param_by_name("x", y)
    command.launch()
    assert y.numpy().tolist() == [4.0] * 5


def test_failures_are_told_to_the_host(gpu, monkeypatch):
    @sim.kernel
    def careful(x: sim.array[float]):
        i = sim.tid()
        assert x[i] < 3.0, "too large"
        x[i] += 1.0

    x = sim.array([1.0, 2.0, 5.0, 9.0], device=gpu)
    with pytest.raises(
        KernelFault, match=r"(?s)assertion failed: too large, in thread 2 of kernel 'careful'.*assert x\[i\]"
    ):
        sim.launch(careful, 4, [x])
    monkeypatch.setattr(calls, "_check_bounds", True)
    with pytest.raises(KernelFault, match=r"index 4 is outside of 'x' \(length 4\)"):
        sim.launch(double, 5, [x, sim.zeros(5, device=gpu)])


def test_print_comes_in_the_order_of_the_threads(gpu, capsys):
    @sim.kernel
    def show(x: sim.array[float]):
        i = sim.tid()
        print("thread", i, "has", x[i], sim.vec2(x[i], 1.5))
        if i == 1:
            sim.printf("%5.2f and %d\n", x[i], i)

    for device in ("cpu", gpu):
        sim.launch(show, 3, [sim.array([0.1, 1e30, -2.0], device=device)])
    out = capsys.readouterr().out
    assert out[: len(out) // 2] == out[len(out) // 2 :] and "thread 2 has -2.0 [-2.0, 1.5]" in out and " and 1\n" in out


def test_deterministic_sums_run_on_one_thread():
    x = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    for deterministic, blocks in ((False, (4, 256)), (True, (1, 1))):
        gpu = fake_gpu(deterministic=deterministic)
        out = sim.zeros(1, device=gpu)
        sim.launch(total, 1000, [sim.array(x, device=gpu), out])
        assert told(gpu, "launch") == [("launch", "kernel_total", *blocks)]
        y = sim.zeros(1000, device=gpu)
        sim.launch(double, 1000, [sim.array(x, device=gpu), y])
        assert told(gpu, "launch") == [("launch", "kernel_double", 4, 256)], "kernels without shared sums stay parallel"
        reference = sim.zeros(1, device="cpu")
        sim.launch(total, 1000, [sim.array(x, device="cpu"), reference])
        assert out.numpy()[0] == reference.numpy()[0]


# ------------------------------------------------------------------------------------------ graphs
def test_a_graph_is_captured_once_and_launched_at_once(gpu):
    x, y, z = sim.full(6, 1.0, device=gpu), sim.zeros(6, device=gpu), sim.zeros(6, device=gpu)
    with sim.capture() as graph:
        sim.launch(double, 6, [x], [y])
        z.assign(y)
        z[1:4].assign(z[0:3])  # overlapping: memory between, allocated and freed inside
        y.fill_(3.0)
        x.zero_()
    assert y.numpy()[0] == 3.0 and z.numpy()[0] == 2.0
    told(gpu)
    for value in (5.0, 7.0):
        x.fill_(value)
        y.zero_()
        told(gpu)
        graph.replay()
        calls = told(gpu)
        assert calls[-1][0] == "replay" and calls[-1][1] >= 6
        assert (len(calls) == 1) == (value == 7.0), "the second replay is one call"
        assert z.numpy().tolist() == [2 * value] * 6 and x.numpy()[0] == 0.0


def test_what_the_host_takes_part_in_stands_between_graphs(gpu):
    @sim.kernel
    def checked(x: sim.array[float]):
        i = sim.tid()
        assert x[i] < 100.0
        x[i] += 1.0

    x, y = sim.zeros(3, device=gpu), sim.zeros(3, device=gpu)
    with sim.capture() as graph:
        sim.launch(double, 3, [x], [y])
        x.assign(np.array([1.0, 2.0, 3.0], np.float32))
        sim.launch(checked, 3, [x])
        sim.launch(double, 3, [x], [y])
    graph.replay()
    told(gpu)
    graph.replay()
    assert [c[0] for c in told(gpu)] == ["replay", "upload", "launch", "synchronize", "replay"]
    assert y.numpy().tolist() == [4.0, 6.0, 8.0]


def test_rollouts_are_graphs(gpu):
    """Of a second gradient of the same kind, steps are replayed: what is launched derives the model's data, once, among
    them the inverse masses of six sets, and their adjoints."""
    with devices.ScopedDevice(gpu):
        solver = swung_sheet("colored", 1)
        gradients(solver, sim.Checkpointed(every=6), steps=12, frame_every=None)
        gradients(solver, sim.Checkpointed(every=6), steps=12, frame_every=None)
        told(gpu)
        gradients(solver, sim.Checkpointed(every=6), steps=12, frame_every=None)
    kinds = [c[0] for c in told(gpu)]
    assert kinds.count("replay") >= 5 and kinds.count("launch") < 72


# ------------------------------------------------------------------------------------------ streams, other libraries
def test_streams_and_events(gpu):
    main = sim.get_stream(gpu)
    x, y = sim.full(4, 1.0, device=gpu), sim.zeros(4, device=gpu)
    side = sim.Stream(gpu)
    told(gpu)
    with sim.ScopedStream(side):
        assert gpu.stream == side.handle != main.handle
        sim.launch(double, 4, [x], [y])
    sim.wait_stream(side)
    order = [
        ("record", main.handle),
        ("wait", side.handle),
        ("launch", "kernel_double"),
        ("record", side.handle),
        ("wait", main.handle),
    ]
    assert [c[:2] for c in told(gpu)] == order
    assert gpu.stream == main.handle
    begin, end = (sim.Event(gpu, enable_timing=True) for _ in range(2))
    main.record_event(begin)
    sim.launch(double, 4, [x], [y])
    main.record_event(end)
    assert sim.get_event_elapsed_time(begin, end) > 0
    with pytest.raises(ValueError, match="enable_timing=True"):
        sim.get_event_elapsed_time(begin, sim.Event(gpu))
    told(gpu)
    side.synchronize()
    assert told(gpu) == [("synchronize",)]


def test_a_launch_or_copy_runs_on_the_stream_that_it_is_given(gpu, monkeypatch):
    x, y, seen, inner = sim.full(4, 1.0, device=gpu), sim.zeros(4, device=gpu), [], gpu.driver.launch
    main, side, never = sim.get_stream(gpu), sim.Stream(gpu), sim.zeros(1, dtype=int, device=gpu)
    command = sim.launch(double, 4, [x], [y], device=gpu, record_cmd=True)
    monkeypatch.setattr(gpu.driver, "launch", lambda *args: (seen.append(gpu.stream), inner(*args))[1])
    for act in (
        lambda s: sim.launch(double, 4, [x], [y], stream=s),
        lambda s: command.launch(stream=s),
        lambda s: sim.capture_if(never, on_false=command.launch, stream=s),
    ):
        act(side)
        act(main)
    assert seen == [side.handle, main.handle] * 3 and gpu.stream == main.handle
    copied, plain = [], gpu.driver.copy
    monkeypatch.setattr(gpu.driver, "copy", lambda *args: (copied.append(gpu.stream), plain(*args))[1])
    sim.copy(y, x, stream=side)
    sim.copy(y, x)
    assert copied == [side.handle, main.handle]
    sim.capture_while(never, command.launch, stream=side)


def test_streams_of_the_cpu_do_nothing():
    stream, begin, end = sim.Stream("cpu"), sim.Event("cpu", enable_timing=True), sim.Event("cpu", enable_timing=True)
    with sim.ScopedStream(stream):
        stream.record_event(begin)
        stream.wait_stream(sim.get_stream("cpu"))
        stream.record_event(end)
    assert sim.get_event_elapsed_time(begin, end) >= 0
    assert stream.is_complete and end.is_complete


def test_dlpack_between_libraries_on_a_gpu(gpu, monkeypatch):
    monkeypatch.setattr(devices, "cuda_devices", lambda: [gpu])
    host = np.arange(24, dtype=np.float64).reshape(4, 2, 3)
    a = sim.array(host, dtype=sim.vec3d, device=gpu)
    address, _ = a.ptr, told(gpu)
    assert a.__dlpack_device__() == (2, 0)
    b = sim.from_dlpack(a, dtype=sim.vec3d)
    assert told(gpu) == [("record", gpu.stream), ("wait", gpu.stream)], "no copy, and the consumer's stream waits"
    assert b.ptr == a.ptr and b.shape == (4, 2) and b.buffer is a.buffer, "tapes see that the two overlap"
    column = sim.from_dlpack(a[::2, 1])
    np.testing.assert_array_equal(column.numpy(), host[::2, 1])
    b.fill_(7.0)
    assert (a.numpy() == 7.0).all()
    del a
    gc.collect()
    assert (b.numpy() == 7.0).all() and address in gpu.driver.live, "the consumer keeps the memory"
    del b, column
    gc.collect()
    assert address not in gpu.driver.live
    unused = sim.zeros(3, device=gpu)
    capsule = unused.__dlpack__()
    before = len(dlpack._given)
    del capsule
    assert len(dlpack._given) == before - 1, "a capsule that nobody took gives the memory back"
    with pytest.raises(BufferError, match="no multiples of the 4 bytes"):
        gpu.dlpack(odd(gpu), None)


class Tensor:
    """As much of a tensor of PyTorch on a GPU as `from_torch` looks at."""

    def __init__(self, of: sim.array) -> None:
        self.of, self.layout, self.dtype, self.device = of, "strided", "float32", SimpleNamespace(type="cuda")
        self.requires_grad, self.is_leaf, self.grad, self.shape = True, True, None, of.shape

    def detach(self) -> Tensor:
        return self

    def data_ptr(self) -> int:
        return self.of.ptr

    def stride(self) -> tuple[int, ...]:
        return tuple(stride // 4 for stride in self.of.strides)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.of.__dlpack_device__()

    def __dlpack__(self, stream: int) -> object:
        return self.of.__dlpack__(stream=stream)


def test_tensors_on_a_gpu(gpu, monkeypatch):
    """from_torch and to_torch, with a stand-in for PyTorch: memory and gradient are shared, in order, and tapes know
    that others may write."""
    torch = SimpleNamespace(
        Tensor=Tensor, strided="strided", bfloat16=None, complex64=None, complex128=None,
        zeros_like=lambda t: Tensor(sim.zeros(t.shape, device=t.of.device)),
        from_dlpack=lambda a: (a.__dlpack__(stream=77), a)[1],
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(devices, "cuda_devices", lambda: [gpu])
    theirs = CudaDevice("cuda:0", gpu.driver, HostCompiler.shared())  # memory of the same GPU that is not ours
    tensor = Tensor(sim.array(np.arange(1.0, 5.0), dtype=float, device=theirs))
    told(gpu)
    x = sim.from_torch(tensor)
    assert [c for c in told(gpu) if c[0] == "wait"][0] == ("wait", gpu.stream), "our stream waits for theirs"
    assert x.ptr == tensor.of.ptr and x.requires_grad and x.grad.ptr == tensor.grad.of.ptr and x.buffer.shared
    loss = sim.zeros(1, requires_grad=True, device=gpu)
    with sim.Tape() as tape:
        sim.launch(squares, 4, [x], [loss])
        with pytest.raises(sim.GradientError, match="cannot see what"):
            sim.to_torch(x)
    tensor.of.fill_(100.0)  # in place, by others: what the gradient needs was kept
    tape.backward(loss)
    assert tensor.grad.of.numpy().tolist() == [2.0, 4.0, 6.0, 8.0]
    told(gpu)
    y = sim.zeros(3, device=gpu)
    assert not y.buffer.shared and sim.to_torch(y, requires_grad=False) is y
    assert [c for c in told(gpu) if c[0] == "wait"] == [("wait", 77)], "their stream waits for ours"
    with pytest.raises(TypeError, match="only tensors on the CPU and on GPUs"):
        tensor.device = SimpleNamespace(type="mps")
        sim.from_torch(tensor)


def odd(gpu: CudaDevice) -> View:
    """Floats six bytes apart."""
    return View(gpu.allocate(64), 0, (4,), (6,), sim.float32)


def test_cuda_array_interface(gpu):
    a = sim.zeros((5, 4), dtype=sim.vec2, device=gpu)
    shown = a[1:, ::2].__cuda_array_interface__
    assert shown == {
        "version": 3,
        "shape": (4, 2, 2),
        "strides": (32, 16, 4),
        "typestr": "<f4",
        "data": (a.ptr + 32, False),
        "stream": gpu.stream,
    }
    assert not hasattr(sim.zeros(2, device="cpu"), "__cuda_array_interface__")


# ------------------------------------------------------------------------------------------ rollouts
@pytest.mark.parametrize(("order", "iterations"), [("colored", 2), ("jacobi", 1)])
def test_rollouts_and_their_gradients(order, iterations):
    """The same numbers as on the CPU, for the positions and every gradient; by both strategies."""
    wanted = gradients(swung_sheet(order, iterations), sim.StoreAll(), steps=9)
    gpu = fake_gpu()
    with devices.ScopedDevice(gpu):
        solver = swung_sheet(order, iterations)
        for strategy in (sim.StoreAll(), sim.Checkpointed(every=4)):
            found = gradients(solver, strategy, steps=9)
            assert found.keys() == wanted.keys()
            for name, value in wanted.items():
                np.testing.assert_allclose(
                    found[name], value, rtol=1e-10, atol=1e-10 * np.abs(value).max(initial=1.0), err_msg=name
                )
    assert len(told(gpu, "launch")) > 500


def test_a_tape_frees_what_it_kept():
    gpu = fake_gpu()
    with devices.ScopedDevice(gpu):
        x = sim.array(np.ones(100), dtype=float, requires_grad=True)
        out = sim.zeros(1, requires_grad=True)
        live = len(gpu.driver.live)
        with sim.Tape() as tape:
            for _ in range(3):
                y = sim.clone(x)
                sim.launch(total, 100, [y, out])
                x.assign(y)
                x.fill_(2.0)
        tape.backward(out)
        assert x.grad.numpy()[0] == 1.0
        del tape, y
    gc.collect()
    assert len(gpu.driver.live) <= live + 5, "two gradients, and the values of fills"


# ------------------------------------------------------------------------------------------ which there are
class Bindings:
    """A driver that answers as told."""

    def __init__(self, init: int | Exception = 0, count: int = 1, version: int = 13000) -> None:
        self.init, self.count, self.version = init, count, version

    def cuInit(self, flags):  # noqa: N802 the driver's name
        if isinstance(self.init, Exception):
            raise self.init
        return (self.init,)

    def cuGetErrorName(self, code):  # noqa: N802
        return 0, b"CUDA_ERROR_NO_DEVICE"

    def cuDeviceGetCount(self):  # noqa: N802
        return 0, self.count

    def cuDriverGetVersion(self):  # noqa: N802
        return 0, self.version


@pytest.mark.parametrize(
    ("bindings", "message"),
    [
        (ImportError(), r"bindings are not installed; pip install 'simopt-xpbd\[cuda\]'"),
        (Bindings(RuntimeError("libcuda.so")), "has no NVIDIA driver"),
        (Bindings(100), "does not start .CUDA_ERROR_NO_DEVICE."),
        (Bindings(version=11080), "is of CUDA 11.8; install one of CUDA 12 or newer"),
        (Bindings(count=0), "finds no GPU"),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(bindings, message, monkeypatch):
    def load():
        if isinstance(bindings, Exception):
            raise bindings
        return bindings

    monkeypatch.setattr(cuda_driver, "_bindings", load)
    count, why = cuda_driver.find_gpus.__wrapped__()
    assert count == 0 and "\n" not in why
    monkeypatch.setattr(devices, "cuda_devices", lambda: [])
    monkeypatch.setattr(devices, "cuda_missing", lambda: why)
    with pytest.raises(devices.DeviceError, match=message):
        sim.get_device("cuda:0")
    assert sim.get_device("auto").is_cpu


def test_devices_by_name(monkeypatch):
    found = [fake_gpu("cuda:0"), fake_gpu("cuda:1")]
    monkeypatch.setattr(devices, "cuda_devices", lambda: found)
    assert sim.get_device("cuda") is sim.get_device("auto") is found[0] and sim.get_device("cuda:1") is found[1]
    assert sim.get_devices()[1:] == found and pickle.loads(pickle.dumps(found[1])) is found[1]
    with pytest.raises(devices.DeviceError, match="no device 'cuda:2'; this machine has cuda:0, cuda:1"):
        sim.get_device("cuda:2")
    with sim.ScopedDevice("cuda:1"):
        assert sim.zeros(2).device is found[1]


def test_the_command_runs_a_scene_on_a_gpu(tmp_path, monkeypatch, capsys):
    """The same search, uncertainty and report as on the CPU, to the last digit."""
    monkeypatch.setattr(devices, "cuda_devices", lambda: [fake_gpu()])
    write_target(tmp_path, SHEET, overrides={"objects.sheet.cloth.material.distance.compliance": 0.02})
    scene = write_scene(tmp_path, SHEET)
    results = []
    for device in ("cpu", "cuda"):
        assert (
            main(
                ["run", str(scene), "--device", device, "--iterations", "2", "--out", str(tmp_path / device), "--json"]
            )
            == 0
        )
        results.append(json.loads(capsys.readouterr().out))
    assert results[0]["device"] == "cpu" and results[1]["device"] == "cuda:0"
    assert results[0]["parameters"] == results[1]["parameters"] and results[0]["loss"] == results[1]["loss"]
