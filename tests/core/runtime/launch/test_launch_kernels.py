"""Launches on real arrays: every type of argument, dimensions, strides, printing, faults, threads, processes."""

import ast
import io
import os
import subprocess
import sys
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pytest
from tools.tapes.gradients import backend

import sim

f64 = sim.float64
SCALARS = [
    sim.int8,
    sim.int16,
    sim.int32,
    sim.int64,
    sim.uint8,
    sim.uint16,
    sim.uint32,
    sim.uint64,
    sim.float32,
    sim.float64,
]


@pytest.fixture(params=["interp", "llvm"])
def on_backend(request):
    with backend(request.param, sys.modules[__name__]):
        yield request.param


# ---- arguments of every type
@pytest.mark.parametrize("kind", SCALARS, ids=lambda k: k.name)
def test_every_scalar_type_as_argument_and_element(on_backend, kind):
    @sim.kernel
    def shift(x: sim.array[kind], by: kind, flag: sim.bool, y: sim.array[kind]):
        i = sim.tid()
        y[i] = x[i] + by if flag else x[i]

    values = np.array([1, 2, 100], dtype=kind.np)
    x, y = sim.array(values, dtype=kind), sim.zeros(3, dtype=kind)
    for by in (7, kind.np.type(7)):
        sim.launch(shift, 3, inputs=[x, by, True], outputs=[y])
        np.testing.assert_array_equal(y.numpy(), values + kind.np.type(7))
    if kind.is_int:
        limits = np.iinfo(kind.np)
        x.fill_(limits.max)
        sim.launch(shift, 3, inputs=[x, 1, np.bool_(True)], outputs=[y])
        assert y.list() == [limits.min] * 3  # integers wrap
    sim.launch(shift, 3, inputs=[x, 5, False], outputs=[y])
    np.testing.assert_array_equal(y.numpy(), x.numpy())


@sim.kernel
def composites(v: sim.vec3, m: sim.mat22d, q: sim.quat, t: sim.transform, y: sim.array[float], z: sim.array[f64]):
    y[0] = v.x + 10.0 * v.z
    y[1] = q.w + t.p.y
    y[2] = sim.quat_rotate(q, v).y
    z[0] = m[0, 1] + 10.0 * m[1, 0]


def test_composites_as_arguments(on_backend):
    y, z = sim.zeros(3), sim.zeros(1, dtype=f64)
    for v, m in (
        (sim.vec3(1, 2, 3), sim.mat22d(1, 2, 3, 4)),
        ((1.0, 2.0, 3.0), [[1, 2], [3, 4]]),
        (np.array([1, 2, 3.0]), np.arange(1.0, 5.0).reshape(2, 2)),
    ):
        y.zero_()
        sim.launch(
            composites, 1, inputs=[v, m, sim.quat(0, 0, 0, 1), sim.transform((0, 5, 0), (0, 0, 0, 1))], outputs=[y, z]
        )
        assert y.list() == [31.0, 6.0, 2.0] and z.list() == [32.0]


@sim.struct
class Particle:
    x: sim.vec3d
    mass: f64
    id: int


@sim.struct
class Cloud:
    scale: f64
    points: sim.array[Particle]
    out: sim.array[f64]
    unused: sim.array[f64]


@sim.kernel
def energies(c: Cloud):
    i = sim.tid()
    p = c.points[i]
    c.out[i] = c.scale * p.mass * sim.dot(p.x, p.x) * f64(p.id)
    c.points[i].x.y += 1.0
    c.points[i].id = -p.id


