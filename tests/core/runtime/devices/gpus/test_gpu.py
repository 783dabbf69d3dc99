"""On a real GPU: the texts that other tests run on the CPU, rollouts, graphs.  Everything here is skipped where there
is none.

Tests of tapes, loops and launches that take "cuda" as a back end run there too, on the GPU where there is one.
"""

from __future__ import annotations

import numpy as np
import pytest
from tools.backends.kernels import BACKENDS, launch, same_bits
from tools.backends.operands import CASES, INEXACT, samples
from tools.cuda.on_cpu import Batch, renamed
from tools.cuda.project_kernels import CHUNKS, library_functions, rows
from tools.fuzz.backends import THREADS, Program, arguments
from tools.library.cases import as_kernel
from tools.physics.models import builder, gradients, swung_sheet
from tools.programs.corpus import order
from tools.programs.corpus_loops import PROGRAMS

import sim
from sim.core.backends.llvm.backend import LlvmBackend
from sim.core.lang.ir.inline import inline
from sim.core.lang.ir.table import OPS
from sim.core.lang.types import numpy_dtype
from sim.core.runtime.devices.cuda_device import CudaDevice, cuda_devices

pytestmark = pytest.mark.gpu


@pytest.fixture
def gpu() -> CudaDevice:
    return cuda_devices()[0]


def test_rows_of_the_table(gpu):
    batch = Batch([w.func for w in rows().writers.values()])
    for name, kind in CASES:
        columns = samples(name, kind)
        out = np.zeros(len(columns[0]), bool if OPS[name].result == "bool" else kind.np)
        batch.launch(f"{name}_{kind}", [len(out)], [out, *columns], gpu)
        with np.errstate(all="ignore"):
            meaning = np.asarray(OPS[name].numpy(*columns)).astype(out.dtype)
        if name in INEXACT:
            np.testing.assert_array_max_ulp(out, meaning, 16)
        else:
            zeros = 0.0 if name in ("min", "max") and kind.is_float else out.dtype.type(0)
            assert same_bits(out + zeros, meaning + zeros) if out.dtype != bool else np.array_equal(out, meaning), (
                f"{name} {kind}"
            )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_library(gpu, dtype):
    found = {k: v for chunk in range(CHUNKS) for k, v in library_functions(dtype, chunk).items()}
    batch = Batch([f for f, _, _ in found.values()])
    tolerance = 2e-3 if dtype is np.float32 else 1e-9
    for label, (func, cases, function) in found.items():
        columns = [np.array([c[k] for c in cases], numpy_dtype(p.type)) for k, p in enumerate(function.params)]
        got, wanted = ([np.zeros(len(cases), numpy_dtype(v.type)) for v in function.body.yields] for _ in range(2))
        batch.launch(func.name, [len(cases)], [*columns, *got], gpu)
        launch(LlvmBackend(level=0), func, [len(cases)], [*columns, *wanted])
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=label)


def test_corpus(gpu):
    funcs = {p.name: renamed(as_kernel(inline(order(p, 1))), p.name) for p in PROGRAMS}
    batch = Batch(list(funcs.values()))
    for p in PROGRAMS:
        cases = [(*s, 0.7) for s in p.samples]
        columns = [
            np.array(c, numpy_dtype(q.type)) for c, q in zip(zip(*cases, strict=True), order(p, 1).params, strict=True)
        ]
        got, wanted = ([np.zeros(len(cases), numpy_dtype(v.type)) for v in order(p, 1).body.yields] for _ in range(2))
        batch.launch(p.name, [len(cases)], [*columns, *got], gpu)
        launch(LlvmBackend(), funcs[p.name], [len(cases)], [*columns, *wanted])
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-10, err_msg=p.name)


