"""Eight threads at a time: the same bits as one at a time, no byte touched beyond the end, and only kernels that
suit."""

import ctypes
import mmap

import numpy as np
import pytest

import sim
from sim.constraints.base import REGISTRY
from sim.constraints.particles import particle_layout
from sim.constraints.projection import make_projection, parameter_struct, weight_type
from sim.core.backends.base import LANES, argument_block
from sim.core.backends.llvm.backend import LlvmBackend
from sim.core.backends.llvm.lanes import dummy_bytes
from sim.core.backends.llvm.text import Emitter
from sim.core.lang.analysis.thread_locality import late_updates, suits_lanes
from sim.core.lang.ir.core import Func
from sim.core.lang.types import ArrayType, float32, float64
from sim.core.runtime.launch.arguments import argument_type
from sim.core.runtime.launch.binding import bind

SEED = 11


@sim.kernel
def gather(points: sim.array2d[int], x: sim.array[sim.vec3], w: sim.array[float], out: sim.array[sim.vec3]):
    i = sim.tid()
    a, b = points[i, 0], points[i, 1]
    d = x[a] - x[b]
    out[i] = d * (w[a] - w[b]) / (sim.length(d) + 0.5)


@sim.kernel
def choose(points: sim.array2d[int], x: sim.array[sim.vec3], w: sim.array[float], out: sim.array[sim.vec3]):
    """Loads that only some lanes may make: the index of the others lies far outside."""
    i = sim.tid()
    k = points[i, 0]
    value = sim.vec3(1.0, 2.0, 3.0)
    if w[i % 7] > 0.0:
        value = x[k] + x[points[i, 1]] * w[k]
        if value[0] > 0.5:
            value = value * sim.sin(value[1])
            out[i] = value
    else:
        k = k + 1000000000
    if k > 999999999:
        out[i] = value - sim.vec3(float(k % 5), float(i), 0.0)


@sim.kernel
def accumulate(points: sim.array2d[int], x: sim.array[sim.vec3], w: sim.array[float], out: sim.array[sim.vec3]):
    """Sums at shared elements: their order must be that of the threads."""
    i = sim.tid()
    a, b = points[i, 0], points[i, 1]
    d, w_a, w_b = x[a], w[a], w[b]
    if w_b > -0.5:
        sim.atomic_add(out, a % 3, d)
        sim.atomic_add(out, 0, d * w_a)
    sim.atomic_add(out, b % 5, d + d)


@sim.kernel
def total(points: sim.array2d[int], x: sim.array[sim.vec3], w: sim.array[float], out: sim.array[sim.vec3]):
    """One sum for all, which stays in registers; -0.0 must not become 0.0 by adding nothing."""
    i = sim.tid()
    x_a, x_b, w_a = x[points[i, 0]], x[points[i, 1]], w[points[i, 0]]
    if w_a > 0.0:
        out[2] += x_a * -0.0
    if w_a > 0.5:
        out[2] += x_b


@sim.kernel
def seldom(points: sim.array2d[int], x: sim.array[sim.vec3], w: sim.array[float], out: sim.array[sim.vec3]):
    """A long side that is jumped over where none of the eight takes it: what it leaves alone is used after."""
    i = sim.tid()
    a, b = points[i, 0], points[i, 1]
    value = x[b] * w[b]
    moved, kept = value, x[a]
    if a < 5:
        for _ in sim.static(range(8)):
            moved = sim.cross(moved, x[a]) + x[b] * w[a]
        kept = value
        out[i] = moved
    out[i] += sim.cross(kept, value) + moved + x[b]


@sim.kernel
def one_of_all(points: sim.array2d[int], x: sim.array[sim.vec3], w: sim.array[float], out: sim.array[sim.vec3]):
    """Short sides that store at a place that is the same for all threads: one of them is meant."""
    i = sim.tid()
    value = x[points[i, 0]] * w[points[i, 1]]
    out[i + 3] = value
    if i == 6:
        out[2] = value
    if i == 20:
        out[1] = out[i + 3] + value


