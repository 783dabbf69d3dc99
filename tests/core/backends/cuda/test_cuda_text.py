"""CUDA text, executed on the CPU: it agrees with LLVM and the interpreter, for primitives, library, corpus and random
programs."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from tools.backends.kernels import BACKENDS, launch, same_bits
from tools.backends.operands import CASES, INEXACT, edges, samples
from tools.cuda.on_cpu import Batch, HostCompiler, needs_gxx, renamed
from tools.cuda.project_kernels import CHUNKS, cast_kernel, library_functions, rows
from tools.fuzz.backends import THREADS, Program, arguments
from tools.library.cases import as_kernel
from tools.programs.corpus import order
from tools.programs.corpus_loops import PROGRAMS

import sim
from sim.core.backends.cuda.text import CudaText
from sim.core.backends.llvm.backend import LlvmBackend
from sim.core.lang.ir.inline import inline
from sim.core.lang.ir.table import OPS
from sim.core.lang.types import SCALARS, Scalar, numpy_dtype

pytestmark = needs_gxx


# ------------------------------------------------------------------------------------------ primitives


def test_rows_of_the_table() -> None:
    for name, kind in CASES:
        columns = samples(name, kind)
        out = np.zeros(len(columns[0]), bool if OPS[name].result == "bool" else kind.np)
        rows().launch(f"{name}_{kind}", [len(out)], [out, *columns])
        with np.errstate(all="ignore"):
            meaning = np.asarray(OPS[name].numpy(*columns)).astype(out.dtype)
        if name in INEXACT:
            np.testing.assert_array_max_ulp(out, meaning, 4)
        else:
            zeros = (
                0.0 if name in ("min", "max") and kind.is_float else out.dtype.type(0)
            )  # of two zeros either may come out
            assert same_bits(out + zeros, meaning + zeros) if out.dtype != bool else np.array_equal(out, meaning), (
                f"{name} {kind}"
            )


@pytest.mark.parametrize("source", SCALARS, ids=str)
def test_casts(source: Scalar) -> None:
    x = edges(source)
    if source.is_float:
        x = np.concatenate(
            [
                x,
                np.array(
                    [127.5, 128, 255.9, 256, -129, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 2.0**64],
                    source.np,
                ),
            ]
        )
    got, wanted = ([np.zeros(len(x), s.np) for s in SCALARS] for _ in range(2))
    rows().launch(f"cast_{source}", [len(x)], [x, *got])
    launch(BACKENDS[0], cast_kernel(source), [len(x)], [x, *wanted])
    for kind, a, b in zip(SCALARS, got, wanted, strict=True):
        assert same_bits(a, b), f"{source} to {kind}: {x} gave {a}, not {b}"


# ------------------------------------------------------------------------------------------ warps
@sim.kernel
def gather_by_group(
    group: sim.array[int], value: sim.array[float], factor: float, x: sim.array[float], out: sim.array[float]
):
    i = sim.tid()
    if x[i] > 0.0:
        out[i] += value[group[i]] * x[i] * factor
        sim.atomic_add(value, 0, x[i])


GROUPS = {
    "one": lambda n, rng: np.zeros(n), "runs": lambda n, rng: np.arange(n) // 13,
    "interleaved": lambda n, rng: np.arange(n) % 5,
    "random": lambda n, rng: rng.integers(0, 9, n), "each its own": lambda n, rng: np.arange(n),
}  # fmt: skip


@pytest.mark.parametrize("groups", GROUPS)
def test_threads_that_share_a_parameter_add_up_first(groups: str) -> None:
    """Gradients of values that many elements share, and sums of all threads: the right sum, by one atomic per warp and
    group."""
    kernel = gather_by_group
    spec = kernel.specialise(tuple(p.type for p in kernel.parameters))
    made = spec.differentiated(frozenset([1, 3, 4]), ()).adjoint(frozenset())
    assert made.forward is None
    text = CudaText(made.adjoint.func).kernel()
    assert text.count("sim_add_grouped<float>") == 1 and "sim_add_shared<float>" in CudaText(spec.func).kernel()
    compiler, rng, n = HostCompiler(warps=True), np.random.default_rng(4), 300
    sums = []
    for func in (spec.func, made.adjoint.func):
        batch = Batch([func])
        counted = batch.text.replace("SIM_INLINE float sim_atomic_add(char *place, float value) {", COUNTING)
        assert counted != batch.text
        batch._library = compiler.image(counted)
        group = GROUPS[groups](n, rng).astype(np.int32)
        value, x, out = (
            np.zeros(n, np.float32),
            rng.integers(-3, 9, n).astype(np.float32),
            rng.integers(0, 9, n).astype(np.float32),
        )
        x[40:100] = np.abs(x[40:100]) + 1  # whole warps take part, others in part
        g_value, g_x, g_out = np.zeros(n, np.float32), np.zeros(n, np.float32), rng.integers(0, 9, n).astype(np.float32)
        seed = g_out.copy()
        arrays = {
            "group": group,
            "value": value,
            "x": x,
            "out": out,
            "adj_value": g_value,
            "adj_x": g_x,
            "adj_out": g_out,
            "factor": 2.0,
        }
        batch.launch(func.name, [n], [arrays[p.name] for p in func.params])
        atomics = ctypes.c_int.in_dll(ctypes.CDLL(batch._library.decode()), "atomics").value
        active = x > 0
        if func is spec.func:
            full = [w + 32 <= n and bool(active[w : w + 32].all()) for w in range(0, n, 32)]
            assert value[0] == x[active].sum() and sum(full) > 0
            assert atomics == sum(1 if f else active[32 * k : 32 * k + 32].sum() for k, f in enumerate(full))
        else:
            wanted = np.zeros(n, np.float32)
            np.add.at(wanted, group[active], (seed * x * 2.0)[active])
            np.testing.assert_array_equal(g_value, wanted)
            assert atomics == sum(len(set(group[w : w + 32][active[w : w + 32]])) for w in range(0, n, 32))
        sums.append(atomics)
    assert groups != "one" or sums[1] == -(-n // 32)


COUNTING = """extern "C" { int atomics = 0; }
SIM_INLINE float sim_atomic_add(char *place, float value) { ++atomics;"""


# ------------------------------------------------------------------------------------------ library and corpus


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_library(dtype: type, chunk: int) -> None:
    found = library_functions(dtype, chunk)
    batch = Batch([f for f, _, _ in found.values()])
    for label, (func, cases, function) in found.items():
        columns = [np.array([c[k] for c in cases], numpy_dtype(p.type)) for k, p in enumerate(function.params)]
        got, wanted = ([np.zeros(len(cases), numpy_dtype(v.type)) for v in function.body.yields] for _ in range(2))
        batch.launch(func.name, [len(cases)], [*columns, *got])
        launch(LlvmBackend(level=0), func, [len(cases)], [*columns, *wanted])
        tolerance = 2e-5 if dtype is np.float32 else 1e-10
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=label)


def test_corpus() -> None:
    funcs = {}
    for p in PROGRAMS:
        for number in (0, 1) if p.open_loop else (0, 1, 2):
            funcs[f"{p.name}_{number}"] = renamed(as_kernel(inline(order(p, number))), f"{p.name}_{number}"), p, number
    batch = Batch([f for f, _, _ in funcs.values()])
    for name, (func, p, number) in funcs.items():
        cases = [(*s, 0.7, -0.4, 1.3)[: (3, 4, 6)[number]] for s in p.samples]
        columns = [
            np.array(c, numpy_dtype(q.type))
            for c, q in zip(zip(*cases, strict=True), order(p, number).params, strict=True)
        ]
        got, wanted = (
            [np.zeros(len(cases), numpy_dtype(v.type)) for v in order(p, number).body.yields] for _ in range(2)
        )
        batch.launch(name, [len(cases)], [*columns, *got])
        launch(LlvmBackend(level=0), func, [len(cases)], [*columns, *wanted])
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-11, err_msg=name)


@pytest.mark.parametrize(("check", "careful"), [(False, False), (True, False), (False, True)])
def test_random_programs(check: bool, careful: bool) -> None:
    """The same bits as the interpreter: operations, loops, tapes, accumulations, atomics, assertions."""
    seeds = range(25)
    batch = Batch([renamed(Program(seed).kernel(), f"program_{seed}") for seed in seeds], check, careful)
    for seed in seeds:
        func = batch.writers[f"program_{seed}"].func
        dims = [THREADS] if func.dims == 1 else [1, THREADS]
        expected, got = arguments(seed), arguments(seed)
        first, _ = launch(BACKENDS[0], func, dims, expected, check)
        second = batch.launch(func.name, dims, got)
        assert first.tolist() == second.tolist()
        for k, (a, b) in enumerate(zip(expected[:5], got[:5], strict=True)):
            assert same_bits(np.ascontiguousarray(a), np.ascontiguousarray(b)), f"seed {seed}, argument {k}\n{func}"
