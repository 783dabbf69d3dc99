"""What the programs of this folder share.  It imports neither package: `wp` is the one that runs."""

import re

import numpy as np


def values_and_gradients(wp, kernel, inputs, types=(), out=None):
    """Launch `kernel(*inputs, out)` with a thread per row of the first array, and go back from a weighted sum of `out`.

    Arrays are taken as NumPy's, with the dtype in `types` where that is a vector or matrix.
    Returns `out` and the gradients of all floating inputs.
    """
    arrays, arguments, n = [], [], 0
    for k, value in enumerate(inputs):
        if isinstance(value, np.ndarray):
            n = n or len(value)
            kind = types[k] if k < len(types) and types[k] is not None else getattr(wp, value.dtype.name)
            value = wp.array(value, dtype=kind, requires_grad=value.dtype.kind == "f")
            arrays += [value] * bool(value.requires_grad)
            out = out or (wp.float64 if value.numpy().dtype == np.float64 else wp.float32)
        arguments.append(value)
    result = wp.zeros(n, dtype=out, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(kernel, dim=n, inputs=arguments, outputs=[result])
    weights = (np.arange(result.numpy().size) * 0.5 + 1.0) * np.resize([1.0, -1.0], result.numpy().size)
    seed = wp.array(weights.reshape(result.numpy().shape).astype(result.numpy().dtype), dtype=out)
    tape.backward(grads={result: seed})
    return [result.numpy(), *(a.grad.numpy() for a in arrays)]


def values_only(wp, kernel, inputs, out):
    """As `values_and_gradients`, with arrays of numbers, and without gradients."""
    n = next((len(v) for v in inputs if isinstance(v, np.ndarray)), 1)
    result = wp.zeros(n, dtype=out)
    arguments = [wp.array(v, dtype=getattr(wp, v.dtype.name)) if isinstance(v, np.ndarray) else v for v in inputs]
    wp.launch(kernel, dim=n, inputs=arguments, outputs=[result])
    return [result.numpy()]


def plain_values(wp, kernel, inputs, types, out):
    """As `values_and_gradients`, without gradients."""
    result = wp.zeros(len(inputs[0]), dtype=out)
    arguments = [wp.array(value, dtype=kind) for value, kind in zip(inputs, types, strict=True)]
    wp.launch(kernel, dim=len(inputs[0]), inputs=arguments, outputs=[result])
    return [result.numpy()]


def text_numbers(text):
    """The numbers that a text shows, one after the other."""
    return [float(x) for x in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", text)]


def random_values(numpy_type, parts, low, high, seed, n=3):
    """`n` values of `parts` (a shape) numbers; for "quat" and "transform" with rotations of length 1."""
    r = np.random.default_rng(seed)
    kind = np.dtype(numpy_type)
    shape = (n, *({"quat": (4,), "transform": (7,)}.get(parts, parts)))
    if kind.kind in "iu":
        return r.integers(int(low), int(high), shape, endpoint=True, dtype=np.int64).astype(kind)
    values = r.uniform(low, high, shape)
    if parts in ("quat", "transform"):
        values[:, -4:] /= np.linalg.norm(values[:, -4:], axis=1, keepdims=True)
    return values.astype(kind)
