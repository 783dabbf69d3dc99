"""Streams, events, and arrays of other libraries on GPUs, by a stand-in whose driver works on host memory."""

from __future__ import annotations

import gc
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from tools.cuda.on_cpu import HostCompiler, fake_gpu, needs_gxx
from tools.cuda.stand_in import double, squares, told

import sim
from sim.core.runtime.devices import device as devices
from sim.core.runtime.devices.cuda_device import CudaDevice
from sim.core.runtime.memory import dlpack
from sim.core.runtime.memory.buffer import View

pytestmark = needs_gxx


@pytest.fixture
def gpu():
    return fake_gpu()


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