KERNELS = {k.name: k for k in (gather, choose, accumulate, total, seldom, one_of_all)}


def compile_for(kernel, real, arrays, packed=True, tight=()):
    types = tuple(
        argument_type(kernel, k, sim.array(a, dtype=t, device="cpu"), "argument") for k, (a, t) in enumerate(arrays)
    )
    func = kernel.specialise(types).func
    known = frozenset(k for k, p in enumerate(func.params) if isinstance(p.type, ArrayType)) if packed else frozenset()
    func = Func(func.name, func.body, func.span, func.dims, {**func.attrs, "packed": known, "tight": frozenset(tight)})
    return func, LlvmBackend().compile(func)


def inputs(n, spots=40):
    rng = np.random.default_rng(SEED)
    points = rng.integers(0, spots, (n, 2)).astype(np.int32)
    room = np.zeros(spots * 3 + 8, np.float32)  # spare floats at the end, as in arrays of ours
    x = room[: spots * 3].reshape(spots, 3)
    x[:] = rng.normal(size=(spots, 3))
    w = rng.normal(size=max(spots, 8)).astype(np.float32)
    out = np.zeros((max(n, 8) + 3, 3), np.float32)  # as many as threads, and three
    out[2] = -0.0
    return [(points, int), (x, sim.vec3), (w, float), (out, sim.vec3)]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("name", KERNELS)
