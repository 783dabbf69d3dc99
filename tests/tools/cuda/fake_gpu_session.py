"""What test_cuda_bindings.py runs on the fake GPUs: every kind of call of the driver, with results that only come out
if the waits are right."""

import gc
import threading

import numpy as np

import sim
from sim.core.backends.cuda.driver import CudaError


@sim.kernel
def double(x: sim.array[float], y: sim.array[float]):
    i = sim.tid()
    y[i] = 2.0 * x[i]


@sim.kernel
def checked(x: sim.array[float]):
    i = sim.tid()
    print("thread", i)
    assert x[i] < 5.0


def devices() -> None:
    assert [d.name for d in sim.get_devices()] == [
        "cpu",
        "cuda:0",
        "cuda:1",
    ] and "a CPU that plays a GPU" in sim.get_device("cuda").description
    a = sim.array(np.arange(12.0), dtype=float, device="cuda:0")
    b = a[::3].to("cuda:1")
    assert b.numpy().tolist() == [0, 3, 6, 9] and b.to("cpu").numpy().tolist() == [0, 3, 6, 9]


def transfers() -> None:
    host = np.arange(1000, dtype=np.float32)
    x = sim.array(host, device="cuda")
    host[:] = -1.0  # the caller may do so at once
    assert x.numpy()[999] == 999.0
    x.assign(np.full(1000, 3.0, np.float32))
    x[::2].fill_(4.0)
    x[1:11].assign(x[0:10])
    assert x.numpy()[:4].tolist() == [4, 4, 3, 4]
    try:
        x.device.driver.copy(x.ptr, x.ptr + 8, 16)
    except CudaError as error:
        assert "CUDA_ERROR_INVALID_VALUE" in str(error)
    else:
        raise AssertionError("a copy of overlapping memory was taken")


def streams() -> None:
    device = sim.get_device("cuda:0")
    x, y, z = (sim.zeros(5, device=device) for _ in range(3))
    side = sim.Stream(device)
    x.fill_(3.0)
    with sim.ScopedStream(side):
        sim.launch(double, 5, [x], [y])
    sim.wait_stream(side)
    sim.launch(double, 5, [y], [z])
    assert z.numpy().tolist() == [12.0] * 5
    begin, end = (sim.Event(device, enable_timing=True) for _ in range(2))
    sim.get_stream(device).record_event(begin)
    del x, y
    gc.collect()
    sim.get_stream(device).record_event(end)
    assert sim.get_event_elapsed_time(begin, end) > 0.0
    side.synchronize()
    sim.synchronize()


def other_threads() -> None:
    """A thread that has not met the GPU yet has no context."""
    x, failures = sim.full(3, 2.0, device="cuda:0"), []

    def work() -> None:
        try:
            assert x.numpy().tolist() == [2.0] * 3
            sim.launch(double, 3, [x], [x])
        except Exception as error:  # noqa: BLE001 it is shown in the main thread
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failures, failures[0]
    assert x.numpy().tolist() == [4.0] * 3


def graphs() -> None:
    device = sim.get_device("cuda:0")
    x, y = sim.full(6, 1.0, device=device), sim.zeros(6, device=device)
    with sim.capture() as graph:
        sim.launch(double, 6, [x], [y])
        y[1:4].assign(y[0:3])  # memory that the graph allocates and frees
        x.fill_(5.0)
    for value in (5.0, 7.0, 8.0):
        x.fill_(value)
        graph.replay()
        assert y.numpy().tolist() == [2 * value] * 6 and x.numpy()[0] == 5.0
    handles = [sim.zeros(4, device=device)]
    page_locked = device.driver.pinned(64)
    device.driver.begin_capture()
    sim.launch(double, 6, [x], [y])
    del page_locked, graph
    handles.clear()  # memory and graphs that end meanwhile
    gc.collect()
    device.driver.drop_graph(device.driver.end_capture())


def failures() -> None:
    x = sim.array([1.0, 2.0, 9.0], device="cuda:0")
    try:
        sim.launch(checked, 3, [x])
    except sim.KernelFault as error:
        assert "thread 2" in str(error)
    else:
        raise AssertionError("the assertion has passed")


def sharing() -> None:
    a = sim.array(np.arange(6.0), dtype=float, device="cuda:0")
    b = sim.from_dlpack(a)
    b.fill_(2.0)
    assert a.numpy().tolist() == [2.0] * 6 and a.__cuda_array_interface__["stream"] == int(a.device.stream)


def pinned() -> None:
    source, target = (sim.zeros(1000, device="cpu", pinned=True) for _ in range(2))
    x = sim.zeros(1000, device="cuda:0")
    source.fill_(6.0)
    sim.copy(x, source)  # in the order of the stream
    sim.launch(double, 1000, [x], [x])
    sim.copy(target, x)
    sim.synchronize()
    assert (target.numpy() == 12.0).all()
    x.assign(source.numpy())  # host data: they may change at once
    source.fill_(-1.0)
    assert (x.numpy() == 6.0).all()


for part in (devices, transfers, streams, other_threads, graphs, failures, sharing, pinned):
    part()
print("all is well")