def test_structs_with_arrays_and_arrays_of_structs(on_backend):
    cloud = Cloud()
    cloud.scale = 2.0
    cloud.points = sim.zeros(3, dtype=Particle, requires_grad=True)
    cloud.out = sim.zeros(3, dtype=f64, requires_grad=True)
    data = np.zeros(3, Particle.np)
    data["x"], data["mass"], data["id"] = np.arange(9.0).reshape(3, 3), [1.0, 2.0, 3.0], [1, 2, 3]
    cloud.points.assign(data)
    with sim.Tape() as tape:
        sim.launch(energies, 3, inputs=[cloud])
    want = 2.0 * data["mass"] * (data["x"] ** 2).sum(axis=1) * data["id"]
    np.testing.assert_allclose(cloud.out.numpy(), want)
    assert cloud.points.numpy()["id"].tolist() == [-1, -2, -3] and cloud.points.numpy()["x"][:, 1].tolist() == [
        2.0,
        5.0,
        8.0,
    ]
    tape.backward(grads={cloud.out: sim.ones(3, dtype=f64)})
    grad = cloud.points.grad.numpy()
    np.testing.assert_allclose(grad["x"], 4.0 * (data["mass"] * data["id"])[:, None] * data["x"])
    np.testing.assert_allclose(grad["mass"], 2.0 * (data["x"] ** 2).sum(axis=1) * data["id"])
    assert not grad["id"].any()


@sim.struct
class Pair:
    x: sim.array[f64]
    y: sim.array[f64]


@sim.struct
class Pairs:
    one: Pair
    other: Pair


@sim.kernel
def crosswise(pairs: Pairs):
    i = sim.tid()
    pairs.one.y[i] = pairs.other.x[i]
    pairs.other.y[i] = pairs.one.x[i]


def test_structs_of_structs_of_arrays(on_backend):
    def pairs(*values: float) -> Pairs:
        made = Pairs()
        for part, value in zip((made.one, made.other), values, strict=True):
            part.x, part.y = sim.array([value], dtype=f64), sim.zeros(1, dtype=f64)
        return made

    for values in (1.0, 2.0), (3.0, 4.0):  # the second time the arguments are known
        given = pairs(*values)
        sim.launch(crosswise, 1, inputs=[given])
        assert given.one.y.numpy() == values[1] and given.other.y.numpy() == values[0]
    held = sim.array([5.0, 6.0], dtype=f64)
    given.other.x = held[sim.array([1], dtype=sim.int32)]  # another form of argument is another specialisation
    sim.launch(crosswise, 1, inputs=[given])
    assert given.one.y.numpy() == 6.0


@sim.kernel
def optional(x: sim.array[f64], offset: sim.array[f64], use: bool, y: sim.array[f64]):
    i = sim.tid()
    y[i] = x[i] * x[i]
    if use:
        y[i] += offset[i]


