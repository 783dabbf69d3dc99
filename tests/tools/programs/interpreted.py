"""Kernels and functions of tests, traced and run by the reference interpreter; names of the language for them."""

from __future__ import annotations

import numpy as np

from sim.core.backends.base import argument_block
from sim.core.backends.interp import InterpBackend, evaluate
from sim.core.lang import library  # noqa: F401 registers operators and functions
from sim.core.lang.frontend.source import signature
from sim.core.lang.frontend.tracer import trace_function, trace_kernel
from sim.core.lang.frontend.tracing.registry import NAMES
from sim.core.lang.ir.verifier import verify
from sim.core.lang.types import float32, named_types

N = named_types()
vec2, vec3, vec4, mat22, mat33, quat, transform = (N[k] for k in "vec2 vec3 vec4 mat22 mat33 quat transform".split())
vec3d, mat33d = N["vec3d"], N["mat33d"]
tid, atomic_add, atomic_sub, atomic_min, atomic_max, atomic_exch, where, static, rolled, printf = (
    NAMES[k] for k in "tid atomic_add atomic_sub atomic_min atomic_max atomic_exch where static rolled printf".split()
)
dot, cross, cw_mul, length = (NAMES[k] for k in "dot cross cw_mul length".split())


def run(kernel, dims, *args, types=None, order=None):
    """Traces a kernel for its annotations, runs it on NumPy arrays, in place."""
    kinds = types or [p.type for p in signature(kernel)]
    traced = verify(trace_kernel(kernel, kinds))
    dims = dims if isinstance(dims, tuple) else (dims,)
    block = argument_block(traced, dims, args)
    InterpBackend().compile(traced, check=True).run(block.ctypes.data, 0, int(np.prod(dims)))
    return traced


def call(function, kinds, *args, real=float32):
    """What a function of the language returns, a tuple; `real`: what `float` means in it."""
    return evaluate(verify(trace_function(function, kinds, real)), *args)


def evaluated(function, kinds=(), *args):
    """What a function of the language returns: a list, or what it holds where that is one."""
    found = evaluate(verify(trace_function(function, kinds)), *args)
    return list(found) if len(found) > 1 else found[0]
