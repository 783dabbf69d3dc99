"""Programs about utilities: sums, sorting, solvers, derivatives, graphs, devices (form: `functions`)."""

import numpy as np

import sim as wp
from sim import autograd, optim


def sums_and_products():
    a = wp.array(np.arange(10, dtype=np.float32) * 0.5, dtype=float)
    b = wp.array(np.ones((5, 3), dtype=np.float32) * np.float32([1, 2, 3]), dtype=wp.vec3)
    return [[wp.utils.array_sum(a), wp.utils.array_inner(a, a)], list(wp.utils.array_sum(b))]


def sums_along_an_axis():
    a = wp.array(np.arange(12, dtype=np.float64).reshape(3, 4))
    return [wp.utils.array_sum(a, axis=0).numpy(), wp.utils.array_sum(a, axis=1).numpy()]


def scans():
    a = wp.array([3, 1, 4, 1, 5], dtype=int)
    inclusive, exclusive = wp.zeros(5, dtype=int), wp.zeros(5, dtype=int)
    wp.utils.array_scan(a, inclusive, inclusive=True)
    wp.utils.array_scan(a, exclusive, inclusive=False)
    return [inclusive.numpy(), exclusive.numpy()]


def casts():
    a = wp.array([1.7, -2.7, 3.2], dtype=float)
    b, c = wp.zeros(3, dtype=int), wp.zeros(3, dtype=wp.float64)
    wp.utils.array_cast(a, b)
    wp.utils.array_cast(a, c)
    return [b.numpy(), c.numpy()]


def radix_sort():
    keys = wp.array([5, 3, -9, 1, 3, 7] + [0] * 6, dtype=int)
    values = wp.array([0, 1, 2, 3, 4, 5] + [0] * 6, dtype=int)
    wp.utils.radix_sort_pairs(keys, values, 6)
    return [keys.numpy()[:6], values.numpy()[:6]]


def segmented_sort():
    keys = wp.array([5.0, 3.0, 9.0, 1.0, 8.0, 7.0] + [0.0] * 6, dtype=float)
    values = wp.array([0, 1, 2, 3, 4, 5] + [0] * 6, dtype=int)
    wp.utils.segmented_sort_pairs(keys, values, 6, wp.array([0, 3, 6], dtype=int))
    return [keys.numpy()[:6], values.numpy()[:6]]


def run_lengths():
    values = wp.array([1, 1, 1, 4, 4, 2], dtype=int)
    runs, lengths = wp.zeros(6, dtype=int), wp.zeros(6, dtype=int)
    n = wp.utils.runlength_encode(values, runs, lengths)
    return [[n], runs.numpy()[:n], lengths.numpy()[:n]]


def adam_steps():
    x = wp.array([1.0, -2.0, 3.0], dtype=float)
    optimiser = optim.Adam([x], lr=0.1)
    for _ in range(5):
        optimiser.step([wp.array(2.0 * x.numpy(), dtype=float)])
    return [x.numpy()]


def sgd_steps():
    x = wp.array([1.0, -2.0, 3.0], dtype=float)
    optimiser = optim.SGD([x], lr=0.1, momentum=0.5, nesterov=True)
    for _ in range(5):
        optimiser.step([wp.array(2.0 * x.numpy(), dtype=float)])
    return [x.numpy()]


def jacobian_matrix():
    @wp.kernel
    def work(x: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):
        i = wp.tid()
        out[i] = x[0] * x[i] + wp.sin(x[i])

    x = wp.array([0.5, 1.5, 2.0], dtype=wp.float64, requires_grad=True)
    out = wp.zeros(3, dtype=wp.float64, requires_grad=True)
    found = autograd.jacobian(work, dim=3, inputs=[x], outputs=[out])
    near = autograd.jacobian_fd(work, dim=3, inputs=[x], outputs=[out], eps=1e-4)
    return [found[0, 0].numpy(), np.round(near[0, 0].numpy(), 4)]


def gradient_check():
    @wp.kernel
    def work(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = x[i] * x[i]

    x = wp.array([0.5, 1.5, 2.0], dtype=float, requires_grad=True)
    out = wp.zeros(3, dtype=float, requires_grad=True)
    return [[int(bool(autograd.gradcheck(work, dim=3, inputs=[x], outputs=[out], show_summary=False)))]]


def mapped_function():
    a = wp.array([1.0, 2.0, 3.0], dtype=float)
    b = wp.array([0.5, -1.0, 4.0], dtype=float)

    @wp.func
    def blend(x: float, y: float, t: float):
        return x * t + y * y

    return [wp.map(wp.sin, a).numpy(), wp.map(blend, a, b, 0.5).numpy(), wp.map(wp.clamp, b, 0.0, 1.0).numpy()]


def devices():
    d = wp.get_device("cpu")
    flags = [d.is_cpu, d.is_cuda, wp.is_cpu_available(), wp.is_device_available(d), wp.get_preferred_device() == d]
    with wp.ScopedDevice("cpu") as scoped:
        flags.append(scoped == d)
        a = wp.zeros(2)
    wp.synchronize()
    wp.synchronize_device("cpu")
    return [[int(f) for f in flags], [int(a.device == d)]]


def module_options():
    wp.set_module_options({"enable_backward": True})
    wp.load_module()
    options = wp.get_module_options()
    return [[int(options["enable_backward"])]]


def timed():
    with wp.ScopedTimer("work", active=False) as timer:
        a = wp.zeros(3, dtype=float)
    return [a.numpy(), [int(timer is not None)]]


def recorded_launch():
    @wp.kernel
    def scale(x: wp.array(dtype=float), s: float):
        i = wp.tid()
        x[i] = x[i] * s

    x = wp.array([1.0, 2.0], dtype=float)
    launch = wp.launch(scale, dim=2, inputs=[x, 2.0], record_cmd=True)
    launch.launch()
    launch.set_param_by_name("s", 3.0)
    launch.launch()
    launch.set_param_at_index(1, 5.0)
    launch.launch()
    return [x.numpy()]


def captured_graph():
    @wp.kernel
    def grow(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = x[i] * 2.0 + 1.0

    x = wp.array([1.0, 2.0], dtype=float)
    wp.load_module()
    with wp.ScopedCapture() as capture:
        wp.launch(grow, dim=2, inputs=[x])
        wp.launch(grow, dim=2, inputs=[x])
    x.assign([1.0, 2.0])
    wp.capture_launch(capture.graph)
    wp.capture_launch(capture.graph)
    return [x.numpy()]


def dlpack_to_numpy():
    a = wp.array(np.arange(6, dtype=np.float32).reshape(2, 3), dtype=float)
    b = np.from_dlpack(a)
    return [b, b.shape]
