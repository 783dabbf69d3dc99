"""Kernels of the workflow fuzzer.  `fresh()` loads them anew, for programs that redefine what the kernels use."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from types import ModuleType

import sim

f64, vec3d = sim.float64, sim.vec3d
GAIN = 1.3
_copies = itertools.count()


@sim.func
def squash(x: f64):
    return x / (1.0 + x * x)


@sim.func
def soften(x: f64):
    return 0.7 * x - 0.1 * x * x


shape = squash


def doubled(x: f64, adj_ret: f64):
    """A custom derivative of either function: twice what it gets."""
    sim.adjoint[x] += 2.0 * adj_ret


def tripled(x: f64, adj_ret: f64):
    sim.adjoint[x] += 3.0 * adj_ret


@sim.kernel
def apply(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = GAIN * shape(x[i])


@sim.kernel
def in_place(x: sim.array[f64]):
    i = sim.tid()
    x[i] = shape(x[i]) + 0.5 * x[i]


@sim.kernel
def blend(a: sim.array[f64], b: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = a[i] * b[i] + 0.3 * y[i]


@sim.kernel
def total(x: sim.array[f64], loss: sim.array[f64]):
    i = sim.tid()
    sim.atomic_add(loss, 0, 0.5 * x[i] * x[i] + 0.3 * x[i])


@sim.kernel
def weigh(x: sim.array[vec3d], w: sim.array[vec3d], loss: sim.array[f64]):
    i = sim.tid()
    sim.atomic_add(loss, 0, sim.dot(w[i], x[i]) + 0.5 * sim.dot(x[i], x[i]))


@sim.kernel
def push(x: sim.array[vec3d], s: sim.array[f64], f: sim.array[vec3d]):
    i = sim.tid()
    f[i] = 0.2 * s[0] * x[i]


def fresh() -> ModuleType:
    """This module once more: kernels that were never launched."""
    name = f"workflow_kernels_{next(_copies)}"
    spec = importlib.util.spec_from_file_location(name, __file__)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