def test_none_for_an_array_that_is_not_touched(on_backend):
    x, y = sim.array([1.0, 2.0], dtype=f64, requires_grad=True), sim.zeros(2, dtype=f64, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(optional, 2, inputs=[x, None, False], outputs=[y])
    tape.backward(grads={y: sim.ones(2, dtype=f64)})
    assert y.list() == [1.0, 4.0] and x.grad.list() == [2.0, 4.0]


# ---- dimensions and strides
@sim.kernel
def coordinates1(y: sim.array[int]):
    i = sim.tid()
    y[i] = i + 1


@sim.kernel
def coordinates2(y: sim.array2d[int]):
    i, j = sim.tid()
    y[i, j] = 10 * i + j + 1


@sim.kernel
def coordinates3(y: sim.array3d[int]):
    i, j, k = sim.tid()
    y[i, j, k] = 100 * i + 10 * j + k + 1


@sim.kernel
def coordinates4(y: sim.array4d[int]):
    i, j, k, m = sim.tid()
    y[i, j, k, m] = 1000 * i + 100 * j + 10 * k + m + 1


def test_one_to_four_dimensions(on_backend):
    for n, kernel in enumerate((coordinates1, coordinates2, coordinates3, coordinates4), start=1):
        shape = (3, 4, 2, 5)[:n]
        y = sim.zeros(shape, dtype=int)
        sim.launch(kernel, shape, outputs=[y])
        np.testing.assert_array_equal(y.numpy(), 1 + np.tensordot(10 ** np.arange(n)[::-1], np.indices(shape), 1))


def test_a_kernel_of_one_index_in_more_dimensions_gets_the_first(on_backend):
    y = sim.zeros(12, dtype=int)
    sim.launch(coordinates1, (3, 4), outputs=[y])
    assert y.list() == [1, 2, 3, *[0] * 9]  # as Warp; see test_launch_dims.py


@sim.kernel
def combine(a: sim.array2d[f64], b: sim.array2d[f64], y: sim.array2d[f64]):
    i, j = sim.tid()
    y[i, j] = a[i, j] * b[i, j] + y[i, j]


def test_strided_views_and_their_gradients(on_backend):
    rng = np.random.default_rng(1)
    big, y = (sim.array(rng.normal(size=(6, 8)), dtype=f64, requires_grad=True) for _ in range(2))
    a, b, out = big[::2, 1:7:3], big[5:2:-1, ::-4], y[1:4].transpose()[2:4].transpose()
    start = y.numpy().copy()
    with sim.Tape() as tape:
        sim.launch(combine, (3, 2), inputs=[a, b], outputs=[out])
    host, want = big.numpy(), start.copy()
    want[1:4, 2:4] += host[::2, 1:7:3] * host[5:2:-1, ::-4]
    np.testing.assert_allclose(y.numpy(), want)
    weights = rng.normal(size=(6, 8))
    tape.backward(grads={y: sim.array(weights, dtype=f64)})
    part, grad = weights[1:4, 2:4], np.zeros((6, 8))
    grad[::2, 1:7:3] += part * host[5:2:-1, ::-4]
    grad[5:2:-1, ::-4] += part * host[::2, 1:7:3]
    np.testing.assert_allclose(big.grad.numpy(), grad)
    np.testing.assert_allclose(y.grad.numpy(), weights)


# ---- printing and faults
@sim.kernel
def talking(x: sim.array[f64]):
    i = sim.tid()
    if i == 1:
        print("thread", i, "has", x[i])


@sim.kernel
def careful(x: sim.array2d[f64], y: sim.array2d[f64]):
    i, j = sim.tid()
    assert x[i, j] >= 0.0, "negative"
    y[i, j] = sim.sqrt(x[i, j])


def test_print(on_backend):
    out = io.StringIO()
    with redirect_stdout(out):
        sim.launch(talking, 3, inputs=[sim.array([1.5, 2.5, 3.5], dtype=f64)])
    assert out.getvalue() == "thread 1 has 2.5\n"


def test_a_failed_assertion_names_place_and_thread(on_backend):
    x, y = sim.ones((3, 4), dtype=f64, requires_grad=True), sim.zeros((3, 4), dtype=f64, requires_grad=True)
    sim.launch(careful, (3, 4), inputs=[x], outputs=[y])
    x[2, 1] = -1.0
    command = sim.launch(careful, (3, 4), inputs=[x], outputs=[y], record_cmd=True)
    line = next(k for k, text in enumerate(open(__file__), 1) if "assert x[i, j] >= 0.0" in text)
    pattern = (
        rf"test_launch_kernels.py:{line}:\d+: assertion failed: negative, in thread \(2, 1\) of kernel \'careful\'\n"
        r' +assert x\[i, j\] >= 0.0, "negative"'
    )
    for launch in (lambda: sim.launch(careful, (3, 4), inputs=[x], outputs=[y]), command.launch):
        with pytest.raises(sim.KernelFault, match=pattern):
            launch()
    x[2, 1] = 4.0
    with sim.Tape() as tape:
        command.launch()
    tape.backward(grads={y: sim.ones((3, 4), dtype=f64)})
    assert y.numpy()[2, 1] == 2.0 and x.grad.numpy()[2, 1] == 0.25


@sim.kernel
def beyond(x: sim.array[f64], n: int):
    i = sim.tid()
    x[i + n] = 1.0


@sim.kernel
def gathered(x: sim.array[f64], index: sim.array[int], y: sim.array[f64]):
    i = sim.tid()
    y[i] = 2.0 * x[index[i]]


@pytest.fixture
def checked():
    sim.set_check_bounds(True)
    yield
    sim.set_check_bounds(False)


def test_bounds_are_checked_in_adjoints(on_backend, checked):
    x, y, index = (
        sim.zeros(4, dtype=f64, requires_grad=True),
        sim.zeros(3, dtype=f64, requires_grad=True),
        sim.array([0, 3, 2]),
    )
    z = sim.zeros(3, dtype=f64, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(gathered, 3, inputs=[x, index], outputs=[y])
        with pytest.raises(sim.KernelFault, match=r"index 3 is outside of 'y' \(length 3\)"):
            sim.launch(gathered, 4, inputs=[x, sim.array([0, 3, 2, 1])], outputs=[z])
    with pytest.raises(
        sim.KernelFault, match=r"index 40 is outside of '.*x' \(length 4\), in thread 1 of kernel '.*gathered"
    ):
        sim.launch(gathered, 3, inputs=[x, sim.array([0, 40, 2])], outputs=[y], adjoint=True)
    tape.backward(grads={y: np.ones(3)})
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 0.0, 2.0, 2.0])


