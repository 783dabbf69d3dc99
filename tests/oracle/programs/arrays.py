"""Programs about arrays: constructors, views, copies, indexed arrays, atomics (form: `functions`)."""

import numpy as np
from oracle_helpers import values_and_gradients, values_only

import sim as wp


def from_lists():
    a = wp.array([1.0, 2.0, 3.0], dtype=float)
    b = wp.array([[1, 2], [3, 4]], dtype=wp.int32)
    c = wp.array([(1, 2, 3), (4, 5, 6)], dtype=wp.vec3)
    d = wp.array([wp.vec2(1.0, 2.0), wp.vec2(3.0, 4.0)], dtype=wp.vec2)
    e = wp.array(np.arange(4, dtype=np.float64))
    f = wp.array([[[1.0, 2.0], [3.0, 4.0]]], dtype=wp.mat22)
    return [*(x.numpy() for x in (a, b, c, d, e, f)), b.shape, c.shape, f.shape, [b.ndim, c.ndim, e.size]]


def metadata():
    a = wp.zeros((3, 4, 5), dtype=wp.vec3)
    return [a.shape, a.strides, [a.ndim, a.size, a.capacity, len(a), int(a.is_contiguous)], a[1].shape, a[:, 2].strides]


def filled():
    a = wp.full((2, 3), 7.0, dtype=float)
    b = wp.ones(3, dtype=wp.vec2)
    c = wp.full_like(b, wp.vec2(1.0, 2.0))
    a[1].fill_(3.0)
    d = wp.zeros_like(a)
    d.fill_(9.0)
    e = wp.empty_like(d)
    e.zero_()
    return [x.numpy() for x in (a, b, c, d, e)]


def slices_and_steps():
    a = wp.array(np.arange(24, dtype=np.float32).reshape(4, 6), dtype=float)
    views = [a[1:3], a[:, ::2], a[-1], a[::3], a[2, 1:4], a[1:, -2:], a[::2, 1::2]]
    return [v.numpy() for v in views] + [views[3].strides, views[6].shape]


def reshaped():
    a = wp.array(np.arange(24, dtype=np.float32), dtype=float)
    b = a.reshape((2, 3, 4))
    c = b.transpose((2, 0, 1))
    d = b.flatten()
    e = a.reshape((8, 3)).view(wp.vec3)
    f = c.contiguous()
    g = a.reshape((-1, 6))
    return [b.numpy(), c.numpy(), d.numpy(), e.numpy(), f.numpy(), g.shape, f.strides, c.strides]


def assigned_and_listed():
    a = wp.zeros((2, 2), dtype=float)
    a.assign([[1.0, 2.0], [3.0, 4.0]])
    b = wp.array([wp.vec2(1.0, 2.0)], dtype=wp.vec2)
    c = wp.zeros(4, dtype=float)
    c.assign(np.float32([4, 3, 2, 1]))
    c[1:3].fill_(9.0)
    return [a.numpy(), c.numpy(), [list(v) for v in b.list()], a.list()]


def copies():
    a = wp.array(np.arange(12, dtype=np.float32), dtype=float)
    b = wp.zeros(12, dtype=float)
    wp.copy(b, a, dest_offset=2, src_offset=5, count=4)
    c = wp.clone(a[::3])
    d = wp.zeros((3, 4), dtype=float)
    wp.copy(d.transpose(), a.reshape((4, 3)))
    return [b.numpy(), c.numpy(), d.numpy()]


def zero_size():
    a = wp.zeros(0, dtype=float)
    b = wp.zeros((3, 0), dtype=wp.vec3)
    c = wp.array([], dtype=float)

    @wp.kernel
    def work(x: wp.array(dtype=float)):
        x[wp.tid()] = 1.0

    wp.launch(work, dim=0, inputs=[a])
    return [a.numpy().shape, b.numpy().shape, [c.size]]


