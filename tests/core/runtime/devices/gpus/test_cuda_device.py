"""GPUs, by a stand-in whose driver works on host memory: what the driver is told, in which order, and that results
agree.

Nothing above the device knows that it is one: arrays, tapes, solvers and rollouts are those of the CPU's tests.
"""

from __future__ import annotations

import gc
import json
import pickle

import numpy as np
import pytest
from tools.cuda.on_cpu import HostCompiler, fake_gpu, needs_gxx
from tools.cuda.stand_in import double, told
from tools.physics.models import gradients, swung_sheet
from tools.scenes.problems import SHEET, write_scene, write_target

import sim
from sim.cli import main
from sim.core.backends.cuda import driver as cuda_driver
from sim.core.runtime.devices import device as devices
from sim.core.runtime.launch import calls
from sim.core.runtime.launch.faults import KernelFault

pytestmark = needs_gxx


@pytest.fixture
def gpu():
    return fake_gpu()


# ------------------------------------------------------------------------------------------ launches
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