def test_bounds_are_checked_on_demand(on_backend, checked):
    x = sim.zeros(4, dtype=f64)
    with pytest.raises(
        sim.KernelFault, match=r"index 4 is outside of 'x' \(length 4\), in thread 3 of kernel 'beyond'"
    ):
        sim.launch(beyond, 4, inputs=[x, 1])
    assert x.list() == [0.0, 1.0, 1.0, 1.0]


def test_one_broken_kernel_breaks_no_other(on_backend):
    @sim.kernel
    def broken(x: sim.array[f64]):
        x[sim.tid()] = undefined_name(x[0])  # noqa: F821

    @sim.kernel
    def no_derivative(x: sim.array[f64], y: sim.array[f64]):
        sim.atomic_exch(y, 0, x[0])

    x, y = sim.ones(2, dtype=f64, requires_grad=True), sim.zeros(2, dtype=f64, requires_grad=True)
    for _ in range(2):
        with pytest.raises(sim.KernelError, match=r"test_launch_kernels.py:\d+:\d+: .*undefined_name"):
            sim.launch(broken, 2, inputs=[x])
        with pytest.raises(sim.GradientError), sim.Tape():
            sim.launch(no_derivative, 1, inputs=[x], outputs=[y])
        sim.launch(optional, 2, inputs=[x, None, False], outputs=[y])
        assert y.list() == [1.0, 1.0]
    sim.launch(no_derivative, 1, inputs=[x], outputs=[y])  # without a tape it is a fine kernel