def test_the_bits_are_those_of_single_threads(name, packed):
    """For every number of threads: whole groups, and what remains."""
    func, code = compile_for(KERNELS[name], float32, inputs(1), packed)
    assert suits_lanes(func), name
    for n in (1, 7, 8, 9, 23, 64, 203):
        arrays = inputs(n)
        found = []
        for begin_end in ([(0, n)], [(k, k + 1) for k in range(n)], [(0, n // 2), (n // 2, n)]):
            values = [a.copy() if k == 3 else a for k, (a, _) in enumerate(arrays)]
            block = argument_block(func, (n,), values)
            for begin, end in begin_end:
                code.run(block.ctypes.data, begin, end)
            found.append(values[3].view(np.uint32))
        np.testing.assert_array_equal(found[0], found[1], err_msg=f"{name}, n={n}")
        np.testing.assert_array_equal(found[0], found[2], err_msg=f"{name}, n={n}")
        assert n < 8 or not np.array_equal(found[0], arrays[3][0].view(np.uint32))


@pytest.mark.parametrize(
    ("real", "adjoint", "names"),
    [
        (float32, False, ("distance", "bend")),
        (float32, True, ("distance", "bend")),
        (float64, True, ("distance", "contact_plane")),
    ],
)
def test_projections_and_their_adjoints_have_the_bits_of_single_threads(real, adjoint, names):
    """Constraints of different numbers of points, exclusive, forward with records and backward."""
    rng = np.random.default_rng(SEED)
    n = 29
    particle = particle_layout(real)
    for constraint in map(REGISTRY.get, names):
        kernel = make_projection(constraint, real, True, True, False, True)
        data = parameter_struct(constraint, real)()
        for p in constraint.parameters.values():
            kind = p.type(real)
            setattr(
                data,
                p.name,
                sim.array(
                    rng.uniform(0.5, 1.5, (n, *((3,) if p.kind == "vec3" else ()))), dtype=kind, requires_grad=True
                ),
            )
        count, vec = n * constraint.points, sim.vec3 if real is float32 else sim.vec3d
        rows = (constraint.rows,) if constraint.rows > 1 else ()

        def some(*shape, dtype=real):
            return sim.array(rng.uniform(0.5, 1.5, shape), dtype=dtype, requires_grad=True)

        value = real if constraint.rows == 1 else sim.types.vector(constraint.rows, real)
        k = constraint.points
        points = sim.array(rng.permutation(count).reshape(n, -1).astype(np.int32))
        args = [0, points, data, some(n, *rows, dtype=value), some(n),
                some(n, *(k,) * (k > 1), dtype=weight_type(k, real)), sim.ones(1, dtype=real),
                some(count, 3, dtype=vec), real.np.type(0.01),
                some(count, particle.size, dtype=particle.type(real)), sim.zeros(1, dtype=vec),
                sim.zeros(n, dtype=value)]  # fmt: skip
        call = bind(kernel, (n,), args, len(args), None)
        active, aliases = frozenset(call.spec.active(call.args)), call.spec.aliases(call.args)
        made = call.spec.differentiated(active, aliases)
        pair = made.adjoint(frozenset(k for k in made.tbr.cacheable if k in call.spec.writes))
        func = pair.adjoint.func if adjoint else pair.forward.func
        assert suits_lanes(func) and not late_updates(func), constraint.name
        extra = [np.zeros((slots, n), scalar.np) for scalar, slots in pair.plan.caches]
        gradients = (
            [rng.normal(size=call.args[k].numpy().shape).astype(real.np) for k in pair.plan.active] if adjoint else []
        )
        given = [a.numpy().copy() if isinstance(a, sim.array) else a for a in call.args]
        for a in extra:
            a[:] = rng.uniform(0.5, 1.5, a.shape)
        packed = frozenset(k for k, p in enumerate(func.params) if isinstance(p.type, ArrayType))
        func = Func(func.name, func.body, func.span, func.dims, {**func.attrs, "packed": packed, "tight": packed})
        asked = Emitter(func).text("f").count("call void @llvm.prefetch")  # for where the next launch will cache
        assert asked == (0 if adjoint else sum(slots for _, slots in pair.plan.caches)), constraint.name
        # one by one with indices checked, which is a body for single threads, however large the kernel
        wide, single = LlvmBackend().compile(func), LlvmBackend().compile(func, check=True)
        found = []
        for code, ranges in ((wide, [(0, n)]), (wide, [(k, k + 1) for k in range(n)]), (single, [(0, n)])):
            values = [a.copy() if isinstance(a, np.ndarray) else a for a in [*given, *gradients, *extra]]
            block = argument_block(func, (n,), values)
            for begin, end in ranges:
                code.run(block.ctypes.data, begin, end)
            found.append([v.tobytes() for v in values if isinstance(v, np.ndarray)])
        assert found[0] == found[1] == found[2], constraint.name


def test_a_long_side_is_jumped_over():
    func, _ = compile_for(seldom, float32, inputs(1))
    text = Emitter(func).text("f")
    body = text[text.index("@lanes(") : text.index("ret i1 true")]
    assert body.count("br i1") - body.count("ret i1 false") == 1 and body.count("phi <8 x float>") == 3


def test_a_side_that_stores_at_one_place_is_jumped_over():
    func, _ = compile_for(one_of_all, float32, inputs(1))
    text = Emitter(func).text("f")
    body = text[text.index("@lanes(") : text.index("ret i1 true")]
    assert body.count("br i1") - body.count("ret i1 false") == 2 and "phi" not in body


def test_nothing_is_read_behind_memory_of_others():
    """Arrays that end where a page ends, behind which reading is a fault."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert libc.mprotect(base + page, page, 0) == 0
    try:
        spots, n = 40, 50
        raw = np.frombuffer(memory, np.float32, spots * 3, page - spots * 12).reshape(spots, 3)
        arrays = inputs(n, spots)
        raw[:] = arrays[1][0]
        x = sim.array(raw, dtype=sim.vec3, copy=False)
        assert x.layout_flags & 2 and not sim.zeros(3, dtype=sim.vec3).layout_flags & 2
        points, w = sim.array(arrays[0][0]), sim.array(arrays[2][0])
        points[0] = [spots - 1, spots - 1]
        out, plain = (sim.zeros(n, dtype=sim.vec3) for _ in range(2))
        sim.launch(gather, n, [points, x, w], [out])
        sim.launch(gather, n, [points, sim.array(raw, dtype=sim.vec3), w], [plain])
        np.testing.assert_array_equal(out.numpy(), plain.numpy())
        assert np.abs(out.numpy()).max() > 0
    finally:
        libc.mprotect(base + page, page, 3)


def test_kernels_that_do_not_suit():
    """Loops, checks, and loads that may have to see what a thread has added before."""

    @sim.kernel
    def looped(x: sim.array[sim.vec3], n: int, out: sim.array[sim.vec3]):
        i = sim.tid()
        for k in range(n):
            out[i] += x[k]

    @sim.kernel
    def seen(x: sim.array[sim.vec3], n: int, out: sim.array[sim.vec3]):
        i = sim.tid()
        sim.atomic_add(out, i % n, x[i])
        out[i] = x[n]

    @sim.kernel
    def plain(x: sim.array[float], n: float, out: sim.array[float]):
        i = sim.tid()
        out[i] = x[i] * n

    x, y = sim.ones(20, dtype=sim.vec3), sim.zeros(20, dtype=sim.vec3)
    for kernel, args in ((looped, [x, 3, y]), (seen, [x, 3, y]), (plain, [sim.ones(3), 2.0, sim.zeros(3)])):
        assert not suits_lanes(bind(kernel, (3,), args, 3, None).spec.func), kernel.name
    sim.launch(looped, 20, [x, 3], [y])
    assert (y.numpy() == 3).all()


mat66d = sim.types.matrix((6, 6), float64)


@sim.kernel
def gather_large(at: sim.array[int], x: sim.array[sim.vec3d], blocks: sim.array[mat66d], out: sim.array[mat66d]):
    i = sim.tid()
    v = x[i]
    if v[0] > 0.0:  # else the dummy is read and written, all 288 bytes of it
        out[at[i]] = blocks[at[i]] * (v[1] + v[2])


@pytest.mark.parametrize("n", [1, 8, 21])
def test_elements_larger_than_a_register_or_two(n):
    rng = np.random.default_rng(SEED)
    at, x, blocks = rng.permutation(n), rng.normal(size=(n, 3)), rng.normal(size=(n, 6, 6))
    out = sim.zeros(n, mat66d)
    given = [sim.array(at.astype(np.int32)), sim.array(x, dtype=sim.vec3d), sim.array(blocks, dtype=mat66d)]
    func = bind(gather_large, (n,), [*given, out], 3, None).spec.func
    assert suits_lanes(func) and dummy_bytes(func) == 576
    sim.launch(gather_large, n, inputs=given, outputs=[out])
    expected = np.zeros((n, 6, 6))
    taken = x[:, 0] > 0
    expected[at[taken]] = blocks[at[taken]] * (x[taken, 1] + x[taken, 2])[:, None, None]
    np.testing.assert_array_equal(out.numpy(), expected)


@pytest.mark.parametrize("real", [float32, float64])
@pytest.mark.parametrize("size", range(2, 14))
def test_sums_at_elements_of_any_length(size, real):
    """Whole rows of four, pairs of them, and what is left."""
    kind, pair = sim.types.vector(size, real), sim.types.vector(2, real)

    @sim.kernel
    def add(at: sim.array2d[int], x: sim.array[kind], y: sim.array[pair], out: sim.array[kind]):
        i = sim.tid()
        v = y[i]
        sim.atomic_add(out, at[i, 0], v[0] * v[1] * x[i])

    add.exclusive = frozenset(("out",))  # no two threads add to one element
    rng = np.random.default_rng(SEED)
    at, x, y = rng.permutation(19).astype(np.int32), *(rng.normal(size=(19, n)).astype(real.np) for n in (size, 2))
    out = sim.ones(19, kind)
    given = [sim.array(at[:, None]), sim.array(x, dtype=kind), sim.array(y, dtype=pair), out]
    assert suits_lanes(bind(add, (19,), given, 4, None).spec.func)
    sim.launch(add, 19, given)
    expected = np.ones((19, size), real.np)
    expected[at] += y[:, :1] * y[:, 1:] * x
    np.testing.assert_array_equal(out.numpy(), expected)


@pytest.mark.parametrize("real", [float32, float64])
@pytest.mark.parametrize("size", [4, 8])
def test_what_is_added_here_and_subtracted_there(size, real):
    """Threes of numbers, each beside a fourth that stays what it is."""
    kind, vec = sim.types.vector(size, real), sim.types.vector(3, real)

    @sim.kernel
    def share(at: sim.array2d[int], x: sim.array[vec], out: sim.array[kind]):
        i = sim.tid()
        v = x[at[i, 1]]
        if size == 4:
            out[at[i, 0]] += kind(-v[0], -v[1], -v[2], 0.0)
            out[at[i, 1]] += kind(v[0], v[1], v[2], 0.0)
        else:
            out[at[i, 0]] += kind(-v[0], -v[1], -v[2], 0.0, -v[0], -v[1], -v[2], 0.0)
            out[at[i, 1]] += kind(v[0], v[1], v[2], 0.0, v[0], v[1], v[2], 0.0)

    share.exclusive = frozenset(("out",))
    rng = np.random.default_rng(SEED)
    at, x = rng.permutation(38).astype(np.int32).reshape(19, 2), rng.normal(size=(38, 3)).astype(real.np)
    before = rng.normal(size=(38, size)).astype(real.np)
    before[::3, 3::4], before[1::3, 3::4] = np.inf, -0.0
    out = sim.array(before, dtype=kind)
    given = [sim.array(at), sim.array(x, dtype=vec), out]
    assert "fsub" in Emitter(bind(share, (19,), given, 3, None).spec.func).text("f")
    sim.launch(share, 19, given)
    moved = np.tile(np.pad(x[at[:, 1]], ((0, 0), (0, 1))), size // 4)
    expected = before.copy()
    expected[at[:, 0]] -= moved
    expected[at[:, 1]] += moved
    np.testing.assert_array_equal(out.numpy(), expected)


def test_a_launch_of_few_threads_has_code_of_its_own_with_the_same_bits():
    """Without a body for eight threads and without vectors, which take most of the time to compile."""
    points, x, w, out = (sim.array(a, dtype=t) for a, t in inputs(20))
    found = {}
    for n in (LANES - 1, 2 * LANES):
        sim.launch(gather, dim=n, inputs=[points, x, w, out])
        found[n] = out.numpy()[: LANES - 1].copy()
        out.zero_()
    np.testing.assert_array_equal(found[LANES - 1], found[2 * LANES])
    f = bind(gather, (1,), [points, x, w, out], 4, None).spec.func
    few, many = (Emitter(Func(f.name, f.body, f.span, f.dims, {**f.attrs, "few": flag})) for flag in (True, False))
    assert "@lanes" in many.text("f") and "@lanes" not in few.text("f")
    assert few.vectors_given and "!1 = distinct !{!1, !2, !4, !5}" in few.text("f")


@sim.kernel
def large_up_to(count: sim.array[int], index: sim.array[int], x: sim.array[sim.vec3], out: sim.array[sim.vec3]):
    """So large that there is no body for single threads, and only the threads below a number do anything."""
    i = sim.tid()
    if i < count[0]:
        a = x[index[i]]
        b = a
        for _ in sim.static(range(60)):
            a, b = sim.cross(a, b) + 0.5 * a, b - 0.125 * a
        out[i] = a + b


@pytest.mark.parametrize("count", [0, 5, 16, 37])
def test_large_bodies_end_where_threads_do_nothing(count: int) -> None:
    rng, n = np.random.default_rng(SEED), 50
    x, index = rng.normal(size=(n, 3)).astype(np.float32), rng.integers(0, n, n).astype(np.int32)
    found = []
    for check in (False, True):  # with checks threads go one at a time
        out = sim.array(np.full((n, 3), 7.0), dtype=sim.vec3)
        given = [sim.array([count], dtype=int), sim.array(index, dtype=int), sim.array(x, dtype=sim.vec3)]
        sim.set_check_bounds(check)
        try:
            sim.launch(large_up_to, n, given, [out])
        finally:
            sim.set_check_bounds(False)
        found.append(out.numpy())
    np.testing.assert_array_equal(*found)
    assert (found[0][count:] == 7.0).all() and (found[0][:count] != 7.0).all()