def four_dimensions():
    @wp.kernel
    def work(x: wp.array4d(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        part = x[i, 1]
        out[i] = x[i, 1, 0, 2] * x[i, 0, 1, 1] + part[1, 0]

    x = np.arange(24, dtype=np.float32).reshape(2, 2, 2, 3) * 0.1
    return values_and_gradients(wp, work, [x])


def negative_indices():
    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = x[-1] * x[i]

    return values_and_gradients(wp, work, [np.float32([1, 2, 3])])


def host_indexing():
    a = wp.array(np.arange(6, dtype=np.float32).reshape(2, 3), dtype=float)
    return [a[1].numpy(), [float(v) for v in a.numpy()[0]], a[1, 2:].numpy()]


def indexed_reads():
    @wp.kernel
    def work(x: wp.indexedarray(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = x[i] * 2.0

    a = wp.array(np.arange(10, dtype=np.float32), dtype=float)
    which = wp.array([7, 1, 3], dtype=int)
    picked = wp.indexedarray(a, [which])
    out = wp.zeros(3, dtype=float)
    wp.launch(work, dim=3, inputs=[picked], outputs=[out])
    return [out.numpy(), picked.numpy(), picked.shape]


def indexed_writes():
    @wp.kernel
    def work(x: wp.indexedarray2d(dtype=float)):
        i, j = wp.tid()
        x[i, j] = float(10 * i + j)

    a = wp.zeros((4, 5), dtype=float)
    rows = wp.array([3, 0], dtype=int)
    columns = wp.array([1, 4, 2], dtype=int)
    picked = wp.indexedarray(a, [rows, columns])
    wp.launch(work, dim=(2, 3), inputs=[picked])
    mixed = wp.indexedarray(a, [rows, None])
    mixed_copy = wp.clone(mixed)
    return [a.numpy(), mixed_copy.numpy(), mixed.shape]


def indexed_by_subscript():
    a = wp.array(np.arange(10, dtype=np.float32), dtype=float)
    which = wp.array([7, 1, 3], dtype=int)
    b = a[which]
    b.fill_(-1.0)
    return [a.numpy(), b.shape]


def indexed_copy():
    a = wp.array(np.arange(10, dtype=np.float32), dtype=float)
    picked = wp.indexedarray(a, [wp.array([9, 8, 0], dtype=int)])
    out = wp.zeros(3, dtype=float)
    wp.copy(out, picked)
    wp.copy(picked, wp.array([5.0, 6.0, 7.0], dtype=float))
    return [out.numpy(), a.numpy()]


def from_pointer():
    host = np.arange(6, dtype=np.float32)
    a = wp.array(ptr=host.ctypes.data, dtype=float, shape=(2, 3), capacity=host.nbytes, device="cpu")
    b = wp.array(host, dtype=float, copy=False, device="cpu")
    host[4] = 50.0
    return [a.numpy(), b.numpy()]


def from_numpy_types():
    out = []
    for kind in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"):
        a = wp.array(np.array([1, 2, 3], dtype=kind))
        out += [a.numpy(), [a.numpy().dtype.itemsize]]
    return out


def structured_array():
    @wp.struct
    class Row:
        a: wp.int32
        x: wp.vec2

    rows = np.zeros(3, dtype=Row.numpy_dtype())
    rows["a"] = [1, 2, 3]
    rows["x"] = np.arange(6).reshape(3, 2)

    @wp.kernel
    def work(r: wp.array(dtype=Row), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = r[i].x[1] * float(r[i].a)

    out = wp.zeros(3, dtype=float)
    wp.launch(work, dim=3, inputs=[wp.array(rows, dtype=Row)], outputs=[out])
    return [out.numpy()]


def gradient_of_views():
    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = x[i] * x[i]

    a = wp.array(np.arange(12, dtype=np.float32).reshape(3, 4), dtype=float, requires_grad=True)
    out = wp.zeros(3, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(work, dim=3, inputs=[a.transpose()[1]], outputs=[out])
    tape.backward(grads={out: wp.array([1.0, 2.0, 3.0], dtype=float)})
    return [out.numpy(), a.grad.numpy()]


def gradient_of_copies():
    a = wp.array([1.0, 2.0, 3.0, 4.0], dtype=float, requires_grad=True)
    b = wp.zeros(4, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.copy(b, a, dest_offset=1, src_offset=0, count=3)
        c = wp.clone(b)
    tape.backward(grads={c: wp.array([1.0, 2.0, 3.0, 4.0], dtype=float)})
    return [c.numpy(), a.grad.numpy()]


def accumulated_gradients():
    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        wp.atomic_add(out, 0, x[i] * x[i])

    a = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(work, dim=3, inputs=[a], outputs=[loss])
    tape.backward(loss)
    first = a.grad.numpy().copy()
    tape.zero()
    return [loss.numpy(), first, a.grad.numpy(), tape.gradients[a].numpy()]


def chain_of_launches():
    @wp.kernel
    def step(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), dt: float, y: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        y[i] = x[i] + dt * v[i] - dt * wp.cross(x[i], v[i])

    states = [wp.array(np.float32([[1, 2, 3], [0, 1, 0]]), dtype=wp.vec3, requires_grad=True)]
    v = wp.array(np.float32([[0, 1, 0], [1, 1, 0]]), dtype=wp.vec3, requires_grad=True)
    tape = wp.Tape()
    with tape:
        for _ in range(4):
            states.append(wp.zeros(2, dtype=wp.vec3, requires_grad=True))
            wp.launch(step, dim=2, inputs=[states[-2], v, 0.1], outputs=[states[-1]])
    tape.backward(grads={states[-1]: wp.array(np.float32([[1, 0, 2], [0, 1, 1]]), dtype=wp.vec3)})
    return [states[-1].numpy(), states[0].grad.numpy(), v.grad.numpy()]


def atomics_of_numbers():
    @wp.kernel
    def work(x: wp.array(dtype=int), out: wp.array(dtype=int)):
        i = wp.tid()
        wp.atomic_add(out, 0, x[i])
        wp.atomic_sub(out, 1, x[i])
        wp.atomic_min(out, 2, x[i])
        wp.atomic_max(out, 3, x[i])
        wp.atomic_and(out, 4, x[i])
        wp.atomic_or(out, 5, x[i])
        wp.atomic_xor(out, 6, x[i])

    x = wp.array([12, 7, -3, 40], dtype=int)
    out = wp.full(7, 5, dtype=int)
    wp.launch(work, dim=4, inputs=[x], outputs=[out])
    return [out.numpy()]


def atomics_that_exchange():
    @wp.kernel
    def work(out: wp.array(dtype=int), seen: wp.array(dtype=int)):
        seen[0] = wp.atomic_cas(out, 0, 5, 9)
        seen[1] = wp.atomic_cas(out, 0, 5, 11)
        seen[2] = wp.atomic_exch(out, 1, 7)

    out = wp.full(2, 5, dtype=int)
    seen = wp.zeros(3, dtype=int)
    wp.launch(work, dim=1, inputs=[out], outputs=[seen])
    return [out.numpy(), seen.numpy()]


def atomics_of_vectors():
    @wp.kernel
    def work(x: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        wp.atomic_add(out, i % 2, x[i])
        wp.atomic_max(out, 2, x[i])

    x = wp.array(np.float32([[1, 2, 3], [4, 5, -6], [0.5, 9, 1]]), dtype=wp.vec3)
    out = wp.zeros(3, dtype=wp.vec3)
    wp.launch(work, dim=3, inputs=[x], outputs=[out])
    return [out.numpy()]


def lower_bounds():
    @wp.kernel
    def work(x: wp.array(dtype=float), sorted_values: wp.array(dtype=float), out: wp.array(dtype=int)):
        i = wp.tid()
        out[i] = wp.lower_bound(sorted_values, x[i]) * 100 + wp.lower_bound(sorted_values, 1, 4, x[i])

    return values_only(wp, work, [np.float32([-1, 0.5, 2, 9]), np.float32([0, 1, 2, 3, 5])], wp.int32)


def cumulative_sampling():
    @wp.kernel
    def work(cdf: wp.array(dtype=float), out: wp.array(dtype=int)):
        i = wp.tid()
        state = wp.rand_init(3, i)
        out[i] = wp.sample_cdf(state, cdf)

    out = wp.zeros(20, dtype=int)
    wp.launch(work, dim=20, inputs=[wp.array([0.1, 0.3, 0.7, 1.0], dtype=float)], outputs=[out])
    return [out.numpy()]


def array_of_matrices():
    @wp.kernel
    def work(m: wp.array(dtype=wp.mat33), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = m[i][0, 1] * m[i][2, 2] + wp.trace(m[i])

    x = np.arange(18, dtype=np.float32).reshape(2, 3, 3)
    return values_and_gradients(wp, work, [x], types=[wp.mat33])


def stores_of_components():
    @wp.kernel
    def work(x: wp.array(dtype=float), v: wp.array(dtype=wp.vec3), m: wp.array(dtype=wp.mat22)):
        i = wp.tid()
        v[i][1] = x[i]
        v[i].z = x[i] * 2.0
        v[i][0] += 5.0
        m[i][1, 0] = x[i]

    v = wp.ones(2, dtype=wp.vec3)
    m = wp.zeros(2, dtype=wp.mat22)
    wp.launch(work, dim=2, inputs=[wp.array([3.0, 4.0], dtype=float), v, m])
    return [v.numpy(), m.numpy()]


def vectors_as_integers():
    x = wp.array(np.float32([[1.0, -2.0, 0.5], [0.0, 3.0, 1e-3]]), dtype=wp.vec3)
    bits = x.view(wp.uint32)
    return [
        bits.numpy().astype(np.int64),
        bits.view(wp.vec3).numpy(),
        wp.array([0, 2**63 + 1], dtype=wp.uint64).numpy() % 1000,
    ]