# ---- threads and processes
@sim.kernel
def heavy(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = sim.sin(x[i]) * x[i] + sim.exp(-x[i] * x[i])


@sim.kernel
def summed(y: sim.array[f64], out: sim.array[f64]):
    sim.atomic_add(out, 0, y[sim.tid()] * y[sim.tid()])


def test_the_number_of_threads_changes_no_bit():
    n = 100_003
    x = sim.array(np.random.default_rng(3).normal(size=n), dtype=f64, requires_grad=True)
    results = []
    before = sim.get_num_threads()
    try:
        for threads in (1, 2, 3):
            sim.set_num_threads(threads)
            y, out = sim.zeros(n, dtype=f64, requires_grad=True), sim.zeros(1, dtype=f64, requires_grad=True)
            with sim.Tape() as tape:
                sim.launch(heavy, n, inputs=[x], outputs=[y])
                sim.launch(summed, n, inputs=[y], outputs=[out])
            tape.backward(out)
            results.append((y.numpy().tobytes(), out.numpy().tobytes(), x.grad.numpy().tobytes()))
            tape.zero()
        with pytest.raises(ValueError, match="the number of threads is 0"):
            sim.set_num_threads(0)
    finally:
        sim.set_num_threads(before)
    assert results[0] == results[1] == results[2]


PROGRAM = """
import numpy as np, sim

@sim.kernel
def k(x: sim.array[sim.float64], y: sim.array[sim.float64]):
    i = sim.tid()
    s = x[i]
    for j in range(5):
        s = sim.sin(s) * x[i] + 0.1
    y[i] = s

x = sim.array(np.linspace(0.1, 1.0, 7), dtype=sim.float64, requires_grad=True)
y = sim.zeros(7, dtype=sim.float64, requires_grad=True)
with sim.Tape() as tape:
    sim.launch(k, 7, inputs=[x], outputs=[y])
tape.backward(grads={y: sim.ones(7, dtype=sim.float64)})
print(x.grad.numpy().tobytes().hex())
"""


def test_processes_share_a_cold_cache(tmp_path):
    program, cache = tmp_path / "program.py", tmp_path / "cache"
    program.write_text(PROGRAM)
    root = os.path.dirname(os.path.dirname(sim.__file__))
    environment = {**os.environ, "SIM_CACHE_DIR": str(cache), "PYTHONPATH": root}
    started = [
        subprocess.Popen(
            [sys.executable, program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    outputs = [p.communicate(timeout=120) for p in started]
    assert all(p.returncode == 0 for p in started), outputs
    assert len({out for out, _ in outputs}) == 1 and len(outputs[0][0]) == 7 * 16 + 1
    files = {p.name: p.stat().st_mtime_ns for p in cache.rglob("*") if p.is_file()}
    assert files and not any(name.endswith((".tmp", ".part")) for name in files)
    warm = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert (
        warm.stdout == outputs[0][0]
        and {p.name: p.stat().st_mtime_ns for p in cache.rglob("*") if p.is_file()}.keys() == files.keys()
    )


@sim.kernel
def uses_it(x: sim.array[float], use: bool, y: sim.array[float]):
    i = sim.tid()
    if use:
        y[i] = x[i]
    y[i] += 1.0


def test_an_array_that_is_none_and_that_every_thread_uses_is_refused():
    y = sim.zeros(3)
    sim.launch(uses_it, 3, inputs=[None, False, y])
    sim.launch(uses_it, 0, inputs=[y, True, None])
    for _ in range(2):
        with pytest.raises(sim.LaunchError, match=r"argument 'y' of kernel 'uses_it' is None, and every thread uses"):
            sim.launch(uses_it, 3, inputs=[y, True, None])
    assert y.list() == [1, 1, 1]


def test_an_array_of_a_recorded_launch_may_be_given_later():
    y = sim.zeros(3)
    command = sim.launch(uses_it, 3, inputs=[None, False, None], record_cmd=True)
    with pytest.raises(sim.LaunchError, match=r"argument 'y' of kernel 'uses_it' is None, and every thread uses"):
        command.launch()
    command.set_param_by_name("y", y)
    command.launch()
    assert y.list() == [1, 1, 1]
    with pytest.raises(sim.LaunchError, match=r"argument 'y' of kernel 'uses_it' is None"):
        sim.launch(uses_it, 3, inputs=[None, False, None])


class Doubled(ast.NodeTransformer):
    """Doubles the numbers of a function."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(2.0 * node.value) if isinstance(node.value, float) else node


def test_transformers_change_the_syntax_before_it_is_traced():
    def scale(x: sim.array[Any]):
        x[sim.tid()] *= 3.0

    plain, twice = sim.Kernel(scale), sim.Kernel(scale, code_transformers=[Doubled(), Doubled()])
    for kernel, factor in ((plain, 3.0), (twice, 12.0), (sim.overload(twice, [sim.array[float]]), 12.0)):
        x = sim.ones(2, requires_grad=True)
        with sim.Tape() as tape:
            sim.launch(kernel, 2, [x])
        assert x.list() == [factor] * 2
        tape.backward(grads={x: [1.0, 1.0]})
        assert x.grad.list() == [factor] * 2