def test_random_programs(gpu):
    """The bits of the interpreter, but for sums of several threads, whose order is not fixed."""
    batch = Batch([renamed(Program(seed).kernel(), f"program_{seed}") for seed in range(25)])
    for seed in range(25):
        func = batch.writers[f"program_{seed}"].func
        dims = [THREADS] if func.dims == 1 else [1, THREADS]
        expected, got = arguments(seed), arguments(seed)
        first, _ = launch(BACKENDS[0], func, dims, expected)
        second = batch.launch(func.name, dims, got, gpu)
        assert first[0] == second[0], "a failure of the one is a failure of the other"
        for k, (a, b) in enumerate(zip(expected[:5], got[:5], strict=True)):
            if k == 3:
                np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)
            else:
                assert same_bits(np.ascontiguousarray(a), np.ascontiguousarray(b)), f"seed {seed}, argument {k}\n{func}"


@pytest.mark.parametrize(("order", "iterations"), [("colored", 2), ("jacobi", 1)])
def test_rollouts_and_their_gradients(gpu, order, iterations):
    wanted = gradients(swung_sheet(order, iterations), sim.StoreAll(), steps=12)
    with sim.ScopedDevice(gpu):
        solver = swung_sheet(order, iterations)
        for strategy in (sim.StoreAll(), sim.Checkpointed(every=4), sim.Checkpointed(every=4)):
            found = gradients(solver, strategy, steps=12)
            for name, value in wanted.items():
                np.testing.assert_allclose(
                    found[name], value, rtol=1e-8, atol=1e-10 * np.abs(value).max(initial=1.0), err_msg=name
                )


def test_worlds(gpu):
    """Solids, loads, springs, contacts, in float32: one step within 1e-5 of the CPU."""
    ends = []
    for device in ("cpu", gpu):
        model = builder().replicate(4).finalize(device=device)
        solver, a, b = sim.SolverXPBD(model), model.state(), model.state()
        solver.step(a, b, None, None, 1 / 240)
        ends.append(b.particle_q.numpy())
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-5, atol=1e-5)


@sim.kernel
def total(x: sim.array[float], out: sim.array[float], k: sim.array[int]):
    i = sim.tid()
    out[0] += x[i]
    sim.atomic_add(out, k[i], x[i])


@sim.kernel
def squares(x: sim.array[float], out: sim.array[float]):
    i = sim.tid()
    out[0] += x[i] * x[i]


def test_deterministic_sums_have_the_same_bits_on_every_run():
    driver = cuda_devices()[0]
    ordered = CudaDevice("cuda:0", driver.driver, driver.backend.compiler, deterministic=True)
    rng = np.random.default_rng(0)
    x, k = (
        sim.array(rng.normal(size=20000), dtype=float, device=ordered),
        sim.array(rng.integers(1, 8, 20000), dtype=int, device=ordered),
    )
    results = []
    for _ in range(3):
        out = sim.zeros(8, device=ordered)
        sim.launch(total, 20000, [x, out, k])
        results.append(out.numpy().tobytes())
    assert len(set(results)) == 1


def test_torch_shares_memory_and_order(gpu):
    torch = pytest.importorskip("torch")
    tensor = torch.arange(12, dtype=torch.float32, device="cuda").reshape(4, 3)
    shared = sim.from_dlpack(tensor, dtype=sim.vec3)
    assert shared.ptr == tensor.data_ptr() and shared.shape == (4,)
    tensor.mul_(2.0)
    assert shared.numpy()[3, 2] == 22.0
    shared.fill_(5.0)
    back = torch.from_dlpack(shared)
    assert back.data_ptr() == tensor.data_ptr() and float(back.sum()) == 60.0
    assert torch.as_tensor(shared, device="cuda").data_ptr() == tensor.data_ptr()
    leaf = torch.full((3,), 2.0, device="cuda", requires_grad=True)
    x, loss = sim.from_torch(leaf), sim.zeros(1, requires_grad=True, device=gpu)
    with sim.Tape() as tape:
        sim.launch(squares, 3, [x, loss])
    tape.backward(loss)
    assert x.ptr == leaf.data_ptr() and leaf.grad.tolist() == [4.0] * 3
    assert sim.to_torch(loss, requires_grad=False).item() == 12.0
