"""Random programs on the tape: gradients, final values, repeated sweeps, what is kept.  SIM_FUZZ=n: n times as many."""

from __future__ import annotations

import os

import numpy as np
import pytest
from tools.fuzz import tapes as fuzz_tapes
from tools.fuzz.adjoints import smooth_slope
from tools.fuzz.tapes import TapeProgram
from tools.tapes import gradients as tape_tools
from tools.tapes.gradients import BACKENDS, forget

import sim
from sim.core.backends.interp import InterpBackend
from sim.core.runtime.memory.buffer import ByteRange

TIMES = int(os.environ.get("SIM_FUZZ", "1"))
CHUNK = 20


@pytest.fixture(params=["interp", "backwards", "llvm", "cuda"])
def backend(request):
    """The interpreter with its threads in either order (a race would show), LLVM, and CUDA text on a stand-in for a
    GPU."""
    if request.param == "cuda":
        with tape_tools.backend("cuda"):
            yield request.param
        return
    device = sim.get_device("cpu")
    before = device.backend
    device.backend = (
        InterpBackend(lambda n: range(n - 1, -1, -1)) if request.param == "backwards" else BACKENDS[request.param]()
    )
    forget(fuzz_tapes)
    yield request.param
    device.backend = before
    forget(fuzz_tapes)


def content(live_in) -> np.ndarray:
    """What a kept copy holds."""
    return live_in.data.device.numpy(ByteRange(live_in.data)).copy()


def backward(tape: sim.Tape, program: TapeProgram, arrays: list[sim.array]) -> list[np.ndarray | None]:
    grads = {
        a: sim.array(w, dtype=sim.float64) for a, w in zip(arrays, program.weights, strict=True) if a.requires_grad
    }
    tape.backward(grads=grads)
    for w, target in zip(program.weights, arrays, strict=True):
        assert target not in grads or np.array_equal(grads[target].numpy(), w), "backward changed the weights"
    return [None if a.grad is None else a.grad.numpy().copy() for a in arrays]


def check_gradient(program: TapeProgram, found: list[np.ndarray | None], needed: list[bool]) -> int:
    """Against differences along random directions; how many could be compared."""
    rng, compared = np.random.default_rng(program.seed + 1), 0
    for _ in range(2):
        along = [rng.normal(size=len(s)) * g for s, g in zip(program.start, needed, strict=True)]
        wanted = smooth_slope(lambda h, along=along: program.value(along, h, needed))
        if wanted is not None:
            slope = sum(float((a * g).sum()) for a, g in zip(along, found, strict=True) if g is not None)
            assert abs(slope - wanted) <= 2e-6 * (1.0 + abs(wanted)), f"{slope}, differences {wanted}"
            compared += 1
    return compared


def spoil(program: TapeProgram, arrays: list[sim.array], k: sim.array) -> None:
    """Overwrite things after recording, in several ways: the tape still knows what it needs."""
    rng = np.random.default_rng(program.seed + 2)
    for a in arrays:
        how = rng.integers(4)
        if how == 0:
            a[2:5].fill_(3.0)
        elif how == 1:
            sim.launch(fuzz_tapes.in_place, 8, outputs=[a])
        elif how == 2:
            a.assign(rng.normal(size=8))
    k.zero_()


@pytest.mark.parametrize("chunk", range(3 * TIMES))
def test_random_programs(backend: str, chunk: int) -> None:
    compared = 0
    for seed in range(chunk * CHUNK, chunk * CHUNK + CHUNK):
        program = TapeProgram(seed)
        print(program.text())
        needed = [True] * program.count
        plain, k = program.arrays([False] * program.count)
        program.run(plain, k)

        arrays, k = program.arrays(needed)
        with sim.Tape() as tape:
            program.run(arrays, k)
        if not tape.records:
            continue
        saved = bool(tape._live_ins.snapshots)
        for a, b in zip(arrays, plain, strict=True):
            assert np.array_equal(a.numpy(), b.numpy()), "recording changed a value"
        if seed % 2:
            spoil(program, arrays, k)
        kept = [content(c) for c in tape._live_ins.snapshots]
        ends = [a.numpy().copy() for a in arrays]
        once = backward(tape, program, arrays)
        for a, end in zip(arrays, ends, strict=True):
            assert np.array_equal(a.numpy(), end), "backward changed a value"
        compared += check_gradient(program, once, needed)
        for a, b in zip(backward(tape, program, arrays), once, strict=True):
            assert np.array_equal(a, 2.0 * b), "a second backward did not add the same"
        for c, before in zip(tape._live_ins.snapshots, kept, strict=True):
            assert np.array_equal(content(c), before), "a kept copy is not whole after backward"
        tape.zero()
        assert not any(a.grad.numpy().any() for a in arrays)

        arrays, k = program.arrays(needed)
        try:
            with sim.Tape(on_overwrite="error"):
                program.run(arrays, k)
            refused = False
        except sim.GradientError as problem:
            assert "overwrites an array of shape" in str(problem) and "needs for its gradient" in str(problem)
            refused = True
        assert refused == saved, "on_overwrite='error' does not fire exactly where something is kept"
    assert compared > CHUNK


@pytest.mark.parametrize("chunk", range(2 * TIMES))
def test_with_arrays_that_have_no_gradient_it_is_right_or_an_error(chunk: int) -> None:
    right = refused = 0
    for seed in range(5000 + chunk * CHUNK, 5000 + chunk * CHUNK + CHUNK):
        program = TapeProgram(seed)
        print(program.text())
        needed = [bool(b) for b in np.random.default_rng(seed).random(program.count) < 0.6]
        if not any(needed):
            continue
        arrays, k = program.arrays(needed)
        try:
            with sim.Tape() as tape:
                program.run(arrays, k)
        except sim.GradientError as problem:
            assert "the gradient would be lost" in str(problem)
            refused += 1
            continue
        on_tape = tape.buffers()
        if any(
            a.requires_grad and a.buffer in on_tape for a in arrays
        ):  # else backward has nothing to start from, and says so
            right += bool(check_gradient(program, backward(tape, program, arrays), needed))
    assert right and refused
